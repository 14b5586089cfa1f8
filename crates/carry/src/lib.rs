//! The preload library as a command carries it: its bytes are in the command's own file, and programs load it from a file that
//! is unpacked here, in a folder that nobody else can write to.

#![forbid(unsafe_code)]

pub mod folder;
mod library;
pub mod seccomp;

pub use library::{Library, NoFolder, Unpacked, FILE_PREFIX};
