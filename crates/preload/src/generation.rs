//! The generation mark in each object, which tells whether the object needs attention before its first use here.
//!
//! | generation of the process | when                                                             |
//! |---------------------------|------------------------------------------------------------------|
//! | 0                         | at the start: a static initialiser's zero needs no attention     |
//! | 1                         | at the start if objects are counted, or mutexes run on several   |
//! |                           | locks: a zero has not been counted, and has no lock yet          |
//! | + 1 (255 is followed by 1) | in the child of a fork: waiters of older objects are gone        |
//!
//! An object of another generation is *adopted* before it is used: counted if its mark is 0, rid of its waiters,
//! marked.
//!
//! | mark of an object          | meaning                                                                |
//! |----------------------------|------------------------------------------------------------------------|
//! | GENERATION                 | adopted in that generation, and as good as any                         |
//! | GENERATION, ADOPTING, HELD | a thread of that generation is at it, or was when the process forked;  |
//! |                            | HELD tells whether somebody held the object before                     |
//!
//! Adopting takes no lock that all objects share, because a signal handler that interrupts it may adopt another
//! object.
//!
//! The table where waiters of several locks wait is emptied in the child.

use crate::cancel;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicU8, Ordering};
use lockswap_platform::{Native, Platform, SharedTable};

/// Where the mark sits in the second half of a mutex (see [`crate::mutex`]).
pub const MUTEX_SHIFT: u32 = 32;

/// Where the generation sits in a mark.
const GENERATION_SHIFT: u32 = 8;
const ADOPTING: u32 = 1 << 16;
const HELD: u32 = 1 << 17;
/// The bits of a mark.
pub const MARK: u32 = (1 << 18) - 1;

static CURRENT: AtomicU8 = AtomicU8::new(0);
/// Whether an object with the mark 0 may have been used: before the process forked, in the generation 0. Relaxed:
/// changes only while the process has one thread.
static ZERO_IS_USED: AtomicBool = AtomicBool::new(false);

/// The second half of a mutex that is of the ordinary kind and of the current generation; no such word exists once the
/// fast path is disabled.
static ORDINARY: AtomicU64 = AtomicU64::new(0);
static FAST_PATH_DISABLED: AtomicBool = AtomicBool::new(false);

/// The mark of an object of the current generation.
#[inline(always)]
pub fn mark() -> u32 {
    // Relaxed: changes only while the process has one thread.
    (CURRENT.load(Ordering::Relaxed) as u32) << GENERATION_SHIFT
}

/// The generation of the process.
pub fn current() -> u8 {
    // Relaxed: as in `mark`.
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
        ORDINARY.store((mark() as u64) << MUTEX_SHIFT, Ordering::Relaxed);
    }
}

/// Makes each object need attention before its first use. Called before a second thread exists.
pub fn notice_first_uses() {
    set(1);
}

/// Starts the next generation.
///
/// # Safety
/// The process has one thread: it is the child of a fork.
pub unsafe fn enter_child() {
    if current() == 0 {
        ZERO_IS_USED.store(true, Ordering::Relaxed);
    }
    set(current().checked_add(1).unwrap_or(1));
    // Relaxed: one thread. A page that nobody has written to stays shared with the parent.
    let tables = [SharedTable::Waiters, SharedTable::Elements].map(Native::slots);
    for waiter in tables.into_iter().flatten() {
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

/// An object of ours that carries a mark.
pub trait Object {
    /// Its mark. Acquire: pairs with the Release of [`Object::replace_mark`].
    fn mark(&self) -> u32;
    /// Changes the mark from `old` to `new` and returns whether it was `old`. Release.
    fn replace_mark(&self, old: u32, new: u32) -> bool;
    /// Gives an object the mark, and counts it, before its first use, unless another thread was faster. Returns
    /// whether the object is none of ours after that. Release.
    fn begin(&self, mark: u32) -> bool {
        if self.replace_mark(0, mark) {
            self.count();
        }
        false
    }
    /// Counts an object that is new here.
    fn count(&self);
    /// Whether somebody holds the object.
    fn is_held(&self) -> bool;
    /// Makes the object one that nobody waits for, and that is held if it was `held`.
    ///
    /// # Safety
    /// No other thread uses the object.
    unsafe fn forget_waiters(&self, held: bool);
}

/// Makes an object one of the current generation.
#[cold]
#[inline(never)]
pub fn adopt(object: &impl Object) {
    // A thread that is cancelled in between would leave the object unfinished.
    let deferred = cancel::defer();
    let mine = mark();
    loop {
        let found = object.mark();
        if found == mine {
            break;
        }
        if found & !HELD == mine | ADOPTING {
            // Another thread is at it.
            Native::spin_map(|| (object.mark() & ADOPTING == 0).then_some(()));
        } else if found == 0 && !ZERO_IS_USED.load(Ordering::Relaxed) {
            // Never used before.
            if object.begin(mine) {
                break;
            }
        } else {
            let held = if found & ADOPTING != 0 { found & HELD != 0 } else { object.is_held() };
            let adopting = mine | ADOPTING | if held { HELD } else { 0 };
            if object.replace_mark(found, adopting) {
                if found == 0 {
                    object.count();
                }
                // SAFETY: others of this process wait above; its former users are another process's.
                unsafe { object.forget_waiters(held) };
                object.replace_mark(adopting, mine);
            }
        }
    }
    cancel::undo_defer(deferred);
}
