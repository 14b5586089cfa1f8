//! `pthread_rwlock_t` on a lock of ours.
//!
//!   bytes  0..16  the lock, or its address if it is too large (see `crate::outside`)
//!         16..24  the identity of the writer inside
//!         24..28  the generation (see `crate::generation`)
//!         28..32  process-shared, where glibc keeps it
//!         48..52  the kind, where glibc keeps it: whom the lock prefers
//!
//! A process-shared lock stays glibc's.

use crate::counters::count;
use crate::functions::{ACTIVE, REAL};
use crate::outside::{Word, RWLOCKS};
use crate::{deadline, generation, tls};
use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use libc::{clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};
use lockswap_locks::counters::Counter;
use lockswap_locks::registry::fits_in_place;
use lockswap_locks::{Preference, RawRwLock};
use lockswap_platform::{Clock, Deadline, Native};

#[repr(C)]
struct RwLock {
    body: UnsafeCell<[u64; 2]>,
    writer: AtomicU64,
    generation: AtomicU32,
    shared: AtomicU32,
    unused: [u64; 2],
    kind: c_uint,
}

const _: () = assert!(size_of::<RwLock>() == size_of::<pthread_rwlock_t>());
const _: () = assert!(core::mem::offset_of!(RwLock, shared) == 28);
const _: () = assert!(core::mem::offset_of!(RwLock, kind) == 48);

/// The only kind that prefers writers: glibc treats PTHREAD_RWLOCK_PREFER_WRITER_NP as the default, because a thread may
/// read-lock again what it has read-locked.
const PREFER_WRITER_NONRECURSIVE: c_uint = 2;

/// The functions of an rwlock on the lock `L`.
struct OnLock<L>(PhantomData<L>);

impl RwLock {
    /// # Safety
    /// `rwlock` points at an rwlock.
    unsafe fn of<'a>(rwlock: *mut pthread_rwlock_t) -> &'a RwLock {
        // SAFETY: as for this call.
        unsafe { &*rwlock.cast() }
    }

    fn preference(&self) -> Preference {
        if self.kind == PREFER_WRITER_NONRECURSIVE {
            Preference::Writers
        } else {
            Preference::Readers
        }
    }

    /// Whether the calling thread is the writer inside.
    fn is_mine(&self) -> bool {
        // Relaxed: a thread finds its own identity only if it has stored it itself.
        self.writer.load(Ordering::Relaxed) == tls::identity()
    }

    fn set_writer(&self, identity: u64) {
        // Relaxed: as in `is_mine`.
        self.writer.store(identity, Ordering::Relaxed);
    }
}

impl<L: RawRwLock<Native>> OnLock<L> {
    const LIES_INSIDE: bool = fits_in_place(size_of::<L>(), false);

    fn inside(rwlock: &RwLock) -> &L {
        // SAFETY: the body of an rwlock of the chosen lock type, which all of the process have; zero is a free lock.
        unsafe { &*rwlock.body.get().cast() }
    }

    fn outside(rwlock: &RwLock) -> &Word<L> {
        // SAFETY: as in `inside`; zero is no lock yet.
        unsafe { &*rwlock.body.get().cast() }
    }

    /// The lock; the rwlock gets one if it has none.
    #[inline(always)]
    fn lock_of(rwlock: &RwLock) -> &L {
        const { assert!(align_of::<L>() <= if Self::LIES_INSIDE { 8 } else { 64 }) };
        if Self::LIES_INSIDE {
            return Self::inside(rwlock);
        }
        let word = Self::outside(rwlock);
        word.get()
            .unwrap_or_else(|| RWLOCKS.provide(word, |lock| lock.is_free() && lock.is_quiet(), || rwlock.set_writer(0)))
    }

    /// The rwlock and its lock, of the current generation, or nothing if it is glibc's.
    ///
    /// # Safety
    /// `rwlock` is the program's.
    #[inline]
    unsafe fn adopt<'a>(rwlock: *mut pthread_rwlock_t) -> Option<(&'a RwLock, &'a L)> {
        // SAFETY: as for this call.
        let ours = unsafe { RwLock::of(rwlock) };
        // Relaxed: set by glibc when the object was made.
        if ours.shared.load(Ordering::Relaxed) != 0 {
            return None;
        }
        // ORDER(adopt): Acquire pairs with the Release below.
        let mark = || ours.generation.load(Ordering::Acquire) as u8;
        if mark() != generation::current() {
            generation::adopt(mark, |is_new, current| {
                if is_new {
                    count(Counter::RwLock);
                }
                if Self::LIES_INSIDE {
                    Self::inside(ours).forget_waiters();
                } else {
                    // SAFETY: only the thread that adopts touches the rwlock.
                    unsafe { Self::outside(ours).renew(|lock| (*lock).forget_waiters()) };
                }
                // ORDER(adopt): Release pairs with the Acquire of everybody's first look.
                ours.generation.store(current as u32, Ordering::Release);
            });
        }
        Some((ours, Self::lock_of(ours)))
    }

    /// # Safety
    /// `rwlock` is the program's.
    unsafe fn read(ours: &RwLock, lock: &L, deadline: Option<Deadline>) -> c_int {
        if ours.is_mine() {
            return libc::EDEADLK;
        }
        if lock.read(ours.preference(), deadline) {
            0
        } else {
            libc::ETIMEDOUT
        }
    }

    /// # Safety
    /// `rwlock` is the program's.
    unsafe fn write(ours: &RwLock, lock: &L, deadline: Option<Deadline>) -> c_int {
        if ours.is_mine() {
            return libc::EDEADLK;
        }
        if !lock.write(deadline) {
            return libc::ETIMEDOUT;
        }
        ours.set_writer(tls::identity());
        0
    }

    unsafe extern "C-unwind" fn rdlock(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock.
        unsafe {
            match Self::adopt(rwlock) {
                Some((ours, lock)) => Self::read(ours, lock, None),
                None => REAL.pthread_rwlock_rdlock.get()(rwlock),
            }
        }
    }

    unsafe extern "C-unwind" fn wrlock(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock.
        unsafe {
            match Self::adopt(rwlock) {
                Some((ours, lock)) => Self::write(ours, lock, None),
                None => REAL.pthread_rwlock_wrlock.get()(rwlock),
            }
        }
    }

    unsafe extern "C-unwind" fn tryrdlock(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock.
        unsafe {
            match Self::adopt(rwlock) {
                Some((ours, lock)) if lock.try_read(ours.preference()) => 0,
                Some(_) => libc::EBUSY,
                None => REAL.pthread_rwlock_tryrdlock.get()(rwlock),
            }
        }
    }

    unsafe extern "C-unwind" fn trywrlock(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock.
        unsafe {
            match Self::adopt(rwlock) {
                Some((ours, lock)) if lock.try_write() => {
                    ours.set_writer(tls::identity());
                    0
                }
                Some(_) => libc::EBUSY,
                None => REAL.pthread_rwlock_trywrlock.get()(rwlock),
            }
        }
    }

    /// Runs `acquire` with a deadline; the error of a bad deadline comes first. Nothing if the rwlock is glibc's.
    ///
    /// # Safety
    /// `rwlock` is the program's.
    unsafe fn until(
        rwlock: *mut pthread_rwlock_t,
        deadline: Result<Deadline, c_int>,
        acquire: unsafe fn(&RwLock, &L, Option<Deadline>) -> c_int,
    ) -> Option<c_int> {
        // SAFETY: as for this call.
        unsafe {
            let (ours, lock) = Self::adopt(rwlock)?;
            Some(match deadline {
                Ok(deadline) => acquire(ours, lock, Some(deadline)),
                Err(error) => error,
            })
        }
    }

    unsafe extern "C-unwind" fn timedrdlock(rwlock: *mut pthread_rwlock_t, abstime: *const timespec) -> c_int {
        // SAFETY: the program's rwlock and time.
        unsafe {
            let deadline = deadline::deadline(Clock::Realtime, abstime);
            Self::until(rwlock, deadline, Self::read)
                .unwrap_or_else(|| REAL.pthread_rwlock_timedrdlock.get()(rwlock, abstime))
        }
    }

    unsafe extern "C-unwind" fn timedwrlock(rwlock: *mut pthread_rwlock_t, abstime: *const timespec) -> c_int {
        // SAFETY: the program's rwlock and time.
        unsafe {
            let deadline = deadline::deadline(Clock::Realtime, abstime);
            Self::until(rwlock, deadline, Self::write)
                .unwrap_or_else(|| REAL.pthread_rwlock_timedwrlock.get()(rwlock, abstime))
        }
    }

    unsafe extern "C-unwind" fn clockrdlock(
        rwlock: *mut pthread_rwlock_t,
        clock: clockid_t,
        abstime: *const timespec,
    ) -> c_int {
        // SAFETY: the program's rwlock and time.
        unsafe {
            let deadline = deadline::clock(clock).and_then(|clock| deadline::deadline(clock, abstime));
            Self::until(rwlock, deadline, Self::read)
                .unwrap_or_else(|| REAL.pthread_rwlock_clockrdlock.get()(rwlock, clock, abstime))
        }
    }

    unsafe extern "C-unwind" fn clockwrlock(
        rwlock: *mut pthread_rwlock_t,
        clock: clockid_t,
        abstime: *const timespec,
    ) -> c_int {
        // SAFETY: the program's rwlock and time.
        unsafe {
            let deadline = deadline::clock(clock).and_then(|clock| deadline::deadline(clock, abstime));
            Self::until(rwlock, deadline, Self::write)
                .unwrap_or_else(|| REAL.pthread_rwlock_clockwrlock.get()(rwlock, clock, abstime))
        }
    }

    /// `pthread_rwlock_unlock`; a lock that is not held stays as it is.
    unsafe extern "C-unwind" fn unlock(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock, released in the mode in which it is held.
        unsafe {
            let Some((ours, lock)) = Self::adopt(rwlock) else {
                return REAL.pthread_rwlock_unlock.get()(rwlock);
            };
            let preference = ours.preference();
            if lock.is_write_locked() {
                ours.set_writer(0);
                lock.unlock_write(preference);
            } else if !lock.is_free() {
                lock.unlock_read(preference);
            }
            0
        }
    }

    unsafe extern "C-unwind" fn init(rwlock: *mut pthread_rwlock_t, attr: *const pthread_rwlockattr_t) -> c_int {
        // SAFETY: the program's memory; glibc writes zero but for the two fields that it takes from the attribute.
        unsafe {
            let result = REAL.pthread_rwlock_init.get()(rwlock, attr);
            if result != 0 {
                return result;
            }
            let ours = RwLock::of(rwlock);
            // Relaxed: nobody else may use the rwlock before this returns.
            if ours.shared.load(Ordering::Relaxed) != 0 {
                count(Counter::Pshared);
            } else {
                ours.generation.store(generation::current() as u32, Ordering::Relaxed);
                count(Counter::RwLock);
            }
            0
        }
    }

    unsafe extern "C-unwind" fn destroy(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock.
        unsafe {
            let ours = RwLock::of(rwlock);
            // Relaxed: as in `adopt`.
            if ours.shared.load(Ordering::Relaxed) != 0 {
                return REAL.pthread_rwlock_destroy.get()(rwlock);
            }
            if !Self::LIES_INSIDE {
                RWLOCKS.give_back(Self::outside(ours));
            }
            0
        }
    }
}

/// Makes rwlocks run on the lock `L`.
pub fn install<L: RawRwLock<Native>>() {
    ACTIVE.pthread_rwlock_init.set(OnLock::<L>::init);
    ACTIVE.pthread_rwlock_destroy.set(OnLock::<L>::destroy);
    ACTIVE.pthread_rwlock_rdlock.set(OnLock::<L>::rdlock);
    ACTIVE.pthread_rwlock_tryrdlock.set(OnLock::<L>::tryrdlock);
    ACTIVE.pthread_rwlock_timedrdlock.set(OnLock::<L>::timedrdlock);
    ACTIVE.pthread_rwlock_clockrdlock.set(OnLock::<L>::clockrdlock);
    ACTIVE.pthread_rwlock_wrlock.set(OnLock::<L>::wrlock);
    ACTIVE.pthread_rwlock_trywrlock.set(OnLock::<L>::trywrlock);
    ACTIVE.pthread_rwlock_timedwrlock.set(OnLock::<L>::timedwrlock);
    ACTIVE.pthread_rwlock_clockwrlock.set(OnLock::<L>::clockwrlock);
    ACTIVE.pthread_rwlock_unlock.set(OnLock::<L>::unlock);
}
