//! Test-and-test-and-set lock (Rudolph, Segall, ISCA 1984; Anderson, TPDS 1(1), 1990).
//!
//!   word: FREE | HELD        every waiter reads the word until it is free, then tries to swap
//!
//! Fairness: none. Space: one word. Hand-off: whoever swaps first. Waiters spin on a shared copy of the lock's line.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// The lock with the encoding of its word as a parameter: glibc's spinlock has another one than ours, and a lock that
/// stands in for it must keep it.
#[repr(transparent)]
pub struct TtasWord<P: Platform, const FREE: u32, const HELD: u32> {
    word: P::U32,
}

/// The lock in our own encoding.
pub type Ttas<P> = TtasWord<P, 0, 1>;

/// The lock in the encoding of glibc's `pthread_spinlock_t`.
#[cfg(target_arch = "x86_64")]
pub type GlibcTtas<P> = TtasWord<P, 1, 0>;
/// The lock in the encoding of glibc's `pthread_spinlock_t`.
#[cfg(not(target_arch = "x86_64"))]
pub type GlibcTtas<P> = TtasWord<P, 0, 1>;

impl<P: Platform, const FREE: u32, const HELD: u32> TtasWord<P, FREE, HELD> {
    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        // SAFETY: the lock needs no context.
        P::spin_map(|| unsafe { self.try_lock(&()) }.then_some(()));
    }
}

// SAFETY: only one swap of FREE for HELD succeeds until `unlock` writes FREE, its last access.
unsafe impl<P: Platform, const FREE: u32, const HELD: u32> RawLock<P> for TtasWord<P, FREE, HELD> {
    const INFO: LockInfo = LockInfo {
        id: "ttas",
        family: Family::Flat,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Unfair,
        timed: Timed::Poll,
        summary: "test-and-test-and-set: waiters read until the lock is free, then race for it",
        paper: "Rudolph, Segall: ISCA 1984",
    };
    type Ctx = ();

    fn new() -> Self {
        TtasWord { word: P::U32::new(FREE) }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        if self.word.compare_exchange(FREE, HELD, Ordering::Acquire).is_err() {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        self.word.store(FREE, Ordering::Release);
    }
}

// SAFETY: the word is HELD exactly while the lock is held.
unsafe impl<P: Platform, const FREE: u32, const HELD: u32> TryLock<P> for TtasWord<P, FREE, HELD> {
    #[inline]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // Relaxed: only decides whether the exchange is worth its price.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.word.load(Ordering::Relaxed) == FREE && self.word.compare_exchange(FREE, HELD, Ordering::Acquire).is_ok()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const FREE: u32, const HELD: u32> TimedLock<P> for TtasWord<P, FREE, HELD> {}

impl<P: Platform, const FREE: u32, const HELD: u32> IsHeld for TtasWord<P, FREE, HELD> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: the answer says nothing about what the lock protects.
        self.word.load(Ordering::Relaxed) != FREE
    }
}
