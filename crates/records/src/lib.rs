//! The layout of what the preload library records in files for the command: calls ([`counters`]), the latencies of
//! epochs ([`latency`]), the waits and holds of a traced program ([`trace`]), and what an experiment on one shares
//! ([`whatif`]).
#![no_std]

pub mod counters;
pub mod latency;
pub mod trace;
pub mod whatif;
