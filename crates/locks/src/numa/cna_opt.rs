//! CNA with the optimisations that its authors sketch (Dice, Kogan, EuroSys 2019, section 6).
//!
//!   [A holder 0, next: B on 1]->[B 1, next: C on 0]->[C 0]      see cna.rs for the two queues
//!
//! Three things differ from [`super::cna`]:
//! - A node says on which NUMA node the *next* waiter runs, which that one has written there when it linked in. So the
//!   holder does not fetch the line of a waiter only to know where it runs.
//! - *Shuffle reduction*: while nobody is in the secondary queue, most hand-offs go to the next waiter, whoever it is;
//!   only one in `SHUFFLE` looks for a local one. Where few compete, moving waiters to and fro costs more than it
//!   saves.
//! - A countdown of hand-offs, drawn at random when it has run out, stands for a random number at each of them.
//!
//! Fairness, space, hand-off and waiting: as CNA.
//!
//! Deviations: the paper has the NUMA node in the low bits of the link, which limits the number of nodes, and keeps
//! the countdown in the thread; here it is the context's, and whoever calls the lock gives a thread the same context
//! again and again. How often the lock looks for a local waiter is as in its authors' patches for Linux.

use super::cna::{threshold, Cna, Node};
use crate::info::LockInfo;
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::ptr::null_mut;
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// The lock: one word. After less than `THRESHOLD` hand-offs, half of that on average, it is the secondary queue's
/// turn.
#[repr(transparent)]
pub struct CnaOptLock<P: Platform, const THRESHOLD: u32, const SHUFFLE: u32> {
    plain: Cna<P>,
}

/// The published threshold.
pub type CnaOpt<P> = CnaOptLock<P, 0xffff, 128>;

// SAFETY: CNA does it all; this only chooses another one of the waiters.
unsafe impl<P: Platform, const THRESHOLD: u32, const SHUFFLE: u32> RawLock<P> for CnaOptLock<P, THRESHOLD, SHUFFLE> {
    const INFO: LockInfo = LockInfo {
        id: "cna-opt",
        summary: "CNA that leaves the queue alone under light contention and looks at fewer lines",
        paper: "Dice, Kogan: EuroSys 2019, sec. 6",
        ..<Cna<P> as RawLock<P>>::INFO
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[
            threshold(THRESHOLD),
            Parameter {
                key: "shuffle",
                values: Values::Number(Setting::Shuffle, 1, 1_000_000_000, "hand-offs"),
                default: Default::Number(SHUFFLE),
                summary: "one hand-off in so many looks for a local waiter while nobody is in the secondary queue",
                source: "its authors' patches for Linux; Dice, Kogan: EuroSys 2019, sec. 6, gives no number",
            },
        ],
        inside: &[],
    };
    type Ctx = Node<P>;

    fn new() -> Self {
        CnaOptLock { plain: RawLock::new() }
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.plain.lock(cx) };
    }

    #[inline]
    unsafe fn has_heir(&self, cx: &Node<P>) -> bool {
        cx.has_heir()
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Node<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.plain.unlock_alone(cx) }
    }

    #[inline]
    unsafe fn hand_over(&self, cx: &Node<P>) {
        // SAFETY: the caller keeps the contract of the call; all other nodes are waiters, whose nodes stay until they
        // are granted the lock.
        unsafe {
            if self.plain.granted_without_successor(cx) {
                return;
            }
            let nobody_else = cx.secondary().is_null();
            let here = P::node();
            if nobody_else && (P::has_one_node() || cx.is_next_at(here)) {
                return cx.grant(cx.next());
            }
            // Relaxed, as below: the field belongs to the acquisition.
            let counted = cx.countdown.load(Ordering::Relaxed).checked_sub(1);
            let left = counted.unwrap_or_else(|| P::choose(Setting::Threshold.number::<P>(THRESHOLD)));
            let next = if nobody_else && !left.is_multiple_of(Setting::Shuffle.number::<P>(SHUFFLE)) {
                cx.next()
            } else if left != 0 {
                cx.find_successor(|before, _| before.is_next_at(here))
            } else {
                null_mut()
            };
            if next.is_null() {
                cx.grant_to_secondary();
            } else {
                cx.grant(next);
            }
            // Only now: the successor has written its link to this node's line, and to fetch the line back first would
            // delay the grant. The next acquisition needs it anyway.
            cx.countdown.store(left, Ordering::Relaxed);
        }
    }
}

// SAFETY: as CNA.
unsafe impl<P: Platform, const THRESHOLD: u32, const SHUFFLE: u32> TryLock<P> for CnaOptLock<P, THRESHOLD, SHUFFLE> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.plain.try_lock(cx) }
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const THRESHOLD: u32, const SHUFFLE: u32> TimedLock<P> for CnaOptLock<P, THRESHOLD, SHUFFLE> {}

impl<P: Platform, const THRESHOLD: u32, const SHUFFLE: u32> IsHeld for CnaOptLock<P, THRESHOLD, SHUFFLE> {
    #[inline]
    fn is_held(&self) -> bool {
        self.plain.is_held()
    }
}
