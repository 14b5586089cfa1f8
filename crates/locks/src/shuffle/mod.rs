//! Shuffle locks: waiters reorder the queue while they wait.

pub mod shfllock;
