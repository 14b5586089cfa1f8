//! Proof of the locks: the same source as on hardware, on machines that go through all executions.
//!
//! A failed execution is left by unwinding. Where a profile says `panic = "abort"` this crate is empty, and the
//! command says how to build it.

#[cfg(panic = "unwind")]
pub mod explore;
#[cfg(panic = "unwind")]
pub mod mutation;
#[cfg(panic = "unwind")]
pub mod runner;
#[cfg(panic = "unwind")]
pub mod source;
#[cfg(panic = "unwind")]
pub mod subjects;
#[cfg(panic = "unwind")]
pub mod survivors;
#[cfg(panic = "unwind")]
pub mod weak;
