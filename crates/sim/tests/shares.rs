//! u-SCL on a simulated machine: lock time goes to threads by their weights, whatever their critical sections are like.

use lockswap_platform::Ns;
use lockswap_sim::{Job, Machine, Workload};
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

/// Writers and readers as in a key-value store.
#[test]
fn more_threads_than_accounts_share_too() {
    let (fair, unfair) =
        (shares("u-scl", 1000 * MS, Config::store(12)), shares("mcs_spin", 100 * MS, Config::store(12)));
    assert!(fair.jain >= 0.95 && unfair.jain < 0.8, "{fair:?} {unfair:?}");
}
