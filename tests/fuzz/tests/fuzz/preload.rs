//! What the preload library reads in the environment of a program.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::Duration;

use lockswap_e2e::{preload, run_with_timeout};

/// The input is lines of the form `NAME=VALUE`. The library says what is wrong and ends the program, or does its work;
/// `true` starts either way, or not at all.
fn environment(input: &[u8]) {
    let mut command = Command::new("true");
    for line in input.split(|byte| *byte == b'\n') {
        let Some(at) = line.iter().position(|byte| *byte == b'=') else { continue };
        let (name, value) = (&line[..at], &line[at + 1..]);
        // The others name files that are written to.
        let is_ours = name.starts_with(b"LOCKSWAP_") && ![&b"STATS"[..], b"LATENCIES"].contains(&&name[9..]);
        // The kernel passes on no longer ones.
        if is_ours && !line.contains(&0) && line.len() < 100_000 {
            command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
        }
    }
    let outcome = run_with_timeout(command.env("LD_PRELOAD", preload()), Duration::from_secs(60));
    let is_error = outcome.status.is_some_and(|status| status.code() == Some(127));
    assert!(outcome.success() || is_error && outcome.stderr.starts_with("lockswap: "), "{}", outcome.ending());
    assert!(!outcome.stderr.contains("internal error"), "{}", outcome.stderr);
    assert!(outcome.stderr.lines().all(|line| line.len() <= 1024 && !line.chars().any(char::is_control)));
}

lockswap_fuzz::tests!(environment, 1, super::environment);
