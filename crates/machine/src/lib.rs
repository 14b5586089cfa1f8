//! What the machine is like: its topology, the kinds of its cores, the time a cache line takes from one core to another,
//! and the shortest round trip through them.
//!
//! Without the feature `std` there is what the preload library needs when a program starts: reading the topology and a
//! stored route, into memory that the caller provides.
//!
//! - [`files`] reads the machine's description, sysfs, from any folder; [`captured`] is one kept in a text;
//! - [`cgroup`] reads to which CPUs a control group confines a process;
//! - [`topology`] is what was read, [`kinds`] sorts the CPUs into fast and slow ones;
//! - [`matrix`] holds the latency between each two CPUs, [`route`] finds the shortest round trip in it;
//! - [`places`] turns it into what locks ask for: which CPUs count as near each other, and which are big.
#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "std")]
pub mod captured;
#[cfg(feature = "std")]
pub mod cgroup;
pub mod cpuset;
pub mod files;
pub mod kinds;
#[cfg(feature = "std")]
pub mod matrix;
pub mod places;
#[cfg(feature = "std")]
pub mod route;
pub mod topology;
