//! Whether a system call filter (seccomp) lets waiting threads yield.
//!
//! The preload library cannot try: a filter may kill who makes a call that it does not allow. So a child of ours tries.

use std::fs;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::hidden;

/// Whether `sched_yield` works under the filter that this process and its children are under; `None` without a filter.
pub fn yields() -> Option<bool> {
    static FOUND: OnceLock<Option<bool>> = OnceLock::new();
    *FOUND.get_or_init(|| is_filtered().then(try_in_child))
}

fn is_filtered() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix("Seccomp:")).is_some_and(|mode| mode.trim() != "0")
}

fn try_in_child() -> bool {
    let Ok(own) = std::env::current_exe() else { return false };
    let mut child = Command::new(own);
    child.arg(hidden::YIELD).env_remove("LD_PRELOAD");
    child.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    child.status().is_ok_and(|status| status.success())
}
