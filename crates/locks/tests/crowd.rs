//! Thousands of threads that wait at once leave the CPUs to those that they wait for.

use lockswap_locks::{for_each_lock, Context, RawLock};
use lockswap_platform::Native;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const THREADS: u32 = 2_000;
const ROUNDS: u32 = 5;
/// For what takes about 1 s.
const LIMIT: Duration = Duration::from_secs(60);

/// All threads start, and queue, while the lock is held.
fn serves_thousands<L: RawLock<Native>>() {
    let id = L::INFO.id;
    let lock: &L = Box::leak(Box::new(L::new()));
    let done: &AtomicU32 = Box::leak(Box::new(AtomicU32::new(0)));
    let acquire = || {
        let cx: &L::Ctx = Box::leak(Box::new(L::Ctx::new()));
        // SAFETY: the context is fresh, serves one acquisition, and is never freed.
        unsafe { lock.lock(cx) };
        cx
    };
    let begin = Instant::now();
    let held = acquire();
    for _ in 0..THREADS {
        let body = move || {
            for _ in 0..ROUNDS {
                let cx = acquire();
                // SAFETY: held through this context.
                unsafe { lock.unlock(cx) };
            }
            done.fetch_add(1, Ordering::Relaxed);
        };
        std::thread::Builder::new().stack_size(64 << 10).spawn(body).unwrap();
    }
    // SAFETY: held through this context.
    unsafe { lock.unlock(held) };
    while done.load(Ordering::Relaxed) < THREADS {
        let so_far = done.load(Ordering::Relaxed);
        assert!(begin.elapsed() < LIMIT, "{id}: after {LIMIT:?}, {so_far} of {THREADS} threads are done");
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("{id}: {:?}", begin.elapsed());
}

macro_rules! checks {
    (mutex { $($id:literal => $mutex:path,)* } $($others:tt)*) => {
        const CHECKS: &[(&str, fn())] = &[$(($id, || {
            use $mutex as Lock;
            if <Lock<Native> as RawLock<Native>>::INFO.keeps_up {
                serves_thousands::<Lock<Native>>();
            }
        }),)*];
    };
}

for_each_lock!(checks);

#[test]
fn locks_that_keep_up_serve_thousands_of_waiters() {
    for (_, check) in CHECKS {
        check();
    }
}
