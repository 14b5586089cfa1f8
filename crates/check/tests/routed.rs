//! The checks of the routed locks see what they are there for: locks that leave the route, or forget where they are,
//! fail.

use lockswap_check::explore::{Explore, Virtual};
use lockswap_conformance::routed::Decides::{self, AtAcquisition, AtRelease};
use lockswap_conformance::routed::{self, Places};
use lockswap_conformance::small::Stage;
use lockswap_conformance::Threads;
use lockswap_locks::flat::ttas::Ttas;
use lockswap_locks::queue::mcs::McsSpin;
use lockswap_locks::routed::ron::{Flags, Routed, WaitArray};
use lockswap_locks::routed::{list::RonList, plock::Counts, shared::Table, ticket::Queues};
use lockswap_locks::RawLock;
use lockswap_sim::explore::{clear_tables, explore, Bounds, End};
use std::time::Duration;

const CPUS: usize = 4;
type Flags4 = Flags<Explore, CPUS>;
type Counts4 = Counts<Explore, CPUS>;
type Table1 = Table<Explore, 1, 1>;
type Queues4 = Queues<Explore, CPUS>;

/// What goes wrong in each scenario, if anything.
fn failures<L: RawLock<Explore>, T: Places>(decides: Decides, several: bool) -> Vec<(&'static str, Option<String>)> {
    let bounds = Bounds { preemptions: Some(2), rarities: 0, steps: 3_000, executions: 20_000, time: Duration::MAX };
    let fails = |run: fn()| {
        let report = explore(bounds, &|| {
            clear_tables();
            run();
        });
        match report.end {
            End::Failed(failure) => Some(failure.message),
            End::Exhausted | End::Limit("executions") => None,
            End::Limit(what) => panic!("too many {what}"),
        }
    };
    let scenarios = routed::scenarios::<Explore, L, T>(decides, several);
    scenarios.into_iter().map(|scenario| (scenario.name, fails(scenario.run))).collect()
}

/// The scenarios that fail are those whose names begin like this.
fn must_fail<L: RawLock<Explore>, T: Places>(decides: Decides, several: bool, prefix: &str) {
    let failures = failures::<L, T>(decides, several);
    println!("{failures:?}");
    for (name, failure) in failures {
        assert_eq!(failure.is_some(), name.starts_with(prefix), "{} {name}: {failure:?}", L::INFO.id);
    }
}

/// The CPUs lie on the route the other way round than the check believes.
struct Mirror;

impl Threads for Mirror {
    fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        Virtual::run(bodies);
    }
    fn settle() {
        Virtual::settle();
    }
}

impl Stage for Mirror {
    const SEES_WAITS: bool = true;
    fn gone(start: *const u8, bytes: usize) {
        Virtual::gone(start, bytes);
    }
    fn order() {
        Virtual::order();
    }
    fn moment() -> u64 {
        Virtual::moment()
    }
    fn forget_wait() {
        Virtual::forget_wait();
    }
    fn waits_since(thread: usize) -> Option<u64> {
        Virtual::waits_since(thread)
    }
}

impl Places for Mirror {
    fn move_to(rank: u32) {
        Virtual::move_to(CPUS as u32 - 1 - rank);
    }
}

#[test]
fn the_wrong_way_round_is_noticed() {
    must_fail::<Routed<Explore, Flags4>, Mirror>(AtRelease, false, "route");
    must_fail::<Routed<Explore, Counts4>, Mirror>(AtRelease, true, "route");
    must_fail::<Routed<Explore, Table1>, Mirror>(AtRelease, false, "route");
    must_fail::<Queues4, Mirror>(AtRelease, true, "route");
    must_fail::<RonList<Explore>, Mirror>(AtAcquisition, true, "route");
}

/// No promise at all.
#[test]
fn a_lock_without_a_route_is_noticed() {
    must_fail::<Ttas<Explore>, Virtual>(AtRelease, true, "ro");
}

/// A queue comes round, but in the order of arrivals.
#[test]
fn a_queue_is_noticed() {
    must_fail::<McsSpin<Explore>, Virtual>(AtAcquisition, false, "route");
}

/// A WaitArray with one fault.
struct Faulty<W, const FORGETS: bool, const HAS_ROOM: bool>(W);

impl<W: WaitArray<Explore>, const FORGETS: bool, const HAS_ROOM: bool> WaitArray<Explore>
    for Faulty<W, FORGETS, HAS_ROOM>
{
    const ID: &'static str = W::ID;
    const SUMMARY: &'static str = W::SUMMARY;
    const PAPER: &'static str = W::PAPER;
    const PER_CPU: usize = W::PER_CPU;

    fn new() -> Self {
        Faulty(W::new())
    }
    fn enter(&self, lock: usize, tsp_id: usize) -> Option<usize> {
        HAS_ROOM.then(|| self.0.enter(lock, tsp_id))?
    }
    fn take_grant(&self, lock: usize, element: usize) -> bool {
        self.0.take_grant(lock, element)
    }
    fn leave(&self, lock: usize, element: usize) {
        self.0.leave(lock, element);
    }
    fn forget_holder(&self, lock: usize, element: usize) -> bool {
        self.0.forget_holder(lock, element) && !FORGETS
    }
    fn has_waiter(&self, lock: usize, element: usize) -> bool {
        self.0.has_waiter(lock, element)
    }
    fn grant(&self, lock: usize, element: usize) {
        self.0.grant(lock, element);
    }
}

#[test]
fn a_lock_that_goes_on_from_the_holders_cpu_is_noticed() {
    type Forgets<W> = Routed<Explore, Faulty<W, true, true>>;
    for failures in [
        failures::<Forgets<Flags4>, Virtual>(AtRelease, false),
        failures::<Forgets<Counts4>, Virtual>(AtRelease, false),
        failures::<Forgets<Table1>, Virtual>(AtRelease, false),
    ] {
        let failed = |name: &str| failures.iter().any(|(other, failure)| *other == name && failure.is_some());
        assert!(failed("round-moving-3") && failed("route-moving-3"), "{failures:?}");
        assert!(!failed("round-3") && !failed("route-3"), "{failures:?}");
    }
}

#[test]
fn waiters_that_stand_nowhere_are_noticed() {
    must_fail::<Routed<Explore, Faulty<Flags4, false, false>>, Virtual>(AtRelease, false, "ro");
}
