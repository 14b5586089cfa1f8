//! Experiments with the locks themselves: workloads on this machine, and on simulated ones.
//!
//! - [`results`] is the form in which both give their results.

#![forbid(unsafe_code)]

pub mod results;
