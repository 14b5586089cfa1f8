//! NUMA-aware read-write lock (Calciu, Dice, Lev, Luchangco, Marathe, Shavit, PPoPP 2013: C-RW-WP and C-RW-RP).
//!
//!   counters: [arrived | left] [arrived | left] ...   a line for each node; a reader writes to its own node's only
//!   state:    nodes that have had readers | DRAINS | CLAIMS | INSIDE
//!   writers:  a mutex, meant to be a cohort lock, which decides among writers
//!
//! A reader counts itself as arrived and then looks for a writer; a writer shows itself and then looks for readers:
//! one sees the other. With [`Preference::Writers`] (C-RW-WP) a reader that finds a writer takes itself back and waits
//! until it has gone; a reader that has waited long raises a barrier to further writers. With [`Preference::Readers`]
//! (C-RW-RP) it stays and waits only while a writer is inside; a writer that meets readers steps back until they have
//! left, and may starve. Fairness: between the modes as said; among writers that of their lock. Space: a line for each
//! of the nodes and one more. Hand-off: writers through their lock; readers watch `state`, the writer that is next
//! watches the counters.
//!
//! Deviations: both published locks in one, by the preference of the reader, since a writer is not told any; C-RW-RP's
//! barrier to readers for a writer that has waited long is missing, because a thread that reads must be able to read
//! again. Only the counters of nodes that have had readers are looked at.

use crate::info::{Asks, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::line::Line;
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::queue::k42::K42Stp;
use crate::rw::wait;
use crate::{IsHeld, Preference, RawRwLock, TimedLock};
use core::array::from_fn;
use lockswap_platform::{AtomicInt, Deadline, Ordering, Platform};

/// | bits      | the writer that holds the writers' lock             | new readers, preferred | others    |
/// |-----------|-----------------------------------------------------|------------------------|-----------|
/// | none      | none, or it has not shown itself yet, or has left   | enter                  | enter     |
/// | DRAINS    | waits for readers                                   | enter                  | keep out  |
/// | CLAIMS    | looks whether readers are left                      | wait                   | keep out  |
/// | INSIDE    | is inside                                           | wait                   | keep out  |
const INSIDE: u32 = 1;
const CLAIMS: u32 = 2;
const DRAINS: u32 = 4;
const WRITER: u32 = INSIDE | CLAIMS | DRAINS;
/// The bit of the first node.
const NODE: u32 = 8;

/// Nodes with counters of their own; where there are more, neighbours share them.
pub const NODES: usize = crate::numa::ENTRIES;
/// Rounds of spinning before a reader raises the barrier, about 20 us on the machines this was tuned on; the paper
/// leaves the number open.
pub const PATIENCE: u32 = 1_000;

/// The readers of a node. Wrap around together.
#[repr(C)]
struct Readers<P: Platform> {
    arrived: P::U32,
    left: P::U32,
}

/// The lock, over that of the writers, with counters for up to `N` nodes (at most 29).
#[repr(C)]
pub struct CohortRw<P: Platform, L, const N: usize, const PATIENCE: u32> {
    state: P::U32,
    /// Number of readers that have lost patience: no further writer queues.
    barrier: P::U32,
    writers: L,
    readers: [Line<Readers<P>>; N],
}

/// The published bounds. The writers' lock is a parameter of the composition.
pub type CohortRwOver<P, L> = CohortRw<P, L, NODES, PATIENCE>;
/// The registered composition: writers queue in a lock of which they leave the CPU, and which serves them as they
/// come.
pub type CohortRwK42<P> = CohortRwOver<P, K42Stp<P>>;

impl<P: Platform, L: TimedLock<P, Ctx = ()> + IsHeld, const N: usize, const PATIENCE: u32> CohortRw<P, L, N, PATIENCE> {
    /// Counts this reader as arrived, and returns the state as it is after that.
    #[inline]
    fn arrive(&self) -> u32 {
        let node = P::node() as usize % N;
        let bit = NODE << node;
        // ORDER(dekker): Acquire pairs with the Release in `holds_readers`: a writer that has not seen this arrival is
        // seen below.
        self.readers[node].arrived.fetch_add(1, Ordering::Acquire);
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`. A bit that was set after a writer had
        // shown itself stands beside what it shows, in one word.
        let state = self.state.load(Ordering::Acquire);
        if state & bit != 0 {
            state
        } else {
            self.add_node(bit)
        }
    }

    #[cold]
    fn add_node(&self, bit: u32) -> u32 {
        // ORDER(hand-off): Acquire as in `arrive`. No Release: a writer that sees the bit and misses the arrival comes
        // before it in the order of changes to `arrived`, and is seen here.
        self.state.fetch_or(bit, Ordering::Acquire) | bit
    }

    #[inline]
    fn leave(&self) {
        let node = P::node() as usize % N;
        let bit = NODE << node;
        // Relaxed: a bit never goes away.
        if self.state.load(Ordering::Relaxed) & bit == 0 {
            self.add_node(bit);
        }
        // ORDER(drain): Release pairs with the Acquire in `holds_readers`; publishes that the reading is over.
        // LAST: the lock may be destroyed after this addition.
        self.readers[node].left.fetch_add(1, Ordering::Release);
    }

    /// The sum of one counter over all nodes that have had readers.
    fn sum(&self, counter: impl Fn(&Readers<P>) -> u32) -> u32 {
        // Relaxed: a bit that matters comes with the departures read before, or with this writer's own last change.
        let state = self.state.load(Ordering::Relaxed);
        let nodes = (0..N).filter(|node| state & (NODE << node) != 0);
        nodes.fold(0, |sum, node| sum.wrapping_add(counter(&self.readers[node])))
    }

    /// Whether readers have arrived and not left; `shown` if a writer has shown itself and asks for the first time
    /// since.
    ///
    /// All departures are read before all arrivals: the arrival of who has left is among those, and if they are equal
    /// in number, there was no reader in between. A node that is missing in the first sum only makes it smaller.
    fn holds_readers(&self, shown: bool) -> bool {
        // ORDER(drain): Acquire pairs with the Release in `leave`, and keeps this sum before the next one.
        let left = self.sum(|readers| readers.left.load(Ordering::Acquire));
        let arrived = self.sum(|readers| {
            if shown {
                // ORDER(dekker): Release pairs with the Acquire in `arrive`. A read-modify-write, so that each arrival
                // comes before it, and is seen, or after it, and sees the writer.
                readers.arrived.fetch_add(0, Ordering::Release)
            } else {
                // Relaxed: the departures read above bring their arrivals along; the next claim finds others.
                readers.arrived.load(Ordering::Relaxed)
            }
        });
        left != arrived
    }

    /// Replaces what the holder of the writers' lock shows; only it changes these bits.
    fn show(&self, old: u32, new: u32) {
        // Relaxed: a reader that sets its node's bit later finds this in the same word, an earlier one's bit is found
        // here; for the other readers `holds_readers` publishes it. It continues the release of the last writer
        // inside.
        self.state.fetch_add(new.wrapping_sub(old), Ordering::Relaxed);
    }

    /// Claims the lock for the holder of the writers' lock, which showed `old`. Returns whether no reader was there;
    /// if not, this writer drains.
    fn claim(&self, old: u32) -> bool {
        self.show(old, CLAIMS);
        let free = !self.holds_readers(true);
        self.show(CLAIMS, if free { INSIDE } else { DRAINS });
        free
    }

    /// Waits until no reader is inside, for the holder of the writers' lock. Returns `false` at the deadline.
    fn drain(&self, deadline: Option<Deadline>) -> bool {
        let mut entered = self.claim(0);
        while !entered {
            let drained = || (!self.holds_readers(false)).then_some(());
            if wait::<P, _>(deadline, drained).is_none() {
                self.show(DRAINS, 0);
                return false;
            }
            entered = self.claim(DRAINS);
        }
        true
    }

    /// Whether a reader that has arrived may enter.
    fn may_enter(state: u32, preference: Preference) -> bool {
        let closed = match preference {
            Preference::Readers => INSIDE | CLAIMS,
            Preference::Writers => WRITER,
        };
        state & closed == 0
    }

    /// Waits, having arrived and found a writer.
    #[cold]
    #[inline(never)]
    fn read_contended(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`.
        let open = || Self::may_enter(self.state.load(Ordering::Acquire), preference).then_some(());
        if preference == Preference::Readers {
            let entered = wait::<P, _>(deadline, open).is_some();
            if !entered {
                self.leave();
            }
            return entered;
        }
        let mut impatient = false;
        let entered = loop {
            self.leave();
            if P::spin_map_bounded(Setting::RwPatience.number::<P>(PATIENCE), open).is_none() {
                if !impatient {
                    // Relaxed, as when it is lowered: a hint for fairness only.
                    self.barrier.fetch_add(1, Ordering::Relaxed);
                    impatient = true;
                }
                if wait::<P, _>(deadline, open).is_none() {
                    break false;
                }
            }
            if Self::may_enter(self.arrive(), preference) {
                break true;
            }
        };
        if impatient {
            self.barrier.fetch_sub(1, Ordering::Relaxed);
        }
        entered
    }
}

// SAFETY: a writer is inside only after it has found, with new readers kept out, that as many have left as have
// arrived.
unsafe impl<P: Platform, L: TimedLock<P, Ctx = ()> + IsHeld, const N: usize, const PATIENCE: u32> RawRwLock<P>
    for CohortRw<P, L, N, PATIENCE>
{
    const INFO: LockInfo = LockInfo {
        id: "cohort-rw",
        family: Family::ReadWrite,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "each NUMA node counts its readers; writers queue in a lock of their own",
        paper: "Calciu, Dice, Lev, Luchangco, Marathe, Shavit: PPoPP 2013",
        asks: Asks::LOCALITY,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "patience",
            values: Values::Number(Setting::RwPatience, 0, 1_000_000, "looks"),
            default: Default::Number(PATIENCE),
            summary: "looks of a waiting reader before it keeps further writers out",
            source:
                "about 20 us on the machines that this was tuned on; Calciu et al.: PPoPP 2013 leave the number open",
        }],
        inside: &[L::PARAMETERS],
    };

    fn new() -> Self {
        CohortRw {
            state: P::U32::new(0),
            barrier: P::U32::new(0),
            writers: L::new(),
            readers: from_fn(|_| Line(Readers { arrived: P::U32::new(0), left: P::U32::new(0) })),
        }
    }

    #[inline]
    fn read(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        Self::may_enter(self.arrive(), preference) || self.read_contended(preference, deadline)
    }

    #[inline]
    fn try_read(&self, preference: Preference) -> bool {
        // Relaxed: a hint that saves the counters.
        if self.state.load(Ordering::Relaxed) & INSIDE != 0 {
            return false;
        }
        let mut state = self.arrive();
        if state & CLAIMS != 0 && preference == Preference::Readers {
            // A writer looks whether readers are left, and steps back if there was one.
            // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`.
            state = P::spin_map(|| Some(self.state.load(Ordering::Acquire)).filter(|state| state & CLAIMS == 0));
        }
        let entered = Self::may_enter(state, preference);
        if !entered {
            self.leave();
        }
        entered
    }

    #[inline]
    fn write(&self, deadline: Option<Deadline>) -> bool {
        // Relaxed: a hint for fairness only.
        if wait::<P, _>(deadline, || (self.barrier.load(Ordering::Relaxed) == 0).then_some(())).is_none() {
            return false;
        }
        // SAFETY: no context; released below or in `unlock_write`.
        unsafe {
            match deadline {
                None => self.writers.lock(&()),
                Some(deadline) if !self.writers.lock_until(&(), deadline) => return false,
                Some(_) => {}
            }
            let entered = self.drain(deadline);
            if !entered {
                self.writers.unlock(&());
            }
            entered
        }
    }

    #[inline]
    fn try_write(&self) -> bool {
        // SAFETY: no context; released below or in `unlock_write`.
        unsafe {
            if !self.writers.try_lock(&()) {
                return false;
            }
            let entered = self.claim(0);
            if !entered {
                self.show(DRAINS, 0);
                self.writers.unlock(&());
            }
            entered
        }
    }

    #[inline]
    unsafe fn unlock_read(&self, _: Preference) {
        self.leave();
    }

    #[inline]
    unsafe fn unlock_write(&self, _: Preference) {
        // ORDER(hand-off): Release pairs with the Acquire of the next readers; publishes the critical section.
        self.state.fetch_and(!WRITER, Ordering::Release);
        // SAFETY: held since `write` or `try_write`.
        // LAST: the lock may be destroyed once this says that it is quiet.
        unsafe { self.writers.unlock(&()) };
    }

    fn is_write_locked(&self) -> bool {
        // Relaxed: as [`RawRwLock`] says.
        self.state.load(Ordering::Relaxed) & INSIDE != 0
    }

    fn is_free(&self) -> bool {
        // Relaxed: as [`RawRwLock`] says.
        let state = self.state.load(Ordering::Relaxed);
        state & INSIDE == 0 && !self.holds_readers(false)
    }

    fn is_quiet(&self) -> bool {
        !self.writers.is_held() && self.writers.is_quiet()
    }

    fn forget_waiters(&self) {
        // Relaxed, like all accesses of this function: no other thread exists.
        let is_inside = self.is_write_locked();
        self.state.fetch_and(!(CLAIMS | DRAINS), Ordering::Relaxed);
        self.barrier.store(0, Ordering::Relaxed);
        // SAFETY: no other thread exists, and this one is not in the writers' queue.
        unsafe {
            (&raw const self.writers).cast_mut().write(L::new());
            if is_inside {
                self.writers.lock(&());
            }
        }
        if is_inside {
            // Those that had arrived were waiting.
            for readers in &self.readers {
                readers.arrived.store(0, Ordering::Relaxed);
                readers.left.store(0, Ordering::Relaxed);
            }
        }
    }
}
