//! From a script to the program that is really executed.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use lockswap_study::runner::find_in_path;

use crate::{read_program, Error, Finding};

/// Follows `#!` lines from `path` to a file that has none; that file and its content.
pub fn without_interpreters(mut path: PathBuf, checks: &mut Vec<Finding>) -> Result<(PathBuf, Vec<u8>), Error> {
    // The kernel follows as many.
    for _ in 0..5 {
        let data = read_program(&path).map_err(|error| Error::CannotRead(path.clone(), error))?;
        let Some(interpreter) = interpreter(&data) else { return Ok((path, data)) };
        checks.extend(super::program::not_executable(&path));
        let Some(found) = find_in_path(&interpreter).filter(|p| p.exists()) else {
            return Err(Error::NoInterpreter { script: path, interpreter });
        };
        let what = format!("{} is run by {}", path.display(), found.display());
        let is_shell = ["sh", "bash", "dash", "ksh", "zsh"].iter().any(|s| found.file_name() == Some(OsStr::new(s)));
        checks.push(if is_shell {
            Finding::note("script", what, "what counts is the program that the script starts: examine that one")
        } else {
            Finding::ok("script", what)
        });
        path = found;
    }
    Err(Error::TooManyScripts(path))
}

/// The program that a script's first line names; for `env` the one that it will look for.
fn interpreter(data: &[u8]) -> Option<OsString> {
    let line = data.strip_prefix(b"#!")?.split(|b| *b == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
    let program = words.next()?;
    let is_env = Path::new(OsStr::from_bytes(program)).file_name() == Some(OsStr::new("env"));
    let behind_env = words.find(|w| !w.starts_with(b"-") && !w.contains(&b'='));
    Some(OsStr::from_bytes(behind_env.filter(|_| is_env).unwrap_or(program)).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_line(input: &[u8]) {
        let found = lockswap_fuzz::reading(input, lockswap_fuzz::MIB, || interpreter(input));
        let is_part = |found: &[u8]| input.windows(found.len()).any(|part| part == found);
        assert!(found.is_none_or(|found| input.starts_with(b"#!") && is_part(found.as_bytes())));
    }

    lockswap_fuzz::tests!(script, 16, super::first_line);

    #[test]
    fn interpreters() {
        let of = |line: &str| interpreter(line.as_bytes()).map(|p| p.into_string().unwrap());
        assert_eq!(of("#!/bin/sh\necho"), Some("/bin/sh".into()));
        assert_eq!(of("#! /usr/bin/python3 -E\n"), Some("/usr/bin/python3".into()));
        assert_eq!(of("#!/usr/bin/env python3\n"), Some("python3".into()));
        assert_eq!(of("#!/usr/bin/env -S A=1 node --x\n"), Some("node".into()));
        assert_eq!(of("#!/usr/bin/env"), Some("/usr/bin/env".into()));
        assert_eq!(of("#!\n"), None);
        assert_eq!(of("\x7fELF"), None);
    }
}
