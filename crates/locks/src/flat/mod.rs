//! Flat locks: all waiters watch the lock itself.

pub mod backoff;
pub mod futex;
pub mod ticket;
pub mod ttas;
