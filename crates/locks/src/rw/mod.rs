//! Read-write locks.

pub mod rw_futex;
