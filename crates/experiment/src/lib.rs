//! Experiments with the locks themselves: workloads on this machine, and on simulated ones.
//!
//! - [`hardware`] measures on this machine.
//! - [`drawn`] draws ratios to a baseline.
//! - [`results`] is the form in which both give their results.

#![forbid(unsafe_code)]

pub mod drawn;
pub mod hardware;
pub mod results;
