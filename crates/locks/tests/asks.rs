//! What a lock says it asks about CPUs, against what it asks when threads compete for it, and which parameters it asks
//! for.

use lockswap_conformance::system::{self, Crew};
use lockswap_locks::for_each_lock;
use lockswap_locks::info::{Asks, LockInfo};
use lockswap_locks::parameters::Parameter;
use lockswap_locks::registry::{self, Role};
use lockswap_locks::{Context, Preference, RawLock, RawRwLock};
use lockswap_platform::{Clock, CoreKind, Deadline, Native, Ns, Platform, SharedTable, Wake};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;

/// The hardware, where every question is noted. Every second question for the kind is answered with little, so that
/// locks go all their ways.
struct Spy;

static LOCALITY: AtomicBool = AtomicBool::new(false);
static KIND: AtomicBool = AtomicBool::new(false);
static ROUTE: AtomicBool = AtomicBool::new(false);
static EPOCH: AtomicBool = AtomicBool::new(false);
/// A bit for the place of each parameter whose value was asked for.
static SETTINGS: AtomicU64 = AtomicU64::new(0);

impl Platform for Spy {
    type U8 = <Native as Platform>::U8;
    type U32 = <Native as Platform>::U32;
    type Usize = <Native as Platform>::Usize;
    type Ptr<T: 'static> = <Native as Platform>::Ptr<T>;
    type Data<T: Send> = <Native as Platform>::Data<T>;

    fn node() -> u32 {
        LOCALITY.store(true, Relaxed);
        Native::node()
    }
    fn llc() -> u32 {
        LOCALITY.store(true, Relaxed);
        Native::llc()
    }
    fn kind() -> CoreKind {
        static TURN: AtomicBool = AtomicBool::new(false);
        KIND.store(true, Relaxed);
        if TURN.fetch_xor(true, Relaxed) {
            CoreKind::Little
        } else {
            CoreKind::Big
        }
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
    fn rank() -> u32 {
        ROUTE.store(true, Relaxed);
        Native::rank()
    }
    fn ranks() -> u32 {
        ROUTE.store(true, Relaxed);
        Native::ranks()
    }
    fn thread() -> usize {
        Native::thread()
    }
    fn slots(table: SharedTable) -> &'static [Self::Usize] {
        Native::slots(table)
    }
    fn setting(number: usize) -> Option<u64> {
        SETTINGS.fetch_or(1 << number, Relaxed);
        Native::setting(number)
    }
    fn reorder_window() -> Ns {
        EPOCH.store(true, Relaxed);
        Native::reorder_window()
    }
    fn epoch_window() -> Ns {
        EPOCH.store(true, Relaxed);
        Native::epoch_window()
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
        Native::unpark(word, n)
    }
}

/// What `body` asks.
fn asked(body: impl FnOnce()) -> Asks {
    let flags = [&LOCALITY, &KIND, &ROUTE, &EPOCH];
    flags.iter().for_each(|flag| flag.store(false, Relaxed));
    body();
    let [locality, kind, route, epoch] = flags.map(|flag| flag.load(Relaxed));
    Asks { locality, kind, kind_in_epochs: false, route, route_if_known: false, epoch }
}

/// Threads that come while the lock is held.
const WAITERS: usize = 3;

/// What a lock says of itself, and what it asks.
struct Found {
    role: Role,
    info: LockInfo,
    asked: Asks,
    /// As [`SETTINGS`].
    settings: u64,
}

fn wait_for(done: impl Fn() -> bool) {
    while !done() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What a lock asks when `attempt` lets threads of the crew compete for it: who holds it first does the first thing
/// that is given, the others do the second one before they come.
fn found(role: Role, info: LockInfo, attempt: impl Fn(&Crew, &(dyn Fn() + Sync), &(dyn Fn() + Sync))) -> Found {
    let (crew, held, coming) = (Crew::default(), AtomicBool::new(false), AtomicUsize::new(0));
    let meanwhile = || {
        held.store(true, SeqCst);
        wait_for(|| coming.load(SeqCst) == WAITERS);
        crew.settle();
    };
    let come = || {
        wait_for(|| held.load(SeqCst));
        coming.fetch_add(1, SeqCst);
    };
    SETTINGS.store(0, Relaxed);
    let asked = asked(|| attempt(&crew, &meanwhile, &come));
    Found { role, info, asked, settings: SETTINGS.load(Relaxed) }
}

fn of_lock<L: RawLock<Spy>>() -> Found {
    found(Role::Mutex, L::INFO, |crew, meanwhile, come| {
        let lock: &L = Box::leak(Box::new(L::new()));
        let take = |meanwhile: &dyn Fn()| {
            let cx = Box::leak(Box::new(L::Ctx::new()));
            // SAFETY: the context is fresh, serves one acquisition and is leaked.
            unsafe {
                system::come();
                lock.lock(cx);
                meanwhile();
                lock.unlock(cx);
            }
        };
        take(&|| {});
        std::thread::scope(|scope| {
            scope.spawn(crew.member(|| take(meanwhile)));
            (0..WAITERS).for_each(|_| {
                scope.spawn(crew.newcomer(|| {
                    come();
                    take(&|| {});
                }));
            });
        });
    })
}

fn of_rwlock<L: RawRwLock<Spy>>() -> Found {
    found(Role::RwLock, L::INFO, |crew, meanwhile, come| {
        let lock = L::new();
        let read = || {
            lock.read(Preference::Writers, None);
            // SAFETY: read-locked just now.
            unsafe { lock.unlock_read(Preference::Writers) };
        };
        let write = |meanwhile: &dyn Fn()| {
            lock.write(None);
            meanwhile();
            // SAFETY: write-locked just now.
            unsafe { lock.unlock_write(Preference::Writers) };
        };
        read();
        // The reader comes last: it may keep out writers that do not queue yet.
        let queue = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            scope.spawn(crew.member(|| write(meanwhile)));
            scope.spawn(crew.member(|| {
                wait_for(|| queue.load(SeqCst) == WAITERS - 1);
                crew.settle();
                come();
                read();
            }));
            for _ in 1..WAITERS {
                scope.spawn(crew.member(|| {
                    come();
                    queue.fetch_add(1, SeqCst);
                    write(&|| {});
                }));
            }
        });
    })
}

macro_rules! all {
    (
        mutex { $($mutex_id:literal => $mutex:path,)* }
        rwlock { $($rwlock_id:literal => $rwlock:path,)* }
        spin { $($spin_id:literal => $spin:path,)* }
    ) => {
        vec![
            $({ use $mutex as Lock; of_lock::<Lock<Spy>>() },)*
            $({ use $rwlock as Lock; of_rwlock::<Lock<Spy>>() },)*
            $({ use $spin as Lock; of_lock::<Lock<Spy>>() },)*
        ]
    };
}

/// A parameter of a mutex that an rwlock asks for would be set by `LOCKSWAP_LOCK`, not by `LOCKSWAP_RWLOCK`.
#[test]
fn every_lock_says_what_it_asks() {
    // Every waiter soon sleeps then, which `settle` waits for.
    Native::allow_yields(false);
    let mut wrong = Vec::new();
    for Found { role, info, asked, settings } in for_each_lock!(all) {
        // Nobody can tell from outside that the answer makes no difference where there are no epochs, or that CPUs by
        // their numbers are a route, too.
        let route = info.asks.route || info.asks.route_if_known;
        let says = Asks { kind_in_epochs: false, route_if_known: false, route, ..info.asks.in_epochs() };
        if says != asked {
            wrong.push(format!("{} asks {asked:?} and says {:?}", info.id, info.asks));
        }
        let is_rwlock = role == Role::RwLock;
        let others = registry::ENTRIES.iter().filter(|entry| (entry.role == Role::RwLock) != is_rwlock);
        let others = others.flat_map(|entry| entry.parameters.iter());
        let asked = |parameter: &&Parameter| parameter.setting().is_some_and(|place| settings & 1 << place as u64 != 0);
        wrong.extend(others.filter(asked).map(|parameter| format!("{} asks for another's {}", info.id, parameter.key)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
