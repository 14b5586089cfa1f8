//! The lock of a mutex, for whoever knows its type: where it lies, and its acquisition with a context from the pool.

use super::Mutex;
use crate::outside::{self, Word};
use crate::pool::{self, Pool};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, Ordering};
use lockswap_locks::flat::futex::Futex;
use lockswap_locks::registry::fits_in_place;
use lockswap_locks::{IsHeld, TimedLock};
use lockswap_platform::{Deadline, Native, Platform};

/// Where a lock type lies: its contexts come from the pool, it itself from an arena if it is too large.
pub trait Body<P: Platform>: TimedLock<P> + IsHeld {
    const HAS_CONTEXT: bool = size_of::<Self::Ctx>() != 0;
    const LIES_INSIDE: bool = fits_in_place(size_of::<Self>(), Self::HAS_CONTEXT);
    const IS_ALIGNED: () = assert!(align_of::<Self>() <= if Self::LIES_INSIDE { 8 } else { 64 });
}

impl<P: Platform, L: TimedLock<P> + IsHeld> Body<P> for L {}

/// The lock of a mutex, for whoever knows its type.
impl Mutex {
    #[inline(always)]
    pub fn inside<L>(&self) -> &L {
        // SAFETY: the body of a mutex that runs on this lock type: on the one of the process, or as its number says;
        // zero is a free lock.
        unsafe { &*self.body.get().cast() }
    }

    #[inline(always)]
    pub fn outside<L>(&self) -> &Word<L> {
        // SAFETY: as in `inside`; zero is no lock yet.
        unsafe { &*self.body.get().cast() }
    }

    /// The lock, if the mutex has one already.
    #[inline(always)]
    pub fn existing<P: Platform, L: Body<P>>(&self) -> Option<&L> {
        let () = L::IS_ALIGNED;
        if L::LIES_INSIDE {
            Some(self.inside())
        } else {
            self.outside().get()
        }
    }

    /// The lock; the mutex gets one if it has none. Nothing if it runs on the small lock inside it.
    #[inline(always)]
    pub fn lock<P: Platform, L: Body<P>>(&self) -> Option<&L> {
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
            outside::mutexes(self.lock_number()).provide(self.outside(), make_new, clean)
        })
    }

    /// The small lock of a mutex that has no other, see [`crate::outside`].
    #[inline(always)]
    pub fn in_place<P: Platform, L: Body<P>>(&self) -> Option<&Futex<Native>> {
        const { assert!(size_of::<Futex<Native>>() <= size_of::<u64>()) };
        // SAFETY: the second word of the body, which is zero before its first use: a free lock.
        let small = || unsafe { &*self.body.get().cast::<u64>().add(1).cast() };
        (!L::LIES_INSIDE && self.outside::<L>().is_in_place()).then(small)
    }

    /// The lock of a mutex that is held.
    #[inline(always)]
    pub unsafe fn held_lock<P: Platform, L: Body<P>>(&self) -> &L {
        if L::LIES_INSIDE {
            self.inside()
        } else {
            // SAFETY: it was acquired.
            unsafe { self.outside().get_existing() }
        }
    }

    /// The context of the last acquisition: the holder's, if somebody holds the mutex.
    #[inline(always)]
    pub fn holder<C>(&self) -> &AtomicPtr<C> {
        // SAFETY: the second word of the body, behind a lock of one word or the address of a lock.
        unsafe { &*self.body.get().cast::<AtomicPtr<C>>().add(1) }
    }

    /// The context through which the mutex is held, as the mutex tells; nothing if nobody holds it.
    pub unsafe fn held_through<P: Platform, L: Body<P>>(&self) -> Option<NonNull<L::Ctx>> {
        // Relaxed: whoever releases the lock has acquired it, or was told by the thread that has.
        let context = NonNull::new(self.holder().load(Ordering::Relaxed))?;
        // SAFETY: the mutex has had a holder, so it has a lock, and the context is from the pool.
        unsafe { (self.held_lock::<P, L>().is_held() && pool::is_taken(context)).then_some(context) }
    }

    /// Acquires the lock if it and a context are at hand and it is free. Needs no stack frame, because it never waits.
    /// A mutex that `is_asked` is released through its owner's check only.
    #[inline(always)]
    pub unsafe fn acquire_at_once<P: Platform, L: Body<P>>(&self, pool: Pool, is_asked: bool) -> bool {
        let Some(lock) = self.existing::<P, L>() else { return false };
        // SAFETY: the context is reusable, and serves this acquisition only.
        unsafe {
            if !L::HAS_CONTEXT {
                return lock.try_lock(NonNull::dangling().as_ref());
            }
            let Some(context) = pool::take_first::<L::Ctx>(pool, self.address(), is_asked) else { return false };
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
    pub unsafe fn acquire<P: Platform, L: Body<P>>(&self, pool: Pool, how: How) -> bool {
        // SAFETY: a context from the pool is reusable, and serves this acquisition only.
        unsafe {
            let Some(lock) = self.lock::<P, L>() else {
                return self.in_place::<P, L>().is_some_and(|small| how.acquire(small, &()));
            };
            if !L::HAS_CONTEXT {
                return how.acquire(lock, NonNull::dangling().as_ref());
            }
            let Some(context) = how.wait_for(|| pool::take::<L::Ctx>(pool, self.address())) else { return false };
            let acquired = how.acquire(lock, context.as_ref());
            if acquired {
                // Relaxed: as in `acquire_at_once`.
                self.holder().store(context.as_ptr(), Ordering::Relaxed);
            } else {
                pool::put(pool, context);
            }
            acquired
        }
    }

    #[inline(always)]
    pub fn is_held<P: Platform, L: Body<P>>(&self) -> bool {
        let Some(lock) = self.existing::<P, L>() else {
            return self.in_place::<P, L>().is_some_and(|small| small.is_held());
        };
        lock.is_held()
    }
}

/// How long an acquisition may take.
#[derive(Clone, Copy)]
pub enum How {
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
    pub unsafe fn acquire<P: Platform, L: TimedLock<P>>(self, lock: &L, context: &L::Ctx) -> bool {
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
    pub fn wait_for<T>(self, take: impl Fn() -> Option<T>) -> Option<T> {
        take().or_else(|| match self {
            How::Wait => Some(Native::spin_map(take)),
            How::Try => None,
            How::Until(deadline) => Native::spin_map_until(deadline, take),
        })
    }
}
