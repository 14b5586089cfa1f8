//! RON-ticket (Lo et al., OSDI 2023, algorithm 2): RON for more threads than CPUs; those on one CPU queue up.
//!
//!   nWait:      the holder and all waiters | ROUTED
//!   WaitArray:  [0: ticket 4, grant 4]->[1: ticket 9, grant 7]-> ...     one element for each CPU, in TSP order
//!
//! A thread that is not alone draws a ticket on its CPU. The holder looks through WaitArray in TSP order, from the
//! element where it was granted the lock itself, and grants it to the next ticket of the first CPU with waiters.
//! Fairness: while somebody waits on a CPU, each other CPU gets the lock at most once before this one does, and a
//! CPU's threads are served in order. Space: a word, and two for each CPU. Waiters watch the element of their CPU; one
//! that is not the next there offers the CPU to others at each look. `per-line` is as in [`super::ron`].
//!
//! Why nobody is lost or passed: nWait tells a release exactly whether somebody waits, or is about to draw a ticket,
//! for which the release then waits, as in the paper. A thread finds nWait 0 only if nobody waits.
//!
//! Deviations. A thread's TSP_ID is read when it draws its ticket, not once in its life. The element where the lock is
//! on its way has a mark, HERE, so that a holder that has moved goes on from there; nWait says by ROUTED whether there
//! is one, which spares a holder that found the lock free a look at all elements. Tickets begin with 0, not 1.

use super::{per_line, tsp_order, PerCpu, ROOM_FOR_PAIRS};
use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::Parameters;
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// An element of WaitArray.
#[repr(C)]
struct TicketLock<P: Platform> {
    /// Tickets drawn.
    ticket: P::U32,
    /// Tickets that were granted the lock, times [`GRANT`], and [`HERE`]. Only holders write it.
    grant: P::U32,
}

/// In nWait: an element has the mark [`HERE`], because the holder was granted the lock. Only holders write it. Where
/// it is all that is left, the holder is about to remove both.
const ROUTED: u32 = 1;
/// In nWait: one thread.
const ONE: u32 = 2;

/// The holder was granted the lock here.
const HERE: u32 = 1;
/// One ticket.
const GRANT: u32 = 2;

/// The lock. Numbers wrap around, which is sound for fewer than 2^31 waiters.
#[repr(C)]
pub struct Queues<P: Platform, const N: usize> {
    n_wait: P::U32,
    wait_array: PerCpu<TicketLock<P>, N>,
}

/// WaitArray has an element for each CPU.
pub type RonTicket<P> = Queues<P, ROOM_FOR_PAIRS>;

impl<P: Platform, const N: usize> Queues<P, N> {
    /// `spin_lock` of the paper, lines 7 to 11.
    #[cold]
    #[inline(never)]
    fn wait(&self) {
        let TicketLock { ticket, grant } = self.wait_array.at::<P>(P::rank() as usize);
        // Relaxed: a ticket publishes nothing; that the addition is atomic makes it unique.
        let mine = ticket.fetch_add(1, Ordering::Relaxed);
        P::spin_map(|| {
            // ORDER(grant): Acquire pairs with the Release in `hand_over`.
            let granted = grant.load(Ordering::Acquire) / GRANT;
            // One that is not the next here lets another thread of this CPU run.
            let turns_left = mine.wrapping_add(1).wrapping_sub(granted) % (u32::MAX / GRANT + 1);
            if turns_left > 1 {
                P::yield_cpu();
            }
            (turns_left == 0).then_some(())
        });
    }

    /// `spin_unlock` of the paper, lines 14 to 19: nWait was `n_wait`, because somebody waits, or this holder was
    /// granted the lock.
    #[cold]
    #[inline(never)]
    fn hand_over(&self, n_wait: u32) {
        // Relaxed, here and below: only holders write `grant` and ROUTED, and each has synchronised with the one
        // before.
        let holders = |tsp_id: &usize| {
            let grant = &self.wait_array.at::<P>(*tsp_id).grant;
            let found = grant.load(Ordering::Relaxed);
            if found & HERE != 0 {
                grant.store(found - HERE, Ordering::Relaxed);
            }
            found & HERE != 0
        };
        let mut at = P::rank() as usize;
        if n_wait & ROUTED == 0 {
            // This holder found the lock free, and begins the way at its CPU.
            self.n_wait.fetch_or(ROUTED, Ordering::Relaxed);
        } else {
            // The lock goes on from where its holder was granted it: nearly always the CPU that the holder is still
            // on.
            at = tsp_order::<P>(at).find(holders).unwrap_or(at);
            // ORDER(hand-off): Release pairs with the Acquire in `lock` and `try_lock`; publishes that the mark is
            // gone. LAST: the lock may be destroyed after this exchange. If it fails, somebody has come.
            if n_wait == ONE | ROUTED && self.n_wait.try_change(ROUTED, 0, Ordering::Release) {
                return;
            }
        }
        // Relaxed: any number of tickets that is not that of grants tells of a waiter.
        let has_waiter = |tsp_id: &usize| {
            let TicketLock { ticket, grant } = self.wait_array.at::<P>(*tsp_id);
            ticket.load(Ordering::Relaxed).wrapping_mul(GRANT) != grant.load(Ordering::Relaxed)
        };
        let next = P::spin_map(|| tsp_order::<P>(at + 1).find(has_waiter));
        let grant = &self.wait_array.at::<P>(next).grant;
        let granted = grant.load(Ordering::Relaxed).wrapping_add(GRANT);
        // ORDER(grant): Release pairs with the Acquire in `wait`; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        grant.store(granted + HERE, Ordering::Release);
    }
}

// SAFETY: the thread that raised nWait from 0 is the holder, and each holder that does not lower it to 0 makes one
// waiter the next.
unsafe impl<P: Platform, const N: usize> RawLock<P> for Queues<P, N> {
    const INFO: LockInfo = LockInfo {
        id: "ron-ticket",
        family: Family::Routed,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "the lock travels along a route through the CPUs; on each, its waiters are served in order",
        paper: "Lo et al.: OSDI 2023, alg. 2",
        asks: Asks::ROUTE,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters { own: &[per_line::<[u32; 2]>()], inside: &[] };
    type Ctx = ();

    fn new() -> Self {
        let element = || TicketLock { ticket: P::U32::new(0), grant: P::U32::new(0) };
        Queues { n_wait: P::U32::new(0), wait_array: PerCpu::new(element) }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // Line 6.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock` or `hand_over` that made nWait 0.
        if self.n_wait.fetch_add(ONE, Ordering::Acquire) != 0 {
            self.wait();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // Line 13.
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this access if nWait was ONE.
        let n_wait = self.n_wait.fetch_sub(ONE, Ordering::Release);
        if n_wait != ONE {
            self.hand_over(n_wait);
        }
    }
}

// SAFETY: acquires only if nobody holds the lock or waits.
unsafe impl<P: Platform, const N: usize> TryLock<P> for Queues<P, N> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // ORDER(hand-off): as in `lock`.
        self.n_wait.try_change(0, ONE, Ordering::Acquire)
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const N: usize> TimedLock<P> for Queues<P, N> {}

impl<P: Platform, const N: usize> IsHeld for Queues<P, N> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.n_wait.load(Ordering::Relaxed) != 0
    }
}
