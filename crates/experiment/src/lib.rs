//! Experiments with the locks themselves: workloads on this machine, and on simulated ones.
//!
//! - [`hardware`] measures on this machine.
//! - [`results`] is the form in which both give their results.

#![forbid(unsafe_code)]

pub mod hardware;
pub mod results;
