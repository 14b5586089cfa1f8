//! Kernels and workloads on locks of the catalogue that are called directly. As unit tests these would have all of that
//! compiled once more.

use lockswap_workloads::directly;
use lockswap_workloads::hardware::Hardware;
use lockswap_workloads::kernels::{run, run_directly, Config, Kernel};
use lockswap_workloads::record::Detail;
use lockswap_workloads::workload::Workload;

#[test]
fn kernels_do_the_same_work_on_every_lock() {
    let config = Config { threads: 2, scale: 1 };
    for kernel in [Kernel::Raytrace, Kernel::Volume, Kernel::Dedup] {
        assert_eq!(run_directly(kernel, "mcs_spin", config).as_ref(), Some(&run(kernel, config)));
    }
    assert_eq!(run_directly(Kernel::Raytrace, "no_such_lock", config), None);
    assert_eq!(run_directly(Kernel::Cluster, "mcs_spin", config), None);
}

/// The results check themselves: an increment that is lost is a panic.
#[test]
fn workloads_note_what_they_are_asked_to_note() {
    for (name, lock) in [
        ("counter", "auto"),
        ("kv", "cna:threshold=3"),
        ("ncs", "mcs_stp"),
        ("bursts", "shfllock-b"),
        ("phases", "ticket"),
        ("locktorture", "futex"),
        ("readers", "rw-futex"),
    ] {
        let workload = Workload::named(name).expect("a workload");
        for detail in [Detail::Counts, Detail::Waits, Detail::Handoffs] {
            let noting = workload.clone().noting(2, 20_000_000, detail);
            let report = directly::run(&noting, lock, &Hardware::default()).expect("runs");
            assert!(report.ops > 0 && report.threads == 2, "{name} on {lock}: {report:?}");
            // Readers and writers always note waits, and never hand-offs.
            let is_of_readers = name == "readers";
            let notes = (report.waiters.is_some(), report.handoffs.is_some());
            let waits = is_of_readers || detail >= Detail::Waits;
            let handoffs = !is_of_readers && detail == Detail::Handoffs;
            assert_eq!(notes, (waits, handoffs), "{name} on {lock}: {detail:?}");
        }
    }
}

#[test]
fn what_cannot_run_is_refused() {
    let refused = |workload: &str, lock: &str| {
        let workload = Workload::named(workload).expect("a workload");
        directly::run(&workload, lock, &Hardware::default()).expect_err("nothing to run")
    };
    assert_eq!(refused("counter", "no_such_lock"), "no lock 'no_such_lock'");
    assert_eq!(refused("readers", "mcs_spin"), "no lock 'mcs_spin'");
    assert_eq!(refused("shares", "mcs_spin"), "not a workload of mutexes that can be called directly");
}
