//! Errors as users see them: what and where, then the remedy.

use std::fmt;
use std::io;
use std::process::ExitCode;

use lockswap_workloads::invalid::Invalid;

/// Exit status for wrong usage, as clap has it.
pub const USAGE: u8 = 2;

/// An error whose remedy is known.
#[derive(Debug)]
pub struct UserError {
    what: String,
    remedy: String,
    status: u8,
}

impl UserError {
    /// An error that ends the command with status 1.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into(), status: 1 }
    }

    /// The same with another exit status.
    pub fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }
}

impl From<Invalid> for UserError {
    /// Wrong usage: something in the arguments cannot be used.
    fn from(invalid: Invalid) -> Self {
        Self::new(invalid.what, invalid.remedy).with_status(USAGE)
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for UserError {}

/// Prints an error and gives the exit status that goes with it.
pub fn report(error: &anyhow::Error) -> ExitCode {
    let broken_pipe = |e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe;
    if error.chain().any(|cause| cause.downcast_ref().is_some_and(broken_pipe)) {
        // Who read our output wanted no more of it: not an error of anybody's.
        return ExitCode::SUCCESS;
    }
    let mut text = format!("error: {error:#}\n");
    let known = error.downcast_ref::<UserError>();
    if let Some(known) = known {
        text += &format!("  remedy: {}\n", known.remedy);
    }
    // Stderr may be closed; there is nowhere else to complain.
    let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
    ExitCode::from(known.map_or(1, |k| k.status))
}
