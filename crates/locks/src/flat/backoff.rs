//! Test-and-set lock with bounded exponential back-off (Anderson, TPDS 1(1), 1990; Mellor-Crummey, Scott, TOCS 9(1),
//! 1991, section 2.1).
//!
//!   word: FREE | HELD        a waiter that lost stays away for 8, 16, 32 ... 2048 pauses
//!
//! Fairness: none; whoever comes late backs off least. Space: one word. Hand-off: whoever swaps first.

use crate::info::{ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::Platform;

use super::ttas::TtasWord;

/// First back-off, pause instructions.
const SHORTEST: u32 = 8;
/// Longest back-off, pause instructions: about 20 us on the machines this was tuned on.
const LONGEST: u32 = 2048;
/// Back-offs before the waiter starts to yield and nap: about 200 us in all.
const ROUNDS: u32 = 16;

/// The lock with the encoding of its word as a parameter (see [`TtasWord`]).
#[repr(transparent)]
pub struct BackoffWord<P: Platform, const FREE: u32, const HELD: u32> {
    inner: TtasWord<P, FREE, HELD>,
}

/// The lock in our own encoding.
pub type Backoff<P> = BackoffWord<P, 0, 1>;

/// The lock in the encoding of glibc's `pthread_spinlock_t`.
#[cfg(target_arch = "x86_64")]
pub type GlibcBackoff<P> = BackoffWord<P, 1, 0>;
/// The lock in the encoding of glibc's `pthread_spinlock_t`.
#[cfg(not(target_arch = "x86_64"))]
pub type GlibcBackoff<P> = BackoffWord<P, 0, 1>;

impl<P: Platform, const FREE: u32, const HELD: u32> BackoffWord<P, FREE, HELD> {
    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        // SAFETY: the lock needs no context.
        let try_lock = || unsafe { self.inner.try_lock(&()) };
        let mut delay = SHORTEST;
        for _ in 0..ROUNDS {
            P::relax(delay);
            if try_lock() {
                return;
            }
            delay = (delay * 2).min(LONGEST);
        }
        // The holder is away for long: leave it the CPU.
        P::spin_map(|| try_lock().then_some(()));
    }
}

// SAFETY: acquires and releases through a lock that is sound.
unsafe impl<P: Platform, const FREE: u32, const HELD: u32> RawLock<P> for BackoffWord<P, FREE, HELD> {
    const INFO: LockInfo = LockInfo {
        id: "backoff",
        family: Family::Flat,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Unfair,
        timed: Timed::Poll,
        summary: "test-and-set with bounded exponential back-off",
        paper: "Anderson: TPDS 1(1), 1990",
        by_priority: ByPriority::Barging,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    type Ctx = ();

    fn new() -> Self {
        BackoffWord { inner: RawLock::new() }
    }

    #[inline]
    unsafe fn lock(&self, cx: &()) {
        // SAFETY: as for this call.
        if unsafe { !self.inner.try_lock(cx) } {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, cx: &()) {
        // SAFETY: as for this call.
        unsafe { self.inner.unlock(cx) }
    }
}

// SAFETY: that of the inner lock.
unsafe impl<P: Platform, const FREE: u32, const HELD: u32> TryLock<P> for BackoffWord<P, FREE, HELD> {
    #[inline]
    unsafe fn try_lock(&self, cx: &()) -> bool {
        // SAFETY: as for this call.
        unsafe { self.inner.try_lock(cx) }
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const FREE: u32, const HELD: u32> TimedLock<P> for BackoffWord<P, FREE, HELD> {}

impl<P: Platform, const FREE: u32, const HELD: u32> IsHeld for BackoffWord<P, FREE, HELD> {
    #[inline]
    fn is_held(&self) -> bool {
        self.inner.is_held()
    }
}
