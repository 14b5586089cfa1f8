//! The lock algorithms: one file each, generic over the [`Platform`] they run on.
//!
//! [`RawLock`] is what every algorithm implements; what it can do beyond that is a trait of its own. The catalogue is
//! in [`registry`].
#![no_std]

pub mod adaptive;
pub mod asymmetric;
pub mod auto;
pub mod conditions;
pub mod flat;
pub mod info;
pub mod line;
pub mod load_control;
pub mod named;
pub mod nearest;
pub mod numa;
pub mod parameters;
pub mod queue;
pub mod registry;
pub mod routed;
pub mod rw;
pub mod shares;
pub mod shuffle;
pub mod waiting;

use info::LockInfo;
use lockswap_platform::{Deadline, Platform};
use parameters::Parameters;

/// What an acquisition brings along: the queue node of a queue lock, or `()`.
///
/// A context serves one acquisition at a time, from the call of `lock` to the return of `unlock`, and stays where it
/// is. Its memory must remain a context of the same type for as long as any thread might still look at it: until
/// [`Context::is_reusable`] for a lock that says so, else until `unlock` has returned.
pub trait Context: Send + Sync + 'static {
    /// A context that has not been used.
    fn new() -> Self;
    /// Whether a context whose acquisition has ended may serve another one; no if the next owner still reads it.
    fn is_reusable(&self) -> bool {
        true
    }
}

impl Context for () {
    fn new() -> Self {}
}

/// A mutual-exclusion lock.
///
/// # Safety
/// Between the return of an acquisition and the call of the matching `unlock`, no other acquisition returns;
/// everything before `unlock` happens-before the return of the next acquisition. Once `unlock` lets another thread
/// acquire, the lock is not accessed any more by the thread that released it: its memory may be gone. (A lock that is
/// not quiet yet may be.)
pub unsafe trait RawLock<P: Platform>: Send + Sync + Sized + 'static {
    /// What is known about the lock.
    const INFO: LockInfo;
    /// What users may choose at run time; nothing unless the lock says otherwise.
    const PARAMETERS: Parameters = Parameters::NONE;
    /// What each acquisition needs.
    type Ctx: Context;

    /// A free lock. Its bytes are all zero.
    fn new() -> Self;

    /// Whether no thread that has released the lock still touches it, so that a lock that nobody else uses may be
    /// destroyed. Only a lock that does not lie in the pthread object ([`registry::fits_in_place`]) may say no,
    /// because a program may reuse a mutex's memory without a word.
    fn is_quiet(&self) -> bool {
        true
    }

    /// Forgets what has happened, because the lock is about to stand in for another pthread object. Nobody uses it.
    /// The provided method does nothing: a lock that is free remembers nothing, unless it says otherwise here.
    fn forget(&self) {}

    /// Acquires the lock.
    ///
    /// # Safety
    /// `cx` is reusable, serves no other acquisition, and fulfils the contract of [`Context`].
    unsafe fn lock(&self, cx: &Self::Ctx);

    /// Releases the lock. A lock has this method of its own, or [`RawLock::unlock_alone`] and [`RawLock::hand_over`],
    /// of which the provided one is made.
    ///
    /// # Safety
    /// The lock is held through `cx`. Another thread than the one that acquired it may release it.
    #[inline]
    unsafe fn unlock(&self, cx: &Self::Ctx) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe {
            if !self.unlock_alone(cx) {
                self.hand_over(cx);
            }
        }
    }

    /// Releases the lock for a thread that is going to wait for others, who may have to acquire the lock before they
    /// can wake it: a wait on a condition variable. A lock that keeps something in reserve for the thread that has
    /// released it gives that up here, and one that lets some waiters go first may note that they wait for others. The
    /// provided method is [`RawLock::unlock`].
    ///
    /// # Safety
    /// As for [`RawLock::unlock`].
    #[inline]
    unsafe fn unlock_to_wait(&self, cx: &Self::Ctx) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.unlock(cx) };
    }

    /// Whether somebody waits to whom [`RawLock::hand_over`] is sure to grant the lock, so that
    /// [`RawLock::unlock_alone`] would fail; no if in doubt. The provided method always says no.
    ///
    /// # Safety
    /// As for [`RawLock::unlock`].
    #[inline(always)]
    unsafe fn has_heir(&self, cx: &Self::Ctx) -> bool {
        let _ = cx;
        false
    }

    /// Releases the lock if nobody waits for it, and returns whether it did. A lock that may have much to do for those
    /// that wait has this method and [`RawLock::hand_over`], so that a caller can keep the uncontended path short. The
    /// provided method is [`RawLock::unlock`].
    ///
    /// # Safety
    /// As for [`RawLock::unlock`]; on `false` the lock is still held.
    #[inline(always)]
    unsafe fn unlock_alone(&self, cx: &Self::Ctx) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.unlock(cx) };
        true
    }

    /// Releases the lock, to a waiter if there is one: what is left to do when [`RawLock::unlock_alone`] has failed.
    ///
    /// # Safety
    /// As for [`RawLock::unlock`].
    #[inline(always)]
    unsafe fn hand_over(&self, cx: &Self::Ctx) {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.unlock(cx) };
    }
}

/// A lock that can be acquired if it is free, without waiting. Where that is short it is always inlined: the preload
/// library calls it where it expects to come seldom, while the process has one thread, and there the compiler would
/// otherwise leave a call.
///
/// # Safety
/// As for [`RawLock`]; `try_lock` fails only if the lock is held, being acquired or being released.
pub unsafe trait TryLock<P: Platform>: RawLock<P> {
    /// Acquires the lock if it is free and returns whether it did.
    ///
    /// # Safety
    /// As for [`RawLock::lock`].
    unsafe fn try_lock(&self, cx: &Self::Ctx) -> bool;
}

/// A lock whose acquisition can be given up.
///
/// # Safety
/// As for [`RawLock`]; an acquisition that failed leaves nothing behind.
pub unsafe trait TimedLock<P: Platform>: TryLock<P> {
    /// Acquires the lock, or returns `false` at `deadline`, not before it.
    ///
    /// The provided method repeats `try_lock` and takes no place in the queue.
    ///
    /// # Safety
    /// As for [`RawLock::lock`].
    unsafe fn lock_until(&self, cx: &Self::Ctx, deadline: Deadline) -> bool {
        // SAFETY: the caller's contract is that of `try_lock`.
        P::spin_map_until(deadline, || unsafe { self.try_lock(cx) }.then_some(())).is_some()
    }
}

/// A lock that can tell whether it is held. Its looks are `Relaxed`: the answer says nothing about what the lock
/// protects.
pub trait IsHeld {
    /// Whether somebody holds the lock. Exact if no other thread uses the lock meanwhile.
    fn is_held(&self) -> bool;
}

/// Who goes first when readers and writers wait for the same lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Readers enter while other readers are inside, whoever waits: a thread may read-lock again what it has
    /// read-locked. Writers may starve.
    Readers,
    /// Readers wait while a writer waits.
    Writers,
}

/// A lock with a shared (read) and an exclusive (write) mode. [`RawRwLock::is_write_locked`] and
/// [`RawRwLock::is_free`] look with `Relaxed`: the answer says nothing about what the lock protects.
///
/// # Safety
/// A writer excludes everybody, readers exclude writers, and everything before an unlock happens-before the return of
/// each later acquisition that it excluded.
pub unsafe trait RawRwLock<P: Platform>: Send + Sync + Sized + 'static {
    /// What is known about the lock.
    const INFO: LockInfo;
    /// As [`RawLock::PARAMETERS`].
    const PARAMETERS: Parameters = Parameters::NONE;
    /// Whether the lock has methods that end in `at_once`: for a caller that keeps its uncontended path short, and goes
    /// on with the method of the same name without `at_once` where they return `false`. Those that are provided do
    /// nothing else.
    const ACTS_AT_ONCE: bool = false;

    /// A free lock. Its bytes are all zero.
    fn new() -> Self;
    /// Acquires shared, or returns `false` at `deadline` if there is one, not before it.
    fn read(&self, preference: Preference, deadline: Option<Deadline>) -> bool;
    /// Acquires shared if that needs no waiting and returns whether it did.
    fn try_read(&self, preference: Preference) -> bool;
    /// Acquires shared if a few instructions do it, and returns whether it did.
    #[inline(always)]
    fn read_at_once(&self) -> bool {
        false
    }
    /// Acquires exclusively, or returns `false` at `deadline` if there is one, not before it.
    fn write(&self, deadline: Option<Deadline>) -> bool;
    /// Acquires exclusively if that needs no waiting and returns whether it did.
    fn try_write(&self) -> bool;
    /// Acquires exclusively if a few instructions do it, and returns whether it did.
    #[inline(always)]
    fn write_at_once(&self) -> bool {
        false
    }
    /// Releases a shared acquisition.
    ///
    /// # Safety
    /// There is one to release.
    unsafe fn unlock_read(&self, preference: Preference);
    /// Releases a shared acquisition if there is one and a few instructions do it, and returns whether it did.
    ///
    /// # Safety
    /// If there is one, the caller may release it.
    #[inline(always)]
    unsafe fn unlock_read_at_once(&self) -> bool {
        false
    }
    /// Releases an exclusive acquisition.
    ///
    /// # Safety
    /// There is one to release.
    unsafe fn unlock_write(&self, preference: Preference);
    /// Releases an exclusive acquisition if a few instructions do it, and returns whether it did.
    ///
    /// # Safety
    /// There is one to release.
    #[inline(always)]
    unsafe fn unlock_write_at_once(&self) -> bool {
        false
    }
    /// Whether the lock is held exclusively.
    fn is_write_locked(&self) -> bool;
    /// Whether nobody holds the lock in any mode.
    fn is_free(&self) -> bool;
    /// As [`RawLock::is_quiet`].
    fn is_quiet(&self) -> bool {
        true
    }
    /// Forgets all waiters, and keeps the holders: for the child of a fork, where no other thread exists.
    fn forget_waiters(&self);
}

/// A read-write lock that counts its readers, so that one of several anonymous holds can be released if there is one.
///
/// # Safety
/// As for [`RawRwLock`].
pub unsafe trait TryUnlockRead<P: Platform>: RawRwLock<P> {
    /// Releases a shared acquisition if there is one and returns whether there was.
    ///
    /// # Safety
    /// If there is one, the caller may release it.
    unsafe fn try_unlock_read(&self, preference: Preference) -> bool;
}
