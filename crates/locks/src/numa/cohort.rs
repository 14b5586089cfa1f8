//! Lock cohorting (Dice, Marathe, Shavit, PPoPP 2012, section 2; TOPC 1(2), 2015, with C-PTL-TKT): a NUMA-aware lock
//! made of two others.
//!
//!   global lock                    one thread of one node holds it, for its whole node
//!   batch: node 0, 7 passes        which node that is, and how often it has passed the global lock on
//!   node 0: local [A holder]->[C]->[D]
//!   node 1: local [B leader]->[E]  B waits for the global lock, E for B
//!
//! A thread takes its node's local lock, then the global one, unless the thread before has left it to the node. The
//! holder leaves it to its node if somebody waits there, up to `batch` times in a row. Fairness: that of the global
//! lock between nodes, long-term if it serves nodes in order. Space: a cache line per node and those of the global
//! lock, outside the pthread object. Hand-off and waiting: those of the two locks.
//!
//! Deviations: a thread that sees its node's lock and the global one free takes the global one alone; with both, lock
//! and unlock took 1.2 to 1.8 times as long as glibc's where nobody competes. A waiter is overtaken thereby only
//! before it has asked for the global lock, and where that one lets threads overtake. The mark that the global lock
//! comes along is the number of the node that has it, on a line with the count of passes, for all local locks alike.
//! (The paper has the mark in the MCS node.) On the line of the local lock, to which arriving threads write, it took
//! 1.02 to 1.2 times as long in the simulator. The local lock is released before the global one, so that the last
//! access is the one that lets other nodes in.

use super::ENTRIES;
use crate::flat::{backoff::Backoff, partitioned::Partitioned, ticket::Ticket};
use crate::info::{Asks, Fairness, Family, LockInfo, Timed};
use crate::line::Line;
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::queue::barging::{Barging, PATIENCE};
use crate::queue::mcs::{McsSpin, McsStp};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::array;
use core::marker::PhantomData;
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// A lock whose holder can tell that somebody waits: what a local lock must offer.
///
/// # Safety
/// After a yes, the next to acquire is a thread that is waiting now; it does not give up.
pub unsafe trait DetectWaiters<P: Platform>: TryLock<P> + IsHeld {
    /// Whether somebody waits; no if in doubt.
    ///
    /// # Safety
    /// The lock is held through `cx`, and the caller has synchronised with its acquisition.
    unsafe fn has_waiters(&self, cx: &Self::Ctx) -> bool;
}

/// A lock that one thread may acquire and another one release, knowing nothing of the acquisition: what the global
/// lock must be.
pub trait ThreadOblivious<P: Platform>: TryLock<P, Ctx = ()> + IsHeld {}
impl<P: Platform, G: TryLock<P, Ctx = ()> + IsHeld> ThreadOblivious<P> for G {}

/// In place of a node: the holder has the global lock only, or nobody has it.
const ALONE: u32 = 0;

/// What the holder of the global lock keeps there. Accessed with Relaxed order, because the locks synchronise holders.
#[repr(C)]
struct Batch<P: Platform> {
    /// The entry of the node that has the global lock, plus one, which is not always that of the CPU that releases it;
    /// or [`ALONE`]. A node's number is written, and taken back, only by holders of its local lock: whoever has just
    /// acquired that one finds the number exactly if the thread before has left the global lock to the node.
    holder: P::U32,
    /// How often the node has passed the global lock on since it acquired it.
    passes: P::U32,
}

/// The lock over its global and local locks; a node passes the global lock on at most `BATCH` times in a row.
#[repr(C)]
pub struct Cohort<P: Platform, G, L, const BATCH: u32> {
    global: G,
    /// On a line of its own: threads that arrive write to those of the locks.
    batch: Line<Batch<P>>,
    local: [Line<L>; ENTRIES],
    platform: PhantomData<P>,
}

/// Back-off lock over MCS locks; batch as in the study (Guiroux, Lachaize, Quéma, ATC 2016).
pub type CBoMcsSpin<P> = Cohort<P, Backoff<P>, McsSpin<P>, 100>;
/// The same whose local waiters park.
pub type CBoMcsStp<P> = Cohort<P, Backoff<P>, McsStp<P>, 100>;
/// The same below a word that running threads may take.
pub type CBoMcsStpBarging<P> = Barging<P, CBoMcsStp<P>, PATIENCE>;
/// Partitioned ticket lock, with a slot for each node, over ticket locks.
pub type CPtlTkt<P> = Cohort<P, Partitioned<P>, Ticket<P>, 100>;
/// Ticket lock over ticket locks.
pub type CTktTkt<P> = Cohort<P, Ticket<P>, Ticket<P>, 100>;

impl<P: Platform, G, L, const BATCH: u32> Cohort<P, G, L, BATCH> {
    /// Acquires the lock as the next of its node.
    ///
    /// # Safety
    /// As for `lock`.
    #[inline]
    unsafe fn lock_both(&self, node: usize, cx: &L::Ctx)
    where
        G: ThreadOblivious<P>,
        L: DetectWaiters<P>,
    {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.local[node].lock(cx) };
        if self.batch.holder.load(Ordering::Relaxed) != node as u32 + 1 {
            // SAFETY: no context is needed.
            unsafe { self.global.lock(&()) };
            self.batch.holder.store(node as u32 + 1, Ordering::Relaxed);
            self.batch.passes.store(0, Ordering::Relaxed);
        }
    }
}

// SAFETY: whoever returns holds the global lock, or was left it by a thread that held it together with its local lock;
// that one makes the thread it is left to unique.
unsafe impl<P: Platform, G: ThreadOblivious<P>, L: DetectWaiters<P>, const BATCH: u32> RawLock<P>
    for Cohort<P, G, L, BATCH>
{
    const INFO: LockInfo = LockInfo {
        id: "cohort",
        family: Family::Numa,
        waiting: L::INFO.waiting,
        fairness: match G::INFO.fairness {
            Fairness::Unfair => Fairness::Unfair,
            _ => Fairness::LongTerm,
        },
        timed: Timed::Poll,
        summary: "a local lock per NUMA node below a global one, which stays with a node for a batch",
        paper: "Dice, Marathe, Shavit: PPoPP 2012; TOPC 1(2), 2015",
        asks: Asks::LOCALITY,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "batch",
            values: Values::Number(Setting::Batch, 0, 1_000_000_000, "hand-offs"),
            default: Default::Number(BATCH),
            summary: "hand-offs in a row inside a NUMA node",
            source: "Guiroux, Lachaize, Quema: ATC 2016, the authors' code",
        }],
        inside: &[G::PARAMETERS, L::PARAMETERS],
    };
    type Ctx = L::Ctx;

    fn new() -> Self {
        Cohort {
            global: G::new(),
            batch: Line(Batch { holder: P::U32::new(ALONE), passes: P::U32::new(0) }),
            local: array::from_fn(|_| Line(L::new())),
            platform: PhantomData,
        }
    }

    fn is_quiet(&self) -> bool {
        self.global.is_quiet() && self.local.iter().all(|local| local.is_quiet())
    }

    #[inline]
    unsafe fn lock(&self, cx: &L::Ctx) {
        let node = P::node() as usize % ENTRIES;
        // SAFETY: the caller keeps the contract of the call; the global lock needs no context.
        unsafe {
            if self.local[node].is_held() || !self.global.try_lock(&()) {
                self.lock_both(node, cx);
            }
        }
    }

    #[inline]
    unsafe fn unlock(&self, cx: &L::Ctx) {
        let batch = &self.batch.0;
        let Some(node) = batch.holder.load(Ordering::Relaxed).checked_sub(1) else {
            // LAST: the lock may be destroyed after this.
            // SAFETY: the thread holds the global lock.
            return unsafe { self.global.unlock(&()) };
        };
        let local = &self.local[node as usize].0;
        let passes = batch.passes.load(Ordering::Relaxed);
        // SAFETY: the holder of the lock holds the global one and its node's local one, this with `cx`.
        unsafe {
            if local.has_waiters(cx) && passes < Setting::Batch.number::<P>(BATCH) {
                batch.passes.store(passes + 1, Ordering::Relaxed);
                // LAST: the lock may be destroyed when the waiter has acquired.
                local.unlock(cx);
            } else {
                batch.holder.store(ALONE, Ordering::Relaxed);
                local.unlock(cx);
                // LAST: nobody acquires the lock before this, so that it still exists.
                self.global.unlock(&());
            }
        }
    }
}

// SAFETY: acquires through the global lock, without which the lock is not held.
unsafe impl<P: Platform, G: ThreadOblivious<P>, L: DetectWaiters<P>, const BATCH: u32> TryLock<P>
    for Cohort<P, G, L, BATCH>
{
    #[inline(always)]
    unsafe fn try_lock(&self, _: &L::Ctx) -> bool {
        // SAFETY: no context is needed. Whoever releases the global lock leaves `holder` at ALONE.
        unsafe { self.global.try_lock(&()) }
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, G: ThreadOblivious<P>, L: DetectWaiters<P>, const BATCH: u32> TimedLock<P>
    for Cohort<P, G, L, BATCH>
{
}

impl<P: Platform, G: IsHeld, L, const BATCH: u32> IsHeld for Cohort<P, G, L, BATCH> {
    #[inline]
    fn is_held(&self) -> bool {
        self.global.is_held()
    }
}
