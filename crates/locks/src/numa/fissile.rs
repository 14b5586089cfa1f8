//! Fissile lock (Dice, Kogan, NETYS 2020): a test-and-set word in front of a CNA lock.
//!
//!   held: FREE | HELD                 the lock proper: whoever swaps it holds the lock
//!   impatient: 0 | 1                  1: the head of the queue has waited long enough, nobody may barge in
//!   queue ------------------------+
//!   [A head]->[B]->[C]                a CNA lock; its holder, the head, competes for `held`
//!
//! A newcomer takes a free word at once. Else it acquires the CNA lock, waits for the word, takes it, and releases the
//! CNA lock before its critical section, so that its queue node lives on its stack. Newcomers may pass the head by
//! while it is patient; then they join the queue. Fairness: long-term. Space: two words. Hand-off: the head sees the
//! word free. Waiters spin on their own lines, the head on the lock's.
//!
//! Deviation: impatience is a word of its own, so that a release is one store. A newcomer that has read the word
//! before the head became impatient may still pass, once.

use super::cna::{Cna, Node};
use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};

const FREE: u32 = 0;
const HELD: u32 = 1;

const PATIENT: u32 = 0;
const IMPATIENT: u32 = 1;

/// The lock; the head of the queue is patient for `PATIENCE` rounds of spinning.
#[repr(C)]
pub struct FissileLock<P: Platform, const PATIENCE: u32> {
    held: P::U32,
    impatient: P::U32,
    queue: Cna<P>,
}

/// The patience is about 1 us on the machines this was tuned on: some hand-offs between CPUs.
pub type Fissile<P> = FissileLock<P, 50>;

impl<P: Platform, const PATIENCE: u32> FissileLock<P, PATIENCE> {
    #[inline]
    fn acquire_free(&self) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.held.try_change(FREE, HELD, Ordering::Acquire)
    }

    #[inline]
    fn barge(&self) -> bool {
        // Relaxed, like every access to `impatient`: fairness depends on it, nothing else.
        self.impatient.load(Ordering::Relaxed) == PATIENT && self.acquire_free()
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        let node = Node::new();
        // SAFETY: a fresh node that stays until the CNA lock is released, and then nobody looks at it.
        unsafe { self.queue.lock(&node) };
        let acquire = || self.acquire_free().then_some(());
        if P::spin_map_bounded(Setting::Patience.number::<P>(PATIENCE), acquire).is_none() {
            self.impatient.store(IMPATIENT, Ordering::Relaxed);
            P::spin_map(acquire);
            self.impatient.store(PATIENT, Ordering::Relaxed);
        }
        // SAFETY: held through this node. The lock's memory stays: this thread holds the lock.
        unsafe { self.queue.unlock(&node) };
    }
}

// SAFETY: only an exchange that found FREE acquires; `unlock` writes FREE, its last access.
unsafe impl<P: Platform, const PATIENCE: u32> RawLock<P> for FissileLock<P, PATIENCE> {
    const INFO: LockInfo = LockInfo {
        id: "fissile",
        family: Family::Numa,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "test-and-set while that suffices; under contention a CNA queue that newcomers pass within bounds",
        paper: "Dice, Kogan: NETYS 2020",
        asks: Asks::LOCALITY,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "patience",
            values: Values::Number(Setting::Patience, 0, 1_000_000, "looks"),
            default: Default::Number(PATIENCE),
            summary: "looks of the head of the queue at the lock before newcomers may not pass it any more",
            source: "about 1 us, some hand-offs between CPUs, on the machines that this was tuned on",
        }],
        inside: &[<Cna<P> as RawLock<P>>::PARAMETERS],
    };
    type Ctx = ();

    fn new() -> Self {
        FissileLock { held: P::U32::new(FREE), impatient: P::U32::new(PATIENT), queue: RawLock::new() }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        if !self.barge() {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        self.held.store(FREE, Ordering::Release);
    }
}

// SAFETY: acquires only from FREE.
unsafe impl<P: Platform, const PATIENCE: u32> TryLock<P> for FissileLock<P, PATIENCE> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.barge()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const PATIENCE: u32> TimedLock<P> for FissileLock<P, PATIENCE> {}

impl<P: Platform, const PATIENCE: u32> IsHeld for FissileLock<P, PATIENCE> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.held.load(Ordering::Relaxed) != FREE
    }
}
