//! MCS-TP, the time-published MCS lock (He, Scherer, Scott, HiPC 2005); called MCS-TimePub in the ATC'16 study.
//!
//!   tail -----------------------------------+
//!   [A holder]->[B stale]->[C abandoned]->[D fresh]     A's release lets B and C go and grants the lock to D
//!
//! Each waiter publishes the time at which it last looked. A release passes over the waiters that have not looked for
//! a while, because they have lost their CPU, and over those that have given up; it tells them that they are out of
//! the queue. Who comes back then queues anew. So no hand-off waits for a thread that does not run, and a waiter can
//! leave at any time: its node stays behind until a release has passed it, so that a thread that gives up time and
//! again while one holder is inside leaves that many nodes. Fairness: long-term: one that
//! has waited for long insists; else first come, first served among the waiters that run.
//! Space: one pointer, plus a node per acquisition that lives until the release, that of an abandoned one until the
//! next release of the lock. Hand-off: the holder writes the status of the next waiter that runs. Each waiter spins on
//! its own line.
//!
//! Deviations. The paper's lock records when the holder entered, so that a waiter can leave the CPU to a holder that
//! has been inside for too long; here the waiter goes by the time that it has waited itself, which spares the lock a
//! word and the holder a look at the clock. Meanwhile it has abandoned its node, as in the paper, and it claims its
//! place again when it comes back, unless it has been passed over. The paper's waiters may be passed over without end,
//! as they are with many more threads than CPUs; here one that has waited for long insists, and the hand-off then
//! waits for it.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use core::ptr::{from_ref, null, null_mut};
use lockswap_platform::{AtomicInt, AtomicPtrCell, Clock, Deadline, Ns, Ordering, Platform};

/// | status    | meaning                                              | written by                 |
/// |-----------|------------------------------------------------------|----------------------------|
/// | OUT       | in no queue, or held without having waited           | whoever releases the lock  |
/// | WAITING   | its owner waits                                      | the owner                  |
/// | GRANTED   | its owner holds the lock                             | the holder before          |
/// | ABANDONED | in the queue, but its owner does not wait at present | the owner                  |
const OUT: u32 = 0;
const WAITING: u32 = 1;
const GRANTED: u32 = 2;
const ABANDONED: u32 = 3;

/// The time that an insistent waiter publishes.
const INSISTENT: usize = usize::MAX;

/// The times of the lock.
pub trait Times: Send + Sync + 'static {
    /// A waiter that has not published its time for so long is taken for one without a CPU; it publishes twice as
    /// often.
    const UPDATE_DELAY: Ns;
    /// How long a waiter waits before it leaves the CPU, and then at most stays away at a time: the longest critical
    /// section of a holder that has not lost its CPU.
    const MAX_CS_TIME: Ns;
    /// How long a waiter waits that has been away.
    const PATIENCE: Ns;
    /// The most nodes that a release lets go while it is still looking for a waiter: their owners may queue anew
    /// behind its back, and it would never come to the end.
    const MOST_LET_GO: u32;
    /// A waiter that has waited for so long in all insists: it publishes a time that is never stale, and is not passed
    /// over.
    const INSISTS_AFTER: Ns;
}

/// The published times.
pub struct Published;

impl Times for Published {
    const UPDATE_DELAY: Ns = 10_000;
    const MAX_CS_TIME: Ns = 10_000_000;
    const PATIENCE: Ns = 50_000;
    const MOST_LET_GO: u32 = 1_000;
    const INSISTS_AFTER: Ns = 200_000_000;
}

/// One of the times that users may choose.
const fn time(
    key: &'static str,
    setting: Setting,
    default: Ns,
    summary: &'static str,
    source: &'static str,
) -> Parameter {
    Parameter { key, values: Values::Time(setting), default: Default::Time(default), summary, source }
}

/// The queue node of one acquisition.
#[repr(C)]
pub struct Node<P: Platform> {
    next: P::Ptr<Node<P>>,
    status: P::U32,
    /// When the owner last looked.
    looked_at: P::Usize,
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        Node { next: P::Ptr::new(null_mut()), status: P::U32::new(OUT), looked_at: P::Usize::new(0) }
    }

    #[inline]
    fn is_reusable(&self) -> bool {
        // ORDER(out): Acquire pairs with the Release in `let_go`, after which nobody looks at the node: the link of
        // this use, and the look at it, come before the next use makes it null.
        self.status.load(Ordering::Acquire) == OUT
    }
}

fn now<P: Platform>() -> Ns {
    P::now(Clock::Monotonic)
}

fn after<P: Platform>(ns: Ns) -> Deadline {
    Deadline { clock: Clock::Monotonic, at: now::<P>().saturating_add(ns) }
}

/// The time until `deadline`, 0 if it has passed.
fn left<P: Platform>(deadline: Option<Deadline>) -> Ns {
    deadline.map_or(Ns::MAX, |deadline| deadline.at.saturating_sub(P::now(deadline.clock)))
}

impl<P: Platform> Node<P> {
    /// ORDER(hand-off): Acquire pairs with the Release in `grant`. ORDER(out): and with that in `let_go`.
    fn status(&self) -> u32 {
        self.status.load(Ordering::Acquire)
    }

    fn publish_time(&self) {
        // Relaxed: a hint.
        self.looked_at.store(now::<P>() as usize, Ordering::Relaxed);
    }

    fn link_behind(&self, predecessor: &Node<P>, insists: bool) {
        // Relaxed: published by the link.
        self.looked_at.store(if insists { INSISTENT } else { now::<P>() as usize }, Ordering::Relaxed);
        // Relaxed: published by the link.
        self.status.store(WAITING, Ordering::Relaxed);
        // ORDER(link): Release pairs with the Acquire in `next`; publishes this node.
        predecessor.next.store(from_ref(self).cast_mut(), Ordering::Release);
    }

    /// Waits in the queue, where it is not passed over any more, until the status is GRANTED, or OUT if it was passed
    /// over just before, or ABANDONED at `deadline`.
    fn insist(&self, deadline: Option<Deadline>) -> u32 {
        let decided = || Some(self.status()).filter(|status| *status != WAITING);
        let Some(deadline) = deadline else { return P::spin_map(decided) };
        P::spin_map_until(deadline, decided).unwrap_or_else(|| {
            // Relaxed: as in `wait`.
            let left = self.status.compare_exchange(WAITING, ABANDONED, Ordering::Relaxed);
            if left.is_ok() {
                ABANDONED
            } else {
                self.status()
            }
        })
    }

    /// Waits in the queue until the status is GRANTED or OUT, which it returns, or ABANDONED at `deadline`. It insists
    /// from `insists_at` on, also because its short waits never leave the CPU to a thread of lower priority.
    fn wait<T: Times>(&self, insists_at: Ns, deadline: Option<Deadline>) -> u32 {
        let update = Setting::Update.time::<P>(T::UPDATE_DELAY);
        let section = Setting::Section.time::<P>(T::MAX_CS_TIME);
        let mut leave_at = after::<P>(section).at;
        loop {
            let decided = || Some(self.status()).filter(|status| *status != WAITING);
            if let Some(status) = P::spin_map_until(after::<P>(update / 2), decided) {
                return status;
            }
            self.publish_time();
            let left = left::<P>(deadline);
            let now = now::<P>();
            if left != 0 && now >= insists_at {
                // Relaxed: a hint.
                self.looked_at.store(INSISTENT, Ordering::Relaxed);
                return self.insist(deadline);
            }
            if left != 0 && now < leave_at {
                continue;
            }
            // Relaxed, as when it waits again: the owner tells only whether it waits; its node is linked.
            if self.status.compare_exchange(WAITING, ABANDONED, Ordering::Relaxed).is_err() {
                continue;
            }
            if left == 0 {
                return ABANDONED;
            }
            P::spin_map_until(after::<P>(section.min(left)), || (self.status() == OUT).then_some(()));
            self.publish_time();
            // A failure means OUT, which the next look finds.
            let _ = self.status.compare_exchange(ABANDONED, WAITING, Ordering::Relaxed);
            leave_at = after::<P>(Setting::Patience.time::<P>(T::PATIENCE)).at;
        }
    }

    /// ORDER(link): Acquire pairs with the Release in `link_behind`.
    fn next(&self) -> *mut Node<P> {
        self.next.load(Ordering::Acquire)
    }

    fn has_looked_since(&self, time: Ns) -> bool {
        // Relaxed: a hint.
        self.looked_at.load(Ordering::Relaxed) as Ns >= time
    }

    /// Grants the lock to the waiter on `status` if it still waits; its memory may be gone then.
    fn grant(status: &P::U32) -> bool {
        // ORDER(hand-off): Release pairs with the Acquire in `status`; publishes the critical section.
        // LAST: the lock may be destroyed after this exchange.
        status.compare_exchange(WAITING, GRANTED, Ordering::Release).is_ok()
    }

    /// Tells the owner of `status` that its node is in no queue; its memory may be gone then.
    fn let_go(status: &P::U32) {
        // ORDER(out): Release pairs with the Acquire in `status` and `is_reusable`.
        // LAST: the node may be reused after this store.
        status.store(OUT, Ordering::Release);
    }
}

/// The lock, over its times.
#[repr(C)]
pub struct McsTp<P: Platform, T> {
    tail: P::Ptr<Node<P>>,
    times: PhantomData<T>,
}

/// The lock with the published times.
pub type McsTimePub<P> = McsTp<P, Published>;

impl<P: Platform, T: Times> McsTp<P, T> {
    /// Joins the queue and returns the node before, null if there is none: then the lock is held.
    #[inline]
    fn enqueue(&self, cx: &Node<P>) -> *mut Node<P> {
        // Relaxed: nobody else sees the node before the swap.
        cx.next.store(null_mut(), Ordering::Relaxed);
        // ORDER(enqueue): Release publishes the node to the successor, whose swap acquires it.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_alone` and `successor`.
        self.tail.swap(from_ref(cx).cast_mut(), Ordering::AcqRel)
    }

    /// Waits behind `predecessor`, in which `cx` is about to link itself. Returns whether the lock is held; if not,
    /// the deadline has passed.
    #[cold]
    #[inline(never)]
    fn lock_contended(&self, cx: &Node<P>, mut predecessor: *mut Node<P>, deadline: Option<Deadline>) -> bool {
        let insists_at = after::<P>(Setting::Insist.time::<P>(T::INSISTS_AFTER)).at;
        while !predecessor.is_null() {
            let insists = now::<P>() >= insists_at;
            // SAFETY: the predecessor is not let go until a release has seen its `next`.
            cx.link_behind(unsafe { &*predecessor }, insists);
            match if insists { cx.insist(deadline) } else { cx.wait::<T>(insists_at, deadline) } {
                GRANTED => return true,
                ABANDONED => return false,
                _ => {}
            }
            if left::<P>(deadline) == 0 {
                // SAFETY: the context is in no queue.
                return unsafe { self.try_lock(cx) };
            }
            predecessor = self.enqueue(cx);
        }
        true
    }

    /// The node behind `node`, which is linked or about to be; null if there is none: then the lock is free.
    fn successor(&self, node: &Node<P>) -> *mut Node<P> {
        let next = node.next();
        // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
        // LAST: the lock may be destroyed after this exchange.
        if !next.is_null()
            || self.tail.compare_exchange(from_ref(node).cast_mut(), null_mut(), Ordering::Release).is_ok()
        {
            return next;
        }
        P::spin_map(|| Some(node.next()).filter(|next| !next.is_null()))
    }
}

// SAFETY: a node becomes the holder when it finds the queue empty or when the holder before grants it; a release that
// grants to nobody leaves the queue empty.
unsafe impl<P: Platform, T: Times> RawLock<P> for McsTp<P, T> {
    const INFO: LockInfo = LockInfo {
        id: "mcs-timepub",
        family: Family::LoadControl,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Native,
        summary: "an MCS queue that passes over waiters which have lost their CPU or given up",
        paper: "He, Scherer, Scott: HiPC 2005, MCS-TP",
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[
            time(
                "update",
                Setting::Update,
                T::UPDATE_DELAY,
                "a waiter that has not looked for so long is passed over; waiters look twice as often",
                "He, Scherer, Scott: HiPC 2005",
            ),
            time(
                "section",
                Setting::Section,
                T::MAX_CS_TIME,
                "the longest critical section: a waiter that has waited for longer leaves the CPU for as long",
                "He, Scherer, Scott: HiPC 2005",
            ),
            time(
                "patience",
                Setting::Patience,
                T::PATIENCE,
                "how long a waiter waits that has been away, before it leaves the CPU again",
                "He, Scherer, Scott: HiPC 2005",
            ),
            time(
                "insist",
                Setting::Insist,
                T::INSISTS_AFTER,
                "a waiter that has waited for so long in all is not passed over any more",
                "chosen here; the paper's waiters may be passed over without end",
            ),
        ],
        inside: &[],
    };
    type Ctx = Node<P>;

    fn new() -> Self {
        McsTp { tail: P::Ptr::new(null_mut()), times: PhantomData }
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        let predecessor = self.enqueue(cx);
        if !predecessor.is_null() {
            self.lock_contended(cx, predecessor, None);
        }
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Node<P>) -> bool {
        // Relaxed: a successor that is linked is looked at later. It may have given up, and so is no heir yet.
        let alone = cx.next.load(Ordering::Relaxed).is_null()
            // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
            // LAST: the lock may be destroyed after this exchange.
            && self.tail.compare_exchange(from_ref(cx).cast_mut(), null_mut(), Ordering::Release).is_ok();
        if alone {
            // Relaxed: nobody else looks at the node.
            cx.status.store(OUT, Ordering::Relaxed);
        }
        alone
    }

    /// Passes the lock on to the first waiter behind `cx` that has looked lately, or makes it free.
    #[cold]
    #[inline(never)]
    unsafe fn hand_over(&self, cx: &Node<P>) {
        let oldest = now::<P>().saturating_sub(Setting::Update.time::<P>(T::UPDATE_DELAY));
        let mut node = from_ref(cx);
        let mut let_go = 0;
        // The first of the nodes that are let go only at the end.
        let mut kept = null::<Node<P>>();
        // SAFETY: the nodes of the queue stay until they are let go or granted the lock.
        unsafe {
            loop {
                let next = self.successor(&*node).cast_const();
                if let_go < T::MOST_LET_GO {
                    Node::<P>::let_go(&(*node).status);
                    let_go += 1;
                } else if kept.is_null() {
                    kept = node;
                }
                node = next;
                if node.is_null() || (*node).has_looked_since(oldest) && Node::<P>::grant(&(*node).status) {
                    break;
                }
            }
            while !kept.is_null() && kept != node {
                let next = (*kept).next();
                Node::<P>::let_go(&(*kept).status);
                kept = next;
            }
        }
    }
}

// SAFETY: acquires only if the queue is empty.
unsafe impl<P: Platform, T: Times> TryLock<P> for McsTp<P, T> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        // Relaxed: nobody else sees the node before the exchange.
        cx.next.store(null_mut(), Ordering::Relaxed);
        // ORDER(enqueue, hand-off): as in `enqueue`.
        self.tail.try_change(null_mut(), from_ref(cx).cast_mut(), Ordering::AcqRel)
    }
}

// SAFETY: an abandoned node is never granted the lock.
unsafe impl<P: Platform, T: Times> TimedLock<P> for McsTp<P, T> {
    unsafe fn lock_until(&self, cx: &Node<P>, deadline: Deadline) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        if unsafe { self.try_lock(cx) } {
            return true;
        }
        left::<P>(Some(deadline)) != 0 && self.lock_contended(cx, self.enqueue(cx), Some(deadline))
    }
}

impl<P: Platform, T> IsHeld for McsTp<P, T> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}
