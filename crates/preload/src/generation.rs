//! The generation mark in each object, which tells whether the object needs attention before its first use here.
//!
//! | generation of the process | when                                                             |
//! |---------------------------|------------------------------------------------------------------|
//! | 0                         | at the start: a static initialiser's zero needs no attention     |
//! | 1                         | at the start if objects are counted: a zero has not been counted |
//! | + 1 (255 is followed by 1) | in the child of a fork: waiters of older objects are gone        |
//!
//! The table where waiters of several locks wait is emptied in the child.
//!
//! An object of another generation is *adopted* before it is used: counted if its mark is 0, rid of its waiters, marked.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use lockswap_locks::flat::futex::Futex;
use lockswap_locks::RawLock;
use lockswap_platform::{Native, Platform, SharedTable};

/// Where the generation sits in the second half of a mutex (see [`crate::mutex`]).
pub const MUTEX_SHIFT: u32 = 40;

static CURRENT: AtomicU8 = AtomicU8::new(0);

/// The second half of a mutex that is of the ordinary kind and of the current generation; no such word exists once the
/// fast path is disabled.
static ORDINARY: AtomicU64 = AtomicU64::new(0);
static FAST_PATH_DISABLED: AtomicBool = AtomicBool::new(false);

/// A lock of our own, for rare events.
pub struct RareLock(MaybeUninit<Futex<Native>>);

impl RareLock {
    /// A free lock.
    pub const fn new() -> Self {
        RareLock(MaybeUninit::zeroed())
    }

    /// Runs `f` while the lock is held.
    pub fn with<R>(&self, f: impl FnOnce() -> R) -> R {
        self.acquire();
        let result = f();
        // SAFETY: acquired above.
        unsafe { self.release() };
        result
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

static ADOPTION: RareLock = RareLock::new();

/// The generation of the process.
#[inline]
pub fn current() -> u8 {
    // Relaxed: changes only while the process has one thread.
    CURRENT.load(Ordering::Relaxed)
}

/// The value of [`ORDINARY`].
#[inline(always)]
pub fn ordinary_word() -> u64 {
    // Relaxed: a thread that misses that the fast path has been disabled uses it once more.
    ORDINARY.load(Ordering::Relaxed)
}

fn set(generation: u8) {
    CURRENT.store(generation, Ordering::Relaxed);
    if !FAST_PATH_DISABLED.load(Ordering::Relaxed) {
        ORDINARY.store((generation as u64) << MUTEX_SHIFT, Ordering::Relaxed);
    }
}

/// Makes each object need attention before its first use, so that it can be counted. Called before a second thread exists.
pub fn start_counting() {
    set(1);
}

/// Starts the next generation.
///
/// # Safety
/// The process has one thread: it is the child of a fork.
pub unsafe fn enter_child() {
    set(current().checked_add(1).unwrap_or(1));
    // SAFETY: the thread that held it, if any, is in the parent.
    unsafe { ADOPTION.reset() };
    // Relaxed: one thread. A page that nobody has written to stays shared with the parent.
    for waiter in Native::slots(SharedTable::Waiters) {
        if waiter.load(Ordering::Relaxed) != 0 {
            waiter.store(0, Ordering::Relaxed);
        }
    }
}

/// Sends every mutex through the slow path from now on.
pub fn disable_fast_path() {
    FAST_PATH_DISABLED.store(true, Ordering::Relaxed);
    ORDINARY.store(u64::MAX, Ordering::Relaxed);
}

/// Prepares an object of another generation. `mark` reads its generation; `prepare` is told whether the object is new
/// here (its mark is 0), repairs it, and marks it last.
#[cold]
pub fn adopt(mark: impl Fn() -> u8, prepare: impl FnOnce(bool, u8)) {
    ADOPTION.with(|| {
        let found = mark();
        if found != current() {
            prepare(found == 0, current());
        }
    });
}
