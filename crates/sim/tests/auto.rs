//! `auto` on a simulated machine: a candidate lets others go first while that pays, and waiters leave the lock's line
//! to those who need it.

use lockswap_locks::auto::bounds::{Bounds, Published};
use lockswap_locks::auto::lock::AutoLock;
use lockswap_locks::RawLock as _;
use lockswap_platform::{Clock, Ns, Platform};
use lockswap_sim::{attempt, Job, Machine, Sim, Simulated, Workload};
use lockswap_workloads::crew::{gather, Timing};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

const MS: Ns = 1_000_000;

type Auto<P> = AutoLock<P, Published>;

/// A machine with two sockets, whose threads are spread over them.
const TWO_SOCKETS: &[(&str, &str)] = &[("topology.placement", "spread")];
/// One with one socket.
const ONE_SOCKET: &[(&str, &str)] = &[("topology.sockets", "1"), ("topology.cpus", "36")];

fn machine(set: &[(&str, &str)]) -> Machine {
    let set: Vec<_> = set.iter().map(|&(key, value)| (key.into(), value.into())).collect();
    Machine::built_in("xeon-e5-2699v3", &set).expect("a machine")
}

/// How often in a row the same one of two threads on `machine` acquires the lock, on average, if each gives it back
/// after `inside` steps, as one that is about to wait for a condition each time that `waits` says so of how often it
/// has acquired it, and wants it again after `outside` steps; the mean of 8 seeds, since chance decides when batches
/// are tried.
fn batches(machine: &Machine, waits: fn(u32) -> bool, inside: u64, outside: u64) -> f64 {
    (1..=8).map(|seed| batches_with_seed(machine, waits, inside, outside, seed)).sum::<f64>() / 8.0
}

fn batches_with_seed(machine: &Machine, waits: fn(u32) -> bool, inside: u64, outside: u64, seed: u64) -> f64 {
    let crew = Simulated::new(machine, seed);
    let found = attempt(|| {
        let lock = Auto::<Sim>::new();
        let last = AtomicUsize::new(0);
        let (counts, _) = gather(&crew, 2, Timing { warm_up: 0, duration: 100 * MS }, |member| {
            let (mut acquired, mut changes) = (0, 0);
            while Sim::now(Clock::Monotonic) < 4 * MS {
                // SAFETY: released below.
                unsafe { lock.lock(&()) };
                acquired += 1;
                changes += u32::from(last.swap(member.number, Relaxed) != member.number);
                Sim::compute(inside);
                let release = if waits(acquired) { Auto::unlock_to_wait } else { Auto::unlock };
                // SAFETY: acquired above.
                unsafe { release(&lock, &()) };
                Sim::compute(outside);
            }
            (acquired, changes)
        });
        let sum = |what: fn(&(u32, u32)) -> u32| counts.iter().map(what).sum::<u32>();
        f64::from(sum(|counts| counts.0)) / f64::from(sum(|counts| counts.1))
    });
    found.expect("both threads end")
}

#[test]
fn others_go_first_while_they_get_the_lock_quickly_after_each_other() {
    let short = batches(&machine(TWO_SOCKETS), |_| false, 10, 50);
    assert!(short >= 10.0, "{short}");
    // Not where the lock would lie idle.
    let long = batches(&machine(TWO_SOCKETS), |_| false, 1000, 1000);
    assert!(long < 3.0, "{long}");
}

/// Who waits for a condition may wait for the very thread that would let it go first.
#[test]
fn nobody_goes_first_where_threads_wait_for_each_other() {
    let waiting = batches(&machine(TWO_SOCKETS), |_| true, 10, 50);
    assert!(waiting < 4.0, "{waiting}");
}

/// A thread that waits now and then may have much to do until it waits again, and a newcomer stands back for a moment:
/// here until the other one has come and gone, so that the two alternate. One that waits after each operation has not.
#[test]
fn newcomers_stand_back_where_waits_are_rare() {
    let machine = machine(ONE_SOCKET);
    let rare = batches(&machine, |acquired| acquired % 20 == 0, 5, 30);
    let frequent = batches(&machine, |_| true, 5, 30);
    assert!(rare < 1.5 && frequent > 2.0, "{rare} and {frequent}");
}

/// For each acquisition of 8 threads on 2 CPUs that hold the lock for `inside` steps and want it again after `outside`
/// steps.
#[derive(Debug, PartialEq)]
struct Cost {
    /// Memory operations.
    operations: f64,
    /// Those of them that needed a line from elsewhere.
    misses: f64,
    /// How many acquisitions there are in a second.
    throughput: f64,
}

fn cost(lock: &str, inside: u64, outside: u64) -> Cost {
    let set = [
        ("topology.sockets", "1"),
        ("topology.cpus", "2"),
        ("topology.clusters", "[{ kind = \"core\", cores = 2 }]"),
        ("kind.core.threads", "1"),
        ("scheduler.patience", "true"),
    ];
    let machine = machine(&set);
    let mut workload = Workload::named("counter").expect("a workload");
    for (key, value) in [("inside", inside), ("outside", outside)] {
        workload.set(key, &value.to_string()).expect("a key");
    }
    let run = Job { machine: &machine, workload: workload.with(8, 40 * MS), lock, seed: 1 }.run().expect("it ends");
    let each = |total: u64| total as f64 / run.report.ops as f64;
    let (operations, misses) = (each(run.totals.operations), each(run.totals.misses));
    Cost { operations, misses, throughput: run.report.throughput }
}

/// Where the thread that has the lock gets it again and again, because the others would be too late in any case.
#[test]
fn a_candidate_that_would_look_in_vain_sleeps() {
    let (never, usual) = ("auto:resign=1000000", "auto");
    let (awake, asleep) = (cost(never, 2_500, 0), cost(usual, 2_500, 0));
    assert!(asleep.misses < 0.85 * awake.misses, "{asleep:?} for {awake:?}");
    assert!(asleep.operations < 0.85 * awake.operations, "{asleep:?} for {awake:?}");
    assert!(asleep.throughput > 0.99 * awake.throughput, "{asleep:?} for {awake:?}");
    // Not where it would find the lock free.
    assert_eq!(cost(never, 2_500, 5_000), cost(usual, 2_500, 5_000));
}

/// Where sections are short, and the thread that releases the lock is back before the others have seen it free.
#[test]
fn a_candidate_that_others_pass_again_and_again_sleeps() {
    let (awake, asleep) = (cost("auto:nap=0", 20, 20), cost("auto", 20, 20));
    assert!(asleep.operations < 0.95 * awake.operations, "{asleep:?} for {awake:?}");
    assert!(asleep.throughput > 1.05 * awake.throughput, "{asleep:?} for {awake:?}");
}

/// Where a sleeper has its turn whose CPU is busy, the candidate, which shares its own with sleepers only, stays.
#[test]
fn no_cpu_lies_idle_while_a_sleeper_waits_for_another_one() {
    let (auto, ttas) = (cost("auto", 2_500, 2_500), cost("ttas", 2_500, 2_500));
    assert!(auto.throughput > 0.9 * ttas.throughput, "{auto:?} for {ttas:?}");
}

/// Of so many threads on as many CPUs of caches for eight, which hold the lock for a moment and then stay away for 40
/// us, so that some 20 of 64 wait: how many acquisitions there are, and how many of them are on a CPU less than 16 of
/// 256 places along the route behind that of the one before.
fn acquisitions<B: Bounds>(threads: usize) -> (u32, u32) {
    let machine = Machine::built_in("epyc-7742-2s", &[]).expect("a machine");
    let acquired = (1..=4).map(|seed| {
        let counts = attempt(|| {
            let lock = AutoLock::<Sim, B>::new();
            let last = AtomicU32::new(0);
            let timing = Timing { warm_up: 0, duration: 100 * MS };
            let (counts, _) = gather(&Simulated::new(&machine, seed), threads, timing, |_| {
                let (mut acquired, mut next) = (0, 0);
                while Sim::now(Clock::Monotonic) < 2 * MS {
                    // SAFETY: released below.
                    unsafe { lock.lock(&()) };
                    acquired += 1;
                    let here = Sim::rank();
                    let way = (here + Sim::ranks() - last.swap(here, Relaxed)) % Sim::ranks();
                    next += u32::from((1..16).contains(&way));
                    Sim::compute(200);
                    // SAFETY: acquired above.
                    unsafe { lock.unlock(&()) };
                    Sim::compute(20_000);
                }
                (acquired, next)
            });
            counts.iter().fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1))
        });
        counts.expect("all threads end")
    });
    acquired.fold((0, 0), |sum, counts| (sum.0 + counts.0, sum.1 + counts.1))
}

/// The lock stays where it comes, and nobody asks but as often as this says.
struct InPlace<const ASKS: u64>;
impl<const ASKS: u64> Bounds for InPlace<ASKS> {
    const ASKS: u64 = ASKS;
    const ROUTE: u32 = 0;
}

/// Each question of a waiter whether the candidate looks at the lock takes the lock's line away from it.
#[test]
fn few_of_many_waiters_ask_for_a_sign() {
    let ((some, _), (all, _)) = (acquisitions::<InPlace<{ Published::ASKS }>>(64), acquisitions::<InPlace<1>>(64));
    assert!(f64::from(some) > 1.03 * f64::from(all), "{some}, and {all} if all ask");
}

#[test]
fn the_lock_of_many_waiters_travels_along_the_route() {
    for (threads, least) in [(64, 1.1), (256, 1.5)] {
        let ((travels, next), (stays, next_if_not)) =
            (acquisitions::<Published>(threads), acquisitions::<InPlace<{ Published::ASKS }>>(threads));
        assert!(f64::from(travels) > least * f64::from(stays), "{threads}: {travels}, and {stays} if it does not");
        let of = |next, all| f64::from(next) / f64::from(all);
        let (share, otherwise) = (of(next, travels), of(next_if_not, stays));
        assert!(share > 0.8 && otherwise < 0.5, "{threads}: {share} go a short way, and {otherwise} otherwise");
    }
}
