//! Hierarchical ticket lock (David, Guerraoui, Trigonakis, SOSP 2013, section 4.1; a cohort lock of ticket locks after
//! Dice, Marathe, Shavit, PPoPP 2012).
//!
//!   global ticket lock:   [node 0 holds] [node 1 waits] [node 3 waits]      one ticket per node, of its first thread
//!   node 0, ticket lock:  [A holds] [B waits] [C waits]     left: 126 acquisitions before the next node's turn
//!
//! The holder passes the lock to the next ticket of its node, up to [`HTicketLs`]'s 128 acquisitions in a row; then,
//! or if nobody of its node waits, it gives up the global lock. Waiters of both levels back off in proportion to their
//! distance. Fairness: long-term; first come, first served inside a node and among nodes. Space: two cache lines
//! for the global lock and one per node. Hand-off: one store inside a node, two between nodes.
//!
//! Deviations: a lock that nobody has or waits for is acquired with a global ticket alone, which makes the uncontended
//! path short and `try_lock` exact (the published lock has none). A batch is a count of its own beside two plain
//! ticket locks, instead of tickets that count down to it. A node gives up its local lock before the global one, so
//! that the store that lets others in is the last access; the local waiter that comes first then queues for the global
//! lock.

use super::ENTRIES;
use crate::flat::ticket::TicketLock;
use crate::flat::CYCLES_PER_PAUSE;
use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::line::Line;
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// Each level, with 120 cycles of back-off per thread ahead.
type Level<P> = TicketLock<P, { 120 / CYCLES_PER_PAUSE }, 256>;

/// The holder has no local ticket, or there is no holder.
const NO_NODE: u32 = 0;

/// What the holder of the global lock keeps there. Accessed with Relaxed order, because the ticket locks synchronise
/// holders.
#[repr(C)]
struct Batch<P: Platform> {
    /// The holder's node plus one if it has a local ticket, else [`NO_NODE`]. A node's number is written, and taken
    /// back, only by holders of its local ticket: whoever has just been served there finds the number exactly if the
    /// thread before has passed the global lock on.
    holder: P::U32,
    /// How often the node may still acquire, the holder included.
    left: P::U32,
}

/// The lock. `NODES`, a power of two, is the capacity: of more nodes, neighbours share a local lock. `BATCH`, at least
/// 1, bounds the acquisitions in a row of a node.
#[repr(C)]
pub struct HTicket<P: Platform, const NODES: usize, const BATCH: u32> {
    global: Line<Level<P>>,
    /// On a line of its own: threads that arrive write to those of the ticket locks.
    batch: Line<Batch<P>>,
    nodes: [Line<Level<P>>; NODES],
}

/// The published batch.
pub type HTicketLs<P> = HTicket<P, ENTRIES, 128>;

impl<P: Platform, const NODES: usize, const BATCH: u32> HTicket<P, NODES, BATCH> {
    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        let node = P::node() as usize % NODES;
        // SAFETY: ticket locks need no context; each is released in `unlock_node`.
        unsafe {
            self.nodes[node].lock(&());
            if self.batch.holder.load(Ordering::Relaxed) != node as u32 + 1 {
                self.global.lock(&());
                self.batch.holder.store(node as u32 + 1, Ordering::Relaxed);
                self.batch.left.store(Setting::Batch.number::<P>(BATCH), Ordering::Relaxed);
            }
        }
    }

    /// Releases the lock of a holder that has a ticket of `node`.
    #[cold]
    #[inline(never)]
    fn unlock_node(&self, node: usize) {
        let local = &self.nodes[node];
        let left = self.batch.left.load(Ordering::Relaxed) - 1;
        // SAFETY: the caller holds both ticket locks.
        unsafe {
            if left != 0 && local.is_awaited() {
                self.batch.left.store(left, Ordering::Relaxed);
                // LAST: the next thread of the node has both locks after this.
                local.unlock(&());
            } else {
                self.batch.holder.store(NO_NODE, Ordering::Relaxed);
                local.unlock(&());
                // LAST: the lock may be destroyed after this.
                self.global.unlock(&());
            }
        }
    }
}

// SAFETY: the holder holds the global ticket lock, or was passed it by a holder together with the local one.
unsafe impl<P: Platform, const NODES: usize, const BATCH: u32> RawLock<P> for HTicket<P, NODES, BATCH> {
    const INFO: LockInfo = LockInfo {
        id: "hticket-ls",
        family: Family::Numa,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "a ticket lock per NUMA node under a global one, which a node keeps for a batch of acquisitions",
        paper: "David, Guerraoui, Trigonakis: SOSP 2013, section 4.1",
        asks: Asks::LOCALITY,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "batch",
            values: Values::Number(Setting::Batch, 1, 1_000_000_000, "acquisitions"),
            default: Default::Number(BATCH),
            summary: "most acquisitions in a row of a NUMA node",
            source: "libslock",
        }],
        inside: &[<Level<P> as RawLock<P>>::PARAMETERS],
    };
    type Ctx = ();

    fn new() -> Self {
        HTicket {
            global: Line(RawLock::new()),
            batch: Line(Batch { holder: P::U32::new(NO_NODE), left: P::U32::new(0) }),
            nodes: core::array::from_fn(|_| Line(RawLock::new())),
        }
    }

    #[inline]
    unsafe fn lock(&self, cx: &()) {
        // SAFETY: the caller keeps the contract of the call.
        if unsafe { !self.try_lock(cx) } {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        match self.batch.holder.load(Ordering::Relaxed) {
            // SAFETY: the caller holds the global lock, and nothing else.
            // LAST: the lock may be destroyed after this.
            NO_NODE => unsafe { self.global.unlock(&()) },
            node => self.unlock_node(node as usize - 1),
        }
    }
}

// SAFETY: a thread holds the lock exactly if some thread holds the global ticket, which this one draws only if it is
// free.
unsafe impl<P: Platform, const NODES: usize, const BATCH: u32> TryLock<P> for HTicket<P, NODES, BATCH> {
    #[inline(always)]
    unsafe fn try_lock(&self, cx: &()) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.global.try_lock(cx) }
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const NODES: usize, const BATCH: u32> TimedLock<P> for HTicket<P, NODES, BATCH> {}

impl<P: Platform, const NODES: usize, const BATCH: u32> IsHeld for HTicket<P, NODES, BATCH> {
    #[inline]
    fn is_held(&self) -> bool {
        self.global.is_held()
    }
}
