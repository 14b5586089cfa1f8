//! The simulated machine: locks run on hardware that is only described, in virtual time.
//!
//! [`Sim`] implements [`lockswap_platform::Platform`], so that the shipped source of a lock runs unchanged. A [`Machine`]
//! is read from a TOML file. `docs/simulator.md` says what the model knows and what it does not.

pub mod body;
mod engine;
mod machine;
mod platform;

pub use engine::{Stuck, Totals};
pub use machine::{Invalid, Machine, Ps};
pub use platform::{run, work, Sim};
