//! Experiments with the locks themselves: workloads on this machine, and on simulated ones.
//!
//! - [`hardware`] measures on this machine.
//! - [`results`] is the form in which both give their results.
//! - [`simulated`] runs sweeps on simulated machines and draws them; [`claims`] runs what papers claim.
//! - [`regret`] is how far a lock stays behind the best one of each setting, on both.
//! - [`host`] is the simulated machine that resembles this one, and [`validate`] compares the two.
//!
//! Whoever calls says how runs are made in processes of their own, and is told how far they are.

#![forbid(unsafe_code)]

pub mod claims;
pub mod hardware;
pub mod host;
pub mod regret;
pub mod results;
pub mod simulated;
pub mod validate;

/// Who is told how far a long experiment is.
pub trait Progress {
    /// There are so many more steps than was known before.
    fn expect(&self, steps: u64);
    /// Something begins, in words.
    fn begins(&self, what: &str);
    /// A step has been made.
    fn done(&self);
}
