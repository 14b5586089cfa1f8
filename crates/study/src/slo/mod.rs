//! A latency target for an epoch: what each one costs in latency and brings in throughput (LibASL, PPoPP 2022, section
//! 3).

pub mod curve;
pub mod draw;
pub mod measure;
pub mod report;
