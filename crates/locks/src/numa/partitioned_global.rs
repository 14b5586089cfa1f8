//! Partitioned ticket lock (Dice, SPAA 2011) with a slot per NUMA node: the global lock of C-PTL-TKT.
//!
//!   request: 6     slots: [0 | 1 | 2 | 3 | 4 | 5 | . | .]     the holder of ticket 5 stores 6 into slot 6 % 8
//!
//! A thread draws a ticket and waits until its slot, the ticket modulo the number of slots, shows it. At most one thread
//! of each node waits, so that each watches a line of its own. Fairness: first come, first served. Space: a line and one
//! per slot. Tickets have a word's width and do not come round.

use super::ENTRIES;
use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::line::Line;
use crate::{IsHeld, RawLock, TryLock};
use core::array;
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// The lock.
#[repr(C)]
pub struct PartitionedGlobal<P: Platform> {
    /// The next ticket.
    request: P::Usize,
    /// The holder's ticket; belongs to the holder.
    holder: P::Usize,
    grants: [Line<P::Usize>; ENTRIES],
}

impl<P: Platform> PartitionedGlobal<P> {
    fn slot(&self, ticket: usize) -> &P::Usize {
        &self.grants[ticket % ENTRIES].0
    }

    fn is_granted(&self, ticket: usize) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.slot(ticket).load(Ordering::Acquire) == ticket
    }
}

// SAFETY: tickets are distinct, and each is granted once, by the holder of the one before.
unsafe impl<P: Platform> RawLock<P> for PartitionedGlobal<P> {
    const INFO: LockInfo = LockInfo {
        id: "partitioned",
        family: Family::Flat,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Fifo,
        timed: Timed::Poll,
        summary: "a ticket lock whose tickets are granted in slots of their own",
        paper: "Dice: SPAA 2011",
    };
    type Ctx = ();

    fn new() -> Self {
        PartitionedGlobal {
            request: P::Usize::new(0),
            holder: P::Usize::new(0),
            grants: array::from_fn(|_| Line(P::Usize::new(0))),
        }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // Relaxed: drawing a ticket publishes nothing; its atomicity makes it unique.
        let mine = self.request.fetch_add(1, Ordering::Relaxed);
        P::spin_map(|| self.is_granted(mine).then_some(()));
        // Relaxed: the field belongs to the holder.
        self.holder.store(mine, Ordering::Relaxed);
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // Relaxed: as in `lock`.
        let next = self.holder.load(Ordering::Relaxed).wrapping_add(1);
        // ORDER(hand-off): Release pairs with the Acquire in `is_granted`; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        self.slot(next).store(next, Ordering::Release);
    }
}

// SAFETY: a ticket that is granted is drawn only if it is still the next one.
unsafe impl<P: Platform> TryLock<P> for PartitionedGlobal<P> {
    unsafe fn try_lock(&self, (): &()) -> bool {
        // Relaxed: `is_granted` has synchronised with the last holder, and the exchange finds out whether there has been
        // another one since.
        let next = self.request.load(Ordering::Relaxed);
        let acquired = self.is_granted(next)
            && self.request.compare_exchange(next, next.wrapping_add(1), Ordering::Relaxed).is_ok();
        if acquired {
            self.holder.store(next, Ordering::Relaxed);
        }
        acquired
    }
}

impl<P: Platform> IsHeld for PartitionedGlobal<P> {
    fn is_held(&self) -> bool {
        // Relaxed: the answer says nothing about what the lock protects.
        let next = self.request.load(Ordering::Relaxed);
        self.slot(next).load(Ordering::Relaxed) != next
    }
}
