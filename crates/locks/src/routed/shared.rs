//! RON with one WaitArray for all locks (Lo et al., OSDI 2023, section 7: the form for the Linux kernel).
//!
//!   InUse:      FREE | IN_USE | WAITED | ROUTED                                   4 bytes for each lock
//!   WaitArray:  [0: lock A, lock C, -, -]->[1: -, -, -, -]->[2: lock B, -, -, -]-> ...     four elements for each CPU
//!
//! A waiter writes the address of its lock into an element of its CPU; the holder of a lock passes by the elements
//! that name another one. Otherwise the lock travels as in [`super::ron`], where it is also said why nobody is lost or
//! passed. A waiter that finds all elements of its CPU taken, or one that names its lock already, waits for InUse, and
//! then chance decides. Space: four bytes for each lock and four words for each CPU of the process.
//!
//! Where a lock was granted is noted in the element until somebody needs it for another lock; a holder that has moved
//! after that takes the lock along, and a waiter may have to wait for one more round.
//!
//! Deviations: those of [`super::ron`]. The published code has four elements for each CPU, one for each level of
//! nested interrupts, and a kernel thread that waits keeps its CPU. Here several threads of a CPU may wait; for each
//! lock one of them has an element, so that the lock comes to each CPU once in a round. One that waits for InUse takes
//! an element once there is room.
//!
//! The table that is WaitArray belongs to the process and must hold nothing else. In the child of a fork it has to be
//! cleared.

use super::ron::{Routed, WaitArray};
use core::marker::PhantomData;
use lockswap_platform::{AtomicInt, Ordering, Platform, SharedTable};

/// | element    | meaning                                    | next value, and who writes it                        |
/// |------------|--------------------------------------------|------------------------------------------------------|
/// | EMPTY      | nobody waits here                          | address: a thread that begins to wait                |
/// | address    | a thread waits for this lock               | complement: the holder; EMPTY: the waiter            |
/// | complement | the lock has been granted to that thread   | note: the waiter                                     |
/// | note       | its holder got the lock here; nobody waits | EMPTY: its holder; address: a waiter of another lock |
const EMPTY: usize = 0;

/// The note that the lock at this address was granted here. Addresses are multiples of 4, and complements end in two
/// ones.
const fn note(lock: usize) -> usize {
    lock | 1
}

const fn is_note(found: usize) -> bool {
    found & 3 == 1
}

/// Elements of one CPU: as many as in the published code, where interrupts nest that deep.
const PER_CPU: usize = 4;
/// From the elements of one CPU to those of the next: two cache lines.
const STRIDE: usize = 16;

/// The process's table.
pub struct Table<P: Platform, const STRIDE: usize, const PER_CPU: usize>(PhantomData<P>);

/// One WaitArray for all locks.
pub type RonShared<P> = Routed<P, Table<P, STRIDE, PER_CPU>>;

impl<P: Platform, const STRIDE: usize, const PER_CPU: usize> Table<P, STRIDE, PER_CPU> {
    fn element(number: usize) -> &'static P::Usize {
        let table = P::slots(SharedTable::Waiters);
        &table[(number / PER_CPU * STRIDE + number % PER_CPU) & (table.len() - 1)]
    }
}

impl<P: Platform, const STRIDE: usize, const PER_CPU: usize> WaitArray<P> for Table<P, STRIDE, PER_CPU> {
    const ID: &'static str = "ron-shared";
    const SUMMARY: &'static str = "RON in one word: one table of waiting CPUs for all locks";
    const PAPER: &'static str = "Lo et al.: OSDI 2023, sec. 7";
    const PER_CPU: usize = PER_CPU;

    fn new() -> Self {
        Table(PhantomData)
    }

    fn enter(&self, lock: usize, tsp_id: usize) -> Option<usize> {
        let elements = || tsp_id * PER_CPU..(tsp_id + 1) * PER_CPU;
        // Relaxed: only decides which exchange to try.
        let holds = |number: usize| Self::element(number).load(Ordering::Relaxed);
        // Another thread of this CPU waits for this lock already, or has been granted it.
        if elements().any(|number| [lock, !lock, note(lock)].contains(&holds(number))) {
            return None;
        }
        let is_empty = |number: &usize| holds(*number) == EMPTY;
        let number = elements().find(is_empty).or_else(|| elements().find(|number| is_note(holds(*number))))?;
        let found = holds(number);
        // ORDER(last look): SeqCst, as said in `ron.rs`.
        let entered = (found == EMPTY || is_note(found))
            && Self::element(number).compare_exchange(found, lock, Ordering::SeqCst).is_ok();
        entered.then_some(number)
    }

    fn take_grant(&self, lock: usize, element: usize) -> bool {
        let element = Self::element(element);
        // ORDER(grant): Acquire pairs with the Release in `grant`.
        let granted = element.load(Ordering::Acquire) == !lock;
        if granted {
            element.store(note(lock), Ordering::Relaxed);
        }
        granted
    }

    // Relaxed, here, above and below: the elements that name the lock are written by its holders and waiters, as in
    // `ron.rs`; the others mean nothing to it.
    fn leave(&self, _: usize, element: usize) {
        Self::element(element).store(EMPTY, Ordering::Relaxed);
    }

    fn forget_holder(&self, lock: usize, element: usize) -> bool {
        let element = Self::element(element);
        // An exchange, because a thread that waits for another lock may overwrite the note meanwhile.
        element.load(Ordering::Relaxed) == note(lock)
            && element.compare_exchange(note(lock), EMPTY, Ordering::Relaxed).is_ok()
    }

    fn has_waiter(&self, lock: usize, element: usize) -> bool {
        // ORDER(last look): SeqCst, as said in `ron.rs`.
        Self::element(element).load(Ordering::SeqCst) == lock
    }

    fn grant(&self, lock: usize, element: usize) {
        // ORDER(grant): Release pairs with the Acquire in `take_grant`; publishes the critical section.
        // LAST: the lock may be destroyed after this store; the table stays.
        Self::element(element).store(!lock, Ordering::Release);
    }
}
