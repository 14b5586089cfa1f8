//! Semaphores and barriers, whose waits are noted and nothing else: nobody holds them.

use super::waits;
use crate::functions::{Functions, UNTRACED};
use core::ffi::c_int;
use libc::{clockid_t, pthread_barrier_t, sem_t, timespec};
use lockswap_records::trace::Use;

/// Whether a wait may pass at once. It looks only, so that everything that the call itself does is left to it: it is a
/// cancellation point also where it need not wait.
fn is_free(semaphore: *mut sem_t) -> bool {
    let mut value = 0;
    // SAFETY: the program's semaphore; the call reads it.
    unsafe { libc::sem_getvalue(semaphore, &raw mut value) == 0 && value > 0 }
}

macro_rules! semaphores {
    ($(fn $name:ident($semaphore:ident: $type:ty $(, $arg:ident: $arg_type:ty)*);)*) => {
        $(
            unsafe extern "C-unwind" fn $name($semaphore: $type $(, $arg: $arg_type)*) -> c_int {
                // SAFETY: the program's arguments.
                let wait = move || unsafe { UNTRACED.$name.get()($semaphore $(, $arg)*) };
                if is_free($semaphore) {
                    return wait();
                }
                waits($semaphore.addr(), Use::Semaphore, wait)
            }
        )*

        fn put_semaphores(table: &Functions) {
            $(table.$name.set($name);)*
        }
    };
}

semaphores! {
    fn sem_wait(semaphore: *mut sem_t);
    fn sem_timedwait(semaphore: *mut sem_t, abstime: *const timespec);
    fn sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, abstime: *const timespec);
}

unsafe extern "C-unwind" fn pthread_barrier_wait(barrier: *mut pthread_barrier_t) -> c_int {
    let mut result = 0;
    waits(barrier.addr(), Use::Barrier, || {
        // SAFETY: the program's argument.
        result = unsafe { UNTRACED.pthread_barrier_wait.get()(barrier) };
        // One of the threads is told that it is the one.
        if result == libc::PTHREAD_BARRIER_SERIAL_THREAD {
            0
        } else {
            result
        }
    });
    result
}

/// Puts the functions that note waits for semaphores and barriers into a table.
pub fn put(table: &Functions) {
    put_semaphores(table);
    table.pthread_barrier_wait.set(pthread_barrier_wait);
}
