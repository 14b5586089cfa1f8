//! glibc's own mutexes, of which the default kind becomes glibc's adaptive kind (`PTHREAD_MUTEX_ADAPTIVE_NP`) before
//! its first use: a waiter then spins before it sleeps, as long as that has paid off for the mutex. In glibc both
//! kinds have the same results and are released alike. Other kinds, and mutexes that are robust, shared or know
//! priorities, are left as they are.

use super::{special, Mutex, ADAPTIVE, ARE_REPLACED, NORMAL, NO_ELISION};
use crate::functions::{ACTIVE, REAL};
use core::ffi::c_int;
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};

/// Changes the kind if it is the default.
///
/// # Safety
/// `mutex` is the program's.
#[inline(always)]
unsafe fn adapt<'a>(mutex: *mut pthread_mutex_t) -> &'a Mutex {
    // SAFETY: as for this call; the low half of the word is glibc's kind.
    unsafe {
        let ours = Mutex::of(mutex);
        let kind = &*(&raw const ours.word).cast::<AtomicU32>();
        let found = kind.load(Ordering::Relaxed);
        if found & !NO_ELISION == NORMAL {
            // Relaxed: all first users do the same, each before it lets glibc see the mutex.
            let _ = kind.compare_exchange(found, found | ADAPTIVE, Ordering::Relaxed, Ordering::Relaxed);
        }
        ours
    }
}

unsafe extern "C-unwind" fn init(mutex: *mut pthread_mutex_t, attr: *const pthread_mutexattr_t) -> c_int {
    // SAFETY: the program's memory.
    unsafe {
        let result = REAL.pthread_mutex_init.get()(mutex, attr);
        if result == 0 {
            adapt(mutex);
        }
        result
    }
}

unsafe extern "C-unwind" fn lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's mutex.
    special::pass_on(&REAL.pthread_mutex_lock, unsafe { adapt(mutex) })
}

unsafe extern "C-unwind" fn trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's mutex.
    special::pass_on(&REAL.pthread_mutex_trylock, unsafe { adapt(mutex) })
}

unsafe extern "C-unwind" fn timedlock(mutex: *mut pthread_mutex_t, abstime: *const timespec) -> c_int {
    // SAFETY: the program's mutex and time.
    unsafe {
        adapt(mutex);
        REAL.pthread_mutex_timedlock.get()(mutex, abstime)
    }
}

unsafe extern "C-unwind" fn clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    abstime: *const timespec,
) -> c_int {
    // SAFETY: the program's mutex and time.
    unsafe {
        adapt(mutex);
        REAL.pthread_mutex_clocklock.get()(mutex, clock, abstime)
    }
}

/// Makes mutexes run on glibc's adaptive kind.
pub fn install() {
    ARE_REPLACED.store(true, Ordering::Relaxed);
    ACTIVE.pthread_mutex_init.set(init);
    ACTIVE.pthread_mutex_lock.set(lock);
    ACTIVE.pthread_mutex_trylock.set(trylock);
    ACTIVE.pthread_mutex_timedlock.set(timedlock);
    ACTIVE.pthread_mutex_clocklock.set(clocklock);
}
