//! What the catalogue says about real-time waiters: whether a thread outside the queue can take a lock that others
//! wait for.
//!
//! Whether it can depends on the lock, not on who is faster: the waiters stand still while a thread releases the lock
//! and tries to take it again.

use lockswap_locks::info::{ByPriority, LockInfo};
use lockswap_locks::parameters::Setting;
use lockswap_locks::{for_each_lock, Context, RawLock, TryLock};
use lockswap_platform::{Clock, CoreKind, Deadline, Native, Ns, Platform, SharedTable, Wake};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

const WAITERS: usize = 2;
/// Locks that hand over in general, but not here. `mcs-timepub` is left free where no waiter has a CPU, and waiters
/// that stand still look like that; `c-bo-mcs_spin` and `c-bo-mcs_stp` after a holder that did not queue.
const LEFT_FREE_HERE: [&str; 3] = ["mcs-timepub", "c-bo-mcs_spin", "c-bo-mcs_stp"];

/// The hardware, with a CPU for each thread, and a signal at which waiters stand still.
struct Staged;

/// The lock's `grace`, ns; 0: as without a choice.
static GRACE: AtomicU64 = AtomicU64::new(0);
static STAND_STILL: AtomicBool = AtomicBool::new(false);
/// Waiters that sleep, or stand still.
static STANDING: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// The number of a waiter; 0 is the thread that releases the lock.
    static NUMBER: Cell<u32> = const { Cell::new(0) };
}

impl Staged {
    /// What a waiter does before each look, or as it wakes up.
    fn stands(meanwhile: impl FnOnce() -> Wake) -> Wake {
        STANDING.fetch_add(1, SeqCst);
        let wake = meanwhile();
        while STAND_STILL.load(SeqCst) {
            std::thread::sleep(Duration::from_micros(100));
        }
        STANDING.fetch_sub(1, SeqCst);
        wake
    }

    fn stands_if_told() {
        if STAND_STILL.load(SeqCst) {
            if NUMBER.get() != 0 {
                Self::stands(|| Wake::Retry);
            } else {
                // The releaser waits for a waiter to take over the lock.
                STAND_STILL.store(false, SeqCst);
            }
        }
    }
}

impl Platform for Staged {
    type U8 = <Native as Platform>::U8;
    type U32 = <Native as Platform>::U32;
    type Usize = <Native as Platform>::Usize;
    type Ptr<T: 'static> = <Native as Platform>::Ptr<T>;
    type Data<T: Send> = <Native as Platform>::Data<T>;

    fn spin_map<R>(mut f: impl FnMut() -> Option<R>) -> R {
        f().unwrap_or_else(|| {
            Native::spin_map(|| {
                Self::stands_if_told();
                f()
            })
        })
    }
    fn spin_map_until<R>(deadline: Deadline, mut f: impl FnMut() -> Option<R>) -> Option<R> {
        Native::spin_map_until(deadline, || {
            let value = f();
            if value.is_none() {
                Self::stands_if_told();
            }
            value
        })
    }
    fn park(word: &Self::U32, expected: u32, until: Option<Deadline>) -> Wake {
        Self::stands(|| Native::park(word, expected, until))
    }
    fn rank() -> u32 {
        NUMBER.get()
    }
    fn ranks() -> u32 {
        WAITERS as u32 + 1
    }
    fn node() -> u32 {
        0
    }
    fn llc() -> u32 {
        0
    }
    fn kind() -> CoreKind {
        CoreKind::Big
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
        NUMBER.get()
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
    fn setting(number: usize) -> Option<u64> {
        let grace = GRACE.load(SeqCst);
        (grace > 0 && number == Setting::Grace as usize).then_some(grace)
    }
    fn unpark(word: *const Self::U32, n: u32) -> u32 {
        Native::unpark(word, n)
    }
}

/// Whether a thread that does not queue takes the lock although [`WAITERS`] threads wait for it.
fn lets_others_pass<L: TryLock<Staged>>() -> bool {
    let lock = L::new();
    let context = || -> &'static L::Ctx { Box::leak(Box::new(L::Ctx::new())) };
    let held = context();
    // SAFETY: contexts are fresh, serve one acquisition, and are never freed; so below.
    unsafe { lock.lock(held) };
    std::thread::scope(|scope| {
        for number in 1..=WAITERS {
            let (lock, cx) = (&lock, context());
            scope.spawn(move || {
                NUMBER.set(number as u32);
                // SAFETY: as above.
                unsafe {
                    lock.lock(cx);
                    lock.unlock(cx);
                }
            });
        }
        // First they wait as they would, and go to sleep if they do.
        std::thread::sleep(Duration::from_millis(2));
        STAND_STILL.store(true, SeqCst);
        while STANDING.load(SeqCst) < WAITERS {
            std::thread::sleep(Duration::from_micros(100));
        }
        let again = context();
        // SAFETY: as above.
        unsafe {
            lock.unlock(held);
            let passes = STAND_STILL.load(SeqCst) && lock.try_lock(again);
            if passes {
                lock.unlock(again);
            }
            STAND_STILL.store(false, SeqCst);
            passes
        }
    })
}

macro_rules! checks {
    (mutex { $($id:literal => $mutex:path,)* } $($others:tt)*) => {
        const CHECKS: &[(LockInfo, fn() -> bool)] = &[$({
            use $mutex as Lock;
            (LockInfo { id: $id, ..<Lock<Staged> as RawLock<Staged>>::INFO }, lets_others_pass::<Lock<Staged>>)
        },)*];
    };
}

for_each_lock!(checks);

#[test]
fn a_lock_is_left_free_or_handed_over_as_the_catalogue_says() {
    let mut wrong = Vec::new();
    for (info, lets_others_pass) in CHECKS.iter().filter(|(info, _)| !LEFT_FREE_HERE.contains(&info.id)) {
        // Its candidate claims the lock if it goes to sleep later than 200 us after it came, as on a slow machine.
        GRACE.store(if info.id == "auto" { u64::MAX } else { 0 }, SeqCst);
        let passes = lets_others_pass();
        let found = format!("{}: {}, others pass: {passes}", info.id, info.by_priority.name());
        println!("{found}");
        if passes != (info.by_priority != ByPriority::No) {
            wrong.push(found);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
