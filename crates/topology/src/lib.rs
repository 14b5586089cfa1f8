//! The machine's topology and the kinds of its cores, read from sysfs, and what locks are told of it.
//!
//! - [`files`] reads the machine's description, sysfs, from any folder;
//! - [`topology`] is what was read, [`kinds`] sorts the CPUs into fast and slow ones;
//! - [`places`] turns it into what locks ask for: which CPUs count as near each other, and which are big;
//! - [`order`] is a route through the CPUs along the topology, [`stored`] one that was measured and kept in a file;
//! - [`shared`] is the file in which the command keeps that up to date for a program that runs.
//!
//! Nothing here allocates, uses `std` or changes `errno`: the preload library reads the machine when a program starts.
//! What else there is to know about a machine is in `lockswap-machine`, which has all this, too.
#![no_std]

#[cfg(test)]
extern crate std;

pub mod cpuset;
pub mod files;
pub mod kinds;
pub mod order;
pub mod places;
pub mod shared;
pub mod stored;
pub mod topology;
