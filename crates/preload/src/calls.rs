//! Counts calls, by what they are made on and who answers them: proof that a program's locks go through the library.
//! Only where `LOCKSWAP_STATS` names a file: then the table holds the functions below, and they go on to those that it
//! held.

use crate::counters::count_call;
use crate::functions::{ACTIVE, BEHIND};
use crate::{cond, mutex, rwlock, spin};
use core::ffi::c_int;
use libc::{clockid_t, pthread_cond_t, pthread_mutex_t, pthread_rwlock_t, timespec};
use lockswap_records::counters::Called;

macro_rules! counted {
    ($($called:ident, $why:path {
        $(fn $name:ident($object:ident: $type:ty $(, $arg:ident: $arg_type:ty)*);)*
    })*) => {
        $($(
            unsafe extern "C-unwind" fn $name($object: $type $(, $arg: $arg_type)*) -> c_int {
                // SAFETY: the program's arguments.
                unsafe {
                    count_call(Called::$called, $why($object));
                    BEHIND.$name.get()($object $(, $arg)*)
                }
            }
        )*)*

        /// Counts from now on; the functions in the table stay behind those that count.
        pub fn install() {
            $($(
                BEHIND.$name.set(ACTIVE.$name.get());
                ACTIVE.$name.set($name);
            )*)*
        }
    };
}

counted! {
    Mutex, mutex::who_answers {
        fn pthread_mutex_lock(mutex: *mut pthread_mutex_t);
        fn pthread_mutex_trylock(mutex: *mut pthread_mutex_t);
        fn pthread_mutex_timedlock(mutex: *mut pthread_mutex_t, abstime: *const timespec);
        fn pthread_mutex_clocklock(mutex: *mut pthread_mutex_t, clock: clockid_t, abstime: *const timespec);
    }
    Cond, cond::who_answers {
        fn pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t);
        fn pthread_cond_timedwait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, abstime: *const timespec);
        fn pthread_cond_clockwait(
            cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, clock: clockid_t, abstime: *const timespec);
        fn pthread_cond_signal(cond: *mut pthread_cond_t);
        fn pthread_cond_broadcast(cond: *mut pthread_cond_t);
    }
    RwLock, rwlock::who_answers {
        fn pthread_rwlock_rdlock(rwlock: *mut pthread_rwlock_t);
        fn pthread_rwlock_tryrdlock(rwlock: *mut pthread_rwlock_t);
        fn pthread_rwlock_timedrdlock(rwlock: *mut pthread_rwlock_t, abstime: *const timespec);
        fn pthread_rwlock_clockrdlock(rwlock: *mut pthread_rwlock_t, clock: clockid_t, abstime: *const timespec);
        fn pthread_rwlock_wrlock(rwlock: *mut pthread_rwlock_t);
        fn pthread_rwlock_trywrlock(rwlock: *mut pthread_rwlock_t);
        fn pthread_rwlock_timedwrlock(rwlock: *mut pthread_rwlock_t, abstime: *const timespec);
        fn pthread_rwlock_clockwrlock(rwlock: *mut pthread_rwlock_t, clock: clockid_t, abstime: *const timespec);
    }
    Spin, spin::who_answers {
        fn pthread_spin_lock(spin: *mut c_int);
        fn pthread_spin_trylock(spin: *mut c_int);
    }
}
