//! What a lock says it asks about CPUs, against what it asks when threads compete for it.

use lockswap_locks::for_each_lock;
use lockswap_locks::info::{Asks, LockInfo};
use lockswap_locks::{Context, Preference, RawLock, RawRwLock};
use lockswap_platform::{Clock, CoreKind, Deadline, Native, Ns, Platform, SharedTable, Wake};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

/// The hardware, where every question is noted. Every second question for the kind is answered with little, so that locks
/// go all their ways.
struct Spy;

static LOCALITY: AtomicBool = AtomicBool::new(false);
static KIND: AtomicBool = AtomicBool::new(false);
static ROUTE: AtomicBool = AtomicBool::new(false);

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
    fn reorder_window() -> Ns {
        Native::reorder_window()
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
    LOCALITY.store(false, Relaxed);
    KIND.store(false, Relaxed);
    ROUTE.store(false, Relaxed);
    body();
    Asks { locality: LOCALITY.load(Relaxed), kind: KIND.load(Relaxed), route: ROUTE.load(Relaxed) }
}

/// Threads that come while the lock is held.
const WAITERS: usize = 3;

/// How long the holder waits for them to wait, once all of them have come: longer and longer, because a busy machine may
/// let them stand before the lock for a while.
const HOLDS_MS: [u64; 4] = [20, 100, 500, 2500];

/// What a lock asks in one of several attempts, of which later ones are made only if it has not asked for all that it
/// says.
fn of_attempts(info: LockInfo, attempt: impl Fn(&(dyn Fn() + Sync), &(dyn Fn() + Sync))) -> (LockInfo, Asks) {
    let mut asks = Asks::default();
    for hold in HOLDS_MS {
        let (held, coming) = (AtomicBool::new(false), AtomicUsize::new(0));
        let wait_for = |done: &dyn Fn() -> bool| {
            while !done() {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let meanwhile = || {
            held.store(true, SeqCst);
            wait_for(&|| coming.load(SeqCst) == WAITERS);
            std::thread::sleep(Duration::from_millis(hold));
        };
        let come = || {
            wait_for(&|| held.load(SeqCst));
            coming.fetch_add(1, SeqCst);
        };
        asks = asks.and(asked(|| attempt(&meanwhile, &come)));
        if asks == info.asks {
            break;
        }
    }
    (info, asks)
}

fn of_lock<L: RawLock<Spy>>() -> (LockInfo, Asks) {
    of_attempts(L::INFO, |meanwhile, come| {
        let lock: &L = Box::leak(Box::new(L::new()));
        let take = |meanwhile: &dyn Fn()| {
            let cx = Box::leak(Box::new(L::Ctx::new()));
            // SAFETY: the context is fresh, serves one acquisition and is leaked.
            unsafe {
                lock.lock(cx);
                meanwhile();
                lock.unlock(cx);
            }
        };
        take(&|| {});
        std::thread::scope(|scope| {
            scope.spawn(|| take(meanwhile));
            (0..WAITERS).for_each(|_| {
                scope.spawn(|| {
                    come();
                    take(&|| {});
                });
            });
        });
    })
}

fn of_rwlock<L: RawRwLock<Spy>>() -> (LockInfo, Asks) {
    of_attempts(L::INFO, |meanwhile, come| {
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
        std::thread::scope(|scope| {
            scope.spawn(|| write(meanwhile));
            for waiter in 0..WAITERS {
                scope.spawn(move || {
                    come();
                    match waiter {
                        0 => read(),
                        _ => write(&|| {}),
                    }
                });
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

#[test]
fn every_lock_says_what_it_asks() {
    let wrong: Vec<String> = for_each_lock!(all)
        .into_iter()
        .filter(|(info, asked)| info.asks != *asked)
        .map(|(info, asked)| format!("{} asks {asked:?} and says {:?}", info.id, info.asks))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
