//! RON on a linked list (Lo et al., OSDI 2023, section 9, which names it as future work: lists "to offload the runtime
//! of unlocking to the locking process").
//!
//!   arrivals -> [6] -> [2]                            a stack of threads that have come since somebody looked
//!   [4 holder] -> [5 next] -> [7] -> [0] -> [3]       waiters in TSP order, each with the TSP_ID of its CPU
//!
//! Nobody looks through an array: the waiters are a list in TSP order, and a release grants the lock to its first one.
//! The list is put in order by a thread that waits anyway, the next holder: while it waits it takes those who have
//! arrived off their stack and sorts them in behind itself. Who arrives on a CPU between the holder's and the next
//! one's waits for the next round. Space: a word, and a node for each acquisition until its release. Hand-off: the
//! holder writes the status of the next one's node. Each waiter watches its own node, the next one `arrivals`, too.
//!
//! Why nobody is lost: the thread that is next, and after its grant the holder, is the only one that touches the list.
//! It looks at `arrivals` once more when it has been granted the lock, and then tells the first of its list that it is
//! the next one. A holder without a list, because nobody waited by then, looks again when it releases the lock.
//!
//! Fairness: a thread that waits on the list lets each other thread pass at most once: one that was granted the lock
//! before it and comes back is farther away along the route (unless it has moved to a CPU between the two).
//!
//! Deviations: the paper says no more than the words above, so all of it is ours. Unlike the array locks, which serve
//! one thread of each CPU in a round, this one serves all that wait on a CPU before it goes on. Where many threads
//! wait for short critical sections the array is faster, as the paper expects (section 4.2): each arrival costs the
//! next holder the transfer of a node and of `arrivals`, which takes longer than the critical section.

use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::ptr::{from_ref, null_mut, without_provenance_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// | status  | meaning                                                 | written by            |
/// |---------|---------------------------------------------------------|-----------------------|
/// | WAITING | in `arrivals`, or on the list                           | the thread            |
/// | NEXT    | will be the next holder, and keeps the list behind it   | the holder            |
/// | GRANTED | holds the lock                                          | the holder before it  |
const WAITING: u32 = 0;
const NEXT: u32 = 1;
const GRANTED: u32 = 2;

/// The TSP_ID of a holder that found the lock free: it has not asked where it is.
const NOWHERE: u32 = u32::MAX;

/// The node of one acquisition.
#[repr(C)]
pub struct Node<P: Platform> {
    status: P::U32,
    tsp_id: P::U32,
    /// The waiter behind this one on the list, or below it in `arrivals`.
    next: P::Ptr<Node<P>>,
    /// Of the thread that keeps the list, if it has one: the last waiter on it.
    last: P::Ptr<Node<P>>,
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        Node {
            status: P::U32::new(WAITING),
            tsp_id: P::U32::new(NOWHERE),
            next: P::Ptr::new(null_mut()),
            last: P::Ptr::new(null_mut()),
        }
    }
}

// Relaxed, in all of this: `next`, `last` and `tsp_id` are published with the node, by the push, by NEXT or by the
// grant.
impl<P: Platform> Node<P> {
    /// How far it is from behind this node to `other` along the route; a thread of the same CPU is the farthest.
    fn way_to(&self, other: &Self) -> u32 {
        let [from, to] = [self, other].map(|node| node.tsp_id.load(Ordering::Relaxed));
        (to + P::ranks() - from - 1) % P::ranks()
    }

    /// Puts `new` on the list behind this node, which keeps it: behind all those that are not farther away.
    ///
    /// # Safety
    /// Both nodes, and those on the list, belong to threads that wait for this one, or to this thread.
    unsafe fn insert(&self, new: *mut Node<P>) {
        // SAFETY: the caller keeps the contract of the call.
        let at = |node: *mut Node<P>| unsafe { &*node };
        let next = |node: &Node<P>| node.next.load(Ordering::Relaxed);
        let way = self.way_to(at(new));
        let mut before = self;
        if !next(self).is_null() {
            let last = at(self.last.load(Ordering::Relaxed));
            if self.way_to(last) <= way {
                // Most often: a thread that has just released the lock comes back.
                before = last;
            }
            // Those of this CPU that are served before the lock goes on.
            let is_here = |node: &Node<P>| self.way_to(node) == P::ranks() - 1;
            while !next(before).is_null() && is_here(at(next(before))) {
                before = at(next(before));
            }
            while !next(before).is_null() && self.way_to(at(next(before))) <= way {
                before = at(next(before));
            }
        }
        at(new).next.store(next(before), Ordering::Relaxed);
        if next(before).is_null() {
            self.last.store(new, Ordering::Relaxed);
        }
        before.next.store(new, Ordering::Relaxed);
    }
}

/// The lock.
///
/// | arrivals | meaning                                                     |
/// |----------|-------------------------------------------------------------|
/// | null     | free                                                        |
/// | HELD     | held; nobody has arrived since somebody looked              |
/// | a node   | held; the thread that arrived last, above the one before it |
#[repr(C)]
pub struct RonList<P: Platform> {
    arrivals: P::Ptr<Node<P>>,
}

impl<P: Platform> RonList<P> {
    /// Never dereferenced.
    fn held() -> *mut Node<P> {
        without_provenance_mut(1)
    }

    #[inline]
    fn take_free(&self, cx: &Node<P>) -> bool {
        // Relaxed: spares an exchange that would fail. `cx` is this thread's own until it waits.
        if !self.arrivals.load(Ordering::Relaxed).is_null() {
            return false;
        }
        cx.next.store(null_mut(), Ordering::Relaxed);
        cx.tsp_id.store(NOWHERE, Ordering::Relaxed);
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_alone`.
        self.arrivals.compare_exchange(null_mut(), Self::held(), Ordering::Acquire).is_ok()
    }

    /// Pushes the node onto `arrivals`, or takes the lock if it is free by now, and returns whether it did. Each
    /// repetition means that somebody else has succeeded.
    fn push(&self, cx: &Node<P>) -> bool {
        loop {
            if self.take_free(cx) {
                return false;
            }
            // Relaxed, like the other stores to the node: the exchange publishes them.
            cx.tsp_id.store(P::rank(), Ordering::Relaxed);
            cx.status.store(WAITING, Ordering::Relaxed);
            let top = self.arrivals.load(Ordering::Relaxed);
            cx.next.store(if top == Self::held() { null_mut() } else { top }, Ordering::Relaxed);
            // ORDER(arrive): Release pairs with the Acquire in `sort_arrivals`; publishes the node.
            if !top.is_null() && self.arrivals.compare_exchange(top, from_ref(cx).cast_mut(), Ordering::Release).is_ok()
            {
                return true;
            }
        }
    }

    fn has_arrivals(&self) -> bool {
        // Relaxed: `sort_arrivals` acquires what they have published.
        self.arrivals.load(Ordering::Relaxed) != Self::held()
    }

    /// Puts those who have arrived on the list that `cx` keeps.
    fn sort_arrivals(&self, cx: &Node<P>) {
        // ORDER(arrive): Acquire pairs with the Release in `push`.
        let mut arrived = self.arrivals.swap(Self::held(), Ordering::Acquire);
        while !arrived.is_null() {
            // SAFETY: the thread waits, for no other one than this can make it the next.
            let below = unsafe { (*arrived).next.load(Ordering::Relaxed) };
            // SAFETY: `arrived` waits; `cx` is the next or the holder, so that all of its list waits for it.
            unsafe { cx.insert(arrived) };
            arrived = below;
        }
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, cx: &Node<P>) {
        if !self.push(cx) {
            return;
        }
        // Relaxed: the loop below looks again.
        P::spin_map(|| (cx.status.load(Ordering::Relaxed) != WAITING).then_some(()));
        // This thread is the next: it keeps the list, and sorts in whoever arrives while it waits.
        loop {
            let is_granted = P::spin_map(|| {
                // ORDER(next): Acquire pairs with the Release below.
                // ORDER(grant): Acquire pairs with the Release in `hand_over`.
                let is_granted = cx.status.load(Ordering::Acquire) == GRANTED;
                (is_granted || self.has_arrivals()).then_some(is_granted)
            });
            // Also after the grant, so that all who wait by now are in order.
            if self.has_arrivals() {
                self.sort_arrivals(cx);
            }
            if is_granted {
                break;
            }
        }
        // The first of the list is the next one now, and gets the rest of the list.
        let next = cx.next.load(Ordering::Relaxed);
        if !next.is_null() {
            // SAFETY: it waits for this thread.
            let next = unsafe { &*next };
            next.last.store(cx.last.load(Ordering::Relaxed), Ordering::Relaxed);
            // ORDER(next): Release pairs with the Acquire above; publishes the list.
            next.status.store(NEXT, Ordering::Release);
        }
    }
}

// SAFETY: the thread that changed `arrivals` from null is the holder, and each holder that does not change it back
// grants the lock to one waiter.
unsafe impl<P: Platform> RawLock<P> for RonList<P> {
    const INFO: LockInfo = LockInfo {
        id: "ron-list",
        family: Family::Routed,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "RON on a list: a waiter sorts those who arrive by their place on the route",
        paper: "Lo et al.: OSDI 2023, sec. 9",
        asks: Asks::ROUTE,
        ..LockInfo::PLAIN
    };
    type Ctx = Node<P>;

    fn new() -> Self {
        RonList { arrivals: P::Ptr::new(null_mut()) }
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        if !self.take_free(cx) {
            self.wait(cx);
        }
    }

    #[inline]
    unsafe fn has_heir(&self, cx: &Node<P>) -> bool {
        // Relaxed: written by the thread that acquired the lock.
        !cx.next.load(Ordering::Relaxed).is_null()
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Node<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        let has_heir = unsafe { self.has_heir(cx) };
        !has_heir
            // ORDER(hand-off): Release pairs with the Acquire in `take_free`; publishes the critical section.
            // LAST: the lock may be destroyed after this exchange.
            && self.arrivals.compare_exchange(Self::held(), null_mut(), Ordering::Release).is_ok()
    }

    #[cold]
    #[inline(never)]
    unsafe fn hand_over(&self, cx: &Node<P>) {
        // Relaxed, all of them: written by the thread that acquired the lock, or by this one.
        if cx.next.load(Ordering::Relaxed).is_null() {
            // Nobody waited when this thread became the holder, so that nobody is the next: all who wait have arrived
            // since.
            if cx.tsp_id.load(Ordering::Relaxed) == NOWHERE {
                cx.tsp_id.store(P::rank(), Ordering::Relaxed);
            }
            self.sort_arrivals(cx);
            // SAFETY: it waits for this thread.
            let next = unsafe { &*cx.next.load(Ordering::Relaxed) };
            next.last.store(cx.last.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        // SAFETY: it waits for the grant.
        let next = unsafe { &*cx.next.load(Ordering::Relaxed) };
        // ORDER(grant): Release pairs with the Acquire in `wait`; publishes the critical section, and the list.
        // LAST: the lock may be destroyed after this store.
        next.status.store(GRANTED, Ordering::Release);
    }
}

// SAFETY: acquires only if the lock is free.
unsafe impl<P: Platform> TryLock<P> for RonList<P> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        self.take_free(cx)
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform> TimedLock<P> for RonList<P> {}

impl<P: Platform> IsHeld for RonList<P> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        !self.arrivals.load(Ordering::Relaxed).is_null()
    }
}
