//! Other functions in the table once the program has threads.
//!
//! As long as it has one, `pthread_mutex_lock` and `pthread_mutex_unlock` ask glibc each time whether that is still so,
//! since such a program needs no atomic instructions. With the first thread that it starts, functions take their place
//! that ask nobody.

use super::direct::Function;
use crate::functions::ACTIVE;
use crate::sandbox;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// `pthread_mutex_lock` and `pthread_mutex_unlock`, for either case.
pub struct Switch {
    /// They ask glibc.
    pub alone: [Function; 2],
    /// They do not.
    pub among_threads: [Function; 2],
}

/// The functions of the process's lock; null if there is none, or several. Relaxed: set while there is one thread.
static SWITCH: AtomicPtr<Switch> = AtomicPtr::new(null_mut());

/// Puts the functions for one thread into the table, and has the others take their place.
pub fn install(switch: &'static Switch) {
    SWITCH.store(core::ptr::from_ref(switch).cast_mut(), Ordering::Relaxed);
    let [lock, unlock] = switch.alone;
    ACTIVE.pthread_mutex_lock.set(lock);
    ACTIVE.pthread_mutex_unlock.set(unlock);
}

/// The first thread is about to be started. Where the program forbids itself system calls, or the functions in the
/// table are others by now, everything stays as it is.
pub fn threads_begin() {
    // SAFETY: null, or set by `install`.
    let Some(Switch { alone, among_threads }) = (unsafe { SWITCH.load(Ordering::Relaxed).as_ref() }) else { return };
    let entries = [&ACTIVE.pthread_mutex_lock, &ACTIVE.pthread_mutex_unlock];
    if !sandbox::is_free() || entries.iter().zip(alone).any(|(entry, function)| entry.other_than(*function).is_some()) {
        return;
    }
    // A thread that the program has started in another way may read the entries meanwhile: either function is right.
    ACTIVE.change(|| entries.iter().zip(among_threads).for_each(|(entry, function)| entry.set(*function)));
}
