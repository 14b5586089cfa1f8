//! Readers that other crates can call; docs/fuzzing.md lists them all.

mod machine;
mod platform;
mod preload;
mod simulator;
mod workloads;
mod written;
