//! Whether a system call filter (seccomp) lets waiting threads yield.
//!
//! The preload library cannot try: a filter may kill who makes a call that it does not allow. So a child of ours tries.

use lockswap_experiment::hardware::child;
use std::fs;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The value of `LOCKSWAP_YIELD` for programs started from here: how many filters this process and its children are under, if
/// `sched_yield` works under them. A program that comes under more of them later finds another number. `None` without a
/// filter, where the variable means nothing.
pub fn yields() -> Option<Option<String>> {
    static FOUND: OnceLock<Option<Option<String>>> = OnceLock::new();
    let find = || {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let is_filtered = field("Seccomp:").is_some_and(|mode| mode != "0");
        // Linux before 5.9 does not tell how many.
        is_filtered.then(|| try_in_child().then(|| field("Seccomp_filters:").unwrap_or_default().to_string()))
    };
    FOUND.get_or_init(find).clone()
}

fn try_in_child() -> bool {
    let Ok(own) = std::env::current_exe() else { return false };
    let mut child = Command::new(own);
    child.arg(child::YIELD).env_remove("LD_PRELOAD");
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    child.status().is_ok_and(|status| status.success())
}
