//! The explorer: every interleaving of a few threads, sequentially consistent, up to a bound on preemptions.

mod engine;

pub use engine::{explore, number_in, replay, Bounds, End, Failure, Report};

use crate::mutation::{self, Wait};
use engine::{Access, ROOT};
use lockswap_conformance::routed::Places;
use lockswap_conformance::small::Stage;
use lockswap_conformance::Threads;
use lockswap_platform::{
    AtomicInt, AtomicPtrCell, Clock, CoreKind, DataCell, Deadline, Ns, Ordering, Platform, SharedTable, Wake,
};
use std::cell::{Cell, UnsafeCell};
use std::panic::Location;

/// The machine of the explorer: virtual thread i runs on CPU i until it moves. CPU i belongs to node i modulo 2; even ones
/// are big.
pub struct Explore;

/// A word of the explorer's machine; its bytes are the value's.
#[repr(transparent)]
pub struct Word<T>(UnsafeCell<T>);

// SAFETY: virtual threads run one at a time on one thread of the host.
unsafe impl<T> Sync for Word<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Word<T> {}

impl<T: Copy + PartialEq> Word<T> {
    fn read(&self, place: &'static Location<'static>) -> T {
        engine::point(self.0.get().addr(), place, Access::Load);
        // SAFETY: nobody else runs.
        unsafe { *self.0.get() }
    }

    /// Replaces the value by what `f` makes of it, if anything, and returns the one before.
    fn update(&self, place: &'static Location<'static>, f: impl FnOnce(T) -> Option<T>) -> T {
        engine::point(self.0.get().addr(), place, Access::Write);
        // SAFETY: nobody else runs.
        let old = unsafe { *self.0.get() };
        if let Some(new) = f(old) {
            // SAFETY: as above.
            unsafe { *self.0.get() = new };
            if new != old {
                engine::changed(self.0.get().addr());
            }
        }
        old
    }

    fn exchange(&self, place: &'static Location<'static>, current: T, new: T) -> Result<T, T> {
        let old = self.update(place, |old| (old == current).then_some(new));
        if old == current {
            Ok(old)
        } else {
            Err(old)
        }
    }
}

macro_rules! int {
    ($value:ty) => {
        impl AtomicInt<$value> for Word<$value> {
            fn new(value: $value) -> Self {
                Word(UnsafeCell::new(value))
            }
            #[track_caller]
            fn load(&self, _: Ordering) -> $value {
                self.read(Location::caller())
            }
            #[track_caller]
            fn store(&self, value: $value, _: Ordering) {
                self.update(Location::caller(), |_| Some(value));
            }
            #[track_caller]
            fn swap(&self, value: $value, _: Ordering) -> $value {
                self.update(Location::caller(), |_| Some(value))
            }
            #[track_caller]
            fn compare_exchange(&self, current: $value, new: $value, _: Ordering) -> Result<$value, $value> {
                self.exchange(Location::caller(), current, new)
            }
            #[track_caller]
            fn fetch_add(&self, value: $value, _: Ordering) -> $value {
                self.update(Location::caller(), |old| Some(old.wrapping_add(value)))
            }
            #[track_caller]
            fn fetch_sub(&self, value: $value, _: Ordering) -> $value {
                self.update(Location::caller(), |old| Some(old.wrapping_sub(value)))
            }
            #[track_caller]
            fn fetch_and(&self, value: $value, _: Ordering) -> $value {
                self.update(Location::caller(), |old| Some(old & value))
            }
            #[track_caller]
            fn fetch_or(&self, value: $value, _: Ordering) -> $value {
                self.update(Location::caller(), |old| Some(old | value))
            }
        }
    };
}

int!(u8);
int!(u32);
int!(usize);

impl<T> AtomicPtrCell<T> for Word<*mut T> {
    fn new(value: *mut T) -> Self {
        Word(UnsafeCell::new(value))
    }
    #[track_caller]
    fn load(&self, _: Ordering) -> *mut T {
        self.read(Location::caller())
    }
    #[track_caller]
    fn store(&self, value: *mut T, _: Ordering) {
        self.update(Location::caller(), |_| Some(value));
    }
    #[track_caller]
    fn swap(&self, value: *mut T, _: Ordering) -> *mut T {
        self.update(Location::caller(), |_| Some(value))
    }
    #[track_caller]
    fn compare_exchange(&self, current: *mut T, new: *mut T, _: Ordering) -> Result<*mut T, *mut T> {
        self.exchange(Location::caller(), current, new)
    }
}

/// Memory that a lock protects: an access takes time, in which no other may begin that it excludes.
pub struct Guarded<T> {
    value: UnsafeCell<T>,
    readers: Cell<u32>,
    writers: Cell<u32>,
}

// SAFETY: as for `Word`.
unsafe impl<T: Send> Sync for Guarded<T> {}
// SAFETY: as for `Word`.
unsafe impl<T: Send> Send for Guarded<T> {}

impl<T: Send> Guarded<T> {
    #[track_caller]
    fn pass_time(&self, mine: &Cell<u32>, others: impl Fn() -> bool) {
        mine.set(mine.get() + 1);
        assert!(!others(), "thread {} is in the critical section beside another one", engine::current());
        engine::point((&raw const self.value).addr(), Location::caller(), Access::Write);
        assert!(!others(), "thread {} is in the critical section beside another one", engine::current());
        mine.set(mine.get() - 1);
    }
}

impl<T: Send> DataCell<T> for Guarded<T> {
    fn new(value: T) -> Self {
        Guarded { value: UnsafeCell::new(value), readers: Cell::new(0), writers: Cell::new(0) }
    }
    #[track_caller]
    unsafe fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        self.pass_time(&self.readers, || self.writers.get() > 0);
        // SAFETY: nobody else runs.
        f(unsafe { &*self.value.get() })
    }
    #[track_caller]
    unsafe fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.pass_time(&self.writers, || self.readers.get() > 0 || self.writers.get() > 1);
        // SAFETY: as above.
        f(unsafe { &mut *self.value.get() })
    }
}

thread_local! {
    /// The shared tables, made anew for each execution; as long as the longest that a lock needs to be right.
    static TABLES: Cell<[&'static [Word<usize>]; 2]> = const { Cell::new([&[], &[]]) };
    /// The CPUs of the virtual threads that have moved.
    static MOVED: Cell<[Option<u32>; engine::MOST_THREADS]> = const { Cell::new([None; engine::MOST_THREADS]) };
}

/// Slots of a shared table: few, so that locks meet in them.
const SLOTS: usize = 4;

/// Makes the shared tables empty, and puts every virtual thread on its own CPU.
pub fn clear_tables() {
    MOVED.set([None; engine::MOST_THREADS]);
    TABLES.with(|tables| {
        if tables.get()[0].is_empty() {
            let table = || &*Vec::leak((0..SLOTS).map(|_| Word(UnsafeCell::new(0))).collect::<Vec<_>>());
            tables.set([table(), table()]);
        }
        // SAFETY: nobody else runs.
        tables.get().iter().flat_map(|table| table.iter()).for_each(|word| unsafe { *word.0.get() = 0 });
    });
}

fn virtual_cpu() -> u32 {
    match engine::current() {
        ROOT => 0,
        index => MOVED.get()[index].unwrap_or(index as u32),
    }
}

impl Platform for Explore {
    type U8 = Word<u8>;
    type U32 = Word<u32>;
    type Usize = Word<usize>;
    type Ptr<T: 'static> = Word<*mut T>;
    type Data<T: Send> = Guarded<T>;

    #[track_caller]
    fn spin_map<R>(mut f: impl FnMut() -> Option<R>) -> R {
        loop {
            engine::begin_condition();
            if let Some(value) = f() {
                engine::end_condition();
                return value;
            }
            if let Some(value) = mutation::skipped_wait(Wait::Spin, Location::caller()) {
                engine::end_condition();
                return value;
            }
            engine::wait_for_change(None, Location::caller());
        }
    }

    #[track_caller]
    fn spin_map_until<R>(deadline: Deadline, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        loop {
            engine::begin_condition();
            if let Some(value) = f() {
                engine::end_condition();
                return Some(value);
            }
            if engine::now() >= deadline.at || engine::wait_for_change(Some(deadline.at), Location::caller()) {
                engine::end_condition();
                return None;
            }
        }
    }

    /// One look: a later one sees what the first would have seen if the thread had been interrupted before it.
    fn spin_map_bounded<R>(_: u32, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        f()
    }

    fn relax(_: u32) {}

    fn now(_: Clock) -> Ns {
        engine::now()
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
        4
    }

    fn thread() -> usize {
        match engine::current() {
            ROOT => 1,
            index => index + 1,
        }
    }

    fn address<T>(place: &T) -> usize {
        engine::number_of((&raw const *place).addr())
    }

    fn slots(table: SharedTable) -> &'static [Word<usize>] {
        TABLES.get()[usize::from(table == SharedTable::Readers)]
    }

    fn reorder_window() -> Ns {
        1_000_000
    }

    #[track_caller]
    fn sleep(ns: Ns) {
        engine::sleep(ns, Location::caller());
    }

    fn choose(n: u32) -> u32 {
        engine::choose(n)
    }

    #[track_caller]
    fn park(word: &Word<u32>, expected: u32, until: Option<Deadline>) -> Wake {
        if word.read(Location::caller()) != expected {
            return Wake::Retry;
        }
        let until = until.map(|deadline| deadline.at);
        if until.is_some_and(|at| engine::now() >= at) || engine::park(word.0.get().addr(), until, Location::caller()) {
            return Wake::TimedOut;
        }
        Wake::Retry
    }

    #[track_caller]
    fn unpark(word: *const Word<u32>, n: u32) -> u32 {
        if mutation::skips(Wait::Unpark, Location::caller()) {
            return 0;
        }
        engine::wake(word.addr(), n)
    }
}

/// Virtual threads.
pub struct Virtual;

impl Threads for Virtual {
    fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        engine::run(bodies);
    }

    fn settle() {
        engine::settle();
    }
}

impl Stage for Virtual {
    const SEES_WAITS: bool = true;

    fn gone(start: *const u8, bytes: usize) {
        engine::gone(start.addr(), bytes);
    }

    fn moment() -> u64 {
        engine::moment()
    }

    fn forget_wait() {
        engine::forget_wait();
    }

    fn waits_since(thread: usize) -> Option<u64> {
        engine::waits_since(thread)
    }
}

impl Places for Virtual {
    fn move_to(rank: u32) {
        let mut moved = MOVED.get();
        moved[engine::current()] = Some(rank);
        MOVED.set(moved);
    }
}
