//! The kernel's spinlocks, which only the simulator has, in the explorer: they exclude, lose no waiter and touch
//! nothing that is gone, as the locks of the catalogue do, also with queues that are long enough to be put into order.
//!
//! Not under loom: its atomics have no parts, and those of the lock word are accessed alone.

use lockswap_check::explore::{Explore, Virtual};
use lockswap_check::runner::{self, Budget};
use lockswap_check::subjects::Subject;
use lockswap_conformance::small::{self, Scenario};
use lockswap_conformance::{Lock, Threads};
use lockswap_locks::info::LockInfo;
use lockswap_locks::registry::Role;
use lockswap_platform::{DataCell, Ns, Platform};
use lockswap_sim::kernel::cna::Cna;
use lockswap_sim::kernel::node::Node;
use lockswap_sim::kernel::queued::{Arrival, Order, Queued};
use lockswap_sim::kernel::ron::Route;
use lockswap_sim::kernel::shfl::Shfl;
use lockswap_sim::kernel::Kernel;

type Of<O> = Queued<Explore, O>;

/// The lock is held; `WAITERS` threads want it, the first of which waits without a node, and one releases it.
fn held<L: Lock<Explore, Ctx = ()>, const WAITERS: usize>() {
    let (lock, count) = (L::new(), <Explore as Platform>::Data::<usize>::new(0));
    // SAFETY: the last thread releases it.
    unsafe { lock.lock(&()) };
    let (lock, count) = (&lock, &count);
    let waits = || {
        Box::new(move || {
            // SAFETY: no context is needed, and the lock protects the count.
            unsafe {
                lock.lock(&());
                count.with_mut(|count| *count += 1);
                lock.unlock(&());
            }
        }) as Box<dyn FnOnce() + Send + '_>
    };
    // SAFETY: held since before the threads.
    let releases = Box::new(move || unsafe { lock.unlock(&()) }) as Box<dyn FnOnce() + Send + '_>;
    Virtual::run((0..WAITERS).map(|_| waits()).chain([releases]).collect());
    // SAFETY: all threads have ended.
    assert_eq!((unsafe { count.with(|count| *count) }, lock.is_held()), (WAITERS, false));
}

/// The scenarios of a lock with this order: those of all locks, and queues of one to three waiters.
fn subject<O: Order<Explore>>(variant: &'static str) -> Subject {
    let mut explore = small::mutex::<Explore, Of<O>, Virtual>();
    explore.extend([
        Scenario { name: "held, 1 queues", threads: 3, run: held::<Of<O>, 2> },
        Scenario { name: "held, 2 queue", threads: 4, run: held::<Of<O>, 3> },
        Scenario { name: "held, 3 queue", threads: 5, run: held::<Of<O>, 4> },
    ]);
    Subject { role: Role::Mutex, id: O::INFO.id, variant, explore, weak: Vec::new() }
}

/// The first scenario in which the lock fails, and how.
fn failure(subject: &Subject) -> Option<(String, String)> {
    let mut seen = 0;
    let failure = subject.explore.iter().find_map(|scenario| {
        let checked = runner::explore(subject, scenario, Budget::SHORT);
        seen += checked.executions;
        checked.failure.map(|failure| (checked.scenario, failure))
    });
    println!("{}: {seen} executions", subject.name());
    failure
}

#[test]
fn the_kernels_locks_hold_in_the_explorer() {
    const PATIENT: Ns = 1_000_000_000;
    for subject in [
        subject::<Arrival>(""),
        subject::<Cna<PATIENT>>(""),
        subject::<Cna<0>>("the second queue's turn has always come"),
        subject::<Shfl<PATIENT>>(""),
        subject::<Shfl<0>>("groups never grow at the cost of others"),
        subject::<Route>(""),
    ] {
        assert_eq!(failure(&subject), None, "{}", subject.name());
    }
}

/// Calls nobody.
struct Forgets;
/// Nobody waits to be called.
struct NoTurns;

impl Order<Explore> for Forgets {
    const INFO: LockInfo = LockInfo { id: "forgets", ..LockInfo::PLAIN };

    fn pass(_: &Node<<Explore as Kernel>::Memory>) {}
}

impl Order<Explore> for NoTurns {
    const INFO: LockInfo = LockInfo { id: "waits for nobody", ..LockInfo::PLAIN };

    fn wait_for_turn(_: &Node<<Explore as Kernel>::Memory>) {}
}

#[test]
fn orders_that_lose_waiters_or_call_two_are_found() {
    let (_, lost) = failure(&subject::<Forgets>("")).expect("a waiter is lost");
    assert!(lost.contains("deadlock"), "{lost}");
    let (_, two) = failure(&subject::<NoTurns>("")).expect("two heads of the queue");
    assert!(two.contains("deadlock") || two.contains("critical section"), "{two}");
}
