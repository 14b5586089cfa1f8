//! RON, routing on network-on-chip (Lo, Lin, Hsieh, Lin, Fang, Lin, Huang, Lam, Chang, OSDI 2023, algorithm 1).
//!
//!   state:  FREE | HELD | CONTENDED
//!   stops:  [0]->[1 A]->[2]->[3 B]-> ... ->[N-1]->[0]     one for each CPU, in the order of the route
//!
//! A waiter marks the stop of its CPU. The holder follows the route from its own CPU and hands the lock to the first
//! waiter that it meets; it lets go only if it meets none, itself last. A waiter watches its stop and the state, which
//! stays as it is while the lock travels. Space: a word and a line per CPU. Fairness: while no two threads wait on one CPU
//! nobody is passed by more than one round of the route, apart from one newcomer that finds the lock free. A thread whose
//! stop is taken waits for the state, or for the stop, and then chance decides (paper, section 7).
//!
//! Deviations: the paper's state is a flag, and each release looks at all stops; here CONTENDED, set by whoever begins to
//! wait, tells whether that is worth while. A served stop is told from an empty one, and it is the waiter that empties it:
//! the paper, with one thread per CPU for ever, need not. The holder reads its rank anew when it releases: a thread that
//! has moved takes the lock along.

use super::stop::{route_from, Stop};
use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform, MAX_RANKS};

/// | state     | holder                     | waiters                                  |
/// |-----------|----------------------------|------------------------------------------|
/// | FREE      | none                       | none, or about to see this               |
/// | HELD      | one that found FREE        | none that has seen this                  |
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
    /// Hands the lock to a thread that waits for it at the stop. Returns whether there is one; if so, the lock's memory may
    /// be gone. Only the holder asks.
    fn serve(&self, lock: usize, rank: usize) -> bool;
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
        P::identity(self)
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let (lock, rank) = (self.address(), P::rank() as usize);
        let mut has_stop = false;
        P::spin_map(|| {
            has_stop = has_stop || self.stops.enter(lock, rank);
            if has_stop && self.stops.take(lock, rank) {
                return Some(());
            }
            // Relaxed: the exchange decides.
            let mut state = self.state.load(Ordering::Relaxed);
            while state != CONTENDED {
                // ORDER(hand-off): Acquire pairs with the Release in `unlock` and `travel`.
                match self.state.compare_exchange(state, CONTENDED, Ordering::Acquire) {
                    Ok(FREE) => {
                        if has_stop {
                            self.stops.leave(lock, rank);
                        }
                        return Some(());
                    }
                    Ok(_) => break,
                    Err(found) => state = found,
                }
            }
            None
        });
    }

    /// Hands the lock to the next waiter along the route.
    #[cold]
    #[inline(never)]
    fn travel(&self) {
        let lock = self.address();
        if route_from::<P>(P::rank() as usize).any(|rank| self.stops.serve(lock, rank)) {
            return;
        }
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this store. A waiter that was overlooked watches the state.
        self.state.store(FREE, Ordering::Release);
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
    };
    type Ctx = ();

    fn new() -> Self {
        Routed { state: P::U32::new(FREE), stops: S::new() }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // Relaxed: an exchange in vain would take the state's line from all waiters, who watch it.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock` and `travel`.
        if self.state.load(Ordering::Relaxed) != FREE
            || self.state.compare_exchange(FREE, HELD, Ordering::Acquire).is_err()
        {
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
        // Relaxed: only decides whether the exchange is worth its price.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock` and `travel`.
        self.state.load(Ordering::Relaxed) == FREE && self.state.compare_exchange(FREE, HELD, Ordering::Acquire).is_ok()
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
/// | SERVED  | that thread is the holder | EMPTY: that thread                                            |
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

    // Relaxed, here and in `leave`: a stop carries no data but what `serve` publishes; whether it is WAITING is seen by
    // the next holder, which has synchronised with whoever held the lock when the stop was emptied.
    fn enter(&self, _: usize, rank: usize) -> bool {
        let stop = &self.0[rank % STOPS].0;
        stop.load(Ordering::Relaxed) == EMPTY && stop.compare_exchange(EMPTY, WAITING, Ordering::Relaxed).is_ok()
    }

    fn take(&self, lock: usize, rank: usize) -> bool {
        // ORDER(travel): Acquire pairs with the Release in `serve`.
        let served = self.0[rank % STOPS].0.load(Ordering::Acquire) == SERVED;
        if served {
            self.leave(lock, rank);
        }
        served
    }

    fn leave(&self, _: usize, rank: usize) {
        self.0[rank % STOPS].0.store(EMPTY, Ordering::Relaxed);
    }

    fn serve(&self, _: usize, rank: usize) -> bool {
        let stop = &self.0[rank % STOPS].0;
        // Relaxed: while this thread is the holder, WAITING stays; a waiter that is overlooked watches the state.
        let waits = stop.load(Ordering::Relaxed) == WAITING;
        if waits {
            // ORDER(travel): Release pairs with the Acquire in `take`; publishes the critical section.
            // LAST: the lock may be destroyed after this store.
            stop.store(SERVED, Ordering::Release);
        }
        waits
    }
}
