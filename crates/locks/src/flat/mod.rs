//! Flat locks: all waiters watch the lock itself, or a table of places to watch.

pub mod backoff;
pub mod futex;
pub mod mutexee;
pub mod partitioned;
pub mod ticket;
pub mod ttas;
pub mod twa;

/// What one pause instruction is taken for where a published back-off is given in cycles: processors take 10 to 140.
pub const CYCLES_PER_PAUSE: u32 = 40;
