//! NUMA-aware locks: waiters of the holder's node go first, within bounds.

pub mod ahmcs;
pub mod cna;
pub mod cna_opt;
pub mod cohort;
pub mod fissile;
pub mod hbo;
pub mod hmcs;
pub mod hticket;

/// Entries of a lock that has one for each NUMA node. Where a machine has more nodes, several share an entry.
pub const ENTRIES: usize = 8;
