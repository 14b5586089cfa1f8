//! RON-plock (Lo et al., OSDI 2023, algorithm 3): RON for more threads than CPUs; those on one CPU take the lock as they
//! come to run.
//!
//!   stop:  number of waiters | HERE | SERVED          of one CPU
//!
//! The lock travels as in [`super::ron`]; it is handed to a stop, where any of the waiters may take it. Fairness: while
//! somebody waits on a CPU, each other CPU gets the lock at most once before this one does; among the threads of one CPU
//! chance decides. Space: a word and a line per CPU.
//!
//! Deviations: those of [`super::ron`]. A thread lowers the number of waiters when it acquires the lock, not when it
//! releases it, and leaves HERE behind instead, because it may release the lock on another CPU.

use super::ron::{Routed, Stops};
use super::stop::Stop;
use lockswap_platform::{AtomicInt, Ordering, Platform, MAX_RANKS};

/// The lock has come to this stop.
const SERVED: u32 = 1;
/// The holder took the lock here.
const HERE: u32 = 2;
/// One waiter.
const WAITER: u32 = 4;

/// Stops for any number of threads; CPUs whose ranks are equal modulo `STOPS` share one.
#[repr(C)]
pub struct Counts<P: Platform, const STOPS: usize>([Stop<P::U32>; STOPS]);

/// One stop per CPU, each for all threads of that CPU.
pub type RonPlock<P> = Routed<P, Counts<P, MAX_RANKS>>;

impl<P: Platform, const STOPS: usize> Stops<P> for Counts<P, STOPS> {
    const ID: &'static str = "ron-plock";
    const SUMMARY: &'static str =
        "the lock travels along a route through the CPUs; on each, one of its waiters takes it";
    const PAPER: &'static str = "Lo et al.: OSDI 2023, alg. 3";

    fn new() -> Self {
        Counts(core::array::from_fn(|_| Stop(P::U32::new(0))))
    }

    fn enter(&self, _: usize, rank: usize) -> bool {
        // ORDER(last look): SeqCst, see `Routed::travel`.
        self.0[rank % STOPS].0.fetch_add(WAITER, Ordering::SeqCst);
        true
    }

    fn take(&self, _: usize, rank: usize) -> bool {
        let stop = &self.0[rank % STOPS].0;
        // Relaxed: only decides whether the next access is worth its price.
        // ORDER(travel): Acquire pairs with the Release in `serve`.
        let taken =
            stop.load(Ordering::Relaxed) & SERVED != 0 && stop.fetch_and(!SERVED, Ordering::Acquire) & SERVED != 0;
        if taken {
            // One waiter less, and HERE, which was not set.
            stop.fetch_sub(WAITER - HERE, Ordering::Relaxed);
        }
        taken
    }

    // Relaxed, here, above and in `depart`: carries no data; the next holder has synchronised with this one, so that it
    // does not take an old count for a waiter.
    fn leave(&self, _: usize, rank: usize) {
        self.0[rank % STOPS].0.fetch_sub(WAITER, Ordering::Relaxed);
    }

    fn depart(&self, _: usize, rank: usize) -> bool {
        let stop = &self.0[rank % STOPS].0;
        // Relaxed: written by the thread that acquired the lock.
        stop.load(Ordering::Relaxed) & HERE != 0 && stop.fetch_and(!HERE, Ordering::Relaxed) & HERE != 0
    }

    fn waits(&self, _: usize, rank: usize) -> bool {
        // ORDER(last look): SeqCst, see `Routed::travel`.
        self.0[rank % STOPS].0.load(Ordering::SeqCst) >= WAITER
    }

    fn serve(&self, _: usize, rank: usize) {
        // ORDER(travel): Release pairs with the Acquire in `take`; publishes the critical section.
        // LAST: the lock may be destroyed after this access.
        self.0[rank % STOPS].0.fetch_or(SERVED, Ordering::Release);
    }
}
