//! CLH queue lock (Craig, TR 93-02-02, 1993; Magnusson, Landin, Hagersten, IPPS 1994).
//!
//!   tail ---------------------------+
//!   [A holder]<-[B watches A]<-[C watches B]     null tail: free
//!
//! Fairness: first come, first served. Space: one pointer, plus a node per acquisition. Hand-off: the holder writes
//! its own node. Each waiter spins on its predecessor's line; in the `_stp` flavour it then parks on its own, whose
//! address it leaves in its predecessor's node. The `-ls` flavour is that of libslock (David, Guerraoui, Trigonakis,
//! SOSP 2013): pauses between two looks.
//!
//! Deviations. A node does not migrate to the successor: the successor marks the predecessor's node FREE when it has
//! seen the release, which writes the line that it would have written as its own node later. And a release that finds
//! nobody behind empties the queue, so that an idle lock keeps no node, is all zero, and can be tried exactly.
//! libslock also prefetches the node for writing.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{spins, Parameters};
use crate::waiting::{LibslockSpin, Spin, SpinThenPark, Waiting, GRANTED, PARKED, WAITING};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use core::ptr::{from_ref, null_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// The node is in no queue. The other states are those of [`crate::waiting`], seen from the one who waits for the
/// node:
///
/// | state    | meaning                                            | written by    |
/// |----------|----------------------------------------------------|---------------|
/// | FREE     | in no queue                                        | successor, or the owner that empties the queue |
/// | WAITING  | its owner waits or holds the lock                  | the owner     |
/// | PARKED   | as WAITING; its successor has turned to its own node, where it sleeps or is about to | the successor |
/// | GRANTED  | its owner has passed the lock on                   | the owner     |
const FREE: u32 = 3;

/// The queue node of one acquisition.
#[repr(C)]
pub struct Node<P: Platform> {
    state: P::U32,
    /// What the owner sleeps on.
    turn: P::U32,
    /// The successor's node, when the state is PARKED.
    sleeper: P::Ptr<Node<P>>,
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        Node { state: P::U32::new(FREE), turn: P::U32::new(WAITING), sleeper: P::Ptr::new(null_mut()) }
    }

    #[inline]
    fn is_reusable(&self) -> bool {
        // ORDER(reuse): Acquire pairs with the Release of the successor, which looks at the node no more.
        self.state.load(Ordering::Acquire) == FREE
    }
}

impl<P: Platform> Node<P> {
    /// Waits behind `predecessor`, which may be reused when this returns.
    #[cold]
    #[inline(never)]
    fn wait_behind<W: Waiting>(&self, predecessor: &Node<P>) {
        match W::POLICY {
            WaitingPolicy::Spin => W::wait::<P>(&predecessor.state),
            WaitingPolicy::SpinThenPark | WaitingPolicy::Adaptive => {
                // ORDER(hand-off): Acquire pairs with the Release in `hand_over`.
                let granted = || (predecessor.state.load(Ordering::Acquire) == GRANTED).then_some(());
                if P::spin_map_bounded(spins::<P>(), granted).is_none() {
                    // Relaxed: published by the exchange.
                    self.turn.store(WAITING, Ordering::Relaxed);
                    predecessor.sleeper.store(from_ref(self).cast_mut(), Ordering::Relaxed);
                    // ORDER(sleeper): Release pairs with the Acquire in `hand_over`; publishes this node.
                    // LAST: the predecessor's node may be reused after this exchange.
                    if predecessor.state.compare_exchange(WAITING, PARKED, Ordering::Release).is_ok() {
                        return W::wait::<P>(&self.turn);
                    }
                    P::spin_map(granted);
                }
            }
        }
        // ORDER(reuse): Release pairs with the Acquire in `is_reusable`.
        // LAST: the node's owner may reuse it after this store.
        predecessor.state.store(FREE, Ordering::Release);
    }

    /// Passes the lock on to the successor.
    #[inline]
    fn hand_over<W: Waiting>(&self) {
        if W::POLICY == WaitingPolicy::Spin {
            return W::grant::<P>(&self.state);
        }
        // ORDER(hand-off): Release pairs with the Acquire in `wait_behind`; publishes the critical section.
        // ORDER(sleeper): Acquire pairs with the Release in `wait_behind`.
        if self.state.swap(GRANTED, Ordering::AcqRel) == PARKED {
            // Relaxed: acquired with the state, which nobody looks at any more.
            let sleeper = self.sleeper.load(Ordering::Relaxed);
            self.state.store(FREE, Ordering::Relaxed);
            // SAFETY: the successor waits for the grant.
            W::grant::<P>(unsafe { &(*sleeper).turn });
        }
    }
}

/// The lock, over the way its waiters wait.
#[repr(C)]
pub struct Clh<P: Platform, W> {
    tail: P::Ptr<Node<P>>,
    waiting: PhantomData<W>,
}

/// Waiters spin.
pub type ClhSpin<P> = Clh<P, Spin>;
/// Waiters spin, then park; the lock is passed along the queue, sleepers included.
pub type ClhStp<P> = Clh<P, SpinThenPark>;
/// Waiters spin with pauses.
pub type ClhLs<P> = Clh<P, LibslockSpin>;

// SAFETY: a node becomes the holder when it finds the queue empty or its predecessor's node GRANTED.
unsafe impl<P: Platform, W: Waiting> RawLock<P> for Clh<P, W> {
    const INFO: LockInfo = LockInfo {
        id: match W::POLICY {
            WaitingPolicy::Spin if W::PAUSES > 0 => "clh-ls",
            WaitingPolicy::Spin => "clh_spin",
            WaitingPolicy::SpinThenPark | WaitingPolicy::Adaptive => "clh_stp",
        },
        family: Family::Queue,
        waiting: W::POLICY,
        fairness: Fairness::Fifo,
        timed: Timed::Poll,
        summary: "a queue in which every waiter watches its predecessor's node",
        paper: "Craig: TR 93-02-02, 1993; Magnusson, Landin, Hagersten: IPPS 1994",
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = W::PARAMETERS;
    type Ctx = Node<P>;

    fn new() -> Self {
        Clh { tail: P::Ptr::new(null_mut()), waiting: PhantomData }
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        // Relaxed: nobody else sees the node before the swap.
        cx.state.store(WAITING, Ordering::Relaxed);
        // ORDER(enqueue): Release publishes the node's state to the successor, whose swap acquires it.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock` that left the queue empty.
        let predecessor = self.tail.swap(from_ref(cx).cast_mut(), Ordering::AcqRel);
        if !predecessor.is_null() {
            // SAFETY: the predecessor's node is not reused until it is FREE, which this thread says last, or PARKED.
            cx.wait_behind::<W>(unsafe { &*predecessor });
        }
    }

    #[inline]
    unsafe fn has_heir(&self, cx: &Node<P>) -> bool {
        // Relaxed: a successor has to see the release before it does anything else.
        self.tail.load(Ordering::Relaxed) != from_ref(cx).cast_mut()
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Node<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        if unsafe { self.has_heir(cx) } {
            return false;
        }
        // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
        // LAST: the lock may be destroyed after this exchange.
        let alone = self.tail.compare_exchange(from_ref(cx).cast_mut(), null_mut(), Ordering::Release).is_ok();
        if alone {
            // Relaxed: nobody has seen the node but its owner.
            cx.state.store(FREE, Ordering::Relaxed);
        }
        alone
    }

    #[inline]
    unsafe fn hand_over(&self, cx: &Node<P>) {
        cx.hand_over::<W>();
    }
}

// SAFETY: acquires only if the queue is empty.
unsafe impl<P: Platform, W: Waiting> TryLock<P> for Clh<P, W> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        // Relaxed: nobody else sees the node before the exchange.
        cx.state.store(WAITING, Ordering::Relaxed);
        // ORDER(enqueue, hand-off): as for the swap in `lock`.
        let acquired = self.tail.try_change(null_mut(), from_ref(cx).cast_mut(), Ordering::AcqRel);
        if !acquired {
            // Relaxed: nobody has seen the node but its owner.
            cx.state.store(FREE, Ordering::Relaxed);
        }
        acquired
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, W: Waiting> TimedLock<P> for Clh<P, W> {}

impl<P: Platform, W: Waiting> IsHeld for Clh<P, W> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}
