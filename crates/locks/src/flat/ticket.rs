//! Ticket lock (Reed, Kanodia, CACM 22(2), 1979; Mellor-Crummey, Scott, TOCS 9(1), 1991, section 2.2).
//!
//!   next ----+      a thread draws a ticket from `next` and enters when `serving` shows its number
//!   serving -+      next == serving: free
//!
//! Fairness: first come, first served. Space: two words. Hand-off: one store that every waiter reads.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::numa::cohort::DetectWaiters;
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// The lock; tickets wrap around, which is sound for fewer than 2^32 waiters.
#[repr(C)]
pub struct Ticket<P: Platform> {
    next: P::U32,
    serving: P::U32,
}

impl<P: Platform> Ticket<P> {
    #[inline]
    fn is_served(&self, number: u32) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.serving.load(Ordering::Acquire) == number
    }

    #[cold]
    #[inline(never)]
    fn wait_for(&self, number: u32) {
        P::spin_map(|| self.is_served(number).then_some(()));
    }
}

// SAFETY: tickets are distinct and `serving` shows each once, after the holder before has released.
unsafe impl<P: Platform> RawLock<P> for Ticket<P> {
    const INFO: LockInfo = LockInfo {
        id: "ticket",
        family: Family::Flat,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Fifo,
        timed: Timed::Poll,
        summary: "threads draw numbers and are served in order",
        paper: "Reed, Kanodia: CACM 22(2), 1979",
    };
    type Ctx = ();

    fn new() -> Self {
        Ticket { next: P::U32::new(0), serving: P::U32::new(0) }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // Relaxed: drawing a number publishes nothing; its atomicity makes it unique.
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        if !self.is_served(mine) {
            self.wait_for(mine);
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // Relaxed: only the holder writes `serving`.
        let mine = self.serving.load(Ordering::Relaxed);
        // ORDER(hand-off): Release pairs with the Acquire in `lock` and `try_lock`; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        self.serving.store(mine.wrapping_add(1), Ordering::Release);
    }
}

// SAFETY: the number being served is drawn only if it is still the next one.
unsafe impl<P: Platform> TryLock<P> for Ticket<P> {
    #[inline]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        let serving = self.serving.load(Ordering::Acquire);
        // Relaxed: `serving` never passes `next`, so if `next` is still `serving`, nobody has drawn or released since
        // the load above, which has synchronised with the last holder.
        self.next.load(Ordering::Relaxed) == serving
            && self.next.compare_exchange(serving, serving.wrapping_add(1), Ordering::Relaxed).is_ok()
    }
}

// SAFETY: a ticket that has been drawn is served by the next `unlock`.
unsafe impl<P: Platform> DetectWaiters<P> for Ticket<P> {
    #[inline]
    unsafe fn has_waiters(&self, (): &()) -> bool {
        // Relaxed: the holder is the only one to write `serving`; its own ticket has been drawn, others are only counted.
        self.next.load(Ordering::Relaxed) != self.serving.load(Ordering::Relaxed).wrapping_add(1)
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform> TimedLock<P> for Ticket<P> {}

impl<P: Platform> IsHeld for Ticket<P> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: the answer says nothing about what the lock protects.
        self.next.load(Ordering::Relaxed) != self.serving.load(Ordering::Relaxed)
    }
}
