//! K42's MCS lock without a context parameter (Auslander, Edelsohn, Krieger, Rosenburg, Wisniewski: US patent
//! application 2003/0200457, abandoned; Scott, Shared-Memory Synchronization, 2013, fig. 4.11).
//!
//!   lock: tail ------------+
//!         next ->[B waits]->[C waits]     tail: null free, HELD_ALONE held without waiters
//!
//! The lock itself plays the holder's node, so that a waiter's node lives on its stack, only while it waits. Fairness:
//! first come, first served. Space: two pointers, no node while held. Hand-off: the holder writes its successor's
//! status. Each waiter spins on its own line.

use crate::info::{Fairness, Family, LockInfo, Timed};
use crate::parameters::Parameters;
use crate::waiting::{Spin, SpinThenParkInRwLock, Waiting, WAITING};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use core::ptr::{null_mut, without_provenance_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// A waiter, on a line of its own: its stack frame has other things beside it.
#[repr(C, align(64))]
struct Node<P: Platform> {
    next: P::Ptr<Node<P>>,
    status: P::U32,
}

/// The lock, over the way its waiters wait.
///
/// | tail          | next                 | meaning                               |
/// |---------------|----------------------|---------------------------------------|
/// | null          | null                 | free                                  |
/// | HELD_ALONE    | null                 | held, nobody waits                    |
/// | last waiter   | null                 | held, the first waiter is linking in  |
/// | last waiter   | first waiter         | held                                  |
#[repr(C)]
pub struct K42Lock<P: Platform, W> {
    tail: P::Ptr<Node<P>>,
    next: P::Ptr<Node<P>>,
    waiting: PhantomData<W>,
}

/// Waiters spin.
pub type K42<P> = K42Lock<P, Spin>;
/// Waiters spin, then park, and the lock is passed along the queue, sleepers included: for the writers of a read-write
/// lock.
pub type K42Stp<P> = K42Lock<P, SpinThenParkInRwLock>;

impl<P: Platform, W: Waiting> K42Lock<P, W> {
    /// The tail of a lock that is held and that nobody waits for; never dereferenced.
    fn held_alone() -> *mut Node<P> {
        without_provenance_mut(1)
    }

    /// The waiter that is about to store itself in `link`.
    #[cold]
    #[inline(never)]
    fn linked(link: &P::Ptr<Node<P>>) -> *mut Node<P> {
        // ORDER(link): Acquire pairs with the Release in `lock_contended`.
        P::spin_map(|| Some(link.load(Ordering::Acquire)).filter(|next| !next.is_null()))
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        let node = Node::<P> { next: P::Ptr::new(null_mut()), status: P::U32::new(WAITING) };
        let me = (&raw const node).cast_mut();
        // Each repetition means that another thread has changed the tail.
        let predecessor = loop {
            // Relaxed: the exchanges decide.
            let tail = self.tail.load(Ordering::Relaxed);
            if tail.is_null() {
                // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
                if self.tail.compare_exchange(null_mut(), Self::held_alone(), Ordering::Acquire).is_ok() {
                    return;
                }
            // ORDER(enqueue): Release publishes the node to the next waiter, whose exchange acquires it.
            } else if self.tail.compare_exchange(tail, me, Ordering::AcqRel).is_ok() {
                break tail;
            }
        };
        // The lock plays the holder's node.
        let link = if predecessor == Self::held_alone() {
            &self.next
        } else {
            // SAFETY: the predecessor leaves its stack frame only after it has seen its `next`.
            unsafe { &(*predecessor).next }
        };
        // ORDER(link): Release pairs with the Acquire in `linked`; publishes this node.
        link.store(me, Ordering::Release);
        W::wait::<P>(&node.status);
        self.leave_queue(&node);
    }

    /// Grants the lock to the first waiter, which is linked or about to be. The new holder sets `next` itself: this
    /// thread may not touch the lock after the grant.
    #[cold]
    #[inline(never)]
    fn hand_over(&self) {
        let successor = Self::linked(&self.next);
        // SAFETY: the successor waits for the grant.
        W::grant::<P>(unsafe { &(*successor).status });
    }

    /// Makes the lock stand for `node`, which holds it now and is about to leave its stack frame.
    fn leave_queue(&self, node: &Node<P>) {
        // ORDER(link): Acquire pairs with the Release in `lock_contended`.
        let mut next = node.next.load(Ordering::Acquire);
        if next.is_null() {
            // Relaxed: only the holder, this thread, and the waiter that it lets link below write `next`.
            self.next.store(null_mut(), Ordering::Relaxed);
            let me = core::ptr::from_ref(node).cast_mut();
            // ORDER(enqueue): Release orders the store above before the first waiter's store to the same word.
            if self.tail.compare_exchange(me, Self::held_alone(), Ordering::Release).is_ok() {
                return;
            }
            next = Self::linked(&node.next);
        }
        // Relaxed: read by this thread's own `unlock`, or by one that was synchronised with it.
        self.next.store(next, Ordering::Relaxed);
    }
}

// SAFETY: the tail changes from null only to the holder's HELD_ALONE, and back only by the holder; otherwise the
// holder grants the lock to the first waiter.
unsafe impl<P: Platform, W: Waiting> RawLock<P> for K42Lock<P, W> {
    const INFO: LockInfo = LockInfo {
        id: "k42",
        family: Family::Queue,
        waiting: W::POLICY,
        fairness: Fairness::Fifo,
        timed: Timed::Poll,
        summary: "MCS without a context: the lock plays the holder's node, waiters' nodes are on their stacks",
        paper: "Scott: Shared-Memory Synchronization, 2013, fig. 4.11",
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = W::PARAMETERS;
    type Ctx = ();

    fn new() -> Self {
        K42Lock { tail: P::Ptr::new(null_mut()), next: P::Ptr::new(null_mut()), waiting: PhantomData }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        if self.tail.compare_exchange(null_mut(), Self::held_alone(), Ordering::Acquire).is_err() {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // Relaxed: a successor that is linked is looked at later.
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this exchange.
        let alone = self.next.load(Ordering::Relaxed).is_null()
            && self.tail.compare_exchange(Self::held_alone(), null_mut(), Ordering::Release).is_ok();
        if !alone {
            self.hand_over();
        }
    }
}

// SAFETY: acquires only if the lock is free.
unsafe impl<P: Platform, W: Waiting> TryLock<P> for K42Lock<P, W> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.tail.try_change(null_mut(), Self::held_alone(), Ordering::Acquire)
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, W: Waiting> TimedLock<P> for K42Lock<P, W> {}

impl<P: Platform, W: Waiting> IsHeld for K42Lock<P, W> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}
