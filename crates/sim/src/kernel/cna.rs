//! CNA for the kernel's spinlock: waiters of the holder's NUMA node first (Dice, Kogan: Compact NUMA-aware Locks,
//! EuroSys 2019).
//!
//!   queue:         [head 0]->[A 0]->[B 1]->[C 0]
//!   second queue:  +->[D 1]->[E 1]-+      the head is told its last node, whose `next` is the first
//!                  +---------------+
//!
//! As in the version that its author has sent to the kernel's developers (version 15, May 2021), and unlike in the
//! paper, the head of the queue does the work, while it waits for the lock, and not the release: as long as the next
//! waiter is of another NUMA node and somebody stands behind it, it moves to the second queue. The second queue
//! becomes the queue when that is empty, or comes back in front of it when it is older than `threshold`: waiters are
//! passed over for that long, and then for as long as those take that have come back before them. The last waiter of
//! the queue never moves, because a newcomer is about to write its `next`. If the lock gets free before a waiter of
//! the preferred NUMA node was found, the next one is head, and goes on looking for some of that node, not of its own;
//! the first of a second queue that comes back says which node is preferred then.
//!
//! Fairness: long-term. Left out, as in the folder `kernel`: priorities of interrupts, and the paper's shuffle
//! reduction.

use super::node::{at, Code, Node, HEAD};
use super::queued::{LockWord, Order, Queued};
use super::{is_over, moment, Kernel, OF_THRESHOLD, THRESHOLD};
use lockswap_locks::info::{Asks, Fairness, Family, LockInfo};
use lockswap_locks::parameters::Parameters;
use lockswap_platform::{AtomicInt, Ns, Ordering};

/// CNA's order; waiters may be passed over for `NS` ns.
pub struct Cna<const NS: Ns>;

/// With the published threshold.
pub type QspinlockCna<P> = Queued<P, Cna<THRESHOLD>>;

/// What the head of the queue finds behind it.
enum Next {
    /// The lock is free, or a waiter of the preferred node is next.
    Settled,
    /// The next waiter may move.
    May(Code),
}

/// Looks behind the head of the queue, `node`; nothing if there is nothing to be done yet.
fn look<P: Kernel>(word: &LockWord<P>, node: &Node<P::Memory>) -> Option<Next> {
    if word.is_free() {
        return Some(Next::Settled);
    }
    let next = Some(node.next()).filter(|next| *next != 0)?;
    if at::<P>(next).place() == node.place() {
        return Some(Next::Settled);
    }
    (at::<P>(next).next() != 0).then_some(Next::May(next))
}

/// Moves `next`, which is behind the head `node` and not the last, to the end of the second queue.
fn move_to_second<P: Kernel>(node: &Node<P::Memory>, next: Code) {
    let waiter = at::<P>(next);
    node.link_to(waiter.next());
    match node.told().map(at::<P>) {
        Some(last) => {
            waiter.link_to(last.next());
            last.link_to(next);
        }
        None => {
            waiter.link_to(next);
            // Relaxed: heads of the queue only; published with the turn.
            waiter.since.store(moment::<P>(), Ordering::Relaxed);
        }
    }
    node.tell(next);
}

impl<P: Kernel, const NS: Ns> Order<P> for Cna<NS> {
    const INFO: LockInfo = LockInfo {
        id: "qspinlock-cna",
        family: Family::Numa,
        fairness: Fairness::LongTerm,
        summary: "the kernel's queued spinlock whose head of the queue sets waiters of other NUMA nodes aside",
        paper: "Dice, Kogan: EuroSys 2019, sec. 6 and 7.2",
        asks: Asks::LOCALITY,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters { own: &[OF_THRESHOLD], inside: &[] };

    fn prepare(node: &Node<P::Memory>) {
        // Relaxed, also below for `mark`, which is the owner's: published with the node.
        node.place.store(P::node(), Ordering::Relaxed);
        node.mark.store(0, Ordering::Relaxed);
    }

    fn attend(word: &LockWord<P>, me: Code) {
        let node = at::<P>(me);
        if let Some(last) = node.told() {
            // Relaxed: acquired with the turn.
            let since = at::<P>(at::<P>(last).next()).since.load(Ordering::Relaxed);
            if is_over::<P>(since, NS) {
                return node.mark.store(1, Ordering::Relaxed);
            }
        }
        while let Next::May(next) = P::spin_map(|| look(word, node)) {
            move_to_second::<P>(node, next);
        }
    }

    /// The second queue, if there is one, becomes the queue.
    fn leave_as_last(word: &LockWord<P>, seen: u32, node: &Node<P::Memory>) -> bool {
        let Some(last) = node.told() else { return word.leave_to(seen, 0, Ordering::Relaxed) };
        let end = at::<P>(last);
        let first = end.next();
        end.link_to(0);
        // ORDER(enqueue): Release: the ring is open for whoever queues behind it.
        if !word.leave_to(seen, last, Ordering::Release) {
            end.link_to(first);
            return false;
        }
        at::<P>(first).call(HEAD);
        true
    }

    fn pass(node: &Node<P::Memory>) {
        let next = node.next();
        let Some(last) = node.told() else { return at::<P>(next).call(HEAD) };
        // Relaxed, both: this thread's, until the turn is passed on.
        if node.mark.load(Ordering::Relaxed) == 0 {
            at::<P>(next).place.store(node.place(), Ordering::Relaxed);
            return at::<P>(next).call(last);
        }
        let first = at::<P>(last).next();
        at::<P>(last).link_to(next);
        at::<P>(first).call(HEAD);
    }
}
