//! What the machine is like: its topology, the kinds of its cores, the time a cache line takes from one core to another,
//! and the shortest round trip through them.
//!
//! Without the feature `std` there is what the preload library needs when a program starts: reading the topology and a
//! stored route, into memory that the caller provides.
//!
//! - [`files`] reads the machine's description, sysfs, from any folder; [`captured`] is one kept in a text;
//! - [`topology`] is what was read, [`kinds`] sorts the CPUs into fast and slow ones;
//! - [`places`] turns it into what locks ask for: which CPUs count as near each other, and which are big.
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "std")]
pub mod captured;
pub mod cpuset;
pub mod files;
pub mod kinds;
pub mod places;
pub mod topology;
