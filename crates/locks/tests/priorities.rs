//! What the catalogue says about real-time waiters: whether a thread outside the queue can take a lock that others wait for.

use lockswap_locks::info::{ByPriority, LockInfo};
use lockswap_locks::{for_each_lock, Context, RawLock, TryLock};
use lockswap_platform::Native;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const WAITERS: usize = 2;
const ROUNDS: usize = 15;
/// Long enough for the waiters to begin to wait, also on a busy machine, and to go to sleep where they do.
const WAIT: Duration = Duration::from_millis(5);
/// Locks that hand over, but are left free by chance although others wait ([`LockInfo::by_priority`] says when).
const LEFT_FREE_BY_CHANCE: [&str; 5] = ["mcs-timepub", "ron", "ron-shared", "c-bo-mcs_spin", "gcr"];

fn context<L: TryLock<Native>>() -> &'static L::Ctx {
    Box::leak(Box::new(L::Ctx::new()))
}

/// How often, of [`ROUNDS`] times, a thread outside the queue takes the lock although all of [`WAITERS`] wait for it. Where
/// a release hands the lock over, that can never be. Else it only has to be fast, or lucky, once.
fn taken_first<L: TryLock<Native>>() -> usize {
    (0..ROUNDS).filter(|_| is_taken_first::<L>()).count()
}

fn is_taken_first<L: TryLock<Native>>() -> bool {
    let lock = L::new();
    let waiting = AtomicUsize::new(0);
    let all_wait = || waiting.load(Ordering::Relaxed) == WAITERS;
    let held = context::<L>();
    // SAFETY: contexts are fresh, serve one acquisition, and are never freed; so below.
    unsafe { lock.lock(held) };
    std::thread::scope(|scope| {
        for _ in 0..WAITERS {
            scope.spawn(|| {
                let cx = context::<L>();
                waiting.fetch_add(1, Ordering::Relaxed);
                // SAFETY: as above.
                unsafe {
                    lock.lock(cx);
                    waiting.fetch_sub(1, Ordering::Relaxed);
                    lock.unlock(cx);
                }
            });
        }
        while !all_wait() {
            std::thread::yield_now();
        }
        std::thread::sleep(WAIT);
        let outside = scope.spawn(|| {
            let cx = context::<L>();
            while all_wait() {
                // SAFETY: as above; a context serves again where the acquisition failed.
                unsafe {
                    if lock.try_lock(cx) {
                        // Whoever was served before has said so inside.
                        let is_first = all_wait();
                        lock.unlock(cx);
                        return is_first;
                    }
                }
            }
            false
        });
        std::thread::sleep(WAIT / 5);
        // SAFETY: as above.
        unsafe { lock.unlock(held) };
        outside.join().unwrap()
    })
}

macro_rules! checks {
    (mutex { $($id:literal => $mutex:path,)* } $($others:tt)*) => {
        fn all() -> Vec<(LockInfo, fn() -> usize)> {
            vec![$({
                use $mutex as Lock;
                (<Lock<Native> as RawLock<Native>>::INFO, taken_first::<Lock<Native>> as fn() -> usize)
            },)*]
        }
    };
}

for_each_lock!(checks);

#[test]
fn a_lock_is_left_free_or_handed_over_as_the_catalogue_says() {
    let mut wrong = Vec::new();
    for (info, taken_first) in all() {
        let times = taken_first();
        let found = format!("{}: {}, taken first {times} times of {ROUNDS}", info.id, info.by_priority().name());
        println!("{found}");
        let is_right = match info.by_priority() {
            ByPriority::Kernel | ByPriority::Barging => times > 0,
            ByPriority::No => times == 0 || LEFT_FREE_BY_CHANCE.contains(&info.id),
        };
        if !is_right {
            wrong.push(found);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
