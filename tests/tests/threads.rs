//! Threads that end in every way that there is: nobody hangs afterwards, and nothing of them stays.

use lockswap_e2e::{lockswap, program, program_with, run_with_timeout, Outcome};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Locks whose acquisitions keep a node in a thread's pool, lie outside the mutex, or do neither.
const LOCKS: [&str; 4] = ["mcs_spin", "hmcs", "futex", "auto"];

fn on(lock: &str, program: &Path, arguments: &[&str]) -> Outcome {
    let mut command = Command::new(lockswap());
    command.args(["run", "--summary", "--lock", lock, "--"]).arg(program).args(arguments);
    let outcome = run_with_timeout(&mut command, LIMIT);
    assert!(outcome.success(), "{arguments:?} on {lock}: {}:\n{}", outcome.ending(), outcome.tail());
    assert!(outcome.stderr.contains(&format!(" on {lock}, ")), "did not run on {lock}:\n{}", outcome.stderr);
    outcome
}

/// A queue node takes 64 bytes, and each thread takes five: a node of each thread that stays would be 200 KiB for 4000
/// threads, all five 1 MiB. What the C library and its allocator keep differs by some pages from run to run.
fn does_not_grow(how: &str, threads: u32) {
    const MOST_KIB: i64 = 512;
    let Some(program) = program("endings") else { return };
    for lock in LOCKS {
        let outcome = on(lock, &program, &[how, &threads.to_string()]);
        let grown: i64 = outcome.stdout.trim().parse().expect("a number of KiB");
        assert!(grown < MOST_KIB, "{threads} threads ({how}) on {lock} left {grown} KiB");
    }
}

#[test]
fn memory_of_threads_that_return() {
    does_not_grow("create", 20000);
}

/// glibc starts them itself, without `pthread_create`.
#[test]
fn memory_of_threads_of_timers() {
    does_not_grow("timers", 4000);
}

/// glibc alone knows about such a thread: no lock may take the program for one with a single thread.
#[test]
fn threads_of_timers_and_the_first_thread_exclude_each_other() {
    let Some(program) = program("timer_thread") else { return };
    for lock in LOCKS {
        on(lock, &program, &[]);
    }
}

#[test]
fn memory_of_threads_that_exit_and_lock_in_destructors_of_keys() {
    does_not_grow("exit", 4000);
}

#[test]
fn memory_of_threads_that_are_cancelled() {
    does_not_grow("cancel", 4000);
}

/// Once there are threads, calls lead to the lock's functions without a table in between, if the program was started on
/// that lock. (`auto` releases in a sequence that each signal aborts, and the test stops after each instruction.)
#[test]
#[cfg(target_arch = "x86_64")]
fn calls_lead_to_the_lock_directly() {
    let Some(program) = program("direct") else { return };
    let among_threads = |started_on: &str, lock: &str| {
        let mut command = Command::new(lockswap());
        command.args(["run", "--lock", started_on, "env"]).arg(format!("LOCKSWAP_LOCK={lock}")).arg(&program);
        let outcome = run_with_timeout(&mut command, LIMIT);
        assert!(outcome.success(), "{lock}: {}:\n{}", outcome.ending(), outcome.tail());
        let lines = outcome.stdout.lines().skip_while(|line| *line != "two threads").skip(1);
        lines.map(String::from).collect::<Vec<_>>()
    };
    let direct = ["lock: direct", "unlock: direct", "trylock: direct", "unlock: direct"];
    for lock in ["futex", "ttas", "mcs_spin", "shfllock-b"] {
        assert_eq!(among_threads(lock, lock), direct, "{lock}");
    }
    assert_eq!(among_threads("auto", "auto")[0], direct[0]);
    let passed_on = direct.map(|line| line.replace("direct", "passed on"));
    assert_eq!(among_threads("shfllock-b", "mcs_spin"), passed_on);
}

#[test]
fn destructors_of_thread_local_objects() {
    let Some(program) = program_with("cxx", &["-std=c++17"], "thread_local.cpp", "thread_local") else { return };
    for lock in LOCKS {
        assert_eq!(on(lock, &program, &[]).stdout, "2000\n", "{lock}");
    }
}

#[test]
fn cancelled_at_any_instruction() {
    let Some(program) = program("asynchronous") else { return };
    for lock in LOCKS {
        for _ in 0..2 {
            on(lock, &program, &[]);
        }
    }
}
