//! C11 mutexes and condition variables: glibc's are its pthread objects with other names for the results.

use crate::functions::ACTIVE;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use libc::{pthread_cond_t, pthread_mutex_t, timespec};

/// glibc's values of `enum { thrd_success, ... }`.
const THRD_SUCCESS: c_int = 0;
const THRD_BUSY: c_int = 1;
const THRD_ERROR: c_int = 2;
const THRD_NOMEM: c_int = 3;
const THRD_TIMEDOUT: c_int = 4;

/// glibc's `mtx_recursive`, a flag beside `mtx_plain` (0) and `mtx_timed` (2).
const MTX_RECURSIVE: c_int = 1;
const MTX_TIMED: c_int = 2;

fn c11(result: c_int) -> c_int {
    match result {
        0 => THRD_SUCCESS,
        libc::ENOMEM => THRD_NOMEM,
        libc::ETIMEDOUT => THRD_TIMEDOUT,
        libc::EBUSY => THRD_BUSY,
        _ => THRD_ERROR,
    }
}

unsafe extern "C-unwind" fn mtx_init(mutex: *mut pthread_mutex_t, kind: c_int) -> c_int {
    if kind & !(MTX_RECURSIVE | MTX_TIMED) != 0 {
        return THRD_ERROR;
    }
    // SAFETY: the program's memory, and an attribute of our own.
    unsafe {
        let mut attr = MaybeUninit::uninit();
        libc::pthread_mutexattr_init(attr.as_mut_ptr());
        let pthread_kind =
            if kind & MTX_RECURSIVE != 0 { libc::PTHREAD_MUTEX_RECURSIVE } else { libc::PTHREAD_MUTEX_DEFAULT };
        libc::pthread_mutexattr_settype(attr.as_mut_ptr(), pthread_kind);
        let result = ACTIVE.pthread_mutex_init.get()(mutex, attr.as_ptr());
        libc::pthread_mutexattr_destroy(attr.as_mut_ptr());
        c11(result)
    }
}

/// Functions that differ from a pthread function only in their results.
macro_rules! renamed {
    ($(fn $name:ident($($arg:ident: $type:ty),*) = $pthread:ident;)*) => {
        $(unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            // SAFETY: the program's arguments.
            c11(unsafe { ACTIVE.$pthread.get()($($arg),*) })
        })*

        /// Makes C11 objects run on the locks of the pthread functions.
        pub fn install() {
            $(ACTIVE.$name.set($name);)*
            ACTIVE.mtx_init.set(mtx_init);
            ACTIVE.mtx_destroy.set(mtx_destroy);
            ACTIVE.cnd_init.set(cnd_init);
            ACTIVE.cnd_destroy.set(cnd_destroy);
        }
    };
}

renamed! {
    fn mtx_lock(mutex: *mut pthread_mutex_t) = pthread_mutex_lock;
    fn mtx_trylock(mutex: *mut pthread_mutex_t) = pthread_mutex_trylock;
    fn mtx_timedlock(mutex: *mut pthread_mutex_t, abstime: *const timespec) = pthread_mutex_timedlock;
    fn mtx_unlock(mutex: *mut pthread_mutex_t) = pthread_mutex_unlock;
    fn cnd_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) = pthread_cond_wait;
    fn cnd_timedwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, abstime: *const timespec)
        = pthread_cond_timedwait;
    fn cnd_signal(cond: *mut pthread_cond_t) = pthread_cond_signal;
    fn cnd_broadcast(cond: *mut pthread_cond_t) = pthread_cond_broadcast;
}

unsafe extern "C-unwind" fn mtx_destroy(mutex: *mut pthread_mutex_t) {
    // SAFETY: the program's mutex.
    unsafe { ACTIVE.pthread_mutex_destroy.get()(mutex) };
}

unsafe extern "C-unwind" fn cnd_init(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the program's memory.
    c11(unsafe { ACTIVE.pthread_cond_init.get()(cond, core::ptr::null()) })
}

unsafe extern "C-unwind" fn cnd_destroy(cond: *mut pthread_cond_t) {
    // SAFETY: the program's condition variable.
    unsafe { ACTIVE.pthread_cond_destroy.get()(cond) };
}
