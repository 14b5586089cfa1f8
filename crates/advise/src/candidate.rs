//! Which locks are worth trying for one that threads wait for: rules say which can be right at all, the simulator in
//! which order they are tried.

use lockswap_locks::info::{Fairness, Family, WaitingPolicy};
use lockswap_locks::registry::{self, Entry, Role, PTHREAD};
use serde::Serialize;

use crate::suspect::{Kind, Suspect};

/// Locks that are tried for one mutex at most, the two that always are included.
pub const MOST_CANDIDATES: usize = 5;

/// The default of `lockswap run`, which is always tried.
pub const AUTO: &str = "auto";

/// The lock that serves waiters in order where no other one of those fits: its waiters sleep, so that it at least gets
/// on with more threads than CPUs.
const IN_ORDER: &str = "mcs_stp";

/// From this length on, who spins until a section ends wastes more than a sleep costs, ns.
const LONG_ENOUGH_TO_SLEEP_NS: f64 = 50_000.0;

/// From this share of holds on, in which the holder gave up its CPU, waiters had better do the same.
const HOLDER_SLEEPS: f64 = 0.05;

/// Readers that mark a place of their own pay where there are many of them.
const MANY_READS: f64 = 0.8;

/// Mutex locks in the order in which they are tried where nothing is known of them: simple ones first, and each way
/// to wait soon.
const MUTEX_LOCKS: [&str; 20] = [
    "futex",
    "mcs_stp",
    "ttas",
    "shfllock-b",
    "mutexee",
    "ticket",
    "mcs_stp-barging",
    "malth_stp-barging",
    "mcs_spin",
    "cna",
    "gcr",
    "fissile",
    "shfllock",
    "clh_spin",
    "hmcs",
    "c-bo-mcs_stp-barging",
    "c-bo-mcs_spin",
    "reciprocating",
    "asl-blocking",
    "asl",
];

/// Read-write locks in the same order.
const RW_LOCKS: [&str; 5] = ["rw-futex", "phase-fair", "shfllock-rw", "bravo", "cohort-rw"];

/// What of a machine decides which locks can be right on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// CPUs that the program may use.
    pub cpus: usize,
    /// Whether it has several NUMA nodes.
    pub has_nodes: bool,
    /// Whether its cores are of several kinds.
    pub has_kinds: bool,
}

/// A lock that is tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Its id.
    pub lock: String,
    /// Its throughput next to `pthread`'s on the simulated machine, where it was simulated.
    pub simulated: Option<f64>,
}

/// Whether more threads want to run than there are CPUs. `active`: the mean number of threads that are not idle.
pub fn is_crowded(suspect: &Suspect, place: Place, active: f64) -> bool {
    active.max(suspect.threads as f64) > place.cpus as f64 + 0.5
}

/// The locks that can be right, in the order in which they are tried where nothing else is known; `pthread` and
/// `auto` apart.
pub fn pool(suspect: &Suspect, place: Place, active: f64) -> Vec<&'static str> {
    let (role, names): (Role, &[&'static str]) = match suspect.kind {
        Kind::Mutex => (Role::Mutex, &MUTEX_LOCKS),
        Kind::RwLock => (Role::RwLock, &RW_LOCKS),
        Kind::Spinlock => return Vec::new(),
    };
    let crowded = is_crowded(suspect, place, active);
    let sleeps = suspect.hold_p50_ns >= LONG_ENOUGH_TO_SLEEP_NS || suspect.holder_slept >= HOLDER_SLEEPS;
    let fits = |entry: &Entry| {
        let info = &entry.info;
        let on_this_machine = match info.family {
            Family::Numa => place.has_nodes,
            Family::Asymmetric => place.has_kinds,
            _ => true,
        };
        // With long sections a hand-over to a thread that has to be woken counts for little.
        let with_these_threads = role == Role::RwLock || !crowded || sleeps || info.keeps_up;
        let with_these_sections = role == Role::RwLock || !sleeps || info.waiting != WaitingPolicy::Spin;
        let with_these_readers = match info.id {
            "bravo" => suspect.read_share.is_some_and(|reads| reads >= MANY_READS),
            "cohort-rw" => place.has_nodes,
            _ => true,
        };
        on_this_machine && with_these_threads && with_these_sections && with_these_readers
    };
    names.iter().copied().filter(|id| registry::find(role, id).is_some_and(fits)).collect()
}

/// The locks that are tried, at most so many: `pthread`; for a mutex `auto`, and one that serves waiters in order; and
/// of the pool those that the simulator found best, each from another family, with another way to wait, or in another
/// order. `simulated` is the throughput next to `pthread`'s by id; a lock without one keeps its place behind those
/// that have one.
///
/// The first of them are those that fewer would be.
pub fn narrowed(suspect: &Suspect, pool: &[&str], simulated: &[(String, f64)], most: usize) -> Vec<Candidate> {
    let score = |id: &str| simulated.iter().find(|(other, _)| other == id).map(|(_, score)| *score);
    let mut order: Vec<&str> = pool.to_vec();
    order.sort_by(|a, b| score(b).unwrap_or(-1.0).total_cmp(&score(a).unwrap_or(-1.0)));
    let mut chosen = vec![PTHREAD];
    if suspect.kind == Kind::Mutex {
        // That somebody starves, no simulation of threads that are all alike shows, nor how many threads there are.
        let in_order = order.iter().copied().find(|id| matches!(manner(id), Some((_, _, Fairness::Fifo))));
        chosen.extend([AUTO, in_order.unwrap_or(IN_ORDER)]);
        let mut seen: Vec<_> = chosen.iter().map(|id| manner(id)).collect();
        let (distinct, others): (Vec<&str>, Vec<&str>) = order.into_iter().partition(|id| {
            let is_new = !seen.contains(&manner(id));
            seen.push(manner(id));
            is_new
        });
        order = [distinct, others].concat();
    }
    order.retain(|id| !chosen.contains(id));
    chosen.extend(order);
    chosen.into_iter().take(most).map(|id| Candidate { lock: id.to_owned(), simulated: score(id) }).collect()
}

/// What makes mutex locks differ.
fn manner(id: &str) -> Option<(Family, WaitingPolicy, Fairness)> {
    registry::find(Role::Mutex, id).map(|entry| (entry.info.family, entry.info.waiting, entry.info.fairness))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suspect::suspects;
    use crate::tests::{lock, report};
    use lockswap_locks::named::{self, Named};

    const TWO_CPUS: Place = Place { cpus: 2, has_nodes: false, has_kinds: false };

    fn ids(candidates: &[Candidate]) -> Vec<&str> {
        candidates.iter().map(|candidate| candidate.lock.as_str()).collect()
    }

    fn suspect(used: &'static str) -> Suspect {
        suspects(&report(vec![lock("m", used, 5e9)], 10_000_000_000)).remove(0)
    }

    #[test]
    fn all_names_are_in_the_registry() {
        assert!(MUTEX_LOCKS.iter().all(|id| registry::find(Role::Mutex, id).is_some()));
        assert!(RW_LOCKS.iter().all(|id| registry::find(Role::RwLock, id).is_some()));
        assert!(registry::find(Role::Mutex, AUTO).is_some());
    }

    #[test]
    fn with_more_threads_than_cpus_only_locks_that_keep_up_are_tried() {
        let few = Suspect { threads: 2, ..suspect("mutex") };
        let many = Suspect { threads: 8, ..few.clone() };
        assert!(pool(&few, TWO_CPUS, 2.0).contains(&"ticket"));
        let crowded = pool(&many, TWO_CPUS, 2.0);
        let keeps_up = |id: &&str| registry::find(Role::Mutex, id).unwrap().info.keeps_up;
        assert!(crowded.len() >= 3 && crowded.iter().all(keeps_up), "{crowded:?}");
        // Others than those that use the mutex can take CPUs, too.
        assert_eq!(pool(&few, TWO_CPUS, 8.0), crowded);
    }

    #[test]
    fn locks_for_nodes_and_kinds_of_cores_are_for_machines_that_have_them() {
        let few = Suspect { threads: 2, ..suspect("mutex") };
        let here = pool(&few, TWO_CPUS, 2.0);
        assert!(!here.contains(&"cna") && !here.contains(&"asl"), "{here:?}");
        let large = pool(&few, Place { cpus: 64, has_nodes: true, has_kinds: true }, 2.0);
        assert!(large.contains(&"cna") && large.contains(&"asl"), "{large:?}");
    }

    #[test]
    fn who_waits_for_long_sections_sleeps() {
        let long = Suspect { threads: 2, hold_p50_ns: 2e5, ..suspect("mutex") };
        let found = pool(&long, TWO_CPUS, 2.0);
        let spins = |id: &str| registry::find(Role::Mutex, id).unwrap().info.waiting == WaitingPolicy::Spin;
        assert!(found.len() >= 3 && !found.iter().any(|id| spins(id)), "{found:?}");
        let slept = Suspect { hold_p50_ns: 100.0, holder_slept: 0.2, ..long };
        assert_eq!(pool(&slept, TWO_CPUS, 2.0), found);
    }

    #[test]
    fn rwlocks_get_rwlocks() {
        let reads = suspect("rwlock, read");
        assert_eq!(pool(&reads, TWO_CPUS, 2.0), ["rw-futex", "phase-fair", "shfllock-rw", "bravo"]);
        let writes = suspect("rwlock, write");
        assert_eq!(pool(&writes, TWO_CPUS, 2.0), ["rw-futex", "phase-fair", "shfllock-rw"]);
        let chosen = narrowed(&writes, &pool(&writes, TWO_CPUS, 2.0), &[], MOST_CANDIDATES);
        assert_eq!(ids(&chosen), ["pthread", "rw-futex", "phase-fair", "shfllock-rw"]);
        assert!(pool(&suspect("spinlock"), TWO_CPUS, 2.0).is_empty());
    }

    #[test]
    fn the_simulator_orders_and_no_two_of_a_kind_come_first() {
        let few = Suspect { threads: 2, ..suspect("mutex") };
        let pool = ["futex", "mcs_spin", "ttas", "ticket", "clh_spin", "mcs_stp"];
        let simulated: Vec<(String, f64)> =
            [("ticket", 1.9), ("ttas", 2.0), ("mcs_spin", 1.5), ("clh_spin", 1.8), ("futex", 1.0), ("pthread", 1.0)]
                .map(|(id, score)| (id.to_owned(), score))
                .to_vec();
        // The best that serves in order, then the best of all, then the best queue: `mcs_spin` is another one of
        // those.
        let all = narrowed(&few, &pool, &simulated, 7);
        let found = ids(&all);
        assert_eq!(found, ["pthread", "auto", "ticket", "ttas", "clh_spin", "futex", "mcs_stp"]);
        for most in 1..7 {
            assert_eq!(ids(&narrowed(&few, &pool, &simulated, most)), found[..most]);
        }
        assert_eq!(ids(&narrowed(&few, &["ticket"], &simulated, 5)), ["pthread", "auto", "ticket"]);
    }

    #[test]
    fn one_lock_that_serves_in_order_is_tried_with_any_number_of_threads() {
        let many = Suspect { threads: 8, ..suspect("mutex") };
        let crowded = pool(&many, TWO_CPUS, 8.0);
        assert!(!crowded.contains(&IN_ORDER), "{crowded:?}");
        assert!(matches!(manner(IN_ORDER), Some((_, WaitingPolicy::SpinThenPark, Fairness::Fifo))));
        assert_eq!(ids(&narrowed(&many, &crowded, &[], 5)), ["pthread", "auto", "mcs_stp", "futex", "ttas"]);
    }

    #[test]
    fn any_two_mutexes_can_have_any_two_of_the_locks_in_one_process() {
        let named = |id: &&str| named::read(Role::Mutex, id).unwrap();
        let all: Vec<Named> = MUTEX_LOCKS.iter().chain([&AUTO, &IN_ORDER]).map(named).collect();
        for (one, other) in all.iter().flat_map(|one| all.iter().map(move |other| (one, other))) {
            assert!(one.clash(other).is_none(), "{one} {other}");
        }
    }
}
