//! Shuffle locks: waiters reorder the queue while they wait.

pub mod blocking;
pub mod policy;
pub mod proportional;
pub mod shfllock;
