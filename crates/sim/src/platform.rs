//! The simulated machine as a platform.

use crate::engine::{self, access, range, schedule, settling, spin};
use crate::kernel::node::Node;
use crate::kernel::Kernel;
use crate::machine::Ps;
use crate::word::{self, At, Memory, Place};
use lockswap_platform::window::LONGEST;
use lockswap_platform::{
    weight_of_nice, AtomicInt, Clock, CoreKind, Deadline, Hierarchy, Ns, Ordering, Platform, SharedTable, Wake,
    MAX_RANKS, SETTINGS,
};
use std::cell::{Cell, RefCell};
use std::panic::Location;

/// The described machine that the current simulation runs on.
pub struct Sim;

impl Memory for Sim {
    type Guard = ();

    #[inline]
    fn load(place: Place, at: At) -> u64 {
        if engine::is_running() {
            access::load(place, at)
        } else {
            place.read()
        }
    }

    #[inline]
    fn store(place: Place, value: u64, at: At) {
        if engine::is_running() {
            access::store(place, value, at);
        } else {
            place.write(value);
        }
    }

    #[inline]
    fn update(place: Place, at: At, f: impl FnOnce(u64) -> Option<u64>) -> u64 {
        if engine::is_running() {
            return access::update(place, at, f);
        }
        let old = place.read();
        if let Some(new) = f(old) {
            place.write(new);
        }
        old
    }

    fn touch((): &(), start: usize, bytes: usize, writes: bool, _: At) {
        if engine::is_running() {
            access::touch(start, bytes, writes);
        }
    }
}

type Word<T> = word::Word<T, Sim>;

/// Slots in each shared table, as on hardware.
const SLOTS: usize = 4096;

#[repr(align(4096))]
struct Table([Word<usize>; SLOTS]);

/// Nodes of waiters for the kernel's locks: one for each CPU of the largest machine.
const NODES: usize = 4096;

thread_local! {
    static NODES_OF_CPUS: &'static [Node<Sim>] = Vec::leak((0..NODES).map(|_| Node::new()).collect());
    static TABLES: Cell<[Option<&'static Table>; 4]> = const { Cell::new([None; 4]) };
    /// The reorder windows of threads inside an epoch.
    static WINDOWS: RefCell<Vec<Option<Ns>>> = const { RefCell::new(Vec::new()) };
    /// The nice values of threads that have one; the others' are 0.
    static NICE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
    /// Values of the lock's parameters, see [`Platform::setting`].
    static CHOSEN: Cell<[Option<u64>; SETTINGS]> = const { Cell::new([None; SETTINGS]) };
    /// The reorder window of all others.
    static LONGEST_WINDOW: Cell<Ns> = const { Cell::new(LONGEST) };
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

/// The reorder window of the epoch that the current virtual thread is in, if it is in one.
fn window_of_epoch() -> Option<Ns> {
    let thread = engine::current() as usize;
    WINDOWS.with_borrow(|windows| windows.get(thread).copied().flatten())
}

/// From now on this is the current virtual thread's nice value.
pub(crate) fn set_nice(nice: u32) {
    let thread = engine::current() as usize;
    NICE.with_borrow_mut(|values| {
        if values.len() <= thread {
            values.resize(thread + 1, 0);
        }
        values[thread] = nice;
    });
}

/// From now on the lock's parameters have these values, by their numbers, and no others.
pub(crate) fn choose_settings(chosen: impl Iterator<Item = (usize, u64)>) {
    let mut values = [None; SETTINGS];
    chosen.for_each(|(number, value)| values[number] = Some(value));
    CHOSEN.set(values);
}

/// From now on reorder windows are so long where no other is set.
pub(crate) fn set_longest_window(window: Ns) {
    LONGEST_WINDOW.set(window);
}

fn tables() -> [&'static Table; 4] {
    TABLES.with(|tables| {
        let make = || &*Box::leak(Box::new(Table([const { Word::holding(0) }; SLOTS])));
        let found = tables.get().map(|table| table.unwrap_or_else(make));
        tables.set(found.map(Some));
        found
    })
}

/// Makes the shared tables empty, and forgets all windows and nice values.
pub(crate) fn reset() {
    tables().iter().flat_map(|table| &table.0).for_each(|word| word.reset(0));
    WINDOWS.take();
    NICE.take();
}

/// Cycles of one step of [`Platform::compute`].
pub(crate) const STEP_CYCLES: u64 = 6;

fn until(deadline: Deadline) -> Ps {
    deadline.at.saturating_mul(1000)
}

impl Kernel for Sim {
    type Memory = Sim;

    fn nodes() -> &'static [Node<Sim>] {
        NODES_OF_CPUS.with(|nodes| *nodes)
    }
}

impl Platform for Sim {
    type U8 = Word<u8>;
    type U32 = Word<u32>;
    type Usize = Word<usize>;
    type Ptr<T: 'static> = Word<*mut T>;
    type Data<T: Send> = word::Guarded<T, Sim>;

    #[track_caller]
    fn spin_map<R>(mut f: impl FnMut() -> Option<R>) -> R {
        let place = Location::caller();
        let mut waits = false;
        loop {
            spin::begin_condition();
            if let Some(value) = f() {
                spin::end_wait(waits);
                return value;
            }
            if !std::mem::replace(&mut waits, true) {
                spin::begin_wait(place);
            }
            spin::wait_for_change(None);
        }
    }

    #[track_caller]
    fn spin_map_until<R>(deadline: Deadline, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        let place = Location::caller();
        let mut waits = false;
        loop {
            spin::begin_condition();
            if let Some(value) = f() {
                spin::end_wait(waits);
                return Some(value);
            }
            spin::end_condition();
            if engine::now() >= until(deadline) {
                return None;
            }
            if !std::mem::replace(&mut waits, true) {
                spin::begin_wait(place);
            }
            spin::wait_for_change(Some(until(deadline)));
        }
    }

    #[track_caller]
    fn spin_map_bounded<R>(rounds: u32, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        let end = engine::time() + Ps::from(rounds) * engine::machine().costs.pause;
        let mut waits = false;
        loop {
            spin::begin_condition();
            if let Some(value) = f() {
                spin::end_wait(waits);
                return Some(value);
            }
            if engine::time() >= end {
                spin::end_condition();
                return None;
            }
            waits = true;
            spin::watch_until(Some(end));
        }
    }

    fn relax(n: u32) {
        engine::compute(Ps::from(n) * engine::machine().costs.pause);
    }

    fn now(_: Clock) -> Ns {
        engine::now() / 1000
    }

    fn instant() -> Ns {
        engine::instant() / 1000
    }

    fn measured_now() -> Ns {
        engine::time() / 1000
    }

    fn cpu() -> u32 {
        engine::cpu().0
    }

    fn node() -> u32 {
        engine::cpu().1.told.node
    }

    fn has_one_node() -> bool {
        engine::cpu().1.told.is_only_node
    }

    fn llc() -> u32 {
        engine::cpu().1.told.llc
    }

    fn hierarchy() -> Hierarchy {
        engine::cpu().1.told.hierarchy
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

    fn store_unless(flag: &Word<u8>, word: &Word<u8>, value: u8) -> bool {
        if engine::is_running() {
            return settling::store_unless(flag.place(), word.place(), value.into());
        }
        let stores = flag.load(Ordering::Relaxed) == 0;
        if stores {
            word.store(value, Ordering::Release);
        }
        stores
    }

    fn settle() -> bool {
        if engine::is_running() {
            settling::interrupt_all();
        }
        true
    }

    fn slots(table: SharedTable) -> &'static [Word<usize>] {
        &tables()[table as usize].0
    }

    /// Its first line's number: the host's addresses decide nothing.
    fn address<T>(object: &T) -> usize {
        let line = engine::line_number(std::ptr::from_ref(object).addr());
        (line + 1) * 64
    }

    fn reorder_window() -> Ns {
        window_of_epoch().unwrap_or(LONGEST_WINDOW.get())
    }

    fn epoch_window() -> Ns {
        window_of_epoch().unwrap_or(0)
    }

    fn weight() -> u32 {
        let thread = engine::current() as usize;
        weight_of_nice(NICE.with_borrow(|values| values.get(thread).copied()).unwrap_or(0) as i32)
    }

    /// As the machine's figures have it: the system calls, the wake-up, and the switches.
    fn spins_before_park() -> u32 {
        let costs = &engine::machine().costs;
        let round_trip = costs.park + costs.unpark + costs.wake + 2 * costs.switch;
        u32::try_from(round_trip / costs.pause.max(1)).unwrap_or(u32::MAX)
    }

    fn rounds(ns: Ns) -> u32 {
        let rounds = 1000 * ns / engine::machine().costs.pause.max(1);
        rounds.clamp(1, u32::MAX.into()) as u32
    }

    fn setting(number: usize) -> Option<u64> {
        CHOSEN.get()[number]
    }

    fn compute(steps: u64) {
        engine::compute(steps * STEP_CYCLES * engine::machine().costs.cycle);
    }

    fn increment_each<T>(items: &[T], times: u64, word: impl Fn(&T) -> &Self::Usize) {
        if let Some(first) = items.first() {
            range::increment(word(first).place(), (size_of::<T>(), items.len()), times);
        }
    }

    fn keep_busy(ns: Ns) {
        engine::keep_busy(ns * 1000);
    }

    fn yield_cpu() {
        schedule::yield_cpu();
    }

    fn give_way() -> Ns {
        let begin = Self::instant();
        let others = schedule::yield_cpu();
        if others {
            (Self::instant() - begin).max(1)
        } else {
            0
        }
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
        let may_sleep = || word.load(Ordering::SeqCst) == expected;
        match schedule::park(word.place().address, deadline.map(until), place, may_sleep) {
            Some(true) => Wake::TimedOut,
            Some(false) | None => Wake::Retry,
        }
    }

    fn unpark(word: *const Word<u32>, n: u32) -> u32 {
        schedule::unpark(word.addr(), n)
    }
}
