//! What workloads do with their parameters, on a simulated machine, where no other program takes time from them.

use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_sim::{locks, Job, Machine, Workload};
use lockswap_workloads::record::Detail;
use lockswap_workloads::report::Report;
use lockswap_workloads::{locktorture, ncs};
use std::hint::black_box;

fn run(workload: Workload, threads: usize, duration: Ns) -> Report {
    let machine = Machine::built_in("xeon-e5-2699v3", &[]).expect("a machine");
    let workload = workload.with(threads, duration);
    let run = Job { machine: &machine, workload, lock: "mcs_spin", seed: 7 }.run();
    run.unwrap_or_else(|failure| panic!("{failure}")).report
}

#[test]
fn delays_of_locktorture_are_as_frequent_as_they_should_be() {
    // How much longer an acquisition takes with delays, ns. Holders exclude each other, and so do their delays.
    let cost = |threads, seldom| {
        let per_acquisition = |delay| {
            let config = locktorture::Config { delay, seldom, ..locktorture::Config::new(threads) };
            let report = run(Workload::Locktorture(config), threads, 100_000_000);
            report.duration_ns as f64 / report.ops as f64
        };
        per_acquisition(20_000) - per_acquisition(0)
    };
    for (threads, seldom, expected) in [(1, 4, 5_000.0), (1, 40, 500.0), (2, 4, 2_500.0)] {
        let found = cost(threads, seldom);
        let range = 0.9 * expected..1.1 * expected;
        assert!(range.contains(&found), "{threads} threads, seldom = {seldom}: {found} ns, not {expected}");
    }
}

#[test]
fn threads_wait_for_each_other_more_often_with_a_shorter_pause() {
    let with = |ncs, lines| {
        let config = ncs::Config { lines, inside: 0, ncs, ..ncs::Config::new(2) };
        run(Workload::Ncs(config), 2, 10_000_000)
    };
    let (long, short) = (with(20_000, 2), with(0, 64));
    assert!((17_000.0..23_000.0).contains(&long.round_ns), "{long:?}");
    assert!(short.waiters > long.waiters && short.ops > long.ops, "{short:?} {long:?}");
    let empty = with(500, 0);
    assert!(empty.handoffs.as_ref().is_some_and(|handoffs| handoffs.count > 0), "{empty:?}");
}

/// With lines of 128 bytes, twice the alignment of what locks keep on lines of their own.
#[test]
fn what_the_hosts_allocator_did_before_changes_nothing() {
    #[repr(align(64))]
    struct Block {
        _bytes: [u8; 64],
    }
    let machine = Machine::built_in("apple-m1", &[]).expect("a machine");
    let counted = |workload: &str, lock: &str| {
        let workload = Workload::named(workload).expect("a workload").noting(8, 200_000, Detail::Counts);
        let run = Job { machine: &machine, workload, lock, seed: 3 }.run();
        run.unwrap_or_else(|failure| panic!("{failure}")).report.ops
    };
    for (workload, lock) in locks(Role::Mutex).flat_map(|lock| [("kv", lock), ("bursts", lock)]) {
        let first = counted(workload, lock);
        let mut kept = Vec::new();
        for blocks in 1..4 {
            kept.extend((0..blocks).map(|_| black_box(Box::new(Block { _bytes: [0; 64] }))));
            assert_eq!(counted(workload, lock), first, "{workload} on {lock}, after {} blocks", kept.len());
        }
    }
}
