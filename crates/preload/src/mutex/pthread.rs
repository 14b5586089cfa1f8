//! `pthread_mutex_lock`, `pthread_mutex_trylock` and `pthread_mutex_unlock` where all mutexes run on one lock, compiled
//! for each lock. Three functions stand for one of them: `_alone` asks glibc each time whether the process has one
//! thread, `_among_threads` takes its place when the program starts one ([`super::switch`]), and to `_directly` a
//! symbol can lead without the table ([`super::direct`]).

use super::body::Body;
use super::direct::Function;
use super::ordinary::{install_others, OnLock};
use super::switch::{self, Switch};
use super::{special, Class, Mutex, OPS};
use crate::functions::{ACTIVE, REAL};
use crate::pool::{self, Pool, LOCKS};
use crate::threads::{seldom, Threads};
use core::ffi::c_int;
use libc::pthread_mutex_t;
use lockswap_locks::{IsHeld, TimedLock};
use lockswap_platform::{Native, Single};

impl<N: Body<Native>, S: Body<Single>> OnLock<N, S, false> {
    /// `pthread_mutex_lock`
    #[inline(always)]
    unsafe fn lock(mutex: *mut pthread_mutex_t, threads: Threads) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        match mutex.class() {
            // SAFETY: an ordinary mutex.
            Class::Ordinary => unsafe { Self::acquire_ordinary(mutex, threads) },
            Class::Owned => Self::lock_owned(mutex),
            Class::Glibcs => special::pass_on(&REAL.pthread_mutex_lock, mutex),
            Class::Special => special::lock(mutex),
        }
    }

    unsafe extern "C-unwind" fn lock_alone(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        unsafe { Self::lock(mutex, Threads::AskGlibc) }
    }

    unsafe extern "C-unwind" fn lock_among_threads(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        unsafe { Self::lock(mutex, Threads::Several) }
    }

    unsafe extern "C-unwind" fn lock_directly(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        unsafe {
            if let Some(active) = ACTIVE.pthread_mutex_lock.other_than(Self::lock_among_threads) {
                seldom();
                return active(mutex);
            }
            Self::lock(mutex, Threads::Several)
        }
    }

    /// `pthread_mutex_trylock`
    #[inline(always)]
    unsafe extern "C-unwind" fn trylock(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        let Class::Ordinary = mutex.class() else { return special::trylock(mutex) };
        // SAFETY: an ordinary mutex.
        unsafe { Self::trylock_ordinary(mutex) }
    }

    unsafe extern "C-unwind" fn trylock_directly(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        unsafe {
            if let Some(active) = ACTIVE.pthread_mutex_trylock.other_than(Self::trylock) {
                seldom();
                return active(mutex);
            }
            Self::trylock(mutex)
        }
    }

    /// `pthread_mutex_unlock`: by any thread, and of a mutex that is not locked, which changes nothing.
    #[inline(always)]
    unsafe fn unlock(mutex: *mut pthread_mutex_t, threads: Threads) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        let known = if N::HAS_CONTEXT { pool::holds_through::<N::Ctx>(Pool::Only, mutex.address()) } else { None };
        if let Some(context) = known.filter(|_| N::LIES_INSIDE) {
            // Waiters have changed the mutex's line since this thread acquired it, so that it costs to look there.
            // SAFETY: the mutex is held through this context.
            if unsafe { mutex.inside::<N>().has_heir(context.as_ref()) } {
                return Self::hand_over_known(mutex, context);
            }
        }
        match (mutex.class(), known) {
            // SAFETY: an ordinary mutex, held through this context.
            (Class::Ordinary, Some(context)) => unsafe { Self::release_known(mutex, context, threads) },
            // SAFETY: an ordinary mutex.
            (Class::Ordinary, None) => unsafe { Self::release_ordinary(mutex, threads) },
            (Class::Owned, _) => Self::unlock_owned(mutex),
            (Class::Glibcs, _) => special::pass_on(&REAL.pthread_mutex_unlock, mutex),
            (Class::Special, _) => special::unlock(mutex),
        }
    }

    unsafe extern "C-unwind" fn unlock_alone(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        unsafe { Self::unlock(mutex, Threads::AskGlibc) }
    }

    unsafe extern "C-unwind" fn unlock_among_threads(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        unsafe { Self::unlock(mutex, Threads::Several) }
    }

    unsafe extern "C-unwind" fn unlock_directly(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        unsafe {
            if let Some(active) = ACTIVE.pthread_mutex_unlock.other_than(Self::unlock_among_threads) {
                seldom();
                return active(mutex);
            }
            Self::unlock(mutex, Threads::Several)
        }
    }

    const SWITCH: Switch = Switch {
        alone: [Self::lock_alone, Self::unlock_alone],
        among_threads: [Self::lock_among_threads, Self::unlock_among_threads],
    };
}

/// Makes mutexes run on the lock `N`, which is `S` while the process has one thread.
pub fn install<N: TimedLock<Native> + IsHeld, S: TimedLock<Single> + IsHeld>() {
    OPS.store([&OnLock::<N, S, false>::OPS; LOCKS]);
    switch::install(&OnLock::<N, S, false>::SWITCH);
    ACTIVE.pthread_mutex_trylock.set(OnLock::<N, S, false>::trylock);
    install_others();
}

/// What symbols can lead to where mutexes run on the lock `N`: `pthread_mutex_lock`, `pthread_mutex_trylock`,
/// `pthread_mutex_unlock`.
pub const fn direct<N: TimedLock<Native> + IsHeld, S: TimedLock<Single> + IsHeld>() -> [Function; 3] {
    [
        OnLock::<N, S, false>::lock_directly,
        OnLock::<N, S, false>::trylock_directly,
        OnLock::<N, S, false>::unlock_directly,
    ]
}
