//! The functions that take part in an experiment.

use super::{world, Thread};
use crate::functions::{Functions, Start, UNTRACED};
use crate::mutex;
use crate::tls;
use crate::trace::{births, has_acquired};
use core::ffi::{c_int, c_void};
use libc::{
    clockid_t, pthread_attr_t, pthread_barrier_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, pthread_t, sem_t,
    timespec,
};

fn thread() -> &'static Thread {
    &tls::thread().whatif
}

/// The functions that acquire something, and whether that begins a section: of an object that is recursive, or not.
macro_rules! acquisitions {
    ($(fn $name:ident($object:ident: $type:ty $(, $arg:ident: $arg_type:ty)*) $section:block)*) => {
        $(
            unsafe extern "C-unwind" fn $name($object: $type $(, $arg: $arg_type)*) -> c_int {
                let before = thread().meet();
                // SAFETY: the program's arguments.
                let result = unsafe { UNTRACED.$name.get()($object $(, $arg)*) };
                let has_acquired = has_acquired(result);
                let section: Option<bool> = $section;
                let acquired = section.filter(|_| has_acquired).map(|is_recursive| ($object.addr(), is_recursive));
                thread().go_on(before, has_acquired, acquired);
                result
            }
        )*

        fn put_acquisitions(table: &Functions) {
            $(table.$name.set($name);)*
        }
    };
}

acquisitions! {
    fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) { Some(is_recursive(mutex)) }
    fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t) { Some(is_recursive(mutex)) }
    fn pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, abstime: *const timespec) { Some(is_recursive(mutex)) }
    fn pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t, abstime: *const timespec) {
        Some(is_recursive(mutex))
    }
    fn pthread_rwlock_rdlock(rwlock: *mut pthread_rwlock_t) { None }
    fn pthread_rwlock_tryrdlock(rwlock: *mut pthread_rwlock_t) { None }
    fn pthread_rwlock_timedrdlock(rwlock: *mut pthread_rwlock_t, abstime: *const timespec) { None }
    fn pthread_rwlock_clockrdlock(rwlock: *mut pthread_rwlock_t, clock: clockid_t, abstime: *const timespec) { None }
    fn pthread_rwlock_wrlock(rwlock: *mut pthread_rwlock_t) { Some(false) }
    fn pthread_rwlock_trywrlock(rwlock: *mut pthread_rwlock_t) { Some(false) }
    fn pthread_rwlock_timedwrlock(rwlock: *mut pthread_rwlock_t, abstime: *const timespec) { Some(false) }
    fn pthread_rwlock_clockwrlock(rwlock: *mut pthread_rwlock_t, clock: clockid_t, abstime: *const timespec) {
        Some(false)
    }
    fn pthread_spin_lock(spin: *mut c_int) { Some(false) }
    fn pthread_spin_trylock(spin: *mut c_int) { Some(false) }
    fn sem_wait(semaphore: *mut sem_t) { None }
    fn sem_timedwait(semaphore: *mut sem_t, abstime: *const timespec) { None }
    fn sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, abstime: *const timespec) { None }
}

fn is_recursive(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: the program's mutex, which it has just acquired or tried to.
    unsafe { mutex::is_recursive(mutex) }
}

macro_rules! releases {
    ($(fn $name:ident($object:ident: $type:ty);)*) => {
        $(
            unsafe extern "C-unwind" fn $name($object: $type) -> c_int {
                let before = thread().meet();
                thread().end_section($object.addr());
                if let Some(world) = world() {
                    world.count_release($object.addr());
                }
                // SAFETY: the program's argument.
                let result = unsafe { UNTRACED.$name.get()($object) };
                thread().go_on(before, false, None);
                result
            }
        )*

        fn put_releases(table: &Functions) {
            $(table.$name.set($name);)*
        }
    };
}

releases! {
    fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t);
    fn pthread_rwlock_unlock(rwlock: *mut pthread_rwlock_t);
    fn pthread_spin_unlock(spin: *mut c_int);
}

/// Waits for a condition begin with a release of the mutex and end with an acquisition.
macro_rules! conditions {
    ($(fn $name:ident($cond:ident: $type:ty, $mutex:ident: $mutex_type:ty $(, $arg:ident: $arg_type:ty)*);)*) => {
        $(
            unsafe extern "C-unwind" fn $name($cond: $type, $mutex: $mutex_type $(, $arg: $arg_type)*) -> c_int {
                let before = thread().meet();
                let was_section = thread().end_section($mutex.addr());
                if let Some(world) = world() {
                    world.count_release($mutex.addr());
                }
                // SAFETY: the program's arguments.
                let result = unsafe { UNTRACED.$name.get()($cond, $mutex $(, $arg)*) };
                let acquired = was_section.then(|| ($mutex.addr(), is_recursive($mutex)));
                // One that waited for too long was not let go on by anybody.
                thread().go_on(before, result == 0, acquired);
                result
            }
        )*

        fn put_conditions(table: &Functions) {
            $(table.$name.set($name);)*
        }
    };
}

conditions! {
    fn pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t);
    fn pthread_cond_timedwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, abstime: *const timespec);
    fn pthread_cond_clockwait(
        cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, abstime: *const timespec);
}

/// Functions that let other threads go on, or wait for them and are never in vain.
macro_rules! others {
    ($(fn $name:ident($($arg:ident: $type:ty),*) lets $was_let:literal;)*) => {
        $(
            unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
                let before = thread().meet();
                // SAFETY: the program's arguments.
                let result = unsafe { UNTRACED.$name.get()($($arg),*) };
                thread().go_on(before, $was_let, None);
                result
            }
        )*

        fn put_others(table: &Functions) {
            $(table.$name.set($name);)*
        }
    };
}

others! {
    fn pthread_cond_signal(cond: *mut pthread_cond_t) lets false;
    fn pthread_cond_broadcast(cond: *mut pthread_cond_t) lets false;
    fn pthread_create(
        thread_made: *mut pthread_t, attr: *const pthread_attr_t, start: Start<*mut c_void>, argument: *mut c_void)
        lets false;
    fn thrd_create(thread_made: *mut pthread_t, start: Start<c_int>, argument: *mut c_void) lets false;
    fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) lets true;
}

/// Puts the functions that take part into a table.
pub fn put(table: &Functions) {
    put_acquisitions(table);
    put_releases(table);
    put_conditions(table);
    put_others(table);
    births::put(table);
}
