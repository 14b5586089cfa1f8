//! The functions for an ordinary mutex, compiled for each lock: what runs when nothing special is going on.

use super::special;
use super::{Class, Mutex, Ops, ARE_REPLACED, OPS};
use crate::functions::{ACTIVE, REAL};
use crate::outside::{Word, MUTEXES};
use crate::{pool, tls};
use core::ffi::c_int;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU8, Ordering};
use libc::pthread_mutex_t;
use lockswap_locks::flat::futex::Futex;
use lockswap_locks::registry::fits_in_place;
use lockswap_locks::{IsHeld, RawLock, TimedLock};
use lockswap_platform::{Deadline, Native, Platform, Single};

/// The lock `N` on all CPUs, and the same lock `S` while the process has one thread.
struct OnLock<N, S>(PhantomData<(N, S)>);

/// Where a lock type lies: its contexts come from the pool, it itself from an arena if it is too large.
trait Body<P: Platform>: TimedLock<P> + IsHeld {
    const HAS_CONTEXT: bool = size_of::<Self::Ctx>() != 0;
    const LIES_INSIDE: bool = fits_in_place(size_of::<Self>(), Self::HAS_CONTEXT);
    const IS_ALIGNED: () = assert!(align_of::<Self>() <= if Self::LIES_INSIDE { 8 } else { 64 });
}

impl<P: Platform, L: TimedLock<P> + IsHeld> Body<P> for L {}

/// The lock of a mutex, for whoever knows its type.
impl Mutex {
    #[inline(always)]
    fn inside<L>(&self) -> &L {
        // SAFETY: the body of a mutex of the chosen lock type, which all mutexes of the process have; zero is a free lock.
        unsafe { &*self.body.get().cast() }
    }

    #[inline(always)]
    fn outside<L>(&self) -> &Word<L> {
        // SAFETY: as in `inside`; zero is no lock yet.
        unsafe { &*self.body.get().cast() }
    }

    /// The lock, if the mutex has one already.
    #[inline(always)]
    fn existing<P: Platform, L: Body<P>>(&self) -> Option<&L> {
        let () = L::IS_ALIGNED;
        if L::LIES_INSIDE {
            Some(self.inside())
        } else {
            self.outside().get()
        }
    }

    /// The lock; the mutex gets one if it has none. Nothing if it runs on the small lock inside it.
    #[inline(always)]
    fn lock<P: Platform, L: Body<P>>(&self) -> Option<&L> {
        self.existing().or_else(|| {
            // Relaxed: nobody holds a mutex without a lock.
            let clean = || self.holder::<L::Ctx>().store(core::ptr::null_mut(), Ordering::Relaxed);
            let make_new = |lock: &L| {
                let is_idle = !lock.is_held() && lock.is_quiet();
                if is_idle {
                    lock.forget();
                }
                is_idle
            };
            MUTEXES.provide(self.outside(), make_new, clean)
        })
    }

    /// The small lock of a mutex that has no other, see [`crate::outside`].
    #[inline(always)]
    fn in_place<P: Platform, L: Body<P>>(&self) -> Option<&Futex<Native>> {
        const { assert!(size_of::<Futex<Native>>() <= size_of::<u64>()) };
        // SAFETY: the second word of the body, which is zero before its first use: a free lock.
        let small = || unsafe { &*self.body.get().cast::<u64>().add(1).cast() };
        (!L::LIES_INSIDE && self.outside::<L>().is_in_place()).then(small)
    }

    /// The lock of a mutex that is held.
    #[inline(always)]
    unsafe fn held_lock<P: Platform, L: Body<P>>(&self) -> &L {
        if L::LIES_INSIDE {
            self.inside()
        } else {
            // SAFETY: it was acquired.
            unsafe { self.outside().get_existing() }
        }
    }

    /// The context of the last acquisition: the holder's, if somebody holds the mutex.
    #[inline(always)]
    fn holder<C>(&self) -> &AtomicPtr<C> {
        // SAFETY: the second word of the body, behind a lock of one word or the address of a lock.
        unsafe { &*self.body.get().cast::<AtomicPtr<C>>().add(1) }
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// The context through which the mutex is held, as the mutex tells; nothing if nobody holds it.
    unsafe fn held_through<P: Platform, L: Body<P>>(&self) -> Option<NonNull<L::Ctx>> {
        // Relaxed: whoever releases the lock has acquired it, or was told by the thread that has.
        let context = NonNull::new(self.holder().load(Ordering::Relaxed))?;
        // SAFETY: the mutex has had a holder, so it has a lock, and the context is from the pool.
        unsafe { (self.held_lock::<P, L>().is_held() && pool::is_taken(context)).then_some(context) }
    }

    /// Acquires the lock if it and a context are at hand and it is free. Needs no stack frame, because it never waits. A mutex
    /// that `is_asked` is released through its owner's check only.
    #[inline(always)]
    unsafe fn acquire_at_once<P: Platform, L: Body<P>>(&self, is_asked: bool) -> bool {
        let Some(lock) = self.existing::<P, L>() else { return false };
        // SAFETY: the context is reusable, and serves this acquisition only.
        unsafe {
            if !L::HAS_CONTEXT {
                return lock.try_lock(NonNull::dangling().as_ref());
            }
            let Some(context) = pool::take_first::<L::Ctx>(self.address(), is_asked) else { return false };
            let acquired = lock.try_lock(context.as_ref());
            if acquired {
                // Relaxed: as in `held_through`.
                self.holder().store(context.as_ptr(), Ordering::Relaxed);
            } else {
                pool::put_first(context);
            }
            acquired
        }
    }

    /// Acquires the lock in the way that `how` says, and returns whether it did.
    #[inline(always)]
    unsafe fn acquire<P: Platform, L: Body<P>>(&self, how: How) -> bool {
        // SAFETY: a context from the pool is reusable, and serves this acquisition only.
        unsafe {
            let Some(lock) = self.lock::<P, L>() else {
                return self.in_place::<P, L>().is_some_and(|small| how.acquire(small, &()));
            };
            if !L::HAS_CONTEXT {
                return how.acquire(lock, NonNull::dangling().as_ref());
            }
            let Some(context) = how.wait_for(|| pool::take::<L::Ctx>(self.address())) else { return false };
            let acquired = how.acquire(lock, context.as_ref());
            if acquired {
                // Relaxed: as in `acquire_at_once`.
                self.holder().store(context.as_ptr(), Ordering::Relaxed);
            } else {
                pool::put(context);
            }
            acquired
        }
    }

    #[inline(always)]
    fn is_held<P: Platform, L: Body<P>>(&self) -> bool {
        let Some(lock) = self.existing::<P, L>() else {
            return self.in_place::<P, L>().is_some_and(|small| small.is_held());
        };
        lock.is_held()
    }
}

/// How long an acquisition may take.
#[derive(Clone, Copy)]
enum How {
    Wait,
    Try,
    Until(Deadline),
}

impl How {
    /// Acquires `lock` and returns whether it did.
    ///
    /// # Safety
    /// As for [`lockswap_locks::RawLock::lock`].
    #[inline(always)]
    unsafe fn acquire<P: Platform, L: TimedLock<P>>(self, lock: &L, context: &L::Ctx) -> bool {
        // SAFETY: as for this call.
        unsafe {
            match self {
                How::Wait => {
                    lock.lock(context);
                    true
                }
                How::Try => lock.try_lock(context),
                How::Until(deadline) => lock.lock_until(context, deadline),
            }
        }
    }

    /// What `take` takes, waiting for it as long as the acquisition may take.
    #[inline(always)]
    fn wait_for<T>(self, take: impl Fn() -> Option<T>) -> Option<T> {
        take().or_else(|| match self {
            How::Wait => Some(Native::spin_map(take)),
            How::Try => None,
            How::Until(deadline) => Native::spin_map_until(deadline, take),
        })
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

impl<N: Body<Native>, S: Body<Single>> OnLock<N, S> {
    const LAYOUTS_AGREE: () = assert!(size_of::<N>() == size_of::<S>() && size_of::<N::Ctx>() == size_of::<S::Ctx>());

    const OPS: Ops = Ops {
        acquire: Self::acquire,
        try_acquire: Self::try_acquire,
        acquire_until: Self::acquire_until,
        release: |mutex| {
            // SAFETY: as for `Ops`.
            unsafe { Self::release(mutex) };
        },
        release_to_wait: Self::release_to_wait,
        is_held: |mutex| mutex.is_held::<Native, N>(),
        forget_waiters: Self::forget_waiters,
        destroy: |mutex| {
            if !N::LIES_INSIDE {
                MUTEXES.give_back(mutex.outside::<N>());
            }
        },
        waiting: N::INFO.waiting,
    };

    /// Acquires if that needs no waiting; a lock without a context may wait. With one thread both types see the same lock.
    #[inline(always)]
    unsafe fn acquire_at_once(mutex: &Mutex, is_asked: bool) -> bool {
        // SAFETY: as for `Ops`.
        unsafe {
            if has_one_thread() {
                mutex.acquire_at_once::<Single, S>(is_asked)
            } else if N::HAS_CONTEXT {
                mutex.acquire_at_once::<Native, N>(is_asked)
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
                mutex.acquire::<Native, N>(How::Wait);
            }
        }
    }

    unsafe fn try_acquire(mutex: &Mutex) -> bool {
        // SAFETY: as for `Ops`.
        unsafe { mutex.acquire::<Native, N>(How::Try) }
    }

    unsafe fn acquire_until(mutex: &Mutex, deadline: Deadline) -> bool {
        // SAFETY: as for `Ops`.
        unsafe {
            let outside = mutex.acquire_outside_queue(Some(deadline));
            outside.unwrap_or_else(|| mutex.acquire::<Native, N>(How::Until(deadline)))
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
                mutex.acquire::<Native, N>(How::Wait);
            }
        }
        0
    }

    /// Acquires the lock through the thread's first own context, and notes that; not, if that or a lock is not at hand. What
    /// follows the end of the wait is kept short, because the mutex's other users wait meanwhile.
    #[inline(always)]
    unsafe fn acquire_through_first(mutex: &Mutex) -> bool {
        // SAFETY: as for `Ops`; the context is reusable, and serves this acquisition only.
        unsafe {
            let Some(lock) = mutex.existing::<Native, N>().filter(|_| N::HAS_CONTEXT) else { return false };
            let Some(context) = pool::take_first::<N::Ctx>(mutex.address(), true) else { return false };
            lock.lock(context.as_ref());
            pool::note_holding(mutex.address(), context);
            // Relaxed: as in `held_through`.
            mutex.holder().store(context.as_ptr(), Ordering::Relaxed);
        }
        true
    }

    /// Releases a mutex. One without a context is held; of one with a context that is looked at here, because that is where
    /// the context is. The result is 0, so that the slow path can be a jump.
    #[inline(always)]
    unsafe fn release(mutex: &Mutex) -> c_int {
        // SAFETY: as for `Ops`.
        unsafe {
            if let Some(small) = mutex.in_place::<Native, N>() {
                small.unlock(&());
                return 0;
            }
            if !N::HAS_CONTEXT {
                if has_one_thread() {
                    mutex.held_lock::<Single, S>().unlock(NonNull::dangling().as_ref());
                } else {
                    mutex.held_lock::<Native, N>().unlock(NonNull::dangling().as_ref());
                }
                return 0;
            }
            match mutex.held_through::<Native, N>() {
                Some(context) if Self::unlock_alone(mutex, context) => pool::put(context),
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
                Self::release(mutex);
            }
        }
        0
    }

    /// Releases a mutex that is held through this context, if nobody waits for it, and returns whether it did.
    #[inline(always)]
    unsafe fn unlock_alone(mutex: &Mutex, context: NonNull<N::Ctx>) -> bool {
        // SAFETY: as for `Ops`. With one thread both types see the same context.
        unsafe {
            if has_one_thread() {
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
            mutex.held_lock::<Native, N>().hand_over(context.as_ref());
            pool::put(context);
        }
        0
    }

    /// Releases a mutex that is held through a context in the thread's first own slot.
    #[inline(always)]
    unsafe fn release_known(mutex: &Mutex, context: NonNull<N::Ctx>) -> c_int {
        // SAFETY: as for this call.
        unsafe {
            if !Self::unlock_alone(mutex, context) {
                return Self::hand_over_known(mutex, context);
            }
            pool::put_first(context);
        }
        0
    }

    #[cold]
    #[inline(never)]
    extern "C" fn hand_over_known(mutex: &Mutex, context: NonNull<N::Ctx>) -> c_int {
        // SAFETY: the mutex is held through this context, which lies in the thread's first own slot.
        unsafe {
            mutex.held_lock::<Native, N>().hand_over(context.as_ref());
            pool::put_first(context);
        }
        0
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
            mutex.held_lock::<Native, N>().unlock_to_wait(context.as_ref());
            pool::put(context);
        }
    }

    /// `pthread_mutex_lock`
    unsafe extern "C-unwind" fn lock(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        match mutex.class() {
            Class::Ordinary => {
                // SAFETY: an ordinary mutex.
                if unsafe { Self::acquire_at_once(mutex, false) } {
                    return 0;
                }
                Self::acquire_slowly(mutex)
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
        if unsafe { !Self::acquire_at_once(mutex, true) } {
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
    extern "C" fn unlock_owned(mutex: &Mutex) -> c_int {
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
        unsafe { Self::release(mutex) }
    }

    /// `pthread_mutex_trylock`
    unsafe extern "C-unwind" fn trylock(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        let Class::Ordinary = mutex.class() else { return special::trylock(mutex) };
        // SAFETY: an ordinary mutex.
        if unsafe { N::HAS_CONTEXT && Self::acquire_at_once(mutex, false) || Self::try_acquire(mutex) } {
            0
        } else {
            libc::EBUSY
        }
    }

    /// `pthread_mutex_unlock`: by any thread, and of a mutex that is not locked, which changes nothing.
    unsafe extern "C-unwind" fn unlock(mutex: *mut pthread_mutex_t) -> c_int {
        // SAFETY: the program's mutex.
        let mutex = unsafe { Mutex::of(mutex) };
        let known = if N::HAS_CONTEXT { pool::holds_through::<N::Ctx>(mutex.address()) } else { None };
        if let Some(context) = known.filter(|_| N::LIES_INSIDE) {
            // Waiters have changed the mutex's line since this thread acquired it, so that it costs to look there.
            // SAFETY: the mutex is held through this context.
            if unsafe { mutex.inside::<N>().has_heir(context.as_ref()) } {
                return Self::hand_over_known(mutex, context);
            }
        }
        match (mutex.class(), known) {
            // SAFETY: an ordinary mutex, held through this context.
            (Class::Ordinary, Some(context)) => unsafe { Self::release_known(mutex, context) },
            (Class::Ordinary, None) if N::HAS_CONTEXT => Self::release_slowly(mutex),
            // SAFETY: an ordinary mutex, which is held.
            (Class::Ordinary, None) if mutex.is_held::<Native, N>() => unsafe { Self::release(mutex) },
            (Class::Ordinary, None) => 0,
            (Class::Owned, _) => Self::unlock_owned(mutex),
            (Class::Glibcs, _) => special::pass_on(&REAL.pthread_mutex_unlock, mutex),
            (Class::Special, _) => special::unlock(mutex),
        }
    }
}

/// Makes mutexes run on the lock `N`, which is `S` while the process has one thread.
pub fn install<N: TimedLock<Native> + IsHeld, S: TimedLock<Single> + IsHeld>() {
    let () = OnLock::<N, S>::LAYOUTS_AGREE;
    OPS.store(core::ptr::from_ref(&OnLock::<N, S>::OPS).cast_mut(), Ordering::Relaxed);
    OPS.protect();
    ARE_REPLACED.store(true, Ordering::Relaxed);
    ACTIVE.pthread_mutex_lock.set(OnLock::<N, S>::lock);
    ACTIVE.pthread_mutex_trylock.set(OnLock::<N, S>::trylock);
    ACTIVE.pthread_mutex_unlock.set(OnLock::<N, S>::unlock);
    ACTIVE.pthread_mutex_timedlock.set(special::timedlock);
    ACTIVE.pthread_mutex_clocklock.set(special::clocklock);
    ACTIVE.pthread_mutex_init.set(special::init);
    ACTIVE.pthread_mutex_destroy.set(special::destroy);
    ACTIVE.pthread_mutex_consistent.set(special::consistent);
    ACTIVE.pthread_mutex_getprioceiling.set(special::getprioceiling);
    ACTIVE.pthread_mutex_setprioceiling.set(special::setprioceiling);
}
