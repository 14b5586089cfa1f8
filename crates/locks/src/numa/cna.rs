//! CNA, the compact NUMA-aware lock (Dice, Kogan, EuroSys 2019, figures 2 to 4).
//!
//!   main queue:       tail -----------------------+
//!                     [A holder 0]->[C 0]->[F 0]->[G 1]
//!   secondary queue:  [B 1]->[D 1]->[E 1]          the holder knows its head, the head knows its tail
//!
//! The holder passes the lock to the first waiter of its own NUMA node; the waiters it skips move to the secondary queue,
//! which goes back in front of the main queue when no local waiter is left, or after about [`THRESHOLD`] hand-offs.
//! Fairness: long-term. Space: one pointer, plus a node per acquisition that lives until the release. Each waiter spins
//! on its own line.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::ptr::{from_ref, null_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// Mean number of hand-offs inside a node before the secondary queue gets its turn (paper, figure 4).
pub const THRESHOLD: u32 = 0xffff;

/// The waiter waits.
const WAITING: usize = 0;
/// The waiter holds the lock and there is no secondary queue. Any larger value is the address of its first node.
const GRANTED: usize = 1;

/// The node of an owner whose NUMA node nobody has needed yet: it found the lock free.
const UNKNOWN_NODE: u32 = u32::MAX;

/// The queue node of one acquisition.
#[repr(C)]
pub struct Node<P: Platform> {
    /// [`WAITING`], [`GRANTED`], or the head of the secondary queue, which also grants.
    spin: P::Usize,
    next: P::Ptr<Node<P>>,
    /// In the head of the secondary queue: its tail.
    secondary_tail: P::Ptr<Node<P>>,
    numa_node: P::U32,
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        Node {
            spin: P::Usize::new(WAITING),
            next: P::Ptr::new(null_mut()),
            secondary_tail: P::Ptr::new(null_mut()),
            numa_node: P::U32::new(UNKNOWN_NODE),
        }
    }
}

impl<P: Platform> Node<P> {
    #[cold]
    #[inline(never)]
    fn wait_behind(&self, predecessor: &Node<P>) {
        // Relaxed: published by the link.
        self.numa_node.store(P::node(), Ordering::Relaxed);
        // ORDER(link): Release pairs with the Acquire in `next`; publishes this node.
        predecessor.next.store(from_ref(self).cast_mut(), Ordering::Release);
        // ORDER(hand-off): Acquire pairs with the Release in `Cna::grant`.
        P::spin_map(|| (self.spin.load(Ordering::Acquire) != WAITING).then_some(()));
    }

    /// Waits for the successor that is about to link in.
    #[cold]
    #[inline(never)]
    fn wait_for_link(&self) {
        P::spin_map(|| (!self.next().is_null()).then_some(()));
    }

    /// Relaxed throughout: written before the node is linked, read by the holder, which has acquired the link; the field
    /// of an unlinked holder is its own.
    fn numa_node(&self) -> u32 {
        self.numa_node.load(Ordering::Relaxed)
    }

    /// ORDER(link): Acquire pairs with the Release in `wait_behind`.
    fn next(&self) -> *mut Node<P> {
        self.next.load(Ordering::Acquire)
    }

    /// The head of the secondary queue, null if there is none. Only the holder asks.
    fn secondary(&self) -> *mut Node<P> {
        // Relaxed: the value was acquired when the lock was granted, or written by this thread.
        match self.spin.load(Ordering::Relaxed) {
            GRANTED => null_mut(),
            address => core::ptr::with_exposed_provenance_mut(address),
        }
    }

    /// Appends `first..=last` to the secondary queue of the holder `self`.
    ///
    /// # Safety
    /// Both are linked waiters in this order, and nodes of the secondary queue are waiters.
    unsafe fn append_to_secondary(&self, first: *mut Node<P>, last: *mut Node<P>) {
        let head = self.secondary();
        // Relaxed throughout: the secondary queue belongs to the holder, and travels with the lock.
        // SAFETY: waiters' nodes stay until they are granted the lock.
        unsafe {
            (*last).next.store(null_mut(), Ordering::Relaxed);
            if head.is_null() {
                (*first).secondary_tail.store(last, Ordering::Relaxed);
                self.spin.store(first.expose_provenance(), Ordering::Relaxed);
            } else {
                let tail = (*head).secondary_tail.load(Ordering::Relaxed);
                (*tail).next.store(first, Ordering::Relaxed);
                (*head).secondary_tail.store(last, Ordering::Relaxed);
            }
        }
    }

    /// The first waiter behind `self` on its NUMA node, null if none is linked; the waiters skipped have been moved to
    /// the secondary queue.
    ///
    /// # Safety
    /// `self` holds the lock and has a linked successor.
    unsafe fn find_local_successor(&self) -> *mut Node<P> {
        let mut here = self.numa_node();
        if here == UNKNOWN_NODE {
            here = P::node();
        }
        let first = self.next();
        let (mut previous, mut candidate) = (null_mut::<Node<P>>(), first);
        while !candidate.is_null() {
            // SAFETY: a linked waiter's node stays until it is granted the lock.
            let node = unsafe { &*candidate };
            if node.numa_node() == here {
                if !previous.is_null() {
                    // SAFETY: `first..=previous` are linked waiters.
                    unsafe { self.append_to_secondary(first, previous) };
                }
                return candidate;
            }
            previous = candidate;
            candidate = node.next();
        }
        null_mut()
    }
}

/// The lock: one word.
#[repr(C)]
pub struct Cna<P: Platform> {
    tail: P::Ptr<Node<P>>,
}

impl<P: Platform> Cna<P> {
    /// Grants the lock to the secondary queue of a holder that ends the main queue. Returns whether it did: no if there is
    /// no secondary queue, or somebody has joined the main one.
    ///
    /// # Safety
    /// `cx` holds the lock.
    unsafe fn secondary_becomes_main(&self, cx: &Node<P>) -> bool {
        let secondary = cx.secondary();
        if secondary.is_null() {
            return false;
        }
        // SAFETY: the nodes of the secondary queue are waiters. Relaxed: the queue belongs to the holder.
        let last = unsafe { (*secondary).secondary_tail.load(Ordering::Relaxed) };
        // ORDER(enqueue): Release publishes the secondary queue's links to whoever joins behind it.
        let became = self.tail.compare_exchange(from_ref(cx).cast_mut(), last, Ordering::Release).is_ok();
        if became {
            // SAFETY: as above.
            unsafe { Self::grant(secondary, GRANTED) };
        }
        became
    }

    /// Hands the lock to `successor` with `spin`: GRANTED or the head of the secondary queue.
    ///
    /// # Safety
    /// `successor` waits.
    unsafe fn grant(successor: *mut Node<P>, spin: usize) {
        // ORDER(hand-off): Release pairs with the Acquire in `lock`; publishes the critical section and the queues.
        // LAST: the lock may be destroyed and the node reused after this store.
        // SAFETY: a waiter's node stays until it is granted the lock.
        unsafe { (*successor).spin.store(spin, Ordering::Release) };
    }
}

// SAFETY: a node becomes the holder when it finds the queue empty or when the holder before grants it; every waiter is in
// one of the two queues, and the secondary one joins the main one before the main one ends.
unsafe impl<P: Platform> RawLock<P> for Cna<P> {
    const INFO: LockInfo = LockInfo {
        id: "cna",
        family: Family::Numa,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "an MCS queue whose holder prefers waiters of its own NUMA node, in one word",
        paper: "Dice, Kogan: EuroSys 2019, fig. 2-4",
    };
    type Ctx = Node<P>;

    fn new() -> Self {
        Cna { tail: P::Ptr::new(null_mut()) }
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        let me = from_ref(cx).cast_mut();
        // Relaxed: nobody else sees the node before the swap.
        cx.next.store(null_mut(), Ordering::Relaxed);
        cx.spin.store(WAITING, Ordering::Relaxed);
        cx.numa_node.store(UNKNOWN_NODE, Ordering::Relaxed);
        // ORDER(enqueue): Release publishes the node to the successor, whose swap acquires it.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock` that left the queue empty.
        let predecessor = self.tail.swap(me, Ordering::AcqRel);
        if predecessor.is_null() {
            // Relaxed: read by the holder only.
            cx.spin.store(GRANTED, Ordering::Relaxed);
            return;
        }
        // SAFETY: the predecessor stays until it has seen its `next`.
        cx.wait_behind(unsafe { &*predecessor });
    }

    #[inline]
    unsafe fn unlock(&self, cx: &Node<P>) {
        // SAFETY: as for this call.
        unsafe {
            if !self.unlock_alone(cx) {
                self.hand_over(cx);
            }
        }
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Node<P>) -> bool {
        // Relaxed: a successor that is linked is looked at later.
        cx.next.load(Ordering::Relaxed).is_null()
            && cx.secondary().is_null()
            // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
            // LAST: the lock may be destroyed after this exchange.
            && self.tail.compare_exchange(from_ref(cx).cast_mut(), null_mut(), Ordering::Release).is_ok()
    }
}

impl<P: Platform> Cna<P> {
    /// Passes the lock on: to the first waiter of the holder's NUMA node, to the secondary queue, or to the next waiter.
    ///
    /// # Safety
    /// `cx` holds the lock, and there is a waiter in one of the queues, or one that is about to link in.
    #[cold]
    #[inline(never)]
    unsafe fn hand_over(&self, cx: &Node<P>) {
        // SAFETY: as for this call; all other nodes are waiters.
        unsafe {
            if cx.next().is_null() {
                if self.secondary_becomes_main(cx) {
                    return;
                }
                cx.wait_for_link();
            }
            let stay_local = P::choose(THRESHOLD + 1) != 0;
            let local = if stay_local { cx.find_local_successor() } else { null_mut() };
            let secondary = cx.secondary();
            if !local.is_null() {
                let spin = if secondary.is_null() { GRANTED } else { secondary.expose_provenance() };
                Self::grant(local, spin);
            } else if secondary.is_null() {
                Self::grant(cx.next(), GRANTED);
            } else {
                // Relaxed: the secondary queue belongs to the holder; the grant publishes the link.
                let last = (*secondary).secondary_tail.load(Ordering::Relaxed);
                (*last).next.store(cx.next(), Ordering::Relaxed);
                Self::grant(secondary, GRANTED);
            }
        }
    }
}

// SAFETY: acquires only if the queue is empty.
unsafe impl<P: Platform> TryLock<P> for Cna<P> {
    #[inline]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        // Relaxed: only decides whether the exchange is worth its price.
        if !self.tail.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // Relaxed: nobody else sees the node before the exchange.
        cx.next.store(null_mut(), Ordering::Relaxed);
        cx.spin.store(GRANTED, Ordering::Relaxed);
        cx.numa_node.store(UNKNOWN_NODE, Ordering::Relaxed);
        // ORDER(enqueue, hand-off): as for the swap in `lock`.
        self.tail.compare_exchange(null_mut(), from_ref(cx).cast_mut(), Ordering::AcqRel).is_ok()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform> TimedLock<P> for Cna<P> {}

impl<P: Platform> IsHeld for Cna<P> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: the answer says nothing about what the lock protects.
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}
