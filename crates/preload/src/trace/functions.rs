//! The functions that trace: each tries, waits or releases as the function behind it does, and has what is picked
//! noted.

use super::probes::probe;
use super::{begin_hold, births, has_acquired, other_waits, releases, waits, watch, Manner};
use crate::functions::{quiet, Functions, UNTRACED};
use crate::{deadline, mutex, tls};
use core::ffi::c_int;
use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, timespec};
use lockswap_records::trace::Use;

/// The functions that acquire something. Most calls pass through the few lines that stand here, without a closure in
/// the way.
macro_rules! traced {
    (
        $($used:ident ($entry:literal, $acquired:literal) {
            $(fn $name:ident($object:ident: $type:ty $(, $arg:ident: $arg_type:ty)*) after $attempt:ident if $may:expr;)*
            $(try fn $try_name:ident($try_type:ty);)?
        })*
    ) => {
        $($(
            unsafe extern "C-unwind" fn $name($object: $type $(, $arg: $arg_type)*) -> c_int {
                probe!($entry, $object);
                let may_try: bool = $may;
                if !may_try {
                    // SAFETY: the program's arguments.
                    return unsafe { UNTRACED.$name.get()($object $(, $arg)*) };
                }
                // SAFETY: the program's arguments.
                let acquire = move || unsafe { UNTRACED.$name.get()($object $(, $arg)*) };
                let result = if tls::thread().trace.acquisitions.picks() {
                    // SAFETY: as above.
                    let attempt = move || unsafe { UNTRACED.$attempt.get()($object) };
                    begin_hold($object.addr(), Use::$used, Manner::Waits, move || match attempt() {
                        libc::EBUSY => waits($object.addr(), Use::$used, acquire),
                        result => result,
                    })
                } else {
                    // SAFETY: as above.
                    match unsafe { quiet(UNTRACED.$attempt.get())($object) } {
                        libc::EBUSY => waits($object.addr(), Use::$used, acquire),
                        result => result,
                    }
                };
                if has_acquired(result) {
                    probe!($acquired, $object);
                    note_written(Use::$used, $object.addr());
                }
                result
            }
        )*
        $(
            unsafe extern "C-unwind" fn $try_name(object: $try_type) -> c_int {
                let result = if tls::thread().trace.acquisitions.picks() {
                    // SAFETY: the program's argument.
                    let attempt = move || unsafe { UNTRACED.$try_name.get()(object) };
                    begin_hold(object.addr(), Use::$used, Manner::Tries, attempt)
                } else {
                    // SAFETY: as above.
                    unsafe { quiet(UNTRACED.$try_name.get())(object) }
                };
                if has_acquired(result) {
                    probe!($acquired, object);
                    note_written(Use::$used, object.addr());
                }
                result
            }
        )?)*

        fn put_acquisitions(table: &Functions) {
            $($(table.$name.set($name);)* $(table.$try_name.set($try_name);)?)*
        }
    };
}

traced! {
    Mutex ("mutex_entry", "mutex_acquired") {
        fn pthread_mutex_lock(mutex: *mut pthread_mutex_t) after pthread_mutex_trylock if is_plain(mutex);
        fn pthread_mutex_timedlock(
            mutex: *mut pthread_mutex_t, abstime: *const timespec)
            after pthread_mutex_trylock if is_plain(mutex) && is_time(libc::CLOCK_REALTIME, abstime);
        fn pthread_mutex_clocklock(
            mutex: *mut pthread_mutex_t, clock: clockid_t, abstime: *const timespec)
            after pthread_mutex_trylock if is_plain(mutex) && is_time(clock, abstime);
        try fn pthread_mutex_trylock(*mut pthread_mutex_t);
    }
    Read ("rdlock_entry", "rdlock_acquire_read") {
        fn pthread_rwlock_rdlock(rwlock: *mut pthread_rwlock_t) after pthread_rwlock_tryrdlock if true;
        fn pthread_rwlock_timedrdlock(
            rwlock: *mut pthread_rwlock_t, abstime: *const timespec)
            after pthread_rwlock_tryrdlock if is_time(libc::CLOCK_REALTIME, abstime);
        fn pthread_rwlock_clockrdlock(
            rwlock: *mut pthread_rwlock_t, clock: clockid_t, abstime: *const timespec)
            after pthread_rwlock_tryrdlock if is_time(clock, abstime);
        try fn pthread_rwlock_tryrdlock(*mut pthread_rwlock_t);
    }
    Write ("wrlock_entry", "wrlock_acquire_write") {
        fn pthread_rwlock_wrlock(rwlock: *mut pthread_rwlock_t) after pthread_rwlock_trywrlock if true;
        fn pthread_rwlock_timedwrlock(
            rwlock: *mut pthread_rwlock_t, abstime: *const timespec)
            after pthread_rwlock_trywrlock if is_time(libc::CLOCK_REALTIME, abstime);
        fn pthread_rwlock_clockwrlock(
            rwlock: *mut pthread_rwlock_t, clock: clockid_t, abstime: *const timespec)
            after pthread_rwlock_trywrlock if is_time(clock, abstime);
        try fn pthread_rwlock_trywrlock(*mut pthread_rwlock_t);
    }
    Spin ("spin_entry", "spin_acquired") {
        fn pthread_spin_lock(spin: *mut c_int) after pthread_spin_trylock if true;
        try fn pthread_spin_trylock(*mut c_int);
    }
}

/// Whether an attempt may come before an acquisition of the mutex. One of glibc's attempts on a robust mutex that is
/// not recoverable any more changes what the next one says.
#[inline(always)]
fn is_plain(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: the program's mutex.
    unsafe { !mutex::is_robust(mutex) }
}

/// Whether an attempt may come before a wait until this time: else the call fails for its arguments.
fn is_time(clock: clockid_t, time: *const timespec) -> bool {
    // SAFETY: the program's argument.
    deadline::clock(clock).is_ok_and(|clock| unsafe { deadline::deadline(clock, time) }.is_ok())
}

/// Remembers that this thread holds an object to write, if that is what it has just begun.
#[inline(always)]
fn note_written(used: Use, object: usize) {
    if matches!(used, Use::Write) {
        let written = &tls::thread().trace.written;
        if let Some(free) = written.iter().find(|word| word.get() == 0) {
            free.set(object);
        }
    }
}

macro_rules! traced_releases {
    ($(fn $name:ident($object:ident: $type:ty) = $probe:literal $used:block)*) => {
        $(
            unsafe extern "C-unwind" fn $name($object: $type) -> c_int {
                probe!($probe, $object);
                let used = $used;
                if watch::is_marked($object.addr()) {
                    // SAFETY: the program's argument.
                    return releases($object.addr(), used, move || unsafe { UNTRACED.$name.get()($object) });
                }
                // SAFETY: as above.
                unsafe { quiet(UNTRACED.$name.get())($object) }
            }
        )*

        fn put_releases(table: &Functions) {
            $(table.$name.set($name);)*
        }
    };
}

traced_releases! {
    fn pthread_mutex_unlock(mutex: *mut pthread_mutex_t) = "mutex_release" { Use::Mutex }
    fn pthread_spin_unlock(spin: *mut c_int) = "spin_release" { Use::Spin }
    fn pthread_rwlock_unlock(rwlock: *mut pthread_rwlock_t) = "rwlock_unlock" {
        let written = &tls::thread().trace.written;
        match written.iter().find(|word| word.get() == rwlock.addr()) {
            Some(word) => {
                word.set(0);
                Use::Write
            }
            None => Use::Read,
        }
    }
}

macro_rules! traced_conditions {
    ($(fn $name:ident($cond:ident: $type:ty, $mutex:ident: $mutex_type:ty $(, $arg:ident: $arg_type:ty)*);)*) => {
        $(
            unsafe extern "C-unwind" fn $name($cond: $type, $mutex: $mutex_type $(, $arg: $arg_type)*) -> c_int {
                probe!("cond_wait", $cond, $mutex);
                let wait = move || {
                    // SAFETY: the program's arguments.
                    waits($cond.addr(), Use::Condition, move || unsafe { UNTRACED.$name.get()($cond, $mutex $(, $arg)*) })
                };
                // The wait begins with a release of the mutex and ends with an acquisition.
                let wait = move || {
                    if watch::is_marked($mutex.addr()) {
                        releases($mutex.addr(), Use::Mutex, wait)
                    } else {
                        wait()
                    }
                };
                if !tls::thread().trace.acquisitions.picks() {
                    return wait();
                }
                let mut result = 0;
                begin_hold($mutex.addr(), Use::Mutex, Manner::Tries, || {
                    result = wait();
                    // The mutex is held again then.
                    if result == libc::ETIMEDOUT { 0 } else { result }
                });
                result
            }
        )*

        fn put_conditions(table: &Functions) {
            $(table.$name.set($name);)*
        }
    };
}

traced_conditions! {
    fn pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t);
    fn pthread_cond_timedwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, abstime: *const timespec);
    fn pthread_cond_clockwait(
        cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, abstime: *const timespec);
}

/// Puts the functions that trace into a table.
pub fn put(table: &Functions) {
    put_acquisitions(table);
    put_conditions(table);
    other_waits::put(table);
    births::put(table);
    put_releases(table);
}
