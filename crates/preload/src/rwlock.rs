//! `pthread_rwlock_t` on a lock of ours.
//!
//!   bytes  0..16  the lock, or its address if it is too large (see `crate::outside`)
//!                 or IN_PLACE if it lies in 32..48
//!         16..24  the identity of the writer inside
//!         24..28  the generation (see `crate::generation`)
//!         28..32  process-shared, where glibc keeps it
//!         32..48  a small lock of ours, where there was no memory for the chosen one
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
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use libc::{clockid_t, pthread_rwlock_t, pthread_rwlockattr_t, timespec};
use lockswap_locks::registry::fits_in_place;
use lockswap_locks::rw::rw_futex::RwFutex;
use lockswap_locks::{Preference, RawRwLock};
use lockswap_platform::{Clock, Deadline, Native};
use lockswap_records::counters::{Counter, Why};

#[repr(C)]
struct RwLock {
    body: UnsafeCell<[u64; 2]>,
    writer: AtomicU64,
    mark: AtomicU32,
    shared: AtomicU32,
    small: UnsafeCell<[u64; 2]>,
    kind: c_uint,
}

const _: () = assert!(size_of::<RwLock>() == size_of::<pthread_rwlock_t>());
const _: () = assert!(core::mem::offset_of!(RwLock, shared) == 28);
const _: () = assert!(core::mem::offset_of!(RwLock, kind) == 48);

/// The only kind that prefers writers: glibc treats PTHREAD_RWLOCK_PREFER_WRITER_NP as the default, because a thread
/// may read-lock again what it has read-locked.
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

    /// The lock of an rwlock that has no other, see [`crate::outside`].
    fn small_lock(&self) -> &RwFutex<Native> {
        const { assert!(size_of::<RwFutex<Native>>() <= size_of::<[u64; 2]>()) };
        // SAFETY: zero before its first use: a free lock.
        unsafe { &*self.small.get().cast() }
    }
}

/// Who answers a call on the rwlock.
///
/// # Safety
/// `rwlock` is the program's.
pub unsafe fn who_answers(rwlock: *mut pthread_rwlock_t) -> Why {
    // SAFETY: as for this call. Relaxed: as in `adopt`.
    if unsafe { RwLock::of(rwlock) }.shared.load(Ordering::Relaxed) != 0 {
        Why::Pshared
    } else if ARE_REPLACED.load(Ordering::Relaxed) {
        Why::Ours
    } else {
        Why::Chosen
    }
}

/// Whether rwlocks run on the chosen lock. Relaxed: set while the process has one thread.
static ARE_REPLACED: AtomicBool = AtomicBool::new(false);

/// Whether `object`, which glibc has made, has what it was made with where we look.
pub fn looks_like(object: &pthread_rwlock_t, shared: bool, kind: c_int) -> bool {
    // SAFETY: an initialised rwlock.
    let found = unsafe { RwLock::of(core::ptr::from_ref(object).cast_mut()) };
    (found.shared.load(Ordering::Relaxed) != 0) == shared && found.kind == kind as c_uint
}

/// What to do with a lock, whatever its type.
trait Use<R> {
    fn on<L: RawRwLock<Native>>(self, lock: &L) -> R;
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Read,
    Write,
}

/// How long an acquisition may take; a deadline that makes no sense is an error.
enum How {
    Wait,
    Try,
    Until(Result<Deadline, c_int>),
}

struct TryAcquire(Mode, Preference);

impl Use<bool> for TryAcquire {
    #[inline(always)]
    fn on<L: RawRwLock<Native>>(self, lock: &L) -> bool {
        match self.0 {
            Mode::Read => lock.try_read(self.1),
            Mode::Write => lock.try_write(),
        }
    }
}

struct Acquire(Mode, Preference, Option<Deadline>);

impl Use<bool> for Acquire {
    #[inline(always)]
    fn on<L: RawRwLock<Native>>(self, lock: &L) -> bool {
        match self.0 {
            Mode::Read => lock.read(self.1, self.2),
            Mode::Write => lock.write(self.2),
        }
    }
}

struct Release<'a>(&'a RwLock);

impl Use<()> for Release<'_> {
    #[inline(always)]
    fn on<L: RawRwLock<Native>>(self, lock: &L) {
        let preference = self.0.preference();
        // SAFETY: held in this mode, as far as a lock can tell.
        unsafe {
            if lock.is_write_locked() {
                self.0.set_writer(0);
                lock.unlock_write(preference);
            } else if !lock.is_free() {
                lock.unlock_read(preference);
            }
        }
    }
}

struct ForgetWaiters;

impl Use<()> for ForgetWaiters {
    fn on<L: RawRwLock<Native>>(self, lock: &L) {
        lock.forget_waiters();
    }
}

/// An rwlock whose lock is of the type `L`, as one that carries a mark.
struct Marked<'a, L>(&'a RwLock, PhantomData<L>);

impl<L: RawRwLock<Native>> generation::Object for Marked<'_, L> {
    fn mark(&self) -> u32 {
        // ORDER(adopt): Acquire pairs with the Release in `replace_mark`.
        self.0.mark.load(Ordering::Acquire)
    }

    fn replace_mark(&self, old: u32, new: u32) -> bool {
        // ORDER(adopt): Release pairs with the Acquire of everybody's first look.
        self.0.mark.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    fn count(&self) {
        count(Counter::RwLock);
    }

    fn is_held(&self) -> bool {
        false
    }

    /// Who holds the lock is part of its state, which its own repair keeps.
    unsafe fn forget_waiters(&self, _held: bool) {
        if OnLock::<L>::LIES_INSIDE {
            OnLock::<L>::with_lock(self.0, ForgetWaiters);
        } else if OnLock::<L>::outside(self.0).is_in_place() {
            self.0.small_lock().forget_waiters();
        } else {
            // SAFETY: as for this call.
            unsafe { OnLock::<L>::outside(self.0).renew(|lock| (*lock).forget_waiters()) };
        }
    }
}

impl<L: RawRwLock<Native>> OnLock<L> {
    const LIES_INSIDE: bool = fits_in_place(size_of::<L>(), false);

    fn outside(rwlock: &RwLock) -> &Word<L> {
        // SAFETY: the body of an rwlock of the chosen lock type, which all of the process have; zero is no lock yet.
        unsafe { &*rwlock.body.get().cast() }
    }

    /// The lock, if the rwlock has one already that is of the chosen type.
    #[inline(always)]
    fn existing(rwlock: &RwLock) -> Option<&L> {
        const { assert!(align_of::<L>() <= if Self::LIES_INSIDE { 8 } else { 64 }) };
        if Self::LIES_INSIDE {
            // SAFETY: as in `outside`; zero is a free lock.
            return Some(unsafe { &*rwlock.body.get().cast() });
        }
        Self::outside(rwlock).get()
    }

    /// Runs `f` on the lock, which the rwlock gets if it has none.
    #[inline(always)]
    fn with_lock<R>(rwlock: &RwLock, f: impl Use<R>) -> R {
        let new = || {
            let is_idle = |lock: &L| lock.is_free() && lock.is_quiet();
            RWLOCKS.provide(Self::outside(rwlock), is_idle, || rwlock.set_writer(0))
        };
        match Self::existing(rwlock).or_else(new) {
            Some(lock) => f.on(lock),
            None => f.on(rwlock.small_lock()),
        }
    }

    /// The rwlock, of the current generation, or nothing if it is glibc's.
    ///
    /// # Safety
    /// `rwlock` is the program's.
    #[inline]
    unsafe fn adopt<'a>(rwlock: *mut pthread_rwlock_t) -> Option<&'a RwLock> {
        // SAFETY: as for this call.
        let ours = unsafe { RwLock::of(rwlock) };
        // Relaxed: set by glibc when the object was made.
        if ours.shared.load(Ordering::Relaxed) != 0 {
            return None;
        }
        // ORDER(adopt): Acquire pairs with the Release in `replace_mark`.
        if ours.mark.load(Ordering::Acquire) != generation::mark() {
            generation::adopt(&Marked::<L>(ours, PhantomData));
        }
        Some(ours)
    }

    /// The rwlock and its lock, if that may act at once and the rwlock, of the current generation, has one already.
    ///
    /// # Safety
    /// `rwlock` is the program's.
    #[inline(always)]
    unsafe fn at_hand<'a>(rwlock: *mut pthread_rwlock_t) -> Option<(&'a RwLock, &'a L)> {
        // SAFETY: as for this call.
        let ours = unsafe { RwLock::of(rwlock) };
        // Relaxed, and ORDER(adopt): as in `adopt`.
        if !L::ACTS_AT_ONCE
            || ours.shared.load(Ordering::Relaxed) != 0
            || ours.mark.load(Ordering::Acquire) != generation::mark()
        {
            return None;
        }
        Some((ours, Self::existing(ours)?))
    }

    /// Acquires the rwlock in one mode, unless it is glibc's: nothing then.
    ///
    /// # Safety
    /// `rwlock` is the program's.
    #[inline(always)]
    unsafe fn acquire(rwlock: *mut pthread_rwlock_t, mode: Mode, how: How) -> Option<c_int> {
        // SAFETY: as for this call.
        let ours = unsafe { Self::adopt(rwlock) }?;
        let deadline = match how {
            How::Try => {
                let acquired = Self::with_lock(ours, TryAcquire(mode, ours.preference()));
                if acquired && mode == Mode::Write {
                    ours.set_writer(tls::identity());
                }
                return Some(if acquired { 0 } else { libc::EBUSY });
            }
            How::Wait => None,
            How::Until(Err(error)) => return Some(error),
            How::Until(Ok(deadline)) => Some(deadline),
        };
        if ours.is_mine() {
            return Some(libc::EDEADLK);
        }
        if !Self::with_lock(ours, Acquire(mode, ours.preference(), deadline)) {
            return Some(libc::ETIMEDOUT);
        }
        if mode == Mode::Write {
            ours.set_writer(tls::identity());
        }
        Some(0)
    }

    // The three functions that programs call most have no stack frame: what takes more than a few instructions is a
    // jump away. Who holds the lock itself does not get it at once.

    unsafe extern "C-unwind" fn rdlock(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock.
        unsafe {
            match Self::at_hand(rwlock) {
                Some((_, lock)) if lock.read_at_once() => 0,
                _ => Self::rdlock_slowly(rwlock),
            }
        }
    }

    #[inline(never)]
    unsafe extern "C" fn rdlock_slowly(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock.
        unsafe {
            Self::acquire(rwlock, Mode::Read, How::Wait).unwrap_or_else(|| REAL.pthread_rwlock_rdlock.get()(rwlock))
        }
    }

    unsafe extern "C-unwind" fn wrlock(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock.
        unsafe {
            match Self::at_hand(rwlock) {
                Some((ours, lock)) if lock.write_at_once() => {
                    ours.set_writer(tls::identity());
                    0
                }
                _ => Self::wrlock_slowly(rwlock),
            }
        }
    }

    #[inline(never)]
    unsafe extern "C" fn wrlock_slowly(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock.
        unsafe {
            Self::acquire(rwlock, Mode::Write, How::Wait).unwrap_or_else(|| REAL.pthread_rwlock_wrlock.get()(rwlock))
        }
    }

    unsafe extern "C-unwind" fn tryrdlock(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock.
        unsafe {
            Self::acquire(rwlock, Mode::Read, How::Try).unwrap_or_else(|| REAL.pthread_rwlock_tryrdlock.get()(rwlock))
        }
    }

    unsafe extern "C-unwind" fn trywrlock(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock.
        unsafe {
            Self::acquire(rwlock, Mode::Write, How::Try).unwrap_or_else(|| REAL.pthread_rwlock_trywrlock.get()(rwlock))
        }
    }

    unsafe extern "C-unwind" fn timedrdlock(rwlock: *mut pthread_rwlock_t, abstime: *const timespec) -> c_int {
        // SAFETY: the program's rwlock and time.
        unsafe {
            let until = How::Until(deadline::deadline(Clock::Realtime, abstime));
            Self::acquire(rwlock, Mode::Read, until)
                .unwrap_or_else(|| REAL.pthread_rwlock_timedrdlock.get()(rwlock, abstime))
        }
    }

    unsafe extern "C-unwind" fn timedwrlock(rwlock: *mut pthread_rwlock_t, abstime: *const timespec) -> c_int {
        // SAFETY: the program's rwlock and time.
        unsafe {
            let until = How::Until(deadline::deadline(Clock::Realtime, abstime));
            Self::acquire(rwlock, Mode::Write, until)
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
            let until = How::Until(deadline::clock(clock).and_then(|clock| deadline::deadline(clock, abstime)));
            Self::acquire(rwlock, Mode::Read, until)
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
            let until = How::Until(deadline::clock(clock).and_then(|clock| deadline::deadline(clock, abstime)));
            Self::acquire(rwlock, Mode::Write, until)
                .unwrap_or_else(|| REAL.pthread_rwlock_clockwrlock.get()(rwlock, clock, abstime))
        }
    }

    /// `pthread_rwlock_unlock`; a lock that is not held stays as it is.
    unsafe extern "C-unwind" fn unlock(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock, released in the mode in which it is held.
        unsafe {
            let released = Self::at_hand(rwlock).is_some_and(|(ours, lock)| {
                if lock.is_write_locked() {
                    ours.set_writer(0);
                    lock.unlock_write_at_once()
                } else {
                    lock.unlock_read_at_once()
                }
            });
            if released {
                0
            } else {
                Self::unlock_slowly(rwlock)
            }
        }
    }

    #[inline(never)]
    unsafe extern "C" fn unlock_slowly(rwlock: *mut pthread_rwlock_t) -> c_int {
        // SAFETY: the program's rwlock, released in the mode in which it is held.
        unsafe {
            match Self::adopt(rwlock) {
                Some(ours) => Self::with_lock(ours, Release(ours)),
                None => return REAL.pthread_rwlock_unlock.get()(rwlock),
            }
        }
        0
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
                ours.mark.store(generation::mark(), Ordering::Relaxed);
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
    ARE_REPLACED.store(true, Ordering::Relaxed);
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
