//! A lock of our own, for rare events.

use core::mem::MaybeUninit;
use lockswap_locks::flat::futex::Futex;
use lockswap_locks::RawLock;
use lockswap_platform::Native;

/// The lock; all zero is a free one.
pub struct RareLock(MaybeUninit<Futex<Native>>);

impl RareLock {
    /// A free lock.
    pub const fn new() -> Self {
        RareLock(MaybeUninit::zeroed())
    }

    /// Acquires the lock.
    pub fn acquire(&self) {
        // SAFETY: an all-zero lock is a free lock; it needs no context.
        unsafe { self.0.assume_init_ref().lock(&()) };
    }

    /// Releases the lock.
    ///
    /// # Safety
    /// It is held.
    pub unsafe fn release(&self) {
        // SAFETY: as for this call, and as in `acquire`.
        unsafe { self.0.assume_init_ref().unlock(&()) };
    }

    /// Frees the lock, whoever held it.
    ///
    /// # Safety
    /// The process has one thread, which does not hold the lock.
    pub unsafe fn reset(&self) {
        // SAFETY: as for this call; the lock consists of atomics.
        unsafe { (&raw const self.0).cast_mut().cast::<Futex<Native>>().write_bytes(0, 1) };
    }
}

// SAFETY: the inner lock is made for sharing; `reset` names its own conditions.
unsafe impl Sync for RareLock {}
