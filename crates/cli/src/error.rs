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

    /// The same with one more thing that may help.
    pub fn or_else(self, remedy: &str) -> Self {
        Self { remedy: format!("{}; {remedy}", self.remedy), ..self }
    }

    /// What is wrong, and the remedy.
    pub fn words(&self) -> (String, String) {
        (self.what.clone(), self.remedy.clone())
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

impl From<lockswap_machine::Error> for UserError {
    fn from(error: lockswap_machine::Error) -> Self {
        use lockswap_machine::{Error, CPUS};
        let what = error.to_string();
        match error {
            Error::Unreadable { .. } => {
                UserError::new(what, format!("name a copy of /sys that holds {CPUS}, see 'lockswap topo --help'"))
            }
            Error::Setting { name, .. } => UserError::new(what, format!("change or unset {name}")).with_status(USAGE),
            Error::NoBig { .. } => UserError::new(what, "name some of them, or unset LOCKSWAP_BIG").with_status(USAGE),
        }
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
    let known = known(error);
    if let Some((remedy, _)) = &known {
        text += &format!("  remedy: {remedy}\n");
    }
    // Stderr may be closed; there is nowhere else to complain.
    let _ = io::Write::write_all(&mut io::stderr(), text.as_bytes());
    ExitCode::from(known.map_or(1, |(_, status)| status))
}

/// The remedy of an error that has one, and the exit status. The libraries' own errors reach this place, too.
fn known(error: &anyhow::Error) -> Option<(String, u8)> {
    let parts = |error: UserError| (error.remedy, error.status);
    let invalid = || error.downcast_ref::<Invalid>().cloned().map(UserError::from);
    let machine = || error.downcast_ref::<lockswap_machine::Error>().cloned().map(UserError::from);
    match error.downcast_ref::<UserError>() {
        Some(known) => Some((known.remedy.clone(), known.status)),
        None => invalid().or_else(machine).map(parts),
    }
}
