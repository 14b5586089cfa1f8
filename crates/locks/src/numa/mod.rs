//! NUMA-aware locks: waiters of the holder's node go first, within bounds.

pub mod ahmcs;
pub mod cna;
pub mod cohort;
pub mod fissile;
pub mod hmcs;
pub mod partitioned_global;

/// Entries of a lock that has one for each NUMA node. Where a machine has more nodes, several share an entry.
pub const ENTRIES: usize = 8;

/// A cache line of its own.
#[repr(C, align(64))]
struct Line<T>(T);
