//! Whether the preload library can work: on this machine, and on a program, which is read and never run.
//!
//! [`Image`] is what an ELF file says about itself, [`closure`] finds the libraries that the dynamic loader brings in
//! with it, [`here`] looks at this machine, [`examine`] at a program, and [`Report`] puts both together.
//! [`executable`] finds the file that the processes of a program run.

#![forbid(unsafe_code)]

mod closure;
mod error;
mod executable;
mod file;
mod here;
mod image;
mod linking;
mod program;
mod replaced;
mod report;
mod sanitizer;
mod script;

pub use closure::{closure, Loaded};
pub use error::Error;
pub use executable::{executable, NotExecutable};
pub use file::read_program;
pub use here::here;
pub use image::{Image, Unreadable};
pub use program::{examine, Examined, Imports, Prospect};
pub use replaced::Replaced;
pub use report::{Finding, Report, Status};
