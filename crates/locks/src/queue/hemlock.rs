//! Hemlock (Dice, Kogan, SPAA 2021, listing 2: with coherence traffic reduction).
//!
//!   tail ---------------------------+
//!   [A holder]<-[B watches A's grant]<-[C watches B's grant]     null tail: free
//!
//! The holder passes the lock on by filling its grant word; the successor takes the grant and empties the word in one
//! exchange, which it repeats until it succeeds: the line is already its own then, where a look and a store would
//! fetch it twice. Nothing is written on the way in but the tail. Fairness: first come, first served. Space: one word,
//! plus one word per acquisition. Each waiter spins on its predecessor's line.
//!
//! Deviations. The grant word belongs to an acquisition instead of a thread, because a mutex may be released by
//! another thread than the one that acquired it: so it serves one lock at a time, and is filled with a mark instead of
//! the lock's address. And a release does not wait until the successor has emptied the word: the word may serve no
//! other acquisition before that (the paper's postponed variant).

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::ptr::{from_ref, null_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// | grant | meaning                                            | written by    |
/// |-------|----------------------------------------------------|---------------|
/// | EMPTY | the owner holds the lock, waits, or is in no queue | the successor |
/// | FULL  | the owner has passed the lock on                   | the owner     |
const EMPTY: u32 = 0;
const FULL: u32 = 1;

/// The grant word of one acquisition.
#[repr(C)]
pub struct Grant<P: Platform> {
    word: P::U32,
}

impl<P: Platform> Context for Grant<P> {
    fn new() -> Self {
        Grant { word: P::U32::new(EMPTY) }
    }

    #[inline]
    fn is_reusable(&self) -> bool {
        // ORDER(reuse): Acquire pairs with the Release of the successor's exchange, after which it looks no more.
        self.word.load(Ordering::Acquire) == EMPTY
    }
}

impl<P: Platform> Grant<P> {
    #[cold]
    #[inline(never)]
    fn take(&self) {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        // ORDER(reuse): Release pairs with the Acquire in `is_reusable`.
        // LAST: the owner may reuse the word after this exchange.
        P::spin_map(|| self.word.compare_exchange(FULL, EMPTY, Ordering::AcqRel).ok());
    }
}

/// The lock.
#[repr(C)]
pub struct Hemlock<P: Platform> {
    tail: P::Ptr<Grant<P>>,
}

// SAFETY: a thread becomes the holder when it finds the queue empty or takes its predecessor's grant.
unsafe impl<P: Platform> RawLock<P> for Hemlock<P> {
    const INFO: LockInfo = LockInfo {
        id: "hemlock",
        family: Family::Queue,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Fifo,
        timed: Timed::Poll,
        summary: "a queue of single words: each waiter takes the grant out of its predecessor's word",
        paper: "Dice, Kogan: SPAA 2021, listing 2",
        ..LockInfo::PLAIN
    };
    type Ctx = Grant<P>;

    fn new() -> Self {
        Hemlock { tail: P::Ptr::new(null_mut()) }
    }

    #[inline]
    unsafe fn lock(&self, cx: &Grant<P>) {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_alone`.
        // ORDER(enqueue): Release pairs with the Acquire of the successor's swap: the word it looks at has been
        // emptied.
        let predecessor = self.tail.swap(from_ref(cx).cast_mut(), Ordering::AcqRel);
        if !predecessor.is_null() {
            // SAFETY: the predecessor's word is not reused until this thread has emptied it.
            unsafe { &*predecessor }.take();
        }
    }

    #[inline]
    unsafe fn has_heir(&self, cx: &Grant<P>) -> bool {
        // Relaxed: a successor has to take the grant before it does anything else.
        self.tail.load(Ordering::Relaxed) != from_ref(cx).cast_mut()
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Grant<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        let has_heir = unsafe { self.has_heir(cx) };
        !has_heir
            // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
            // LAST: the lock may be destroyed after this exchange.
            && self.tail.compare_exchange(from_ref(cx).cast_mut(), null_mut(), Ordering::Release).is_ok()
    }

    #[inline]
    unsafe fn hand_over(&self, cx: &Grant<P>) {
        // ORDER(hand-off): Release pairs with the Acquire in `take`; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        cx.word.store(FULL, Ordering::Release);
    }
}

// SAFETY: acquires only if the queue is empty.
unsafe impl<P: Platform> TryLock<P> for Hemlock<P> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &Grant<P>) -> bool {
        // ORDER(enqueue, hand-off): as for the swap in `lock`.
        self.tail.try_change(null_mut(), from_ref(cx).cast_mut(), Ordering::AcqRel)
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform> TimedLock<P> for Hemlock<P> {}

impl<P: Platform> IsHeld for Hemlock<P> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}
