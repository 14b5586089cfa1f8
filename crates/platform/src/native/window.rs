//! The reorder window of LibASL: who keeps track of epochs says how long it is for the calling thread.

use crate::Ns;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// The window outside any epoch, and the longest inside, where nothing else is configured, ns (LibASL, section 3.3:
/// long enough to matter to nobody, short enough to prevent starvation).
pub const LONGEST: Ns = 100_000_000;

static CONFIGURED: AtomicU64 = AtomicU64::new(LONGEST);

/// A function of type [`OfEpoch`], or null.
static OF_EPOCH: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Tells the window of the epoch that the calling thread is in, if it is in one.
pub type OfEpoch = fn() -> Option<Ns>;

/// Sets the longest window.
pub fn set_longest(ns: Ns) {
    // Relaxed, here and below: set before a second thread exists.
    CONFIGURED.store(ns, Ordering::Relaxed);
}

/// The longest window.
#[inline]
pub fn longest() -> Ns {
    CONFIGURED.load(Ordering::Relaxed)
}

/// Makes `f` tell the windows of epochs.
pub fn set_of_epoch(f: OfEpoch) {
    OF_EPOCH.store(f as *mut (), Ordering::Relaxed);
}

/// The window of the epoch that the calling thread is in, if it is in one.
pub(super) fn of_epoch() -> Option<Ns> {
    let f = OF_EPOCH.load(Ordering::Relaxed);
    if f.is_null() {
        return None;
    }
    // SAFETY: stored by `set_of_epoch` from a function of this type.
    let of_epoch = unsafe { core::mem::transmute::<*mut (), OfEpoch>(f) };
    of_epoch()
}
