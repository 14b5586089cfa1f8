//! Experiments on this machine: what locks do behind the pthread functions, each measured in a process of its own.
//!
//! - [`child`] starts measuring processes; [`job`] is what they do, and [`places`] what they know about the machine;
//!   [`program`] lets one run a real program.
//! - [`series`] makes rounds of measurements in random order and compares the locks of each round.
//! - [`single`], [`workloads`] and [`epochs`] say what the parts of `lockswap bench` measure, and have its tables,
//!   made with [`page`]; [`simulator`] measures the simulator.
//! - [`torture`] tests locks, one process each.
//!
//! Whoever uses this brings what it cannot know: the program that has the subcommands of [`child`], and the
//! environment that puts a process on a lock.

pub mod child;
pub mod epochs;
pub mod job;
pub mod page;
pub mod places;
pub mod program;
pub mod series;
pub mod simulator;
pub mod single;
pub mod torture;
pub mod workloads;
