//! One waiter, on its own stack.
//!
//! A waiter spins as long as that pays off, then sleeps in glibc's `sem_wait`, which makes it cancellable the way
//! glibc does it. A waiter that was woken does not touch the condition variable again, so that it may be destroyed
//! right after a broadcast.
//!
//! | state     | meaning                                              | set by                    |
//! |-----------|------------------------------------------------------|---------------------------|
//! | SPINNING  | in the list                                          | the waiter                |
//! | ASLEEP    | in the list; whoever wakes it posts the semaphore    | the waiter                |
//! | LEAVING   | in the list, which the waiter is about to leave      | the waiter                |
//! | SIGNALLED | out of the list, one wake-up received                | who signals, unless LEAVING |
//! | BROADCAST | out of the list, woken with all the others           | who broadcasts, unless LEAVING |

use crate::functions::REAL;
use crate::tls;
use core::cell::{Cell, UnsafeCell};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicU32, Ordering};
use libc::{clockid_t, sem_t, timespec};
use lockswap_locks::conditions::UNASKED;
use lockswap_platform::{Native, Ns, Platform};

pub const SPINNING: u32 = 0;
pub const ASLEEP: u32 = 1;
pub const LEAVING: u32 = 2;
pub const SIGNALLED: u32 = 3;
pub const BROADCAST: u32 = 4;

/// One waiter.
pub struct Waiter {
    pub next: Cell<*mut Waiter>,
    pub previous: Cell<*mut Waiter>,
    /// Its real-time priority; 0 if it has none.
    pub priority: u32,
    state: AtomicU32,
    /// When the wait began.
    began: Ns,
    /// When somebody woke the waiter, which was asleep.
    woken: Cell<Ns>,
    semaphore: UnsafeCell<sem_t>,
}

/// When a wait ends: at a time on a clock; never if the time is null.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Until {
    pub clock: clockid_t,
    pub abstime: *const timespec,
}

pub const NEVER: Until = Until { clock: libc::CLOCK_MONOTONIC, abstime: null() };

impl Waiter {
    pub fn new() -> Self {
        let waiter = Waiter {
            next: Cell::new(null_mut()),
            previous: Cell::new(null_mut()),
            priority: Native::real_time_priority(),
            state: AtomicU32::new(SPINNING),
            began: Native::instant(),
            woken: Cell::new(0),
            // SAFETY: a semaphore is plain data, initialised below.
            semaphore: unsafe { core::mem::zeroed() },
        };
        // SAFETY: the memory is this waiter's; glibc's semaphore may be moved until it is waited for.
        unsafe { libc::sem_init(waiter.semaphore.get(), 0, 0) };
        waiter
    }

    /// Spins for a time that has paid off before ([`lockswap_locks::conditions`]). Whether the waiter was woken.
    pub fn spin(&self) -> bool {
        let experience = &tls::thread().conditions;
        let end = self.began.saturating_add(experience.budget());
        let mut ask = self.began.saturating_add(UNASKED);
        let woken = Native::spin_map_bounded(u32::MAX, || {
            // ORDER(wake): Acquire pairs with the Release in `try_wake`: the waker looks at this waiter no more.
            if self.state.load(Ordering::Acquire) != SPINNING {
                return Some(true);
            }
            let mut now = Native::instant();
            if now >= ask && now < end {
                if Native::give_way() > 0 {
                    experience.was_in_the_way();
                    return Some(false);
                }
                now = Native::instant();
                ask = now.saturating_add(UNASKED);
            }
            (now >= end).then_some(false)
        });
        let is_woken = woken == Some(true);
        if is_woken {
            experience.was_woken(Native::instant().saturating_sub(self.began));
        }
        is_woken
    }

    /// Learns from a sleep, which somebody has ended or not.
    pub fn learn_from_sleep(&self, posted: bool) {
        let times = posted.then(|| {
            let woken = self.woken.get();
            (woken.saturating_sub(self.began), Native::instant().saturating_sub(woken))
        });
        tls::thread().conditions.has_slept(times);
    }

    /// Changes the state from `from` to `to`, unless the waiter has been woken, which it returns.
    pub fn advance(&self, from: u32, to: u32) -> Result<(), u32> {
        // ORDER(wake): as in `spin`. Relaxed on success: the list's lock or the semaphore orders what follows.
        self.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Acquire).map(|_| ())
    }

    /// Wakes the waiter with `how`. Returns its state before, or nothing if it is leaving.
    /// LAST: a waiter that was SPINNING may return after this.
    pub fn try_wake(&self, how: u32) -> Option<u32> {
        // ORDER(wake): Release pairs with the Acquires in `spin` and `advance`.
        let wake_unless_leaving = |state| (state != LEAVING).then_some(how);
        self.state.fetch_update(Ordering::Release, Ordering::Relaxed, wake_unless_leaving).ok()
    }

    /// Sleeps until the semaphore is posted, or returns `false` at the end of the wait. A cancellation point.
    ///
    /// # Safety
    /// The times in `until` are the program's.
    pub unsafe extern "C-unwind" fn sleep(&self, until: Until) -> bool {
        // SAFETY: the semaphore is initialised; errno belongs to this thread.
        unsafe {
            let errno = libc::__errno_location();
            let saved = *errno;
            loop {
                let result = if until.abstime.is_null() {
                    REAL.sem_wait.get()(self.semaphore.get())
                } else {
                    REAL.sem_clockwait.get()(self.semaphore.get(), until.clock, until.abstime)
                };
                let error = core::mem::replace(&mut *errno, saved);
                if result == 0 || error != libc::EINTR {
                    return result == 0;
                }
            }
        }
    }

    /// Lets the waiter, which is ASLEEP and was woken at `now`, go on. LAST: it may return after the post.
    pub fn post(&self, now: Ns) {
        self.woken.set(now);
        // SAFETY: the semaphore is initialised.
        unsafe { libc::sem_post(self.semaphore.get()) };
    }

    /// Waits for the post of somebody who has woken the waiter: the semaphore must outlive it.
    pub fn await_post(&self) {
        // SAFETY: the semaphore is initialised.
        let posted = || unsafe { libc::sem_trywait(self.semaphore.get()) == 0 }.then_some(());
        Native::spin_map(posted);
    }
}
