//! ShflLock for the kernel's spinlock: waiters sort themselves by NUMA node while they wait (Kashyap, Calciu, Cheng,
//! Min, Kim: Scalable and Practical Locking with Shuffling, SOSP 2019).
//!
//!   [head 0]->[A 0]->[B 1]->[C 0]->[D 1]      the head has looked at A and B; C moves up, behind A
//!   `-- group --'    seen
//!
//! One waiter at a time is the shuffler. It walks down the queue, and each waiter of its own NUMA node that it meets
//! moves up behind it and those that it has met before: its group. When it comes to the end, it makes the last of its
//! group the shuffler, who goes on from there. A head of the queue that is in no group begins one. The last waiter of
//! the queue never moves, because a newcomer is about to write its `next`.
//!
//! Fairness: long-term. A group that is older than `threshold` grows no more at the cost of others; the paper bounds
//! its length instead. Deviation: the paper's spinlock lets newcomers take the lock while nobody queues, which here is
//! the pending bit's part.

use super::node::{at, Code, Node};
use super::queued::{LockWord, Order, Queued};
use super::{is_over, moment, Kernel, OF_THRESHOLD, THRESHOLD};
use lockswap_locks::info::{Asks, Fairness, Family, LockInfo};
use lockswap_locks::parameters::Parameters;
use lockswap_platform::{AtomicInt, Ns, Ordering};

/// ShflLock's order; groups may grow at the cost of others for `NS` ns.
pub struct Shfl<const NS: Ns>;

/// With the same threshold as `qspinlock-cna`.
pub type QspinlockShfl<P> = Queued<P, Shfl<THRESHOLD>>;

/// What a waiter has to do.
enum Task {
    Shuffle,
    /// Nothing more: its turn has come, or the lock is free.
    Stop,
}

/// Whether the owner is the shuffler.
/// ORDER(role): Acquire pairs with the Release in `shuffle`.
fn is_shuffler<P: Kernel>(node: &Node<P::Memory>) -> bool {
    node.shuffles.load(Ordering::Acquire) != 0
}

/// The waiter that the shuffler looks at next and the one behind that, which has to be there.
fn ahead<P: Kernel>(seen: Code) -> Option<(Code, Code)> {
    let candidate = Some(at::<P>(seen).next()).filter(|code| *code != 0)?;
    let after = Some(at::<P>(candidate).next()).filter(|code| *code != 0)?;
    Some((candidate, after))
}

/// Whether the shuffler, which `node` belongs to, can go on with its walk.
fn may_advance<P: Kernel>(node: &Node<P::Memory>) -> bool {
    // Relaxed: acquired with the role, or this thread's own.
    ahead::<P>(node.seen.load(Ordering::Relaxed)).is_some()
}

/// Walks on from where the walk has got to, until the end of the queue, or `stop`.
fn shuffle<P: Kernel>(me: Code, threshold: Ns, stop: impl Fn() -> bool) {
    let node = at::<P>(me);
    // Relaxed, as all that belongs to the role: it is handed on with Release and taken with Acquire.
    let (since, mut seen) = (node.since.load(Ordering::Relaxed), node.seen.load(Ordering::Relaxed));
    let mut last = me;
    while !stop() {
        let Some((candidate, after)) = ahead::<P>(seen) else { break };
        let waiter = at::<P>(candidate);
        if waiter.place() != node.place() {
            seen = candidate;
            continue;
        }
        if seen == last {
            seen = candidate;
        } else {
            if is_over::<P>(since, threshold) {
                return node.shuffles.store(0, Ordering::Relaxed);
            }
            at::<P>(seen).link_to(after);
            waiter.link_to(at::<P>(last).next());
            at::<P>(last).link_to(candidate);
        }
        waiter.since.store(since, Ordering::Relaxed);
        waiter.mark.store(1, Ordering::Relaxed);
        last = candidate;
    }
    node.seen.store(seen, Ordering::Relaxed);
    if last != me {
        node.shuffles.store(0, Ordering::Relaxed);
        at::<P>(last).seen.store(seen, Ordering::Relaxed);
        // ORDER(role): Release pairs with the Acquire in `is_shuffler`; publishes the order of the queue.
        at::<P>(last).shuffles.store(1, Ordering::Release);
    }
}

impl<P: Kernel, const NS: Ns> Order<P> for Shfl<NS> {
    const INFO: LockInfo = LockInfo {
        id: "qspinlock-shfl",
        family: Family::Shuffle,
        fairness: Fairness::LongTerm,
        summary: "the kernel's queued spinlock whose waiters bring those of one NUMA node together",
        paper: "Kashyap et al.: SOSP 2019, sec. 4 and 5",
        asks: Asks::LOCALITY,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters { own: &[OF_THRESHOLD], inside: &[] };

    fn prepare(node: &Node<P::Memory>) {
        // Relaxed: published with the node.
        node.place.store(P::node(), Ordering::Relaxed);
        node.mark.store(0, Ordering::Relaxed);
        node.shuffles.store(0, Ordering::Relaxed);
    }

    fn wait_for_turn(node: &Node<P::Memory>) {
        let task = || match () {
            () if node.is_head() => Some(Task::Stop),
            () if is_shuffler::<P>(node) && may_advance::<P>(node) => Some(Task::Shuffle),
            () => None,
        };
        while let Task::Shuffle = P::spin_map(task) {
            shuffle::<P>(super::node::mine::<P>(), NS, || node.is_head());
        }
    }

    fn attend(word: &LockWord<P>, me: Code) {
        let node = at::<P>(me);
        // Relaxed: acquired with the turn, or this thread's own.
        if node.mark.load(Ordering::Relaxed) == 0 {
            node.since.store(moment::<P>(), Ordering::Relaxed);
            node.seen.store(me, Ordering::Relaxed);
            node.shuffles.store(1, Ordering::Relaxed);
        }
        let task = || match () {
            () if !is_shuffler::<P>(node) || word.is_free() => Some(Task::Stop),
            () => may_advance::<P>(node).then_some(Task::Shuffle),
        };
        while let Task::Shuffle = P::spin_map(task) {
            shuffle::<P>(me, NS, || word.is_free());
        }
    }
}
