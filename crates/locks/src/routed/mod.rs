//! Routed locks: the lock travels along a route through all CPUs (RON).

pub mod plock;
pub mod ron;
pub mod shared;
pub mod stop;
pub mod ticket;
