//! The checks of a read-write lock.

use crate::{bodies, deadline, Threads};
use lockswap_locks::info::Fairness;
use lockswap_locks::{Preference, RawRwLock};
use lockswap_platform::{Clock, DataCell, Deadline, Ns, Platform};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};

/// All checks of a read-write lock.
pub fn rwlock<P: Platform, L: RawRwLock<P>, T: Threads>() {
    modes_exclude::<P, L>();
    readers_share::<P, L, T>();
    writers_exclude::<P, L, T>();
    writers_first::<P, L, T>();
    reads_again::<P, L, T>();
    holds_have_no_owner::<P, L, T>();
    wakes_readers_and_writers::<P, L, T>();
    forgets_who_gave_up::<P, L, T>();
    lets_others_in::<P, L, T>();
    leaves_freed_rwlock_alone::<P, L, T>();
    forgets_waiters::<P, L, T>();
}

fn modes_exclude<P: Platform, L: RawRwLock<P>>() {
    for preference in [Preference::Readers, Preference::Writers] {
        let lock = L::new();
        // SAFETY: every unlock follows an acquisition in the same mode.
        unsafe {
            assert!(lock.is_free() && lock.try_read(preference) && lock.read(preference, None));
            assert!(!lock.is_free() && !lock.is_write_locked());
            assert!(!lock.try_write());
            let at = P::now(Clock::Realtime) + 2_000_000;
            assert!(!lock.write(Some(Deadline { clock: Clock::Realtime, at })));
            assert!(P::now(Clock::Realtime) >= at, "{} timed out early", L::INFO.id);
            assert!(lock.try_read(preference), "{}: an abandoned writer keeps readers out", L::INFO.id);
            for _ in 0..3 {
                lock.unlock_read(preference);
            }
            assert!(lock.is_free() && lock.write(None) && lock.is_write_locked());
            assert!(!lock.try_write() && !lock.try_read(preference));
            assert!(!lock.read(preference, Some(deadline::<P>(2_000_000))));
            lock.unlock_write(preference);
            assert!(lock.is_free() && lock.try_write());
            lock.unlock_write(preference);
        }
    }
}

/// Each reader stays inside until the other one is there too.
fn readers_share<P: Platform, L: RawRwLock<P>, T: Threads>() {
    for preference in [Preference::Readers, Preference::Writers] {
        let lock = L::new();
        let inside = AtomicU32::new(0);
        let body = || {
            assert!(lock.read(preference, None));
            inside.fetch_add(1, SeqCst);
            P::spin_map(|| (inside.load(SeqCst) == 2).then_some(()));
            // SAFETY: held shared.
            unsafe { lock.unlock_read(preference) };
        };
        T::run(bodies(2, &|_| body()));
        assert!(lock.is_free());
    }
}

fn writers_exclude<P: Platform, L: RawRwLock<P>, T: Threads>() {
    const ROUNDS: usize = 2_000;
    for preference in [Preference::Readers, Preference::Writers] {
        let lock = L::new();
        let pair = P::Data::<(u64, u64)>::new((0, 0));
        let written = AtomicUsize::new(0);
        let body = |thread: usize| {
            for round in 0..ROUNDS {
                let limit = (round + thread).is_multiple_of(3).then(|| deadline::<P>(300_000));
                // SAFETY: the data is touched only while the lock is held in the mode that allows it.
                unsafe {
                    if (round + thread).is_multiple_of(4) {
                        if lock.write(limit) {
                            pair.with_mut(|pair| {
                                pair.0 += 1;
                                P::relax(20);
                                pair.1 += 1;
                            });
                            written.fetch_add(1, SeqCst);
                            lock.unlock_write(preference);
                        }
                    } else if lock.read(preference, limit) {
                        pair.with(|pair| assert_eq!(pair.0, pair.1, "{}: reader beside a writer", L::INFO.id));
                        P::relax(50);
                        lock.unlock_read(preference);
                    }
                }
            }
        };
        T::run(bodies(6, &body));
        // SAFETY: all threads have ended.
        let counts = unsafe { pair.with(|pair| *pair) };
        let written = written.load(SeqCst) as u64;
        assert_eq!(counts, (written, written), "{} let two writers in", L::INFO.id);
        assert!(lock.is_free());
    }
}

/// With [`Preference::Writers`] a sleeping writer keeps new readers out; with [`Preference::Readers`] it does not.
fn writers_first<P: Platform, L: RawRwLock<P>, T: Threads>() {
    for preference in [Preference::Readers, Preference::Writers] {
        let lock = L::new();
        assert!(lock.read(preference, None));
        let wrote = AtomicBool::new(false);
        T::run(vec![
            Box::new(|| {
                assert!(lock.write(None));
                wrote.store(true, SeqCst);
                // SAFETY: held exclusively.
                unsafe { lock.unlock_write(preference) };
            }),
            Box::new(|| {
                T::settle();
                let overtakes = lock.try_read(preference);
                assert_eq!(overtakes, preference == Preference::Readers, "{}: {preference:?}", L::INFO.id);
                assert!(!wrote.load(SeqCst));
                // SAFETY: held shared since before the threads started, and once more if the try succeeded.
                unsafe {
                    if overtakes {
                        lock.unlock_read(preference);
                    }
                    lock.unlock_read(preference);
                }
            }),
        ]);
        assert!(wrote.load(SeqCst) && lock.is_free());
    }
}

const PREFERENCES: [Preference; 2] = [Preference::Readers, Preference::Writers];

/// The lock is free, and works.
fn is_sound<P: Platform, L: RawRwLock<P>>(lock: &L, preference: Preference) {
    assert!(lock.is_free() && !lock.is_write_locked(), "{} is not free", L::INFO.id);
    for _ in 0..2 {
        // SAFETY: every unlock follows an acquisition in the same mode.
        unsafe {
            assert!(lock.try_write(), "{}: try_write of a free lock failed", L::INFO.id);
            assert!(lock.is_write_locked() && !lock.try_read(preference));
            lock.unlock_write(preference);
            assert!(lock.try_read(preference), "{}: try_read of a free lock failed", L::INFO.id);
            assert!(lock.try_read(preference) && !lock.try_write() && !lock.is_write_locked());
            lock.unlock_read(preference);
            assert!(!lock.is_free() && !lock.try_write());
            lock.unlock_read(preference);
        }
    }
    assert!(lock.is_free());
}

/// With [`Preference::Readers`] a thread that reads may read again while writers wait, and so may another one, for
/// which it waits; in every form.
fn reads_again<P: Platform, L: RawRwLock<P>, T: Threads>() {
    const DEPTH: u32 = 3;
    let preference = Preference::Readers;
    for round in 0..4 {
        let lock = L::new();
        let (reads, other_reads) = (AtomicBool::new(false), AtomicBool::new(false));
        // The first hold of a lock may differ from later ones.
        let holds = 1 + round % 2;
        let mut bodies: Vec<Box<dyn FnOnce() + Send>> = vec![
            Box::new(|| {
                for _ in 0..holds {
                    assert!(lock.read(preference, None));
                }
                // SAFETY: every unlock follows an acquisition in the same mode.
                (1..holds).for_each(|_| unsafe { lock.unlock_read(preference) });
                reads.store(true, SeqCst);
                T::settle();
                for depth in 0..DEPTH {
                    match depth {
                        0 => assert!(lock.read(preference, None)),
                        1 => assert!(lock.try_read(preference), "{}: a reader cannot read again", L::INFO.id),
                        _ => assert!(lock.read(preference, Some(deadline::<P>(0)))),
                    }
                    assert!(!lock.is_write_locked() && !lock.is_free());
                }
                P::spin_map(|| other_reads.load(SeqCst).then_some(()));
                // SAFETY: as above.
                (0..=DEPTH).for_each(|_| unsafe { lock.unlock_read(preference) });
            }),
            Box::new(|| {
                P::spin_map(|| reads.load(SeqCst).then_some(()));
                T::settle();
                assert!(lock.read(preference, None));
                other_reads.store(true, SeqCst);
                // SAFETY: held shared.
                unsafe { lock.unlock_read(preference) };
            }),
        ];
        for writer in 0..2 {
            let (lock, reads) = (&lock, &reads);
            bodies.push(Box::new(move || {
                P::spin_map(|| reads.load(SeqCst).then_some(()));
                let limit = (round < 2 && writer == 0).then(|| deadline::<P>(60_000_000_000));
                assert!(lock.write(limit));
                assert!(lock.is_write_locked());
                // SAFETY: held exclusively.
                unsafe { lock.unlock_write(preference) };
            }));
        }
        T::run(bodies);
        is_sound::<P, L>(&lock, preference);
    }
}

/// A read hold may be released by another thread than the one that acquired it, and a thread may have several.
fn holds_have_no_owner<P: Platform, L: RawRwLock<P>, T: Threads>() {
    const HOLDS: u32 = 5_000;
    for preference in PREFERENCES {
        let lock = L::new();
        let (held, released) = (AtomicU32::new(0), AtomicU32::new(0));
        let acquire = || {
            for round in 0..HOLDS {
                if round % 512 == 0 {
                    // No more than so many at once, and now and then none.
                    P::spin_map(|| (held.load(SeqCst) == released.load(SeqCst)).then_some(()));
                }
                assert!(lock.read(preference, None));
                held.fetch_add(1, SeqCst);
            }
        };
        let release = || {
            while released.load(SeqCst) < 2 * HOLDS {
                let mine = released.load(SeqCst);
                if mine < held.load(SeqCst) && released.compare_exchange(mine, mine + 1, SeqCst, SeqCst).is_ok() {
                    assert!(!lock.is_write_locked());
                    // SAFETY: one of the holds that were counted is this one.
                    unsafe { lock.unlock_read(preference) };
                } else {
                    P::relax(1);
                }
            }
        };
        let write = || {
            while released.load(SeqCst) < 2 * HOLDS {
                if lock.write(Some(deadline::<P>(100_000))) {
                    let seen = held.load(SeqCst);
                    P::relax(20);
                    assert!(lock.is_write_locked());
                    assert_eq!(held.load(SeqCst), seen, "{}: a reader entered beside a writer", L::INFO.id);
                    // SAFETY: held exclusively.
                    unsafe { lock.unlock_write(preference) };
                }
                P::sleep(200_000);
            }
        };
        T::run(vec![Box::new(acquire), Box::new(acquire), Box::new(release), Box::new(release), Box::new(write)]);
        is_sound::<P, L>(&lock, preference);
    }
}

/// Holders stay long enough for every waiter to leave its spinning phase.
fn wakes_readers_and_writers<P: Platform, L: RawRwLock<P>, T: Threads>() {
    for preference in PREFERENCES {
        let lock = L::new();
        let served = AtomicU32::new(0);
        let body = |thread: usize| {
            for round in 0..12 {
                let writes = (round + thread).is_multiple_of(3);
                assert!(if writes { lock.write(None) } else { lock.read(preference, None) });
                P::spin_map_until(deadline::<P>(if round % 4 == 3 { 1_000_000 } else { 100_000 }), || None::<()>);
                assert_eq!(lock.is_write_locked(), writes, "{}", L::INFO.id);
                assert!(!lock.is_free(), "{}: a held lock says it is free", L::INFO.id);
                // SAFETY: held in that mode.
                unsafe {
                    if writes {
                        lock.unlock_write(preference);
                    } else {
                        lock.unlock_read(preference);
                    }
                }
                served.fetch_add(1, SeqCst);
            }
        };
        T::run(bodies(5, &body));
        assert_eq!(served.load(SeqCst), 60);
        is_sound::<P, L>(&lock, preference);
    }
}

/// Timed waiters that mostly give up, among others that wait for ever.
fn forgets_who_gave_up<P: Platform, L: RawRwLock<P>, T: Threads>() {
    const ROUNDS: usize = 400;
    for preference in PREFERENCES {
        let lock = L::new();
        let data = P::Data::<u64>::new(0);
        let written = AtomicUsize::new(0);
        let body = |thread: usize| {
            for round in 0..ROUNDS {
                let limit = match thread {
                    0 | 1 => None,
                    _ => Some(deadline::<P>((round * 7_919 + thread * 104_729) as u64 % 60_000)),
                };
                let writes = (round + thread).is_multiple_of(2);
                let acquired = if writes { lock.write(limit) } else { lock.read(preference, limit) };
                if !acquired {
                    let limit = limit.expect("only a timed wait gives up");
                    assert!(P::now(limit.clock) >= limit.at, "{} timed out early", L::INFO.id);
                    continue;
                }
                assert_eq!(lock.is_write_locked(), writes, "{}", L::INFO.id);
                // SAFETY: held in the mode that allows the access.
                unsafe {
                    if writes {
                        data.with_mut(|count| *count += 1);
                        written.fetch_add(1, SeqCst);
                        P::relax(300);
                        lock.unlock_write(preference);
                    } else {
                        data.with(|count| {
                            let seen = *count;
                            P::relax(300);
                            assert_eq!(seen, *count, "{}: reader beside a writer", L::INFO.id);
                        });
                        lock.unlock_read(preference);
                    }
                }
            }
        };
        T::run(bodies(6, &body));
        // SAFETY: all threads have ended.
        assert_eq!(unsafe { data.with(|count| *count) }, written.load(SeqCst) as u64);
        is_sound::<P, L>(&lock, preference);
    }
}

/// A writer gets in among readers that overlap without end if it is preferred, or times out in time otherwise; a
/// reader gets in among writers without end where the lock declares any fairness.
fn lets_others_in<P: Platform, L: RawRwLock<P>, T: Threads>() {
    const READERS: usize = 3;
    for preference in PREFERENCES {
        let lock = L::new();
        let (begun, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        let mut bodies: Vec<Box<dyn FnOnce() + Send>> = (0..READERS)
            .map(|_| {
                let (lock, begun, over) = (&lock, &begun, &over);
                Box::new(move || {
                    while !over.load(SeqCst) {
                        assert!(lock.read(preference, None));
                        begun.fetch_add(1, SeqCst);
                        P::spin_map_until(deadline::<P>(200_000), || None::<()>);
                        // SAFETY: held shared.
                        unsafe { lock.unlock_read(preference) };
                    }
                }) as Box<dyn FnOnce() + Send>
            })
            .collect();
        bodies.push(Box::new(|| {
            P::spin_map(|| (begun.load(SeqCst) >= READERS).then_some(()));
            for limit in [Some(60_000_000_000), None] {
                let preferred = preference == Preference::Writers;
                let limit = if preferred { limit } else { Some(2_000_000) };
                let entered = lock.write(limit.map(deadline::<P>));
                assert!(entered || !preferred, "{}: readers starve a writer that is preferred", L::INFO.id);
                if entered {
                    // SAFETY: held exclusively.
                    unsafe { lock.unlock_write(preference) };
                }
            }
            over.store(true, SeqCst);
        }));
        T::run(bodies);
        is_sound::<P, L>(&lock, preference);
    }
    if L::INFO.fairness == Fairness::Unfair {
        return;
    }
    for preference in PREFERENCES {
        let lock = L::new();
        let (begun, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let write = || {
            while !over.load(SeqCst) {
                assert!(lock.write(None));
                begun.store(true, SeqCst);
                P::relax(200);
                // SAFETY: held exclusively.
                unsafe { lock.unlock_write(preference) };
            }
        };
        let read = || {
            P::spin_map(|| begun.load(SeqCst).then_some(()));
            for _ in 0..20 {
                let entered = lock.read(preference, Some(deadline::<P>(60_000_000_000)));
                assert!(entered, "{}: writers starve a reader", L::INFO.id);
                // SAFETY: held shared.
                unsafe { lock.unlock_read(preference) };
            }
            over.store(true, SeqCst);
        };
        T::run(vec![Box::new(write), Box::new(write), Box::new(write), Box::new(read)]);
        is_sound::<P, L>(&lock, preference);
    }
}

/// One user destroys the lock right after its own release, when it has seen under the lock that the others have been
/// there; nobody may touch the memory after that. The destroyer writes while the others read, and the other way round.
fn leaves_freed_rwlock_alone<P: Platform, L: RawRwLock<P>, T: Threads>() {
    const POISON: u8 = 0xA5;
    struct Memory<L>(*mut L);
    // SAFETY: the test hands the pointer to threads that follow the protocol below.
    unsafe impl<L> Sync for Memory<L> {}
    /// # Safety
    /// The lock lives; as for the lock's functions.
    unsafe fn with<P: Platform, L: RawRwLock<P>, R>(
        lock: *mut L,
        preference: Preference,
        writes: bool,
        f: impl FnOnce() -> R,
    ) -> R {
        // SAFETY: as for this call.
        unsafe {
            assert!(if writes { (*lock).write(None) } else { (*lock).read(preference, None) });
            let result = f();
            if writes {
                (*lock).unlock_write(preference);
            } else {
                (*lock).unlock_read(preference);
            }
            result
        }
    }

    const OTHERS: u32 = 2;
    for round in 0..160 {
        let (preference, destroyer_writes) = (PREFERENCES[round % 2], round / 2 % 2 == 0);
        let memory = Memory(std::ptr::from_mut(Box::leak(Box::new(std::mem::ManuallyDrop::new(L::new())))).cast::<L>());
        let users = AtomicU32::new(OTHERS);
        let other = || {
            let memory = &memory;
            // SAFETY: the lock lives until the destroyer has seen, under the lock, that this thread was inside.
            unsafe { with(memory.0, preference, !destroyer_writes, || users.fetch_sub(1, SeqCst)) };
        };
        let destroyer = || {
            let memory = &memory;
            P::spin_map(|| {
                // SAFETY: as above; only this thread destroys the lock.
                let left = unsafe { with(memory.0, preference, destroyer_writes, || users.load(SeqCst)) };
                (left == 0).then_some(())
            });
            // SAFETY: the memory is still a lock's.
            P::spin_map(|| unsafe { &*memory.0 }.is_quiet().then_some(()));
            // SAFETY: no other user is left.
            unsafe { memory.0.cast::<u8>().write_bytes(POISON, size_of::<L>()) };
        };
        T::run(vec![Box::new(other), Box::new(destroyer), Box::new(other)]);
        // SAFETY: the bytes were written above; all threads have ended.
        let bytes = unsafe { std::slice::from_raw_parts(memory.0.cast::<u8>(), size_of::<L>()) };
        assert!(bytes.iter().all(|byte| *byte == POISON), "{} was written to after its release", L::INFO.id);
    }
}

/// What the child of a fork does: a copy of the lock, with its waiters in mid-air, forgets them and serves its holder.
fn forgets_waiters<P: Platform, L: RawRwLock<P>, T: Threads>() {
    for (preference, writes) in PREFERENCES.iter().flat_map(|preference| [(*preference, false), (*preference, true)]) {
        let lock = L::new();
        assert!(if writes { lock.write(None) } else { lock.read(preference, None) });
        // SAFETY: released below, once for the lock and once for its copy.
        let unlock = |lock: &L| unsafe {
            if writes {
                lock.unlock_write(preference);
            } else {
                lock.unlock_read(preference);
            }
        };
        let waits_to_read = || {
            assert!(lock.read(preference, None));
            // SAFETY: held shared.
            unsafe { lock.unlock_read(preference) };
        };
        let waits_to_write = |limit: Option<Ns>| {
            if lock.write(limit.map(deadline::<P>)) {
                // SAFETY: held exclusively.
                unsafe { lock.unlock_write(preference) };
            }
        };
        T::run(vec![
            Box::new(waits_to_read),
            Box::new(|| waits_to_write(None)),
            Box::new(|| waits_to_write(None)),
            Box::new(|| waits_to_write(Some(5_000_000_000))),
            Box::new(waits_to_read),
            Box::new(|| {
                for _ in 0..8 {
                    T::settle();
                    // SAFETY: as a fork copies the memory; the lock is made of atomics and has no destructor.
                    let copy = std::mem::ManuallyDrop::new(unsafe { std::ptr::read_volatile(&lock) });
                    copy.forget_waiters();
                    assert_eq!(copy.is_write_locked(), writes, "{}: forgot a holder", L::INFO.id);
                    assert!(!copy.is_free(), "{}: forgot a holder", L::INFO.id);
                    unlock(&copy);
                    is_sound::<P, L>(&copy, preference);
                    assert!(copy.write(None) && copy.is_write_locked());
                    // SAFETY: held exclusively.
                    unsafe { copy.unlock_write(preference) };
                }
                unlock(&lock);
            }),
        ]);
        is_sound::<P, L>(&lock, preference);
    }
}
