//! What the hierarchical MCS locks are made of: MCS queues, each with a queue node for its own place in the queue
//! above.
//!
//!   HNode of the outer group     tail ------------------+        node: this queue's place in the queue of its parent
//!                                [A's node]->[B's node]<+
//!                                 |            |
//!   HNodes of inner groups A, B   tail -+      tail ---------+   the queue nodes of threads
//!                                [T1]<--+     [T2]->[T3]<----+
//!
//! The names are those of the papers (Chabbi, Fagan, Mellor-Crummey, PPoPP 2015; Chabbi, Mellor-Crummey, PPoPP 2016).

use crate::Context;
use core::ptr::{from_ref, null_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// Status of a queue node that waits. Any other value is written by the predecessor and ends the wait.
pub(super) const WAIT: u32 = u32::MAX;
/// Status of a queue node that has become the first of its queue without the lock: its owner must acquire the parent.
pub(super) const ACQUIRE_PARENT: u32 = u32::MAX - 1;
/// Status of a queue node whose owner has acquired the parent itself, as the first of its cohort. The lock is passed
/// on inside the queue with one more each time: the status counts the acquisitions in a row. At the root it is always
/// this.
pub(super) const COHORT_START: u32 = 1;

/// The place of a thread in an [`HNode`]'s queue, or of a whole queue in that of its parent.
#[repr(C)]
pub struct QNode<P: Platform> {
    next: P::Ptr<QNode<P>>,
    /// Where the node's queue is. Belongs to the owner.
    home: P::Ptr<HNode<P>>,
    status: P::U32,
}

/// A queue, and its place in the queue of its parent. All zero is an empty queue.
#[repr(C)]
pub struct HNode<P: Platform> {
    tail: P::Ptr<QNode<P>>,
    /// Belongs to the first of the queue; unused at the root.
    node: QNode<P>,
}

impl<P: Platform> Context for QNode<P> {
    fn new() -> Self {
        QNode { next: P::Ptr::new(null_mut()), home: P::Ptr::new(null_mut()), status: P::U32::new(0) }
    }
}

impl<P: Platform> HNode<P> {
    pub(super) fn new() -> Self {
        HNode { tail: P::Ptr::new(null_mut()), node: Context::new() }
    }

    /// The queue's place in that of its parent.
    pub(super) fn node(&self) -> &QNode<P> {
        &self.node
    }

    /// Whether nobody is in the queue, or was a moment ago.
    #[inline]
    pub(super) fn looks_empty(&self) -> bool {
        // Relaxed: a hint.
        self.tail.load(Ordering::Relaxed).is_null()
    }

    /// Whether nobody is in the queue, and the last one that was has done with the lock.
    pub(super) fn is_quiet(&self) -> bool {
        // ORDER(quiet): Acquire pairs with the Release in `leave_alone`, the last access of a releasing thread.
        self.tail.load(Ordering::Acquire).is_null()
    }
}

impl<P: Platform> QNode<P> {
    /// Joins the queue of `home`, and returns the status that the predecessor grants; [`ACQUIRE_PARENT`], at once,
    /// where there is none.
    ///
    /// # Safety
    /// The node is in no queue, and the lock exists until the node has left this one.
    #[inline]
    pub(super) unsafe fn enqueue(&self, home: &HNode<P>) -> u32 {
        // Relaxed, all three: nobody else sees the node before the swap.
        self.home.store(from_ref(home).cast_mut(), Ordering::Relaxed);
        self.next.store(null_mut(), Ordering::Relaxed);
        self.status.store(WAIT, Ordering::Relaxed);
        // ORDER(enqueue): Release publishes the node to the successor, whose swap acquires it.
        // ORDER(hand-off): Acquire pairs with the Release in `leave_alone` that left the queue empty.
        let predecessor = home.tail.swap(from_ref(self).cast_mut(), Ordering::AcqRel);
        if predecessor.is_null() {
            return ACQUIRE_PARENT;
        }
        // SAFETY: its `next` is null until this node is linked.
        unsafe { self.wait_behind(predecessor) }
    }

    /// Links this node behind `predecessor`, whose memory may be gone before the wait ends, and waits for the grant.
    ///
    /// # Safety
    /// The predecessor has not seen its `next` yet.
    #[cold]
    #[inline(never)]
    unsafe fn wait_behind(&self, predecessor: *mut QNode<P>) -> u32 {
        // ORDER(link): Release pairs with the Acquire in `next`; publishes this node.
        // SAFETY: the predecessor stays until it has seen its `next`.
        unsafe { (*predecessor).next.store(from_ref(self).cast_mut(), Ordering::Release) };
        // ORDER(hand-off): Acquire pairs with the Release in `grant`.
        P::spin_map(|| Some(self.status.load(Ordering::Acquire)).filter(|status| *status != WAIT))
    }

    /// Joins the queue of `home` if it is empty, and returns whether it was.
    ///
    /// # Safety
    /// As for [`QNode::enqueue`].
    #[inline]
    pub(super) unsafe fn enqueue_alone(&self, home: &HNode<P>) -> bool {
        if !home.looks_empty() {
            return false;
        }
        // Relaxed: as in `enqueue`.
        self.home.store(from_ref(home).cast_mut(), Ordering::Relaxed);
        self.next.store(null_mut(), Ordering::Relaxed);
        // ORDER(enqueue, hand-off): as for the swap in `enqueue`.
        home.tail.compare_exchange(null_mut(), from_ref(self).cast_mut(), Ordering::AcqRel).is_ok()
    }

    /// Leaves the queue if nobody follows, and returns whether nobody did.
    ///
    /// # Safety
    /// The node is the first of its queue, and the caller is its owner.
    #[inline]
    pub(super) unsafe fn leave_alone(&self) -> bool {
        !self.has_next()
            // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section, and
            // that the node is not used any more.
            // LAST: where this is the root, the lock may be destroyed after this exchange.
            // SAFETY: the lock exists while one of its queues holds a node.
            && unsafe { self.home() }
                .tail
                .compare_exchange(from_ref(self).cast_mut(), null_mut(), Ordering::Release)
                .is_ok()
    }

    /// Leaves the queue, and grants `status` to the next in it if there is one.
    ///
    /// # Safety
    /// As for [`QNode::leave_alone`].
    #[inline]
    pub(super) unsafe fn leave(&self, status: u32) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe {
            if !self.leave_alone() {
                self.leave_to_next(status);
            }
        }
    }

    /// Leaves the queue to the next in it.
    ///
    /// # Safety
    /// As for [`QNode::leave_alone`], which has said that there is one; it has linked in or is about to.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn leave_to_next(&self, status: u32) {
        let next = P::spin_map(|| Some(self.next()).filter(|next| !next.is_null()));
        // SAFETY: the successor waits for the grant.
        unsafe { (*next).grant(status) };
    }

    /// Ends the wait of this node's owner.
    ///
    /// # Safety
    /// The node waits.
    #[inline]
    pub(super) unsafe fn grant(&self, status: u32) {
        // ORDER(hand-off): Release pairs with the Acquire in `wait_behind`; publishes the critical section.
        // LAST: the node's owner may release and destroy the lock after this store.
        self.status.store(status, Ordering::Release);
    }

    /// Whether a successor has linked in.
    #[inline]
    pub(super) fn has_next(&self) -> bool {
        // Relaxed: only asked for; who follows the link loads it again.
        !self.next.load(Ordering::Relaxed).is_null()
    }

    /// The next in the queue, null if none has linked in.
    #[inline]
    pub(super) fn next(&self) -> *mut QNode<P> {
        // ORDER(link): Acquire pairs with the Release in `wait_behind`.
        self.next.load(Ordering::Acquire)
    }

    /// The node whose queue this is in.
    ///
    /// # Safety
    /// It is in one, and the lock exists for as long as the result is used.
    #[inline]
    pub(super) unsafe fn home<'a>(&self) -> &'a HNode<P> {
        // Relaxed: written by the owner, or by one of the threads before it, which have passed on the lock since.
        // SAFETY: the caller keeps the contract of the call.
        unsafe { &*self.home.load(Ordering::Relaxed) }
    }

    /// The status of a node that waits no more.
    #[inline]
    pub(super) fn status(&self) -> u32 {
        // Relaxed: it was read with Acquire when the wait ended, or written by this thread.
        self.status.load(Ordering::Relaxed)
    }

    /// Notes that the owner has acquired the parent itself.
    #[inline]
    pub(super) fn start_cohort(&self) {
        // Relaxed: nobody else accesses the status of a node that does not wait.
        self.status.store(COHORT_START, Ordering::Relaxed);
    }
}
