//! Malthusian lock, MCSCR (Dice, EuroSys 2017, section 4).
//!
//!   main queue:   tail ---------------+
//!                 [A holder]->[B]->[C]        the few that suffice to keep the lock busy
//!   passive list: [F]<->[E]<->[D]             the others; the holder's node knows both ends
//!
//! An MCS queue in which the holder sets waiters aside while there are more of them than the lock needs: they leave
//! the caches and, in the `_stp` flavour, the CPUs to the threads that do circulate. A release that finds two waiters
//! moves the first one to the head of the passive list; a release that finds none takes that head back; and one
//! release in `FAIRNESS` grants the lock to the tail of the list, which has been passive longest. Fairness: long-term.
//! Space: one pointer, plus a node per acquisition that lives until the release. Hand-off: the holder writes its
//! successor's status. Each waiter spins on its own line, then parks in the `_stp` flavour.
//!
//! Deviations. The passive list travels with the lock from node to node instead of being a part of it, so that the
//! lock is one word. A waiter counts as the last one until the next has linked in: no release waits in order to set
//! one aside. In the `_stp-barging` flavour, which is ours, there is a word in front of the queue, whose holder is
//! only the next to compete for it (see [`Barging`]).

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::queue::barging::{Barging, PATIENCE};
use crate::waiting::{Spin, SpinThenPark, Waiting, WAITING};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use core::ptr::{from_ref, null_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// The queue node of one acquisition.
#[repr(C)]
pub struct Node<P: Platform> {
    /// In the main queue: the next waiter. In the passive list: the one that has been passive for longer.
    next: P::Ptr<Node<P>>,
    status: P::U32,
    /// In the passive list: the one that has been passive for a shorter time.
    newer: P::Ptr<Node<P>>,
    /// The holder's: the waiter that has been passive for the shortest time, null if nobody is passive. Null in all
    /// nodes but the holder's.
    newest: P::Ptr<Node<P>>,
    /// The holder's: the waiter that has been passive longest, if anybody is.
    oldest: P::Ptr<Node<P>>,
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        let null = || P::Ptr::new(null_mut());
        Node { next: null(), status: P::U32::new(WAITING), newer: null(), newest: null(), oldest: null() }
    }
}

impl<P: Platform> Node<P> {
    /// Links this node behind `predecessor`, whose memory may be gone before the wait ends, and waits for the grant.
    ///
    /// # Safety
    /// The predecessor has not seen its `next` yet.
    #[cold]
    #[inline(never)]
    unsafe fn wait_behind<W: Waiting>(&self, predecessor: *mut Node<P>) {
        // Relaxed: published by the link.
        self.status.store(WAITING, Ordering::Relaxed);
        // ORDER(link): Release pairs with the Acquire in `next`; publishes this node.
        // SAFETY: the predecessor stays until it has seen its `next`.
        unsafe { (*predecessor).next.store(from_ref(self).cast_mut(), Ordering::Release) };
        W::wait::<P>(&self.status);
    }

    /// ORDER(link): Acquire pairs with the Release in `wait_behind`.
    fn next(&self) -> *mut Node<P> {
        self.next.load(Ordering::Acquire)
    }

    /// The successor, which has linked in or is about to.
    fn linked(&self) -> *mut Node<P> {
        P::spin_map(|| Some(self.next()).filter(|next| !next.is_null()))
    }

    /// Whether the holder `self` has anybody in its passive list.
    ///
    /// Relaxed, like every access to the links of the list: it belongs to the holder, and travels with the lock.
    fn has_passive(&self) -> bool {
        !self.newest.load(Ordering::Relaxed).is_null()
    }

    /// Puts `waiter` at the head of the passive list.
    ///
    /// # Safety
    /// `self` holds the lock; `waiter` waits, has a linked successor, and stands in neither queue any more.
    unsafe fn push_passive(&self, waiter: *mut Node<P>) {
        let newest = self.newest.load(Ordering::Relaxed);
        // SAFETY: waiters' nodes stay until they are granted the lock.
        unsafe {
            (*waiter).next.store(newest, Ordering::Relaxed);
            if newest.is_null() {
                self.oldest.store(waiter, Ordering::Relaxed);
            } else {
                (*newest).newer.store(waiter, Ordering::Relaxed);
            }
        }
        self.newest.store(waiter, Ordering::Relaxed);
    }

    /// Takes the tail of the passive list, or else its head.
    ///
    /// # Safety
    /// `self` holds the lock, and the list is not empty.
    unsafe fn pop_passive(&self, tail: bool) -> *mut Node<P> {
        let (newest, oldest) = (self.newest.load(Ordering::Relaxed), self.oldest.load(Ordering::Relaxed));
        // SAFETY: as in `push_passive`.
        unsafe {
            if newest == oldest {
                self.newest.store(null_mut(), Ordering::Relaxed);
                newest
            } else if tail {
                self.oldest.store((*oldest).newer.load(Ordering::Relaxed), Ordering::Relaxed);
                oldest
            } else {
                self.newest.store((*newest).next.load(Ordering::Relaxed), Ordering::Relaxed);
                newest
            }
        }
    }

    /// Hands the passive list to `heir`, the next holder.
    fn bequeath_passive(&self, heir: &Node<P>) {
        if self.has_passive() {
            heir.newest.store(self.newest.load(Ordering::Relaxed), Ordering::Relaxed);
            heir.oldest.store(self.oldest.load(Ordering::Relaxed), Ordering::Relaxed);
            self.newest.store(null_mut(), Ordering::Relaxed);
        }
    }
}

/// The lock, over the way its waiters wait. One release in `FAIRNESS`, on average, grants the lock to the waiter that
/// has been passive longest.
#[repr(C)]
pub struct Malthusian<P: Platform, W, const FAIRNESS: u32> {
    tail: P::Ptr<Node<P>>,
    waiting: PhantomData<W>,
}

/// Waiters spin.
pub type MalthSpin<P> = Malthusian<P, Spin, 1024>;
/// Waiters spin, then park.
pub type MalthStp<P> = Malthusian<P, SpinThenPark, 1024>;
/// The same below a word that running threads may take. The draw is for the place at the head of the queue, which
/// changes hands far less often than the lock.
pub type MalthStpBarging<P> = Barging<P, Malthusian<P, SpinThenPark, 4>, PATIENCE>;

impl<P: Platform, W: Waiting, const FAIRNESS: u32> Malthusian<P, W, FAIRNESS> {
    /// Puts `heir` behind the holder, before the rest of the main queue.
    fn put_first(&self, cx: &Node<P>, heir: &Node<P>) {
        let mut next = cx.next();
        // Relaxed: published by the exchange to whoever joins behind, by the grant to the heir.
        heir.next.store(next, Ordering::Relaxed);
        if next.is_null() {
            let (me, last) = (from_ref(cx).cast_mut(), from_ref(heir).cast_mut());
            // ORDER(enqueue): Release pairs with the Acquire of the next swap: the heir's link is null before it is
            // set.
            if self.tail.compare_exchange(me, last, Ordering::Release).is_err() {
                next = cx.linked();
                heir.next.store(next, Ordering::Relaxed);
            }
        }
    }
}

// SAFETY: a node becomes the holder when it finds the queue empty or when the holder before grants it; every waiter is
// in one of the two queues, and a release leaves the main queue empty only if the passive list is.
unsafe impl<P: Platform, W: Waiting, const FAIRNESS: u32> RawLock<P> for Malthusian<P, W, FAIRNESS> {
    const INFO: LockInfo = LockInfo {
        id: match W::POLICY {
            WaitingPolicy::Spin => "malth_spin",
            WaitingPolicy::SpinThenPark | WaitingPolicy::Adaptive => "malth_stp",
        },
        family: Family::LoadControl,
        waiting: W::POLICY,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "an MCS queue that sets aside the waiters it does not need to keep the lock busy",
        paper: "Dice: EuroSys 2017, MCSCR",
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "fairness",
            values: Values::Number(Setting::Fairness, 1, 1_000_000_000, "hand-offs"),
            default: Default::Number(FAIRNESS),
            summary: "one hand-off in so many goes to the waiter that has been passive longest",
            source: "Dice: EuroSys 2017, sec. 4: 1000; the study and its authors' code: 1024",
        }],
        inside: &[W::PARAMETERS],
    };
    type Ctx = Node<P>;

    fn new() -> Self {
        Malthusian { tail: P::Ptr::new(null_mut()), waiting: PhantomData }
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        let me = from_ref(cx).cast_mut();
        // Relaxed: nobody else sees the node before the swap.
        cx.next.store(null_mut(), Ordering::Relaxed);
        // ORDER(enqueue): Release publishes the node to the successor, whose swap acquires it.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_alone`.
        let predecessor = self.tail.swap(me, Ordering::AcqRel);
        if !predecessor.is_null() {
            // SAFETY: its `next` is null until this node is linked.
            unsafe { cx.wait_behind::<W>(predecessor) };
        }
    }

    #[inline]
    unsafe fn has_heir(&self, cx: &Node<P>) -> bool {
        // Relaxed: `hand_over` looks again before it follows the link.
        !cx.next.load(Ordering::Relaxed).is_null() || cx.has_passive()
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Node<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        let has_heir = unsafe { self.has_heir(cx) };
        !has_heir
            // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
            // LAST: the lock may be destroyed after this exchange.
            && self.tail.compare_exchange(from_ref(cx).cast_mut(), null_mut(), Ordering::Release).is_ok()
    }

    /// Passes the lock on: to a waiter of the passive list, or to the first or second one of the main queue.
    #[cold]
    #[inline(never)]
    unsafe fn hand_over(&self, cx: &Node<P>) {
        let one_in = Setting::Fairness.number::<P>(FAIRNESS);
        // Drawn only where it decides something, because it takes a look at the clock.
        let fair = cx.has_passive() && P::choose(one_in) == 0;
        // SAFETY: the caller keeps the contract of the call; all other nodes are waiters.
        unsafe {
            let heir = if cx.has_passive() && (fair || cx.next().is_null()) {
                let heir = cx.pop_passive(fair);
                self.put_first(cx, &*heir);
                heir
            } else {
                let first = cx.linked();
                let second = (*first).next();
                if second.is_null() {
                    first
                } else {
                    cx.push_passive(first);
                    second
                }
            };
            cx.bequeath_passive(&*heir);
            // LAST: the lock may be destroyed after this grant.
            W::grant::<P>(&(*heir).status);
        }
    }
}

// SAFETY: acquires only if the queue is empty, and then nobody is passive.
unsafe impl<P: Platform, W: Waiting, const FAIRNESS: u32> TryLock<P> for Malthusian<P, W, FAIRNESS> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        // Relaxed: nobody else sees the node before the exchange.
        cx.next.store(null_mut(), Ordering::Relaxed);
        // ORDER(enqueue, hand-off): as for the swap in `lock`.
        self.tail.try_change(null_mut(), from_ref(cx).cast_mut(), Ordering::AcqRel)
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, W: Waiting, const FAIRNESS: u32> TimedLock<P> for Malthusian<P, W, FAIRNESS> {}

impl<P: Platform, W: Waiting, const FAIRNESS: u32> IsHeld for Malthusian<P, W, FAIRNESS> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}
