//! pthread mutexes, condition variables, read-write locks and spinlocks, as thin wrappers with stable addresses.
//!
//! The wrappers are handed out pinned and initialise the object in place. A function that fails where POSIX gives it
//! no reason to ends the program with the error code.
//!
//! Misuse is not prevented (unlocking what is not held, relocking a normal mutex): POSIX leaves it undefined, and
//! every implementation that we measure confines the damage to the lock word or to a wait that never ends.

use libc::{c_char, c_int};
use std::cell::UnsafeCell;
use std::marker::PhantomPinned;
use std::mem::MaybeUninit;
use std::pin::Pin;

unsafe extern "C" {
    static __libc_single_threaded: c_char;
}

/// Whether glibc still takes its shortcuts for processes that have not started a second thread.
pub fn single_threaded() -> bool {
    // SAFETY: glibc 2.32 and newer define this variable; only thread creation writes it, and a stale value is
    // harmless.
    unsafe { std::ptr::addr_of!(__libc_single_threaded).read_volatile() != 0 }
}

/// Two calls of a function of the C library that only reads a register: what calling lock and unlock costs by itself.
#[inline]
pub fn two_calls() {
    // SAFETY: pthread_self has no preconditions.
    unsafe {
        std::hint::black_box(libc::pthread_self());
        std::hint::black_box(libc::pthread_self());
    }
}

#[cold]
#[inline(never)]
fn fail(function: &str, code: c_int) -> ! {
    panic!("{function} failed: {}", std::io::Error::from_raw_os_error(code));
}

#[inline]
fn check(function: &str, code: c_int) {
    if code != 0 {
        fail(function, code);
    }
}

/// What a mutex does when it is relocked by its holder, and who may use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `PTHREAD_MUTEX_NORMAL`
    Normal,
    /// `PTHREAD_MUTEX_RECURSIVE`
    Recursive,
    /// `PTHREAD_MUTEX_ERRORCHECK`
    ErrorCheck,
    /// `PTHREAD_MUTEX_ADAPTIVE_NP`
    Adaptive,
    /// A normal mutex with `PTHREAD_PROCESS_SHARED`, which a lock library leaves to glibc.
    ProcessShared,
}

/// A `pthread_mutex_t`.
#[repr(transparent)]
pub struct Mutex {
    raw: UnsafeCell<libc::pthread_mutex_t>,
    _pinned: PhantomPinned,
}

// SAFETY: POSIX makes every mutex function callable from any thread; destroying it from another one is allowed too.
unsafe impl Send for Mutex {}
// SAFETY: as above.
unsafe impl Sync for Mutex {}

impl Mutex {
    /// An initialised mutex.
    pub fn new(kind: Kind) -> Pin<Box<Self>> {
        let mutex = Box::pin(Self::statically_initialised());
        mutex.as_ref().init(kind);
        mutex
    }

    /// `count` mutexes side by side, in the state of `PTHREAD_MUTEX_INITIALIZER`; their memory has been written to.
    pub fn array(count: usize) -> Pin<Box<[Self]>> {
        let mutexes: Box<[Self]> = (0..count).map(|_| Self::statically_initialised()).collect();
        Box::into_pin(mutexes)
    }

    /// The element `index` of an array, which is pinned because the whole array is.
    pub fn at(array: Pin<&[Self]>, index: usize) -> Pin<&Self> {
        // SAFETY: the element is part of pinned memory and is not moved through the shared reference.
        unsafe { array.map_unchecked(|mutexes| &mutexes[index]) }
    }

    /// For callers that want the codes that the functions return.
    pub(crate) fn raw(&self) -> *mut libc::pthread_mutex_t {
        self.raw.get()
    }

    /// A mutex in the state of `PTHREAD_MUTEX_INITIALIZER`.
    pub(crate) fn statically_initialised() -> Self {
        Self { raw: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER), _pinned: PhantomPinned }
    }

    /// Gives an unused mutex its kind.
    pub fn init(self: Pin<&Self>, kind: Kind) {
        let mut attributes = MaybeUninit::<libc::pthread_mutexattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are initialised before they are changed and used; the mutex stays where it is.
        unsafe {
            check("pthread_mutexattr_init", libc::pthread_mutexattr_init(attributes));
            let code = match kind {
                Kind::Normal => libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_NORMAL),
                Kind::Recursive => libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_RECURSIVE),
                Kind::ErrorCheck => libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ERRORCHECK),
                Kind::Adaptive => libc::pthread_mutexattr_settype(attributes, libc::PTHREAD_MUTEX_ADAPTIVE_NP),
                Kind::ProcessShared => libc::pthread_mutexattr_setpshared(attributes, libc::PTHREAD_PROCESS_SHARED),
            };
            check("pthread_mutexattr_set*", code);
            check("pthread_mutex_init", libc::pthread_mutex_init(self.raw.get(), attributes));
            check("pthread_mutexattr_destroy", libc::pthread_mutexattr_destroy(attributes));
        }
    }

    /// Waits until the calling thread holds the mutex.
    #[inline]
    pub fn lock(&self) {
        // SAFETY: the mutex is initialised and has not moved since, as it is only handed out pinned.
        check("pthread_mutex_lock", unsafe { libc::pthread_mutex_lock(self.raw.get()) });
    }

    /// Takes the mutex if that needs no waiting.
    #[inline]
    pub fn try_lock(&self) -> bool {
        // SAFETY: as in `lock`.
        match unsafe { libc::pthread_mutex_trylock(self.raw.get()) } {
            0 => true,
            libc::EBUSY => false,
            code => fail("pthread_mutex_trylock", code),
        }
    }

    /// Releases the mutex, which the calling thread holds.
    #[inline]
    pub fn unlock(&self) {
        // SAFETY: as in `lock`.
        check("pthread_mutex_unlock", unsafe { libc::pthread_mutex_unlock(self.raw.get()) });
    }
}

impl crate::Mutex for Mutex {
    type Thread = ();

    fn thread(&self) {}

    #[inline]
    fn lock(&self, (): &mut ()) {
        Mutex::lock(self);
    }

    #[inline]
    fn unlock(&self, (): &mut ()) {
        Mutex::unlock(self);
    }
}

impl Drop for Mutex {
    fn drop(&mut self) {
        // SAFETY: nobody borrows the mutex any more. EBUSY (it was left locked) costs nothing but the lock's own
        // state.
        unsafe { libc::pthread_mutex_destroy(self.raw.get()) };
    }
}

/// A `pthread_cond_t` on the default clock.
pub struct Cond {
    raw: UnsafeCell<libc::pthread_cond_t>,
    _pinned: PhantomPinned,
}

// SAFETY: POSIX makes every condition variable function callable from any thread.
unsafe impl Send for Cond {}
// SAFETY: as above.
unsafe impl Sync for Cond {}

impl Cond {
    /// An initialised condition variable.
    pub fn new() -> Pin<Box<Self>> {
        let cond = Self { raw: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER), _pinned: PhantomPinned };
        let cond = Box::pin(cond);
        // SAFETY: the memory is ours and unused; a null pointer stands for the default attributes.
        check("pthread_cond_init", unsafe { libc::pthread_cond_init(cond.raw.get(), std::ptr::null()) });
        cond
    }

    /// For callers that want the codes that the functions return.
    pub(crate) fn raw(&self) -> *mut libc::pthread_cond_t {
        self.raw.get()
    }

    /// Releases `mutex`, which the calling thread holds, waits for a signal, and holds `mutex` again. May wake early.
    #[inline]
    pub fn wait(&self, mutex: &Mutex) {
        // SAFETY: both objects are initialised and pinned.
        check("pthread_cond_wait", unsafe { libc::pthread_cond_wait(self.raw.get(), mutex.raw.get()) });
    }

    /// Wakes at least one waiter, if there is one.
    #[inline]
    pub fn signal(&self) {
        // SAFETY: the condition variable is initialised and pinned.
        check("pthread_cond_signal", unsafe { libc::pthread_cond_signal(self.raw.get()) });
    }

    /// Wakes all waiters.
    #[inline]
    pub fn broadcast(&self) {
        // SAFETY: the condition variable is initialised and pinned.
        check("pthread_cond_broadcast", unsafe { libc::pthread_cond_broadcast(self.raw.get()) });
    }
}

impl Drop for Cond {
    fn drop(&mut self) {
        // SAFETY: nobody borrows the condition variable any more, so nobody waits on it.
        unsafe { libc::pthread_cond_destroy(self.raw.get()) };
    }
}

/// A `pthread_rwlock_t`.
pub struct RwLock {
    raw: UnsafeCell<libc::pthread_rwlock_t>,
    _pinned: PhantomPinned,
}

// SAFETY: POSIX makes every read-write lock function callable from any thread.
unsafe impl Send for RwLock {}
// SAFETY: as above.
unsafe impl Sync for RwLock {}

impl RwLock {
    /// An initialised read-write lock.
    pub fn new() -> Pin<Box<Self>> {
        let lock = Self { raw: UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER), _pinned: PhantomPinned };
        let lock = Box::pin(lock);
        // SAFETY: the memory is ours and unused; a null pointer stands for the default attributes.
        check("pthread_rwlock_init", unsafe { libc::pthread_rwlock_init(lock.raw.get(), std::ptr::null()) });
        lock
    }

    /// An initialised read-write lock at which readers wait while a writer waits
    /// (`PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`).
    pub(crate) fn preferring_writers() -> Pin<Box<Self>> {
        const PREFER_WRITER_NONRECURSIVE: c_int = 2;
        let lock = Self::new();
        let mut attributes = MaybeUninit::<libc::pthread_rwlockattr_t>::uninit();
        let attributes = attributes.as_mut_ptr();
        // SAFETY: the attributes are initialised before they are changed and used; the lock is pinned and unused.
        unsafe {
            check("pthread_rwlockattr_init", libc::pthread_rwlockattr_init(attributes));
            let code = libc::pthread_rwlockattr_setkind_np(attributes, PREFER_WRITER_NONRECURSIVE);
            check("pthread_rwlockattr_setkind_np", code);
            check("pthread_rwlock_init", libc::pthread_rwlock_init(lock.raw.get(), attributes));
            check("pthread_rwlockattr_destroy", libc::pthread_rwlockattr_destroy(attributes));
        }
        lock
    }

    /// For callers that want the codes that the functions return.
    pub(crate) fn raw(&self) -> *mut libc::pthread_rwlock_t {
        self.raw.get()
    }

    /// Waits until the calling thread shares the lock.
    #[inline]
    pub fn read(&self) {
        // SAFETY: the lock is initialised and pinned.
        check("pthread_rwlock_rdlock", unsafe { libc::pthread_rwlock_rdlock(self.raw.get()) });
    }

    /// Waits until the calling thread holds the lock alone.
    #[inline]
    pub fn write(&self) {
        // SAFETY: the lock is initialised and pinned.
        check("pthread_rwlock_wrlock", unsafe { libc::pthread_rwlock_wrlock(self.raw.get()) });
    }

    /// Gives up what `read` or `write` acquired.
    #[inline]
    pub fn unlock(&self) {
        // SAFETY: the lock is initialised and pinned.
        check("pthread_rwlock_unlock", unsafe { libc::pthread_rwlock_unlock(self.raw.get()) });
    }
}

impl crate::ReadWrite for RwLock {
    #[inline]
    fn read(&self) {
        RwLock::read(self);
    }

    #[inline]
    fn unlock_read(&self) {
        RwLock::unlock(self);
    }

    #[inline]
    fn write(&self) {
        RwLock::write(self);
    }

    #[inline]
    fn unlock_write(&self) {
        RwLock::unlock(self);
    }
}

impl Drop for RwLock {
    fn drop(&mut self) {
        // SAFETY: nobody borrows the lock any more.
        unsafe { libc::pthread_rwlock_destroy(self.raw.get()) };
    }
}

/// A `pthread_spinlock_t`, private to the process.
pub struct Spin {
    raw: UnsafeCell<libc::pthread_spinlock_t>,
    _pinned: PhantomPinned,
}

// SAFETY: POSIX makes every spinlock function callable from any thread.
unsafe impl Send for Spin {}
// SAFETY: as above.
unsafe impl Sync for Spin {}

impl Spin {
    /// An initialised spinlock.
    pub fn new() -> Pin<Box<Self>> {
        let spin = Box::pin(Self { raw: UnsafeCell::new(0), _pinned: PhantomPinned });
        // SAFETY: the memory is ours and unused.
        let code = unsafe { libc::pthread_spin_init(spin.raw.get(), libc::PTHREAD_PROCESS_PRIVATE) };
        check("pthread_spin_init", code);
        spin
    }

    /// For callers that want the codes that the functions return.
    pub(crate) fn raw(&self) -> *mut libc::pthread_spinlock_t {
        self.raw.get()
    }

    /// Waits until the calling thread holds the spinlock.
    #[inline]
    pub fn lock(&self) {
        // SAFETY: the spinlock is initialised and pinned.
        check("pthread_spin_lock", unsafe { libc::pthread_spin_lock(self.raw.get()) });
    }

    /// Releases the spinlock, which the calling thread holds.
    #[inline]
    pub fn unlock(&self) {
        // SAFETY: the spinlock is initialised and pinned.
        check("pthread_spin_unlock", unsafe { libc::pthread_spin_unlock(self.raw.get()) });
    }
}

impl crate::Mutex for Spin {
    type Thread = ();

    fn thread(&self) {}

    #[inline]
    fn lock(&self, (): &mut ()) {
        Spin::lock(self);
    }

    #[inline]
    fn unlock(&self, (): &mut ()) {
        Spin::unlock(self);
    }
}

impl Drop for Spin {
    fn drop(&mut self) {
        // SAFETY: nobody borrows the spinlock any more.
        unsafe { libc::pthread_spin_destroy(self.raw.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn kinds_reach_the_mutex() {
        let normal = Mutex::new(Kind::Normal);
        normal.lock();
        assert!(!normal.try_lock());
        normal.unlock();
        assert!(normal.try_lock());
        normal.unlock();

        let recursive = Mutex::new(Kind::Recursive);
        recursive.lock();
        assert!(recursive.try_lock());
        recursive.unlock();
        recursive.unlock();

        let shared = Mutex::new(Kind::ProcessShared);
        shared.lock();
        shared.unlock();
    }

    #[test]
    #[should_panic(expected = "pthread_mutex_lock failed")]
    fn an_error_code_is_not_ignored() {
        let mutex = Mutex::new(Kind::ErrorCheck);
        mutex.lock();
        mutex.lock();
    }

    #[test]
    fn every_mutex_of_an_array_is_its_own() {
        let mutexes = Mutex::array(3);
        mutexes[0].lock();
        assert!(mutexes[1].try_lock());
        assert!(!mutexes[0].try_lock());
        mutexes[0].unlock();
        mutexes[1].unlock();
    }

    #[test]
    fn a_waiter_is_woken() {
        let (mutex, cond, ready) = (Mutex::new(Kind::Normal), Cond::new(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                mutex.lock();
                while !ready.load(Ordering::Relaxed) {
                    cond.wait(&mutex);
                }
                mutex.unlock();
            });
            mutex.lock();
            ready.store(true, Ordering::Relaxed);
            cond.broadcast();
            mutex.unlock();
        });
    }

    #[test]
    fn readers_share() {
        let lock = RwLock::new();
        lock.read();
        lock.read();
        lock.unlock();
        lock.unlock();
        lock.write();
        lock.unlock();
    }
}
