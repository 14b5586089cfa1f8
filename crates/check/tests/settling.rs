//! Both machines see what conditional stores are there for: a lock whose release is a plain store although waiters
//! sleep loses no wake-up, and loses one if the sleeper does not settle, or does so too early, or if the look and the
//! store are two accesses like others.

use lockswap_check::explore::{Explore, Virtual};
use lockswap_check::mutation::{self, Change, Wait};
use lockswap_check::runner::{self, Budget};
use lockswap_check::subjects::Subject;
use lockswap_check::weak::{Modelled, Weak};
use lockswap_conformance::small;
use lockswap_locks::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use lockswap_locks::registry::Role;
use lockswap_locks::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};
use std::time::Duration;

/// None.
const SOUND: u32 = 0;
/// The sleeper does not settle.
const NO_SETTLING: u32 = 1;
/// The sleeper settles before it sets the flag.
const TOO_EARLY: u32 = 2;
/// The release looks and stores, but not as one.
const TWO_ACCESSES: u32 = 3;
/// The release looks at the flag once more behind the store.
const LOOKS_LATE: u32 = 4;

/// A byte for the holder, a byte that says that somebody may sleep, and a word to sleep on, which is odd from a
/// release that wakes sleepers to the next acquisition.
struct Flagged<P: Platform, const DEFECT: u32> {
    held: P::U8,
    sleeps: P::U8,
    bell: P::U32,
}

// SAFETY: an exchange acquires; of the defects the tests are to find out.
unsafe impl<P: Platform, const DEFECT: u32> RawLock<P> for Flagged<P, DEFECT> {
    const INFO: LockInfo = LockInfo {
        id: "flagged",
        family: Family::Flat,
        waiting: WaitingPolicy::SpinThenPark,
        fairness: Fairness::Unfair,
        timed: Timed::Poll,
        summary: "",
        paper: "",
        ..LockInfo::PLAIN
    };
    type Ctx = ();

    fn new() -> Self {
        Flagged { held: P::U8::new(0), sleeps: P::U8::new(0), bell: P::U32::new(0) }
    }

    unsafe fn lock(&self, (): &()) {
        while !self.take() {
            let bell = self.bell.load(Ordering::Acquire);
            if bell & 1 == 1 {
                let goes_on = || self.held.load(Ordering::Relaxed) == 0 || self.bell.load(Ordering::Relaxed) != bell;
                P::spin_map(|| goes_on().then_some(()));
                continue;
            }
            if DEFECT == TOO_EARLY {
                P::settle();
            }
            self.sleeps.store(1, Ordering::Relaxed);
            if DEFECT != NO_SETTLING && DEFECT != TOO_EARLY {
                // Where that is not offered any more every release rings the bell.
                P::settle();
            }
            // The last look: an exchange, which sees the newest value. A release that comes later rings the bell.
            if self.take() {
                return;
            }
            P::park(&self.bell, bell, None);
        }
    }

    unsafe fn unlock(&self, (): &()) {
        let bell: *const P::U32 = &self.bell;
        if DEFECT == TWO_ACCESSES {
            if self.sleeps.load(Ordering::Relaxed) == 0 {
                return self.held.store(0, Ordering::Release);
            }
        } else if P::store_unless(&self.sleeps, &self.held, 0) {
            if DEFECT == LOOKS_LATE {
                self.sleeps.load(Ordering::Relaxed);
            }
            return;
        }
        self.sleeps.store(0, Ordering::Relaxed);
        self.bell.fetch_add(1, Ordering::Release);
        self.held.swap(0, Ordering::Release);
        P::unpark(bell, u32::MAX);
    }
}

impl<P: Platform, const DEFECT: u32> Flagged<P, DEFECT> {
    fn take(&self) -> bool {
        let takes = self.held.compare_exchange(0, 1, Ordering::Acquire).is_ok();
        if takes && self.bell.load(Ordering::Relaxed) & 1 == 1 {
            self.bell.fetch_add(1, Ordering::Relaxed);
        }
        takes
    }
}

// SAFETY: as above.
unsafe impl<P: Platform, const DEFECT: u32> TryLock<P> for Flagged<P, DEFECT> {
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.take()
    }
}

// SAFETY: as above.
unsafe impl<P: Platform, const DEFECT: u32> TimedLock<P> for Flagged<P, DEFECT> {}

impl<P: Platform, const DEFECT: u32> IsHeld for Flagged<P, DEFECT> {
    fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed) != 0
    }
}

/// The searches end by their number of executions, on a busy machine, too.
const BUDGET: Budget = Budget { weak_executions_bounded: 5_000, time: Duration::from_secs(300), ..Budget::SHORT };

/// What goes wrong in the explorer, in the scenario with this name.
fn explored<const DEFECT: u32>(name: &str) -> Option<String> {
    let subject = Subject {
        role: Role::Mutex,
        id: "flagged",
        variant: "",
        explore: small::mutex::<Explore, Flagged<Explore, DEFECT>, Virtual>(),
        weak: Vec::new(),
    };
    let scenario = subject.explore.iter().find(|scenario| scenario.name == name).expect("there is such a scenario");
    let checked = runner::explore(&subject, scenario, BUDGET);
    assert!(checked.failure.is_some() || checked.complete, "{checked:?}");
    checked.failure
}

/// The same under loom.
fn weak<const DEFECT: u32>(name: &str) -> Option<String> {
    let scenarios = small::mutex::<Weak, Flagged<Weak, DEFECT>, Modelled>();
    let scenario = scenarios.iter().find(|scenario| scenario.name == name).expect("there is such a scenario");
    runner::weak(scenario, BUDGET).failure
}

fn is_lost(failure: Option<String>) -> bool {
    let failure = failure.expect("a sleeper sleeps for ever");
    failure.contains("deadlock") || failure.contains("no wait ends")
}

#[test]
fn no_wake_up_is_lost() {
    for name in ["exclusion-2x2", "exclusion-3x1", "gone-2"] {
        assert_eq!(explored::<SOUND>(name), None, "{name}");
    }
    for name in ["exclusion-2x2", "asleep ll-ll", "asleep l-l-l", "gone-2"] {
        assert_eq!(weak::<SOUND>(name), None, "{name}");
    }
}

#[test]
fn a_wake_up_is_lost_unless_the_flag_is_settled_after_it_has_been_set() {
    assert!(is_lost(explored::<NO_SETTLING>("exclusion-2x2")) && is_lost(weak::<NO_SETTLING>("asleep ll-ll")));
    assert!(is_lost(explored::<TOO_EARLY>("exclusion-2x2")) && is_lost(weak::<TOO_EARLY>("asleep ll-ll")));
}

#[test]
fn a_wake_up_is_lost_if_look_and_store_are_not_one() {
    assert!(is_lost(explored::<TWO_ACCESSES>("exclusion-2x2")) && is_lost(weak::<TWO_ACCESSES>("asleep ll-ll")));
}

#[test]
fn a_look_behind_the_store_may_find_no_lock() {
    assert!(explored::<LOOKS_LATE>("gone-2").is_some_and(|failure| failure.contains("gone")));
    assert!(weak::<LOOKS_LATE>("gone-2").is_some());
}

#[test]
fn a_lock_that_does_not_settle_or_look_is_a_mutant_that_both_machines_catch() {
    let seen = mutation::record(|| {
        assert_eq!(explored::<SOUND>("exclusion-2x2"), None);
        assert_eq!(weak::<SOUND>("asleep ll-ll"), None);
    });
    for left_out in [Wait::Settle, Wait::Look] {
        let mut here = seen.clone();
        here.retain(|mutant| mutant.change == Change::Skip(left_out));
        assert_eq!(here.len(), 1, "both pass the one place: {here:?}");
        mutation::set(here.pop_first());
        assert!(is_lost(explored::<SOUND>("exclusion-2x2")) && is_lost(weak::<SOUND>("asleep ll-ll")));
        mutation::set(None);
    }
}

/// Without Release on the store what was written inside is not seen by the next holder.
#[test]
fn the_order_of_the_store_has_a_mutant() {
    let mutants = mutation::record(|| assert_eq!(weak::<SOUND>("exclusion-2x2"), None));
    let line = (1..).find(|line| lockswap_check::source::line(file!(), *line).contains("if P::store_unless(&self"));
    let here = mutants.into_iter().find(|mutant| Some(mutant.place.line) == line);
    let mutant = here.expect("loom passes the store");
    assert_eq!(mutant.change, Change::DropRelease);
    mutation::set(Some(mutant));
    assert!(weak::<SOUND>("exclusion-2x2").is_some_and(|failure| failure.contains("Causality violation")));
    mutation::set(None);
}
