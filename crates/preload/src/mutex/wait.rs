//! What a condition wait does with its mutex.

use super::{glibcs_users, Mutex};
use crate::functions::REAL;
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use libc::pthread_mutex_t;
use lockswap_locks::info::WaitingPolicy;
use lockswap_platform::{Native, Platform};

/// Whether the mutex has been left to glibc.
///
/// # Safety
/// `mutex` is the program's.
pub unsafe fn is_glibcs(mutex: *mut pthread_mutex_t) -> bool {
    // SAFETY: as for this call.
    unsafe { Mutex::of(mutex).is_glibcs() }
}

/// What a condition wait gave up and takes back.
#[derive(Clone, Copy)]
pub struct Held {
    depth: u32,
}

/// Whether the calling thread may wait on a condition with this mutex; EPERM if it does not hold it, as far as the
/// kind knows.
///
/// # Safety
/// `mutex` is the program's.
pub unsafe fn begin_wait(mutex: *mut pthread_mutex_t) -> Result<(), c_int> {
    // SAFETY: as for this call.
    let ours = unsafe { Mutex::of(mutex) };
    if !ours.adopt() || ours.may_release() {
        Ok(())
    } else {
        Err(libc::EPERM)
    }
}

/// Releases all levels of the mutex; a mutex of glibc's may refuse with its own error.
///
/// # Safety
/// The calling thread holds `mutex`.
pub unsafe fn release_for_wait(mutex: *mut pthread_mutex_t) -> Result<Held, c_int> {
    // SAFETY: as for this call. Relaxed: the fields are the holder's.
    unsafe {
        let ours = Mutex::of(mutex);
        if !ours.adopt() {
            let users = glibcs_users(mutex);
            users.set(users.get().wrapping_add(1));
            return match REAL.pthread_mutex_unlock.get()(mutex) {
                0 => Ok(Held { depth: 0 }),
                error => {
                    users.set(users.get().wrapping_sub(1));
                    Err(error)
                }
            };
        }
        let held = Held { depth: ours.depth.load(Ordering::Relaxed) };
        ours.depth.store(0, Ordering::Relaxed);
        ours.users.store(ours.users.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if ours.knows_its_owner() {
            ours.owner.store(0, Ordering::Relaxed);
        }
        if (ours.ops().is_held)(ours) {
            ours.release_to_wait();
        }
        Ok(held)
    }
}

/// Yields a few times while the mutex is held, if its waiters spin for a fixed time. A thread that has just been woken
/// may have driven the thread that woke it, and that still holds the mutex, from the CPU that they share.
///
/// # Safety
/// `mutex` is the program's.
pub unsafe fn let_holder_finish(mutex: *mut pthread_mutex_t) {
    const YIELDS: u32 = 4;
    // SAFETY: as for this call.
    let ours = unsafe { Mutex::of(mutex) };
    if ours.is_glibcs() || ours.ops().info.waiting == WaitingPolicy::Adaptive || !Native::yields_are_allowed() {
        return;
    }
    for _ in 0..YIELDS {
        // SAFETY: the mutex is ours; nothing depends on the answer.
        if unsafe { !(ours.ops().is_held)(ours) } {
            break;
        }
        Native::yield_cpu();
    }
}

/// Takes the mutex back; the result is not 0 only for a mutex of glibc's, whose error it is.
///
/// # Safety
/// `held` was given up by this thread.
pub unsafe fn reacquire_after_wait(mutex: *mut pthread_mutex_t, held: Held) -> c_int {
    // SAFETY: as for this call. Relaxed: the fields are the holder's.
    unsafe {
        let ours = Mutex::of(mutex);
        if !ours.adopt() {
            let result = REAL.pthread_mutex_lock.get()(mutex);
            if result == 0 || result == libc::EOWNERDEAD {
                let users = glibcs_users(mutex);
                users.set(users.get().wrapping_sub(1));
            }
            return result;
        }
        ours.wait(false);
        ours.remember_owner();
        ours.depth.store(held.depth, Ordering::Relaxed);
        ours.users.store(ours.users.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        0
    }
}
