//! AHMCS, the adaptive hierarchical MCS lock (Chabbi, Mellor-Crummey, PPoPP 2016), over the two levels of HMCS.
//!
//!   root tail --------------------------------------+
//!             [A straight, holder]->[node 1's place]+
//!                                    |
//!   node 1:                         [B leader]->[E]          see hmcs.rs
//!
//! Where nobody is to be seen, a thread enqueues its own queue node at the root, which is as cheap as MCS. Otherwise it
//! starts where the last acquisition would have been better off:
//!
//! | what an acquisition has seen                                               | the next starts |
//! |----------------------------------------------------------------------------|-----------------|
//! | in its NUMA node's queue: waited for, or left the lock to, somebody there  | at its node     |
//! | there: nobody, but waited at the root and left the lock to another there   | at the root     |
//! | at the root, straight: two or more behind it                               | at its node     |
//! | anything else                                                              | as before       |
//!
//! Fairness, space and waiting: as HMCS. A `try_lock` goes straight to the root, too: a thread that tries before it queues,
//! as the preload library does, passes by a leader that has not woken up yet.
//!
//! Deviation: the paper keeps the start for each thread and lock. A lock has no such place here, so that each context
//! remembers it. The preload library gives a thread its own contexts again, so that in effect the start is the thread's,
//! for all its locks that it does not hold at once.

use super::hmcs::{self, HmcsLock};
use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// Where the next acquisition starts if it sees somebody.
const AT_NODE: u32 = 0;
const AT_ROOT: u32 = 1;

/// For whom an acquisition has waited.
const NOBODY: u32 = 0;
const ONE_AT_NODE: u32 = 1;
const ONE_AT_ROOT: u32 = 2;

/// The queue node of one acquisition, and what the next one learns from it. The fields beside `inner` are the
/// acquisition's own, which is why they are accessed with Relaxed order.
#[repr(C)]
pub struct Node<P: Platform> {
    inner: hmcs::Node<P>,
    next_start: P::U32,
    waited_for: P::U32,
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        Node { inner: Context::new(), next_start: P::U32::new(AT_NODE), waited_for: P::U32::new(NOBODY) }
    }
}

/// The lock; a NUMA node keeps it for at most `THRESHOLD` acquisitions in a row.
#[repr(transparent)]
pub struct AhmcsLock<P: Platform, const THRESHOLD: u32> {
    inner: HmcsLock<P, THRESHOLD>,
}

/// The threshold of the study (Guiroux, Lachaize, Quéma, ATC 2016).
pub type Ahmcs<P> = AhmcsLock<P, 100>;

// SAFETY: both ways acquire the lock, and each acquisition is released on its own way.
unsafe impl<P: Platform, const THRESHOLD: u32> RawLock<P> for AhmcsLock<P, THRESHOLD> {
    const INFO: LockInfo = LockInfo {
        id: "ahmcs",
        family: Family::Numa,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "HMCS whose threads skip their node's queue where that has not paid off",
        paper: "Chabbi, Mellor-Crummey: PPoPP 2016",
        asks: Asks::LOCALITY,
        ..LockInfo::PLAIN
    };
    type Ctx = Node<P>;

    fn new() -> Self {
        AhmcsLock { inner: RawLock::new() }
    }

    fn is_quiet(&self) -> bool {
        self.inner.is_quiet()
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        // SAFETY: as for this call.
        unsafe {
            if cx.next_start.load(Ordering::Relaxed) == AT_ROOT || self.inner.looks_empty() {
                self.inner.lock_at_root(&cx.inner);
            } else {
                let waited = self.inner.lock_at_node(&cx.inner);
                let waited_for = match (waited.at_node, waited.at_root) {
                    (true, _) => ONE_AT_NODE,
                    (false, true) => ONE_AT_ROOT,
                    (false, false) => NOBODY,
                };
                cx.waited_for.store(waited_for, Ordering::Relaxed);
            }
        }
    }

    #[inline]
    unsafe fn unlock(&self, cx: &Node<P>) {
        // SAFETY: as for this call.
        unsafe {
            if cx.inner.is_at_root() {
                if cx.inner.is_crowded() {
                    cx.next_start.store(AT_NODE, Ordering::Relaxed);
                }
                self.inner.unlock_at_root(&cx.inner);
            } else {
                let left_to = self.inner.unlock_at_node(&cx.inner);
                let waited_for = cx.waited_for.load(Ordering::Relaxed);
                if waited_for == ONE_AT_NODE || left_to.at_node {
                    cx.next_start.store(AT_NODE, Ordering::Relaxed);
                } else if waited_for == ONE_AT_ROOT && left_to.at_root {
                    cx.next_start.store(AT_ROOT, Ordering::Relaxed);
                }
            }
        }
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Node<P>) -> bool {
        // SAFETY: as for this call.
        cx.inner.is_at_root() && unsafe { self.inner.unlock_alone_at_root(&cx.inner) }
    }
}

// SAFETY: the root is free where nobody holds, acquires or releases the lock.
unsafe impl<P: Platform, const THRESHOLD: u32> TryLock<P> for AhmcsLock<P, THRESHOLD> {
    #[inline]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        // SAFETY: as for this call.
        unsafe { self.inner.try_lock_at_root(&cx.inner) }
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const THRESHOLD: u32> TimedLock<P> for AhmcsLock<P, THRESHOLD> {}

impl<P: Platform, const THRESHOLD: u32> IsHeld for AhmcsLock<P, THRESHOLD> {
    #[inline]
    fn is_held(&self) -> bool {
        self.inner.is_held()
    }
}
