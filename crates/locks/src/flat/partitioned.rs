//! Partitioned ticket lock (Dice, SPAA 2011), and Anderson's array lock (TPDS 1(1), 1990) as the same lock with a slot
//! for every waiter.
//!
//!   request: 7      grants: [4] [5] [6] [3]      ticket t is served when slot t mod 4 holds t: here 6
//!   mine: 6
//!
//! Fairness: first come, first served. Space: `SLOTS + 2` cache lines. Hand-off: one store to the slot of the next
//! ticket, which one waiter in `SLOTS` reads.
//!
//! `partitioned` has 8 slots: waiters of different tickets disturb each other little, and the lock stays small.
//! `alock-ls` has 64, one per CPU of the largest machine of the ATC 2016 study, so that each waiter watches a line of
//! its own.
//!
//! Deviations. Both: `try_lock` is exact, because tickets have 64 bits and never come back: a ticket whose grant was
//! seen is free as long as it has not been drawn. Array lock: a slot holds the ticket it grants instead of a flag that
//! the owner takes down again, so that waiters that are more than the slots share some, and nobody is granted the turn
//! of another one; no thread keeps its slot for itself from lock to unlock.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::line::Line;
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// The lock over the number of its slots, a power of two.
#[repr(C)]
pub struct GrantArray<P: Platform, const SLOTS: usize> {
    /// The next ticket.
    request: Line<P::Usize>,
    /// The holder's ticket.
    mine: Line<P::Usize>,
    /// The last ticket granted in each slot. At first all are 0, which grants ticket 0 and no other one.
    grants: [Line<P::Usize>; SLOTS],
}

/// The partitioned ticket lock with 8 slots: as the global lock of a cohort lock, which has at most 8 waiters, one for
/// each of its local locks, it lets each of them watch a slot of its own.
pub type Partitioned<P> = GrantArray<P, 8>;
/// Anderson's array lock.
pub type AlockLs<P> = GrantArray<P, 64>;

impl<P: Platform, const SLOTS: usize> GrantArray<P, SLOTS> {
    const IS_ARRAY_LOCK: bool = SLOTS > 8;

    #[inline]
    fn grant(&self, ticket: usize) -> &P::Usize {
        const { assert!(SLOTS.is_power_of_two()) };
        &self.grants[ticket & (SLOTS - 1)]
    }

    #[inline]
    fn is_granted(&self, ticket: usize) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.grant(ticket).load(Ordering::Acquire) == ticket
    }

    #[cold]
    #[inline(never)]
    fn wait_for(&self, ticket: usize) {
        P::spin_map(|| self.is_granted(ticket).then_some(()));
    }

    #[inline]
    fn keep(&self, ticket: usize) {
        // Relaxed: read by the holder only, or by a thread that the holder told to release the lock.
        self.mine.store(ticket, Ordering::Relaxed);
    }
}

// SAFETY: tickets are distinct, and each is granted once, by the holder of the ticket before.
unsafe impl<P: Platform, const SLOTS: usize> RawLock<P> for GrantArray<P, SLOTS> {
    const INFO: LockInfo = LockInfo {
        id: if Self::IS_ARRAY_LOCK { "alock-ls" } else { "partitioned" },
        family: Family::Flat,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Fifo,
        timed: Timed::Poll,
        summary: if Self::IS_ARRAY_LOCK {
            "a ticket lock whose waiters watch one slot each of a large array"
        } else {
            "a ticket lock whose waiters watch one of several slots, by their number"
        },
        paper: if Self::IS_ARRAY_LOCK { "Anderson: TPDS 1(1), 1990" } else { "Dice: SPAA 2011" },
        ..LockInfo::PLAIN
    };
    type Ctx = ();

    fn new() -> Self {
        let line = || Line(P::Usize::new(0));
        GrantArray { request: line(), mine: line(), grants: core::array::from_fn(|_| line()) }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // Relaxed: drawing a ticket publishes nothing; its atomicity makes it unique.
        let ticket = self.request.fetch_add(1, Ordering::Relaxed);
        if !self.is_granted(ticket) {
            self.wait_for(ticket);
        }
        self.keep(ticket);
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // Relaxed: written by the acquisition that ends here.
        let next = self.mine.load(Ordering::Relaxed) + 1;
        // ORDER(hand-off): Release pairs with the Acquire in `is_granted`; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        self.grant(next).store(next, Ordering::Release);
    }
}

// SAFETY: acquires only a ticket that has been granted and that nobody else has drawn.
unsafe impl<P: Platform, const SLOTS: usize> TryLock<P> for GrantArray<P, SLOTS> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // Relaxed: a ticket that is not the next any more fails the exchange.
        let ticket = self.request.load(Ordering::Relaxed);
        // Relaxed: the load in `is_granted` has synchronised with the last holder.
        let acquired =
            self.is_granted(ticket) && self.request.compare_exchange(ticket, ticket + 1, Ordering::Relaxed).is_ok();
        if acquired {
            self.keep(ticket);
        }
        acquired
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const SLOTS: usize> TimedLock<P> for GrantArray<P, SLOTS> {}

impl<P: Platform, const SLOTS: usize> IsHeld for GrantArray<P, SLOTS> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        let next = self.request.load(Ordering::Relaxed);
        self.grant(next).load(Ordering::Relaxed) != next
    }
}
