//! Locks for machines whose cores differ: big cores may overtake little ones (LibASL).

pub mod epoch;
pub mod latency;
pub mod libasl;
