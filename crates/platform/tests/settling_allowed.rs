//! When conditional stores are allowed, and what becomes of them where `membarrier` is not: under a filter of system
//! calls, and in the child of a fork.
//!
//! All of this is about a whole process, so that each case is a run of this program of its own.

use lockswap_platform::{AtomicInt, Native, Platform, Single};
use seccompiler::{apply_filter_all_threads, BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU8, Ordering::Relaxed, Ordering::SeqCst};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const CASE: &str = "LOCKSWAP_TEST_SETTLING";

/// The body of the other tests' runs; alone it does nothing.
#[test]
fn run() {
    match std::env::var(CASE).as_deref() {
        Ok("switched") => switched(),
        Ok("closed") => filtered(SeccompAction::KillProcess, true),
        Ok("open") => filtered(SeccompAction::KillProcess, false),
        Ok("fails") => filtered(SeccompAction::Errno(libc::EPERM as u32), false),
        Ok("forked") => forked(),
        _ => {}
    }
}

fn result_of(case: &str) -> ExitStatus {
    let arguments = ["run", "--exact", "--nocapture", "--test-threads=1"];
    Command::new(std::env::current_exe().unwrap()).args(arguments).env(CASE, case).status().unwrap()
}

/// Whether there is something to test here, in a process that has allowed it.
fn is_offered() -> bool {
    Native::allow_settling(true);
    let offered = Native::settle();
    if !offered {
        println!("not tested: no restartable sequences here, or no membarrier that knows them");
    }
    offered
}

/// Whether a store happens, with a flag of 0 and with one that is set.
fn stores<P: Platform>() -> [bool; 2] {
    [0, 1].map(|flag| {
        let word = P::U8::new(7);
        let stores = P::store_unless(&P::U8::new(flag), &word, 9);
        assert_eq!(word.load(Relaxed), if stores { 9 } else { 7 }, "flag {flag}");
        stores
    })
}

/// A store may be refused now and then, but not always.
fn stores_natively() -> [bool; 2] {
    let tries = (0..100).map(|_| stores::<Native>());
    tries.reduce(|all, one| [all[0] | one[0], all[1] | one[1]]).unwrap()
}

fn switched() {
    assert_eq!((stores::<Single>(), Single::settle()), ([true, false], true));
    assert_eq!((stores_natively(), Native::settle()), ([false; 2], false), "off at first");
    for _ in 0..3 {
        if is_offered() {
            assert_eq!(stores_natively(), [true, false]);
        }
        Native::allow_settling(false);
        assert_eq!((stores_natively(), Native::settle()), ([false; 2], false), "off again");
    }
}

#[test]
fn stores_depend_on_their_flags_once_that_is_allowed_and_as_long_as_it_is() {
    assert!(result_of("switched").success());
}

/// Lets everything pass but `membarrier`.
fn filter(answer: SeccompAction) -> BpfProgram {
    let forbidden = [(libc::SYS_membarrier, Vec::new())].into_iter().collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    SeccompFilter::new(forbidden, SeccompAction::Allow, answer, arch).unwrap().try_into().unwrap()
}

/// A filter comes while threads store and settle. When it has come, and one has settled in vain, nothing is stored.
fn filtered(answer: SeccompAction, closes: bool) {
    if !is_offered() {
        return;
    }
    let (flag, word, stop) = (AtomicU8::new(0), AtomicU8::new(0), AtomicBool::new(false));
    let (stored, settled) = (AtomicU32::new(0), AtomicU32::new(0));
    scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    stored.fetch_add(Native::store_unless(&flag, &word, 1).into(), Relaxed);
                }
            });
        }
        // Where a call takes too long there may be but a few.
        while stored.load(Relaxed) == 0 {
            sleep(Duration::from_millis(1));
        }
        // More than CPUs, so that some lose theirs in the middle of it.
        for _ in 0..6 {
            scope.spawn(|| {
                while !stop.load(Relaxed) {
                    settled.fetch_add(Native::settle().into(), Relaxed);
                }
            });
        }
        sleep(Duration::from_millis(100));
        assert!(settled.load(Relaxed) > 0);
        if closes {
            Native::allow_settling(false);
        }
        let kills = matches!(answer, SeccompAction::KillProcess);
        apply_filter_all_threads(&filter(answer)).unwrap();
        if kills && !closes {
            // They may have ended, as too slow.
            Native::allow_settling(true);
        }
        while Native::settle() {}
        // Each thread is past what it was about when the call above returned.
        sleep(Duration::from_millis(100));
        let counts = || [&stored, &settled].map(|count| count.load(SeqCst));
        let before = counts();
        sleep(Duration::from_millis(100));
        assert_eq!(counts(), before, "stored and settled when it was over");
        stop.store(true, Relaxed);
    });
}

#[test]
fn a_filter_that_kills_kills_nobody_once_it_is_not_allowed_any_more() {
    for _ in 0..3 {
        assert!(result_of("closed").success());
    }
}

#[test]
fn a_filter_that_kills_kills_whoever_settles_else() {
    assert!(result_of("open").signal() == Some(libc::SIGSYS) || !is_offered());
}

#[test]
fn a_call_that_fails_is_the_last() {
    assert!(result_of("fails").success());
}

/// What the child of a fork does, which has one thread. It starts another one.
fn child() {
    const ROUNDS: usize = 100;
    Native::enter_child();
    // In the parent calls may have ended, as too slow.
    Native::allow_settling(true);
    let (flag, word, stop) = (AtomicU8::new(0), AtomicU8::new(0), AtomicBool::new(false));
    scope(|scope| {
        scope.spawn(|| {
            let mut value = 0u8;
            while !stop.load(Relaxed) {
                value = value.wrapping_add(1);
                Native::store_unless(&flag, &word, value);
            }
        });
        for _ in 0..ROUNDS {
            flag.store(1, Relaxed);
            let settled = Native::settle() || {
                Native::allow_settling(true);
                Native::settle()
            };
            assert!(settled, "the child may settle as its parent does");
            let seen = word.load(Relaxed);
            sleep(Duration::from_micros(20));
            assert_eq!(word.load(Relaxed), seen, "a late store");
            flag.store(0, Relaxed);
            sleep(Duration::from_micros(20));
        }
        stop.store(true, Relaxed);
    });
    // The parent's thread was about to settle, and is not here. Who waits for it does so each time; a child that has
    // lost its CPU for as long does not.
    let took = [(); 5].map(|()| {
        let began = Instant::now();
        Native::allow_settling(false);
        began.elapsed()
    });
    assert!(took.iter().any(|took| *took < Duration::from_millis(90)), "waited for a thread that there is not");
}

fn forked() {
    if !is_offered() {
        return;
    }
    let stop = AtomicBool::new(false);
    let statuses = scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Relaxed) {
                Native::settle();
            }
        });
        let status = || {
            // SAFETY: the child ends below; glibc's allocator can be used in it.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                let outcome = std::panic::catch_unwind(child);
                // SAFETY: ends the process, without a look at what belongs to the parent.
                unsafe { libc::_exit(outcome.is_err().into()) };
            }
            let mut status = 0;
            // SAFETY: the status is writable.
            assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
            status
        };
        let statuses = [(); 10].map(|()| status());
        stop.store(true, Relaxed);
        statuses
    });
    assert_eq!(statuses, [0; 10], "a child failed");
}

#[test]
fn the_child_of_a_fork_settles_as_its_parent_does() {
    assert!(result_of("forked").success());
}
