//! Hapax lock (Dice, Kogan, PPoPP 2026).
//!
//!   arrive: C            departed: A, held        each arrival swaps a value of its own into `arrive`, and waits until
//!   A holds <- B waits for A <- C waits for B     `departed` shows the value that it found there
//!
//! What CLH does with addresses is done with values here, so that no thread ever follows a pointer into another one's
//! memory. A waiter does not watch the lock but a slot of a table that all locks share, picked by the value that it
//! waits for: a release bumps the slot of its own value, and whoever watches it looks at the lock again. Fairness:
//! first come, first served. Space: two words, plus one table per process. Hand-off: a store to the lock and one to
//! the slot. Waiters spin on different lines, unless their slots coincide.
//!
//! Deviations. The paper draws values that are never used again, from blocks that each thread allocates. Here a value
//! is the thread's number and a count one above that of the value in `departed`: it is unique among those that the
//! lock still knows, which is enough (see `HapaxLock::value`), and it needs no allocation. The holder's value is kept
//! in `departed`, where nobody waits for it any more, so that an acquisition needs no memory of its own. A slot is
//! bumped by adding to it, which changes it for sure.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform, SharedTable};

/// In `departed`: the value is the holder's, which has not departed yet.
const HELD: usize = 1;
/// What the count in a value is counted in.
const ONE: usize = 2;

/// The lock, over the number of bits of a value that lie below the thread's number: at least 2, one for HELD and one
/// for the count to alternate.
///
/// | departed            | meaning                                                        |
/// |---------------------|----------------------------------------------------------------|
/// | as `arrive`         | free                                                           |
/// | another value       | released; the thread that found this value in `arrive` is next |
/// | a value, HELD       | held by the thread of this value                               |
#[repr(C)]
pub struct HapaxLock<P: Platform, const COUNT_BITS: u32> {
    arrive: P::Usize,
    departed: P::Usize,
}

/// 56 bits remain for the thread's number, as many as a user address has.
pub type Hapax<P> = HapaxLock<P, 8>;

impl<P: Platform, const COUNT_BITS: u32> HapaxLock<P, COUNT_BITS> {
    /// The value of an arrival of this thread that has read `departed`: unlike any other that somebody might be
    /// waiting for. Another thread's has another number. A thread has no two arrivals waiting, and an earlier one has
    /// its value in `departed` until the thread that waits for that value has acquired the lock, and then nobody waits
    /// for it.
    #[inline]
    fn value(departed: usize) -> usize {
        let count = (departed & !HELD).wrapping_add(ONE) % (1 << COUNT_BITS);
        (P::thread() << COUNT_BITS) | count
    }

    /// The slot that is bumped after the departure of `value`.
    #[inline]
    fn slot(&self, value: usize) -> &'static P::Usize {
        let slots = P::slots(SharedTable::Waiters);
        let address = P::address(self);
        // The multiplier is 2^64 divided by the golden ratio: it spreads what is hashed over the upper bits.
        let hash = ((value >> COUNT_BITS) ^ address).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
        &slots[(hash >> (usize::BITS / 2)) % slots.len()]
    }

    #[inline]
    fn has_departed(&self, value: usize) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.departed.load(Ordering::Acquire) == value
    }

    #[inline]
    fn hold(&self, mine: usize) {
        // Relaxed: a thread that must not take this for an older value has acquired this thread's swap of `arrive`.
        self.departed.store(mine | HELD, Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn wait_for(&self, predecessor: usize) {
        let slot = self.slot(predecessor);
        loop {
            // ORDER(bump): Acquire pairs with the Release in `unlock`: if the bump is in `seen`, the value is in
            // `departed`; if not, the slot still changes.
            let seen = slot.load(Ordering::Acquire);
            if self.has_departed(predecessor) {
                return;
            }
            // Relaxed: followed by the load above.
            P::spin_map(|| (slot.load(Ordering::Relaxed) != seen).then_some(()));
        }
    }
}

// SAFETY: values in `arrive` form a chain; a thread holds the lock from when it sees the value before its own in
// `departed`, where a value appears once the thread it belongs to has released.
unsafe impl<P: Platform, const COUNT_BITS: u32> RawLock<P> for HapaxLock<P, COUNT_BITS> {
    const INFO: LockInfo = LockInfo {
        id: "hapax",
        family: Family::Queue,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Fifo,
        timed: Timed::Poll,
        summary: "a queue of values instead of nodes: waiters watch a table that all locks share",
        paper: "Dice, Kogan: PPoPP 2026",
        ..LockInfo::PLAIN
    };
    type Ctx = ();

    fn new() -> Self {
        HapaxLock { arrive: P::Usize::new(0), departed: P::Usize::new(0) }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // Relaxed: only values of this thread matter, which it has written or seen.
        let mine = Self::value(self.departed.load(Ordering::Relaxed));
        // ORDER(arrive): Release pairs with the Acquire of the next arrival, which so reads no older `departed` than
        // this thread has: one in which the value that it waits for is an earlier use of the same.
        let predecessor = self.arrive.swap(mine, Ordering::AcqRel);
        if !self.has_departed(predecessor) {
            self.wait_for(predecessor);
        }
        self.hold(mine);
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // Relaxed: the holder's own.
        let mine = self.departed.load(Ordering::Relaxed) & !HELD;
        let slot = self.slot(mine);
        // ORDER(hand-off): Release pairs with the Acquire in `has_departed`; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        self.departed.store(mine, Ordering::Release);
        // ORDER(bump): Release pairs with the Acquire in `wait_for`; publishes the store above.
        slot.fetch_add(1, Ordering::Release);
    }
}

// SAFETY: acquires only if the last arrival has departed, else waits its turn.
unsafe impl<P: Platform, const COUNT_BITS: u32> TryLock<P> for HapaxLock<P, COUNT_BITS> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // Relaxed: looked at again once this thread has arrived.
        let departed = self.departed.load(Ordering::Relaxed);
        let mine = Self::value(departed);
        // ORDER(arrive): as for the swap in `lock`.
        if !self.arrive.try_change(departed, mine, Ordering::AcqRel) {
            return false;
        }
        if !self.has_departed(departed) && !self.take_back(departed, mine) {
            return false;
        }
        self.hold(mine);
        true
    }
}

impl<P: Platform, const COUNT_BITS: u32> HapaxLock<P, COUNT_BITS> {
    /// Undoes an arrival behind a holder that has the value that had departed before: it has acquired the lock so
    /// often meanwhile that its count has come round. Returns whether the lock is held instead, because others have
    /// queued behind this arrival, which therefore had to wait.
    #[cold]
    #[inline(never)]
    fn take_back(&self, predecessor: usize, mine: usize) -> bool {
        // Relaxed: publishes nothing. `arrive` is only changed by read-modify-writes, so that the next arrival still
        // acquires what the predecessor's has released.
        if self.arrive.compare_exchange(mine, predecessor, Ordering::Relaxed).is_ok() {
            return false;
        }
        self.wait_for(predecessor);
        true
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const COUNT_BITS: u32> TimedLock<P> for HapaxLock<P, COUNT_BITS> {}

impl<P: Platform, const COUNT_BITS: u32> IsHeld for HapaxLock<P, COUNT_BITS> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.arrive.load(Ordering::Relaxed) != self.departed.load(Ordering::Relaxed)
    }
}
