//! The queued spinlock of the Linux kernel: a lock word of four bytes, and an MCS queue of CPUs behind it.
//!
//!   bits   31 .. 18   17 16   15 .. 8   7 .. 0
//!          CPU + 1    level   pending   locked      the upper half is the code of the last node in the queue
//!
//! The first waiter takes no node: it sets the pending bit and waits for the holder to go. Those that come next queue,
//! and the head of the queue waits until the word has neither a holder nor somebody pending. It leaves the queue as
//! soon as it has the lock: a release is a store of one byte, and no node is in use inside. A release does not choose
//! who is next; an [`Order`] lets the head of the queue, or its waiters, put the queue into order while they wait.
//!
//! Fairness: first come, first served, from the moment at which a waiter is pending or queued. Space: four bytes, and
//! a node for each CPU. Hand-off: the release writes the word; the head of the queue writes the next head's node.

use super::node::{at, mine, Code, Node, HEAD};
use super::Kernel;
use crate::word::Word;
use lockswap_locks::info::{Fairness, Family, LockInfo};
use lockswap_locks::parameters::Parameters;
use lockswap_locks::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering};
use std::marker::PhantomData;

/// Somebody holds the lock.
const LOCKED: u32 = 1;
/// Somebody is first without being in the queue.
const PENDING: u32 = 1 << 8;
/// All bits of both.
const LOCKED_PENDING: u32 = 0xffff;
/// The code of the last node.
const TAIL: u32 = !LOCKED_PENDING;

/// How often a newcomer looks whether the one that is pending becomes the holder; as on x86.
const PENDING_LOOKS: u32 = 1 << 9;

/// Who of the waiters is next.
pub trait Order<P: Kernel>: Send + Sync + 'static {
    /// What is known about the lock with this order.
    const INFO: LockInfo;
    /// What users may choose.
    const PARAMETERS: Parameters = Parameters::NONE;

    /// Writes what others will want to know of a waiter into its node, before it is queued.
    fn prepare(node: &Node<P::Memory>) {
        let _ = node;
    }

    /// Waits until the owner of the node is the head of the queue.
    fn wait_for_turn(node: &Node<P::Memory>) {
        P::spin_map(|| node.is_head().then_some(()));
    }

    /// What the head of the queue does while it waits for the lock; `me` is its node. May end at any time.
    fn attend(word: &LockWord<P>, me: Code) {
        let _ = (word, me);
    }

    /// Takes the lock, which is free, for the head of the queue, whose node is the last one, and leaves the queue.
    /// `seen` is what the word was. False: that has changed.
    fn leave_as_last(word: &LockWord<P>, seen: u32, node: &Node<P::Memory>) -> bool {
        let _ = node;
        word.leave_to(seen, 0, Ordering::Relaxed)
    }

    /// Calls the next head of the queue. The caller was the head and has the lock, and its `next` is there.
    fn pass(node: &Node<P::Memory>) {
        at::<P>(node.next()).call(HEAD);
    }
}

/// The word of a lock, for an [`Order`].
pub struct LockWord<P: Kernel>(Word<u32, P::Memory>);

impl<P: Kernel> LockWord<P> {
    /// Whether the head of the queue may take the lock.
    pub(super) fn is_free(&self) -> bool {
        // Relaxed: only decides when to stop; who takes the lock looks again.
        self.0.load(Ordering::Relaxed) & LOCKED_PENDING == 0
    }

    /// Takes the lock, and makes `last` the last node, if the word still is as it was `seen`.
    pub(super) fn leave_to(&self, seen: u32, last: Code, order: Ordering) -> bool {
        self.0.compare_exchange(seen, last | LOCKED, order).is_ok()
    }

    /// Takes the lock if nobody has it or waits for it; what the word was else.
    fn take(&self) -> Result<(), u32> {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.0.compare_exchange(0, LOCKED, Ordering::Acquire).map(drop)
    }

    /// Takes the lock without a node, as the first waiter. False: others wait.
    fn take_pending(&self, mut seen: u32) -> bool {
        if seen == PENDING {
            // The holder has gone, and the one that is pending is about to follow.
            // Relaxed: only decides whether to queue.
            let look = || Some(self.0.load(Ordering::Relaxed)).filter(|seen| *seen != PENDING);
            seen = P::spin_map_bounded(PENDING_LOOKS, look).unwrap_or(PENDING);
        }
        if seen & !LOCKED != 0 {
            return false;
        }
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`, if that has been.
        let seen = self.0.fetch_or(PENDING, Ordering::Acquire);
        if seen & !LOCKED != 0 {
            if seen & PENDING == 0 {
                // Others were faster to queue.
                // Relaxed: nothing was done under it.
                self.0.fetch_and(!PENDING, Ordering::Relaxed);
            }
            return false;
        }
        if seen & LOCKED != 0 {
            // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
            P::spin_map(|| (self.0.load(Ordering::Acquire) & LOCKED == 0).then_some(()));
        }
        // No longer pending, but the holder; only the upper half may change meanwhile. As Relaxed: all was acquired
        // above.
        self.0.store_half(LOCKED as u16);
        true
    }

    /// Queues, and takes the lock as the head of the queue.
    fn queue<O: Order<P>>(&self) {
        let me = mine::<P>();
        let node = at::<P>(me);
        node.prepare();
        O::prepare(node);
        // The lock may be free by now.
        if self.take().is_ok() {
            return;
        }
        // ORDER(link): as AcqRel: publishes the node to the one that comes next, and acquires that of the one before.
        let before = self.0.swap_upper((me >> 16) as u16) & TAIL;
        if before != 0 {
            at::<P>(before).link_to(me);
            O::wait_for_turn(node);
        }
        O::attend(self, me);
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        let seen = P::spin_map(|| Some(self.0.load(Ordering::Acquire)).filter(|seen| seen & LOCKED_PENDING == 0));
        if seen == me && O::leave_as_last(self, seen, node) {
            return;
        }
        // Nobody else takes it: newcomers see that others wait. As Relaxed: all was acquired above.
        self.0.store_byte(LOCKED as u8);
        P::spin_map(|| (node.next() != 0).then_some(()));
        O::pass(node);
    }
}

/// The lock, over the order of its waiters.
pub struct Queued<P: Kernel, O> {
    word: LockWord<P>,
    order: PhantomData<O>,
}

/// In the order of arrival.
pub struct Arrival;

/// The kernel's own lock.
pub type Native<P> = Queued<P, Arrival>;

impl<P: Kernel> Order<P> for Arrival {
    const INFO: LockInfo = LockInfo {
        id: "qspinlock",
        family: Family::Queue,
        fairness: Fairness::Fifo,
        summary: "the Linux kernel's queued spinlock: four bytes, an MCS queue of CPUs behind one that is pending",
        paper: "Corbet: MCS locks and qspinlocks, LWN, March 2014",
        ..LockInfo::PLAIN
    };
}

// SAFETY: whoever sets LOCKED has seen it clear and is the only one that may: the word was 0, or had nothing but the
// pending bit that this thread has set, or it is the head of the queue and nobody is pending.
unsafe impl<P: Kernel, O: Order<P>> RawLock<P> for Queued<P, O> {
    const INFO: LockInfo = O::INFO;
    const PARAMETERS: Parameters = O::PARAMETERS;
    type Ctx = ();

    fn new() -> Self {
        Queued { word: LockWord(Word::holding(0)), order: PhantomData }
    }

    unsafe fn lock(&self, (): &()) {
        if let Err(seen) = self.word.take() {
            if !self.word.take_pending(seen) {
                self.word.queue::<O>();
            }
        }
    }

    unsafe fn unlock(&self, (): &()) {
        // ORDER(hand-off): a Release; pairs with the Acquire of who takes the lock next.
        // LAST: the lock may be destroyed after this store.
        self.word.0.store_byte(0);
    }
}

// SAFETY: takes the lock if its word is 0.
unsafe impl<P: Kernel, O: Order<P>> TryLock<P> for Queued<P, O> {
    unsafe fn try_lock(&self, (): &()) -> bool {
        // Relaxed: only decides whether the exchange is worth its price.
        self.word.0.load(Ordering::Relaxed) == 0 && self.word.take().is_ok()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Kernel, O: Order<P>> TimedLock<P> for Queued<P, O> {}

impl<P: Kernel, O: Order<P>> IsHeld for Queued<P, O> {
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.word.0.load(Ordering::Relaxed) & LOCKED != 0
    }
}
