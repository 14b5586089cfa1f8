//! Loom's machine: every execution of a few threads that the C11 memory model allows (loom implements Norris, Demsky:
//! OOPSLA 2013), within loom's own limits. [`search`] goes through them.

mod awaits;
mod memory;
mod newest;
mod platform;
mod search;
mod settling;
mod threads;
mod words;

pub use platform::Weak;
pub use search::{explore, Report};
pub use threads::Modelled;
