//! What the machine does for a lock besides its words: waiting, sleeping, the clock and where a thread runs.

use super::threads::virtual_cpu;
use super::words::{Raced, WeakPtr, WeakU32, WeakU8, WeakUsize};
use super::{awaits, settling};
use crate::mutation::{self, Wait};
use lockswap_platform::{AtomicInt, Clock, CoreKind, Deadline, Ns, Ordering, Platform, SharedTable, Wake};
use lockswap_sim::explore::number_in;
use std::cell::{Cell, RefCell};
use std::panic::Location;

/// The machine of loom: thread i runs on CPU i, of node i modulo 2; even ones are big. A bounded spin looks once, a
/// timed wait twice. Each thread has a clock of its own, which stands still but for the end of a timed wait: a common
/// one would order what no lock orders.
///
/// A sleeper may wake up for no reason, except in scenarios that say
/// [`sleep_soundly`](lockswap_conformance::small::Stage::sleep_soundly): there it sleeps until it is woken. Waits have
/// to end: see [`awaits`]. Conditional stores: see [`settling`]. Memory that a scenario says is
/// [`gone`](lockswap_conformance::small::Stage::gone) must not be accessed: see [`memory`](super::memory).
pub struct Weak;

thread_local! {
    /// What has been asked for its address in this execution.
    static PLACES: RefCell<Vec<usize>> = RefCell::default();
}

loom::thread_local! {
    static CLOCK: Cell<Ns> = Cell::new(START);
}

loom::lazy_static! {
    static ref WAITERS: Vec<WeakUsize> = (0..SLOTS).map(|_| WeakUsize::new(0)).collect();
    static ref READERS: Vec<WeakUsize> = (0..SLOTS).map(|_| WeakUsize::new(0)).collect();
    static ref ELEMENTS: Vec<WeakUsize> = (0..SLOTS).map(|_| WeakUsize::new(0)).collect();
    static ref HINTS: Vec<WeakUsize> = (0..SLOTS).map(|_| WeakUsize::new(0)).collect();
    static ref QUEUES: loom::sync::atomic::AtomicU32 = loom::sync::atomic::AtomicU32::new(0);
}

/// When an execution begins, ns: long after 0, which a time that nobody has written yet is.
const START: Ns = 1_000_000_000;
/// Slots of a shared table: few, so that locks meet in them.
const SLOTS: usize = 2;
/// Looks of a timed wait.
const LOOKS: u32 = 2;

/// An execution begins: makes what its threads share.
pub fn begin() {
    PLACES.take();
    // Made here: else the first user's making would order it before the others' first use. No access comes before the
    // threads begin: loom goes back to the first one of an execution to let another thread begin.
    assert!([&WAITERS.len(), &READERS.len(), &ELEMENTS.len(), &HINTS.len()].into_iter().all(|len| *len == SLOTS));
    std::hint::black_box(&*QUEUES);
}

/// The calling thread has waited until `time`.
fn pass_time(time: Ns) {
    awaits::note_change();
    CLOCK.with(|clock| clock.set(clock.get().max(time)));
}

impl Platform for Weak {
    type U8 = WeakU8;
    type U32 = WeakU32;
    type Usize = WeakUsize;
    type Ptr<T: 'static> = WeakPtr<T>;
    type Data<T: Send> = Raced<T>;

    #[track_caller]
    fn spin_map<R>(mut f: impl FnMut() -> Option<R>) -> R {
        loop {
            if let Some(value) = f() {
                awaits::note_end();
                return value;
            }
            if let Some(value) = mutation::skipped_wait(Wait::Spin, Location::caller()) {
                return value;
            }
            awaits::note_look();
            loom::thread::yield_now();
        }
    }
    fn spin_map_until<R>(deadline: Deadline, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        for _ in 0..LOOKS {
            if let Some(value) = f() {
                return Some(value);
            }
            loom::thread::yield_now();
        }
        pass_time(deadline.at);
        None
    }
    fn spin_map_bounded<R>(_: u32, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        f()
    }
    #[track_caller]
    fn spin_map_in_rounds<R>(
        _: u32,
        _: u32,
        mut often: impl FnMut() -> Option<R>,
        mut seldom: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        Some(Self::spin_map(|| often().or_else(&mut seldom)))
    }
    fn relax(_: u32) {}
    fn now(_: Clock) -> Ns {
        CLOCK.with(Cell::get)
    }
    fn cpu() -> u32 {
        virtual_cpu()
    }
    fn node() -> u32 {
        virtual_cpu() % 2
    }
    fn llc() -> u32 {
        virtual_cpu() % 2
    }
    fn kind() -> CoreKind {
        if virtual_cpu().is_multiple_of(2) {
            CoreKind::Big
        } else {
            CoreKind::Little
        }
    }
    fn rank() -> u32 {
        virtual_cpu() % Self::ranks()
    }
    fn ranks() -> u32 {
        3
    }
    fn thread() -> usize {
        virtual_cpu() as usize + 1
    }
    /// Spread so that the first two threads share a slot of the readers' table.
    fn address<T>(place: &T) -> usize {
        128 * PLACES.with_borrow_mut(|places| number_in(places, (&raw const *place).addr()))
    }
    #[track_caller]
    fn store_unless(flag: &WeakU8, word: &WeakU8, value: u8) -> bool {
        let _sequence = settling::begin();
        let stores = mutation::skips(Wait::Look, Location::caller()) || flag.load(Ordering::Relaxed) == 0;
        if stores {
            word.store(value, Ordering::Release);
        }
        stores
    }
    #[track_caller]
    fn settle() -> bool {
        if !mutation::skips(Wait::Settle, Location::caller()) {
            settling::settle();
        }
        true
    }
    fn slots(table: SharedTable) -> &'static [WeakUsize] {
        let table: &Vec<WeakUsize> = match table {
            SharedTable::Waiters => &WAITERS,
            SharedTable::Readers => &READERS,
            SharedTable::Elements => &ELEMENTS,
            SharedTable::Hints => &HINTS,
        };
        // SAFETY: loom keeps the table for the whole execution, and nothing outlives that.
        unsafe { std::slice::from_raw_parts(table.as_ptr(), table.len()) }
    }
    fn reorder_window() -> Ns {
        1_000_000
    }
    fn sleep(ns: Ns) {
        loom::thread::yield_now();
        pass_time(Self::now(Clock::Monotonic) + ns);
    }
    fn choose(n: u32) -> u32 {
        n - 1
    }
    /// Nobody else wants the CPU, so that a waiter spins again as often as its lock lets it, and sleeps then.
    fn give_way() -> Ns {
        0
    }
    #[track_caller]
    fn park(word: &WeakU32, expected: u32, until: Option<Deadline>) -> Wake {
        let is_sound = awaits::sleeps_soundly();
        if is_sound {
            // Comes in an order with the wake-ups, which loom knows by this word.
            QUEUES.fetch_add(0, Ordering::Relaxed);
        }
        word.1.access();
        // The kernel compares the newest value, and in one step with going to sleep: nothing comes in between here
        // either. Loom reads the newest one for an exchange, and writes nothing if that fails.
        let value = if is_sound {
            let other = !expected;
            word.0.compare_exchange(other, other, Ordering::Relaxed, Ordering::Relaxed).unwrap_or_else(|found| found)
        } else {
            word.0.load(Ordering::Relaxed)
        };
        if value != expected {
            return Wake::Retry;
        }
        if let Some(until) = until {
            pass_time(until.at);
            return Wake::TimedOut;
        }
        if is_sound {
            awaits::sleep((&raw const *word).addr());
        } else {
            awaits::note_look();
            loom::thread::yield_now();
        }
        Wake::Retry
    }
    #[track_caller]
    fn unpark(word: *const WeakU32, most: u32) -> u32 {
        if !awaits::sleeps_soundly() || mutation::skips(Wait::Unpark, Location::caller()) {
            return 0;
        }
        QUEUES.fetch_add(0, Ordering::Relaxed);
        awaits::wake(word.addr(), most)
    }
}
