//! Whether a system call filter (seccomp) lets waiting threads yield.
//!
//! The preload library cannot try: a filter may kill who makes a call that it does not allow. So a child of ours
//! tries.

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The value of `LOCKSWAP_YIELD` for programs started from here: how many filters this process and its children are
/// under, if `sched_yield` works under them. A program that comes under more of them later finds another number.
/// `None` without a filter, where the variable means nothing. `attempt` is a program that calls `sched_yield` and ends
/// with status 0 if that worked; it is run at most once in this process's life.
pub fn yields(attempt: impl FnOnce() -> io::Result<Command>) -> Option<Option<String>> {
    static FOUND: OnceLock<Option<Option<String>>> = OnceLock::new();
    let find = || {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let is_filtered = field("Seccomp:").is_some_and(|mode| mode != "0");
        // Linux before 5.9 does not tell how many.
        is_filtered.then(|| works(attempt).then(|| field("Seccomp_filters:").unwrap_or_default().to_string()))
    };
    FOUND.get_or_init(find).clone()
}

fn works(attempt: impl FnOnce() -> io::Result<Command>) -> bool {
    let Ok(mut attempt) = attempt() else { return false };
    attempt.env_remove("LD_PRELOAD").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    attempt.status().is_ok_and(|status| status.success())
}
