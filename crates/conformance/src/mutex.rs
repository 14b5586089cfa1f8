//! The checks of a mutex.

use crate::{bodies, deadline, Threads};
use lockswap_locks::info::Fairness;
use lockswap_locks::{Context, IsHeld, TimedLock};
use lockswap_platform::{Clock, DataCell, Deadline, Platform};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::SeqCst};
use std::sync::Mutex;

/// The mutex checks need all of these.
pub trait Lock<P: Platform>: TimedLock<P> + IsHeld {}
impl<P: Platform, L: TimedLock<P> + IsHeld> Lock<P> for L {}

/// Contexts for one thread at a time: an acquisition takes a reusable one.
struct Contexts<C>(Vec<Box<C>>);

impl<C: Context> Contexts<C> {
    fn new() -> Self {
        Contexts(Vec::new())
    }

    fn take(&mut self) -> Box<C> {
        match self.0.iter().position(|cx| cx.is_reusable()) {
            Some(index) => self.0.swap_remove(index),
            None => Box::new(C::new()),
        }
    }
}

impl<C> Drop for Contexts<C> {
    fn drop(&mut self) {
        // The next owner may still look at a context that is not reusable yet.
        self.0.drain(..).for_each(|cx| {
            Box::leak(cx);
        });
    }
}

/// All checks of a mutex.
pub fn mutex<P: Platform, L: Lock<P>, T: Threads>() {
    alone::<P, L>();
    spin::<P, L, T>();
}

/// The checks of a mutex that need no second thread.
pub fn alone<P: Platform, L: Lock<P>>() {
    // SAFETY: an all-zero lock is a free lock, by contract; this is what a static initialiser makes.
    let lock = unsafe { std::mem::MaybeUninit::<L>::zeroed().assume_init() };
    try_is_exact::<P, L>(&lock);
}

/// All checks of a lock that stands in for a spinlock: those of a mutex, but zero may mean something else.
pub fn spin<P: Platform, L: Lock<P>, T: Threads>() {
    try_is_exact::<P, L>(&L::new());
    excludes::<P, L, T>();
    times_out::<P, L, T>();
    wakes_sleepers::<P, L, T>();
    releases_for_another_thread::<P, L, T>();
    leaves_freed_memory_alone::<P, L, T>();
    if L::INFO.fairness == Fairness::Fifo {
        serves_in_order::<P, L, T>();
    }
}

fn try_is_exact<P: Platform, L: Lock<P>>(lock: &L) {
    let (first, second) = (L::Ctx::new(), L::Ctx::new());
    for _ in 0..3 {
        // SAFETY: each context serves one acquisition at a time and both outlive the lock's use.
        unsafe {
            assert!(!lock.is_held(), "{}: a free lock says it is held", L::INFO.id);
            assert!(lock.try_lock(&first), "{}: try_lock of a free lock failed", L::INFO.id);
            assert!(lock.is_held(), "{}: a held lock says it is free", L::INFO.id);
            assert!(!lock.try_lock(&second), "{}: try_lock of a held lock succeeded", L::INFO.id);
            lock.unlock(&first);
            lock.lock(&second);
            assert!(!lock.try_lock(&first), "{}: try_lock of a held lock succeeded", L::INFO.id);
            lock.unlock(&second);
            assert!(lock.lock_until(&first, deadline::<P>(0)), "{}: a free lock timed out", L::INFO.id);
            lock.unlock(&first);
        }
    }
}

fn excludes<P: Platform, L: Lock<P>, T: Threads>() {
    const ROUNDS: u64 = 3_000;
    for threads in [2, 4, 7] {
        let lock = L::new();
        let counter = P::Data::<u64>::new(0);
        let counted = AtomicUsize::new(0);
        let body = |thread: usize| {
            let mut contexts = Contexts::new();
            for round in 0..ROUNDS {
                let cx = contexts.take();
                // SAFETY: the context is reusable and serves this acquisition only.
                let acquired = unsafe {
                    match (round + thread as u64) % 4 {
                        0 => lock.try_lock(&cx),
                        1 => lock.lock_until(&cx, deadline::<P>(200_000)),
                        _ => {
                            lock.lock(&cx);
                            true
                        }
                    }
                };
                if acquired {
                    // SAFETY: the lock is held.
                    unsafe {
                        counter.with_mut(|count| *count += 1);
                        if round % 64 == 0 {
                            P::relax(2_000);
                        }
                        lock.unlock(&cx);
                    }
                    counted.fetch_add(1, SeqCst);
                }
                contexts.0.push(cx);
            }
        };
        T::run(bodies(threads, &body));
        // SAFETY: all threads have ended.
        let total = unsafe { counter.with(|count| *count) };
        assert_eq!(total, counted.load(SeqCst) as u64, "{} let two threads in", L::INFO.id);
        assert!(total >= threads as u64 * ROUNDS / 2);
        assert!(!lock.is_held());
    }
}

fn times_out<P: Platform, L: Lock<P>, T: Threads>() {
    let lock = L::new();
    let holder = L::Ctx::new();
    // SAFETY: fresh contexts, one acquisition each.
    unsafe { lock.lock(&holder) };
    for clock in [Clock::Monotonic, Clock::Realtime] {
        let waiter = L::Ctx::new();
        let at = P::now(clock) + 3_000_000;
        // SAFETY: as above.
        assert!(!unsafe { lock.lock_until(&waiter, Deadline { clock, at }) });
        assert!(P::now(clock) >= at, "{} timed out early", L::INFO.id);
    }
    let given_up = AtomicBool::new(false);
    T::run(vec![
        Box::new(|| {
            let cx = Box::leak(Box::new(L::Ctx::new()));
            // SAFETY: as above; leaked, since the next owner may look at it after the release.
            let acquired = unsafe { lock.lock_until(cx, deadline::<P>(2_000_000)) };
            assert!(!acquired);
            given_up.store(true, SeqCst);
        }),
        Box::new(|| {
            P::spin_map(|| given_up.load(SeqCst).then_some(()));
            // SAFETY: held through this context since before the threads started.
            unsafe { lock.unlock(&holder) };
        }),
        Box::new(|| {
            let cx = Box::leak(Box::new(L::Ctx::new()));
            // SAFETY: as above.
            unsafe {
                let acquired = lock.lock_until(cx, deadline::<P>(60_000_000_000));
                assert!(acquired, "{}: an abandoned wait blocked the lock", L::INFO.id);
                lock.unlock(cx);
            }
        }),
    ]);
    assert!(!lock.is_held());
}

/// Holders stay long enough for every waiter to leave its spinning phase.
fn wakes_sleepers<P: Platform, L: Lock<P>, T: Threads>() {
    let lock = L::new();
    let served = AtomicU32::new(0);
    let body = || {
        let mut contexts = Contexts::new();
        for _ in 0..10 {
            let cx = contexts.take();
            // SAFETY: the context is reusable and serves this acquisition only.
            unsafe {
                lock.lock(&cx);
                P::spin_map_until(deadline::<P>(300_000), || None::<()>);
                lock.unlock(&cx);
            }
            served.fetch_add(1, SeqCst);
            contexts.0.push(cx);
        }
    };
    T::run(bodies(4, &|_| body()));
    assert_eq!(served.load(SeqCst), 40);
}

fn releases_for_another_thread<P: Platform, L: Lock<P>, T: Threads>() {
    let lock = L::new();
    let cx = L::Ctx::new();
    let acquired = AtomicBool::new(false);
    // SAFETY: one acquisition, released by the other thread after it has been told.
    unsafe {
        T::run(vec![
            Box::new(|| {
                lock.lock(&cx);
                acquired.store(true, SeqCst);
            }),
            Box::new(|| {
                P::spin_map(|| acquired.load(SeqCst).then_some(()));
                lock.unlock(&cx);
            }),
        ]);
        assert!(!lock.is_held());
        let other = L::Ctx::new();
        assert!(lock.try_lock(&other));
        lock.unlock(&other);
    }
}

/// The last of several users destroys the lock right after its own release; nobody may touch the memory after that.
fn leaves_freed_memory_alone<P: Platform, L: Lock<P>, T: Threads>() {
    const POISON: u8 = 0xA5;
    struct Shared<L, D> {
        lock: std::mem::ManuallyDrop<L>,
        users: D,
    }
    struct Memory<P, L>(*mut L, PhantomData<P>);
    // SAFETY: the test hands the pointer to threads that follow the protocol below.
    unsafe impl<P, L> Sync for Memory<P, L> {}

    for _ in 0..60 {
        let shared =
            Box::leak(Box::new(Shared { lock: std::mem::ManuallyDrop::new(L::new()), users: P::Data::<u32>::new(3) }));
        let memory = Memory::<P, _>((&raw mut *shared.lock).cast::<L>(), PhantomData);
        let users = &shared.users;
        let freed = AtomicBool::new(false);
        let body = || {
            let memory = &memory;
            let cx = Box::leak(Box::new(L::Ctx::new()));
            // SAFETY: the lock lives until the last user has released it; the counter is protected by it.
            let last = unsafe {
                let lock = &*memory.0;
                lock.lock(cx);
                let left = users.with_mut(|users| {
                    *users -= 1;
                    *users
                });
                lock.unlock(cx);
                left == 0
            };
            if last {
                // SAFETY: the memory is still a lock's.
                P::spin_map(|| unsafe { &*memory.0 }.is_quiet().then_some(()));
                // SAFETY: no other user is left: all have released the lock, which ends their use of it.
                unsafe { memory.0.cast::<u8>().write_bytes(POISON, size_of::<L>()) };
                freed.store(true, SeqCst);
            }
        };
        T::run(bodies(3, &|_| body()));
        assert!(freed.load(SeqCst));
        // SAFETY: the bytes were written above; all threads have ended.
        let bytes = unsafe { std::slice::from_raw_parts(memory.0.cast::<u8>(), size_of::<L>()) };
        assert!(bytes.iter().all(|byte| *byte == POISON), "{} was written to after its release", L::INFO.id);
    }
}

fn serves_in_order<P: Platform, L: Lock<P>, T: Threads>() {
    const WAITERS: u32 = 4;
    /// The waiter whose turn it was is about to queue.
    const TAKEN: u32 = u32::MAX;
    let lock = L::new();
    let holder = L::Ctx::new();
    // SAFETY: fresh contexts, one acquisition each.
    unsafe { lock.lock(&holder) };
    let turn = AtomicU32::new(TAKEN);
    let order = Mutex::new(Vec::new());
    let mut bodies: Vec<Box<dyn FnOnce() + Send>> = (0..WAITERS)
        .map(|waiter| {
            let (lock, turn, order) = (&lock, &turn, &order);
            Box::new(move || {
                let cx = Box::leak(Box::new(L::Ctx::new()));
                P::spin_map(|| (turn.load(SeqCst) == waiter).then_some(()));
                turn.store(TAKEN, SeqCst);
                // SAFETY: as above; leaked, since the next owner may look at it after the release.
                unsafe {
                    lock.lock(cx);
                    order.lock().unwrap().push(waiter);
                    lock.unlock(cx);
                }
            }) as Box<dyn FnOnce() + Send>
        })
        .collect();
    let (turn_ref, lock_ref, holder_ref) = (&turn, &lock, &holder);
    bodies.push(Box::new(move || {
        for waiter in 0..WAITERS {
            turn_ref.store(waiter, SeqCst);
            P::spin_map(|| (turn_ref.load(SeqCst) == TAKEN).then_some(()));
            T::settle();
        }
        // SAFETY: held since before the threads started.
        unsafe { lock_ref.unlock(holder_ref) };
    }));
    T::run(bodies);
    let order = order.into_inner().unwrap();
    assert_eq!(order, (0..WAITERS).collect::<Vec<_>>(), "{} is declared first come, first served", L::INFO.id);
}
