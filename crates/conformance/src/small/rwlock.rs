//! Small checks of read-write locks.

use super::{Scenario, Stage, PATIENT};
use crate::{bodies, deadline};
use lockswap_locks::info::WaitingPolicy;
use lockswap_locks::{Preference, RawRwLock};
use lockswap_platform::{AtomicInt, DataCell, Ordering, Platform};

/// The checks of a read-write lock.
pub fn rwlock<P: Platform, L: RawRwLock<P>, T: Stage>() -> Vec<Scenario> {
    const R: Preference = Preference::Readers;
    const W: Preference = Preference::Writers;
    // Loom begins with the last thread: the scenario's name says in which order it lets the threads run at first.
    let mut scenarios = vec![
        Scenario { name: "w-r", threads: 2, run: || shares::<P, L, T>("", &["r", "w"], R, false) },
        Scenario { name: "w-r writers first", threads: 2, run: || shares::<P, L, T>("", &["r", "w"], W, false) },
        Scenario { name: "w-rr", threads: 2, run: || shares::<P, L, T>("", &["rr", "w"], R, false) },
        Scenario { name: "timed w-r, 2", threads: 2, run: || shares::<P, L, T>("", &["R", "w"], R, false) },
        Scenario { name: "tries to read", threads: 2, run: || shares::<P, L, T>("", &["tt", "w"], R, false) },
        Scenario { name: "tries to write", threads: 2, run: || shares::<P, L, T>("", &["TT", "r"], W, false) },
        Scenario { name: "used r-w", threads: 2, run: || shares::<P, L, T>("r", &["r", "w"], R, false) },
        Scenario { name: "w-w-r", threads: 3, run: || shares::<P, L, T>("", &["w", "r", "w"], R, false) },
        Scenario { name: "w-r-r", threads: 3, run: || shares::<P, L, T>("", &["r", "r", "w"], R, false) },
        Scenario { name: "w-w-r writers first", threads: 3, run: || shares::<P, L, T>("", &["w", "r", "w"], W, false) },
        Scenario { name: "w-r-r writers first", threads: 3, run: || shares::<P, L, T>("", &["r", "r", "w"], W, false) },
        Scenario { name: "timed w-r", threads: 3, run: || shares::<P, L, T>("", &["W", "R", "w"], R, false) },
        Scenario { name: "timed r-w-w", threads: 3, run: || shares::<P, L, T>("", &["w", "R", "w"], R, false) },
        Scenario {
            name: "timed r-w-w writers first",
            threads: 3,
            run: || shares::<P, L, T>("", &["w", "R", "w"], W, false),
        },
        Scenario {
            name: "timed w-r writers first",
            threads: 3,
            run: || shares::<P, L, T>("", &["W", "R", "r"], W, false),
        },
        Scenario { name: "gone w-r-r", threads: 3, run: || shares::<P, L, T>("", &["r", "r", "w"], R, true) },
        Scenario { name: "gone w-w-r", threads: 3, run: || shares::<P, L, T>("", &["w", "r", "w"], W, true) },
    ];
    if T::SEES_WAITS {
        scenarios.extend([
            Scenario {
                name: "timed w-w-r-r",
                threads: 4,
                run: || shares::<P, L, T>("", &["W", "R", "w", "r"], R, false),
            },
            Scenario {
                name: "timed w-w-r-r writers first",
                threads: 4,
                run: || shares::<P, L, T>("", &["W", "R", "w", "r"], W, false),
            },
        ]);
    } else {
        if L::INFO.waiting != WaitingPolicy::Spin {
            scenarios.extend([
                Scenario { name: "asleep w-r", threads: 2, run: || shares_asleep::<P, L, T>("", &["r", "w"], R) },
                Scenario { name: "asleep w-w", threads: 2, run: || shares_asleep::<P, L, T>("", &["w", "w"], W) },
                Scenario {
                    name: "asleep w-r-r",
                    threads: 3,
                    run: || shares_asleep::<P, L, T>("", &["r", "r", "w"], R),
                },
                Scenario {
                    name: "asleep w-w-r",
                    threads: 3,
                    run: || shares_asleep::<P, L, T>("", &["w", "r", "w"], W),
                },
                Scenario {
                    name: "asleep held r-u-W",
                    threads: 3,
                    run: || shares_asleep::<P, L, T>("+r", &["r", "u", "W"], W),
                },
            ]);
        }
        scenarios.extend([
            Scenario { name: "used w-r", threads: 2, run: || shares::<P, L, T>("r", &["w", "r"], W, false) },
            Scenario { name: "used tries to read", threads: 2, run: || shares::<P, L, T>("r", &["t", "w"], R, false) },
            Scenario { name: "used tries to write", threads: 2, run: || shares::<P, L, T>("r", &["r", "T"], R, false) },
            Scenario { name: "used w-r-r", threads: 3, run: || shares::<P, L, T>("r", &["r", "r", "w"], R, false) },
            Scenario {
                name: "held w-r writers first",
                threads: 2,
                run: || shares::<P, L, T>("+r", &["W", "r"], W, false),
            },
            Scenario { name: "held w-u-r", threads: 3, run: || shares::<P, L, T>("+r", &["w", "u", "r"], R, false) },
            Scenario {
                name: "held W-u-r writers first",
                threads: 3,
                run: || shares::<P, L, T>("+r", &["W", "u", "r"], W, false),
            },
        ]);
    }
    scenarios
}

/// As [`shares`], with sleepers that do not wake by themselves.
fn shares_asleep<P: Platform, L: RawRwLock<P>, T: Stage>(
    before: &'static str,
    words: &'static [&'static str],
    preference: Preference,
) {
    T::sleep_soundly();
    shares::<P, L, T>(before, words, preference, false);
}

/// A thread for each word, which acquires and releases for each letter: `w` writes, `r` reads, capitals give up after
/// a while, `t` and `T` try to read and to write. `before` is done before the threads begin; what it reads after `+`
/// is released by `u`, or at the end. Where `gone`, the last thread destroys the lock.
fn shares<P: Platform, L: RawRwLock<P>, T: Stage>(
    before: &'static str,
    words: &'static [&'static str],
    preference: Preference,
    gone: bool,
) {
    let lock = L::new();
    let pair = P::Data::<(usize, usize)>::new((0, 0));
    let left = P::U32::new(words.len() as u32);
    let keeps = before.starts_with('+');
    if !before.is_empty() {
        assert!(lock.read(preference, None));
        if !keeps {
            // SAFETY: held shared.
            unsafe { lock.unlock_read(preference) };
        }
    }
    let (lock_ref, pair_ref, left_ref) = (&lock, &pair, &left);
    T::run(bodies(words.len(), &move |thread| {
        let leave = || {
            // ORDER(gone): AcqRel, so that the last one comes after the others' releases.
            gone && left_ref.fetch_sub(1, Ordering::AcqRel) == 1
        };
        let mut last = false;
        for letter in words[thread].chars() {
            let until = letter.is_ascii_uppercase().then(|| deadline::<P>(PATIENT));
            let writes = matches!(letter, 'w' | 'W' | 'T');
            let acquired = match letter {
                'w' | 'W' => lock_ref.write(until),
                'T' => lock_ref.try_write(),
                'r' | 'R' => lock_ref.read(preference, until),
                't' => lock_ref.try_read(preference),
                _ => true,
            };
            // SAFETY: the data is touched only while the lock is held in the mode that allows it.
            unsafe {
                if acquired && writes {
                    pair_ref.with_mut(|pair| *pair = (pair.0 + 1, pair.1 + 1));
                } else if acquired {
                    pair_ref.with(|pair| assert_eq!(pair.0, pair.1));
                }
                last = leave();
                if acquired && writes {
                    lock_ref.unlock_write(preference);
                } else if acquired {
                    lock_ref.unlock_read(preference);
                }
            }
        }
        if last {
            // A writer comes after everybody else's release.
            assert!(lock_ref.write(None));
            // SAFETY: held exclusively.
            unsafe { lock_ref.unlock_write(preference) };
            T::gone((&raw const *lock_ref).cast(), size_of::<L>());
        }
    }));
    if keeps && words.iter().all(|word| !word.contains('u')) {
        // SAFETY: held shared since before the threads began.
        unsafe { lock.unlock_read(preference) };
    }
    if !gone {
        assert!(lock.is_free() && lock.try_write(), "{}: not free though all have released", L::INFO.id);
        // SAFETY: held exclusively.
        unsafe { lock.unlock_write(preference) };
    }
}
