//! The file that the processes of a program run.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lockswap_study::runner::find_in_path;

/// Why a name is no executable's.
#[derive(Debug)]
pub enum NotExecutable {
    /// It is empty.
    Empty,
    /// The file cannot be reached.
    Unreachable(OsString, io::Error),
    /// It is a script, whose processes run its interpreter.
    Script(OsString, PathBuf),
}

impl NotExecutable {
    /// What a user can do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            NotExecutable::Empty => "give a path or a name, such as ./server",
            NotExecutable::Unreachable(..) => "give the path of the program's file, or its name alone",
            NotExecutable::Script(..) => "name the program that it runs, as /proc/PID/exe shows it",
        }
    }
}

impl fmt::Display for NotExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotExecutable::Empty => f.write_str("it names no program"),
            NotExecutable::Unreachable(program, error) => write!(f, "{}: {error}", program.to_string_lossy()),
            NotExecutable::Script(program, found) => {
                let (program, found) = (program.to_string_lossy(), found.display());
                write!(f, "{program}: {found} is a script, whose processes run its interpreter")
            }
        }
    }
}

impl std::error::Error for NotExecutable {}

/// The executable as its processes see it in `/proc/self/exe`: the path, or for a name without a slash the file name.
/// Both without symbolic links, of which Debian's `python3` and `java` are some. A name that is found nowhere stays as
/// it is.
pub fn executable(program: &OsStr) -> Result<OsString, NotExecutable> {
    if program.is_empty() {
        return Err(NotExecutable::Empty);
    }
    let is_path = program.as_bytes().contains(&b'/');
    let Some(found) = find_in_path(program) else { return Ok(program.into()) };
    let found = found.canonicalize().map_err(|error| NotExecutable::Unreachable(program.into(), error))?;
    if is_script(&found) {
        return Err(NotExecutable::Script(program.into(), found));
    }
    let name = found.file_name().map(OsStr::to_owned).filter(|_| !is_path);
    Ok(name.unwrap_or_else(|| found.into()))
}

fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"#!"
}
