//! The queue nodes of waiters: one for each CPU, since a CPU waits for one lock at a time.
//!
//! In the kernel a CPU has four nodes, because an interrupt may come while it waits, and another one during that: the
//! lock word says which of them it is (its nesting level). Virtual threads are not interrupted, so that the level is 0
//! here.

use super::Kernel;
use crate::word::{Memory, Word};
use lockswap_platform::{AtomicInt, Ordering};

/// A node in four bytes, as a lock word has it: the number of the CPU plus 1 in the upper 14 bits, then 2 bits of its
/// nesting level. 0 is no node. The kernel has pointers where nodes name nodes.
pub type Code = u32;

/// How far up in a code the CPU's number is.
const CPU_SHIFT: u32 = 18;

/// CPUs that a code can tell apart.
pub const MOST_CPUS: usize = (1 << (32 - CPU_SHIFT)) - 1;

/// What a waiter's `turn` is as long as others stand before it.
const NOT_YET: u32 = 0;

/// What `turn` is for the head of the queue if the order has nothing to tell it. All codes are larger.
pub const HEAD: u32 = 1;

/// The node of a CPU. The order of the waiters decides what the fields behind the first two are for.
#[repr(C, align(128))]
pub struct Node<M: Memory> {
    /// Who is next in the queue.
    next: Word<u32, M>,
    /// [`NOT_YET`], or the owner is the head of the queue: [`HEAD`], or a code that it needs then.
    turn: Word<u32, M>,
    /// Where the owner is: its NUMA node, or its place on the route.
    pub(super) place: Word<u32, M>,
    /// A moment.
    pub(super) since: Word<u32, M>,
    /// CNA: whether the second queue is next. ShflLock: whether the owner is in the group of a waiter before it.
    pub(super) mark: Word<u32, M>,
    /// ShflLock: whether the owner is the shuffler.
    pub(super) shuffles: Word<u32, M>,
    /// ShflLock: the waiter up to which the shuffler has walked.
    pub(super) seen: Word<u32, M>,
}

impl<M: Memory> Node<M> {
    /// A node that nobody uses.
    #[allow(clippy::new_without_default)]
    pub const fn new() -> Self {
        let [next, turn, place, since, mark, shuffles, seen] = [const { Word::holding(0) }; 7];
        Node { next, turn, place, since, mark, shuffles, seen }
    }

    /// Makes the node ready to be queued.
    pub(super) fn prepare(&self) {
        // Relaxed: nobody else sees the node before it is queued.
        self.next.store(0, Ordering::Relaxed);
        self.turn.store(NOT_YET, Ordering::Relaxed);
    }

    /// The next waiter, 0 if none has linked itself.
    /// ORDER(link): Acquire pairs with the Release in `link_to`.
    pub(super) fn next(&self) -> Code {
        self.next.load(Ordering::Acquire)
    }

    /// Makes `next` the waiter behind this one.
    /// ORDER(link): Release publishes the node of a newcomer to who follows the link.
    pub(super) fn link_to(&self, next: Code) {
        self.next.store(next, Ordering::Release);
    }

    /// Whether the owner has become the head of the queue.
    /// ORDER(turn): Acquire pairs with the Release in `call`.
    pub(super) fn is_head(&self) -> bool {
        self.turn.load(Ordering::Acquire) != NOT_YET
    }

    /// What the owner, the head of the queue, was told; nothing if that is [`HEAD`], or if the queue was empty before
    /// it.
    pub(super) fn told(&self) -> Option<Code> {
        // Relaxed: acquired with the turn, or written by this thread.
        Some(self.turn.load(Ordering::Relaxed)).filter(|turn| *turn > HEAD)
    }

    /// The head keeps this for who is head next.
    pub(super) fn tell(&self, what: u32) {
        // Relaxed: the next head is told by `call`.
        self.turn.store(what, Ordering::Relaxed);
    }

    /// Makes the owner the head of the queue, and tells it `what`.
    /// ORDER(turn): Release publishes what was done to the queue; pairs with the Acquire in `is_head`.
    pub(super) fn call(&self, what: u32) {
        self.turn.store(what, Ordering::Release);
    }

    /// Where the owner is.
    pub(super) fn place(&self) -> u32 {
        // Relaxed: written before the node was linked, and who asks has followed the link or owns the node.
        self.place.load(Ordering::Relaxed)
    }
}

/// The code of the node of this CPU.
pub(super) fn mine<P: Kernel>() -> Code {
    (P::cpu() + 1) << CPU_SHIFT
}

/// The node that `code`, which is not 0, names.
pub(super) fn at<P: Kernel>(code: Code) -> &'static Node<P::Memory> {
    &P::nodes()[(code >> CPU_SHIFT) as usize - 1]
}
