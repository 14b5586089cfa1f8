//! MCS queue lock (Mellor-Crummey, Scott, TOCS 9(1), 1991, fig. 5).
//!
//!   tail ---------------------+
//!   [A holder]->[B waits]->[C waits]     null tail: free
//!
//! Fairness: first come, first served. Space: one pointer, plus a node per acquisition that lives until the release.
//! Hand-off: the holder writes its successor's status. Each waiter spins on its own line. In the `_stp` flavour, which
//! is that of the study (Guiroux, Lachaize, Quéma, ATC 2016), it spins as long as a round trip through a sleep takes,
//! then parks. The `-ls` flavour is that of libslock (David, Guerraoui, Trigonakis, SOSP 2013): pauses between two
//! looks. The `_stp-barging` flavour, which is ours, lets running threads overtake a queue whose head sleeps (see
//! [`Barging`]).
//!
//! Deviations. The status is written only by a thread that waits. libslock also prefetches the node for writing.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::numa::cohort::DetectWaiters;
use crate::parameters::Parameters;
use crate::queue::barging::{Barging, PATIENCE};
use crate::waiting::{LibslockSpin, Spin, SpinThenPark, Waiting, WAITING};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use core::ptr::{from_ref, null_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// The queue node of one acquisition.
#[repr(C)]
pub struct Node<P: Platform> {
    next: P::Ptr<Node<P>>,
    status: P::U32,
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        Node { next: P::Ptr::new(null_mut()), status: P::U32::new(WAITING) }
    }
}

impl<P: Platform> Node<P> {
    /// Links this node behind `predecessor`, whose memory may be gone before the wait ends, and waits for the grant.
    ///
    /// # Safety
    /// The predecessor has not seen its `next` yet.
    #[cold]
    #[inline(never)]
    unsafe fn wait_behind<W: Waiting>(&self, predecessor: *mut Node<P>) {
        // Relaxed: published by the link.
        self.status.store(WAITING, Ordering::Relaxed);
        // ORDER(link): Release pairs with the Acquire in `successor`; publishes this node.
        // SAFETY: the predecessor stays in its `unlock` until it has seen its `next`.
        unsafe { (*predecessor).next.store(from_ref(self).cast_mut(), Ordering::Release) };
        W::wait::<P>(&self.status);
    }

    /// The successor, which has linked in or is about to.
    fn successor(&self) -> *mut Node<P> {
        // ORDER(link): Acquire pairs with the Release in `wait_behind`.
        P::spin_map(|| Some(self.next.load(Ordering::Acquire)).filter(|next| !next.is_null()))
    }
}

/// The lock, over the way its waiters wait.
#[repr(C)]
pub struct Mcs<P: Platform, W> {
    tail: P::Ptr<Node<P>>,
    waiting: PhantomData<W>,
}

/// Waiters spin.
pub type McsSpin<P> = Mcs<P, Spin>;
/// Waiters spin, then park; the lock is passed along the queue, sleepers included.
pub type McsStp<P> = Mcs<P, SpinThenPark>;
/// The same below a word that running threads may take.
pub type McsStpBarging<P> = Barging<P, McsStp<P>, PATIENCE>;
/// Waiters spin with pauses.
pub type McsLs<P> = Mcs<P, LibslockSpin>;

// SAFETY: a node becomes the holder when it finds the queue empty or when the holder before grants it.
unsafe impl<P: Platform, W: Waiting> RawLock<P> for Mcs<P, W> {
    const INFO: LockInfo = LockInfo {
        id: match W::POLICY {
            WaitingPolicy::Spin if W::PAUSES > 0 => "mcs-ls",
            WaitingPolicy::Spin => "mcs_spin",
            WaitingPolicy::SpinThenPark | WaitingPolicy::Adaptive => "mcs_stp",
        },
        family: Family::Queue,
        waiting: W::POLICY,
        fairness: Fairness::Fifo,
        timed: Timed::Poll,
        summary: "a queue in which every waiter watches its own node",
        paper: "Mellor-Crummey, Scott: TOCS 9(1), 1991, fig. 5",
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = W::PARAMETERS;
    type Ctx = Node<P>;

    fn new() -> Self {
        Mcs { tail: P::Ptr::new(null_mut()), waiting: PhantomData }
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        let me = from_ref(cx).cast_mut();
        // Relaxed: nobody else sees the node before the swap.
        cx.next.store(null_mut(), Ordering::Relaxed);
        // ORDER(enqueue): Release publishes the node to the successor, whose swap acquires it.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock` that left the queue empty.
        let predecessor = self.tail.swap(me, Ordering::AcqRel);
        if !predecessor.is_null() {
            // SAFETY: its `next` is null until this node is linked.
            unsafe { cx.wait_behind::<W>(predecessor) };
        }
    }

    #[inline]
    unsafe fn has_heir(&self, cx: &Node<P>) -> bool {
        // Relaxed: `hand_over` looks again before it follows the link.
        !cx.next.load(Ordering::Relaxed).is_null()
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Node<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        let has_heir = unsafe { self.has_heir(cx) };
        !has_heir
            // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
            // LAST: the lock may be destroyed after this exchange.
            && self.tail.compare_exchange(from_ref(cx).cast_mut(), null_mut(), Ordering::Release).is_ok()
    }

    #[inline]
    unsafe fn hand_over(&self, cx: &Node<P>) {
        // SAFETY: the successor waits for the grant, and its node stays until then.
        unsafe { W::grant::<P>(&(*cx.successor()).status) };
    }
}

// SAFETY: acquires only if the queue is empty.
unsafe impl<P: Platform, W: Waiting> TryLock<P> for Mcs<P, W> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        // Relaxed: nobody else sees the node before the exchange.
        cx.next.store(null_mut(), Ordering::Relaxed);
        // ORDER(enqueue, hand-off): as for the swap in `lock`.
        self.tail.try_change(null_mut(), from_ref(cx).cast_mut(), Ordering::AcqRel)
    }
}

// SAFETY: a linked waiter is granted the lock by the next `unlock`.
unsafe impl<P: Platform, W: Waiting> DetectWaiters<P> for Mcs<P, W> {
    #[inline]
    unsafe fn has_waiters(&self, cx: &Node<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.has_heir(cx) }
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, W: Waiting> TimedLock<P> for Mcs<P, W> {}

impl<P: Platform, W: Waiting> IsHeld for Mcs<P, W> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}
