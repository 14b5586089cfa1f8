//! The functions for all other mutexes and all other calls: kinds that know their owner, mutexes of another
//! generation, time-outs, glibc's mutexes, beginning and end.

use super::choose::{self, Choice};
use super::{word_of, Mutex, ADAPTIVE, DESTROYED, GLIBCS, KIND, NORMAL};
use crate::counters::count;
use crate::functions::{Entry, REAL};
use crate::{cancel, deadline, pool};
use core::ffi::c_int;
use core::sync::atomic::Ordering;
use libc::{clockid_t, pthread_mutex_t, pthread_mutexattr_t, timespec};
use lockswap_platform::Clock;
use lockswap_records::counters::Counter;

/// Calls glibc's function on a mutex that is glibc's, as a jump: none of these functions is a cancellation point, and
/// an asynchronous cancellation finds its way by the unwind tables.
#[inline(always)]
pub fn pass_on(real: &Entry<unsafe extern "C-unwind" fn(*mut pthread_mutex_t) -> c_int>, mutex: &Mutex) -> c_int {
    // SAFETY: the same function; glibc's own mutex.
    unsafe {
        let real: unsafe extern "C" fn(*mut pthread_mutex_t) -> c_int = core::mem::transmute(real.get());
        real(mutex.as_ptr())
    }
}

/// Runs `body` while the calling thread cannot be cancelled at any instruction, and tells it whether it could before.
fn deferred<R>(body: impl FnOnce(bool) -> R) -> R {
    let asynchronous = cancel::defer();
    let result = body(asynchronous);
    cancel::undo_defer(asynchronous);
    result
}

#[inline(never)]
pub extern "C" fn lock(mutex: &Mutex) -> c_int {
    if !mutex.adopt() {
        return pass_on(&REAL.pthread_mutex_lock, mutex);
    }
    deferred(|asynchronous| {
        if let Some(result) = mutex.relock(libc::EDEADLK) {
            return result;
        }
        // SAFETY: the mutex is ours.
        unsafe { mutex.wait(asynchronous) };
        mutex.remember_owner();
        0
    })
}

#[inline(never)]
pub extern "C" fn trylock(mutex: &Mutex) -> c_int {
    if !mutex.adopt() {
        return pass_on(&REAL.pthread_mutex_trylock, mutex);
    }
    deferred(|_| {
        if let Some(result) = mutex.relock(libc::EBUSY) {
            return result;
        }
        // SAFETY: the mutex is ours.
        if unsafe { !(mutex.ops().try_acquire)(mutex) } {
            return libc::EBUSY;
        }
        mutex.remember_owner();
        0
    })
}

#[inline(never)]
pub extern "C" fn unlock(mutex: &Mutex) -> c_int {
    if !mutex.adopt() {
        return pass_on(&REAL.pthread_mutex_unlock, mutex);
    }
    deferred(|_| {
        if !mutex.may_release() {
            return libc::EPERM;
        }
        // Relaxed: the holder's own.
        let depth = mutex.depth.load(Ordering::Relaxed);
        if depth > 0 {
            mutex.depth.store(depth - 1, Ordering::Relaxed);
            return 0;
        }
        mutex.owner.store(0, Ordering::Relaxed);
        // SAFETY: the mutex is ours, and released only if it is held.
        unsafe {
            if (mutex.ops().is_held)(mutex) {
                mutex.release();
            }
        }
        0
    })
}

/// # Safety
/// `mutex` is a mutex of ours and `abstime` points at the program's timespec.
unsafe fn lock_until(mutex: &Mutex, clock: Clock, abstime: *const timespec) -> c_int {
    deferred(|asynchronous| {
        if let Some(result) = mutex.relock(libc::EDEADLK) {
            return result;
        }
        // SAFETY: the mutex is ours. The time is looked at only if there is something to wait for.
        unsafe {
            if !(mutex.ops().try_acquire)(mutex) {
                match deadline::deadline(clock, abstime) {
                    Err(error) => return error,
                    Ok(deadline) if !mutex.wait_until(deadline, asynchronous) => return libc::ETIMEDOUT,
                    Ok(_) => {}
                }
            }
        }
        mutex.remember_owner();
        0
    })
}

pub unsafe extern "C-unwind" fn timedlock(mutex: *mut pthread_mutex_t, abstime: *const timespec) -> c_int {
    // SAFETY: the program's mutex and time.
    unsafe {
        let ours = Mutex::of(mutex);
        if !ours.adopt() {
            return REAL.pthread_mutex_timedlock.get()(mutex, abstime);
        }
        lock_until(ours, Clock::Realtime, abstime)
    }
}

pub unsafe extern "C-unwind" fn clocklock(
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    abstime: *const timespec,
) -> c_int {
    // SAFETY: the program's mutex and time.
    unsafe {
        let ours = Mutex::of(mutex);
        if !ours.adopt() {
            return REAL.pthread_mutex_clocklock.get()(mutex, clock, abstime);
        }
        match deadline::clock(clock) {
            Ok(clock) => lock_until(ours, clock, abstime),
            Err(error) => error,
        }
    }
}

pub unsafe extern "C-unwind" fn init(mutex: *mut pthread_mutex_t, attr: *const pthread_mutexattr_t) -> c_int {
    // SAFETY: the program's memory; glibc reads the attribute and leaves the kind where it keeps it.
    unsafe {
        let result = REAL.pthread_mutex_init.get()(mutex, attr);
        if result != 0 {
            return result;
        }
        pool::abandon(Some(mutex.addr()));
        let ours = Mutex::of(mutex);
        let kind = ours.kind();
        if let Some((_, reason, _)) = GLIBCS.iter().find(|(flag, ..)| kind & flag != 0) {
            count(*reason);
            return 0;
        }
        let number = match choose::choice(ours) {
            Choice::Numbered(number) => number,
            Choice::Glibcs { adaptive } => {
                choose::keep(ours, adaptive);
                return 0;
            }
        };
        mutex.cast::<u8>().write_bytes(0, size_of::<pthread_mutex_t>());
        let kind = if kind & KIND == ADAPTIVE { NORMAL } else { kind & KIND };
        // Relaxed: nobody else may use the mutex before this returns.
        ours.word.store(word_of(kind, number), Ordering::Relaxed);
        count(Counter::Mutex);
        0
    }
}

pub unsafe extern "C-unwind" fn destroy(mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's mutex.
    unsafe {
        let ours = Mutex::of(mutex);
        if !ours.adopt() {
            return REAL.pthread_mutex_destroy.get()(mutex);
        }
        // Relaxed: nobody else may use the mutex any more; where somebody does, the answer is a courtesy.
        if (ours.ops().is_held)(ours) || ours.users.load(Ordering::Relaxed) != 0 {
            return libc::EBUSY;
        }
        (ours.ops().destroy)(ours);
        ours.word.store(DESTROYED as u64, Ordering::Relaxed);
        0
    }
}

/// What only robust and priority-protected mutexes have: everything else is refused, as glibc does.
macro_rules! only_glibc {
    ($(fn $function:ident = $real:ident(mutex: $mutex:ty $(, $arg:ident: $type:ty)*);)*) => {
        $(pub unsafe extern "C-unwind" fn $function(mutex: $mutex $(, $arg: $type)*) -> c_int {
            // SAFETY: the program's mutex.
            unsafe {
                if Mutex::of(mutex.cast_mut()).adopt() {
                    return libc::EINVAL;
                }
                REAL.$real.get()(mutex $(, $arg)*)
            }
        })*
    };
}

/// Lets the macro treat both kinds of pointer alike.
trait CastMut {
    fn cast_mut(self) -> *mut pthread_mutex_t;
}

impl CastMut for *mut pthread_mutex_t {
    fn cast_mut(self) -> *mut pthread_mutex_t {
        self
    }
}

only_glibc! {
    fn consistent = pthread_mutex_consistent(mutex: *mut pthread_mutex_t);
    fn getprioceiling = pthread_mutex_getprioceiling(mutex: *const pthread_mutex_t, ceiling: *mut c_int);
    fn setprioceiling =
        pthread_mutex_setprioceiling(mutex: *mut pthread_mutex_t, ceiling: c_int, old: *mut c_int);
}
