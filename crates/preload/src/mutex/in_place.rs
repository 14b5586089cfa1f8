//! The functions for an ordinary mutex, compiled for each lock: what runs when nothing special is going on.

use super::special;
use super::{Class, Mutex, Ops, OPS};
use crate::functions::{ACTIVE, REAL};
use crate::{pool, tls};
use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use libc::pthread_mutex_t;
use lockswap_locks::{IsHeld, TimedLock};
use lockswap_platform::{Native, Platform, Single};

/// The lock `N` on all CPUs, and the same lock `S` while the process has one thread.
struct InPlace<N, S>(PhantomData<(N, S)>);

/// The lock type `L` on platform `P` has its context allocated by the pool.
trait Body<P: Platform>: TimedLock<P> + IsHeld {
    const HAS_CONTEXT: bool = size_of::<Self::Ctx>() != 0;
}

impl<P: Platform, L: TimedLock<P> + IsHeld> Body<P> for L {}

/// The lock inside a mutex, for whoever knows its type.
impl Mutex {
    #[inline(always)]
    fn lock_inside<L>(&self) -> &L {
        const { assert!(size_of::<L>() <= 16 && align_of::<L>() <= 8) };
        // SAFETY: the body of a mutex of the chosen lock type, which all mutexes of the process have; zero is a free lock.
        unsafe { &*self.body.get().cast() }
    }

    /// The holder's context; null while the mutex is free.
    #[inline(always)]
    fn holder<C>(&self) -> &AtomicPtr<C> {
        // SAFETY: the second word of the body, behind a lock of one word.
        unsafe { &*self.body.get().cast::<AtomicPtr<C>>().add(1) }
    }

    #[inline(always)]
    unsafe fn acquire<P: Platform, L: Body<P>>(&self) {
        let lock = self.lock_inside::<L>();
        // SAFETY: a context from the pool is reusable and serves this acquisition only.
        unsafe {
            if L::HAS_CONTEXT {
                let context = pool::take::<L::Ctx>();
                lock.lock(context.as_ref());
                // Relaxed: whoever releases the lock is this thread, or was told by it.
                self.holder().store(context.as_ptr(), Ordering::Relaxed);
            } else {
                lock.lock(NonNull::dangling().as_ref());
            }
        }
    }

    #[inline(always)]
    unsafe fn acquire_if<P: Platform, L: Body<P>>(&self, acquire: impl FnOnce(&L, &L::Ctx) -> bool) -> bool {
        let lock = self.lock_inside::<L>();
        // SAFETY: as in `acquire`.
        unsafe {
            if !L::HAS_CONTEXT {
                return acquire(lock, NonNull::dangling().as_ref());
            }
            let context = pool::take::<L::Ctx>();
            let acquired = acquire(lock, context.as_ref());
            if acquired {
                // Relaxed: as in `acquire`.
                self.holder().store(context.as_ptr(), Ordering::Relaxed);
            } else {
                pool::put(context);
            }
            acquired
        }
    }

    #[inline(always)]
    unsafe fn release<P: Platform, L: Body<P>>(&self) {
        let lock = self.lock_inside::<L>();
        // SAFETY: the mutex is held, through the context that the holder has stored.
        unsafe {
            if L::HAS_CONTEXT {
                let holder = self.holder::<L::Ctx>();
                // Relaxed: as in `acquire`.
                let context = NonNull::new_unchecked(holder.load(Ordering::Relaxed));
                holder.store(core::ptr::null_mut(), Ordering::Relaxed);
                lock.unlock(context.as_ref());
                pool::put(context);
            } else {
                lock.unlock(NonNull::dangling().as_ref());
            }
        }
    }

    #[inline(always)]
    fn is_held<P: Platform, L: Body<P>>(&self) -> bool {
        if L::HAS_CONTEXT {
            // Relaxed: exact for a holder, and for others only if nobody uses the mutex.
            !self.holder::<L::Ctx>().load(Ordering::Relaxed).is_null()
        } else {
            self.lock_inside::<L>().is_held()
        }
    }
}

/// Whether the process has one thread, so that no instruction needs to be atomic (set by glibc).
#[inline(always)]
fn has_one_thread() -> bool {
    extern "C" {
        static __libc_single_threaded: AtomicU8;
    }
    // SAFETY: glibc's variable. Relaxed: it changes only while one thread exists, and creating a thread synchronises.
    unsafe { __libc_single_threaded.load(Ordering::Relaxed) != 0 }
}

impl<N: Body<Native>, S: Body<Single>> InPlace<N, S> {
    const LAYOUTS_AGREE: () = assert!(size_of::<N>() == size_of::<S>() && size_of::<N::Ctx>() == size_of::<S::Ctx>());

    const OPS: Ops = Ops {
        acquire: Self::acquire,
        try_acquire: Self::try_acquire,
        acquire_until: |mutex, deadline| {
            // SAFETY: as for `Ops`.
            unsafe { mutex.acquire_if::<Native, N>(|lock, context| lock.lock_until(context, deadline)) }
        },
        release: Self::release,
        is_held: |mutex| mutex.is_held::<Native, N>(),
        waiting: N::INFO.waiting,
    };

    #[inline(always)]
    unsafe fn acquire(mutex: &Mutex) {
        // SAFETY: as for this call; with one thread both types see the same lock. A lone thread that finds its own lock
        // held waits for ever.
        unsafe {
            if has_one_thread() && mutex.acquire_if::<Single, S>(|lock, context| lock.try_lock(context)) {
                return;
            }
            mutex.acquire::<Native, N>();
        }
    }

    #[inline(always)]
    unsafe fn try_acquire(mutex: &Mutex) -> bool {
        // SAFETY: as for this call; with one thread both types see the same lock.
        unsafe {
            if has_one_thread() {
                mutex.acquire_if::<Single, S>(|lock, context| lock.try_lock(context))
            } else {
                mutex.acquire_if::<Native, N>(|lock, context| lock.try_lock(context))
            }
        }
    }

    #[inline(always)]
    unsafe fn release(mutex: &Mutex) {
        // SAFETY: as for this call; with one thread both types see the same lock.
        unsafe {
            if has_one_thread() {
                mutex.release::<Single, S>();
            } else {
                mutex.release::<Native, N>();
            }
        }
    }

    /// `pthread_mutex_lock`
    unsafe extern "C-unwind" fn lock(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        match mutex.class() {
            Class::Ordinary => {
                // SAFETY: an ordinary mutex.
                unsafe { Self::acquire(mutex) };
                0
            }
            Class::Owned => Self::lock_owned(mutex),
            Class::Glibcs => special::pass_on(&REAL.pthread_mutex_lock, mutex),
            Class::Special => special::lock(mutex),
        }
    }

    #[inline(never)]
    extern "C" fn lock_owned(mutex: &Mutex) -> c_int {
        let identity = tls::identity();
        // Relaxed: a thread finds its own identity only if it has stored it itself.
        if mutex.owner.load(Ordering::Relaxed) == identity {
            return mutex.relock(libc::EDEADLK).unwrap_or(0);
        }
        // SAFETY: a mutex of ours.
        unsafe { Self::acquire(mutex) };
        mutex.owner.store(identity, Ordering::Relaxed);
        0
    }

    #[inline(never)]
    extern "C" fn unlock_owned(mutex: &Mutex) -> c_int {
        // Relaxed: as in `lock_owned`; the depth is the holder's own.
        if mutex.owner.load(Ordering::Relaxed) != tls::identity() {
            return libc::EPERM;
        }
        let depth = mutex.depth.load(Ordering::Relaxed);
        if depth > 0 {
            mutex.depth.store(depth - 1, Ordering::Relaxed);
        } else {
            mutex.owner.store(0, Ordering::Relaxed);
            // SAFETY: a mutex of ours, which its owner holds.
            unsafe { Self::release(mutex) };
        }
        0
    }

    /// `pthread_mutex_trylock`
    unsafe extern "C-unwind" fn trylock(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        let Class::Ordinary = mutex.class() else { return special::trylock(mutex) };
        // SAFETY: an ordinary mutex.
        if unsafe { Self::try_acquire(mutex) } {
            0
        } else {
            libc::EBUSY
        }
    }

    /// `pthread_mutex_unlock`: by any thread, and of a mutex that is not locked, which changes nothing.
    unsafe extern "C-unwind" fn unlock(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        match mutex.class() {
            Class::Ordinary => {
                if mutex.is_held::<Native, N>() {
                    // SAFETY: an ordinary mutex that is held.
                    unsafe { Self::release(mutex) };
                }
                0
            }
            Class::Owned => Self::unlock_owned(mutex),
            Class::Glibcs => special::pass_on(&REAL.pthread_mutex_unlock, mutex),
            Class::Special => special::unlock(mutex),
        }
    }
}

/// Makes mutexes run on the lock `N`, which is `S` while the process has one thread.
pub fn install<N: TimedLock<Native> + IsHeld, S: TimedLock<Single> + IsHeld>() {
    let () = InPlace::<N, S>::LAYOUTS_AGREE;
    OPS.store(core::ptr::from_ref(&InPlace::<N, S>::OPS).cast_mut(), Ordering::Relaxed);
    ACTIVE.pthread_mutex_lock.set(InPlace::<N, S>::lock);
    ACTIVE.pthread_mutex_trylock.set(InPlace::<N, S>::trylock);
    ACTIVE.pthread_mutex_unlock.set(InPlace::<N, S>::unlock);
    ACTIVE.pthread_mutex_timedlock.set(special::timedlock);
    ACTIVE.pthread_mutex_clocklock.set(special::clocklock);
    ACTIVE.pthread_mutex_init.set(special::init);
    ACTIVE.pthread_mutex_destroy.set(special::destroy);
    ACTIVE.pthread_mutex_consistent.set(special::consistent);
    ACTIVE.pthread_mutex_getprioceiling.set(special::getprioceiling);
    ACTIVE.pthread_mutex_setprioceiling.set(special::setprioceiling);
}
