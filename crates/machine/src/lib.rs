//! What the machine is like: its topology, the kinds of its cores, the time a cache line takes from one core to another,
//! and the shortest round trip through them.
//!
//! Without the feature `std` there is what the preload library needs when a program starts: reading the topology and a
//! stored route, into memory that the caller provides.
#![cfg_attr(not(feature = "std"), no_std)]
