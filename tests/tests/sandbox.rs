//! Programs under a filter of system calls (seccomp) that allows what glibc's own locks need: ours need no more.

use lockswap_e2e::{each_lock, lockswap, program, run_with_timeout, Variant, Which};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(30);

fn sandbox() -> Option<PathBuf> {
    let program = program("sandbox")?;
    for how in ["not", "prctl", "syscall"] {
        let plain = run_with_timeout(Command::new(&program).args([how, "60"]), LIMIT);
        // Else the filter forbids what glibc needs, or the machine knows no filters.
        assert_eq!(plain.stdout, "ok\n", "{how} without lockswap: {}:\n{}", plain.ending(), plain.tail());
    }
    Some(program)
}

/// The program installs the filter when it runs already.
fn installed(how: &str) {
    let Some(program) = sandbox() else { return };
    each_lock(how, Which::Representatives, 1, |variant: &Variant| {
        let directory = lockswap_e2e::scratch_dir();
        let statistics = directory.path().join("stats.json");
        let options = ["--stats-json", statistics.to_str().expect("temporary directories have plain names")];
        let outcome =
            run_with_timeout(&mut variant.command(&options, &program, &[how.to_string(), "60".to_string()]), LIMIT);
        if !outcome.success() || outcome.stdout != "ok\n" {
            return Err(format!("{}:\n{}", outcome.ending(), outcome.tail()));
        }
        variant.proven_by(&statistics)
    });
}

#[test]
fn installed_by_each_thread() {
    installed("prctl");
}

#[test]
fn installed_for_all_threads() {
    installed("syscall");
}

/// The filter is there before the program starts, and lets everything pass but `sched_yield` and `membarrier`.
fn inherited(answer: &str) {
    let Some(program) = sandbox() else { return };
    let Some(filtered) = lockswap_e2e::program("filtered") else { return };
    let run = |under: &Path, arguments: &[&str]| {
        run_with_timeout(Command::new(&filtered).arg(answer).arg(under).args(arguments), LIMIT)
    };
    let program = program.to_str().expect("the target directory has a plain name");
    for lock in ["auto", "futex", "mcs_spin", "cna", "asl", "ron-plock", "c-bo-mcs_stp", "hmcs", "shfllock", "hbo"] {
        let outcome = run(lockswap(), &["run", "--summary", "--lock", lock, "--", program, "not", "240"]);
        assert!(outcome.success(), "{lock}: {}:\n{}", outcome.ending(), outcome.tail());
        assert!(outcome.stderr.contains(&format!(" on {lock}, ")), "did not run on {lock}:\n{}", outcome.stderr);
        // A queue whose waiters keep their CPUs takes a time slice for each of some thousand hand-overs.
        assert!(outcome.took < Duration::from_secs(10), "{lock} took {:?}", outcome.took);
    }
}

#[test]
fn inherited_filter_that_kills() {
    inherited("kill");
}

#[test]
fn inherited_filter_that_refuses() {
    inherited("error");
}
