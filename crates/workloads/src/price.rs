//! The same workload on a pthread mutex and on a lock of the catalogue that is called directly: what interposition
//! costs.

use crate::direct::{choose, Direct};
use crate::hardware::Hardware;
use crate::micro::{self, Effort, Sample};
use crate::{affinity, kv, pthread, Mutex};
use lockswap_locks::for_each_lock;
use lockswap_locks::registry::Role;
use lockswap_platform::Native;

/// Id of the nanoseconds from one operation of the key-value workload to the next, whichever thread makes it.
pub const KEY_VALUE: &str = "kv";

/// Id of the nanoseconds that one thread takes for a lock and an unlock.
pub const UNCONTENDED: &str = "uncontended";

/// Runs both workloads on `mutex`. The calling thread ends up pinned to one CPU.
fn measure<M: Mutex>(mutex: &M, kv: &kv::Config, effort: &Effort) -> [Sample; 2] {
    // First, on all CPUs: the locks look once at how many there are.
    let report = kv::run::<Native, M>(kv, &Hardware::default(), mutex);
    if let Some(&cpu) = affinity::allowed().last() {
        // Unpinned, the numbers vary more.
        let _ = affinity::pin(&[cpu]);
    }
    let ns = micro::with_second_thread(|| micro::pair(effort, mutex));
    [(KEY_VALUE, report.duration_ns as f64 / report.ops.max(1) as f64), (UNCONTENDED, ns)]
}

/// Measures on a pthread mutex, which a preloaded library may have replaced.
pub fn interposed(kv: &kv::Config, effort: &Effort) -> [Sample; 2] {
    measure(&*pthread::Mutex::new(pthread::Kind::Normal), kv, effort)
}

/// Measures on the mutex lock `lock` itself, which may have parameters; `None` if the catalogue has none of that name.
pub fn direct(lock: &str, kv: &kv::Config, effort: &Effort) -> Option<[Sample; 2]> {
    macro_rules! dispatch {
        (mutex { $($id:literal => $lock:path,)* } rwlock { $($rwlocks:tt)* } spin { $($spins:tt)* }) => {
            match choose(Role::Mutex, lock)? {
                $($id => {
                    use $lock as Lock;
                    Some(measure(&*Box::new(Direct::<Native, Lock<Native>>::new()), kv, effort))
                })*
                _ => None,
            }
        };
    }
    for_each_lock!(dispatch)
}
