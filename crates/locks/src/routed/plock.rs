//! RON-plock (Lo et al., OSDI 2023, algorithm 3): RON for more threads than CPUs; those on one CPU take the lock as
//! they come to run.
//!
//!   WaitArray:  [0: came 7, left 7, MUST_WAIT]->[1: came 5, left 3, HAS_LOCK]-> ...     one element for each CPU
//!
//! The lock travels as in [`super::ron`], where it is also said why nobody is lost or passed. It is granted to a CPU:
//! any thread that waits there may take it. Fairness: while somebody waits on a CPU, each other CPU gets the lock at
//! most once before this one does; among the threads of one CPU chance decides. Space: a word, and two for each CPU.
//! Waiters watch the element of their CPU and InUse.
//!
//! Deviations: those of [`super::ron`] but for the last one; `per-line` means the same. The paper's numWait counts the
//! holder, too: a thread lowers it when it releases the lock, on the CPU where it raised it. Here a thread may be
//! elsewhere by then, so numWait, which is came - left, falls when a wait ends. Only holders change `left`, which
//! spares the atomic decrement: a hand-over takes two read-modify-writes, one when a thread comes and one when it
//! takes the lock, where the paper's takes three.

use super::ron::{Routed, WaitArray};
use super::{per_line, PerCpu, ROOM_FOR_PAIRS};
use crate::parameters::Parameters;
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// An element of WaitArray.
#[repr(C)]
struct PLock<P: Platform> {
    /// How many threads have begun to wait here.
    came: P::U32,
    /// The paper's `lock` in the lower two bits, and above them how many of those threads wait no more.
    ///
    /// | bits      | meaning                                    | written by                        |
    /// |-----------|--------------------------------------------|-----------------------------------|
    /// | MUST_WAIT | the lock is elsewhere, or free             | the holder when it releases       |
    /// | HAS_LOCK  | a thread that waits here may take the lock | the holder when it releases       |
    /// | TAKEN     | one has: the holder                        | that thread                       |
    lock: P::U32,
}

const HAS_LOCK: u32 = 1;
const TAKEN: u32 = 2;
const BITS: u32 = 3;
/// One thread that waits no more.
const LEFT: u32 = 4;

/// The WaitArray of algorithm 3.
#[repr(C)]
pub struct Counts<P: Platform, const N: usize>(PerCpu<PLock<P>, N>);

/// WaitArray has an element for each CPU.
pub type RonPlock<P> = Routed<P, Counts<P, ROOM_FOR_PAIRS>>;

impl<P: Platform, const N: usize> WaitArray<P> for Counts<P, N> {
    const ID: &'static str = "ron-plock";
    const SUMMARY: &'static str =
        "the lock travels along a route through the CPUs; on each, one of its waiters takes it";
    const PAPER: &'static str = "Lo et al.: OSDI 2023, alg. 3";
    const PARAMETERS: Parameters = Parameters { own: &[per_line::<[u32; 2]>()], inside: &[] };

    fn new() -> Self {
        Counts(PerCpu::new(|| PLock { came: P::U32::new(0), lock: P::U32::new(0) }))
    }

    fn enter(&self, _: usize, tsp_id: usize) -> Option<usize> {
        // ORDER(last look): SeqCst, as said in `ron.rs`.
        self.0.at::<P>(tsp_id).came.fetch_add(1, Ordering::SeqCst);
        Some(tsp_id)
    }

    fn take_grant(&self, _: usize, element: usize) -> bool {
        let lock = &self.0.at::<P>(element).lock;
        // Relaxed: spares waiters an exchange that would fail.
        let found = lock.load(Ordering::Relaxed);
        // ORDER(grant): Acquire pairs with the Release in `grant`.
        found & BITS == HAS_LOCK
            && lock.compare_exchange(found, (found - HAS_LOCK + TAKEN).wrapping_add(LEFT), Ordering::Acquire).is_ok()
    }

    // Relaxed: only holders write `lock`, and each has synchronised with the one before.
    fn leave(&self, _: usize, element: usize) {
        let lock = &self.0.at::<P>(element).lock;
        lock.store(lock.load(Ordering::Relaxed).wrapping_add(LEFT), Ordering::Relaxed);
    }

    fn forget_holder(&self, _: usize, element: usize) -> bool {
        let lock = &self.0.at::<P>(element).lock;
        let found = lock.load(Ordering::Relaxed);
        let is_here = found & BITS == TAKEN;
        if is_here {
            lock.store(found - TAKEN, Ordering::Relaxed);
        }
        is_here
    }

    fn has_waiter(&self, _: usize, element: usize) -> bool {
        let PLock { came, lock } = self.0.at::<P>(element);
        // ORDER(last look): SeqCst, as said in `ron.rs`.
        let came = came.load(Ordering::SeqCst);
        // The two counts agree in as many bits as `lock` has for its own.
        came.wrapping_mul(LEFT) != lock.load(Ordering::Relaxed) & !BITS
    }

    fn grant(&self, _: usize, element: usize) {
        let lock = &self.0.at::<P>(element).lock;
        let found = lock.load(Ordering::Relaxed);
        // ORDER(grant): Release pairs with the Acquire in `take_grant`; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        lock.store(found + HAS_LOCK, Ordering::Release);
    }
}
