//! Whether lockswap can work on a program, which is read and never run.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lockswap_study::runner::find_in_path;
use serde::Serialize;

use super::Check;
use crate::elf::{closure, Image, Loaded};
use crate::error::UserError;
use crate::library;

/// What an object file imports that lockswap replaces.
#[derive(Debug, Serialize)]
pub struct Imports {
    object: PathBuf,
    symbols: Vec<String>,
}

/// What was found about a program.
#[derive(Debug, Serialize)]
pub struct Examined {
    pub program: PathBuf,
    pub checks: Vec<Check>,
    pub imports: Vec<Imports>,
}

/// The functions that the preload library replaces, without their prefix.
const REPLACED: [(&str, &[&str]); 6] = [
    ("pthread_mutex_", &["init", "destroy", "lock", "trylock", "timedlock", "clocklock", "unlock", "consistent"]),
    ("pthread_cond_", &["init", "destroy", "wait", "timedwait", "clockwait", "signal", "broadcast"]),
    (
        "pthread_rwlock_",
        &[
            "init",
            "destroy",
            "rdlock",
            "tryrdlock",
            "timedrdlock",
            "clockrdlock",
            "wrlock",
            "trywrlock",
            "timedwrlock",
            "clockwrlock",
            "unlock",
        ],
    ),
    ("pthread_spin_", &["init", "destroy", "lock", "trylock", "unlock"]),
    ("mtx_", &["init", "destroy", "lock", "trylock", "timedlock", "unlock"]),
    ("cnd_", &["init", "destroy", "wait", "timedwait", "signal", "broadcast"]),
];

/// Parts of the C library and of the compiler's runtime: what they import says nothing about the program.
const RUNTIME: [&str; 10] = [
    "libc.so",
    "libpthread.so",
    "libm.so",
    "libdl.so",
    "librt.so",
    "libresolv.so",
    "libmvec.so",
    "libutil.so",
    "ld-linux",
    "libgcc_s.so",
];

/// Reads the program that a shell would run under `name`.
pub fn examine(name: &OsStr) -> Result<Examined, UserError> {
    let missing = || {
        let what = format!("{}: not found", name.to_string_lossy());
        UserError::new(what, "give its path, or add its folder to PATH")
    };
    let path = find_in_path(name).filter(|p| p.exists()).ok_or_else(missing)?;
    let mut checks = Vec::new();
    let (path, data) = without_interpreters(path, &mut checks)?;
    let mut imports = Vec::new();
    match Image::parse(&data) {
        Some(Ok(image)) => {
            checks.extend(privileges(&path));
            look_at(path.clone(), image, &mut checks, &mut imports);
        }
        Some(Err(error)) => {
            checks.push(Check::problem("file", format!("a damaged ELF file: {error}"), "build or install it again"));
        }
        None => checks.push(Check::problem(
            "file",
            "neither an ELF program nor a script with a #! line",
            "name the program that runs it, as in: lockswap doctor java",
        )),
    }
    Ok(Examined { program: path, checks, imports })
}

/// Follows `#!` lines to the program that is really executed.
fn without_interpreters(mut path: PathBuf, checks: &mut Vec<Check>) -> Result<(PathBuf, Vec<u8>), UserError> {
    // The kernel follows as many.
    for _ in 0..5 {
        let data = fs::read(&path).map_err(|error| {
            let what = format!("cannot read {}: {error}", path.display());
            UserError::new(what, "name a program file that you may read")
        })?;
        let executable = fs::metadata(&path).is_ok_and(|m| m.mode() & 0o111 != 0);
        if !executable {
            checks.push(Check::problem("permissions", format!("{} is not executable", path.display()), "chmod +x it"));
        }
        let Some(interpreter) = interpreter(&data) else { return Ok((path, data)) };
        let Some(found) = find_in_path(&interpreter).filter(|p| p.exists()) else {
            let what =
                format!("{} is a script for {}, which is not found", path.display(), interpreter.to_string_lossy());
            return Err(UserError::new(what, "install the interpreter or correct the #! line"));
        };
        let what = format!("{} is run by {}", path.display(), found.display());
        let is_shell = ["sh", "bash", "dash", "ksh", "zsh"].iter().any(|s| found.file_name() == Some(OsStr::new(s)));
        checks.push(if is_shell {
            Check::note("script", what, "what counts is the program that the script starts: examine that one")
        } else {
            Check::ok("script", what)
        });
        path = found;
    }
    let what = format!("{}: too many scripts that run one another", path.display());
    Err(UserError::new(what, "name the program itself"))
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

/// Programs that gain privileges at their start ignore LD_PRELOAD.
fn privileges(path: &Path) -> Vec<Check> {
    let mut checks = Vec::new();
    let Ok(found) = fs::metadata(path) else { return checks };
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    let remedy = "copy the program without that bit, or run it as its owner; LD_PRELOAD is ignored otherwise";
    for (bit, name, own, id) in
        [(0o4000, "setuid", found.uid() == uid, found.uid()), (0o2010, "setgid", found.gid() == gid, found.gid())]
    {
        if found.mode() & bit != bit {
            continue;
        }
        checks.push(if own {
            Check::note(name, format!("set, but {id} is who you are"), "for other users LD_PRELOAD is ignored")
        } else {
            Check::problem(name, format!("it runs as {id}"), remedy)
        });
    }
    let mut value = [0u8; 64];
    if rustix::fs::getxattr(path, "security.capability", &mut value).is_ok() {
        checks.push(if uid == 0 {
            Check::note("capabilities", "set on the file", "for users other than root LD_PRELOAD is ignored")
        } else {
            Check::problem(
                "capabilities",
                "set on the file",
                "run a copy without them; LD_PRELOAD is ignored otherwise",
            )
        });
    }
    checks
}

fn look_at(path: PathBuf, image: Image, checks: &mut Vec<Check>, imports: &mut Vec<Imports>) {
    let ours = Image::parse(library::image()).and_then(Result::ok).unwrap_or_default();
    if image.machine != ours.machine {
        let found = format!("for {}; this lockswap is for {}", image.machine_name(), ours.machine_name());
        checks.push(Check::problem("architecture", found, "use a lockswap built for that architecture"));
        return;
    }
    checks.push(Check::ok("architecture", image.machine_name()));
    let Some(interpreter) = image.interpreter.clone() else {
        let (what, remedy) = if image.go {
            ("a static Go program: Go has its own locks and ignores LD_PRELOAD", "use Go's own profiling of its locks")
        } else {
            ("static: no dynamic loader reads LD_PRELOAD", "link it dynamically (without -static)")
        };
        checks.push(Check::problem("linking", what, remedy));
        return;
    };
    if interpreter.contains("ld-musl") {
        let remedy = "use a build of it for glibc";
        checks.push(Check::problem("linking", format!("for musl ({interpreter}), not glibc"), remedy));
        return;
    }
    checks.push(Check::ok("linking", format!("dynamic, loaded by {interpreter}")));
    if image.go {
        let what = "a Go program: goroutines use Go's own locks, only its C libraries use pthread locks";
        checks.push(Check::note("Go", what, "compare it only if its C code is what waits"));
    }
    if !image.has_symbols {
        let what = "the file has no section headers, so its imports cannot be read";
        checks.push(Check::note("imports", what, "examine an unstripped build"));
    }
    let (objects, missing) = closure(Loaded { path, image });
    if !missing.is_empty() {
        let remedy = "install them, or set LD_LIBRARY_PATH as for running it";
        checks.push(Check::note("libraries", format!("not found: {}", missing.join(", ")), remedy));
    }
    let is_runtime = |o: &Loaded| {
        let name = o.path.file_name().unwrap_or_default().as_bytes();
        RUNTIME.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
    };
    let examined: Vec<&Loaded> =
        objects.iter().enumerate().filter(|(i, o)| *i == 0 || !is_runtime(o)).map(|(_, o)| o).collect();
    for object in &examined {
        let symbols: Vec<String> = object.image.imports.iter().filter(|s| is_replaced(s)).cloned().collect();
        if !symbols.is_empty() {
            let name = object.path.file_name().unwrap_or_default().to_string_lossy();
            checks.push(Check::ok("imports", format!("{name}: {}", grouped(&symbols))));
            imports.push(Imports { object: object.path.clone(), symbols });
        }
    }
    let loads_more = examined.iter().any(|o| o.image.imports.contains("dlopen"));
    if imports.is_empty() {
        nothing_to_replace(&examined, loads_more, checks);
    } else if loads_more {
        checks.push(Check::ok("plug-ins", "it can load more libraries (dlopen); their locks are replaced too"));
    }
}

fn nothing_to_replace(examined: &[&Loaded], loads_more: bool, checks: &mut Vec<Check>) {
    let threading = |s: &&String| ["pthread_", "sem_", "thrd_", "syscall"].iter().any(|p| s.starts_with(p));
    let others: BTreeSet<&str> =
        examined.iter().flat_map(|o| &o.image.imports).filter(threading).map(String::as_str).collect();
    let others: Vec<&str> = others.into_iter().collect();
    let names = if others.is_empty() { "no threading function at all".into() } else { others.join(", ") };
    let libraries = match examined.len() - 1 {
        0 => "and needs no library but the C library".into(),
        n => format!("neither in it nor in the libraries it needs ({n} examined)"),
    };
    let found = format!("no pthread lock functions, {libraries}; it imports {names}");
    let remedy = if loads_more {
        "it can load libraries (dlopen) that use such locks: 'lockswap run --summary' counts them"
    } else {
        "its locks, if it has any, are its own (as in Go, Rust's std and Java) and cannot be swapped from outside"
    };
    checks.push(Check::note("imports", found, remedy));
}

/// `pthread_mutex_{lock,unlock}` for people.
fn grouped(symbols: &[String]) -> String {
    let of = |prefix: &str| {
        let names: Vec<&str> = symbols.iter().filter_map(|s| s.strip_prefix(prefix)).collect();
        match names[..] {
            [] => None,
            [one] => Some(format!("{prefix}{one}")),
            _ => Some(format!("{prefix}{{{}}}", names.join(","))),
        }
    };
    REPLACED.iter().filter_map(|(prefix, _)| of(prefix)).collect::<Vec<_>>().join(", ")
}

fn is_replaced(symbol: &str) -> bool {
    REPLACED.iter().any(|(prefix, names)| symbol.strip_prefix(prefix).is_some_and(|rest| names.contains(&rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn attributes_and_own_functions_are_not_lock_functions() {
        assert!(
            is_replaced("pthread_mutex_lock") && is_replaced("cnd_wait") && is_replaced("pthread_rwlock_clockrdlock")
        );
        assert!(
            !is_replaced("pthread_mutexattr_init") && !is_replaced("mtx_lock_all") && !is_replaced("pthread_create")
        );
    }
}
