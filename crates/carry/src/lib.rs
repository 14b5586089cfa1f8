//! What a command hands to the programs that it starts.
//!
//! - [`Library`] is the preload library: its bytes are in the command's own file, and programs load it from a file
//!   that is unpacked here, in a [`folder`] that nobody else can write to;
//! - [`seccomp`] finds out whether their waiting threads may yield;
//! - [`Watch`] keeps what locks are told about the CPUs up to date while they run.

#![forbid(unsafe_code)]

pub mod folder;
mod library;
pub mod seccomp;
mod watch;

pub use library::{Library, NoFolder, Unpacked, FILE_PREFIX};
pub use watch::Watch;
