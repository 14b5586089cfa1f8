//! The hardware, but every thread says itself where it runs: orders of service can then be checked on any machine. Or it
//! never stays anywhere.

use lockswap_platform::{Clock, CoreKind, Deadline, Native, Ns, Platform, SharedTable, Wake};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a thread runs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub node: u32,
    pub llc: u32,
    pub kind: CoreKind,
    pub rank: u32,
}

pub const SOMEWHERE: Place = Place { node: 0, llc: 0, kind: CoreKind::Big, rank: 0 };
/// Positions on the route.
pub const RANKS: u32 = 8;

thread_local! {
    static HERE: Cell<Place> = const { Cell::new(SOMEWHERE) };
    static WOKEN: Cell<u32> = const { Cell::new(0) };
}

static WINDOW: AtomicU64 = AtomicU64::new(0);

/// A thread that wanders is somewhere else whenever it asks.
pub struct Placed<const WANDERS: bool = false>;

impl Placed {
    /// Moves the calling thread.
    pub fn move_to(place: Place) {
        HERE.set(place);
    }

    /// How many sleepers the calling thread has woken.
    pub fn woken() -> u32 {
        WOKEN.get()
    }

    pub fn set_reorder_window(ns: Ns) {
        WINDOW.store(ns, Ordering::Relaxed);
    }
}

impl<const WANDERS: bool> Placed<WANDERS> {
    fn here() -> Place {
        if !WANDERS {
            return HERE.get();
        }
        let kind = [CoreKind::Big, CoreKind::Little][Native::choose(2) as usize];
        Place { node: Native::choose(2), llc: Native::choose(4), kind, rank: Native::choose(RANKS) }
    }
}

impl<const WANDERS: bool> Platform for Placed<WANDERS> {
    type U8 = <Native as Platform>::U8;
    type U32 = <Native as Platform>::U32;
    type Usize = <Native as Platform>::Usize;
    type Ptr<T: 'static> = <Native as Platform>::Ptr<T>;
    type Data<T: Send> = <Native as Platform>::Data<T>;

    fn node() -> u32 {
        Self::here().node
    }
    fn llc() -> u32 {
        Self::here().llc
    }
    fn kind() -> CoreKind {
        Self::here().kind
    }
    fn rank() -> u32 {
        Self::here().rank
    }
    fn ranks() -> u32 {
        RANKS
    }
    fn reorder_window() -> Ns {
        WINDOW.load(Ordering::Relaxed)
    }

    fn spin_map<R>(f: impl FnMut() -> Option<R>) -> R {
        Native::spin_map(f)
    }
    fn spin_map_until<R>(deadline: Deadline, f: impl FnMut() -> Option<R>) -> Option<R> {
        Native::spin_map_until(deadline, f)
    }
    fn spin_map_bounded<R>(rounds: u32, f: impl FnMut() -> Option<R>) -> Option<R> {
        Native::spin_map_bounded(rounds, f)
    }
    fn relax(n: u32) {
        Native::relax(n);
    }
    fn now(clock: Clock) -> Ns {
        Native::now(clock)
    }
    fn cpu() -> u32 {
        Native::cpu()
    }
    fn thread() -> usize {
        Native::thread()
    }
    fn slots(table: SharedTable) -> &'static [Self::Usize] {
        Native::slots(table)
    }
    fn sleep(ns: Ns) {
        Native::sleep(ns);
    }
    fn choose(n: u32) -> u32 {
        Native::choose(n)
    }
    fn park(word: &Self::U32, expected: u32, until: Option<Deadline>) -> Wake {
        Native::park(word, expected, until)
    }
    fn unpark(word: *const Self::U32, n: u32) -> u32 {
        let woken = Native::unpark(word, n);
        WOKEN.set(WOKEN.get() + woken);
        woken
    }
}
