//! Whether lockswap can work on this machine.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use lockswap_carry::{Library, Unpacked};

use lockswap_study::machine::Machine;

use crate::Finding;

/// Key of the auxiliary vector under which the kernel says how much of the rseq area it fills.
const AT_RSEQ_FEATURE_SIZE: usize = 27;

/// Bytes of the rseq area up to and including the NUMA node.
const RSEQ_WITH_NODE: usize = 28;

/// What there is to say about this machine. `attempt` is a program that ends with status 0 if the library which
/// LD_PRELOAD names for it is in its process.
pub fn here(machine: &Machine, library: &Library, attempt: io::Result<Command>) -> Vec<Finding> {
    let mut checks = vec![preload_library(library, attempt), glibc(machine.glibc.as_deref()), rseq()];
    checks.push(match machine.cpus_allowed {
        1 => Finding::note(
            "CPUs",
            format!("1 of {} usable: a waiter that spins only keeps the holder from running", machine.cpus_online),
            "widen the affinity mask (taskset), or choose locks that park (spin-then-park in 'lockswap list')",
        ),
        allowed => Finding::ok("CPUs", format!("{allowed} of {} usable", machine.cpus_online)),
    });
    checks.push(match machine.cpu_quota {
        Some(quota) if quota < machine.cpus_allowed as f64 => Finding::note(
            "cgroup quota",
            format!(
                "{quota:.2} CPUs' worth of time: the kernel stops all threads, lock holders too, when it is used up"
            ),
            "raise the quota (docker run --cpus, systemd CPUQuota=), or use no more threads than it has CPUs",
        ),
        Some(quota) => Finding::ok("cgroup quota", format!("{quota:.2} CPUs' worth of time, no less than the CPUs")),
        None => Finding::ok("cgroup quota", "none"),
    });
    checks
}

fn preload_library(library: &Library, attempt: io::Result<Command>) -> Finding {
    const NAME: &str = "preload library";
    let Unpacked { path, refused } = match library.unpack() {
        Ok(unpacked) => unpacked,
        Err(error) => {
            return Finding::problem(
                NAME,
                error.to_string(),
                "set XDG_CACHE_HOME to a folder of your own that nobody else can write to",
            )
        }
    };
    let run = |mut attempt: Command| {
        attempt.env("LD_PRELOAD", &path).stdin(Stdio::null()).stdout(Stdio::null());
        attempt.output()
    };
    match attempt.and_then(run) {
        Ok(output) if output.status.success() => {
            let found = format!("{} ({} KiB), loads", path.display(), library.image.len() / 1024);
            if refused.is_empty() {
                return Finding::ok(NAME, found);
            }
            let remedy = "close these folders to others, or leave it there: it works";
            Finding::note(NAME, format!("{found}; could not be in {}", refused.join("; ")), remedy)
        }
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let said = said.lines().next().unwrap_or("no message");
            let found = format!("{} does not load: {said}", path.display());
            Finding::problem(NAME, found, "set XDG_CACHE_HOME to a folder on a file system that is not mounted noexec")
        }
        Err(error) => Finding::problem(NAME, format!("cannot try it: {error}"), "reinstall lockswap"),
    }
}

fn glibc(version: Option<&str>) -> Finding {
    const NAME: &str = "glibc";
    let Some(version) = version else {
        let remedy = "use a distribution on glibc 2.34 or later; others, such as musl's, are not supported";
        return Finding::problem(NAME, "not found in this process", remedy);
    };
    let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
    let known = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if known < (2, 34) {
        return Finding::problem(NAME, format!("{version}, older than 2.34"), "use a distribution of 2022 or later");
    }
    Finding::ok(NAME, version)
}

fn rseq() -> Finding {
    const NAME: &str = "rseq";
    let disabled = std::env::var("GLIBC_TUNABLES").is_ok_and(|v| v.split(':').any(|t| t == "glibc.pthread.rseq=0"));
    if disabled {
        let found = "switched off by GLIBC_TUNABLES: NUMA locks ask the kernel for their node, which is slower";
        return Finding::note(NAME, found, "unset GLIBC_TUNABLES, or leave out glibc.pthread.rseq=0");
    }
    match auxiliary(AT_RSEQ_FEATURE_SIZE) {
        Some(size) if size >= RSEQ_WITH_NODE => Finding::ok(NAME, format!("{size} bytes, with the NUMA node")),
        found => {
            let size = found.map_or("no feature size".into(), |s| format!("{s} bytes"));
            let found = format!("{size}: NUMA locks ask the kernel for their node, which is slower");
            Finding::note(NAME, found, "a kernel from 6.3 on fills in the NUMA node")
        }
    }
}

/// A value that the kernel gave this process at its start.
fn auxiliary(key: usize) -> Option<usize> {
    const WORD: usize = size_of::<usize>();
    let bytes = fs::read("/proc/self/auxv").ok()?;
    let word = |bytes: &[u8]| bytes.try_into().ok().map(usize::from_ne_bytes);
    bytes.chunks_exact(2 * WORD).find(|pair| word(&pair[..WORD]) == Some(key)).and_then(|pair| word(&pair[WORD..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Status;

    #[test]
    fn old_and_foreign_c_libraries_are_problems() {
        assert_eq!(glibc(Some("2.36")).status, Status::Ok);
        assert_eq!(glibc(Some("2.31")).status, Status::Problem);
        assert_eq!(glibc(None).status, Status::Problem);
    }
}
