//! The layout of what the preload library records in files for the command: calls ([`counters`]), and the latencies of
//! epochs ([`latency`]).
#![no_std]

pub mod counters;
pub mod latency;
