//! The explorer's machine as a platform.

use super::execution::{self, MOST_THREADS, ROOT};
use crate::kernel::node::Node;
use crate::kernel::Kernel;
use crate::word::{self, At, Memory, Place};
use lockswap_platform::{AtomicInt, Clock, CoreKind, Deadline, Ns, Ordering, Platform, SharedTable, Wake};
use std::cell::Cell;
use std::marker::PhantomData;
use std::panic::Location;

/// What a mutant may leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Omission {
    /// A spin ends although its condition does not hold; a result is all zero.
    Spin,
    /// Sleepers are not woken.
    Unpark,
    /// Conditional stores are not settled.
    Settle,
    /// A conditional store does not look at its flag.
    Look,
}

/// What is wrong with the machine, so that checks can be checked.
pub trait Faults: Send + Sync + 'static {
    /// Whether what stands at this place is left out.
    fn leaves_out(what: Omission, at: At) -> bool;
}

/// Nothing is wrong.
pub struct Faithful;

impl Faults for Faithful {
    fn leaves_out(_: Omission, _: At) -> bool {
        false
    }
}

/// The machine of the explorer: virtual thread i runs on CPU i until it moves. CPU i belongs to node i modulo 2; even
/// ones are big.
pub struct Explore<F = Faithful>(PhantomData<F>);

/// The explorer's memory.
pub struct Interleaved;

/// Those that use guarded memory at present.
#[derive(Default)]
pub struct Users {
    readers: Cell<u32>,
    writers: Cell<u32>,
}

impl Memory for Interleaved {
    type Guard = Users;

    #[inline]
    fn load(place: Place, at: At) -> u64 {
        execution::load(place, at)
    }

    #[inline]
    fn store(place: Place, value: u64, at: At) {
        execution::update(place, at, false, |_| Some(value));
    }

    #[inline]
    fn update(place: Place, at: At, f: impl FnOnce(u64) -> Option<u64>) -> u64 {
        execution::update(place, at, true, f)
    }

    /// An access takes time, in which no other may begin that it excludes.
    fn touch(users: &Users, start: usize, _: usize, writes: bool, at: At) {
        let mine = if writes { &users.writers } else { &users.readers };
        execution::guarded(start, writes, at, |begins, thread| {
            if begins {
                mine.set(mine.get() + 1);
            }
            let is_alone = users.writers.get() == 0 || (users.readers.get() == 0 && users.writers.get() == 1);
            assert!(is_alone, "thread {thread} is in the critical section beside another one");
            if !begins {
                mine.set(mine.get() - 1);
            }
        });
    }
}

type Word<T> = word::Word<T, Interleaved>;

thread_local! {
    /// Nodes of waiters for the kernel's locks. Who queues writes its node before others see it, so that they need not
    /// be made anew for each execution.
    static NODES: &'static [Node<Interleaved>] = Vec::leak((0..MOST_THREADS).map(|_| Node::new()).collect());
    /// The shared tables, made anew for each execution; as long as the longest that a lock needs to be right.
    static TABLES: Cell<[&'static [Word<usize>]; 4]> = const { Cell::new([&[]; 4]) };
    /// The CPUs of the virtual threads that have moved.
    static MOVED: Cell<[Option<u32>; MOST_THREADS]> = const { Cell::new([None; MOST_THREADS]) };
}

/// Slots of a shared table: few, so that locks meet in them.
const SLOTS: usize = 4;

/// Makes the shared tables empty, and puts every virtual thread on its own CPU.
pub fn clear_tables() {
    MOVED.set([None; MOST_THREADS]);
    TABLES.with(|tables| {
        if tables.get()[0].is_empty() {
            let table = || &*Vec::leak((0..SLOTS).map(|_| Word::holding(0)).collect::<Vec<_>>());
            tables.set([(); 4].map(|()| table()));
        }
        tables.get().iter().flat_map(|table| table.iter()).for_each(|word| word.reset(0));
    });
}

fn virtual_cpu() -> u32 {
    match execution::current() {
        ROOT => 0,
        index => MOVED.get()[index].unwrap_or(index as u32),
    }
}

impl<F: Faults> Kernel for Explore<F> {
    type Memory = Interleaved;

    fn nodes() -> &'static [Node<Interleaved>] {
        NODES.with(|nodes| *nodes)
    }
}

impl<F: Faults> Platform for Explore<F> {
    type U8 = Word<u8>;
    type U32 = Word<u32>;
    type Usize = Word<usize>;
    type Ptr<T: 'static> = Word<*mut T>;
    type Data<T: Send> = word::Guarded<T, Interleaved>;

    #[track_caller]
    fn spin_map<R>(mut f: impl FnMut() -> Option<R>) -> R {
        loop {
            execution::begin_condition();
            if let Some(value) = f() {
                execution::end_condition();
                return value;
            }
            if F::leaves_out(Omission::Spin, Location::caller()) {
                execution::end_condition();
                // SAFETY: waits return nothing, numbers and pointers; a mutant that is to be caught may hold a wrong
                // one.
                return unsafe { std::mem::zeroed() };
            }
            execution::wait_for_change(None, Location::caller());
        }
    }

    #[track_caller]
    fn spin_map_until<R>(deadline: Deadline, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        loop {
            execution::begin_condition();
            if let Some(value) = f() {
                execution::end_condition();
                return Some(value);
            }
            if execution::now() >= deadline.at || execution::wait_for_change(Some(deadline.at), Location::caller()) {
                execution::end_condition();
                return None;
            }
        }
    }

    /// One look: a later one sees what the first would have seen if the thread had been interrupted before it.
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
        execution::now()
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
        match execution::current() {
            ROOT => 1,
            index => index + 1,
        }
    }

    fn address<T>(place: &T) -> usize {
        execution::number_of((&raw const *place).addr())
    }

    #[track_caller]
    fn store_unless(flag: &Word<u8>, word: &Word<u8>, value: u8) -> bool {
        if F::leaves_out(Omission::Look, Location::caller()) {
            word.store(value, Ordering::Release);
            return true;
        }
        execution::store_unless(flag.place(), word.place(), value.into(), Location::caller())
    }

    #[track_caller]
    fn settle() -> bool {
        F::leaves_out(Omission::Settle, Location::caller()) || execution::interrupt_all(Location::caller())
    }

    fn slots(table: SharedTable) -> &'static [Word<usize>] {
        TABLES.get()[table as usize]
    }

    fn reorder_window() -> Ns {
        1_000_000
    }

    #[track_caller]
    fn sleep(ns: Ns) {
        execution::sleep(ns, Location::caller());
    }

    fn choose(n: u32) -> u32 {
        execution::choose(n)
    }

    /// Both answers are explored.
    fn give_way() -> Ns {
        [Ns::MAX, 0][execution::choose(2) as usize]
    }

    #[track_caller]
    fn park(word: &Word<u32>, expected: u32, until: Option<Deadline>) -> Wake {
        let until = until.map(|deadline| deadline.at);
        match execution::park(word.place(), expected.into(), until, Location::caller()) {
            Some(true) => Wake::TimedOut,
            Some(false) | None => Wake::Retry,
        }
    }

    #[track_caller]
    fn unpark(word: *const Word<u32>, n: u32) -> u32 {
        if F::leaves_out(Omission::Unpark, Location::caller()) {
            return 0;
        }
        execution::wake(word.addr(), n, Location::caller())
    }
}

/// Moves the calling virtual thread to another CPU.
pub fn move_to(cpu: u32) {
    let mut moved = MOVED.get();
    moved[execution::current()] = Some(cpu);
    MOVED.set(moved);
}
