//! In which order the routed locks serve waiters on different CPUs.

mod placed;

use lockswap_conformance as conformance;
use lockswap_conformance::routed::{comes_round, in_order, lets_each_pass_once, Decides, Rider};
use lockswap_conformance::system::{come, Crew, System};
use lockswap_locks::routed::list::RonList;
use lockswap_locks::routed::plock::{Counts, RonPlock};
use lockswap_locks::routed::ron::{Flags, Ron, Routed};
use lockswap_locks::routed::shared::{RonShared, Table};
use lockswap_locks::routed::ticket::{Queues, RonTicket};
use lockswap_locks::{IsHeld, RawLock};
use placed::riders::Riders;
use placed::{order_of_service, Place, Placed, RANKS, SOMEWHERE};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// For the table of waiters, which the whole process has once: one test at a time, while the result lives.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn at(rank: u32) -> Place {
    Place { rank, ..SOMEWHERE }
}

#[test]
fn ron_follows_the_route() {
    fn check<L: RawLock<Placed>>() {
        let ranks = [1, 5, 3, 7, 2, 0];
        let order = order_of_service::<L>(at(2), &ranks.map(at));
        let served: Vec<_> = order.iter().map(|waiter| ranks[*waiter]).collect();
        assert_eq!(served, [3, 5, 7, 0, 1, 2], "{}", L::INFO.id);
    }
    let _alone = alone();
    check::<Ron<Placed>>();
    check::<RonTicket<Placed>>();
    check::<RonPlock<Placed>>();
    check::<RonShared<Placed>>();
    check::<RonList<Placed>>();
}

/// Two threads wait on each of three CPUs: one of each passes in each round.
#[test]
fn ron_serves_one_thread_of_each_cpu_in_a_round() {
    fn ranks_in_order<L: RawLock<Placed>>() -> (Vec<usize>, Vec<u32>) {
        let ranks = [6, 6, 4, 4, 1, 1];
        let order = order_of_service::<L>(at(2), &ranks.map(at));
        let served = order.iter().map(|waiter| ranks[*waiter]).collect();
        (order, served)
    }
    assert_eq!(ranks_in_order::<RonTicket<Placed>>().0, [2, 0, 4, 3, 1, 5]);
    assert_eq!(ranks_in_order::<RonPlock<Placed>>().1, [4, 6, 1, 4, 6, 1]);
}

/// A thread that moves while it holds the lock does not keep the lock from coming round.
#[test]
fn ron_ticket_goes_on_from_where_the_holder_was_served() {
    let lock = RonTicket::<Placed>::new();
    let (order, crew) = (Mutex::new(Vec::new()), Crew::default());
    // SAFETY: the lock has no context, and each acquisition is released once.
    unsafe {
        lock.lock(&());
        std::thread::scope(|scope| {
            for (waiter, rank) in [1, 3, 1, 5].into_iter().enumerate() {
                let (lock, order) = (&lock, &order);
                scope.spawn(crew.newcomer(move || {
                    Placed::move_to(at(rank));
                    come();
                    lock.lock(&());
                    order.lock().unwrap().push(waiter);
                    Placed::move_to(at(0));
                    lock.unlock(&());
                }));
                crew.settle();
            }
            lock.unlock(&());
        });
    }
    assert_eq!(*order.lock().unwrap(), [0, 1, 3, 2]);
}

/// One thread on each CPU, or two, that come and go as they run; holders move to other CPUs. `crates/conformance` says
/// what is checked.
#[test]
fn ron_comes_round() {
    fn riders(threads: u32, rounds: usize) -> Vec<Rider> {
        let rider = |thread: u32| Rider { at: thread % RANKS, leaves: (thread * 5 + 3) % RANKS, rounds };
        (0..threads).map(rider).collect()
    }
    fn check<L: RawLock<Placed>>(threads: u32) {
        comes_round::<Placed, L, Riders>(&riders(threads, 300));
        in_order::<Placed, L, Riders>(Decides::AtRelease, &riders(threads, 2));
    }
    let _alone = alone();
    check::<Ron<Placed>>(RANKS);
    check::<RonShared<Placed>>(RANKS);
    check::<RonTicket<Placed>>(RANKS);
    check::<RonTicket<Placed>>(2 * RANKS);
    check::<RonPlock<Placed>>(RANKS);
    check::<RonPlock<Placed>>(2 * RANKS);
    comes_round::<Placed, RonList<Placed>, Riders>(&riders(RANKS, 300));
    lets_each_pass_once::<Placed, RonList<Placed>, Riders>(&riders(2 * RANKS, 300));
    in_order::<Placed, RonList<Placed>, Riders>(Decides::AtAcquisition, &riders(RANKS, 2));
}

/// Waiters for one lock take up elements of all CPUs; those for another one get it all the same.
#[test]
fn locks_that_share_a_table_do_not_disturb_each_other() {
    let _alone = alone();
    let locks = [RonShared::<Placed>::new(), RonShared::<Placed>::new()];
    let served = [AtomicU32::new(0), AtomicU32::new(0)];
    let crew = Crew::default();
    // SAFETY: the locks have no context, and each acquisition is released once.
    unsafe {
        locks.iter().for_each(|lock| lock.lock(&()));
        std::thread::scope(|scope| {
            for (waiter, rank) in [0, 1, 2, 3, 0, 1, 2, 3].into_iter().enumerate() {
                let (lock, served) = (&locks[waiter / 4], &served[waiter / 4]);
                scope.spawn(crew.newcomer(move || {
                    Placed::move_to(at(rank));
                    come();
                    lock.lock(&());
                    served.fetch_add(1, Ordering::Relaxed);
                    lock.unlock(&());
                }));
            }
            crew.settle();
            locks[1].unlock(&());
            crew.settle();
            assert_eq!(served[1].load(Ordering::Relaxed), 4);
            assert_eq!(served[0].load(Ordering::Relaxed), 0);
            locks[0].unlock(&());
        });
    }
    assert!(served[0].load(Ordering::Relaxed) == 4 && locks.iter().all(|lock| !lock.is_held()));
}

/// Threads move between any two questions about where they are, and CPUs share the few elements that there are.
#[test]
fn locks_work_for_threads_that_never_stay_on_a_cpu() {
    type P = Placed<true>;
    let _alone = alone();
    conformance::mutex::<P, Ron<P>, System>();
    conformance::mutex::<P, Routed<P, Flags<P, 2>>, System>();
    conformance::mutex::<P, Routed<P, Counts<P, 3>>, System>();
    conformance::mutex::<P, Routed<P, Table<P, 2048, 1>>, System>();
    conformance::mutex::<P, Routed<P, Table<P, 2048, 4>>, System>();
    conformance::mutex::<P, RonList<P>, System>();
    conformance::mutex::<P, Queues<P, 3>, System>();
}
