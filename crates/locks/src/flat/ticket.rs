//! Ticket lock (Reed, Kanodia, CACM 22(2), 1979; Mellor-Crummey, Scott, TOCS 9(1), 1991, section 2.2), plain and with
//! back-off in proportion to the distance (`ticket-ls`, as in libslock: David, Guerraoui, Trigonakis, SOSP 2013).
//!
//!   next ----+      a thread draws a ticket from `next` and enters when `serving` shows its number
//!   serving -+      next == serving: free
//!
//! Fairness: first come, first served. Space: two words. Hand-off: one store that every waiter reads; with back-off
//! only the next waiter reads it soon.
//!
//! Deviations of `ticket-ls`: cycles are counted in pauses, and after 64 looks (130 us at most on the machines this
//! was tuned on) the wait goes on as any other, with yields and naps.

use super::CYCLES_PER_PAUSE;
use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::numa::cohort::DetectWaiters;
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// Back-off of the next in line, pauses.
const NEXT_IN_LINE: u32 = 128 / CYCLES_PER_PAUSE;
/// How many threads ahead count at most: the published limit of 4095 cycles is 8 times the base.
const MOST_AHEAD: u32 = 8;

/// The lock; tickets wrap around, which is sound for fewer than 2^32 waiters. A waiter looks `LOOKS` times, with
/// `BASE` pauses per thread ahead of it after each look, before it just watches.
#[repr(C)]
pub struct TicketLock<P: Platform, const BASE: u32, const LOOKS: u32> {
    next: P::U32,
    serving: P::U32,
}

/// Waiters watch the number being served.
pub type Ticket<P> = TicketLock<P, 0, 0>;
/// Waiters stay away for 512 cycles per thread ahead.
pub type TicketLs<P> = TicketLock<P, { 512 / CYCLES_PER_PAUSE }, 64>;

impl<P: Platform, const BASE: u32, const LOOKS: u32> TicketLock<P, BASE, LOOKS> {
    #[inline]
    fn ahead_of(&self, number: u32) -> u32 {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        number.wrapping_sub(self.serving.load(Ordering::Acquire))
    }

    #[cold]
    #[inline(never)]
    fn wait_for(&self, number: u32) {
        if LOOKS != 0 && self.wait_backing_off(number) {
            return;
        }
        P::spin_map(|| (self.ahead_of(number) == 0).then_some(()));
    }

    /// Looks `LOOKS` times. Returns whether the ticket is served.
    fn wait_backing_off(&self, number: u32) -> bool {
        let base = Setting::Base.number::<P>(BASE);
        for _ in 0..LOOKS {
            match self.ahead_of(number) {
                0 => return true,
                1 => P::relax(NEXT_IN_LINE.min(base)),
                ahead => P::relax(ahead.min(MOST_AHEAD) * base),
            }
        }
        false
    }

    /// Whether somebody has drawn a ticket behind the holder's. Only the holder asks.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        // Relaxed: only the holder writes `serving`; a waiter that is missed is found by a later holder.
        self.next.load(Ordering::Relaxed) != self.serving.load(Ordering::Relaxed).wrapping_add(1)
    }
}

// SAFETY: tickets are distinct and `serving` shows each once, after the holder before has released.
unsafe impl<P: Platform, const BASE: u32, const LOOKS: u32> RawLock<P> for TicketLock<P, BASE, LOOKS> {
    const INFO: LockInfo = LockInfo {
        id: if LOOKS == 0 { "ticket" } else { "ticket-ls" },
        family: Family::Flat,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Fifo,
        timed: Timed::Poll,
        summary: if LOOKS == 0 {
            "threads draw numbers and are served in order"
        } else {
            "a ticket lock whose waiters look the less often the further back they are"
        },
        paper: if LOOKS == 0 { "Reed, Kanodia: CACM 22(2), 1979" } else { "David, Guerraoui, Trigonakis: SOSP 2013" },
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: if LOOKS == 0 {
            &[]
        } else {
            &[Parameter {
                key: "base",
                values: Values::Number(Setting::Base, 0, 100_000, "pauses"),
                default: Default::Number(BASE),
                summary: "back-off of a waiter after each look, for each thread ahead of it",
                source: "libslock: 512 cycles for ticket-ls, 120 for hticket-ls; a pause is taken for 40",
            }]
        },
        inside: &[],
    };
    type Ctx = ();

    fn new() -> Self {
        TicketLock { next: P::U32::new(0), serving: P::U32::new(0) }
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
        // Relaxed: only the holder writes `serving`.
        let mine = self.serving.load(Ordering::Relaxed);
        // ORDER(hand-off): Release pairs with the Acquire in `lock` and `try_lock`; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        self.serving.store(mine.wrapping_add(1), Ordering::Release);
    }
}

// SAFETY: the number being served is drawn only if it is still the next one.
unsafe impl<P: Platform, const BASE: u32, const LOOKS: u32> TryLock<P> for TicketLock<P, BASE, LOOKS> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        let serving = self.serving.load(Ordering::Acquire);
        // Relaxed: `serving` never passes `next`, so if `next` is still `serving`, nobody has drawn or released since
        // the load above, which has synchronised with the last holder.
        self.next.try_change(serving, serving.wrapping_add(1), Ordering::Relaxed)
    }
}

// SAFETY: a ticket that has been drawn is served by the next `unlock`.
unsafe impl<P: Platform, const BASE: u32, const LOOKS: u32> DetectWaiters<P> for TicketLock<P, BASE, LOOKS> {
    #[inline]
    unsafe fn has_waiters(&self, (): &()) -> bool {
        self.is_awaited()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const BASE: u32, const LOOKS: u32> TimedLock<P> for TicketLock<P, BASE, LOOKS> {}

impl<P: Platform, const BASE: u32, const LOOKS: u32> IsHeld for TicketLock<P, BASE, LOOKS> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.next.load(Ordering::Relaxed) != self.serving.load(Ordering::Relaxed)
    }
}
