//! Loom's machine: every execution of a few threads that the C11 memory model allows (loom implements Norris, Demsky:
//! OOPSLA 2013), within loom's own limits.

mod awaits;
mod memory;
mod settling;

use crate::mutation::{self, Wait};
use lockswap_conformance::small::Stage;
use lockswap_conformance::Threads;
use lockswap_platform::{
    AtomicInt, AtomicPtrCell, Clock, CoreKind, DataCell, Deadline, Ns, Ordering, Platform, SharedTable, Wake,
};
use lockswap_sim::explore::number_in;
use memory::Token;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, Location};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The machine of loom: thread i runs on CPU i, of node i modulo 2; even ones are big. A bounded spin looks once, a timed
/// wait twice. Each thread has a clock of its own, which stands still but for the end of a timed wait: a common one would
/// order what no lock orders.
///
/// A sleeper may wake up for no reason, except in scenarios that say [`Stage::sleep_soundly`]: there it sleeps until it is
/// woken. Waits have to end: see [`awaits`]. Conditional stores: see [`settling`]. Memory that a scenario says is [`Stage::gone`] must not be accessed: see
/// [`memory`].
pub struct Weak;

thread_local! {
    /// Words that a SeqCst access has written to in this execution.
    static SEQUENTIAL: RefCell<Vec<usize>> = RefCell::default();
    /// Words that an exchange has written to last, with what it wrote and the threads that have seen that, as bits.
    static EXCHANGED: RefCell<BTreeMap<usize, (usize, u32)>> = RefCell::default();
    /// What has been asked for its address in this execution.
    static PLACES: RefCell<Vec<usize>> = RefCell::default();
}

/// Notes that an exchange has written `value` to `word`.
fn note_exchange<T>(word: &T, value: usize) {
    EXCHANGED.with_borrow_mut(|words| words.insert((&raw const *word).addr(), (value, 1 << virtual_cpu())));
}

/// Notes that the calling thread has read `value` in `word`.
fn note_read<T>(word: &T, value: usize) {
    EXCHANGED.with_borrow_mut(|words| {
        if let Some((_, seen)) = words.get_mut(&(&raw const *word).addr()).filter(|(written, _)| *written == value) {
            *seen |= 1 << virtual_cpu();
        }
    });
}

/// Notes that a store has written to `word`. An exchange follows directly what it has read, so that a store that comes
/// after the one comes after the other, too. Loom knows that only if this thread has seen the exchange.
fn note_store<T>(word: &T) {
    let exchanged = EXCHANGED.with_borrow_mut(|words| words.remove(&(&raw const *word).addr()));
    if exchanged.is_some_and(|(_, seen)| seen & 1 << virtual_cpu() == 0) {
        awaits::distrust();
    }
    awaits::note_change();
}

/// Notes that an access with this order has written to `word`.
fn note_write<T>(word: &T, order: Ordering) {
    if order == Ordering::SeqCst {
        SEQUENTIAL.with_borrow_mut(|words| words.push((&raw const *word).addr()));
    }
}

/// Whether a load with this order has to see the last write. Loom takes SeqCst for AcqRel. What C11 adds to that is here the
/// rule that a SeqCst load of a word to which SeqCst accesses have written sees the newest value: none older than the last
/// of these writes would be right, so that no correct lock fails, though an execution is missing if there was a weaker
/// write after that. A word that no SeqCst access has written to is loaded like any other.
fn reads_in_sequence<T>(word: &T, order: Ordering) -> bool {
    order == Ordering::SeqCst && SEQUENTIAL.with_borrow(|words| words.contains(&(&raw const *word).addr()))
}

macro_rules! int {
    ($name:ident, $atomic:ident, $value:ty) => {
        /// A word of loom's.
        pub struct $name(loom::sync::atomic::$atomic, Token);

        impl AtomicInt<$value> for $name {
            #[track_caller]
            fn new(value: $value) -> Self {
                Self(loom::sync::atomic::$atomic::new(value), Token::new())
            }
            #[track_caller]
            fn load(&self, order: Ordering) -> $value {
                self.1.access();
                let order = mutation::order(Location::caller(), order);
                if reads_in_sequence(self, order) {
                    awaits::distrust();
                    return self.0.fetch_add(0, Ordering::Acquire);
                }
                let value = self.0.load(order);
                note_read(self, value as usize);
                value
            }
            #[track_caller]
            fn store(&self, value: $value, order: Ordering) {
                self.1.access();
                let order = mutation::order(Location::caller(), order);
                self.0.store(value, order);
                note_write(self, order);
                note_store(self);
            }
            #[track_caller]
            fn compare_exchange(&self, current: $value, new: $value, order: Ordering) -> Result<$value, $value> {
                self.1.access();
                let order = mutation::order(Location::caller(), order);
                let result = self.0.compare_exchange(current, new, order, Ordering::Relaxed);
                match result {
                    Ok(_) => {
                        note_write(self, order);
                        note_exchange(self, new as usize);
                        if new != current {
                            awaits::note_change();
                        }
                    }
                    Err(found) => note_read(self, found as usize),
                }
                result
            }
            #[track_caller]
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.replace(Location::caller(), order, !value, |_| value, |word, order| word.swap(value, order))
            }
            #[track_caller]
            fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                let new = |old: $value| old.wrapping_add(value);
                self.update(Location::caller(), order, new, |word, order| word.fetch_add(value, order))
            }
            #[track_caller]
            fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                let new = |old: $value| old.wrapping_sub(value);
                self.update(Location::caller(), order, new, |word, order| word.fetch_sub(value, order))
            }
            #[track_caller]
            fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                let (all, new) = (<$value>::MAX, |old: $value| old & value);
                self.replace(Location::caller(), order, all, new, |word, order| word.fetch_and(value, order))
            }
            #[track_caller]
            fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                self.replace(Location::caller(), order, 0, |old| old | value, |word, order| word.fetch_or(value, order))
            }
        }

        impl $name {
            /// A read-modify-write at `location`, where the source says `order`; `new` is the value that it writes.
            fn update(
                &self,
                location: &'static Location<'static>,
                order: Ordering,
                new: impl FnOnce($value) -> $value,
                update: impl FnOnce(&loom::sync::atomic::$atomic, Ordering) -> $value,
            ) -> $value {
                self.1.access();
                let order = mutation::order(location, order);
                let old = update(&self.0, order);
                note_write(self, order);
                let new = new(old);
                note_exchange(self, new as usize);
                if new != old {
                    awaits::note_change();
                }
                old
            }

            /// As [`Self::update`], where `new` may be what was there; `guess` is a value for which it is not. Then
            /// nothing is written, unless the exchange releases: loom would not know which comes last, this exchange
            /// or another thread's store, and a waiter that swaps could find its own value for ever.
            fn replace(
                &self,
                location: &'static Location<'static>,
                order: Ordering,
                guess: $value,
                new: impl Fn($value) -> $value,
                update: impl FnOnce(&loom::sync::atomic::$atomic, Ordering) -> $value,
            ) -> $value {
                if !matches!(order, Ordering::Relaxed | Ordering::Acquire) {
                    return self.update(location, order, new, update);
                }
                self.1.access();
                let order = mutation::order(location, order);
                let mut expected = guess;
                loop {
                    match self.0.compare_exchange(expected, new(expected), order, order) {
                        Ok(old) => {
                            note_exchange(self, new(old) as usize);
                            awaits::note_change();
                            return old;
                        }
                        Err(found) if new(found) == found => {
                            note_read(self, found as usize);
                            return found;
                        }
                        Err(found) => expected = found,
                    }
                }
            }
        }
    };
}

int!(WeakU8, AtomicU8, u8);
int!(WeakU32, AtomicU32, u32);
int!(WeakUsize, AtomicUsize, usize);

/// A pointer of loom's. SeqCst is AcqRel here: no lock needs more of a pointer.
pub struct WeakPtr<T>(loom::sync::atomic::AtomicPtr<T>, Token);

// SAFETY: an atomic pointer is a number; whoever follows it says why that is right.
unsafe impl<T> Send for WeakPtr<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for WeakPtr<T> {}

impl<T> AtomicPtrCell<T> for WeakPtr<T> {
    #[track_caller]
    fn new(value: *mut T) -> Self {
        Self(loom::sync::atomic::AtomicPtr::new(value), Token::new())
    }
    #[track_caller]
    fn load(&self, order: Ordering) -> *mut T {
        self.1.access();
        let value = self.0.load(mutation::order(Location::caller(), order));
        note_read(self, value.addr());
        value
    }
    #[track_caller]
    fn store(&self, value: *mut T, order: Ordering) {
        self.1.access();
        self.0.store(value, mutation::order(Location::caller(), order));
        note_store(self);
    }
    #[track_caller]
    fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
        self.1.access();
        let old = self.0.swap(value, mutation::order(Location::caller(), order));
        note_exchange(self, value.addr());
        if old != value {
            awaits::note_change();
        }
        old
    }
    #[track_caller]
    fn compare_exchange(&self, current: *mut T, new: *mut T, order: Ordering) -> Result<*mut T, *mut T> {
        self.1.access();
        let order = mutation::order(Location::caller(), order);
        let result = self.0.compare_exchange(current, new, order, Ordering::Relaxed);
        match result {
            Ok(_) => {
                note_exchange(self, new.addr());
                if new != current {
                    awaits::note_change();
                }
            }
            Err(found) => note_read(self, found.addr()),
        }
        result
    }
}

/// Memory that a lock protects; loom reports accesses that are not ordered.
pub struct Raced<T>(loom::cell::UnsafeCell<T>);

// SAFETY: loom checks every access.
unsafe impl<T: Send> Sync for Raced<T> {}

impl<T: Send> DataCell<T> for Raced<T> {
    #[track_caller]
    fn new(value: T) -> Self {
        Raced(loom::cell::UnsafeCell::new(value))
    }
    #[track_caller]
    unsafe fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        // SAFETY: the caller holds the lock; loom checks that this keeps writers out.
        self.0.with(|value| f(unsafe { &*value }))
    }
    #[track_caller]
    unsafe fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: as above, everybody.
        self.0.with_mut(|value| f(unsafe { &mut *value }))
    }
}

loom::thread_local! {
    static THREAD: Cell<u32> = Cell::new(0);
    static CLOCK: Cell<Ns> = Cell::new(START);
}

loom::lazy_static! {
    static ref WAITERS: Vec<WeakUsize> = (0..SLOTS).map(|_| WeakUsize::new(0)).collect();
    static ref READERS: Vec<WeakUsize> = (0..SLOTS).map(|_| WeakUsize::new(0)).collect();
    static ref QUEUES: loom::sync::atomic::AtomicU32 = loom::sync::atomic::AtomicU32::new(0);
}

/// When an execution begins, ns: long after 0, which a time that nobody has written yet is.
const START: Ns = 1_000_000_000;
/// Slots of a shared table: few, so that locks meet in them.
const SLOTS: usize = 2;
/// Choices in one execution: more count as a limit that was hit, not as an error.
const MOST_BRANCHES: usize = 3_000;
/// Looks of a timed wait.
const LOOKS: u32 = 2;

fn virtual_cpu() -> u32 {
    THREAD.with(Cell::get)
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
        let stores = flag.load(Ordering::Relaxed) == 0;
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
    #[track_caller]
    fn park(word: &WeakU32, expected: u32, until: Option<Deadline>) -> Wake {
        let is_sound = awaits::sleeps_soundly();
        if is_sound {
            // Comes in an order with the wake-ups, which loom knows by this word.
            QUEUES.fetch_add(0, Ordering::Relaxed);
        }
        word.1.access();
        // The kernel compares the newest value, and in one step with going to sleep: nothing comes in between here either.
        // Loom reads the newest one for an exchange, and writes nothing if that fails.
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

/// Loom's threads; the last body runs on the thread that starts the others.
pub struct Modelled;

impl Threads for Modelled {
    fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        awaits::begin(bodies.len());
        let mut threads: Vec<_> = bodies
            .into_iter()
            .enumerate()
            .map(|(index, body)| {
                // SAFETY: all threads are joined before this function returns; loom ends a failed execution as a whole.
                let body: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(body) };
                (index as u32, body)
            })
            .collect();
        let last = threads.pop();
        let handles: Vec<_> = threads
            .into_iter()
            .map(|(index, body)| {
                loom::thread::spawn(move || {
                    THREAD.with(|thread| thread.set(index));
                    body();
                    awaits::note_thread_end();
                })
            })
            .collect();
        if let Some((index, body)) = last {
            THREAD.with(|thread| thread.set(index));
            body();
            awaits::note_thread_end();
        }
        for handle in handles {
            handle.join().expect("loom reports panics itself");
        }
        THREAD.with(|thread| thread.set(0));
        awaits::begin(1);
    }

    fn settle() {
        loom::thread::yield_now();
    }
}

impl Stage for Modelled {
    const SEES_WAITS: bool = false;
    fn enough() {
        loom::skip_branch();
    }
    fn sleep_soundly() {
        awaits::sleep_soundly();
    }
    fn gone(start: *const u8, bytes: usize) {
        memory::end(start.addr(), bytes);
    }
    fn moment() -> u64 {
        0
    }
    fn forget_wait() {}
    fn waits_since(_: usize) -> Option<u64> {
        None
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Executions seen.
    pub executions: u64,
    /// Whether these were all.
    pub exhausted: bool,
    /// Whether one of them was cut off because it was too long.
    pub endless: bool,
    /// What went wrong.
    pub failure: Option<String>,
}

/// Runs `scenario` in every way, at most about `most` times and for at most `time`, with at most `preemptions` preemptions
/// if that is given.
pub fn explore(preemptions: Option<usize>, most: u64, time: Duration, scenario: fn()) -> Report {
    let executions = Arc::new(AtomicU64::new(0));
    let counter = executions.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.max_duration = Some(time);
    model.max_permutations = usize::try_from(most).ok();
    model.max_branches = MOST_BRANCHES;
    // Loom looks at the clock and at the number this often, executions; it ends before the one that it counts then.
    model.checkpoint_interval = 64;
    let start = Instant::now();
    let mutant = mutation::active();
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
        model.check(move || {
            mutation::set(mutant.clone());
            counter.fetch_add(1, Relaxed);
            SEQUENTIAL.take();
            EXCHANGED.take();
            PLACES.take();
            memory::forget();
            awaits::forget();
            // Made here: else the first user's making would order it before the others' first use. No access comes before
            // the threads begin: loom goes back to the first one of an execution to let another thread begin.
            assert_eq!(WAITERS.len(), READERS.len());
            std::hint::black_box(&*QUEUES);
            settling::make();
            scenario();
        });
    }));
    let failure = result.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "panic".into())
    });
    // Not the lock's fault: an execution that is too long, and an assertion of loom's own about the order of stores.
    let says = |text: &str| failure.as_ref().is_some_and(|message| message.contains(text));
    let endless = says("maximum number of branches");
    let is_limit = endless || says("VersionVec");
    Report {
        executions: executions.load(Relaxed),
        exhausted: failure.is_none() && start.elapsed() < time && executions.load(Relaxed) + 1 < most,
        endless,
        failure: failure.filter(|_| !is_limit),
    }
}
