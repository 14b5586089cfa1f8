//! Why there is nothing to say about a program.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a program cannot be examined. Names are written as they are, with all characters that they hold.
#[derive(Debug)]
pub enum Error {
    /// There is no such program.
    NotFound(OsString),
    /// The file cannot be read.
    CannotRead(PathBuf, io::Error),
    /// A script's interpreter is not there.
    NoInterpreter {
        /// The script.
        script: PathBuf,
        /// What its first line names.
        interpreter: OsString,
    },
    /// A script is run by a script, which is run by a script and so on, more often than the kernel follows.
    TooManyScripts(PathBuf),
}

impl Error {
    /// What a user can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Error::NotFound(_) => "give its path, or add its folder to PATH",
            Error::CannotRead(..) => "name a program file that you may read",
            Error::NoInterpreter { .. } => "install the interpreter or correct the #! line",
            Error::TooManyScripts(_) => "name the program itself",
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotFound(name) => write!(f, "{}: not found", name.to_string_lossy()),
            Error::CannotRead(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Error::NoInterpreter { script, interpreter } => {
                let interpreter = interpreter.to_string_lossy();
                write!(f, "{} is a script for {interpreter}, which is not found", script.display())
            }
            Error::TooManyScripts(path) => write!(f, "{}: too many scripts that run one another", path.display()),
        }
    }
}

impl std::error::Error for Error {}
