//! HMCS, the hierarchical MCS lock (Chabbi, Fagan, Mellor-Crummey, PPoPP 2015, sections 4 and 5).
//!
//!   root          [node 0, granted]->[node 1, waits]                the queue of the outer groups: NUMA nodes, say
//!                  |                  |
//!   outer groups  [cache 0, 2nd]->[cache 3]  [cache 5, first]       for each a queue of its inner groups: caches, say
//!                  |               |          |
//!   inner groups  [A holder, 7th]->[B]  [C]  [D]->[E]               for each a queue of threads
//!
//! A thread acquires its inner group's queue, then that of the outer group, then the root; it waits in each behind
//! others of the same group. The holder passes the lock, and with it the places of its group higher up, to the next
//! thread of its inner group, `threshold` acquisitions in a row; then it releases the outer group's queue, in which
//! the next inner group has its turn, up to `outer-threshold` in a row, before the root is released. So short
//! hand-offs are most frequent, and long ones least; an outer group may keep the lock for the product of the two.
//!
//! The levels are those of the machine ([`Platform::hierarchy`]): three where last-level caches lie in NUMA nodes, or
//! nodes in packages, and several of both; else the inner groups are right below the root. That is looked up by each
//! acquisition: a queue notes where its place above is, so that nothing breaks when the answer changes.
//!
//! Fairness: long-term; each queue is first come, first served. Hand-off: one store inside an inner group. Each waiter
//! spins on its own line. Space: half a cache line for each group and one line for the root, outside the pthread
//! object, plus a queue node per acquisition that lives until the release. There are queues for [`INNER`] inner and
//! [`OUTER`] outer groups; where a machine has more, neighbours share one.
//!
//! What shares a line: the end of a queue, to which arriving threads write, and its place above, on which its first
//! thread spins; a line for each was no faster in the simulator, because a group whose first thread waits has few
//! arrivals. And two groups where there are more than half as many as queues: with 32 caches on 2 x EPYC 7742 a line
//! for each made 256 threads as fast, 70 threads 1.2 times; 16 queues of a line each took more memory and were 0.78
//! times as fast.
//!
//! Deviations: a thread that sees nobody enqueues its own queue node at the root, as in AHMCS, the authors' later
//! lock: with two levels four atomic exchanges took 2.0 times as long as glibc's lock and unlock where nobody
//! competes. A queue node names the queue that it is in, because the thread may release the lock on another CPU.
//!
//! A group's place above is used again by its next first thread. That is why a level is released before the one below
//! it, as in the paper: the next first thread comes up only when nobody looks at the place any more. The price is that
//! a releasing thread touches the lock after another group may have acquired it, which `is_quiet` tells.

use super::level::{HNode, QNode, ACQUIRE_PARENT, COHORT_START};
use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::line::Line;
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::array::from_fn;
use core::marker::PhantomData;
use core::ptr;
use lockswap_platform::{Hierarchy, Native, Platform};

/// Inner groups with a queue of their own: a power of two.
pub const INNER: usize = 32;
/// Outer groups with a queue of their own: a power of two.
pub const OUTER: usize = 8;

/// The queues of two groups. Where there are no more groups than pairs, only one of the two is used.
type Pair<P> = Line<[HNode<P>; 2]>;
const _: () = assert!(size_of::<Pair<Native>>() == 64);

/// The queue of the group with this number.
fn of_group<P: Platform>(pairs: &[Pair<P>], number: u32) -> &HNode<P> {
    let number = number as usize;
    &pairs[number % pairs.len()].0[number / pairs.len() % 2]
}

/// The bounds of a lock, and where its threads are.
pub trait Form: Send + Sync + 'static {
    /// Acquisitions in a row inside an inner group, and of inner groups inside an outer one; at least 1.
    const THRESHOLDS: [u32; 2];
    /// The groups of the calling thread.
    #[inline]
    fn place<P: Platform>() -> Hierarchy {
        P::hierarchy()
    }
}

/// The parameters of a lock with these bounds.
pub(super) const fn parameters<F: Form>() -> Parameters {
    Parameters {
        own: const {
            &[
                Parameter {
                    key: "threshold",
                    values: Values::Number(Setting::Threshold, 1, 1_000_000_000, "acquisitions"),
                    default: Default::Number(F::THRESHOLDS[0]),
                    summary: "acquisitions in a row inside a last-level cache, or a NUMA node of one",
                    source: "Guiroux, Lachaize, Quema: ATC 2016, the authors' code",
                },
                Parameter {
                    key: "outer-threshold",
                    values: Values::Number(Setting::OuterThreshold, 1, 1_000_000_000, "turns"),
                    default: Default::Number(F::THRESHOLDS[1]),
                    summary: "turns in a row of caches inside a NUMA node, or of nodes inside a package",
                    source:
                        "as the threshold below: Chabbi, Fagan, Mellor-Crummey, PPoPP 2015, have one for each level",
                },
            ]
        },
        inside: &[],
    }
}

/// On the machine as it is, with the threshold of the study (Guiroux, Lachaize, Quéma, ATC 2016) at each level.
pub struct Machine;
impl Form for Machine {
    const THRESHOLDS: [u32; 2] = [100, 100];
}

/// Where an acquisition begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Level {
    Inner,
    /// Only on a machine with three levels.
    Outer,
    Root,
}

/// The queues of a lock.
#[repr(C)]
pub(super) struct Tree<P: Platform, F> {
    root: Line<HNode<P>>,
    outer: [Pair<P>; OUTER / 2],
    inner: [Pair<P>; INNER / 2],
    form: PhantomData<F>,
}

impl<P: Platform, F: Form> Tree<P, F> {
    pub(super) fn new() -> Self {
        let pair = |_| Line([HNode::new(), HNode::new()]);
        Tree { root: Line(HNode::new()), outer: from_fn(pair), inner: from_fn(pair), form: PhantomData }
    }

    /// Whether a thread at `place` would meet nobody, neither in its group's queue nor at the root.
    #[inline]
    pub(super) fn looks_empty(&self, place: Hierarchy) -> bool {
        self.root.looks_empty() && of_group(&self.inner, place.inner).looks_empty()
    }

    /// Acquires the lock for a thread at `place`, from `level` on.
    ///
    /// # Safety
    /// As for [`RawLock::lock`].
    #[inline]
    pub(super) unsafe fn acquire_from(&self, level: Level, place: Hierarchy, cx: &QNode<P>) {
        let (root, inner) = (&self.root.0, of_group(&self.inner, place.inner));
        let outer = place.outer.map(|number| of_group(&self.outer, number));
        // SAFETY: the caller keeps the contract of the call.
        unsafe {
            match (level, outer) {
                (Level::Root, _) => Self::acquire(&[root], cx),
                (Level::Outer, Some(outer)) => Self::acquire(&[outer, root], cx),
                (_, Some(outer)) => Self::acquire(&[inner, outer, root], cx),
                (_, None) => Self::acquire(&[inner, root], cx),
            }
        }
    }

    /// Acquires the first node of `path`, and all above it unless a thread of the same group leaves them to this one.
    ///
    /// # Safety
    /// `cx` is in no queue. The lock exists.
    unsafe fn acquire(path: &[&HNode<P>], cx: &QNode<P>) {
        let Some((h, above)) = path.split_first() else { return };
        // SAFETY: the caller keeps the contract of the call; the place in the parent's queue belongs to the first of
        // this one.
        unsafe {
            if cx.enqueue(h) == ACQUIRE_PARENT {
                cx.start_cohort();
                Self::acquire(above, h.node());
            }
        }
    }

    /// Acquires the lock if nobody holds it.
    ///
    /// # Safety
    /// As for [`TryLock::try_lock`].
    #[inline]
    pub(super) unsafe fn try_acquire(&self, cx: &QNode<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { cx.enqueue_alone(&self.root) }
    }

    /// Whether the release of a lock that was acquired from `level` on is sure to grant it to a thread that waits
    /// behind.
    ///
    /// # Safety
    /// As for [`RawLock::has_heir`].
    #[inline]
    pub(super) unsafe fn has_heir(&self, level: Level, cx: &QNode<P>) -> bool {
        cx.has_next() && (level == Level::Root || cx.status() < Self::threshold(level))
    }

    /// Releases the lock, which was acquired from `level` on, if that is the root and nobody waits there.
    ///
    /// # Safety
    /// As for [`RawLock::unlock_alone`].
    #[inline]
    pub(super) unsafe fn unlock_alone(&self, level: Level, cx: &QNode<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        level == Level::Root && unsafe { cx.leave_alone() }
    }

    /// Releases the lock, which was acquired from `level` on; if that is the root, somebody waits there.
    ///
    /// # Safety
    /// As for [`RawLock::hand_over`].
    #[inline]
    pub(super) unsafe fn hand_over(&self, level: Level, cx: &QNode<P>) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe {
            match level {
                // LAST: the lock may be destroyed when the waiter has acquired.
                Level::Root => cx.leave_to_next(COHORT_START),
                _ => self.release(level, cx),
            }
        }
    }

    /// Passes the lock on inside the queue of `cx`, which is one of `level`. If nobody waits there, or the turn of its
    /// group is over, releases the queue above, then this one.
    ///
    /// # Safety
    /// `cx` is the first of its queue, and the queues above are held, too.
    unsafe fn release(&self, level: Level, cx: &QNode<P>) {
        let (in_a_row, next) = (cx.status(), cx.next());
        // SAFETY: the caller keeps the contract of the call; the next one waits, and the place in the queue above
        // belongs to the holder.
        unsafe {
            if in_a_row < Self::threshold(level) && !next.is_null() {
                // LAST: the lock may be destroyed when the waiter has acquired.
                return (*next).grant(in_a_row + 1);
            }
            let place = cx.home().node();
            if self.is_at_root(place) {
                place.leave(COHORT_START);
            } else {
                self.release(Level::Outer, place);
            }
            // Others may hold the lock now, but it is not quiet, because `cx` is still in its queue.
            // LAST: the lock may be destroyed after this.
            cx.leave(ACQUIRE_PARENT);
        }
    }

    fn threshold(level: Level) -> u32 {
        match level {
            Level::Inner => Setting::Threshold.number::<P>(F::THRESHOLDS[0]),
            _ => Setting::OuterThreshold.number::<P>(F::THRESHOLDS[1]),
        }
    }

    /// Whether the node is in the queue of the root.
    ///
    /// # Safety
    /// It is in a queue of this lock.
    #[inline]
    pub(super) unsafe fn is_at_root(&self, node: &QNode<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        ptr::eq(unsafe { node.home() }, &raw const self.root.0)
    }

    pub(super) fn is_quiet(&self) -> bool {
        self.inner.iter().chain(&self.outer).flat_map(|pair| &pair.0).all(HNode::is_quiet)
    }

    #[inline]
    pub(super) fn is_held(&self) -> bool {
        !self.root.looks_empty()
    }
}

/// The lock.
#[repr(transparent)]
pub struct HmcsLock<P: Platform, F> {
    tree: Tree<P, F>,
}

/// The lock on the machine as it is.
pub type Hmcs<P> = HmcsLock<P, Machine>;

// SAFETY: the holder is the first of the root's queue, or of a queue whose place above is: each queue has one first.
unsafe impl<P: Platform, F: Form> RawLock<P> for HmcsLock<P, F> {
    const INFO: LockInfo = LockInfo {
        id: "hmcs",
        family: Family::Numa,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "a tree of MCS queues, one for each group of CPUs at each of two or three levels",
        paper: "Chabbi, Fagan, Mellor-Crummey: PPoPP 2015, sec. 4",
        asks: Asks::LOCALITY,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = parameters::<F>();
    type Ctx = QNode<P>;

    fn new() -> Self {
        HmcsLock { tree: Tree::new() }
    }

    fn is_quiet(&self) -> bool {
        self.tree.is_quiet()
    }

    #[inline]
    unsafe fn lock(&self, cx: &QNode<P>) {
        let place = F::place::<P>();
        let level = if self.tree.looks_empty(place) { Level::Root } else { Level::Inner };
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.tree.acquire_from(level, place, cx) };
    }

    #[inline]
    unsafe fn unlock(&self, cx: &QNode<P>) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe {
            let level = self.level_of(cx);
            if !self.tree.unlock_alone(level, cx) {
                self.tree.hand_over(level, cx);
            }
        }
    }

    #[inline]
    unsafe fn has_heir(&self, cx: &QNode<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.tree.has_heir(self.level_of(cx), cx) }
    }

    #[inline]
    unsafe fn unlock_alone(&self, cx: &QNode<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.tree.unlock_alone(self.level_of(cx), cx) }
    }

    #[inline]
    unsafe fn hand_over(&self, cx: &QNode<P>) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.tree.hand_over(self.level_of(cx), cx) };
    }
}

impl<P: Platform, F: Form> HmcsLock<P, F> {
    /// Where the acquisition of `cx` began.
    ///
    /// # Safety
    /// The lock is held through `cx`.
    #[inline]
    unsafe fn level_of(&self, cx: &QNode<P>) -> Level {
        // SAFETY: the caller keeps the contract of the call.
        if unsafe { self.tree.is_at_root(cx) } {
            Level::Root
        } else {
            Level::Inner
        }
    }
}

// SAFETY: acquires if the root's queue is empty, as it is where nobody holds, acquires or releases the lock.
unsafe impl<P: Platform, F: Form> TryLock<P> for HmcsLock<P, F> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &QNode<P>) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.tree.try_acquire(cx) }
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, F: Form> TimedLock<P> for HmcsLock<P, F> {}

impl<P: Platform, F: Form> IsHeld for HmcsLock<P, F> {
    #[inline]
    fn is_held(&self) -> bool {
        self.tree.is_held()
    }
}
