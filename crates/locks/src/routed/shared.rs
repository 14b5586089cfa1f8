//! RON with one array for all locks (Lo et al., OSDI 2023, section 7: the form for the Linux kernel).
//!
//!   state:  FREE | HELD | CONTENDED                                     4 bytes per lock
//!   table:  [0: lock A]->[1: empty]->[2: lock B]->[3: lock A]->...      one entry per CPU, in the order of the route
//!
//! The lock travels as in [`super::ron`], past the stops where somebody waits for another lock. A thread whose stop is
//! taken, be it for another lock, waits for the state, or for the stop, and then chance decides. Where a lock was served is
//! noted at the stop until somebody there waits for another lock; a holder that moves after that takes the lock along,
//! and a waiter may have to wait for one more round.
//!
//! The table belongs to the process and must hold nothing else. In the child of a fork it has to be cleared.

use super::ron::{Routed, Stops};
use core::marker::PhantomData;
use lockswap_platform::{AtomicInt, Ordering, Platform, SharedTable};

/// | value      | meaning                                           | next value, and who writes it                     |
/// |------------|---------------------------------------------------|---------------------------------------------------|
/// | EMPTY      | nobody waits here                                 | address: a thread that begins to wait             |
/// | address    | a thread waits for this lock                      | complement: the holder; EMPTY: the waiter         |
/// | complement | the lock has come here                            | note: the waiter                                  |
/// | note       | the lock's holder took it here; nobody waits here | EMPTY: its holder; address of another lock: as above |
const EMPTY: usize = 0;

/// The note that the lock at this address was taken here. Addresses are multiples of 4, and complements end in two ones.
const fn note(lock: usize) -> usize {
    lock | 1
}

/// Whether a thread may begin to wait for the lock where it finds this.
fn has_room(found: usize, lock: usize) -> bool {
    found == EMPTY || (found & 3 == 1 && found != note(lock))
}

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

    fn enter(&self, lock: usize, rank: usize) -> bool {
        let stop = Self::stop(rank);
        // Relaxed: only decides whether the exchange is worth its price.
        let found = stop.load(Ordering::Relaxed);
        // ORDER(last look): SeqCst, see `Routed::travel`.
        has_room(found, lock) && stop.compare_exchange(found, lock, Ordering::SeqCst).is_ok()
    }

    fn take(&self, lock: usize, rank: usize) -> bool {
        let stop = Self::stop(rank);
        // ORDER(travel): Acquire pairs with the Release in `serve`.
        let served = stop.load(Ordering::Acquire) == !lock;
        if served {
            stop.store(note(lock), Ordering::Relaxed);
        }
        served
    }

    // Relaxed, here, above and in `depart`: as in `ron`, for the entries that name the lock; the others mean nothing to it.
    fn leave(&self, _: usize, rank: usize) {
        Self::stop(rank).store(EMPTY, Ordering::Relaxed);
    }

    fn depart(&self, lock: usize, rank: usize) -> bool {
        let stop = Self::stop(rank);
        stop.load(Ordering::Relaxed) == note(lock)
            && stop.compare_exchange(note(lock), EMPTY, Ordering::Relaxed).is_ok()
    }

    fn waits(&self, lock: usize, rank: usize) -> bool {
        // ORDER(last look): SeqCst, see `Routed::travel`.
        Self::stop(rank).load(Ordering::SeqCst) == lock
    }

    fn serve(&self, lock: usize, rank: usize) {
        // ORDER(travel): Release pairs with the Acquire in `take`; publishes the critical section.
        Self::stop(rank).store(!lock, Ordering::Release);
    }
}
