//! Waiters that sleep are not forgotten by `auto`, whatever becomes of the thread that is to call them.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use lockswap_locks::auto::lock::Auto;
use lockswap_locks::RawLock;
use lockswap_platform::{Native, Platform};

/// More threads than CPUs, with sections that take about as long as what comes between: then candidates lose their
/// CPUs, waiters leave the queue, and sleepers are called, all within milliseconds. Each thread comes to its end.
#[test]
fn a_crowd_comes_to_its_end() {
    const THREADS: usize = 8;
    const ROUNDS: usize = 12;
    const STEPS: u64 = 500;
    let lock: &'static Auto<Native> = Box::leak(Box::new(Auto::new()));
    for round in 0..ROUNDS {
        let (done, all) = mpsc::channel();
        let end = Instant::now() + Duration::from_millis(100);
        for _ in 0..THREADS {
            let done = done.clone();
            std::thread::spawn(move || {
                while Instant::now() < end {
                    // SAFETY: the context of this lock is empty.
                    unsafe { lock.lock(&()) };
                    Native::compute(STEPS);
                    // SAFETY: acquired above.
                    unsafe { lock.unlock(&()) };
                    Native::compute(STEPS);
                }
                done.send(()).unwrap();
            });
        }
        for ended in 0..THREADS {
            let waited = all.recv_timeout(Duration::from_secs(60));
            assert!(waited.is_ok(), "round {round}: {} of {THREADS} threads wait for ever", THREADS - ended);
        }
    }
}
