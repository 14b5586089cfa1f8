//! Test-and-test-and-set lock with exponential back-off (Anderson, TPDS 1(1), 1990; Mellor-Crummey, Scott, TOCS 9(1),
//! 1991, section 2.1), with the bounds of the study (Guiroux, Lachaize, Quéma, ATC 2016).
//!
//!   word: FREE | HELD        a waiter that finds it held stays away for 512, 1024, 2048 ... 2^20 pauses
//!
//! Fairness: none; whoever comes late backs off least. Space: one word. Hand-off: whoever swaps first.
//!
//! Deviation: a waiter that has stayed away for `PATIENCE` pauses in all, half a second or more, waits as in any other
//! wait of ours, which leaves the CPU in the end: a waiter of real-time priority that only spun could keep the holder
//! from running for ever.

use crate::info::{ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::Platform;

use super::ttas::TtasWord;

/// The first back-off, pause instructions.
const SHORTEST: u32 = 1 << 9;
/// The longest back-off, pause instructions: 3 ms or more.
const LONGEST: u32 = 1 << 20;
/// Pauses after which a waiter leaves the CPU to others.
const PATIENCE: u32 = 1 << 25;

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
        let longest = Setting::Longest.number::<P>(LONGEST);
        let patience = Setting::Patience.number::<P>(PATIENCE);
        let mut delay = Setting::Shortest.number::<P>(SHORTEST).min(longest);
        let mut waited = 0_u32;
        while waited < patience {
            P::relax(delay);
            if try_lock() {
                return;
            }
            waited = waited.saturating_add(delay);
            delay = (delay * 2).min(longest);
        }
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
        summary: "test-and-test-and-set whose waiters stay away for longer and longer",
        paper: "Anderson: TPDS 1(1), 1990",
        by_priority: ByPriority::Barging,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[
            Parameter {
                key: "shortest",
                values: Values::Number(Setting::Shortest, 1, 1 << 30, "pauses"),
                default: Default::Number(SHORTEST),
                summary: "first back-off of a waiter",
                source: "Guiroux, Lachaize, Quema: ATC 2016; 8 is better where sections are short and CPUs few",
            },
            Parameter {
                key: "longest",
                values: Values::Number(Setting::Longest, 1, 1 << 30, "pauses"),
                default: Default::Number(LONGEST),
                summary: "longest back-off of a waiter, which doubles until then",
                source: "Guiroux, Lachaize, Quema: ATC 2016; 2048 is better where sections are short and CPUs few",
            },
            Parameter {
                key: "patience",
                values: Values::Number(Setting::Patience, 0, 1 << 30, "pauses"),
                default: Default::Number(PATIENCE),
                summary: "pauses in all after which a waiter watches the lock, then leaves the CPU to others",
                source:
                    "ours, so that a real-time waiter cannot block the holder; the published lock has no such bound",
            },
        ],
        inside: &[],
    };
    type Ctx = ();

    fn new() -> Self {
        BackoffWord { inner: RawLock::new() }
    }

    #[inline]
    unsafe fn lock(&self, cx: &()) {
        // SAFETY: the caller keeps the contract of the call.
        if unsafe { !self.inner.try_lock(cx) } {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, cx: &()) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.inner.unlock(cx) }
    }
}

// SAFETY: that of the inner lock.
unsafe impl<P: Platform, const FREE: u32, const HELD: u32> TryLock<P> for BackoffWord<P, FREE, HELD> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &()) -> bool {
        // SAFETY: the caller keeps the contract of the call.
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
