//! ShflLock (Kashyap, Calciu, Cheng, Min, Kim, SOSP 2019), NUMA policy; spinning and blocking flavours.
//!
//!   held: FREE | HELD                 the lock proper: whoever swaps it holds the lock
//!   tail ---------------------+
//!   [A head]->[B]->[C]->[D tail]      an MCS queue of waiters; only its head competes for `held`
//!
//! One waiter at a time is the shuffler: while it waits it moves waiters of its own group (here: its NUMA node) directly
//! behind the group that it leads, and hands its role to the last of them. Fairness: long-term, by a bound on the size of
//! a batch; a newcomer may take a free lock while nobody queues (in the blocking flavour also while
//! somebody does). Space: two words; a waiter's node lives on its stack and
//! leaves the queue before the critical section. Hand-off: the head sees the lock free and swaps it.
//!
//! Deviation: stealing is allowed while `tail` is null instead of by a flag of its own, which says the same with one write
//! less on each entry to and exit from the queue.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::waiting::{Spin, SpinThenPark, Waiting, GRANTED, SPINS_BEFORE_PARK, WAITING};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use core::ptr::null_mut;
use lockswap_platform::{AtomicInt, AtomicPtrCell, Ordering, Platform};

/// Most waiters in a batch (paper, section 4.2).
pub const MAX_SHUFFLES: u32 = 1024;

/// How often the head of the queue may lose to newcomers before it stops sleeping.
const PATIENCE: u32 = 8;

/// | held      | holder | head of the queue |
/// |-----------|--------|-------------------|
/// | FREE      | no     | awake             |
/// | HELD      | yes    | awake             |
/// | HEAD_ASLEEP | yes  | parked, or about to (blocking flavour) |
const FREE: u32 = 0;
const HELD: u32 = 1;
const HEAD_ASLEEP: u32 = 2;

/// Which waiters a shuffler brings together.
pub trait Group: Send + Sync + 'static {
    /// The group of the calling thread.
    fn mine<P: Platform>() -> u32;
}

/// Waiters on the same NUMA node.
pub struct SameNode;

impl Group for SameNode {
    fn mine<P: Platform>() -> u32 {
        P::node()
    }
}

/// How the head of the queue waits for the lock, and how the lock is released.
pub trait Blocking: Waiting {
    /// Whether a newcomer may take a free lock while others queue. Where the head of the queue may be asleep, the lock
    /// would otherwise be idle until it has woken up.
    const STEALS_FROM_QUEUE: bool;
    /// Waits until `status` is granted, which it returns, or, as long as this thread is awake, until `has_work` says so.
    fn wait_turn<P: Platform>(status: &P::U32, has_work: impl Fn() -> bool) -> bool;
    /// Waits until the lock looks free, or, as long as this thread is awake, until `has_work` says so.
    fn wait_free<P: Platform>(held: &P::U32, has_work: impl Fn() -> bool);
    /// Marks the lock free; the lock's memory may be gone when this returns.
    fn release<P: Platform>(held: &P::U32);
}

/// Whether it is the waiter's turn, or else whether it has work; nothing if neither.
fn turn_or_work<P: Platform>(status: &P::U32, has_work: &impl Fn() -> bool) -> Option<bool> {
    // ORDER(head): Acquire pairs with the Release in `Waiting::grant`.
    let granted = status.load(Ordering::Acquire) == GRANTED;
    (granted || has_work()).then_some(granted)
}

impl Blocking for Spin {
    const STEALS_FROM_QUEUE: bool = false;

    fn wait_turn<P: Platform>(status: &P::U32, has_work: impl Fn() -> bool) -> bool {
        P::spin_map(|| turn_or_work::<P>(status, &has_work))
    }

    #[inline]
    fn wait_free<P: Platform>(held: &P::U32, has_work: impl Fn() -> bool) {
        // Relaxed: the swap that follows acquires.
        P::spin_map(|| (held.load(Ordering::Relaxed) == FREE || has_work()).then_some(()));
    }

    #[inline]
    fn release<P: Platform>(held: &P::U32) {
        // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        held.store(FREE, Ordering::Release);
    }
}

impl Blocking for SpinThenPark {
    const STEALS_FROM_QUEUE: bool = true;

    fn wait_turn<P: Platform>(status: &P::U32, has_work: impl Fn() -> bool) -> bool {
        P::spin_map_bounded(SPINS_BEFORE_PARK, || turn_or_work::<P>(status, &has_work)).unwrap_or_else(|| {
            Self::wait::<P>(status);
            true
        })
    }

    fn wait_free<P: Platform>(held: &P::U32, has_work: impl Fn() -> bool) {
        // Relaxed throughout: the swap that follows acquires.
        let free = || held.load(Ordering::Relaxed) == FREE;
        if P::spin_map_bounded(SPINS_BEFORE_PARK, || (free() || has_work()).then_some(())).is_some() {
            return;
        }
        while !free() {
            let asleep = held.compare_exchange(HELD, HEAD_ASLEEP, Ordering::Relaxed);
            if asleep != Err(FREE) {
                P::park(held, HEAD_ASLEEP, None);
            }
        }
    }

    #[inline]
    fn release<P: Platform>(held: &P::U32) {
        let address: *const P::U32 = held;
        // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
        // LAST: the lock may be destroyed after this swap; the wake-up uses the address only.
        if held.swap(FREE, Ordering::Release) == HEAD_ASLEEP {
            P::unpark(address, 1);
        }
    }
}

/// A waiter. The fields behind `status` belong to the shuffler: they are written by the waiter before it is linked, by
/// whoever is the shuffler, and travel with that role.
struct Node<P: Platform> {
    next: P::Ptr<Node<P>>,
    status: P::U32,
    group: P::U32,
    /// Size of the batch up to this waiter; 0: in no batch.
    batch: P::U32,
    /// 1: this waiter is the shuffler.
    shuffles: P::U32,
    /// Where the shuffler goes on looking; null: behind itself.
    last_visited: P::Ptr<Node<P>>,
}

/// The lock, over the waiters that it brings together and the way that they wait.
#[repr(C)]
pub struct Shfl<P: Platform, G, W> {
    held: P::U32,
    tail: P::Ptr<Node<P>>,
    policy: PhantomData<(G, W)>,
}

/// The spinning flavour.
pub type ShflLock<P> = Shfl<P, SameNode, Spin>;
/// The blocking flavour.
pub type ShflLockB<P> = Shfl<P, SameNode, SpinThenPark>;

impl<P: Platform, G: Group, W: Blocking> Shfl<P, G, W> {
    #[inline]
    fn acquire_free(&self) -> bool {
        // Relaxed: only decides whether the exchange is worth its price.
        // ORDER(hand-off): Acquire pairs with the Release in `Blocking::release`.
        self.held.load(Ordering::Relaxed) == FREE && self.held.compare_exchange(FREE, HELD, Ordering::Acquire).is_ok()
    }

    #[inline]
    fn steal(&self) -> bool {
        // Relaxed: a hint for fairness only.
        (W::STEALS_FROM_QUEUE || self.tail.load(Ordering::Relaxed).is_null()) && self.acquire_free()
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        let node = Node::<P> {
            next: P::Ptr::new(null_mut()),
            status: P::U32::new(WAITING),
            group: P::U32::new(G::mine::<P>()),
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
        while !W::wait_turn::<P>(&node.status, || node.is_shuffler() && node.may_advance()) {
            self.shuffle(node, granted);
        }
    }

    /// Waits at the head of the queue until the lock is acquired. A head that has lost to newcomers [`PATIENCE`] times
    /// sleeps no more, so that it sees the lock free as soon as they do.
    fn compete(&self, node: &Node<P>) {
        let next = node.next();
        if !next.is_null() {
            // SAFETY: the next waiter stays until this one leaves the queue.
            W::nudge::<P>(unsafe { &(*next).status });
        }
        let mut lost = 0;
        while !self.acquire_free() {
            // Relaxed: acquired with the grant, or this thread's own.
            let leads = node.is_shuffler() || node.batch.load(Ordering::Relaxed) == 0;
            let has_work = || leads && node.may_advance();
            if has_work() {
                // Relaxed: only decides when to stop.
                self.shuffle(node, || self.held.load(Ordering::Relaxed) == FREE);
            } else if lost < PATIENCE {
                W::wait_free::<P>(&self.held, has_work);
                lost += 1;
            } else {
                Spin::wait_free::<P>(&self.held, has_work);
            }
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
        W::grant::<P>(unsafe { &(*next).status });
    }

    /// Walks the queue behind `node` and moves waiters of its group directly behind the batch that it leads; hands the
    /// role of shuffler to the last of them. Ends there, at the end of the queue, or when `stop` says so.
    ///
    /// Only one waiter shuffles at a time: the role is handed on inside a batch, and a head outside any batch takes it
    /// up only when the batch before it has gone. All nodes behind the shuffler stay while it waits, and nobody else
    /// writes their `next`, except a newcomer that of the tail, which is never moved.
    #[cold]
    fn shuffle(&self, node: &Node<P>, stop: impl Fn() -> bool) {
        // Relaxed throughout: these fields travel with the role, which is handed over with Release and taken with
        // Acquire, as is the turn at the head of the queue.
        let mut batch = node.batch.load(Ordering::Relaxed).max(1);
        node.batch.store(batch, Ordering::Relaxed);
        let group = node.group.load(Ordering::Relaxed);
        let visited = node.last_visited.load(Ordering::Relaxed);
        let me: *const Node<P> = node;
        let (mut last, mut previous) = (me, if visited.is_null() { me } else { visited.cast_const() });
        while batch < MAX_SHUFFLES && !stop() {
            // SAFETY: `previous` and all linked nodes behind it are waiters behind this one, which stay.
            let candidate = unsafe { (*previous).next() };
            if candidate.is_null() {
                break;
            }
            // SAFETY: as above.
            let candidate_ref = unsafe { &*candidate };
            let after = candidate_ref.next();
            if after.is_null() {
                break;
            }
            if candidate_ref.group.load(Ordering::Relaxed) != group {
                previous = candidate;
                continue;
            }
            batch += 1;
            candidate_ref.batch.store(batch, Ordering::Relaxed);
            if previous != last {
                // SAFETY: as above; neither `previous` nor `last` is the tail, since `candidate` follows both.
                unsafe {
                    (*previous).next.store(after, Ordering::Relaxed);
                    candidate_ref.next.store((*last).next(), Ordering::Relaxed);
                    (*last).next.store(candidate, Ordering::Relaxed);
                }
            } else {
                previous = candidate;
            }
            last = candidate;
        }
        if last == me {
            node.last_visited.store(previous.cast_mut(), Ordering::Relaxed);
            node.shuffles.store(u32::from(batch < MAX_SHUFFLES), Ordering::Relaxed);
            return;
        }
        node.shuffles.store(0, Ordering::Relaxed);
        // SAFETY: as above.
        let heir = unsafe { &*last };
        heir.last_visited.store(previous.cast_mut(), Ordering::Relaxed);
        // ORDER(role): Release pairs with the Acquire in `wait_for_head`; publishes the shuffled queue.
        heir.shuffles.store(1, Ordering::Release);
    }
}

impl<P: Platform> Node<P> {
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
        // SAFETY: as above.
        !candidate.is_null() && unsafe { !(*candidate).next().is_null() }
    }

    /// ORDER(link): Acquire pairs with the Release in `lock_contended`; after a shuffle, with that of the role.
    fn next(&self) -> *mut Node<P> {
        self.next.load(Ordering::Acquire)
    }
}

// SAFETY: only an exchange that found FREE acquires; `unlock` writes FREE, its last access.
unsafe impl<P: Platform, G: Group, W: Blocking> RawLock<P> for Shfl<P, G, W> {
    const INFO: LockInfo = LockInfo {
        id: match W::POLICY {
            WaitingPolicy::Spin => "shfllock",
            WaitingPolicy::SpinThenPark | WaitingPolicy::Adaptive => "shfllock-b",
        },
        family: Family::Shuffle,
        waiting: W::POLICY,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "waiters of one NUMA node are brought together in the queue by the waiters themselves",
        paper: "Kashyap, Calciu, Cheng, Min, Kim: SOSP 2019",
    };
    type Ctx = ();

    fn new() -> Self {
        Shfl { held: P::U32::new(FREE), tail: P::Ptr::new(null_mut()), policy: PhantomData }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        if !self.steal() {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        W::release::<P>(&self.held);
    }
}

// SAFETY: acquires only from FREE.
unsafe impl<P: Platform, G: Group, W: Blocking> TryLock<P> for Shfl<P, G, W> {
    #[inline]
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.steal()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, G: Group, W: Blocking> TimedLock<P> for Shfl<P, G, W> {}

impl<P: Platform, G, W> IsHeld for Shfl<P, G, W> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: the answer says nothing about what the lock protects.
        self.held.load(Ordering::Relaxed) != FREE
    }
}
