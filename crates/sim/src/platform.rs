//! The simulated machine as a platform.

use crate::engine::memory::Place;
use crate::engine::{self, access, schedule};
use crate::machine::Ps;
use lockswap_platform::window::LONGEST;
use lockswap_platform::{
    AtomicInt, AtomicPtrCell, Clock, CoreKind, DataCell, Deadline, Ns, Ordering, Platform, SharedTable, Wake, MAX_RANKS,
};
use std::cell::{Cell, RefCell, UnsafeCell};
use std::panic::Location;

/// The described machine that the current simulation runs on.
pub struct Sim;

/// An atomic of the simulated machine; its bytes are the value's.
#[repr(transparent)]
pub struct Word<T>(UnsafeCell<T>);

// SAFETY: virtual threads run one at a time on one thread of the host.
unsafe impl<T> Sync for Word<T> {}
// SAFETY: as above.
unsafe impl<T> Send for Word<T> {}

impl<T> Word<T> {
    #[inline]
    fn place(&self) -> Place {
        Place { address: self.0.get().expose_provenance(), bytes: size_of::<T>() as u8 }
    }

    #[inline]
    fn read(&self) -> u64 {
        let place = self.place();
        if engine::is_running() {
            access::load(place)
        } else {
            place.read()
        }
    }

    #[inline]
    fn write(&self, value: u64) {
        let place = self.place();
        if engine::is_running() {
            access::store(place, value);
        } else {
            place.write(value);
        }
    }

    #[inline]
    fn update(&self, f: impl FnOnce(u64) -> Option<u64>) -> u64 {
        let place = self.place();
        if engine::is_running() {
            return access::update(place, f);
        }
        let old = place.read();
        if let Some(new) = f(old) {
            place.write(new);
        }
        old
    }
}

macro_rules! int {
    ($value:ty) => {
        impl AtomicInt<$value> for Word<$value> {
            fn new(value: $value) -> Self {
                Word(UnsafeCell::new(value))
            }
            fn load(&self, _: Ordering) -> $value {
                self.read() as $value
            }
            fn store(&self, value: $value, _: Ordering) {
                self.write(value as u64);
            }
            fn swap(&self, value: $value, _: Ordering) -> $value {
                self.update(|_| Some(value as u64)) as $value
            }
            fn compare_exchange(&self, current: $value, new: $value, _: Ordering) -> Result<$value, $value> {
                let old = self.update(|old| (old as $value == current).then_some(new as u64)) as $value;
                if old == current {
                    Ok(old)
                } else {
                    Err(old)
                }
            }
            fn fetch_add(&self, value: $value, _: Ordering) -> $value {
                self.update(|old| Some((old as $value).wrapping_add(value) as u64)) as $value
            }
            fn fetch_sub(&self, value: $value, _: Ordering) -> $value {
                self.update(|old| Some((old as $value).wrapping_sub(value) as u64)) as $value
            }
            fn fetch_and(&self, value: $value, _: Ordering) -> $value {
                self.update(|old| Some((old as $value & value) as u64)) as $value
            }
            fn fetch_or(&self, value: $value, _: Ordering) -> $value {
                self.update(|old| Some((old as $value | value) as u64)) as $value
            }
        }
    };
}

int!(u8);
int!(u32);
int!(usize);

fn pointer<T>(bits: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(bits as usize)
}

fn bits<T>(pointer: *mut T) -> u64 {
    pointer.expose_provenance() as u64
}

impl<T> AtomicPtrCell<T> for Word<*mut T> {
    fn new(value: *mut T) -> Self {
        Word(UnsafeCell::new(value))
    }
    fn load(&self, _: Ordering) -> *mut T {
        pointer(self.read())
    }
    fn store(&self, value: *mut T, _: Ordering) {
        self.write(bits(value));
    }
    fn swap(&self, value: *mut T, _: Ordering) -> *mut T {
        pointer(self.update(|_| Some(bits(value))))
    }
    fn compare_exchange(&self, current: *mut T, new: *mut T, _: Ordering) -> Result<*mut T, *mut T> {
        let old = pointer(self.update(|old| (old == bits(current)).then_some(bits(new))));
        if old == current {
            Ok(old)
        } else {
            Err(old)
        }
    }
}

/// Memory that a lock protects: an access takes its lines from wherever they are.
#[repr(transparent)]
pub struct Guarded<T>(UnsafeCell<T>);

// SAFETY: as for `Word`.
unsafe impl<T: Send> Sync for Guarded<T> {}
// SAFETY: as for `Word`.
unsafe impl<T: Send> Send for Guarded<T> {}

impl<T> Guarded<T> {
    fn touch(&self, write: bool) {
        if engine::is_running() {
            access::touch(self.0.get().addr(), size_of::<T>(), write);
        }
    }
}

impl<T: Send> DataCell<T> for Guarded<T> {
    fn new(value: T) -> Self {
        Guarded(UnsafeCell::new(value))
    }
    unsafe fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        self.touch(false);
        // SAFETY: nobody else runs.
        f(unsafe { &*self.0.get() })
    }
    unsafe fn with_mut<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        self.touch(true);
        // SAFETY: as above.
        f(unsafe { &mut *self.0.get() })
    }
}

/// Slots in each shared table, as on hardware.
const SLOTS: usize = 4096;

#[repr(align(4096))]
struct Table([Word<usize>; SLOTS]);

thread_local! {
    static TABLES: Cell<[Option<&'static Table>; 2]> = const { Cell::new([None, None]) };
    /// The reorder windows of threads inside an epoch.
    static WINDOWS: RefCell<Vec<Option<Ns>>> = const { RefCell::new(Vec::new()) };
}

/// From now on the current virtual thread's reorder window is `window`, or the longest if there is none.
pub(crate) fn set_window(window: Option<Ns>) {
    let thread = engine::current() as usize;
    WINDOWS.with_borrow_mut(|windows| {
        if windows.len() <= thread {
            windows.resize(thread + 1, None);
        }
        windows[thread] = window;
    });
}

fn tables() -> [&'static Table; 2] {
    TABLES.with(|tables| {
        let make = || &*Box::leak(Box::new(Table([const { Word(UnsafeCell::new(0)) }; SLOTS])));
        let found = tables.get().map(|table| table.unwrap_or_else(make));
        tables.set(found.map(Some));
        found
    })
}

/// Makes the shared tables empty, and forgets all windows.
pub(crate) fn reset() {
    // SAFETY: nobody runs.
    tables().iter().flat_map(|table| &table.0).for_each(|word| unsafe { *word.0.get() = 0 });
    WINDOWS.take();
}

/// Cycles of one step of [`Platform::compute`].
pub(crate) const STEP_CYCLES: u64 = 6;

fn until(deadline: Deadline) -> Ps {
    deadline.at.saturating_mul(1000)
}

impl Platform for Sim {
    type U8 = Word<u8>;
    type U32 = Word<u32>;
    type Usize = Word<usize>;
    type Ptr<T: 'static> = Word<*mut T>;
    type Data<T: Send> = Guarded<T>;

    #[track_caller]
    fn spin_map<R>(mut f: impl FnMut() -> Option<R>) -> R {
        let place = Location::caller();
        let mut waits = false;
        loop {
            engine::begin_condition();
            if let Some(value) = f() {
                engine::end_condition();
                return value;
            }
            if !std::mem::replace(&mut waits, true) {
                engine::begin_wait(place);
            }
            engine::wait_for_change(None);
        }
    }

    #[track_caller]
    fn spin_map_until<R>(deadline: Deadline, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        let place = Location::caller();
        let mut waits = false;
        loop {
            engine::begin_condition();
            if let Some(value) = f() {
                engine::end_condition();
                return Some(value);
            }
            engine::end_condition();
            if engine::now() >= until(deadline) {
                return None;
            }
            if !std::mem::replace(&mut waits, true) {
                engine::begin_wait(place);
            }
            engine::wait_for_change(Some(until(deadline)));
        }
    }

    #[track_caller]
    fn spin_map_bounded<R>(rounds: u32, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        let end = engine::time() + Ps::from(rounds) * engine::machine().costs.pause;
        loop {
            engine::begin_condition();
            if let Some(value) = f() {
                engine::end_condition();
                return Some(value);
            }
            if engine::time() >= end {
                engine::end_condition();
                return None;
            }
            engine::watch_until(Some(end));
        }
    }

    fn relax(n: u32) {
        engine::compute(Ps::from(n) * engine::machine().costs.pause);
    }

    fn now(_: Clock) -> Ns {
        engine::now() / 1000
    }

    fn cpu() -> u32 {
        engine::cpu().0
    }

    fn node() -> u32 {
        engine::cpu().1.node
    }

    fn llc() -> u32 {
        let cpu = engine::cpu().1;
        if engine::machine().llc_is_node {
            cpu.node
        } else {
            cpu.cluster
        }
    }

    fn kind() -> CoreKind {
        if engine::machine().kinds[engine::cpu().1.kind as usize].little {
            CoreKind::Little
        } else {
            CoreKind::Big
        }
    }

    fn rank() -> u32 {
        engine::cpu().1.rank % Self::ranks()
    }

    fn ranks() -> u32 {
        (engine::machine().cpus.len() as u32).min(MAX_RANKS as u32)
    }

    fn thread() -> usize {
        engine::current() as usize + 1
    }

    fn slots(table: SharedTable) -> &'static [Word<usize>] {
        &tables()[usize::from(table == SharedTable::Readers)].0
    }

    /// Its first line's number: the host's addresses decide nothing.
    fn address<T>(object: &T) -> usize {
        let line = engine::line_number(std::ptr::from_ref(object).addr());
        (line + 1) * 64
    }

    fn reorder_window() -> Ns {
        let thread = engine::current() as usize;
        WINDOWS.with_borrow(|windows| windows.get(thread).copied().flatten()).unwrap_or(LONGEST)
    }

    fn compute(steps: u64) {
        engine::compute(steps * STEP_CYCLES * engine::machine().costs.cycle);
    }

    fn keep_busy(ns: Ns) {
        engine::keep_busy(ns * 1000);
    }

    fn yield_cpu() {
        schedule::yield_cpu();
    }

    fn sleep(ns: Ns) {
        schedule::sleep(ns * 1000);
    }

    fn choose(n: u32) -> u32 {
        engine::choose(n)
    }

    #[track_caller]
    fn park(word: &Word<u32>, expected: u32, deadline: Option<Deadline>) -> Wake {
        let place = Location::caller();
        let may_sleep = || word.read() as u32 == expected;
        match schedule::park(word.0.get().addr(), deadline.map(until), place, may_sleep) {
            Some(true) => Wake::TimedOut,
            Some(false) | None => Wake::Retry,
        }
    }

    fn unpark(word: *const Word<u32>, n: u32) -> u32 {
        schedule::unpark(word.addr(), n)
    }
}
