//! Loom's machine sees what it is there for: waits that do not end, wake-ups that are lost through weak orders, and
//! memory that is accessed after its end. Each lock here has one defect; beside it stands the same lock without.

use lockswap_check::explore::{Explore, Virtual};
use lockswap_check::mutation::{self, Change, Mutant};
use lockswap_check::runner::{self, Budget};
use lockswap_check::source;
use lockswap_check::subjects::{self, Subject};
use lockswap_check::weak::{Modelled, Weak};
use lockswap_conformance::small;
use lockswap_locks::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use lockswap_locks::registry::Role;
use lockswap_locks::{Context, IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};
use std::time::Duration;

/// A lock on one word, whose waiters say so in another one and sleep on the first one.
struct Sleepers<P: Platform, const DEFECT: u32> {
    held: P::U32,
    waiters: P::U32,
}

/// None.
const SOUND: u32 = 0;
/// The release wakes nobody.
const FORGETS: u32 = 1;
/// A release may look for waiters before others see that the lock is free: the look is a load, not an exchange.
const LOOKS_EARLY: u32 = 2;
/// The release looks at the lock after another thread may have acquired it.
const LOOKS_LATE: u32 = 3;

const INFO: LockInfo = LockInfo {
    id: "sleepers",
    family: Family::Flat,
    waiting: WaitingPolicy::SpinThenPark,
    fairness: Fairness::Unfair,
    timed: Timed::Poll,
    summary: "",
    paper: "",
    ..LockInfo::PLAIN
};

impl<P: Platform, const DEFECT: u32> Sleepers<P, DEFECT> {
    fn take(&self) -> bool {
        self.held.compare_exchange(0, 1, Ordering::Acquire).is_ok()
    }
}

// SAFETY: an exchange acquires; of the defects the tests are to find out.
unsafe impl<P: Platform, const DEFECT: u32> RawLock<P> for Sleepers<P, DEFECT> {
    const INFO: LockInfo = INFO;
    type Ctx = ();

    fn new() -> Self {
        Sleepers { held: P::U32::new(0), waiters: P::U32::new(0) }
    }

    unsafe fn lock(&self, (): &()) {
        while !self.take() {
            self.waiters.fetch_add(1, Ordering::SeqCst);
            P::park(&self.held, 1, None);
            self.waiters.fetch_sub(1, Ordering::SeqCst);
        }
    }

    unsafe fn unlock(&self, (): &()) {
        let held: *const P::U32 = &self.held;
        match DEFECT {
            // The count is read while the lock is held, so that its memory need not be there afterwards.
            SOUND | FORGETS => {
                self.held.store(0, Ordering::Release);
                if DEFECT == SOUND {
                    P::unpark(held, u32::MAX);
                }
            }
            LOOKS_EARLY => {
                self.held.store(0, Ordering::Release);
                if self.waiters.load(Ordering::Relaxed) > 0 {
                    P::unpark(held, u32::MAX);
                }
            }
            _ => {
                self.held.store(0, Ordering::Release);
                if self.waiters.fetch_add(0, Ordering::SeqCst) > 0 {
                    P::unpark(held, u32::MAX);
                }
            }
        }
    }
}

// SAFETY: as above.
unsafe impl<P: Platform, const DEFECT: u32> TryLock<P> for Sleepers<P, DEFECT> {
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.take()
    }
}

// SAFETY: as above.
unsafe impl<P: Platform, const DEFECT: u32> TimedLock<P> for Sleepers<P, DEFECT> {}

impl<P: Platform, const DEFECT: u32> IsHeld for Sleepers<P, DEFECT> {
    fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) != 0
    }
}

/// A node: 1 while its owner waits.
struct Node<P: Platform> {
    waits: P::U32,
    next: P::Ptr<Node<P>>,
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        Node { waits: P::U32::new(0), next: P::Ptr::new(std::ptr::null_mut()) }
    }
}

/// The queue lock of Mellor-Crummey and Scott, with a defect or without.
struct Queue<P: Platform, const DEFECT: u32>(P::Ptr<Node<P>>);

/// The release passes the lock to nobody if there is a successor.
const NO_GRANT: u32 = 1;
/// A waiter, granted the lock, looks at its predecessor's node once more.
const LOOKS_BACK: u32 = 2;

// SAFETY: as above.
unsafe impl<P: Platform, const DEFECT: u32> RawLock<P> for Queue<P, DEFECT> {
    const INFO: LockInfo = LockInfo { id: "queue", family: Family::Queue, waiting: WaitingPolicy::Spin, ..INFO };
    type Ctx = Node<P>;

    fn new() -> Self {
        Queue(P::Ptr::new(std::ptr::null_mut()))
    }

    unsafe fn lock(&self, cx: &Node<P>) {
        cx.next.store(std::ptr::null_mut(), Ordering::Relaxed);
        cx.waits.store(1, Ordering::Relaxed);
        let predecessor = self.0.swap(std::ptr::from_ref(cx).cast_mut(), Ordering::AcqRel);
        if predecessor.is_null() {
            return;
        }
        // SAFETY: the predecessor's node stays until it has granted the lock.
        let predecessor = unsafe { &*predecessor };
        predecessor.next.store(std::ptr::from_ref(cx).cast_mut(), Ordering::Release);
        P::spin_map(|| (cx.waits.load(Ordering::Acquire) == 0).then_some(()));
        if DEFECT == LOOKS_BACK {
            predecessor.waits.load(Ordering::Relaxed);
        }
    }

    unsafe fn unlock(&self, cx: &Node<P>) {
        let me = std::ptr::from_ref(cx).cast_mut();
        if cx.next.load(Ordering::Acquire).is_null()
            && self.0.compare_exchange(me, std::ptr::null_mut(), Ordering::Release).is_ok()
        {
            return;
        }
        let next = P::spin_map(|| Some(cx.next.load(Ordering::Acquire)).filter(|next| !next.is_null()));
        if DEFECT != NO_GRANT {
            // SAFETY: the successor waits.
            unsafe { (*next).waits.store(0, Ordering::Release) };
        }
    }
}

// SAFETY: as above.
unsafe impl<P: Platform, const DEFECT: u32> TryLock<P> for Queue<P, DEFECT> {
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        cx.next.store(std::ptr::null_mut(), Ordering::Relaxed);
        self.0.compare_exchange(std::ptr::null_mut(), std::ptr::from_ref(cx).cast_mut(), Ordering::AcqRel).is_ok()
    }
}

// SAFETY: as above.
unsafe impl<P: Platform, const DEFECT: u32> TimedLock<P> for Queue<P, DEFECT> {}

impl<P: Platform, const DEFECT: u32> IsHeld for Queue<P, DEFECT> {
    fn is_held(&self) -> bool {
        !self.0.load(Ordering::Relaxed).is_null()
    }
}

/// The searches end by their number of executions, on a busy machine, too.
const LONG: Duration = Duration::from_secs(300);

/// What fails under loom, in the scenario with this name.
fn fails<L: lockswap_conformance::Lock<Weak>>(name: &str) -> Option<String> {
    let scenarios = small::mutex::<Weak, L, Modelled>();
    let scenario = scenarios.iter().find(|scenario| scenario.name == name).expect("there is such a scenario");
    runner::weak(scenario, Budget { weak_executions_bounded: 1_000, time: LONG, ..Budget::SHORT }).failure
}

#[test]
fn a_wait_that_nobody_ends_is_an_error() {
    assert_eq!(fails::<Queue<Weak, SOUND>>("exclusion-2x2"), None);
    let failure = fails::<Queue<Weak, NO_GRANT>>("exclusion-2x2").expect("the successor waits for ever");
    assert!(failure.contains("no wait ends"), "{failure}");
    // A waiter of which it is forgotten that it sleeps. One that wakes by itself is not affected.
    assert_eq!(fails::<Sleepers<Weak, SOUND>>("asleep ll-ll"), None);
    assert_eq!(fails::<Sleepers<Weak, FORGETS>>("exclusion-2x2"), None);
    let failure = fails::<Sleepers<Weak, FORGETS>>("asleep ll-ll").expect("the sleeper sleeps for ever");
    assert!(failure.contains("no wait ends") || failure.contains("deadlock"), "{failure}");
}

/// A wake-up that is lost only because a load overtakes a store: the explorer, where it cannot, sees no error.
#[test]
fn a_wake_up_that_is_lost_through_a_weak_order_is_an_error() {
    let subject = Subject {
        role: Role::Mutex,
        id: "sleepers",
        variant: "",
        explore: small::mutex::<Explore, Sleepers<Explore, LOOKS_EARLY>, Virtual>(),
        weak: Vec::new(),
    };
    let named = |scenario: &&small::Scenario| scenario.name == "exclusion-2x2";
    let explored = runner::explore(&subject, subject.explore.iter().find(named).unwrap(), Budget::SHORT);
    assert!(explored.complete && explored.failure.is_none(), "{explored:?}");
    assert!(fails::<Sleepers<Weak, LOOKS_EARLY>>("asleep ll-ll").is_some());
    assert_eq!(fails::<Sleepers<Weak, LOOKS_LATE>>("asleep ll-ll"), None, "its look is an exchange");
}

#[test]
fn memory_is_not_accessed_after_its_end() {
    assert_eq!(fails::<Sleepers<Weak, SOUND>>("gone-2"), None);
    assert!(fails::<Sleepers<Weak, LOOKS_LATE>>("gone-2").is_some());
    assert_eq!(fails::<Queue<Weak, SOUND>>("freed ll-ll"), None);
    assert_eq!(fails::<Queue<Weak, LOOKS_BACK>>("exclusion-2x2"), None, "the nodes outlive the threads there");
    assert!(fails::<Queue<Weak, LOOKS_BACK>>("freed ll-ll").is_some());
}

/// Without Release on the store that frees its predecessor's node, a waiter of CLH accesses a node that may be gone;
/// and what it left there may hide what the next waiter leaves, who then sleeps while another thread is woken.
#[test]
fn a_node_of_clh_that_is_freed_too_early_is_seen() {
    let file = "crates/locks/src/queue/clh.rs";
    let text = "predecessor.state.store(FREE, Ordering::Release);";
    let found = (1..=source::length(file)).find(|line| source::line(file, *line).ends_with(text));
    let line = found.expect("the store that ORDER(reuse) is about");
    let all = subjects::all();
    let clh = all.iter().find(|subject| subject.id == "clh_stp").unwrap();
    let fails = |name: &str, mutant: Option<Mutant>| {
        let scenario = clh.weak.iter().find(|scenario| scenario.name == name).unwrap();
        mutation::set(mutant);
        let budget = Budget { weak_executions_bounded: 30_000, time: LONG, ..Budget::SHORT };
        let failure = runner::weak(scenario, budget).failure;
        mutation::set(None);
        failure
    };
    let mutants = mutation::record(|| assert_eq!(fails("freed ll-ll", None), None));
    let here = |mutant: &&Mutant| {
        mutant.place.file == file && mutant.place.line == line && mutant.change == Change::DropRelease
    };
    let mutant = mutants.iter().find(here).expect("loom passes the store");
    let gone = fails("freed ll-ll", Some(mutant.clone())).expect("the node is freed too early");
    assert!(gone.contains("Causality violation"), "{gone}");
    assert_eq!(fails("reused l-r-l", None), None);
    let wrong = fails("reused l-r-l", Some(mutant.clone())).expect("another thread is woken than the one that waits");
    assert!(wrong.contains("no wait ends") || wrong.contains("deadlock"), "{wrong}");
}
