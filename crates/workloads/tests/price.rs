//! Locks called directly, in a process of their own: the threads would disturb measurements beside them.

use lockswap_locks::info::Family;
use lockswap_locks::registry::{Role, ENTRIES};
use lockswap_workloads::crew::Timing;
use lockswap_workloads::kv;
use lockswap_workloads::micro::Effort;
use lockswap_workloads::price::{direct, interposed};
use std::time::Duration;

#[test]
fn every_lock_of_the_catalogue_runs_both_workloads() {
    let kv = kv::Config { timing: Timing::lasting(100_000_000), ..kv::Config::new(3) };
    let effort = Effort { single: Duration::from_millis(1), ..Effort::default() };
    for info in ENTRIES.iter().filter(|entry| entry.role == Role::Mutex).map(|entry| entry.info) {
        // A thread of its own, since measuring pins it.
        let found = std::thread::scope(|scope| scope.spawn(|| direct(info.id, &kv, &effort)).join());
        let found = found.expect("no panic");
        assert_eq!(found.is_some(), info.family != Family::Native, "{}", info.id);
        let works = found.is_none_or(|samples| samples.iter().all(|sample| (0.1..1e7).contains(&sample.1)));
        assert!(works, "{}: {found:?}", info.id);
    }
    assert!(interposed(&kv, &effort)[0].1 > 0.0);
}
