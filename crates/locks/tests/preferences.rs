//! Rwlocks of which each call has a preference of its own.

use std::sync::mpsc;
use std::time::Duration;

use lockswap_locks::rw::rw_futex::RwFutex;
use lockswap_locks::{Preference, RawRwLock};
use lockswap_platform::{Native, Platform};

/// Readers that prefer writers must not go back to sleep beside a writer that sleeps, if nobody holds the lock: a
/// release that prefers readers wakes them alone.
#[test]
fn nobody_sleeps_at_a_free_lock_when_preferences_differ() {
    const THREADS: usize = 4;
    const LOCKS: usize = 3_000;
    let (done, all) = mpsc::channel();
    for number in 0..THREADS {
        let done = done.clone();
        std::thread::spawn(move || {
            static LOCK: std::sync::OnceLock<RwFutex<Native>> = std::sync::OnceLock::new();
            let lock = LOCK.get_or_init(RwFutex::new);
            for round in 0..LOCKS {
                let preference = if (round + number) % 2 == 0 { Preference::Readers } else { Preference::Writers };
                // Longer than a waiter spins.
                let hold = || Native::keep_busy(20_000);
                if number == 0 || round % 4 == 1 {
                    assert!(lock.write(None));
                    hold();
                    // SAFETY: acquired above.
                    unsafe { lock.unlock_write(preference) };
                } else {
                    assert!(lock.read(preference, None));
                    hold();
                    // SAFETY: acquired above.
                    unsafe { lock.unlock_read(preference) };
                }
            }
            done.send(()).unwrap();
        });
    }
    for _ in 0..THREADS {
        all.recv_timeout(Duration::from_secs(120)).expect("threads sleep at a lock that is free");
    }
}
