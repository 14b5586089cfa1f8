//! Waiters of real-time priority, the highest of which POSIX wants to be served first.
//!
//! Where all waiters of a lock sleep on one word the kernel does that. Where a release leaves the lock free although
//! others are queued ([`ByPriority::Barging`]), a real-time waiter stands outside the queue, in a list of such
//! waiters:
//!
//! 1. it enters the list, and is counted in the mutex's word;
//! 2. whoever releases the mutex wakes the first of the highest priority that waits for it;
//! 3. the woken one tries to acquire the mutex, and sleeps again if another thread was faster.
//!
//! A release that was under way when the waiter came does not see it, hence no sleep lasts longer than
//! [`LONGEST_SLEEP`]; after it the waiter tries again if it is the one to be served next.
//! Where a release hands the lock to the next in the queue, nothing can be done: one line on stderr says so.
//!
//! For that each call on such a mutex takes the slow path, once the process is known to have real-time threads: from
//! its start, or because it calls a function below. The kernel is asked for a thread's priority each time that it
//! waits. Threads that another process makes real-time ones go unseen.

use crate::functions::{ACTIVE, REAL};
use crate::message::complain;
use crate::rare_lock::RareLock;
use crate::{generation, pool, tls};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::ptr::null_mut;
use core::sync::atomic::{compiler_fence, AtomicPtr, AtomicU32, Ordering};
use libc::{pid_t, pthread_attr_t, pthread_t, sched_param};
use lockswap_locks::info::{ByPriority, LockInfo};
use lockswap_platform::{Clock, Deadline, Native, Ns, Platform};
use syscalls::{syscall, Sysno};

/// The longest that a waiter sleeps before it tries again, ns.
const LONGEST_SLEEP: Ns = 1_000_000;

/// The locks of mutexes; null where there is none. Relaxed: set while the process has one thread.
static LOCKS: [AtomicPtr<LockInfo>; pool::LOCKS] = [const { AtomicPtr::new(null_mut()) }; pool::LOCKS];

fn locks() -> impl Iterator<Item = &'static LockInfo> {
    // SAFETY: null, or a constant of the lock's type.
    LOCKS.iter().filter_map(|info| unsafe { info.load(Ordering::Relaxed).as_ref() })
}

/// A real-time waiter, on its own stack.
struct Waiter {
    /// The address of the mutex that it waits for.
    mutex: usize,
    priority: u32,
    /// 1 once it may try again.
    woken: AtomicU32,
    next: UnsafeCell<*mut Waiter>,
}

/// All real-time waiters of the process, in the order of their arrival.
struct List {
    lock: RareLock,
    first: UnsafeCell<*mut Waiter>,
}

// SAFETY: the list is accessed only while the lock is held.
unsafe impl Sync for List {}

static WAITERS: List = List { lock: RareLock::new(), first: UnsafeCell::new(null_mut()) };

impl List {
    const BIT: u16 = tls::inside::REALTIME;

    /// Runs `f` on the link to the first waiter while the lock is held; not, if this is a signal handler that
    /// interrupted its thread in here.
    fn with<R>(&self, f: impl FnOnce(*mut *mut Waiter) -> R) -> Option<R> {
        let thread = tls::thread();
        let inside = thread.inside.get();
        if inside & Self::BIT != 0 {
            return None;
        }
        thread.inside.set(inside | Self::BIT);
        // The fences keep the mark around the lock for a handler, which sees the instructions in order.
        compiler_fence(Ordering::SeqCst);
        self.lock.acquire();
        let result = f(self.first.get());
        // SAFETY: acquired above.
        unsafe { self.lock.release() };
        compiler_fence(Ordering::SeqCst);
        thread.inside.set(inside);
        Some(result)
    }

    /// Puts a waiter at the end; whether it did.
    fn enter(&self, waiter: &Waiter) -> bool {
        let enter = |mut link: *mut *mut Waiter| {
            // SAFETY: waiters stay in the list until they leave it.
            unsafe {
                while !(*link).is_null() {
                    link = (**link).next.get();
                }
                *link = core::ptr::from_ref(waiter).cast_mut();
            }
        };
        self.with(enter).is_some()
    }

    /// Takes a waiter out, of which nobody knows any more after this.
    fn leave(&self, waiter: &Waiter) {
        let leave = |mut link: *mut *mut Waiter| {
            // SAFETY: as in `enter`; this waiter is in the list.
            unsafe {
                while !core::ptr::eq(*link, waiter) {
                    link = (**link).next.get();
                }
                *link = *waiter.next.get();
            }
        };
        // The thread that entered was not inside then, nor is it now.
        self.with(leave);
    }

    /// Runs `f` on the first waiter of the highest priority for the mutex at this address, if there is one.
    fn with_best<R>(&self, mutex: usize, f: impl FnOnce(&Waiter) -> R) -> Option<R> {
        self.with(|link| {
            let mut best: Option<&Waiter> = None;
            // SAFETY: as in `enter`.
            let mut next = unsafe { (*link).as_ref() };
            while let Some(waiter) = next {
                if waiter.mutex == mutex && best.is_none_or(|best| best.priority < waiter.priority) {
                    best = Some(waiter);
                }
                // SAFETY: as above.
                next = unsafe { (*waiter.next.get()).as_ref() };
            }
            best.map(f)
        })
        .flatten()
    }
}

/// Acquires the mutex at this address outside its queue, with `priority`: the result of `try_acquire`, or nothing if
/// that is not possible here. `announce` makes later calls see that somebody waits like this, `withdraw` undoes it.
pub fn acquire(
    mutex: usize,
    priority: u32,
    until: Option<Deadline>,
    mut try_acquire: impl FnMut() -> bool,
    announce: impl FnOnce(),
    withdraw: impl FnOnce(),
) -> Option<bool> {
    let waiter = Waiter { mutex, priority, woken: AtomicU32::new(0), next: UnsafeCell::new(null_mut()) };
    if !WAITERS.enter(&waiter) {
        return None;
    }
    announce();
    let is_next = || WAITERS.with_best(mutex, |best| core::ptr::eq(best, &waiter)) == Some(true);
    let acquired = loop {
        if is_next() && try_acquire() {
            break true;
        }
        if until.is_some_and(|until| Native::now(until.clock) >= until.at) {
            break false;
        }
        let mut soon = Deadline { clock: Clock::Monotonic, at: Native::now(Clock::Monotonic) + LONGEST_SLEEP };
        if let Some(until) = until {
            let left = until.at.saturating_sub(Native::now(until.clock));
            soon.at = soon.at.min(Native::now(Clock::Monotonic) + left);
        }
        Native::park(&waiter.woken, 0, Some(soon));
        waiter.woken.store(0, Ordering::Relaxed);
    };
    withdraw();
    WAITERS.leave(&waiter);
    Some(acquired)
}

/// Wakes who waits outside the queue for the mutex at this address, which has been released.
#[cold]
#[inline(never)]
pub fn wake(mutex: usize) {
    WAITERS.with_best(mutex, |waiter| {
        // Relaxed: the kernel compares the word while it holds a lock of its own.
        waiter.woken.store(1, Ordering::Relaxed);
        Native::unpark(&waiter.woken, 1);
    });
}

/// Forgets all waiters.
///
/// # Safety
/// The process has one thread: it is the child of a fork.
pub unsafe fn enter_child() {
    // SAFETY: as for this call; the waiters are in the parent.
    unsafe {
        *WAITERS.first.get() = null_mut();
        WAITERS.lock.reset();
    }
}

/// Notices that the process has real-time threads, and says once what that means for its mutexes, if they cannot serve
/// them.
fn notice(policy: c_int) {
    const REALTIME: [c_int; 3] = [libc::SCHED_FIFO, libc::SCHED_RR, libc::SCHED_DEADLINE];
    if !REALTIME.contains(&(policy & !libc::SCHED_RESET_ON_FORK)) || Native::expect_real_time() {
        return;
    }
    if locks().any(|info| info.by_priority == ByPriority::Barging) {
        generation::disable_fast_path();
    }
    if let Some(info) = locks().find(|info| info.by_priority == ByPriority::No) {
        complain(format_args!(
            "real-time threads wait for mutexes first come, first served: {} cannot serve them by priority; futex can",
            info.id
        ));
    }
}

unsafe extern "C-unwind" fn setschedparam(thread: pthread_t, policy: c_int, param: *const sched_param) -> c_int {
    notice(policy);
    // SAFETY: the program's arguments.
    unsafe { REAL.pthread_setschedparam.get()(thread, policy, param) }
}

unsafe extern "C-unwind" fn attr_setschedpolicy(attr: *mut pthread_attr_t, policy: c_int) -> c_int {
    notice(policy);
    // SAFETY: the program's arguments.
    unsafe { REAL.pthread_attr_setschedpolicy.get()(attr, policy) }
}

unsafe extern "C-unwind" fn setscheduler(pid: pid_t, policy: c_int, param: *const sched_param) -> c_int {
    notice(policy);
    // SAFETY: the program's arguments.
    unsafe { REAL.sched_setscheduler.get()(pid, policy, param) }
}

/// Notices real-time threads from now on. `mutexes` are the locks of mutexes, none if they are glibc's.
pub fn install(mutexes: impl Iterator<Item = &'static LockInfo>) {
    for (place, info) in LOCKS.iter().zip(mutexes) {
        place.store(core::ptr::from_ref(info).cast_mut(), Ordering::Relaxed);
    }
    // Where a filter may kill for the question it is not asked.
    if Native::yields_are_allowed() {
        // SAFETY: asks for the calling thread.
        if let Ok(policy) = unsafe { syscall!(Sysno::sched_getscheduler, 0) } {
            notice(policy as c_int);
        }
    }
    ACTIVE.pthread_setschedparam.set(setschedparam);
    ACTIVE.pthread_attr_setschedpolicy.set(attr_setschedpolicy);
    ACTIVE.sched_setscheduler.set(setscheduler);
}
