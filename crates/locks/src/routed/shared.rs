//! RON with one array for all locks (Lo et al., OSDI 2023, section 7: the form for the Linux kernel).
//!
//!   state:  FREE | HELD | CONTENDED                                     4 bytes per lock
//!   table:  [0: lock A]->[1: empty]->[2: lock B]->[3: lock A]->...      one entry per CPU, in the order of the route
//!
//! The lock travels as in [`super::ron`], past the stops where somebody waits for another lock. A thread whose stop is
//! taken, be it for another lock, waits for the state, or for the stop, and then chance decides.
//!
//! The table belongs to the process and must hold nothing else. In the child of a fork it has to be cleared.

use super::ron::{Routed, Stops};
use core::marker::PhantomData;
use lockswap_platform::{AtomicInt, Ordering, Platform, SharedTable};

/// Nobody waits here. A thread that does writes the lock's address, and the holder its complement when it hands it over.
const EMPTY: usize = 0;

/// Entries of the table from one stop to the next: two cache lines.
const PUBLISHED_STRIDE: usize = 16;

/// Stops in the process's table.
pub struct Table<P: Platform, const STRIDE: usize = PUBLISHED_STRIDE>(PhantomData<P>);

/// One stop per CPU for all locks.
pub type RonShared<P> = Routed<P, Table<P>>;

impl<P: Platform, const STRIDE: usize> Table<P, STRIDE> {
    fn stop(rank: usize) -> &'static P::Usize {
        let table = P::slots(SharedTable::Waiters);
        &table[(rank * STRIDE) & (table.len() - 1)]
    }
}

impl<P: Platform, const STRIDE: usize> Stops<P> for Table<P, STRIDE> {
    const ID: &'static str = "ron-shared";
    const SUMMARY: &'static str = "RON in one word: one table of waiting CPUs for all locks";
    const PAPER: &'static str = "Lo et al.: OSDI 2023, sec. 7";

    fn new() -> Self {
        Table(PhantomData)
    }

    // Relaxed, here and in `leave`: as in `ron`, for the entries that name the lock; the others mean nothing to it.
    fn enter(&self, lock: usize, rank: usize) -> bool {
        let stop = Self::stop(rank);
        stop.load(Ordering::Relaxed) == EMPTY && stop.compare_exchange(EMPTY, lock, Ordering::Relaxed).is_ok()
    }

    fn take(&self, lock: usize, rank: usize) -> bool {
        // ORDER(travel): Acquire pairs with the Release in `serve`.
        let served = Self::stop(rank).load(Ordering::Acquire) == !lock;
        if served {
            self.leave(lock, rank);
        }
        served
    }

    fn leave(&self, _: usize, rank: usize) {
        Self::stop(rank).store(EMPTY, Ordering::Relaxed);
    }

    fn serve(&self, lock: usize, rank: usize) -> bool {
        let stop = Self::stop(rank);
        // Relaxed: while this thread is the holder, the lock's name stays; a waiter that is overlooked watches the state.
        let waits = stop.load(Ordering::Relaxed) == lock;
        if waits {
            // ORDER(travel): Release pairs with the Acquire in `take`; publishes the critical section.
            stop.store(!lock, Ordering::Release);
        }
        waits
    }
}
