//! Reads what the preload library notes of a traced program: which objects threads wait for, and who holds them.
//!
//! [`SharedFile`] is the file between both sides, [`ring::Reader`] reads its records, [`Gathered`] unwinds the copied
//! stacks in them and sums up in bounded memory, [`Report`] is the result with names, and [`export`] writes it for
//! other programs. [`whatif`] makes experiments instead.

// Mapping a file is the one thing that takes unsafe code here.
#![deny(unsafe_code)]

pub mod attach;
mod demangle;
pub mod export;
mod gather;
mod histogram;
mod image;
pub mod lines;
pub mod live;
mod maps;
pub mod names;
mod object;
mod orders;
mod origin;
mod process;
pub mod report;
pub mod ring;
mod session;
mod shared;
mod stacks;
mod sums;
#[cfg(test)]
mod tests;
mod threads;
pub mod whatif;

pub use gather::Gathered;
pub use names::Names;
pub use report::Report;
pub use session::Session;
pub use shared::{Settings, SharedFile};
