//! NUMA-aware locks: waiters of the holder's node go first, within bounds.

pub mod cna;
pub mod hbo;
pub mod hticket;
