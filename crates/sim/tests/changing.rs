//! The workloads in which contention comes and goes, on a simulated machine.

use lockswap_platform::Ns;
use lockswap_sim::{Job, Machine, Workload};
use lockswap_workloads::report::Report;

const MS: Ns = 1_000_000;

fn run(name: &str, set: &[(&str, &str)], threads: usize) -> Report {
    let machine = Machine::built_in("apple-m1", &[]).expect("a machine");
    let mut workload = Workload::named(name).expect("a workload");
    set.iter().for_each(|(key, value)| workload.set(key, value).expect("a value"));
    let job = Job { machine: &machine, workload: workload.with(threads, 12 * MS), lock: "mcs_spin", seed: 3 };
    job.run().unwrap_or_else(|failure| panic!("{name}: {failure}")).report
}

/// Alone and nearly always away, a thread makes twice the acquisitions in the same time if its bursts are twice as
/// long.
#[test]
fn a_thread_goes_away_after_each_burst() {
    let alone = |burst| run("bursts", &[("burst", burst), ("inside", "0"), ("outside", "0")], 1).ops as f64;
    let ratio = alone("8") / alone("4");
    assert!((1.8..2.2).contains(&ratio), "{ratio}");
}

/// Bursts meet each other, so that some threads wait, but not all the time.
#[test]
fn bursts_of_several_threads_meet_now_and_then() {
    let waiters = run("bursts", &[], 8).waiters.expect("noted");
    assert!(waiters > 0.05 && waiters < 4.0, "{waiters}");
}

/// Half of the time with hardly any acquisition is half of the acquisitions; the phases are those of the whole run.
#[test]
fn every_phase_has_its_own_lengths() {
    let with = |outside| {
        let set = [("inside", "100"), ("outside", outside), ("phase", "1ms")];
        run("phases", &set, 1).ops as f64
    };
    let (always, half, never) = (with("100"), with("100,100000"), with("100000"));
    assert!(never < 0.01 * always && (0.4..0.6).contains(&(half / always)), "{always} {half} {never}");
}
