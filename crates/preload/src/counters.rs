//! Counts what is replaced and what is passed through, in the file that `LOCKSWAP_STATS` names.

use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use lockswap_locks::counters::{Counter, COUNT};

/// The mapped file; null while nothing is counted.
static COUNTERS: AtomicPtr<[AtomicU64; COUNT]> = AtomicPtr::new(core::ptr::null_mut());

/// Counts in `file` from now on.
///
/// # Safety
/// `file` stays mapped and writable.
pub unsafe fn set_file(file: *mut [AtomicU64; COUNT]) {
    // Relaxed: set before a second thread exists.
    COUNTERS.store(file, Ordering::Relaxed);
}

/// Adds one to `counter`, if counting is on.
pub fn count(counter: Counter) {
    let counters = COUNTERS.load(Ordering::Relaxed);
    if !counters.is_null() {
        // SAFETY: `set_file` vouches for the mapping. Relaxed: a statistic.
        unsafe { (&(*counters))[counter as usize].fetch_add(1, Ordering::Relaxed) };
    }
}
