//! Locks that share their time out among threads.

pub mod u_scl;
