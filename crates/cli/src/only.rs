//! `--only`: the one executable that gets the chosen locks.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use lockswap_study::runner::find_in_path;

use crate::error::{UserError, USAGE};

/// The option.
#[derive(clap::Args)]
pub struct OnlyArgs {
    /// Keeps the locks to processes of this executable, whoever starts them; all others keep glibc's. A path, or a name
    /// as the shell finds it
    #[arg(long, value_name = "PROGRAM", requires = "command")]
    only: Option<OsString>,
}

impl OnlyArgs {
    /// The variable that tells the preload library.
    pub fn variable(&self) -> Result<Option<(OsString, Option<OsString>)>, UserError> {
        let value = self.only.as_deref().map(|program| executable(program).map_err(|e| e.with_status(USAGE)));
        Ok(value.transpose()?.map(|value| ("LOCKSWAP_ONLY".into(), Some(value))))
    }
}

/// The executable as its processes see it in `/proc/self/exe`: the path, or for a name without a slash the file name.
/// Both without symbolic links, of which Debian's `python3` and `java` are some.
fn executable(program: &OsStr) -> Result<OsString, UserError> {
    let shown = program.to_string_lossy();
    if program.is_empty() {
        return Err(UserError::new("--only names no program", "give a path or a name, as in --only ./server"));
    }
    let is_path = program.as_bytes().contains(&b'/');
    let Some(found) = find_in_path(program) else { return Ok(program.into()) };
    let found = found.canonicalize().map_err(|error| {
        UserError::new(format!("--only {shown}: {error}"), "give the path of the program's file, or its name alone")
    })?;
    if is_script(&found) {
        let what = format!("--only {shown}: {} is a script, whose processes run its interpreter", found.display());
        return Err(UserError::new(what, "name the program that it runs, as /proc/PID/exe shows it"));
    }
    let name = found.file_name().map(OsStr::to_owned).filter(|_| !is_path);
    Ok(name.unwrap_or_else(|| found.into()))
}

fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!"
}
