//! Locks make no system call that glibc's own locks do not make, and waits end in time also where `sched_yield` fails.
//!
//! Each case is a run of this program of its own, in which the threads that use locks restrict their system calls.

use lockswap_locks::{for_each_lock, Context, Preference, RawRwLock, TimedLock};
use lockswap_platform::{set_big, Clock, CpuList, Deadline, Native, Platform};
use seccompiler::{apply_filter, BpfProgram, SeccompAction, SeccompFilter, TargetArch};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What a lock may call: glibc's locks read the clock too, without a system call where the kernel offers that.
const LOCKS: [i64; 2] = [libc::SYS_futex, libc::SYS_clock_gettime];
/// What a thread calls when it ends, when it panics, and when it allocates the contexts of its acquisitions.
const THREADS: [i64; 11] = [
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigprocmask,
    libc::SYS_sigaltstack,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_brk,
    libc::SYS_write,
];

/// Longer than a wait spins and yields.
const LONG: u64 = 70_000_000;
const WORKERS: usize = 4;

fn filter(otherwise: SeccompAction) -> BpfProgram {
    let allowed = LOCKS.into_iter().chain(THREADS).map(|call| (call, Vec::new())).collect();
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    SeccompFilter::new(allowed, otherwise, SeccompAction::Allow, arch).unwrap().try_into().unwrap()
}

/// Runs `work` in [`WORKERS`] threads under the filter; one of them is told that it is the first.
fn restricted(program: &BpfProgram, work: impl Fn(bool) + Sync) {
    let ready = Barrier::new(WORKERS);
    std::thread::scope(|scope| {
        for number in 0..WORKERS {
            let (ready, work) = (&ready, &work);
            scope.spawn(move || {
                apply_filter(program).unwrap();
                ready.wait();
                work(number == 0);
            });
        }
    });
}

fn soon() -> Deadline {
    Deadline { clock: Clock::Monotonic, at: Native::now(Clock::Monotonic) + 1_000_000 }
}

fn use_mutex<L: TimedLock<Native>>(program: &BpfProgram) {
    const ROUNDS: usize = 200;
    let lock = L::new();
    restricted(program, |is_first| {
        for round in 0..ROUNDS {
            let cx = Box::leak(Box::new(L::Ctx::new()));
            // SAFETY: the context is fresh, serves one acquisition, and is never freed.
            unsafe {
                if round % 8 != 7 {
                    lock.lock(cx);
                } else if !lock.lock_until(cx, soon()) {
                    continue;
                }
                Native::keep_busy(if is_first && round == 0 { LONG } else { 200 });
                lock.unlock(cx);
            }
        }
    });
}

fn use_rwlock<L: RawRwLock<Native>>(program: &BpfProgram) {
    const ROUNDS: usize = 200;
    let lock = L::new();
    restricted(program, |is_first| {
        for round in 0..ROUNDS {
            let preference = if round % 2 == 0 { Preference::Readers } else { Preference::Writers };
            let deadline = (round % 8 == 7).then(soon);
            let writes = is_first || round % 4 == 1;
            if writes && lock.write(deadline) {
                Native::keep_busy(if is_first && round == 0 { LONG } else { 200 });
                // SAFETY: acquired above.
                unsafe { lock.unlock_write(preference) };
            } else if !writes && lock.read(preference, deadline) {
                Native::keep_busy(200);
                // SAFETY: acquired above.
                unsafe { lock.unlock_read(preference) };
            }
        }
    });
}

macro_rules! uses {
    (
        mutex { $($mutex_id:literal => $mutex:path,)* }
        rwlock { $($rwlock_id:literal => $rwlock:path,)* }
        spin { $($spin_id:literal => $spin:path,)* }
    ) => {
        const USES: &[(&str, fn(&BpfProgram))] = &[
            $(($mutex_id, |program| { use $mutex as Lock; use_mutex::<Lock<Native>>(program) }),)*
            $(($rwlock_id, |program| { use $rwlock as Lock; use_rwlock::<Lock<Native>>(program) }),)*
            $(($spin_id, |program| { use $spin as Lock; use_mutex::<Lock<Native>>(program) }),)*
        ];
    };
}

for_each_lock!(uses);

const CASE: &str = "LOCKSWAP_TEST_SYSTEM_CALLS";

/// The body of the other tests' runs; alone it does nothing.
#[test]
fn run() {
    let Ok(case) = std::env::var(CASE) else { return };
    let otherwise = match case.as_str() {
        "fails" => SeccompAction::Errno(libc::EPERM as u32),
        _ => SeccompAction::KillProcess,
    };
    // On CPUs that all count as little, the LibASL locks stand back.
    set_big(CpuList::parse(b"4095").unwrap());
    if case == "not allowed" {
        Native::allow_yields(false);
        Native::allow_weights(false);
    } else {
        Native::has_one_cpu();
    }
    let program = filter(otherwise);
    for (id, use_lock) in USES {
        println!("{id}");
        use_lock(&program);
    }
    assert!(!Native::yields_are_allowed(), "no yield was tried");
    assert_eq!(Native::give_way(), u64::MAX, "nobody knows whether other threads want the CPU");
}

/// Runs the case, for 120 s at most.
fn result_of(case: &str) -> ExitStatus {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["run", "--exact", "--nocapture", "--test-threads=1"])
        .env(CASE, case)
        .spawn()
        .unwrap();
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if begin.elapsed() > Duration::from_secs(120) {
            child.kill().unwrap();
            panic!("{case}: still running after 120 s; the last lock that it names is the slow one");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn where_yields_are_not_allowed_locks_call_futex_only() {
    assert!(result_of("not allowed").success());
}

#[test]
fn a_yield_that_fails_is_the_last() {
    assert!(result_of("fails").success());
}

#[test]
fn the_filter_kills_for_a_yield() {
    assert_eq!(result_of("allowed").signal(), Some(libc::SIGSYS));
}
