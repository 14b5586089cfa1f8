//! A wait on a condition variable, of ours or of glibc's, with a mutex of ours or of glibc's.

use super::waiter::{Until, Waiter, ASLEEP, SPINNING};
use super::Cond;
use crate::cancel::{self, Cleanup};
use crate::functions::REAL;
use crate::mutex::{self, Held};
use core::ffi::{c_int, c_void};
use libc::{pthread_cond_t, pthread_mutex_t, timespec};
use lockswap_platform::{Clock, Deadline, Native, Platform};

/// What a cancelled waiter has to put right.
struct Cancelled<'a> {
    waiter: Option<(&'a Cond, &'a Waiter)>,
    mutex: *mut pthread_mutex_t,
    held: Held,
}

/// Runs in a thread that was cancelled while it slept, before the program's own handlers.
extern "C-unwind" fn cancelled(argument: *mut c_void) {
    // SAFETY: the argument given to `cancel::push`, in a frame that is still there.
    unsafe {
        let Cancelled { waiter, mutex, held } = &*argument.cast::<Cancelled>();
        if let Some((cond, waiter)) = waiter {
            cond.abandon(waiter, ASLEEP);
        }
        mutex::reacquire_after_wait(*mutex, *held);
    }
}

/// # Safety
/// `mutex` and the times in `until` are the program's.
unsafe extern "C-unwind" fn wait_until(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, until: Until) -> c_int {
    // SAFETY: as for this call.
    unsafe {
        let ours = Cond::of(cond);
        cancel::test();
        if let Err(error) = mutex::begin_wait(mutex) {
            return error;
        }
        let waiter = Waiter::new();
        ours.insert(&waiter);
        let held = match mutex::release_for_wait(mutex) {
            Ok(held) => held,
            Err(error) => {
                ours.abandon(&waiter, SPINNING);
                return error;
            }
        };
        let mut result = 0;
        let mut slept = false;
        if !waiter.spin() && waiter.advance(SPINNING, ASLEEP).is_ok() {
            let mut frame = Cancelled { waiter: Some((ours, &waiter)), mutex, held };
            let mut cleanup = Cleanup::uninit();
            cancel::push(&mut cleanup, cancelled, (&raw mut frame).cast());
            let posted = waiter.sleep(until);
            cancel::pop(&mut cleanup);
            slept = true;
            waiter.learn_from_sleep(posted);
            if !posted && ours.leave(&waiter, ASLEEP).is_none() {
                result = libc::ETIMEDOUT;
            }
        }
        if slept {
            mutex::let_holder_finish(mutex);
        }
        match mutex::reacquire_after_wait(mutex, held) {
            0 => result,
            error => error,
        }
    }
}

/// Waits on a condition variable of glibc's with a mutex of ours, which glibc cannot release: sleeps for a short while
/// on a mutex of glibc's instead, and calls that a spurious wake-up. A wake-up that comes before the sleep begins is
/// late by that while, not lost.
///
/// # Safety
/// As for [`wait_until`].
unsafe extern "C-unwind" fn wait_foreign(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: Until,
) -> c_int {
    const SLICE_NS: u64 = 2_000_000;
    // SAFETY: as for this call; the helper mutex is glibc's and only this thread uses it.
    unsafe {
        let clock = if until.clock == libc::CLOCK_REALTIME { Clock::Realtime } else { Clock::Monotonic };
        let end = match until.abstime.as_ref() {
            None => u64::MAX,
            Some(time) => Deadline::new(clock, time.tv_sec, time.tv_nsec as u32).at,
        };
        cancel::test();
        if let Err(error) = mutex::begin_wait(mutex) {
            return error;
        }
        let held = match mutex::release_for_wait(mutex) {
            Ok(held) => held,
            Err(error) => return error,
        };
        let mut frame = Cancelled { waiter: None, mutex, held };
        let mut cleanup = Cleanup::uninit();
        cancel::push(&mut cleanup, cancelled, (&raw mut frame).cast());
        let mut helper: pthread_mutex_t = core::mem::zeroed();
        REAL.pthread_mutex_lock.get()(&mut helper);
        let slice_end = end.min(Native::now(clock) + SLICE_NS);
        let abstime =
            timespec { tv_sec: (slice_end / 1_000_000_000) as i64, tv_nsec: (slice_end % 1_000_000_000) as i64 };
        REAL.pthread_cond_clockwait.get()(cond, &mut helper, until.clock, &abstime);
        REAL.pthread_mutex_unlock.get()(&mut helper);
        cancel::pop(&mut cleanup);
        let result = if Native::now(clock) >= end { libc::ETIMEDOUT } else { 0 };
        match mutex::reacquire_after_wait(mutex, held) {
            0 => result,
            error => error,
        }
    }
}

/// Waits on either kind of condition variable.
///
/// # Safety
/// All arguments are the program's.
pub unsafe extern "C-unwind" fn wait_any(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    until: Until,
) -> c_int {
    // SAFETY: as for this call.
    unsafe {
        let is_ours = Cond::of(cond).adopt();
        if !is_ours && mutex::is_glibcs(mutex) {
            return if until.abstime.is_null() {
                REAL.pthread_cond_wait.get()(cond, mutex)
            } else {
                REAL.pthread_cond_clockwait.get()(cond, mutex, until.clock, until.abstime)
            };
        }
        // A thread must not vanish while it is in a list or a queue, except where it sleeps.
        let deferred = cancel::defer();
        let result = if is_ours { wait_until(cond, mutex, until) } else { wait_foreign(cond, mutex, until) };
        cancel::undo_defer(deferred);
        result
    }
}
