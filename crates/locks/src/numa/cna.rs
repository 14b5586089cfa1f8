//! CNA, the compact NUMA-aware lock (Dice, Kogan, EuroSys 2019, figures 2 to 5).
//!
//!   main queue:       tail -----------------------+
//!                     [A holder 0]->[C 0]->[F 0]->[G 1]
//!   secondary queue:  [B 1]->[D 1]->[E 1]          the holder knows its head, the head knows its tail
//!
//! The holder passes the lock to the first waiter of its own NUMA node. The waiters that it skips move to the
//! secondary queue, which goes back in front of the main queue when no local waiter is left, or when a draw says so.
//! Fairness: long-term. Space: one pointer, plus a node per acquisition that lives until the release. Hand-off: the
//! holder writes its successor's node. Each waiter spins on its own line.
//!
//! Deviations. The holder looks where it runs as it passes the lock on; in the paper it keeps what it found as it
//! enqueued. And where the next waiter is local and nobody is in the secondary queue, it gets the lock whatever the
//! draw says: there is nobody else to prefer. The paper's figure draws first, to the same end, and pays for the draw.
//! On a machine with one NUMA node the holder does not look where waiters run.

use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::ptr::{from_ref, null_mut, with_exposed_provenance_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// The waiter waits.
const WAITING: usize = 0;
/// The waiter holds the lock and there is no secondary queue. Any larger value is the address of its head.
pub(super) const GRANTED: usize = 1;

/// The NUMA node of nobody.
const UNKNOWN: u32 = u32::MAX;

/// The queue node of one acquisition.
#[repr(C)]
pub struct Node<P: Platform> {
    /// [`WAITING`], [`GRANTED`], or the address of the head of the secondary queue, which also grants.
    spin: P::Usize,
    next: P::Ptr<Node<P>>,
    /// In the head of the secondary queue: its tail.
    secondary_tail: P::Ptr<Node<P>>,
    /// Of the owner, once it waits.
    numa_node: P::U32,
    /// Of the owner of `next`; for [`super::cna_opt`].
    next_numa_node: P::U32,
    /// For [`super::cna_opt`].
    pub(super) countdown: P::U32,
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        Node {
            spin: P::Usize::new(WAITING),
            next: P::Ptr::new(null_mut()),
            secondary_tail: P::Ptr::new(null_mut()),
            numa_node: P::U32::new(UNKNOWN),
            next_numa_node: P::U32::new(UNKNOWN),
            countdown: P::U32::new(0),
        }
    }
}

impl<P: Platform> Node<P> {
    /// Makes the node ready to be enqueued.
    #[inline(always)]
    fn prepare(&self) {
        // Relaxed: nobody else sees the node before it is enqueued.
        self.next.store(null_mut(), Ordering::Relaxed);
        self.spin.store(WAITING, Ordering::Relaxed);
    }

    /// Links this node behind `predecessor`, whose memory may be gone before the wait ends, and waits for the grant.
    ///
    /// # Safety
    /// The predecessor has not seen its `next` yet.
    #[cold]
    #[inline(never)]
    unsafe fn wait_behind(&self, predecessor: *mut Node<P>) {
        let numa_node = P::node();
        // Relaxed, here and for the predecessor's field: published by the link.
        self.numa_node.store(numa_node, Ordering::Relaxed);
        // SAFETY: the predecessor's node stays until it has seen its `next`.
        unsafe {
            (*predecessor).next_numa_node.store(numa_node, Ordering::Relaxed);
            // ORDER(link): Release pairs with the Acquire in `next`; publishes this node.
            (*predecessor).next.store(from_ref(self).cast_mut(), Ordering::Release);
        }
        // ORDER(hand-off): Acquire pairs with the Release in `grant`.
        P::spin_map(|| (self.spin.load(Ordering::Acquire) != WAITING).then_some(()));
    }

    /// The next node of the queue.
    /// ORDER(link): Acquire pairs with the Release in `wait_behind`.
    pub(super) fn next(&self) -> *mut Node<P> {
        self.next.load(Ordering::Acquire)
    }

    /// Whether a successor has linked in, or somebody is in the secondary queue.
    #[inline(always)]
    pub(super) fn has_heir(&self) -> bool {
        // Relaxed: only asked for; who follows the link loads it again.
        !self.next.load(Ordering::Relaxed).is_null() || !self.secondary().is_null()
    }

    /// The head of the secondary queue of this holder, null if there is none.
    #[inline(always)]
    pub(super) fn secondary(&self) -> *mut Node<P> {
        // Relaxed: the value was acquired when the lock was granted, or written by this thread.
        match self.spin.load(Ordering::Relaxed) {
            WAITING | GRANTED => null_mut(),
            address => with_exposed_provenance_mut(address),
        }
    }

    /// Whether this waiter runs on the NUMA node `here`.
    fn is_at(&self, here: u32) -> bool {
        // Relaxed: written before the node was linked, and the holder, who asks, has acquired the link.
        self.numa_node.load(Ordering::Relaxed) == here
    }

    /// Whether the waiter behind this node runs on the NUMA node `here`.
    pub(super) fn is_next_at(&self, here: u32) -> bool {
        // Relaxed: written before the link, and the holder, who asks, has acquired that.
        self.next_numa_node.load(Ordering::Relaxed) == here
    }

    /// Makes `next` the node behind this one, in a queue that belongs to the holder, who calls this.
    fn link_to(&self, next: *mut Node<P>, numa_node: u32) {
        // Relaxed: published with the lock.
        self.next.store(next, Ordering::Relaxed);
        self.next_numa_node.store(numa_node, Ordering::Relaxed);
    }

    /// The first waiter behind this holder on its NUMA node `here`, as far as waiters have linked in; null if there is
    /// none. Those before it have moved to the secondary queue. `is_local` tells whether a candidate, its second
    /// argument, runs on that NUMA node; its first argument is the node before.
    ///
    /// # Safety
    /// `self` holds the lock and has a linked successor.
    pub(super) unsafe fn find_successor(&self, is_local: impl Fn(&Node<P>, &Node<P>) -> bool) -> *mut Node<P> {
        let first = self.next();
        let (mut previous, mut candidate) = (from_ref(self), first);
        while !candidate.is_null() {
            // SAFETY: a linked waiter's node stays until it is granted the lock.
            unsafe {
                if is_local(&*previous, &*candidate) {
                    if candidate != first {
                        self.append_to_secondary(first, previous.cast_mut());
                    }
                    return candidate;
                }
                previous = candidate;
                candidate = (*candidate).next();
            }
        }
        null_mut()
    }

    /// Appends the waiters from `first` to `last` to the secondary queue of this holder.
    ///
    /// # Safety
    /// Both are linked waiters in this order, and nodes of the secondary queue are waiters.
    unsafe fn append_to_secondary(&self, first: *mut Node<P>, last: *mut Node<P>) {
        let head = self.secondary();
        // Relaxed, like all accesses of this function: the secondary queue belongs to the holder, and is published
        // with the lock.
        // SAFETY: waiters' nodes stay until they are granted the lock.
        unsafe {
            (*last).link_to(null_mut(), UNKNOWN);
            if head.is_null() {
                (*first).secondary_tail.store(last, Ordering::Relaxed);
                self.spin.store(first.expose_provenance(), Ordering::Relaxed);
            } else {
                let tail = (*head).secondary_tail.load(Ordering::Relaxed);
                (*tail).link_to(first, (*first).numa_node.load(Ordering::Relaxed));
                (*head).secondary_tail.store(last, Ordering::Relaxed);
            }
        }
    }

    /// Grants the lock to `successor`, together with the secondary queue of this holder.
    ///
    /// # Safety
    /// `self` holds the lock, and `successor` waits in the main queue.
    pub(super) unsafe fn grant(&self, successor: *mut Node<P>) {
        let secondary = self.secondary();
        // ORDER(hand-off): Release pairs with the Acquire in `wait_behind`; publishes the critical section and the
        // queues.
        // LAST: the lock may be destroyed, and the node reused, after this store.
        // SAFETY: a waiter's node stays until it is granted the lock.
        unsafe { (*successor).spin.store(secondary.expose_provenance().max(GRANTED), Ordering::Release) };
    }

    /// Puts the secondary queue back in front of the main one, and grants the lock to its head; to the next waiter if
    /// there is no secondary queue.
    ///
    /// # Safety
    /// `self` holds the lock, and has a linked successor.
    pub(super) unsafe fn grant_to_secondary(&self) {
        let head = self.secondary();
        // SAFETY: the caller keeps the contract of the call; nodes of both queues are waiters, whose nodes stay until
        // they are granted the lock.
        unsafe {
            if head.is_null() {
                return self.grant(self.next());
            }
            // Relaxed: the secondary queue belongs to the holder; the grant publishes the links.
            let tail = (*head).secondary_tail.load(Ordering::Relaxed);
            (*tail).link_to(self.next(), self.next_numa_node.load(Ordering::Relaxed));
            // ORDER(hand-off): Release pairs with the Acquire in `wait_behind`; publishes the critical section and the
            // links.
            // LAST: the lock may be destroyed, and the node reused, after this store.
            (*head).spin.store(GRANTED, Ordering::Release);
        }
    }
}

/// The lock: one word. One hand-off in `THRESHOLD + 1`, on average, is the secondary queue's.
#[repr(C)]
pub struct CnaLock<P: Platform, const THRESHOLD: u32> {
    tail: P::Ptr<Node<P>>,
}

/// The published threshold.
pub type Cna<P> = CnaLock<P, 0xffff>;

/// The threshold as users may choose it; locks put their default in.
pub(super) const fn threshold(default: u32) -> Parameter {
    Parameter {
        key: "threshold",
        values: Values::Number(Setting::Threshold, 1, 1_000_000_000, "hand-offs"),
        default: Default::Number(default),
        summary: "hand-offs inside a NUMA node, on average, until waiters of others get their turn",
        source: "Dice, Kogan: EuroSys 2019, fig. 5",
    }
}

impl<P: Platform, const THRESHOLD: u32> CnaLock<P, THRESHOLD> {
    /// Waits until a successor has linked in, if the secondary queue cannot become the main one. Returns whether it
    /// could: then the lock has been granted to its head.
    ///
    /// # Safety
    /// `cx` holds the lock, and either somebody is in the secondary queue, or a successor is about to link in.
    #[inline]
    pub(super) unsafe fn granted_without_successor(&self, cx: &Node<P>) -> bool {
        if !cx.next().is_null() {
            return false;
        }
        let head = cx.secondary();
        if !head.is_null() {
            // Relaxed: the secondary queue belongs to the holder.
            // SAFETY: the nodes of the secondary queue are waiters, whose nodes stay until they are granted the lock.
            let last = unsafe { (*head).secondary_tail.load(Ordering::Relaxed) };
            // ORDER(enqueue): Release publishes the secondary queue's links to whoever joins behind it.
            if self.tail.compare_exchange(from_ref(cx).cast_mut(), last, Ordering::Release).is_ok() {
                // ORDER(hand-off): Release pairs with the Acquire in `wait_behind`; publishes the critical section.
                // LAST: the lock may be destroyed, and the node reused, after this store.
                // SAFETY: the head of the secondary queue is a waiter, whose node stays until this grant.
                unsafe { (*head).spin.store(GRANTED, Ordering::Release) };
                return true;
            }
        }
        P::spin_map(|| (!cx.next().is_null()).then_some(()));
        false
    }
}

// SAFETY: a node becomes the holder when it finds the queue empty or when the holder before grants it; every waiter is
// in one of the two queues, and the secondary one joins the main one before the main one ends.
unsafe impl<P: Platform, const THRESHOLD: u32> RawLock<P> for CnaLock<P, THRESHOLD> {
    const INFO: LockInfo = LockInfo {
        id: "cna",
        family: Family::Numa,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "an MCS queue whose holder prefers waiters of its own NUMA node, in one word",
        paper: "Dice, Kogan: EuroSys 2019, fig. 2-5",
        asks: Asks::LOCALITY,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters { own: &[threshold(THRESHOLD)], inside: &[] };
    type Ctx = Node<P>;

    fn new() -> Self {
        CnaLock { tail: P::Ptr::new(null_mut()) }
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        cx.prepare();
        // ORDER(enqueue): Release publishes the node to the successor, whose swap acquires it.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_alone` that left the queue empty.
        let predecessor = self.tail.swap(from_ref(cx).cast_mut(), Ordering::AcqRel);
        if !predecessor.is_null() {
            // SAFETY: its `next` is null until this node is linked.
            unsafe { cx.wait_behind(predecessor) };
        }
    }

    #[inline]
    unsafe fn has_heir(&self, cx: &Node<P>) -> bool {
        cx.has_heir()
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Node<P>) -> bool {
        // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
        // LAST: the lock may be destroyed after this exchange.
        !cx.has_heir() && self.tail.compare_exchange(from_ref(cx).cast_mut(), null_mut(), Ordering::Release).is_ok()
    }

    #[inline]
    unsafe fn hand_over(&self, cx: &Node<P>) {
        // SAFETY: the caller keeps the contract of the call; all other nodes are waiters, whose nodes stay until they
        // are granted the lock.
        unsafe {
            if self.granted_without_successor(cx) {
                return;
            }
            let next = cx.next();
            let here = P::node();
            if cx.secondary().is_null() && (P::has_one_node() || (*next).is_at(here)) {
                return cx.grant(next);
            }
            let keeps_local = P::choose(Setting::Threshold.number::<P>(THRESHOLD) + 1) != 0;
            let local = if keeps_local { cx.find_successor(|_, waiter| waiter.is_at(here)) } else { null_mut() };
            if local.is_null() {
                cx.grant_to_secondary();
            } else {
                cx.grant(local);
            }
        }
    }
}

// SAFETY: acquires only if the queue is empty.
unsafe impl<P: Platform, const THRESHOLD: u32> TryLock<P> for CnaLock<P, THRESHOLD> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        cx.prepare();
        // ORDER(enqueue, hand-off): as for the swap in `lock`.
        self.tail.try_change(null_mut(), from_ref(cx).cast_mut(), Ordering::AcqRel)
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const THRESHOLD: u32> TimedLock<P> for CnaLock<P, THRESHOLD> {}

impl<P: Platform, const THRESHOLD: u32> IsHeld for CnaLock<P, THRESHOLD> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}
