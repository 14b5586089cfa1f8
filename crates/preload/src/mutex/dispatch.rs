//! The functions for a process with several locks for its mutexes: they look which one a mutex runs on, and go on with
//! a jump to the function for an ordinary mutex of that lock.

use super::ordinary::install_others;
use super::{special, Class, Mutex, Ops, OPS};
use crate::functions::{ACTIVE, REAL};
use crate::pool::{self, LOCKS};
use core::ffi::c_int;
use libc::pthread_mutex_t;

unsafe extern "C-unwind" fn lock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's mutex.
    let mutex = unsafe { Mutex::of(mutex) };
    match mutex.class_and_ops() {
        // SAFETY: an ordinary mutex of this lock.
        (Class::Ordinary, ops) => unsafe { (ops.lock)(mutex) },
        (Class::Owned, ops) => (ops.lock_owned)(mutex),
        (Class::Glibcs, _) => special::pass_on(&REAL.pthread_mutex_lock, mutex),
        (Class::Special, _) => special::lock(mutex),
    }
}

unsafe extern "C-unwind" fn trylock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's mutex.
    let mutex = unsafe { Mutex::of(mutex) };
    match mutex.class_and_ops() {
        // SAFETY: an ordinary mutex of this lock.
        (Class::Ordinary, ops) => unsafe { (ops.trylock)(mutex) },
        (Class::Glibcs, _) => special::pass_on(&REAL.pthread_mutex_trylock, mutex),
        _ => special::trylock(mutex),
    }
}

unsafe extern "C-unwind" fn unlock(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's mutex.
    let mutex = unsafe { Mutex::of(mutex) };
    // Waiters have changed the mutex's line since this thread acquired it, so that it costs to look there.
    if let Some(number) = pool::lock_held_through(mutex.address()) {
        // SAFETY: a mutex of this lock, which the calling thread holds.
        return unsafe { (OPS.get(number).unlock_known)(mutex) };
    }
    match mutex.class_and_ops() {
        // SAFETY: an ordinary mutex of this lock.
        (Class::Ordinary, ops) => unsafe { (ops.unlock)(mutex) },
        (Class::Owned, ops) => (ops.unlock_owned)(mutex),
        (Class::Glibcs, _) => special::pass_on(&REAL.pthread_mutex_unlock, mutex),
        (Class::Special, _) => special::unlock(mutex),
    }
}

/// Makes mutexes run on these locks, each on the one whose number it has.
pub fn install(locks: &[&'static Ops]) {
    let Some(first) = locks.first() else { return };
    pool::set_count(locks.len());
    OPS.store(core::array::from_fn::<_, LOCKS, _>(|number| *locks.get(number).unwrap_or(first)));
    ACTIVE.pthread_mutex_lock.set(lock);
    ACTIVE.pthread_mutex_trylock.set(trylock);
    ACTIVE.pthread_mutex_unlock.set(unlock);
    install_others();
}
