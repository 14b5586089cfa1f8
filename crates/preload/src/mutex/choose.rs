//! Which lock a mutex runs on, where the process has several: asked once, when the mutex is initialised, or before its
//! first use where it has a static initialiser.

use super::{word_of, Mutex, ADAPTIVE, GLIBCS, KEPT, KIND, NORMAL, NUMBER};
use crate::counters::count_rule;
use crate::generation::{Object, MUTEX_SHIFT};
use crate::{boot, pool, profile};
use core::ffi::{c_char, c_int, CStr};
use core::sync::atomic::Ordering;
use libc::pthread_mutex_t;

/// What a mutex gets.
#[derive(Clone, Copy)]
pub enum Choice {
    /// The process's lock with this number.
    Numbered(u8),
    /// It stays glibc's; of the adaptive kind, if it is of the default one and this says so.
    Glibcs { adaptive: bool },
}

/// What the mutex gets, which nobody else uses yet.
pub fn choice(mutex: &Mutex) -> Choice {
    if !profile::is_in_force() {
        return Choice::Numbered(0);
    }
    let (choice, rule) = profile::choice(mutex.address(), mutex.kind() & KIND);
    count_rule(rule);
    choice
}

/// The word of a mutex that stays glibc's. glibc keeps the upper half of an adaptive one for itself.
fn kept(word: u64, adaptive: bool) -> u64 {
    let kind = word as u32;
    let is_default = kind & KIND == NORMAL;
    (kind | KEPT | if adaptive && is_default { ADAPTIVE } else { 0 }) as u64
}

/// Leaves a mutex to glibc, which has initialised it.
pub fn keep(mutex: &Mutex, adaptive: bool) {
    // Relaxed: nobody else may use the mutex before its initialisation returns.
    mutex.word.store(kept(mutex.word.load(Ordering::Relaxed), adaptive), Ordering::Relaxed);
}

/// Gives a mutex from a static initialiser its lock, and the mark of this generation. Returns whether nothing is left
/// to be done, because it is glibc's from now on. Of several first users, who may choose differently, one decides.
#[cold]
pub fn begin(mutex: &Mutex, mark: u32) -> bool {
    let (choice, rule) = profile::choice(mutex.address(), mutex.kind() & KIND);
    let begun = match choice {
        Choice::Numbered(number) => {
            let upper = (mark as u64) << MUTEX_SHIFT | (number as u64) << MUTEX_SHIFT & NUMBER;
            mutex.replace_word(0, |word| word as u32 as u64 | upper)
        }
        Choice::Glibcs { adaptive } => mutex.replace_word(0, |word| kept(word, adaptive)),
    };
    if begun && profile::is_in_force() {
        count_rule(rule);
    }
    if begun && matches!(choice, Choice::Numbered(_)) {
        mutex.count();
    }
    mutex.is_glibcs()
}

/// Gives the mutex the lock of this name, for a program that chooses itself (`include/lockswap.h`).
///
/// # Safety
/// `mutex` points at a mutex that no other thread uses meanwhile, and `lock` at a C string.
#[no_mangle]
pub unsafe extern "C" fn lockswap_mutex_choose(mutex: *mut pthread_mutex_t, lock: *const c_char) -> c_int {
    boot::initialise(core::ptr::null());
    // SAFETY: as for this call.
    let (ours, text) = unsafe { (Mutex::of(mutex), CStr::from_ptr(lock)) };
    let Some(choice) = text.to_str().ok().and_then(profile::chosen) else { return libc::EINVAL };
    let kind = ours.kind();
    if GLIBCS.iter().any(|(flag, ..)| kind & flag != 0) {
        // Destroyed, or one that only glibc can handle.
        return libc::EINVAL;
    }
    // SAFETY: as for this call; nobody holds the mutex when its memory is changed.
    unsafe {
        if kind & KEPT != 0 {
            // The lock word of glibc's mutex comes first.
            if *mutex.cast::<u32>() != 0 || super::glibcs_users(mutex).get() != 0 {
                return libc::EBUSY;
            }
        } else if ours.mark() != 0 {
            ours.adopt();
            // Relaxed: nobody else uses the mutex.
            if (ours.ops().is_held)(ours) || ours.users.load(Ordering::Relaxed) != 0 {
                return libc::EBUSY;
            }
            (ours.ops().destroy)(ours);
        }
        pool::abandon(Some(mutex.addr()));
        mutex.cast::<u8>().write_bytes(0, size_of::<pthread_mutex_t>());
        // Relaxed: as above.
        match choice {
            Choice::Numbered(number) => ours.word.store(word_of(kind & KIND, number), Ordering::Relaxed),
            Choice::Glibcs { adaptive } => ours.word.store(kept((kind & KIND) as u64, adaptive), Ordering::Relaxed),
        }
    }
    0
}
