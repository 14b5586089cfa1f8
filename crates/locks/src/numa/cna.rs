//! CNA, the compact NUMA-aware lock (Dice, Kogan, EuroSys 2019, figures 2 to 4), and its optimised form (section 6).
//!
//!   main queue:       tail -----------------------+
//!                     [A holder 0]->[C 0]->[F 0]->[G 1]
//!   secondary queue:  [B 1]->[D 1]->[E 1]          the holder knows its head, the head knows its tail
//!
//! The holder passes the lock to the first waiter of its own NUMA node; the waiters it skips move to the secondary queue,
//! which goes back in front of the main queue when no local waiter is left, or after many hand-offs.
//! Fairness: long-term. Space: one pointer, plus a node per acquisition that lives until the release. Each waiter spins
//! on its own line.
//!
//! The optimised form differs in three things. A link carries the NUMA node of the waiter that it points at in its low bits,
//! so that the holder does not fetch the line of a waiter that it skips or grants only to know where it runs. While there
//! is no secondary queue, most hand-offs go to the next waiter, whoever it is. And a countdown, drawn at random, stands
//! for a random number at each hand-off; it is passed on with the lock (in the paper it is the thread's).

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use core::ptr::{from_ref, null_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// A form of the lock.
pub trait Form: Send + Sync + 'static {
    /// The id of the lock.
    const ID: &'static str;
    /// What sets it apart.
    const SUMMARY: &'static str;
    /// Hand-offs before the secondary queue gets its turn: their mean, or twice that for a countdown.
    const THRESHOLD: u32;
    /// Whether the form is the optimised one.
    const OPTIMISED: bool;
    /// While there is no secondary queue, one hand-off in so many looks for a local waiter (the optimised form only).
    const SHUFFLE_ONE_IN: u32;
}

/// The lock as in the paper's figures.
pub struct Plain;

impl Form for Plain {
    const ID: &'static str = "cna";
    const SUMMARY: &'static str = "an MCS queue whose holder prefers waiters of its own NUMA node, in one word";
    const THRESHOLD: u32 = 0xffff;
    const OPTIMISED: bool = false;
    const SHUFFLE_ONE_IN: u32 = 1;
}

/// The lock with the optimisations of section 6. How often it looks for a local waiter is as in its authors' Linux patches.
pub struct Optimised;

impl Form for Optimised {
    const ID: &'static str = "cna-opt";
    const SUMMARY: &'static str = "CNA that leaves the queue alone under light contention and looks at fewer lines";
    const THRESHOLD: u32 = 0xffff;
    const OPTIMISED: bool = true;
    const SHUFFLE_ONE_IN: u32 = 128;
}

/// The waiter waits.
const WAITING: usize = 0;
/// The waiter holds the lock and there is no secondary queue. Any larger value is the address of its first node.
const GRANTED: usize = 1;

/// The node of an owner whose NUMA node nobody has needed yet: it found the lock free.
const UNKNOWN_NODE: u32 = u32::MAX;

/// A countdown that has run out, or has not begun.
const DRAW_ANEW: u32 = 0;

/// Bits of a link that hold the NUMA node, modulo 8, of the waiter that it points at; a node's address has them clear.
const NODE_BITS: usize = 7;

/// The queue node of one acquisition.
#[repr(C, align(8))]
pub struct Node<P: Platform> {
    /// [`WAITING`], [`GRANTED`], or the head of the secondary queue, which also grants.
    spin: P::Usize,
    /// A link: with the NUMA node in its low bits in the optimised form.
    next: P::Ptr<Node<P>>,
    /// In the head of the secondary queue: its tail.
    secondary_tail: P::Ptr<Node<P>>,
    numa_node: P::U32,
    /// Optimised form: hand-offs until the secondary queue gets its turn, or [`DRAW_ANEW`]. Belongs to the holder.
    countdown: P::U32,
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        Node {
            spin: P::Usize::new(WAITING),
            next: P::Ptr::new(null_mut()),
            secondary_tail: P::Ptr::new(null_mut()),
            numa_node: P::U32::new(UNKNOWN_NODE),
            countdown: P::U32::new(DRAW_ANEW),
        }
    }
}

/// The waiter that a link points at.
fn follow<P: Platform>(link: *mut Node<P>) -> *mut Node<P> {
    link.map_addr(|address| address & !NODE_BITS)
}

impl<P: Platform> Node<P> {
    /// Makes the node ready to be enqueued with `spin`: [`WAITING`], or [`GRANTED`] if it can only find the queue empty.
    #[inline(always)]
    fn prepare<F: Form>(&self, spin: usize) {
        // Relaxed: nobody else sees the node before it is enqueued.
        self.next.store(null_mut(), Ordering::Relaxed);
        self.spin.store(spin, Ordering::Relaxed);
        self.numa_node.store(UNKNOWN_NODE, Ordering::Relaxed);
        if F::OPTIMISED {
            self.countdown.store(DRAW_ANEW, Ordering::Relaxed);
        }
    }

    /// Links this node behind `predecessor`, whose memory may be gone before the wait ends, and waits for the grant.
    ///
    /// # Safety
    /// The predecessor has not seen its `next` yet.
    #[cold]
    #[inline(never)]
    unsafe fn wait_behind<F: Form>(&self, predecessor: *mut Node<P>) {
        let numa_node = P::node();
        // Relaxed: published by the link.
        self.numa_node.store(numa_node, Ordering::Relaxed);
        let mut link = from_ref(self).cast_mut();
        if F::OPTIMISED {
            link = link.map_addr(|address| address | numa_node as usize & NODE_BITS);
        }
        // ORDER(link): Release pairs with the Acquire in `next`; publishes this node.
        // SAFETY: the predecessor stays until it has seen its `next`.
        unsafe { (*predecessor).next.store(link, Ordering::Release) };
        // ORDER(hand-off): Acquire pairs with the Release in `Cna::grant`.
        P::spin_map(|| (self.spin.load(Ordering::Acquire) != WAITING).then_some(()));
    }

    /// Waits for the successor that is about to link in.
    #[cold]
    #[inline(never)]
    fn wait_for_link(&self) {
        P::spin_map(|| (!self.next().is_null()).then_some(()));
    }

    /// The NUMA node of the holder `self`.
    fn here(&self) -> u32 {
        // Relaxed: the field of a holder is its own.
        match self.numa_node.load(Ordering::Relaxed) {
            UNKNOWN_NODE => P::node(),
            known => known,
        }
    }

    /// Whether the waiter that `link` points at runs on the NUMA node `here`.
    ///
    /// # Safety
    /// It is a linked waiter.
    unsafe fn is_at<F: Form>(link: *mut Node<P>, here: u32) -> bool {
        if F::OPTIMISED {
            link.addr() & NODE_BITS == here as usize & NODE_BITS
        } else {
            // Relaxed: written before the node was linked; this thread, the holder, has acquired the link.
            // SAFETY: a linked waiter's node stays until it is granted the lock.
            unsafe { (*link).numa_node.load(Ordering::Relaxed) == here }
        }
    }

    /// The link to the next node.
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

    /// Appends the waiters from the link `first` to `last` to the secondary queue of the holder `self`.
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
                (*follow(first)).secondary_tail.store(last, Ordering::Relaxed);
                self.spin.store(follow(first).expose_provenance(), Ordering::Relaxed);
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
    unsafe fn find_local_successor<F: Form>(&self) -> *mut Node<P> {
        let here = self.here();
        let first = self.next();
        let (mut previous, mut link) = (null_mut::<Node<P>>(), first);
        while !link.is_null() {
            let candidate = follow(link);
            // SAFETY: a linked waiter's node stays until it is granted the lock; `first` to `previous` are such.
            unsafe {
                if Self::is_at::<F>(link, here) {
                    if !previous.is_null() {
                        self.append_to_secondary(first, previous);
                    }
                    return candidate;
                }
                previous = candidate;
                link = (*candidate).next();
            }
        }
        null_mut()
    }

    /// Counts a hand-off of the holder `self`: how many are left until the secondary queue gets its turn.
    fn count_down<F: Form>(&self) -> u32 {
        if !F::OPTIMISED {
            return P::choose(F::THRESHOLD + 1);
        }
        // Relaxed: acquired with the lock, or written by this thread.
        match self.countdown.load(Ordering::Relaxed) {
            DRAW_ANEW => P::choose(F::THRESHOLD),
            left => left - 1,
        }
    }
}

/// The lock: one word.
#[repr(C)]
pub struct CnaLock<P: Platform, F> {
    tail: P::Ptr<Node<P>>,
    form: PhantomData<F>,
}

/// The lock as in the paper's figures.
pub type Cna<P> = CnaLock<P, Plain>;
/// The optimised form.
pub type CnaOpt<P> = CnaLock<P, Optimised>;

impl<P: Platform, F: Form> CnaLock<P, F> {
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
            unsafe { Self::grant(secondary, GRANTED, DRAW_ANEW) };
        }
        became
    }

    /// Hands the lock to `successor` with `spin`: GRANTED or the head of the secondary queue. The secondary queue gets its
    /// turn after `left` more hand-offs.
    ///
    /// # Safety
    /// `successor` waits.
    unsafe fn grant(successor: *mut Node<P>, spin: usize, left: u32) {
        // SAFETY: a waiter's node stays until it is granted the lock.
        let successor = unsafe { &*successor };
        if F::OPTIMISED {
            // Relaxed: published by the hand-off.
            successor.countdown.store(left, Ordering::Relaxed);
        }
        // ORDER(hand-off): Release pairs with the Acquire in `lock`; publishes the critical section and the queues.
        // LAST: the lock may be destroyed and the node reused after this store.
        successor.spin.store(spin, Ordering::Release);
    }
}

// SAFETY: a node becomes the holder when it finds the queue empty or when the holder before grants it; every waiter is in
// one of the two queues, and the secondary one joins the main one before the main one ends.
unsafe impl<P: Platform, F: Form> RawLock<P> for CnaLock<P, F> {
    const INFO: LockInfo = LockInfo {
        id: F::ID,
        family: Family::Numa,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: F::SUMMARY,
        paper: if F::OPTIMISED { "Dice, Kogan: EuroSys 2019, sec. 6" } else { "Dice, Kogan: EuroSys 2019, fig. 2-4" },
    };
    type Ctx = Node<P>;

    fn new() -> Self {
        CnaLock { tail: P::Ptr::new(null_mut()), form: PhantomData }
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        let me = from_ref(cx).cast_mut();
        cx.prepare::<F>(WAITING);
        // ORDER(enqueue): Release publishes the node to the successor, whose swap acquires it.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock` that left the queue empty.
        let predecessor = self.tail.swap(me, Ordering::AcqRel);
        if predecessor.is_null() {
            // Relaxed: read by the holder only.
            cx.spin.store(GRANTED, Ordering::Relaxed);
            return;
        }
        // SAFETY: its `next` is null until this node is linked.
        unsafe { cx.wait_behind::<F>(predecessor) };
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

impl<P: Platform, F: Form> CnaLock<P, F> {
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
            let left = cx.count_down::<F>();
            let next = follow(cx.next());
            if !left.is_multiple_of(F::SHUFFLE_ONE_IN) && cx.secondary().is_null() {
                return Self::grant(next, GRANTED, left);
            }
            let local = if left != 0 { cx.find_local_successor::<F>() } else { null_mut() };
            let secondary = cx.secondary();
            if !local.is_null() {
                let spin = if secondary.is_null() { GRANTED } else { secondary.expose_provenance() };
                Self::grant(local, spin, left);
            } else if secondary.is_null() {
                Self::grant(next, GRANTED, left);
            } else {
                // Relaxed: the secondary queue belongs to the holder; the grant publishes the link.
                let last = (*secondary).secondary_tail.load(Ordering::Relaxed);
                (*last).next.store(cx.next(), Ordering::Relaxed);
                Self::grant(secondary, GRANTED, left);
            }
        }
    }
}

// SAFETY: acquires only if the queue is empty.
unsafe impl<P: Platform, F: Form> TryLock<P> for CnaLock<P, F> {
    #[inline]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        // Relaxed: only decides whether the exchange is worth its price.
        if !self.tail.load(Ordering::Relaxed).is_null() {
            return false;
        }
        cx.prepare::<F>(GRANTED);
        // ORDER(enqueue, hand-off): as for the swap in `lock`.
        self.tail.compare_exchange(null_mut(), from_ref(cx).cast_mut(), Ordering::AcqRel).is_ok()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, F: Form> TimedLock<P> for CnaLock<P, F> {}

impl<P: Platform, F> IsHeld for CnaLock<P, F> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: the answer says nothing about what the lock protects.
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}
