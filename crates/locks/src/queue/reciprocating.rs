//! Reciprocating lock (Dice, Kogan, PPoPP 2025, listing 1).
//!
//!   arrivals -> [F] -> [E] -> [D] -> NOBODY     a stack: each newcomer stands on the one before
//!   next     ------> [B] -> [A]                 the entry segment: waiters that are served before all of `arrivals`
//!
//! When the entry segment is used up, the holder takes the whole stack as the next one: the last to arrive goes first,
//! so the order turns round from segment to segment. Arrival and release take a constant number of steps, and nobody
//! waits for a neighbour to link in. Space: two words; a waiter's node lives on its stack. Hand-off: the holder writes
//! its successor's status. Each waiter spins on its own line.
//!
//! Fairness: bounded. While a thread waits, another one may be served out of the entry segment that is under way,
//! arrive once more above it, and be served again; after that it stands in a later segment.
//!
//! Deviations. The paper's holder keeps the rest of its segment and the segment's end with its own node. Here the lock
//! keeps the first waiter, and a waiter knows where its segment ends, so that no node outlives the wait. And a thread
//! that enters by pushing its node detaches the waiters above it at once instead of at its release: a node off its
//! stack frame must not stay in `arrivals`, where a later one of the same address could be taken for it.

use crate::info::{Fairness, Family, LockInfo, Timed};
use crate::waiting::{Spin, Waiting, WAITING};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use core::ptr::{null_mut, without_provenance_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// A waiter, on a line of its own: its stack frame has other things beside it.
#[repr(C, align(64))]
struct Node<P: Platform> {
    status: P::U32,
    /// The node at which the segment ends, without belonging to it; null: it ends at NOBODY.
    end: P::Ptr<Node<P>>,
}

/// The lock, over the way its waiters wait.
///
/// | arrivals    | next         | meaning                                               |
/// |-------------|--------------|-------------------------------------------------------|
/// | null        | null         | free                                                  |
/// | NOBODY      | null         | held, nobody waits                                    |
/// | last waiter | null         | held, all waiters are in `arrivals`                   |
/// | any of both | first waiter | held, the entry segment starts with `next`            |
#[repr(C)]
pub struct ReciprocatingLock<P: Platform, W> {
    arrivals: P::Ptr<Node<P>>,
    next: P::Ptr<Node<P>>,
    waiting: PhantomData<W>,
}

/// Waiters spin.
pub type Reciprocating<P> = ReciprocatingLock<P, Spin>;

impl<P: Platform, W: Waiting> ReciprocatingLock<P, W> {
    /// The bottom of the stack of arrivals while the lock is held; never dereferenced.
    fn nobody() -> *mut Node<P> {
        without_provenance_mut(1)
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        let node = Node::<P> { status: P::U32::new(WAITING), end: P::Ptr::new(null_mut()) };
        let me = (&raw const node).cast_mut();
        // ORDER(arrive): Release publishes the node to whoever detaches the stack. No Acquire: who finds the lock free
        // acquires it in `detach_above`; who waits may touch the node below after the grant, which hands on what
        // whoever detached the two has acquired.
        let below = self.arrivals.swap(me, Ordering::Release);
        if below.is_null() {
            self.detach_above(me);
            return;
        }
        W::wait::<P>(&node.status);
        // Relaxed: written before the grant, by the waiter before in the segment or by the one that detached it.
        let end = node.end.load(Ordering::Relaxed);
        if below == end || below == Self::nobody() {
            self.set_next(null_mut());
            return;
        }
        if !end.is_null() {
            // Relaxed: published by the grant.
            // SAFETY: a waiter, which this thread will grant the lock.
            unsafe { (*below).end.store(end, Ordering::Relaxed) };
        }
        self.set_next(below);
    }

    /// Makes the waiters that stand on `me`, which has found the lock free, the entry segment.
    fn detach_above(&self, me: *mut Node<P>) {
        // ORDER(arrive): Acquire pairs with the Release in `lock_contended`.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock` that left the lock free, which the swap in
        // `lock_contended`, a read-modify-write, has continued.
        let top = self.arrivals.swap(Self::nobody(), Ordering::Acquire);
        if top != me {
            // Relaxed: published by the grant.
            // SAFETY: a waiter, which this thread will grant the lock.
            unsafe { (*top).end.store(me, Ordering::Relaxed) };
            self.set_next(top);
        }
    }

    /// Only the holder, this thread, writes `next`; null means that the entry segment is used up.
    fn set_next(&self, next: *mut Node<P>) {
        // Relaxed: read by this thread's own `unlock`, or by one that was synchronised with it.
        self.next.store(next, Ordering::Relaxed);
    }

    /// Grants the lock to `next`, or if there is none to the top of the arrivals, which become the entry segment. The
    /// new holder sets `next` itself: this thread may not touch the lock after the grant.
    #[cold]
    #[inline(never)]
    fn hand_over(&self, next: *mut Node<P>) {
        let first = if next.is_null() {
            // ORDER(arrive): Acquire pairs with the Release in `lock_contended`.
            self.arrivals.swap(Self::nobody(), Ordering::Acquire)
        } else {
            next
        };
        // SAFETY: it waits for the grant.
        W::grant::<P>(unsafe { &(*first).status });
    }
}

// SAFETY: `arrivals` changes from null only by the new holder, and back only by the holder; otherwise the holder
// grants the lock to one waiter.
unsafe impl<P: Platform, W: Waiting> RawLock<P> for ReciprocatingLock<P, W> {
    const INFO: LockInfo = LockInfo {
        id: "reciprocating",
        family: Family::Queue,
        waiting: W::POLICY,
        fairness: Fairness::Bounded(2),
        timed: Timed::Poll,
        summary: "waiters arrive on a stack, which is served as a whole when the one before has been",
        paper: "Dice, Kogan: PPoPP 2025, listing 1",
        ..LockInfo::PLAIN
    };
    type Ctx = ();

    fn new() -> Self {
        ReciprocatingLock { arrivals: P::Ptr::new(null_mut()), next: P::Ptr::new(null_mut()), waiting: PhantomData }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        if self.arrivals.compare_exchange(null_mut(), Self::nobody(), Ordering::Acquire).is_err() {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // Relaxed: written by the holder.
        let next = self.next.load(Ordering::Relaxed);
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this exchange.
        if !next.is_null() || self.arrivals.compare_exchange(Self::nobody(), null_mut(), Ordering::Release).is_err() {
            self.hand_over(next);
        }
    }
}

// SAFETY: acquires only if the lock is free.
unsafe impl<P: Platform, W: Waiting> TryLock<P> for ReciprocatingLock<P, W> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.arrivals.try_change(null_mut(), Self::nobody(), Ordering::Acquire)
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, W: Waiting> TimedLock<P> for ReciprocatingLock<P, W> {}

impl<P: Platform, W: Waiting> IsHeld for ReciprocatingLock<P, W> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        !self.arrivals.load(Ordering::Relaxed).is_null()
    }
}
