//! HMCS, the hierarchical MCS lock (Chabbi, Fagan, Mellor-Crummey, PPoPP 2015, section 4), with two levels.
//!
//!   root tail ----------------------------------+
//!             [node 0's, granted]->[node 1's, waits]      an MCS queue of the nodes' own queue nodes
//!              |                    |
//!   node 0: [A holder 3]->[C]->[D]  [B leader]->[E]       an MCS queue of threads for each NUMA node
//!
//! The first thread of a node's queue enqueues the node at the root. The holder passes the lock, and with it the place at
//! the root, to the next thread of its node, `THRESHOLD - 1` times in a row; then it releases the root and makes the next
//! thread of its node the leader, which enqueues the node anew. Fairness: long-term; each queue is first come, first
//! served. Space: a line per node and one for the root, outside the pthread object, plus a node per acquisition that lives
//! until the release. Each waiter spins on its own line.
//!
//! Deviation: a thread that sees nobody enqueues its own queue node at the root, as in AHMCS, the authors' later lock: four
//! atomic exchanges took 2.0 times as long as glibc's lock and unlock where nobody competes.
//!
//! A node's place at the root is used again by its next leader. That is why the root is released before the node's queue,
//! as in the paper: the next leader comes up only when nobody looks at the place any more. The price is that a releasing
//! thread touches the lock after another node may have acquired it, which `is_quiet` tells.

use super::ENTRIES;
use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::line::Line;
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::array;
use core::ptr::{from_ref, null_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// Status of a queue node.
///
/// | value    | at a NUMA node's queue                                  | at the root |
/// |----------|---------------------------------------------------------|-------------|
/// | WAITING  | waits                                                   | waits       |
/// | LEADER   | is first of its queue, and must acquire the root        | -           |
/// | 1, 2 ... | holds the lock, as so many in a row from this NUMA node | 1: granted  |
const WAITING: u32 = 0;
const LEADER: u32 = u32::MAX;
const FIRST: u32 = 1;

/// In place of an entry: in the queue at the root.
const AT_ROOT: u32 = u32::MAX;

/// The queue node of one acquisition, or of a NUMA node at the root.
#[repr(C)]
pub struct Node<P: Platform> {
    next: P::Ptr<Node<P>>,
    status: P::U32,
    /// The entry whose queue this is in, or [`AT_ROOT`]; belongs to the holder. The thread may release on another NUMA node.
    entry: P::U32,
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        Node { next: P::Ptr::new(null_mut()), status: P::U32::new(WAITING), entry: P::U32::new(0) }
    }
}

impl<P: Platform> Node<P> {
    /// Joins the queue that ends at `tail`, and returns the status that the one before grants; nothing, at once, if there
    /// is none.
    ///
    /// # Safety
    /// The node is in no queue.
    #[inline]
    unsafe fn join(&self, tail: &P::Ptr<Node<P>>) -> Option<u32> {
        // Relaxed: nobody else sees the node before the swap.
        self.next.store(null_mut(), Ordering::Relaxed);
        self.status.store(WAITING, Ordering::Relaxed);
        // ORDER(enqueue): Release publishes the node to the successor, whose swap acquires it.
        // ORDER(hand-off): Acquire pairs with the Release in `leave_alone` that left the queue empty.
        let predecessor = tail.swap(from_ref(self).cast_mut(), Ordering::AcqRel);
        if predecessor.is_null() {
            return None;
        }
        // SAFETY: its `next` is null until this node is linked.
        Some(unsafe { self.wait_behind(predecessor) })
    }

    /// Links this node behind `predecessor`, whose memory may be gone before the wait ends, and waits for the grant.
    ///
    /// # Safety
    /// The predecessor has not seen its `next` yet.
    #[cold]
    #[inline(never)]
    unsafe fn wait_behind(&self, predecessor: *mut Node<P>) -> u32 {
        // ORDER(link): Release pairs with the Acquire in `next`; publishes this node.
        // SAFETY: the predecessor stays until it has seen its `next`.
        unsafe { (*predecessor).next.store(from_ref(self).cast_mut(), Ordering::Release) };
        // ORDER(hand-off): Acquire pairs with the Release in `grant`.
        P::spin_map(|| Some(self.status.load(Ordering::Acquire)).filter(|status| *status != WAITING))
    }

    /// Joins the queue if it is empty.
    ///
    /// # Safety
    /// The node is in no queue.
    unsafe fn try_join(&self, tail: &P::Ptr<Node<P>>) -> bool {
        // Relaxed: only decides whether the exchange is worth its price.
        if !tail.load(Ordering::Relaxed).is_null() {
            return false;
        }
        // Relaxed: nobody else sees the node before the exchange. It is a place at the root only if its NUMA node's queue
        // was empty, so that nobody else uses it.
        self.next.store(null_mut(), Ordering::Relaxed);
        // ORDER(enqueue, hand-off): as for the swap in `join`.
        tail.compare_exchange(null_mut(), from_ref(self).cast_mut(), Ordering::AcqRel).is_ok()
    }

    /// ORDER(link): Acquire pairs with the Release in `wait_behind`.
    fn next(&self) -> *mut Node<P> {
        self.next.load(Ordering::Acquire)
    }

    /// Leaves the queue that ends at `tail` if nobody follows, and returns whether it did.
    ///
    /// # Safety
    /// The node is the first of the queue.
    #[inline]
    unsafe fn leave_alone(&self, tail: &P::Ptr<Node<P>>) -> bool {
        // Relaxed: a successor that is linked is looked at later.
        self.next.load(Ordering::Relaxed).is_null()
            // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section, and that
            // the node is not used any more.
            // LAST: where this is the root, the lock may be destroyed after this exchange.
            && tail.compare_exchange(from_ref(self).cast_mut(), null_mut(), Ordering::Release).is_ok()
    }

    /// The successor, which has linked in or is about to.
    #[cold]
    #[inline(never)]
    fn successor(&self) -> *mut Node<P> {
        P::spin_map(|| Some(self.next()).filter(|next| !next.is_null()))
    }

    /// Leaves the queue that ends at `tail`: grants `status` to the next, and returns whether there is one.
    ///
    /// # Safety
    /// The node is the first of the queue, and nobody else moves it on.
    #[inline]
    unsafe fn pass_or_leave(&self, tail: &P::Ptr<Node<P>>, status: u32) -> bool {
        // SAFETY: as for this call; the successor waits for the grant.
        unsafe {
            if self.leave_alone(tail) {
                return false;
            }
            Self::grant(self.successor(), status);
        }
        true
    }

    /// # Safety
    /// `waiter` waits.
    unsafe fn grant(waiter: *mut Node<P>, status: u32) {
        // ORDER(hand-off): Release pairs with the Acquire in `wait_behind`; publishes the critical section.
        // SAFETY: a waiter's node stays until it is granted its turn.
        unsafe { (*waiter).status.store(status, Ordering::Release) };
    }

    /// Whether the acquisition went straight to the root.
    pub(super) fn is_at_root(&self) -> bool {
        // Relaxed: the field belongs to the acquisition.
        self.entry.load(Ordering::Relaxed) == AT_ROOT
    }

    /// Whether at least two wait behind the node, as far as they have linked in.
    ///
    /// # Safety
    /// The node is the first of its queue.
    pub(super) unsafe fn is_crowded(&self) -> bool {
        let next = self.next();
        // SAFETY: a waiter's node stays until it is granted its turn.
        !next.is_null() && unsafe { !(*next).next().is_null() }
    }
}

/// What a NUMA node has.
#[repr(C)]
struct Entry<P: Platform> {
    tail: P::Ptr<Node<P>>,
    /// The place at the root; belongs to the first of the queue.
    place: Node<P>,
}

/// The lock; a NUMA node keeps it for at most `THRESHOLD` acquisitions in a row.
#[repr(C)]
pub struct HmcsLock<P: Platform, const THRESHOLD: u32> {
    root: Line<P::Ptr<Node<P>>>,
    entries: [Line<Entry<P>>; ENTRIES],
}

/// The threshold of the study (Guiroux, Lachaize, Quéma, ATC 2016).
pub type Hmcs<P> = HmcsLock<P, 100>;

/// Who an acquisition has waited for, or left the lock to.
#[derive(Clone, Copy)]
pub(super) struct Company {
    /// Somebody of its own NUMA node.
    pub(super) at_node: bool,
    /// Somebody else.
    pub(super) at_root: bool,
}

/// The two ways to the lock, for those who choose: through the queue of the NUMA node, and straight to the root.
impl<P: Platform, const THRESHOLD: u32> HmcsLock<P, THRESHOLD> {
    fn entry(&self, index: u32) -> &Entry<P> {
        &self.entries[index as usize % ENTRIES].0
    }

    /// Whether this thread would be alone on both ways.
    #[inline]
    pub(super) fn looks_empty(&self) -> bool {
        // Relaxed: a hint.
        self.root.0.load(Ordering::Relaxed).is_null() && self.entry(P::node()).tail.load(Ordering::Relaxed).is_null()
    }

    /// # Safety
    /// As for `lock`.
    #[inline]
    pub(super) unsafe fn lock_at_node(&self, cx: &Node<P>) -> Company {
        let index = P::node();
        let entry = self.entry(index);
        // Relaxed here and for `status`: the field belongs to this acquisition.
        cx.entry.store(index, Ordering::Relaxed);
        let mut company = Company { at_node: false, at_root: false };
        // SAFETY: as for this call; the place at the root belongs to the leader.
        unsafe {
            let granted = cx.join(&entry.tail);
            company.at_node = granted.is_some();
            if granted.is_none_or(|status| status == LEADER) {
                company.at_root = entry.place.join(&self.root.0).is_some();
                cx.status.store(FIRST, Ordering::Relaxed);
            }
        }
        company
    }

    /// # Safety
    /// The lock is held through `cx` since [`HmcsLock::lock_at_node`].
    #[inline]
    pub(super) unsafe fn unlock_at_node(&self, cx: &Node<P>) -> Company {
        // Relaxed throughout: written by this acquisition, or by the one that granted it.
        let entry = self.entry(cx.entry.load(Ordering::Relaxed));
        let in_a_row = cx.status.load(Ordering::Relaxed);
        let next = cx.next();
        // SAFETY: as for this call; the next one waits, and the place at the root belongs to the holder.
        unsafe {
            if in_a_row < THRESHOLD && !next.is_null() {
                // LAST: the lock may be destroyed when the waiter has acquired.
                Node::grant(next, in_a_row + 1);
                return Company { at_node: true, at_root: false };
            }
            let at_root = entry.place.pass_or_leave(&self.root.0, FIRST);
            // The lock may be acquired by others now, but is not quiet: `entry.tail` is not null.
            Company { at_root, at_node: cx.pass_or_leave(&entry.tail, LEADER) }
        }
    }

    /// # Safety
    /// As for `lock`.
    #[inline]
    pub(super) unsafe fn lock_at_root(&self, cx: &Node<P>) {
        // Relaxed: as in `lock_at_node`.
        cx.entry.store(AT_ROOT, Ordering::Relaxed);
        // SAFETY: as for this call.
        unsafe { cx.join(&self.root.0) };
    }

    /// # Safety
    /// As for `try_lock`.
    #[inline]
    pub(super) unsafe fn try_lock_at_root(&self, cx: &Node<P>) -> bool {
        // Relaxed: as in `lock_at_node`.
        cx.entry.store(AT_ROOT, Ordering::Relaxed);
        // SAFETY: as for this call.
        unsafe { cx.try_join(&self.root.0) }
    }

    /// # Safety
    /// As for [`HmcsLock::unlock_at_root`]; on `false` the lock is still held.
    #[inline]
    pub(super) unsafe fn unlock_alone_at_root(&self, cx: &Node<P>) -> bool {
        // SAFETY: as for this call.
        unsafe { cx.leave_alone(&self.root.0) }
    }

    /// # Safety
    /// The lock is held through `cx` since [`HmcsLock::lock_at_root`] or [`HmcsLock::try_lock_at_root`].
    #[inline]
    pub(super) unsafe fn unlock_at_root(&self, cx: &Node<P>) {
        // LAST: the lock may be destroyed after this.
        // SAFETY: as for this call.
        unsafe { cx.pass_or_leave(&self.root.0, FIRST) };
    }
}

// SAFETY: the holder is first at the root itself, or first of the queue of a NUMA node that is.
unsafe impl<P: Platform, const THRESHOLD: u32> RawLock<P> for HmcsLock<P, THRESHOLD> {
    const INFO: LockInfo = LockInfo {
        id: "hmcs",
        family: Family::Numa,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "an MCS queue per NUMA node below an MCS queue of the nodes",
        paper: "Chabbi, Fagan, Mellor-Crummey: PPoPP 2015, sec. 4",
        asks: Asks::LOCALITY,
        ..LockInfo::PLAIN
    };
    type Ctx = Node<P>;

    fn new() -> Self {
        HmcsLock {
            root: Line(P::Ptr::new(null_mut())),
            entries: array::from_fn(|_| Line(Entry { tail: P::Ptr::new(null_mut()), place: Node::new() })),
        }
    }

    fn is_quiet(&self) -> bool {
        // ORDER(quiet): Acquire pairs with the Release in `leave_alone`, the last access of a releasing thread.
        self.entries.iter().all(|entry| entry.0.tail.load(Ordering::Acquire).is_null())
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        // SAFETY: as for this call.
        unsafe {
            if self.looks_empty() {
                self.lock_at_root(cx);
            } else {
                self.lock_at_node(cx);
            }
        }
    }

    #[inline]
    unsafe fn unlock(&self, cx: &Node<P>) {
        // SAFETY: as for this call.
        unsafe {
            if cx.is_at_root() {
                self.unlock_at_root(cx);
            } else {
                self.unlock_at_node(cx);
            }
        }
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Node<P>) -> bool {
        // SAFETY: as for this call.
        cx.is_at_root() && unsafe { self.unlock_alone_at_root(cx) }
    }
}

// SAFETY: acquires if the queue at the root is empty, as it is where nobody holds, acquires or releases the lock.
unsafe impl<P: Platform, const THRESHOLD: u32> TryLock<P> for HmcsLock<P, THRESHOLD> {
    #[inline]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        // SAFETY: as for this call.
        unsafe { self.try_lock_at_root(cx) }
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const THRESHOLD: u32> TimedLock<P> for HmcsLock<P, THRESHOLD> {}

impl<P: Platform, const THRESHOLD: u32> IsHeld for HmcsLock<P, THRESHOLD> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: the answer says nothing about what the lock protects.
        !self.root.0.load(Ordering::Relaxed).is_null()
    }
}
