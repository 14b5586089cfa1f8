//! The hardware, but every thread says itself where it runs: orders of service can then be checked on any machine. Or
//! it never stays anywhere.

pub mod riders;

use lockswap_conformance::system::{come, Crew};
use lockswap_locks::{Context, RawLock};
use lockswap_platform::{Clock, CoreKind, Deadline, Hierarchy, Native, Ns, Platform, SharedTable, Wake};
use riders::Riders;
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Mutex;

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
}

static WINDOW: AtomicU64 = AtomicU64::new(0);
/// Threads that wait until a deadline.
static STANDING_BACK: AtomicU32 = AtomicU32::new(0);

/// A thread that wanders is somewhere else whenever it asks.
pub struct Placed<const WANDERS: bool = false>;

#[allow(dead_code, reason = "each test that this module is part of uses some of these")]
impl Placed {
    /// Moves the calling thread.
    pub fn move_to(place: Place) {
        soon_asleep();
        HERE.set(place);
    }

    /// How many sleepers the calling thread has woken.
    pub fn woken() -> u32 {
        WOKEN.get()
    }

    /// Whether a thread waits until a deadline, as those on little cores do that stand back.
    pub fn anyone_stands_back() -> bool {
        STANDING_BACK.load(Ordering::SeqCst) != 0
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
    fn epoch_window() -> Ns {
        WINDOW.load(Ordering::Relaxed)
    }

    fn spin_map<R>(mut f: impl FnMut() -> Option<R>) -> R {
        f().unwrap_or_else(|| {
            Riders::begins_to_wait();
            Native::spin_map(f)
        })
    }
    fn spin_map_until<R>(deadline: Deadline, f: impl FnMut() -> Option<R>) -> Option<R> {
        STANDING_BACK.fetch_add(1, Ordering::SeqCst);
        let result = Native::spin_map_until(deadline, f);
        STANDING_BACK.fetch_sub(1, Ordering::SeqCst);
        result
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
    fn give_way() -> Ns {
        Native::give_way()
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

/// Lets waiters sleep instead of yielding, so that [`Crew::settle`] soon sees them asleep. The process stays so, as if
/// under a filter on system calls: where the CPU's number takes one, it is unknown from now on.
pub fn soon_asleep() {
    Native::allow_yields(false);
}

/// The order in which `waiters`, who have come one after the other, are served after a holder at `holder`. `go` brings
/// a thread to its place; `rest` lets those who have come wait; `acquire` is told which waiter calls it, and has a
/// fresh context, which serves one acquisition and lives for ever.
pub fn order_through<P: Platform, L: RawLock<P>, W: Copy + Sync>(
    go: impl Fn(W) + Sync,
    rest: impl Fn(&Crew),
    holder: W,
    waiters: &[W],
    acquire: impl Fn(&L, &L::Ctx, usize) + Sync,
) -> Vec<usize> {
    let (lock, order, crew) = (L::new(), Mutex::new(Vec::new()), Crew::default());
    let holders_context = L::Ctx::new();
    go(holder);
    // SAFETY: contexts are fresh, serve one acquisition, and are leaked or outlive the lock.
    unsafe {
        lock.lock(&holders_context);
        std::thread::scope(|scope| {
            for (waiter, place) in waiters.iter().enumerate() {
                let (lock, order, go, acquire) = (&lock, &order, &go, &acquire);
                scope.spawn(crew.newcomer(move || {
                    go(*place);
                    let cx = Box::leak(Box::new(L::Ctx::new()));
                    come();
                    acquire(lock, cx, waiter);
                    order.lock().unwrap().push(waiter);
                    lock.unlock(cx);
                }));
                rest(&crew);
            }
            lock.unlock(&holders_context);
        });
    }
    order.into_inner().unwrap()
}

/// The same for threads that say themselves where they are.
#[allow(dead_code, reason = "as for `Placed`")]
pub fn order_of_service<L: RawLock<Placed>>(holder: Place, waiters: &[Place]) -> Vec<usize> {
    // SAFETY: as `order_through` says.
    let acquire = |lock: &L, cx: &_, _| unsafe { lock.lock(cx) };
    order_through(Placed::move_to, Crew::settle, holder, waiters, acquire)
}
