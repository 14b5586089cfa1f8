//! RON for the kernel's spinlock: waiters in the order of a route through all CPUs (Lo, Chen, Cheng, Wu, Shih: OSDI
//! 2023).
//!
//!   route:   0 1 2 3 4 5 6 7
//!   queue:   [head 2]->[3]->[7]->[0]->[5]->[4]      from the head on 3, 7, 0 are in order; 5 moves up, behind 3
//!                     `--- in order -'
//!
//! A lock goes round: it visits those that wait, in the order in which the route comes to their CPUs. In the paper's
//! section 7 a CPU writes the lock that it waits for into one array for all locks, which a release searches along the
//! route. Here a release remains a store of one byte: the head of the queue, while it waits for the lock, takes the
//! first waiter that is not in order and moves it up to its place, and so on. It is told the last waiter of those in
//! order. The last waiter of the queue keeps its place, because a newcomer is about to write its `next`.
//!
//! Fairness: while a waiter queues, each other CPU passes over it once before it is in order, and once more when it
//! is.

use super::node::{at, Code, Node, HEAD};
use super::queued::{LockWord, Order, Queued};
use super::Kernel;
use lockswap_locks::info::{Asks, Fairness, Family, LockInfo};
use lockswap_platform::{AtomicInt, Ordering};

/// RON's order.
pub struct Route;

/// In the order of the machine's route.
pub type QspinlockRon<P> = Queued<P, Route>;

/// What the head of the queue finds behind the waiters in order.
enum Found {
    /// One more that is in order.
    InOrder(Code),
    /// One that is not.
    Stray(Code),
}

/// How far it is along the route from the place of one node to that of another one: 1 to the number of CPUs.
fn steps<P: Kernel>(from: &Node<P::Memory>, to: Code) -> u32 {
    let cpus = P::ranks();
    (at::<P>(to).place() + cpus - from.place() - 1) % cpus + 1
}

/// What stands behind `last`, up to which the waiters behind the head `me` are in order; nothing to be done yet:
/// `None`.
fn look<P: Kernel>(me: Code, last: Code) -> Option<Found> {
    let head = at::<P>(me);
    let next = Some(at::<P>(last).next()).filter(|next| *next != 0)?;
    if last == me || steps::<P>(head, last) <= steps::<P>(head, next) {
        return Some(Found::InOrder(next));
    }
    (at::<P>(next).next() != 0).then_some(Found::Stray(next))
}

/// Moves `stray`, the waiter behind `last`, to its place in the order; false if the lock was free before that was
/// found.
fn move_up<P: Kernel>(word: &LockWord<P>, me: Code, last: Code, stray: Code) -> bool {
    let head = at::<P>(me);
    let far = steps::<P>(head, stray);
    let mut previous = head;
    // Ends at `last`, if not before, which is farther.
    while steps::<P>(head, previous.next()) <= far {
        if word.is_free() {
            return false;
        }
        previous = at::<P>(previous.next());
    }
    at::<P>(last).link_to(at::<P>(stray).next());
    at::<P>(stray).link_to(previous.next());
    previous.link_to(stray);
    true
}

impl<P: Kernel> Order<P> for Route {
    const INFO: LockInfo = LockInfo {
        id: "qspinlock-ron",
        family: Family::Routed,
        fairness: Fairness::Bounded(2),
        summary: "the kernel's queued spinlock whose head of the queue puts waiters into the order of RON's route",
        paper: "Lo et al.: OSDI 2023, sec. 7",
        asks: Asks::ROUTE,
        ..LockInfo::PLAIN
    };

    fn prepare(node: &Node<P::Memory>) {
        // Relaxed: published with the node.
        node.place.store(P::rank(), Ordering::Relaxed);
    }

    fn attend(word: &LockWord<P>, me: Code) {
        let node = at::<P>(me);
        let mut last = node.told().unwrap_or(me);
        while let Some(found) = P::spin_map(|| if word.is_free() { Some(None) } else { look::<P>(me, last).map(Some) })
        {
            match found {
                Found::InOrder(next) => last = next,
                Found::Stray(stray) => {
                    if !move_up(word, me, last, stray) {
                        break;
                    }
                }
            }
        }
        node.tell(if last == me { HEAD } else { last });
    }

    fn pass(node: &Node<P::Memory>) {
        let next = node.next();
        at::<P>(next).call(node.told().filter(|last| *last != next).unwrap_or(HEAD));
    }
}
