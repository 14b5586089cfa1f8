//! The lock functions as they are: each returns its code.

use crate::pthread::{Cond, Mutex, RwLock, Spin};
use libc::{c_int, clockid_t, timespec};

unsafe extern "C-unwind" {
    fn pthread_mutex_clocklock(mutex: *mut libc::pthread_mutex_t, clock: clockid_t, at: *const timespec) -> c_int;
    fn pthread_cond_clockwait(
        cond: *mut libc::pthread_cond_t,
        mutex: *mut libc::pthread_mutex_t,
        clock: clockid_t,
        at: *const timespec,
    ) -> c_int;
    fn pthread_rwlock_timedrdlock(lock: *mut libc::pthread_rwlock_t, at: *const timespec) -> c_int;
    fn pthread_rwlock_timedwrlock(lock: *mut libc::pthread_rwlock_t, at: *const timespec) -> c_int;
    fn pthread_rwlock_clockrdlock(lock: *mut libc::pthread_rwlock_t, clock: clockid_t, at: *const timespec) -> c_int;
    fn pthread_rwlock_clockwrlock(lock: *mut libc::pthread_rwlock_t, clock: clockid_t, at: *const timespec) -> c_int;
}

/// A point on a clock.
#[derive(Clone, Copy)]
pub(super) struct Time {
    pub clock: clockid_t,
    pub at: timespec,
}

impl Time {
    /// `ns` from now, into the past if negative.
    pub fn after(clock: clockid_t, ns: i64) -> Self {
        let now = now(clock);
        let at = now.tv_nsec + ns;
        let (seconds, rest) = (at.div_euclid(1_000_000_000), at.rem_euclid(1_000_000_000));
        Self { clock, at: timespec { tv_sec: now.tv_sec + seconds, tv_nsec: rest } }
    }

    pub fn has_passed(&self) -> bool {
        let now = now(self.clock);
        (now.tv_sec, now.tv_nsec) >= (self.at.tv_sec, self.at.tv_nsec)
    }
}

fn now(clock: clockid_t) -> timespec {
    let mut now = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time to our variable; both clocks in use always exist.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now
}

macro_rules! calls {
    ($(fn $name:ident($object:ident: $type:ty $(, $argument:ident: $argument_type:ty)*) = $call:expr;)*) => {
        $(pub(super) fn $name($object: &$type $(, $argument: $argument_type)*) -> c_int {
            // SAFETY: the objects are initialised and pinned, and all pointers are valid during the call. What a
            // function makes of its use at the wrong moment is a code, and part of what is tested.
            unsafe { $call }
        })*
    };
}

calls! {
    fn lock(mutex: Mutex) = libc::pthread_mutex_lock(mutex.raw());
    fn try_lock(mutex: Mutex) = libc::pthread_mutex_trylock(mutex.raw());
    fn timed_lock(mutex: Mutex, time: Time) = libc::pthread_mutex_timedlock(mutex.raw(), &time.at);
    fn clock_lock(mutex: Mutex, time: Time) = pthread_mutex_clocklock(mutex.raw(), time.clock, &time.at);
    fn unlock(mutex: Mutex) = libc::pthread_mutex_unlock(mutex.raw());
    fn destroy(mutex: Mutex) = libc::pthread_mutex_destroy(mutex.raw());
    fn wait(cond: Cond, mutex: &Mutex) = libc::pthread_cond_wait(cond.raw(), mutex.raw());
    fn timed_wait(cond: Cond, mutex: &Mutex, time: Time) =
        libc::pthread_cond_timedwait(cond.raw(), mutex.raw(), &time.at);
    fn clock_wait(cond: Cond, mutex: &Mutex, time: Time) =
        pthread_cond_clockwait(cond.raw(), mutex.raw(), time.clock, &time.at);
    fn signal(cond: Cond) = libc::pthread_cond_signal(cond.raw());
    fn broadcast(cond: Cond) = libc::pthread_cond_broadcast(cond.raw());
    fn read(lock: RwLock) = libc::pthread_rwlock_rdlock(lock.raw());
    fn try_read(lock: RwLock) = libc::pthread_rwlock_tryrdlock(lock.raw());
    fn timed_read(lock: RwLock, time: Time) = pthread_rwlock_timedrdlock(lock.raw(), &time.at);
    fn clock_read(lock: RwLock, time: Time) = pthread_rwlock_clockrdlock(lock.raw(), time.clock, &time.at);
    fn write(lock: RwLock) = libc::pthread_rwlock_wrlock(lock.raw());
    fn try_write(lock: RwLock) = libc::pthread_rwlock_trywrlock(lock.raw());
    fn timed_write(lock: RwLock, time: Time) = pthread_rwlock_timedwrlock(lock.raw(), &time.at);
    fn clock_write(lock: RwLock, time: Time) = pthread_rwlock_clockwrlock(lock.raw(), time.clock, &time.at);
    fn rw_unlock(lock: RwLock) = libc::pthread_rwlock_unlock(lock.raw());
    fn spin_lock(lock: Spin) = libc::pthread_spin_lock(lock.raw());
    fn spin_try_lock(lock: Spin) = libc::pthread_spin_trylock(lock.raw());
    fn spin_unlock(lock: Spin) = libc::pthread_spin_unlock(lock.raw());
}

/// What a code means, for messages.
pub(super) fn describe(code: c_int) -> String {
    match code {
        0 => "0".into(),
        libc::EBUSY => "EBUSY".into(),
        libc::EINVAL => "EINVAL".into(),
        libc::ETIMEDOUT => "ETIMEDOUT".into(),
        libc::EDEADLK => "EDEADLK".into(),
        libc::EPERM => "EPERM".into(),
        libc::EAGAIN => "EAGAIN".into(),
        libc::EINTR => "EINTR".into(),
        code => format!("code {code}"),
    }
}

/// Writes `message` to standard error and ends the process, whatever the other threads do.
pub(super) fn fail(message: &str) -> ! {
    let line = format!("torture: {message}\n");
    // SAFETY: writes initialised bytes of ours; `_exit` runs no handlers, so that nothing can hang on a broken lock.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        libc::_exit(super::FAILED)
    }
}
