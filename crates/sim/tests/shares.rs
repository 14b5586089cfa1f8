//! u-SCL on a simulated machine: lock time goes to threads by their weights, whatever their critical sections are
//! like.

use lockswap_locks::shares::u_scl::UScl;
use lockswap_locks::{RawLock as _, TimedLock as _, TryLock as _};
use lockswap_platform::{Clock, Deadline, Ns, Platform};
use lockswap_sim::{attempt, Job, Machine, Sim, Simulated, Workload};
use lockswap_workloads::crew::{gather, Timing};
use lockswap_workloads::report::LockTime;
use lockswap_workloads::shares::Config;

const MS: Ns = 1_000_000;

/// Who held the lock in `duration` ns.
fn shares(lock: &str, duration: Ns, config: Config) -> LockTime {
    let machine = Machine::built_in("xeon-e5-2699v3", &[]).expect("a machine");
    let threads = config.threads;
    let workload = Workload::Shares(config).with(threads, duration);
    let run = Job { machine: &machine, workload, lock, seed: 5 }.run();
    let report = run.unwrap_or_else(|failure| panic!("{lock}: {failure}")).report;
    report.lock_time.expect("the workload notes it")
}

/// The toy example: of two threads one has critical sections ten times as long.
#[test]
fn a_thread_with_long_sections_gets_no_more_than_one_with_short_ones() {
    let jain = |lock| shares(lock, 200 * MS, Config::toy(2)).jain;
    assert!(jain("u-scl") >= 0.99, "{}", jain("u-scl"));
    // One after the other: ten elevenths go to the long sections, which is an index of 0.6.
    for lock in ["mcs_spin", "ticket"] {
        assert!((0.55..0.65).contains(&jain(lock)), "{lock}: {}", jain(lock));
    }
}

/// Here no slice has room for a section: bans alone do it.
#[test]
fn sections_may_be_longer_than_a_slice() {
    let long = Config { lengths: vec![20 * MS, 2 * MS], ..Config::toy(2) };
    let fair = shares("u-scl", 4000 * MS, long);
    assert!(fair.jain >= 0.99, "{fair:?}");
}

#[test]
fn lock_time_follows_the_weights() {
    let nice = Config { lengths: vec![3_000], nice: vec![0, 5], ..Config::toy(2) };
    let weighted = shares("u-scl", 1000 * MS, Config { lengths: vec![3_000, 3_000], ..nice.clone() });
    // The scheduler's weights are 1024 and 335.
    let expected = 1024.0 / (1024.0 + 335.0);
    assert!((weighted.shares["3us nice 0"] - expected).abs() < 0.02, "{weighted:?}");
    assert!(weighted.jain >= 0.99, "{weighted:?}");
    let futex = shares("mcs_spin", 100 * MS, Config { lengths: vec![3_000, 3_000], ..nice });
    assert!((futex.shares["3us nice 0"] - 0.5).abs() < 0.02, "{futex:?}");
}

fn now() -> Ns {
    Sim::now(Clock::Monotonic)
}

/// Acquires the lock, holds it for `ns`, and releases it; how long the acquisition took.
fn hold(lock: &UScl<Sim>, ns: Ns) -> Ns {
    let asked = now();
    // SAFETY: released below.
    unsafe { lock.lock(&()) };
    let waited = now() - asked;
    Sim::keep_busy(ns);
    // SAFETY: acquired above.
    unsafe { lock.unlock(&()) };
    waited
}

/// What `act` returns in a thread that has just held the lock for 5 s, which bans it for 5 s, because another thread
/// used it shortly before. That one then uses it `again` times, for 1 ms every 100 ms.
fn after_five_seconds<R: Send>(again: u32, act: impl Fn(&UScl<Sim>) -> R + Sync) -> R {
    let machine = Machine::built_in("xeon-e5-2699v3", &[]).expect("a machine");
    let crew = Simulated::new(&machine, 1);
    let found = attempt(|| {
        let lock = UScl::<Sim>::new();
        let (found, _) = gather(&crew, 2, Timing { warm_up: 0, duration: 20_000 * MS }, |member| {
            hold(&lock, MS);
            Sim::sleep(100 * MS);
            if member.number == 0 {
                hold(&lock, 5_000 * MS);
                return Some(act(&lock));
            }
            Sim::sleep(5_000 * MS);
            for _ in 0..again {
                hold(&lock, MS);
                Sim::sleep(100 * MS);
            }
            None
        });
        found
    });
    found.expect("both threads end").into_iter().flatten().next().expect("the first thread's")
}

#[test]
fn a_ban_lasts_while_others_use_the_lock_and_ends_when_they_do_not() {
    let waited = |again| after_five_seconds(again, |lock| hold(lock, MS)) / MS;
    let (among_others, alone) = (waited(70), waited(0));
    assert!((4_800..5_200).contains(&among_others), "{among_others} ms");
    assert!((900..1_200).contains(&alone), "{alone} ms");
}

#[test]
fn a_banned_thread_can_try_a_free_lock_and_times_out_in_time() {
    let (tried, timed, waited) = after_five_seconds(0, |lock| {
        // SAFETY: released where it was acquired.
        unsafe {
            let tried = lock.try_lock(&());
            lock.unlock(&());
            let asked = now();
            let timed = lock.lock_until(&(), Deadline { clock: Clock::Monotonic, at: asked + 3 * MS });
            let waited = now() - asked;
            lock.unlock(&());
            (tried, timed, waited)
        }
    });
    assert!(tried && timed && (3 * MS..4 * MS).contains(&waited), "{tried}, {timed}, {waited} ns");
}

/// The accounts belong to the mutex that used the lock's memory before.
#[test]
fn a_lock_that_has_forgotten_bans_nobody() {
    let waited = after_five_seconds(0, |lock| {
        lock.forget();
        hold(lock, MS)
    });
    assert!(waited < MS, "{waited} ns");
}

/// When a thread acquires a lock that another one holds for 1 ms, and then gives back by `release`: the time since
/// both have begun.
fn acquired_after(release: unsafe fn(&UScl<Sim>, &())) -> Ns {
    let machine = Machine::built_in("xeon-e5-2699v3", &[]).expect("a machine");
    let crew = Simulated::new(&machine, 1);
    let found = attempt(|| {
        let lock = UScl::<Sim>::new();
        let (found, _) = gather(&crew, 2, Timing { warm_up: 0, duration: 100 * MS }, |member| {
            let begun = now();
            if member.number == 0 {
                // SAFETY: released below.
                unsafe { lock.lock(&()) };
                Sim::keep_busy(MS);
                // SAFETY: acquired above.
                unsafe { release(&lock, &()) };
                return None;
            }
            Sim::sleep(MS / 2);
            hold(&lock, 0);
            Some(now() - begun)
        });
        found
    });
    found.expect("both threads end").into_iter().flatten().next().expect("the second thread's")
}

#[test]
fn a_thread_that_waits_for_a_condition_gives_up_its_slice() {
    let (kept, given_up) = (acquired_after(UScl::unlock), acquired_after(UScl::unlock_to_wait));
    // The slice lasts for 2 ms; its owner releases the lock after 1 ms, when the other thread sleeps.
    assert!((2 * MS - 10_000..2 * MS + 10_000).contains(&kept), "{kept} ns");
    assert!((MS..MS + 100_000).contains(&given_up), "{given_up} ns");
}

/// Writers and readers as in a key-value store.
#[test]
fn more_threads_than_accounts_share_too() {
    let (fair, unfair) =
        (shares("u-scl", 1000 * MS, Config::store(12)), shares("mcs_spin", 100 * MS, Config::store(12)));
    assert!(fair.jain >= 0.95 && unfair.jain < 0.8, "{fair:?} {unfair:?}");
}
