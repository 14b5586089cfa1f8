//! TWA, a ticket lock with a waiting array (Dice, Kogan, Euro-Par 2019, listing 1).
//!
//!   next ----+    [T served]  [T+1 watches serving]  [T+2, T+3 ... watch one slot each of the waiting array]
//!   serving -+    waiting array: a table for all locks of the process; a slot counts up when somebody may move closer
//!
//! Fairness: first come, first served. Space: two words, and the table. Hand-off: one store that only the waiters
//! close by read, then one addition to the slot of the waiter that is close by now. A slot may serve several waiters,
//! also of other locks: its change makes a waiter look at `serving`, no more.
//!
//! Deviations: slots lie 15 words apart for consecutive tickets, so that neighbours do not share a cache line.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform, SharedTable};

/// Slots between those of consecutive tickets: odd, so that all slots are used, and more than a cache line of words.
const STRIDE: usize = 15;
/// Spreads addresses over the table: 2^64 divided by the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

/// The lock; tickets wrap around, which is sound for fewer than 2^32 waiters. Waiters with at most `NEAR` tickets
/// ahead of them watch the lock itself.
#[repr(C)]
pub struct TwaLock<P: Platform, const NEAR: u32> {
    next: P::U32,
    serving: P::U32,
}

/// The published threshold: only the next in line watches the lock.
pub type Twa<P> = TwaLock<P, 1>;

/// The slot of ticket `number` of the lock at `address`, which need not exist any more.
#[inline]
fn slot<P: Platform>(address: usize, number: u32) -> &'static P::Usize {
    let slots = P::slots(SharedTable::Waiters);
    let start = ((address as u64).wrapping_mul(SPREAD) >> 32) as usize;
    // The table is a power of two long.
    &slots[start.wrapping_add((number as usize).wrapping_mul(STRIDE)) & (slots.len() - 1)]
}

impl<P: Platform, const NEAR: u32> TwaLock<P, NEAR> {
    fn address(&self) -> usize {
        P::address(self)
    }

    #[inline]
    fn ahead_of(&self, number: u32) -> u32 {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        number.wrapping_sub(self.serving.load(Ordering::Acquire))
    }

    #[cold]
    #[inline(never)]
    fn wait_for(&self, number: u32) {
        let near = Setting::Near.number::<P>(NEAR);
        if self.ahead_of(number) > near {
            self.come_near(number, near);
        }
        P::spin_map(|| (self.ahead_of(number) == 0).then_some(()));
    }

    /// Waits until at most `near` tickets are ahead, and looks at `serving` only after a change of the slot that is
    /// counted up then.
    fn come_near(&self, number: u32, near: u32) {
        let slot = slot::<P>(self.address(), number.wrapping_sub(near).wrapping_add(NEAR));
        let mut seen = None;
        P::spin_map(|| {
            // ORDER(approach): Acquire pairs with the Release in `unlock`: who sees the slot counted up for its ticket
            // sees the number served that came before. The slot is read before `serving`, so that none is missed.
            let count = slot.load(Ordering::Acquire);
            if seen.replace(count) == Some(count) {
                return None;
            }
            (self.ahead_of(number) <= near).then_some(())
        });
    }
}

// SAFETY: tickets are distinct and `serving` shows each once, after the holder before has released.
unsafe impl<P: Platform, const NEAR: u32> RawLock<P> for TwaLock<P, NEAR> {
    const INFO: LockInfo = LockInfo {
        id: "twa",
        family: Family::Flat,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Fifo,
        timed: Timed::Poll,
        summary: "a ticket lock whose distant waiters watch a table that all locks share",
        paper: "Dice, Kogan: Euro-Par 2019, listing 1",
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "near",
            values: Values::Number(Setting::Near, 1, 1_000_000, "tickets"),
            default: Default::Number(NEAR),
            summary: "waiters with at most so many tickets ahead watch the lock, the others the waiting array",
            source: "Dice, Kogan: Euro-Par 2019, listing 1",
        }],
        inside: &[],
    };
    type Ctx = ();

    fn new() -> Self {
        TwaLock { next: P::U32::new(0), serving: P::U32::new(0) }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // Relaxed: drawing a number publishes nothing; its atomicity makes it unique.
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        if self.ahead_of(mine) != 0 {
            self.wait_for(mine);
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        let address = self.address();
        // Relaxed: only the holder writes `serving`.
        let served = self.serving.load(Ordering::Relaxed).wrapping_add(1);
        // ORDER(hand-off): Release pairs with the Acquire in `lock` and `try_lock`; publishes the critical section.
        // LAST: the lock may be destroyed after this store; the slot lives as long as the process.
        self.serving.store(served, Ordering::Release);
        // ORDER(approach): Release pairs with the Acquire in `come_near`; publishes the store above. Nobody can tell
        // whether the waiter exists without looking at the lock again, so the slot is always counted up.
        slot::<P>(address, served.wrapping_add(NEAR)).fetch_add(1, Ordering::Release);
    }
}

// SAFETY: the number being served is drawn only if it is still the next one.
unsafe impl<P: Platform, const NEAR: u32> TryLock<P> for TwaLock<P, NEAR> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        let serving = self.serving.load(Ordering::Acquire);
        // Relaxed: `serving` never passes `next`, so if `next` is still `serving`, nobody has drawn or released since
        // the load above, which has synchronised with the last holder.
        self.next.try_change(serving, serving.wrapping_add(1), Ordering::Relaxed)
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const NEAR: u32> TimedLock<P> for TwaLock<P, NEAR> {}

impl<P: Platform, const NEAR: u32> IsHeld for TwaLock<P, NEAR> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.next.load(Ordering::Relaxed) != self.serving.load(Ordering::Relaxed)
    }
}
