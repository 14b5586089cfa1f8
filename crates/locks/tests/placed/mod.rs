//! The hardware, but every thread says itself where it runs: orders of service can then be checked on any machine. Or it
//! never stays anywhere.

use lockswap_conformance::routed::Places;
use lockswap_conformance::small::Stage;
use lockswap_conformance::Threads;
use lockswap_platform::{Clock, CoreKind, Deadline, Hierarchy, Native, Ns, Platform, SharedTable, Wake};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where a thread runs.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub node: u32,
    pub llc: u32,
    /// The group of LLC groups, if there are any; then they are the inner ones.
    pub outer: Option<u32>,
    pub kind: CoreKind,
    pub rank: u32,
}

pub const SOMEWHERE: Place = Place { node: 0, llc: 0, outer: None, kind: CoreKind::Big, rank: 0 };
/// Positions on the route.
pub const RANKS: u32 = 8;

thread_local! {
    static HERE: Cell<Place> = const { Cell::new(SOMEWHERE) };
    static WOKEN: Cell<u32> = const { Cell::new(0) };
    static INDEX: Cell<Option<usize>> = const { Cell::new(None) };
}

const MOST_RIDERS: usize = 16;
/// When each thread of [`Riders`] came to rest, 0 if it has not.
static SINCE: [AtomicU64; MOST_RIDERS] = [const { AtomicU64::new(0) }; MOST_RIDERS];
static MOMENT: AtomicU64 = AtomicU64::new(0);

/// Threads that know when they began to wait; one [`Threads::run`] at a time.
pub struct Riders;

impl Riders {
    fn begins_to_wait() {
        if let Some(index) = INDEX.get().filter(|index| SINCE[*index].load(Ordering::SeqCst) == 0) {
            SINCE[index].store(Riders::moment(), Ordering::SeqCst);
        }
    }
}

impl Threads for Riders {
    fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
        std::thread::scope(|scope| {
            for (index, body) in bodies.into_iter().enumerate() {
                scope.spawn(move || {
                    INDEX.set(Some(index));
                    // The others would wait for ever for the lock that this one holds.
                    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_err() {
                        std::process::abort();
                    }
                });
            }
        });
    }

    fn settle() {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

impl Stage for Riders {
    const SEES_WAITS: bool = true;
    fn gone(_: *const u8, _: usize) {}
    fn moment() -> u64 {
        MOMENT.fetch_add(1, Ordering::SeqCst) + 1
    }
    fn forget_wait() {
        INDEX.get().into_iter().for_each(|index| SINCE[index].store(0, Ordering::SeqCst));
    }
    fn waits_since(thread: usize) -> Option<u64> {
        Some(SINCE[thread].load(Ordering::SeqCst)).filter(|since| *since != 0)
    }
}

impl Places for Riders {
    fn move_to(rank: u32) {
        Placed::move_to(Place { rank, ..SOMEWHERE });
    }
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
        let outer = Native::choose(3).checked_sub(1);
        Place { node: Native::choose(2), llc: Native::choose(4), outer, kind, rank: Native::choose(RANKS) }
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
    fn hierarchy() -> Hierarchy {
        let Place { node, llc, outer, .. } = Self::here();
        Hierarchy { inner: if outer.is_some() { llc } else { node }, outer }
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

    fn spin_map<R>(mut f: impl FnMut() -> Option<R>) -> R {
        f().unwrap_or_else(|| {
            Riders::begins_to_wait();
            Native::spin_map(f)
        })
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
    fn yield_cpu() {
        Native::yield_cpu();
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
