//! RON, routing on network-on-chip (Lo, Lin, Hsieh, Lin, Fang, Lin, Huang, Lam, Chang, OSDI 2023, algorithm 1).
//!
//!   state:  FREE | HELD | CONTENDED
//!   stops:  [0]->[1 A]->[2]->[3 B]-> ... ->[N-1]->[0]     one for each CPU, in the order of the route
//!
//! A waiter marks the stop of its CPU. The holder follows the route from where it was served and hands the lock to the
//! first waiter that it meets; it lets go only if it meets none, its own stop last. A waiter watches its stop and the
//! state, which stays as it is while the lock travels. Space: a word and a line per CPU. Fairness: with one thread on each
//! of N CPUs a waiter lets at most N - 1 others pass, each once, also if holders move to other CPUs. A thread whose stop is
//! taken waits for the state, or for the stop, and then chance decides (paper, section 7).
//!
//! Deviations: the paper's state is a flag, and each release looks at all stops; here CONTENDED, set by whoever waits at a
//! stop, tells whether that is worth while. The state is made HELD again before the look that finds nobody, so that a
//! waiter whom that look misses sets it once more: nobody who has begun to wait is passed by one that finds the lock free.
//! A thread's rank is read when it begins to wait, not once for its life; its stop stays SERVED while it holds the lock, so
//! that the lock goes on from there.

use super::stop::{route_from, route_to, Stop};
use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform, MAX_RANKS};

/// | state     | holder                     | waiters                                  |
/// |-----------|----------------------------|------------------------------------------|
/// | FREE      | none                       | none, or about to see this               |
/// | HELD      | one                        | none that has seen this                  |
/// | CONTENDED | one, or on its way to one  | perhaps                                  |
const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// Where the waiters of a lock wait, by the rank of their CPUs. `lock` is the address of the lock.
pub trait Stops<P: Platform>: Send + Sync + 'static {
    /// The name of the lock with these stops.
    const ID: &'static str;
    /// One line that says what the lock does.
    const SUMMARY: &'static str;
    /// Where it comes from.
    const PAPER: &'static str;

    /// Nobody waits.
    fn new() -> Self;
    /// Makes the calling thread wait at a stop, unless that has no room.
    fn enter(&self, lock: usize, rank: usize) -> bool;
    /// Whether the lock has been handed to the calling thread, which then waits no more. Only a thread that waits at the
    /// stop asks.
    fn take(&self, lock: usize, rank: usize) -> bool;
    /// Ends the wait of a thread that has acquired the lock elsewhere.
    fn leave(&self, lock: usize, rank: usize);
    /// Whether it was here that the holder took the lock; from now on nobody did. Only the holder asks.
    fn depart(&self, lock: usize, rank: usize) -> bool;
    /// Whether a thread waits for the lock here; it then does until it is served, or the lock is free.
    fn waits(&self, lock: usize, rank: usize) -> bool;
    /// Hands the lock to a thread that waits for it here; after that the lock's memory may be gone. Only the holder does.
    fn serve(&self, lock: usize, rank: usize);
}

/// The lock, over its stops.
#[repr(C)]
pub struct Routed<P: Platform, S> {
    state: P::U32,
    stops: S,
}

/// One stop per CPU, in the lock.
pub type Ron<P> = Routed<P, Flags<P, MAX_RANKS>>;

impl<P: Platform, S: Stops<P>> Routed<P, S> {
    fn address(&self) -> usize {
        P::address(self)
    }

    #[inline]
    fn acquire_free(&self) -> bool {
        // Relaxed: only decides whether the exchange is worth its price, which all waiters pay.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock` and `travel`.
        self.state.load(Ordering::Relaxed) == FREE && self.state.compare_exchange(FREE, HELD, Ordering::Acquire).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let (lock, rank) = (self.address(), P::rank() as usize);
        let has_stop = P::spin_map(|| match self.stops.enter(lock, rank) {
            true => Some(true),
            false => self.acquire_free().then_some(false),
        });
        if !has_stop {
            return;
        }
        // A wait of its own, which begins with spinning: the lock may come to this thread, and all others wait meanwhile.
        P::spin_map(|| {
            if self.stops.take(lock, rank) {
                return Some(());
            }
            self.acquire_or_raise().then(|| self.stops.leave(lock, rank))
        });
    }

    /// Acquires the lock if it is free, and sees to it that the state is CONTENDED otherwise: one look, after which nobody
    /// passes the caller by finding the lock free. Each repetition means that the lock has changed hands.
    fn acquire_or_raise(&self) -> bool {
        loop {
            // ORDER(last look): SeqCst with `enter` and with what `travel` does before it lets go.
            match self.state.load(Ordering::SeqCst) {
                FREE if self.acquire_free() => return true,
                // ORDER(raise): Release pairs with the Acquire in `travel`; publishes the mark at the stop.
                HELD if self.state.compare_exchange(HELD, CONTENDED, Ordering::Release).is_ok() => return false,
                CONTENDED => return false,
                _ => {}
            }
        }
    }

    /// Hands the lock to the next waiter along the route.
    #[cold]
    #[inline(never)]
    fn travel(&self) {
        let (lock, cpu) = (self.address(), P::rank() as usize);
        let here = route_to::<P>(cpu).find(|rank| self.stops.depart(lock, *rank)).unwrap_or(cpu);
        let next = || route_from::<P>(here).find(|rank| self.stops.waits(lock, *rank));
        loop {
            if let Some(rank) = next() {
                return self.stops.serve(lock, rank);
            }
            // ORDER(last look): SeqCst with the loads in `waits`, `enter` and `acquire_or_raise`: a waiter that the look
            // below misses sees HELD, or FREE. A store would do, but in qemu-user on x86-64 SeqCst loads overtake it.
            self.state.swap(HELD, Ordering::SeqCst);
            // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section, and
            // keeps the look before the end of the lock's memory.
            // LAST: the lock may be destroyed after this exchange.
            if next().is_none() && self.state.compare_exchange(HELD, FREE, Ordering::Release).is_ok() {
                return;
            }
            // ORDER(raise): Acquire pairs with the Release in `acquire_or_raise`: the next look finds whoever made the exchange fail.
            self.state.swap(CONTENDED, Ordering::Acquire);
        }
    }
}

// SAFETY: the holder hands the lock to one waiter, or makes it free for one exchange to find; a stop is served only while
// a thread waits there, which cannot acquire otherwise meanwhile, because the state is not FREE.
unsafe impl<P: Platform, S: Stops<P>> RawLock<P> for Routed<P, S> {
    const INFO: LockInfo = LockInfo {
        id: S::ID,
        family: Family::Routed,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Unfair,
        timed: Timed::Poll,
        summary: S::SUMMARY,
        paper: S::PAPER,
        asks: Asks::ROUTE,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    type Ctx = ();

    fn new() -> Self {
        Routed { state: P::U32::new(FREE), stops: S::new() }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        if !self.acquire_free() {
            self.wait();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // Relaxed: as in `lock`.
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this exchange.
        if self.state.load(Ordering::Relaxed) != HELD
            || self.state.compare_exchange(HELD, FREE, Ordering::Release).is_err()
        {
            self.travel();
        }
    }
}

// SAFETY: acquires only from FREE.
unsafe impl<P: Platform, S: Stops<P>> TryLock<P> for Routed<P, S> {
    #[inline]
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.acquire_free()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, S: Stops<P>> TimedLock<P> for Routed<P, S> {}

impl<P: Platform, S> IsHeld for Routed<P, S> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: the answer says nothing about what the lock protects.
        self.state.load(Ordering::Relaxed) != FREE
    }
}

/// A stop that one thread can wait at.
///
/// | value   | meaning                   | next value, and who writes it                                 |
/// |---------|---------------------------|---------------------------------------------------------------|
/// | EMPTY   | nobody waits here         | WAITING: a thread that begins to wait                         |
/// | WAITING | one thread waits here     | SERVED: the holder; EMPTY: the waiter, having found FREE      |
/// | SERVED  | that thread is the holder | EMPTY: whoever releases the lock                              |
const EMPTY: u32 = 0;
const WAITING: u32 = 1;
const SERVED: u32 = 2;

/// The stops of [`Ron`]; CPUs whose ranks are equal modulo `STOPS` share one.
#[repr(C)]
pub struct Flags<P: Platform, const STOPS: usize>([Stop<P::U32>; STOPS]);

impl<P: Platform, const STOPS: usize> Stops<P> for Flags<P, STOPS> {
    const ID: &'static str = "ron";
    const SUMMARY: &'static str = "the lock travels along a route through the CPUs, one waiter per CPU";
    const PAPER: &'static str = "Lo et al.: OSDI 2023, alg. 1";

    fn new() -> Self {
        Flags(core::array::from_fn(|_| Stop(P::U32::new(EMPTY))))
    }

    fn enter(&self, _: usize, rank: usize) -> bool {
        let stop = &self.0[rank % STOPS].0;
        // Relaxed: only decides whether the exchange is worth its price.
        // ORDER(last look): SeqCst, see `Routed::travel`.
        stop.load(Ordering::Relaxed) == EMPTY && stop.compare_exchange(EMPTY, WAITING, Ordering::SeqCst).is_ok()
    }

    fn take(&self, _: usize, rank: usize) -> bool {
        // ORDER(travel): Acquire pairs with the Release in `serve`.
        self.0[rank % STOPS].0.load(Ordering::Acquire) == SERVED
    }

    // Relaxed, here and in `depart`: an empty stop carries no data; the next holder has synchronised with this one, so that
    // it does not take an old mark for a waiter.
    fn leave(&self, _: usize, rank: usize) {
        self.0[rank % STOPS].0.store(EMPTY, Ordering::Relaxed);
    }

    fn depart(&self, lock: usize, rank: usize) -> bool {
        // Relaxed: written by the thread that acquired the lock.
        let here = self.0[rank % STOPS].0.load(Ordering::Relaxed) == SERVED;
        if here {
            self.leave(lock, rank);
        }
        here
    }

    fn waits(&self, _: usize, rank: usize) -> bool {
        // ORDER(last look): SeqCst, see `Routed::travel`.
        self.0[rank % STOPS].0.load(Ordering::SeqCst) == WAITING
    }

    fn serve(&self, _: usize, rank: usize) {
        // ORDER(travel): Release pairs with the Acquire in `take`; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        self.0[rank % STOPS].0.store(SERVED, Ordering::Release);
    }
}
