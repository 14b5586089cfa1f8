//! ShflLock (Kashyap, Calciu, Cheng, Min, Kim, SOSP 2019); spinning and blocking flavours.
//!
//!   held: FREE | HELD                 the lock proper: whoever swaps it holds the lock
//!   closed: 0 | 1                     1: newcomers may not take the lock while others queue
//!   tail ---------------------+
//!   [A head]->[B]->[C]->[D tail]      an MCS queue of waiters; only its head competes for `held`
//!
//! One waiter at a time is the shuffler: while it waits it moves the waiters that its [`Policy`] looks for directly
//! behind the batch that it leads, wakes those that sleep, and hands its role to the last of them.
//!
//! Stealing: a newcomer takes a free lock without queueing while nobody queues. While others queue it may do so as
//! often as the parameter `steal` says, then the head of the queue closes the lock to newcomers until it has got it.
//! The default is the rule of the authors' programs: 0 for the spinning flavour (aqs.c: the first waiter sets a flag,
//! `no_stealing`, and the last one clears it), without bound for the blocking flavour (aqm.c: its head clears that
//! flag), whose head may be asleep, so that the lock would be idle until it has woken up. A waiter with a deadline, or
//! one of real-time priority outside the queue, is a newcomer at each of its attempts.
//!
//! Fairness: long-term, since a batch and `steal` are bounded; unfair where `steal` has no bound, since a newcomer
//! that comes back at once may keep the lock. Space: two words; a waiter's node lies on its stack and leaves the queue
//! before the critical section. Hand-off: the head sees the lock free and swaps it.
//!
//! Deviations: with `steal` at 0 a null `tail` stands for the absent flag, which says the same with one write less on
//! each entry to and exit from the queue. A batch ends after `batch` waiters; in the authors' programs a walk through
//! the queue begins with the chance of 1 in 1024 that the role goes to the next waiter instead, whatever its
//! attribute. A waiter that the shuffler has woken spins for a bounded time and may then sleep again, as may an idle
//! shuffler and the head: in a process nobody knows whether its CPU is needed by the holder.

use super::blocking::{Blocking, FREE, HELD, PATIENCE};
use super::policy::{OfKind, OfLlc, OfNode, Policy, Together};
use super::proportional::Proportional;
use crate::info::{ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::waiting::{Spin, SpinThenPark, GRANTED, WAITING};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use core::ptr::null_mut;
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// `steal`: newcomers may take a free lock however often.
pub const WITHOUT_BOUND: u32 = 1_000_000;

/// A waiter, on a line of its own: its stack frame has other things beside it. The fields behind `status` belong to
/// the shuffler: they are written by the waiter before it is linked, by whoever is the shuffler, and travel with that
/// role.
#[repr(align(64))]
struct Node<P: Platform> {
    next: P::Ptr<Node<P>>,
    status: P::U32,
    /// See [`Policy`].
    attribute: P::U32,
    /// How far the batch has come with this waiter; 0: in no batch.
    batch: P::U32,
    /// 1: this waiter is the shuffler.
    shuffles: P::U32,
    /// Where the shuffler goes on looking; null: behind itself.
    last_visited: P::Ptr<Node<P>>,
}

/// The lock, over whom its waiters bring together, the way that they wait, and how often newcomers may take the lock
/// from the head of the queue.
#[repr(C)]
pub struct Shfl<P: Platform, G, W, const STEAL: u32 = 0> {
    held: P::U32,
    /// 1: the head of the queue has lost to newcomers as often as it may. Written by the head.
    closed: P::U32,
    tail: P::Ptr<Node<P>>,
    policy: PhantomData<(G, W)>,
}

/// The spinning flavour, by NUMA node.
pub type ShflLock<P> = Shfl<P, Together<OfNode>, Spin>;
/// The blocking flavour, by NUMA node.
pub type ShflLockB<P> = Shfl<P, Together<OfNode>, SpinThenPark, WITHOUT_BOUND>;
/// By last-level cache.
pub type ShflLockLlc<P> = Shfl<P, Together<OfLlc>, Spin>;
/// By the kind of the cores.
pub type ShflLockKind<P> = Shfl<P, Together<OfKind>, Spin>;
/// Ten big cores, then a little one.
pub type ShflPb10<P> = Shfl<P, Proportional, Spin>;

impl<P: Platform, G: Policy, W: Blocking, const STEAL: u32> Shfl<P, G, W, STEAL> {
    /// Acquires the lock if it is free.
    #[inline]
    fn acquire_free(&self) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `Blocking::release`.
        self.held.try_change(FREE, HELD, Ordering::Acquire)
    }

    /// Acquires the lock if it is free and nobody queues. It does not look whether the lock is free before it tries:
    /// where nobody queues, it mostly is.
    #[inline]
    fn acquire_unqueued(&self) -> bool {
        // Relaxed: a hint for fairness only.
        self.tail.load(Ordering::Relaxed).is_null()
            // ORDER(hand-off): as in `acquire_free`.
            && self.held.compare_exchange(FREE, HELD, Ordering::Acquire).is_ok()
    }

    /// Acquires the lock if it is free and newcomers may take it while others queue.
    #[inline]
    fn steal(&self) -> bool {
        // Relaxed: a hint for fairness only.
        Self::most_steals() != 0 && self.closed.load(Ordering::Relaxed) == 0 && self.acquire_free()
    }

    /// How often newcomers may take the lock from the head of the queue.
    fn most_steals() -> u32 {
        Self::chosen(Setting::Steal, STEAL)
    }

    /// What the user has chosen for mutexes, unless this is the queue of a read-write lock.
    fn chosen(setting: Setting, default: u32) -> u32 {
        if G::IN_RWLOCK {
            default
        } else {
            setting.number::<P>(default)
        }
    }

    /// The looks of a waiter before it sleeps, where it does.
    fn looks() -> u32 {
        if G::IN_RWLOCK { Setting::RwSpin } else { Setting::Spin }.looks::<P>()
    }

    /// Acquires the lock for a caller that says itself what its attribute is.
    #[inline]
    pub fn lock_as(&self, attribute: u32) {
        if !self.acquire_unqueued() && !self.steal() {
            self.queue_as(attribute);
        }
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        if !self.steal() {
            self.queue_as(G::mine::<P>());
        }
    }

    #[cold]
    #[inline(never)]
    fn queue_as(&self, attribute: u32) {
        let node = Node::<P> {
            next: P::Ptr::new(null_mut()),
            status: P::U32::new(WAITING),
            attribute: P::U32::new(attribute),
            batch: P::U32::new(0),
            shuffles: P::U32::new(0),
            last_visited: P::Ptr::new(null_mut()),
        };
        let me = (&raw const node).cast_mut();
        // ORDER(enqueue): Release publishes the node to the successor, whose swap acquires it.
        let predecessor = self.tail.swap(me, Ordering::AcqRel);
        if !predecessor.is_null() {
            // ORDER(link): Release pairs with the Acquire in `next`; publishes this node.
            // SAFETY: the predecessor leaves its stack frame only after it has seen its `next`.
            unsafe { (*predecessor).next.store(me, Ordering::Release) };
            self.wait_for_head(&node);
        }
        self.compete(&node);
        self.leave_queue(&node);
    }

    /// Waits until `node` is the head of the queue; shuffles while it has that role.
    fn wait_for_head(&self, node: &Node<P>) {
        // Relaxed: only decides when to stop.
        let granted = || node.status.load(Ordering::Relaxed) == GRANTED;
        let looks = Self::looks();
        while !W::wait_turn::<P>(&node.status, looks, || node.is_shuffler() && node.may_advance()) {
            self.shuffle(node, granted);
        }
    }

    /// Waits at the head of the queue until the lock is acquired. A head that has lost to newcomers `patience` times
    /// sleeps no more, so that it sees the lock free as soon as they do; after `steal` times it closes the lock to
    /// them.
    fn compete(&self, node: &Node<P>) {
        let next = node.next();
        if !next.is_null() {
            // SAFETY: the next waiter stays until this one leaves the queue.
            W::nudge::<P>(unsafe { &(*next).status });
        }
        let (patience, most_steals) = (Self::chosen(Setting::Patience, PATIENCE), Self::most_steals());
        let looks = Self::looks();
        let (mut lost, mut closes) = (0, false);
        while !self.acquire_free() {
            // Relaxed: acquired with the grant, or this thread's own.
            let leads = node.is_shuffler() || node.batch.load(Ordering::Relaxed) == 0;
            let has_work = || leads && node.may_advance();
            if has_work() {
                // Relaxed: only decides when to stop.
                self.shuffle(node, || self.held.load(Ordering::Relaxed) == FREE);
                continue;
            }
            if lost >= most_steals && (1..WITHOUT_BOUND).contains(&most_steals) {
                closes = true;
                // Relaxed: a hint for fairness only.
                self.closed.store(1, Ordering::Relaxed);
            }
            if lost < patience {
                W::wait_free::<P>(&self.held, looks, has_work);
            } else {
                Spin::wait_free::<P>(&self.held, looks, has_work);
            }
            // The lock was free, and is lost if somebody else is faster now. A wait that ended for work counts as
            // well.
            lost = lost.saturating_add(1);
        }
        if closes {
            // Relaxed: a hint for fairness only.
            self.closed.store(0, Ordering::Relaxed);
        }
    }

    /// Makes the next waiter the head of the queue.
    fn leave_queue(&self, node: &Node<P>) {
        let mut next = node.next();
        if next.is_null() {
            let me = core::ptr::from_ref(node).cast_mut();
            // Relaxed: a thread that sees the null tail synchronises through `held`.
            if self.tail.compare_exchange(me, null_mut(), Ordering::Relaxed).is_ok() {
                return;
            }
            next = P::spin_map(|| Some(node.next()).filter(|next| !next.is_null()));
        }
        // SAFETY: the next waiter waits for the grant.
        let next = unsafe { &*next };
        if G::ALTERNATES {
            node.pass_batch_on::<G>(next);
        }
        W::grant::<P>(&next.status);
    }

    /// Walks the queue behind `node` and moves the waiters that the policy looks for directly behind the batch that it
    /// leads; hands the role of shuffler to the last of them. Ends there, at the end of the queue, or when `stop` says
    /// so.
    ///
    /// Only one waiter shuffles at a time: the role is handed on inside a batch, and a head outside any batch takes it
    /// up only when the batch before it has gone. All nodes behind the shuffler stay while it waits, and nobody else
    /// writes their `next`, except a newcomer that of the tail, which is never moved.
    #[cold]
    fn shuffle(&self, node: &Node<P>, stop: impl Fn() -> bool) {
        // Relaxed, like all accesses to the batch and its links below: they travel with the role, which is handed over
        // with Release and taken with Acquire, as is the turn at the head of the queue.
        let mut batch = node.batch_or_first::<G>();
        node.batch.store(batch, Ordering::Relaxed);
        let visited = node.last_visited.load(Ordering::Relaxed);
        let me: *const Node<P> = node;
        let (mut last, mut previous) = (me, if visited.is_null() { me } else { visited.cast_const() });
        while G::is_open::<P>(batch) && !stop() {
            // SAFETY: `last`, `previous` and all linked nodes behind them are this one or waiters behind it, which
            // stay.
            let (last_ref, candidate) = unsafe { (&*last, (*previous).next()) };
            if candidate.is_null() {
                break;
            }
            // SAFETY: a waiter behind this one, which stays.
            let candidate_ref = unsafe { &*candidate };
            let after = candidate_ref.next();
            if after.is_null() {
                break;
            }
            let Some(joined) = G::joined::<P>(batch, last_ref.attribute(), candidate_ref.attribute()) else {
                previous = candidate;
                continue;
            };
            batch = joined;
            candidate_ref.batch.store(batch, Ordering::Relaxed);
            W::nudge::<P>(&candidate_ref.status);
            if previous != last {
                // SAFETY: both nodes stay, and neither is the tail, since `candidate` follows both.
                unsafe {
                    (*previous).next.store(after, Ordering::Relaxed);
                    candidate_ref.next.store(last_ref.next(), Ordering::Relaxed);
                    last_ref.next.store(candidate, Ordering::Relaxed);
                }
            }
            if previous == last || G::ALTERNATES {
                previous = candidate;
            }
            last = candidate;
        }
        if last == me {
            node.last_visited.store(previous.cast_mut(), Ordering::Relaxed);
            node.shuffles.store(u32::from(G::is_open::<P>(batch)), Ordering::Relaxed);
            return;
        }
        node.shuffles.store(0, Ordering::Relaxed);
        // SAFETY: a waiter behind this one, which stays.
        let heir = unsafe { &*last };
        heir.last_visited.store(previous.cast_mut(), Ordering::Relaxed);
        // ORDER(role): Release pairs with the Acquire in `is_shuffler`; publishes the shuffled queue.
        heir.shuffles.store(1, Ordering::Release);
    }
}

impl<P: Platform> Node<P> {
    fn attribute(&self) -> u32 {
        // Relaxed: written before the node is linked.
        self.attribute.load(Ordering::Relaxed)
    }

    /// How far the batch has come with this waiter, which begins one if it is in none.
    fn batch_or_first<G: Policy>(&self) -> u32 {
        // Relaxed: the shuffler's own, or acquired with the turn at the head of the queue.
        match self.batch.load(Ordering::Relaxed) {
            0 => G::first::<P>(self.attribute()),
            batch => batch,
        }
    }

    /// Makes `next`, the waiter behind this head of the queue, go on with the batch if nobody behind does.
    fn pass_batch_on<G: Policy>(&self, next: &Node<P>) {
        // Relaxed: acquired with the turn, or this thread's own; the role publishes the new value.
        if self.batch.load(Ordering::Relaxed) == 0 || self.is_shuffler() {
            let batch = G::passed::<P>(self.batch_or_first::<G>(), next.attribute());
            next.batch.store(batch, Ordering::Relaxed);
            // ORDER(role): as in `shuffle`, for a `next` that takes the role up before the grant: a shuffler before
            // this one may have moved its link.
            next.shuffles.store(1, Ordering::Release);
        }
    }

    /// ORDER(role): Acquire pairs with the Release in `shuffle`.
    fn is_shuffler(&self) -> bool {
        self.shuffles.load(Ordering::Acquire) == 1
    }

    /// Whether there is a waiter that the shuffler has not looked at and that is not the tail.
    fn may_advance(&self) -> bool {
        // Relaxed: belongs to the shuffler, this thread.
        let visited = self.last_visited.load(Ordering::Relaxed);
        let previous = if visited.is_null() {
            self
        } else {
            // SAFETY: a waiter behind the shuffler, which stays while the shuffler waits.
            unsafe { &*visited }
        };
        let candidate = previous.next();
        // SAFETY: a waiter behind the shuffler, too.
        !candidate.is_null() && unsafe { !(*candidate).next().is_null() }
    }

    /// ORDER(link): Acquire pairs with the Release in `queue_as`; after a shuffle, with that of the role.
    fn next(&self) -> *mut Node<P> {
        self.next.load(Ordering::Acquire)
    }
}

// SAFETY: only an exchange that found FREE acquires; `unlock` writes FREE, its last access.
unsafe impl<P: Platform, G: Policy, W: Blocking, const STEAL: u32> RawLock<P> for Shfl<P, G, W, STEAL> {
    const INFO: LockInfo = LockInfo {
        id: match W::POLICY {
            WaitingPolicy::Spin => G::IDS[0],
            WaitingPolicy::SpinThenPark | WaitingPolicy::Adaptive => G::IDS[1],
        },
        family: Family::Shuffle,
        waiting: W::POLICY,
        fairness: if STEAL == WITHOUT_BOUND { Fairness::Unfair } else { Fairness::LongTerm },
        timed: Timed::Poll,
        summary: G::SUMMARY,
        paper: G::PAPER,
        asks: G::ASKS,
        by_priority: if STEAL != 0 { ByPriority::Barging } else { ByPriority::No },
        keeps_up: STEAL != 0,
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "steal",
            values: Values::Number(Setting::Steal, 0, WITHOUT_BOUND, "acquisitions"),
            default: Default::Number(STEAL),
            summary: "times that newcomers may take the lock from the head of the queue; 1000000: without bound",
            source: "Kashyap et al.: SOSP 2019, the authors' aqs.c (0) and aqm.c (without bound)",
        }],
        inside: &[G::PARAMETERS, W::OF_THE_HEAD, W::PARAMETERS],
    };
    type Ctx = ();

    fn new() -> Self {
        Shfl { held: P::U32::new(FREE), closed: P::U32::new(0), tail: P::Ptr::new(null_mut()), policy: PhantomData }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        if !self.acquire_unqueued() {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        W::release::<P>(&self.held);
    }
}

// SAFETY: acquires only from FREE.
unsafe impl<P: Platform, G: Policy, W: Blocking, const STEAL: u32> TryLock<P> for Shfl<P, G, W, STEAL> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.acquire_unqueued() || self.steal()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, G: Policy, W: Blocking, const STEAL: u32> TimedLock<P> for Shfl<P, G, W, STEAL> {}

impl<P: Platform, G, W, const STEAL: u32> IsHeld for Shfl<P, G, W, STEAL> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.held.load(Ordering::Relaxed) != FREE
    }
}
