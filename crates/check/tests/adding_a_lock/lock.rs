//! Spin-park, a lock in one word: spins a while, then sleeps (after Drepper: Futexes Are Tricky, 2011, section 6).
//!
//!   state: FREE -> HELD -> SLEPT_ON -> FREE
//!
//! Fairness: none, a newcomer takes a free lock whoever waits. Space: one word. Hand-off: none, the lock becomes free.
//! Waiters spin on the word, then sleep on it.
//!
//! Deviations: waiters spin before they sleep.

use lockswap_locks::info::{ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use lockswap_locks::parameters::{spins, Default, Parameter, Parameters, Setting, Values, SPIN};
use lockswap_locks::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// The state.
///
/// | value    | lock | somebody sleeps                         | written by                           |
/// |----------|------|-----------------------------------------|--------------------------------------|
/// | FREE     | free | only if one of them is being woken      | the holder                           |
/// | HELD     | held | only if one of them is being woken      | who acquires it without having slept |
/// | SLEPT_ON | held | maybe                                   | a waiter that sleeps or has slept    |
const FREE: u32 = 0;
/// See [`FREE`].
const HELD: u32 = 1;
/// See [`FREE`].
const SLEPT_ON: u32 = 2;

/// The lock, whose waiters execute `PAUSES` pause instructions between two looks.
#[repr(C)]
pub struct SpinParkLock<P: Platform, const PAUSES: u32> {
    state: P::U32,
}

/// With few pauses.
pub type SpinPark<P> = SpinParkLock<P, 4>;

impl<P: Platform, const PAUSES: u32> SpinParkLock<P, PAUSES> {
    /// Acquires the lock if it is free.
    #[inline]
    fn acquire_free(&self) -> bool {
        // Relaxed: only decides whether the exchange is worth its price.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.state.load(Ordering::Relaxed) == FREE && self.state.compare_exchange(FREE, HELD, Ordering::Acquire).is_ok()
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        let pauses = Setting::Pauses.number::<P>(PAUSES);
        let spun = P::spin_map_bounded(spins::<P>(), || {
            if self.acquire_free() {
                return Some(());
            }
            P::relax(pauses);
            None
        });
        if spun.is_some() {
            return;
        }
        // Whoever has slept cannot know whether others still do, and takes the lock as if so.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        while self.state.swap(SLEPT_ON, Ordering::Acquire) != FREE {
            P::park(&self.state, SLEPT_ON, None);
        }
    }
}

// SAFETY: only an exchange or a swap that found FREE acquires; `unlock` writes FREE, its last access.
unsafe impl<P: Platform, const PAUSES: u32> RawLock<P> for SpinParkLock<P, PAUSES> {
    const INFO: LockInfo = LockInfo {
        id: "spin-park",
        family: Family::Flat,
        waiting: WaitingPolicy::SpinThenPark,
        fairness: Fairness::Unfair,
        timed: Timed::Poll,
        summary: "spins a while, then sleeps, on one word",
        paper: "Drepper: Futexes Are Tricky, 2011, section 6",
        by_priority: ByPriority::Kernel,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[
            Parameter {
                key: "pauses",
                values: Values::Number(Setting::Pauses, 0, 10_000, "pause instructions"),
                default: Default::Number(PAUSES),
                summary: "pause instructions between two looks at the lock",
                source: "ours: an example",
            },
            SPIN,
        ],
        inside: &[],
    };
    type Ctx = ();

    fn new() -> Self {
        SpinParkLock { state: P::U32::new(FREE) }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        if !self.acquire_free() {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        let address: *const P::U32 = &self.state;
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this swap; the wake-up uses the address only.
        if self.state.swap(FREE, Ordering::Release) == SLEPT_ON {
            P::unpark(address, 1);
        }
    }
}

// SAFETY: acquires only from FREE.
unsafe impl<P: Platform, const PAUSES: u32> TryLock<P> for SpinParkLock<P, PAUSES> {
    #[inline]
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.acquire_free()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const PAUSES: u32> TimedLock<P> for SpinParkLock<P, PAUSES> {}

impl<P: Platform, const PAUSES: u32> IsHeld for SpinParkLock<P, PAUSES> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: the answer says nothing about what the lock protects.
        self.state.load(Ordering::Relaxed) != FREE
    }
}
