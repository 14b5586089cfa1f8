//! The simulated machine: locks run on hardware that is only described, in virtual time.
//!
//! [`Sim`] implements [`lockswap_platform::Platform`], so that the shipped source of a lock runs unchanged. A
//! [`Machine`] is read from a TOML file; a [`Job`] runs a workload of `lockswap-workloads` on it. `docs/simulator.md`
//! says what the model knows and what it does not.

mod coroutines;
mod crew;
mod engine;
mod epochs;
#[cfg(panic = "unwind")]
pub mod explore;
pub mod glibc;
pub mod host;
mod job;
pub mod kernel;
mod machine;
mod platform;
mod word;

pub use crew::{attempt, Simulated};
pub use engine::{Stuck, Totals};
pub use job::{cpu_time, find_lock, locks, read_lock, Failure, Finished, Job};
pub use lockswap_workloads::workload::Workload;
pub use machine::{Invalid, Machine, Ps};
pub use platform::Sim;
