//! AHMCS, the adaptive hierarchical MCS lock (Chabbi, Mellor-Crummey, PPoPP 2016): HMCS whose threads begin higher up
//! where the levels below have not paid off.
//!
//!   root          [T straight, holder]->[node 1]
//!                                        |
//!   outer groups                        [cache 5]->[U]        U begins at its outer group
//!                                        |
//!   inner groups                        [D]->[E]              see hmcs.rs
//!
//! Where nobody is to be seen, a thread enqueues its own queue node at the root, which is as cheap as MCS. Otherwise
//! it begins where the last release by its inner group says:
//!
//! | what a release sees                                                        | the group begins next time |
//! |----------------------------------------------------------------------------|----------------------------|
//! | below the root: nobody in the queue before or behind it, others in that of the parent | one level higher |
//! | above the inner group: two or more behind it                               | one level lower            |
//! | anything else                                                              | as before                  |
//!
//! Fairness, space and waiting: as HMCS, and one line more. A `try_lock` goes straight to the root, too: a thread that
//! tries before it queues, as the preload library does, passes by a leader that has not woken up yet.
//!
//! Deviations: the paper keeps the beginning for each thread and lock. A lock has no place for each thread; here there
//! is one for each inner group, whose threads see the same queues. The paper moves one level up for a thread that has
//! waited for others at the parent and left the lock to others there; here the second is enough, which is to be seen
//! at the release.

use super::hmcs::{parameters, Form, Level, Machine, Tree, INNER};
use super::level::{QNode, COHORT_START};
use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::line::Line;
use crate::parameters::Parameters;
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use core::array::from_fn;
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// The queue node of one acquisition.
#[repr(C)]
pub struct Node<P: Platform> {
    queue: QNode<P>,
    /// The inner group of the thread, and the [`Level`] where it began. Relaxed: they belong to the acquisition.
    group: P::U32,
    began: P::U32,
}

impl<P: Platform> Node<P> {
    #[inline]
    fn began(&self) -> Level {
        Level::of(self.began.load(Ordering::Relaxed))
    }
}

impl<P: Platform> Context for Node<P> {
    fn new() -> Self {
        Node { queue: Context::new(), group: P::U32::new(0), began: P::U32::new(0) }
    }
}

impl Level {
    fn of(number: u32) -> Self {
        match number {
            0 => Level::Inner,
            1 => Level::Outer,
            _ => Level::Root,
        }
    }
}

/// The lock.
#[repr(C)]
pub struct AhmcsLock<P: Platform, F> {
    tree: Tree<P, F>,
    /// The [`Level`] where the threads of each inner group begin. Relaxed: a hint.
    begins: Line<[P::U8; INNER]>,
}

/// The lock on the machine as it is.
pub type Ahmcs<P> = AhmcsLock<P, Machine>;

impl<P: Platform, F: Form> AhmcsLock<P, F> {
    fn begins(&self, group: u32) -> &P::U8 {
        &self.begins.0[group as usize % INNER]
    }

    /// Learns from the queues that the holder sees where its group should begin next time.
    ///
    /// # Safety
    /// The lock is held through `cx`.
    #[inline]
    unsafe fn learn(&self, cx: &Node<P>) {
        let began = cx.began();
        let next = cx.queue.next();
        // SAFETY: the caller keeps the contract of the call; a waiter's node stays until it is granted its turn.
        let better = unsafe {
            if began != Level::Inner && !next.is_null() && !(*next).next().is_null() {
                if began == Level::Root {
                    Level::Outer
                } else {
                    Level::Inner
                }
            } else if began != Level::Root && next.is_null() && cx.queue.status() == COHORT_START {
                let place = cx.queue.home().node();
                if place.next().is_null() {
                    return;
                }
                if self.tree.is_at_root(place) {
                    Level::Root
                } else {
                    Level::Outer
                }
            } else {
                return;
            }
        };
        let begins = self.begins(cx.group.load(Ordering::Relaxed));
        if begins.load(Ordering::Relaxed) != better as u8 {
            begins.store(better as u8, Ordering::Relaxed);
        }
    }
}

// SAFETY: each acquisition is released from the level on where it began, else as HMCS.
unsafe impl<P: Platform, F: Form> RawLock<P> for AhmcsLock<P, F> {
    const INFO: LockInfo = LockInfo {
        id: "ahmcs",
        family: Family::Numa,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "HMCS whose threads skip the queues of their groups where these have not paid off",
        paper: "Chabbi, Mellor-Crummey: PPoPP 2016",
        asks: Asks::LOCALITY,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = parameters::<F>();
    type Ctx = Node<P>;

    fn new() -> Self {
        AhmcsLock { tree: Tree::new(), begins: Line(from_fn(|_| P::U8::new(Level::Inner as u8))) }
    }

    fn is_quiet(&self) -> bool {
        self.tree.is_quiet()
    }

    #[inline]
    unsafe fn lock(&self, cx: &Node<P>) {
        let place = F::place::<P>();
        let level = if self.tree.looks_empty(place) {
            Level::Root
        } else {
            match Level::of(self.begins(place.inner).load(Ordering::Relaxed).into()) {
                Level::Outer if place.outer.is_none() => Level::Inner,
                level => level,
            }
        };
        cx.group.store(place.inner, Ordering::Relaxed);
        cx.began.store(level as u32, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.tree.acquire_from(level, place, &cx.queue) };
    }

    #[inline]
    unsafe fn has_heir(&self, cx: &Node<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.tree.has_heir(cx.began(), &cx.queue) }
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &Node<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.tree.unlock_alone(cx.began(), &cx.queue) }
    }

    #[inline]
    unsafe fn hand_over(&self, cx: &Node<P>) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe {
            self.learn(cx);
            self.tree.hand_over(cx.began(), &cx.queue);
        }
    }
}

// SAFETY: the root's queue is empty where nobody holds, acquires or releases the lock.
unsafe impl<P: Platform, F: Form> TryLock<P> for AhmcsLock<P, F> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &Node<P>) -> bool {
        cx.group.store(F::place::<P>().inner, Ordering::Relaxed);
        cx.began.store(Level::Root as u32, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.tree.try_acquire(&cx.queue) }
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, F: Form> TimedLock<P> for AhmcsLock<P, F> {}

impl<P: Platform, F: Form> IsHeld for AhmcsLock<P, F> {
    #[inline]
    fn is_held(&self) -> bool {
        self.tree.is_held()
    }
}
