//! The functions for an ordinary mutex, compiled for each lock: what runs when nothing special is going on.

use super::body::{Body, How};
use super::{special, Class, Mutex, Ops, ARE_REPLACED};
use crate::functions::ACTIVE;
use crate::outside;
use crate::pool::{self, Pool};
use crate::threads::{seldom, Threads};
use crate::tls;
use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use lockswap_locks::{IsHeld, RawLock, TimedLock};
use lockswap_platform::{Deadline, Native, Single};

/// The lock `N` on all CPUs, and the same lock `S` while the process has one thread. `SEVERAL`: the process has
/// several locks, so that only the mutex tells which of them this one is.
pub(super) struct OnLock<N, S, const SEVERAL: bool>(PhantomData<(N, S)>);

/// The result of a function that comes last in another one, and whose result is 0. The compiler must not know that:
/// it would call the function and return a 0 of its own, and a call needs a stack frame, which costs the uncontended
/// path a store before its atomic instruction.
#[inline(always)]
fn zero() -> c_int {
    core::hint::black_box(0)
}

impl<N: Body<Native>, S: Body<Single>, const SEVERAL: bool> OnLock<N, S, SEVERAL> {
    const LAYOUTS_AGREE: () = assert!(size_of::<N>() == size_of::<S>() && size_of::<N::Ctx>() == size_of::<S::Ctx>());

    pub(super) const OPS: Ops = Ops {
        acquire: Self::acquire,
        try_acquire: Self::try_acquire,
        acquire_until: Self::acquire_until,
        release: |mutex| {
            // SAFETY: as for `Ops`.
            unsafe { Self::release(mutex, Threads::AskGlibc) };
        },
        release_to_wait: Self::release_to_wait,
        is_held: |mutex| mutex.is_held::<Native, N>(),
        forget_waiters: {
            let () = Self::LAYOUTS_AGREE;
            Self::forget_waiters
        },
        destroy: |mutex| {
            if !N::LIES_INSIDE {
                outside::mutexes(mutex.lock_number()).give_back(mutex.outside::<N>());
            }
        },
        lock: Self::lock_ordinary,
        trylock: Self::trylock_ordinary,
        unlock: Self::unlock_ordinary,
        unlock_known: Self::unlock_known,
        lock_owned: Self::lock_owned,
        unlock_owned: Self::unlock_owned,
        info: &N::INFO,
    };

    /// Where the contexts of this lock come from.
    #[inline(always)]
    fn pool(mutex: &Mutex) -> Pool {
        if SEVERAL {
            Pool::Numbered(mutex.lock_number())
        } else {
            Pool::Only
        }
    }

    /// Acquires if that needs no waiting; a lock without a context may wait. With one thread both types see the same
    /// lock.
    #[inline(always)]
    unsafe fn acquire_at_once(mutex: &Mutex, threads: Threads, is_asked: bool) -> bool {
        // SAFETY: as for `Ops`.
        unsafe {
            if threads.are_one() {
                mutex.acquire_at_once::<Single, S>(Self::pool(mutex), is_asked)
            } else if N::HAS_CONTEXT {
                mutex.acquire_at_once::<Native, N>(Self::pool(mutex), is_asked)
            } else {
                // Keeps its own uncontended path short, and one instruction shorter than a try.
                let Some(lock) = mutex.existing::<Native, N>() else { return false };
                lock.lock(NonNull::dangling().as_ref());
                true
            }
        }
    }

    /// A lone thread that finds its own lock held waits for ever.
    unsafe fn acquire(mutex: &Mutex) {
        // SAFETY: as for `Ops`.
        unsafe {
            if mutex.acquire_outside_queue(None).is_none() {
                mutex.acquire::<Native, N>(Self::pool(mutex), How::Wait);
            }
        }
    }

    unsafe fn try_acquire(mutex: &Mutex) -> bool {
        // SAFETY: as for `Ops`.
        unsafe { mutex.acquire::<Native, N>(Self::pool(mutex), How::Try) }
    }

    unsafe fn acquire_until(mutex: &Mutex, deadline: Deadline) -> bool {
        // SAFETY: as for `Ops`.
        unsafe {
            let outside = mutex.acquire_outside_queue(Some(deadline));
            outside.unwrap_or_else(|| mutex.acquire::<Native, N>(Self::pool(mutex), How::Until(deadline)))
        }
    }

    unsafe fn forget_waiters(mutex: &Mutex, held: bool) {
        // SAFETY: as for `Ops`; zero is a free lock, and a null holder.
        unsafe {
            if N::LIES_INSIDE {
                mutex.body.get().write([0; 2]);
            } else {
                mutex.outside::<N>().renew(|lock| lock.write_bytes(0, 1));
                mutex.body.get().cast::<u64>().add(1).write(0);
            }
            if held {
                Self::acquire(mutex);
            }
        }
    }

    #[cold]
    #[inline(never)]
    extern "C" fn acquire_slowly(mutex: &Mutex) -> c_int {
        // SAFETY: a mutex of ours.
        unsafe {
            if mutex.acquire_outside_queue(None).is_none() && !Self::acquire_through_first(mutex) {
                mutex.acquire::<Native, N>(Self::pool(mutex), How::Wait);
            }
        }
        zero()
    }

    /// Acquires the lock through the thread's first own context, and notes that; not, if that or a lock is not at
    /// hand. What follows the end of the wait is kept short, because the mutex's other users wait meanwhile.
    #[inline(always)]
    unsafe fn acquire_through_first(mutex: &Mutex) -> bool {
        // SAFETY: as for `Ops`; the context is reusable, and serves this acquisition only.
        unsafe {
            let Some(lock) = mutex.existing::<Native, N>().filter(|_| N::HAS_CONTEXT) else { return false };
            let Some(context) = pool::take_first::<N::Ctx>(Self::pool(mutex), mutex.address(), true) else {
                return false;
            };
            lock.lock(context.as_ref());
            pool::note_holding(mutex.address(), context);
            // Relaxed: as in `held_through`.
            mutex.holder().store(context.as_ptr(), Ordering::Relaxed);
        }
        true
    }

    /// Releases a mutex. One without a context is held; of one with a context that is looked at here, because that is
    /// where the context is. The result is 0, so that the slow path can be a jump.
    #[inline(always)]
    unsafe fn release(mutex: &Mutex, threads: Threads) -> c_int {
        // SAFETY: as for `Ops`.
        unsafe {
            if let Some(small) = mutex.in_place::<Native, N>() {
                small.unlock(&());
                return 0;
            }
            if !N::HAS_CONTEXT {
                let context = NonNull::dangling();
                return if Self::release_uncontended(mutex, context, threads) {
                    0
                } else {
                    Self::hand_over(mutex, context)
                };
            }
            // The mutex may be gone after the release.
            let pool = Self::pool(mutex);
            match mutex.held_through::<Native, N>() {
                Some(context) if Self::release_uncontended(mutex, context, threads) => pool::put(pool, context),
                Some(context) => return Self::hand_over(mutex, context),
                None => {}
            }
        }
        0
    }

    #[cold]
    #[inline(never)]
    extern "C" fn release_slowly(mutex: &Mutex) -> c_int {
        // SAFETY: a mutex of ours.
        unsafe {
            if mutex.is_held::<Native, N>() {
                Self::release(mutex, Threads::AskGlibc);
            }
        }
        zero()
    }

    /// Releases a mutex that is held through this context, if nobody waits for it, and returns whether it did.
    #[inline(always)]
    unsafe fn release_uncontended(mutex: &Mutex, context: NonNull<N::Ctx>, threads: Threads) -> bool {
        // SAFETY: as for `Ops`. With one thread both types see the same context.
        unsafe {
            if threads.are_one() {
                mutex.held_lock::<Single, S>().unlock_alone(context.cast().as_ref())
            } else {
                mutex.held_lock::<Native, N>().unlock_alone(context.as_ref())
            }
        }
    }

    #[cold]
    #[inline(never)]
    extern "C" fn hand_over(mutex: &Mutex, context: NonNull<N::Ctx>) -> c_int {
        // SAFETY: the mutex is held through this context.
        unsafe {
            let pool = Self::pool(mutex);
            mutex.held_lock::<Native, N>().hand_over(context.as_ref());
            if N::HAS_CONTEXT {
                pool::put(pool, context);
            }
        }
        zero()
    }

    /// Releases a mutex that is held through a context in the thread's first own slot.
    #[inline(always)]
    pub(super) unsafe fn release_known(mutex: &Mutex, context: NonNull<N::Ctx>, threads: Threads) -> c_int {
        // SAFETY: as for this call.
        unsafe {
            if !Self::release_uncontended(mutex, context, threads) {
                return Self::hand_over_known(mutex, context);
            }
            pool::put_first(context);
        }
        0
    }

    #[cold]
    #[inline(never)]
    pub(super) extern "C" fn hand_over_known(mutex: &Mutex, context: NonNull<N::Ctx>) -> c_int {
        // SAFETY: the mutex is held through this context, which lies in the thread's first own slot.
        unsafe {
            mutex.held_lock::<Native, N>().hand_over(context.as_ref());
            pool::put_first(context);
        }
        zero()
    }

    /// As `release`, for a thread that goes on to wait on a condition.
    unsafe fn release_to_wait(mutex: &Mutex) {
        // SAFETY: as for `Ops`.
        unsafe {
            if let Some(small) = mutex.in_place::<Native, N>() {
                return small.unlock_to_wait(&());
            }
            if !N::HAS_CONTEXT {
                return mutex.held_lock::<Native, N>().unlock_to_wait(NonNull::dangling().as_ref());
            }
            let Some(context) = mutex.held_through::<Native, N>() else { return };
            let pool = Self::pool(mutex);
            mutex.held_lock::<Native, N>().unlock_to_wait(context.as_ref());
            pool::put(pool, context);
        }
    }

    /// Acquires an ordinary mutex.
    #[inline(always)]
    pub(super) unsafe fn acquire_ordinary(mutex: &Mutex, threads: Threads) -> c_int {
        // SAFETY: an ordinary mutex.
        if unsafe { Self::acquire_at_once(mutex, threads, false) } {
            return 0;
        }
        Self::acquire_slowly(mutex)
    }

    unsafe extern "C" fn lock_ordinary(mutex: &Mutex) -> c_int {
        // SAFETY: an ordinary mutex.
        Threads::known(move |threads| unsafe { Self::acquire_ordinary(mutex, threads) })
    }

    #[inline(always)]
    pub(super) unsafe extern "C" fn trylock_ordinary(mutex: &Mutex) -> c_int {
        // SAFETY: an ordinary mutex.
        let acquire_at_once = move |threads| unsafe { Self::acquire_at_once(mutex, threads, false) };
        // SAFETY: as above.
        if N::HAS_CONTEXT && Threads::known(acquire_at_once) || unsafe { Self::try_acquire(mutex) } {
            0
        } else {
            libc::EBUSY
        }
    }

    /// Releases an ordinary mutex that is not known to be held by the calling thread.
    #[inline(always)]
    pub(super) unsafe fn release_ordinary(mutex: &Mutex, threads: Threads) -> c_int {
        if N::HAS_CONTEXT {
            return Self::release_slowly(mutex);
        }
        if !mutex.is_held::<Native, N>() {
            seldom();
            return 0;
        }
        // SAFETY: an ordinary mutex, which is held.
        unsafe { Self::release(mutex, threads) }
    }

    unsafe extern "C" fn unlock_ordinary(mutex: &Mutex) -> c_int {
        // SAFETY: an ordinary mutex.
        Threads::known(move |threads| unsafe { Self::release_ordinary(mutex, threads) })
    }

    /// `pthread_mutex_unlock` where the process has several locks: of a mutex that the calling thread is known to hold
    /// through a context of this lock, and of which nothing else is known.
    unsafe extern "C" fn unlock_known(mutex: &Mutex) -> c_int {
        let pool = Pool::Numbered(tls::thread().recent.get());
        if let Some(context) = pool::holds_through::<N::Ctx>(pool, mutex.address()) {
            // SAFETY: the mutex is held through this context. As in `unlock`.
            unsafe {
                if N::LIES_INSIDE && mutex.inside::<N>().has_heir(context.as_ref()) {
                    return Self::hand_over_known(mutex, context);
                }
                if let (Class::Ordinary, _) = mutex.class_and_ops() {
                    return Threads::known(move |threads| Self::release_known(mutex, context, threads));
                }
            }
        }
        special::unlock(mutex)
    }

    #[inline(never)]
    pub(super) extern "C" fn lock_owned(mutex: &Mutex) -> c_int {
        let identity = tls::identity();
        // Relaxed: a thread finds its own identity only if it has stored it itself.
        if mutex.owner.load(Ordering::Relaxed) == identity {
            return mutex.relock(libc::EDEADLK).unwrap_or(0);
        }
        // SAFETY: a mutex of ours.
        if !Threads::known(move |threads| unsafe { Self::acquire_at_once(mutex, threads, true) }) {
            return Self::acquire_owned_slowly(mutex);
        }
        mutex.owner.store(identity, Ordering::Relaxed);
        0
    }

    #[cold]
    #[inline(never)]
    extern "C" fn acquire_owned_slowly(mutex: &Mutex) -> c_int {
        // SAFETY: a mutex of ours.
        unsafe { Self::acquire(mutex) };
        mutex.owner.store(tls::identity(), Ordering::Relaxed);
        0
    }

    #[inline(never)]
    pub(super) extern "C" fn unlock_owned(mutex: &Mutex) -> c_int {
        // Relaxed: as in `lock_owned`; the depth is the holder's own.
        if mutex.owner.load(Ordering::Relaxed) != tls::identity() {
            return libc::EPERM;
        }
        let depth = mutex.depth.load(Ordering::Relaxed);
        if depth > 0 {
            mutex.depth.store(depth - 1, Ordering::Relaxed);
            return 0;
        }
        mutex.owner.store(0, Ordering::Relaxed);
        // SAFETY: a mutex of ours, which its owner holds.
        Threads::known(move |threads| unsafe { Self::release(mutex, threads) })
    }
}

/// How the lock `N` works where it is one of several.
pub fn one_of_several<N: TimedLock<Native> + IsHeld, S: TimedLock<Single> + IsHeld>() -> &'static Ops {
    // A lock without a context needs to know no pool.
    if <N as Body<Native>>::HAS_CONTEXT {
        &OnLock::<N, S, true>::OPS
    } else {
        &OnLock::<N, S, false>::OPS
    }
}

/// The functions that are the same for each lock.
pub fn install_others() {
    ARE_REPLACED.store(true, Ordering::Relaxed);
    ACTIVE.pthread_mutex_timedlock.set(special::timedlock);
    ACTIVE.pthread_mutex_clocklock.set(special::clocklock);
    ACTIVE.pthread_mutex_init.set(special::init);
    ACTIVE.pthread_mutex_destroy.set(special::destroy);
    ACTIVE.pthread_mutex_consistent.set(special::consistent);
    ACTIVE.pthread_mutex_getprioceiling.set(special::getprioceiling);
    ACTIVE.pthread_mutex_setprioceiling.set(special::setprioceiling);
}
