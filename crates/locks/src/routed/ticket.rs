//! RON-ticket (Lo et al., OSDI 2023, algorithm 2): RON for more threads than CPUs; those on one CPU queue up.
//!
//!   users:  the holder and all waiters
//!   stops:  [0: next, serving]->[1: next, serving]-> ...      one for each CPU, in the order of the route
//!
//! A thread that is not alone draws a ticket at the stop of its CPU. The holder follows the route from where it got the
//! lock and lets one thread pass at the first stop that has waiters, the one where it got it last. Fairness: while somebody
//! waits on a CPU, each other CPU gets the lock at most once before this one does, and a CPU's threads are served in order.
//! Space: two words and a line per CPU. Each waiter watches its own CPU's line; one that is not the next there offers the
//! CPU to others at each look.
//!
//! Deviation: the holder goes on from the stop where it was served, even if it has moved since; only thus is it certain
//! that the lock comes round. A releaser waits for a thread that has counted itself as a user but not drawn its ticket yet,
//! as in the paper.

use super::stop::{route_from, Stop};
use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform, MAX_RANKS};

/// The queue of one CPU.
#[repr(C)]
struct Tickets<P: Platform> {
    /// Tickets drawn.
    next: P::U32,
    /// Threads served.
    serving: P::U32,
}

/// The holder found the lock free.
const NOWHERE: u32 = 0;

/// The lock; CPUs whose ranks are equal modulo `STOPS` share a stop. Numbers wrap around, which is sound for fewer than 2^32
/// users.
#[repr(C)]
pub struct Queues<P: Platform, const STOPS: usize> {
    users: P::U32,
    /// The holder's own: the rank where it was served plus 1, or [`NOWHERE`].
    served_at: P::U32,
    stops: [Stop<Tickets<P>>; STOPS],
}

/// One stop per CPU.
pub type RonTicket<P> = Queues<P, MAX_RANKS>;

impl<P: Platform, const STOPS: usize> Queues<P, STOPS> {
    fn stop(&self, rank: usize) -> &Tickets<P> {
        &self.stops[rank % STOPS].0
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let stop = self.stop(P::rank() as usize);
        // Relaxed: drawing a ticket publishes nothing; its atomicity makes it unique.
        let mine = stop.next.fetch_add(1, Ordering::Relaxed);
        P::spin_map(|| {
            // ORDER(travel): Acquire pairs with the Release in `travel`.
            let turns_left = mine.wrapping_add(1).wrapping_sub(stop.serving.load(Ordering::Acquire));
            if turns_left > 1 {
                P::yield_cpu();
            }
            (turns_left == 0).then_some(())
        });
    }

    /// Hands the lock to the next waiter along the route.
    #[cold]
    #[inline(never)]
    fn travel(&self, served_at: u32) {
        let here = served_at.checked_sub(1).unwrap_or_else(P::rank);
        // Relaxed: only the holder writes `serving`, and any value of `next` that differs from it tells of a waiter.
        let waits = |rank: &usize| {
            let stop = self.stop(*rank);
            stop.next.load(Ordering::Relaxed) != stop.serving.load(Ordering::Relaxed)
        };
        let rank = P::spin_map(|| route_from::<P>(here as usize).find(waits));
        // Relaxed: published to the next holder by the store below.
        self.served_at.store(rank as u32 + 1, Ordering::Relaxed);
        let serving = &self.stop(rank).serving;
        let served = serving.load(Ordering::Relaxed);
        // ORDER(travel): Release pairs with the Acquire in `wait`; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        serving.store(served.wrapping_add(1), Ordering::Release);
    }
}

// SAFETY: the user that found none is the holder, and each holder that is not the last user makes one waiter the next.
unsafe impl<P: Platform, const STOPS: usize> RawLock<P> for Queues<P, STOPS> {
    const INFO: LockInfo = LockInfo {
        id: "ron-ticket",
        family: Family::Routed,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "the lock travels along a route through the CPUs; on each, its waiters are served in order",
        paper: "Lo et al.: OSDI 2023, alg. 2",
        asks: Asks::ROUTE,
        ..LockInfo::PLAIN
    };
    type Ctx = ();

    fn new() -> Self {
        Queues {
            users: P::U32::new(0),
            served_at: P::U32::new(NOWHERE),
            stops: core::array::from_fn(|_| Stop(Tickets { next: P::U32::new(0), serving: P::U32::new(0) })),
        }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock` that left no user.
        if self.users.fetch_add(1, Ordering::Acquire) != 0 {
            self.wait();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // Relaxed: the holder's own; the next holder acquires it with the lock.
        let served_at = self.served_at.load(Ordering::Relaxed);
        if served_at != NOWHERE {
            self.served_at.store(NOWHERE, Ordering::Relaxed);
        }
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this access if no user is left.
        if self.users.fetch_sub(1, Ordering::Release) != 1 {
            self.travel(served_at);
        }
    }
}

// SAFETY: acquires only if there is no user.
unsafe impl<P: Platform, const STOPS: usize> TryLock<P> for Queues<P, STOPS> {
    #[inline]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // Relaxed: only decides whether the exchange is worth its price.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.users.load(Ordering::Relaxed) == 0 && self.users.compare_exchange(0, 1, Ordering::Acquire).is_ok()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const STOPS: usize> TimedLock<P> for Queues<P, STOPS> {}

impl<P: Platform, const STOPS: usize> IsHeld for Queues<P, STOPS> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: the answer says nothing about what the lock protects.
        self.users.load(Ordering::Relaxed) != 0
    }
}
