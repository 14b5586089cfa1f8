//! `--only`: the one executable that gets the chosen locks.

use std::ffi::OsString;

use lockswap_inspect::executable;

use crate::error::{UserError, USAGE};

/// The option.
#[derive(clap::Args)]
pub struct OnlyArgs {
    /// Keeps the locks to processes of this executable, whoever starts them; all others keep glibc's. A path, or a
    /// name as the shell finds it
    #[arg(long, value_name = "PROGRAM", requires = "command")]
    only: Option<OsString>,
}

impl OnlyArgs {
    /// The variable that tells the preload library.
    pub fn variable(&self) -> Result<Option<(OsString, Option<OsString>)>, UserError> {
        let Some(program) = &self.only else { return Ok(None) };
        let value = executable(program)
            .map_err(|error| UserError::new(format!("--only: {error}"), error.remedy()).with_status(USAGE))?;
        Ok(Some(("LOCKSWAP_ONLY".into(), Some(value))))
    }
}
