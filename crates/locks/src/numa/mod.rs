//! NUMA-aware locks: waiters of the holder's node go first, within bounds.

pub mod ahmcs;
pub mod cna;
pub mod cna_opt;
pub mod cohort;
pub mod fissile;
pub mod hbo;
pub mod hmcs;
pub mod hticket;
pub mod level;

/// Entries of a lock that has one for each locality group. Where a machine has more groups, neighbours share an entry,
/// because [`Platform::node`] numbers groups so that those with the same remainder are neighbours.
///
/// [`Platform::node`]: lockswap_platform::Platform::node
pub const ENTRIES: usize = 8;
const _: () = assert!(ENTRIES.is_power_of_two() && ENTRIES as u32 >= lockswap_platform::FEWEST_ENTRIES);
