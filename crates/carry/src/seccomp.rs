//! Whether a system call filter (seccomp) allows the calls that locks make where they may.
//!
//! The preload library cannot try: a filter may kill who makes a call that it does not allow. So a child of ours
//! tries.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

/// How many filters this process and its children are under, if a call works under them: the value of the variable that
/// tells that to programs started from here (`LOCKSWAP_YIELD`, `LOCKSWAP_MEMBARRIER`). A program that comes under more
/// of them later finds another number. `None` without a filter, where the variable means nothing. `attempt` is a program
/// that makes the call and ends with status 0 if that worked.
pub fn filters(attempt: impl FnOnce() -> io::Result<Command>) -> Option<Option<String>> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let is_filtered = field("Seccomp:").is_some_and(|mode| mode != "0");
    // Linux before 5.9 does not tell how many.
    is_filtered.then(|| works(attempt).then(|| field("Seccomp_filters:").unwrap_or_default().to_string()))
}

fn works(attempt: impl FnOnce() -> io::Result<Command>) -> bool {
    let Ok(mut attempt) = attempt() else { return false };
    attempt.env_remove("LD_PRELOAD").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    attempt.status().is_ok_and(|status| status.success())
}
