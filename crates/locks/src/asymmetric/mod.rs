//! Locks for machines whose cores differ: big cores may overtake little ones (LibASL).

pub mod epoch;
pub mod libasl;
pub mod stand_back;
