//! `pthread_cond_t` of our own: a list of waiters, each with its own semaphore on its stack.
//!
//!   bytes  0..8   a lock for the list
//!          8..16  first waiter
//!         16..24  last waiter
//!         24..28  the generation (see `crate::generation`)
//!         28..32  0   (glibc 2.41 and later: bit 0 of this word says process-shared)
//!         32..36  the clock of timed waits
//!         36..40  0   (glibc before 2.41: bit 0 of this word says process-shared)
//!
//! A waiter spins as long as that pays off, then sleeps in glibc's `sem_wait`, which makes it cancellable the way glibc
//! does it. A waiter that was woken does not touch the condition variable again, so that it may be destroyed right after
//! a broadcast.
//!
//! | state     | meaning                                              | set by                    |
//! |-----------|------------------------------------------------------|---------------------------|
//! | SPINNING  | in the list                                          | the waiter                |
//! | ASLEEP    | in the list; whoever wakes it posts the semaphore    | the waiter                |
//! | LEAVING   | in the list, which the waiter is about to leave      | the waiter                |
//! | SIGNALLED | out of the list, one wake-up received                | who signals, unless LEAVING |
//! | BROADCAST | out of the list, woken with all the others           | who broadcasts, unless LEAVING |

use crate::cancel::{self, Cleanup};
use crate::counters::count;
use crate::functions::{ACTIVE, REAL};
use crate::mutex::{self, Held};
use crate::{deadline, generation, tls};
use core::cell::{Cell, UnsafeCell};
use core::ffi::{c_int, c_void};
use core::ptr::{null, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use libc::{clockid_t, pthread_cond_t, pthread_condattr_t, pthread_mutex_t, sem_t, timespec};
use lockswap_locks::counters::Counter;
use lockswap_locks::flat::futex::Futex;
use lockswap_locks::{adaptive, RawLock};
use lockswap_platform::{Clock, Deadline, Native, Platform};

#[repr(C)]
struct Cond {
    list_lock: Futex<Native>,
    first: AtomicPtr<Waiter>,
    last: Cell<*mut Waiter>,
    generation: AtomicU32,
    shared_since_2_41: AtomicU32,
    clock: Cell<clockid_t>,
    shared_before_2_41: AtomicU32,
}

const _: () = assert!(size_of::<Cond>() <= size_of::<pthread_cond_t>());
const _: () = assert!(core::mem::offset_of!(Cond, shared_since_2_41) == 28);
const _: () = assert!(core::mem::offset_of!(Cond, shared_before_2_41) == 36);

/// In glibc's word with the process-shared bit: timed waits use the monotonic clock.
const GLIBC_MONOTONIC: u32 = 2;

const SPINNING: u32 = 0;
const ASLEEP: u32 = 1;
const LEAVING: u32 = 2;
const SIGNALLED: u32 = 3;
const BROADCAST: u32 = 4;

/// Most rounds that a waiter spins: about 50 us on the machines this was tuned on, what a wake-up through the kernel takes
/// on a virtual machine whose other CPU is idle.
const MOST_SPINS: u32 = 3_000;

/// One waiter, on its own stack.
struct Waiter {
    next: Cell<*mut Waiter>,
    previous: Cell<*mut Waiter>,
    state: AtomicU32,
    semaphore: UnsafeCell<sem_t>,
}

/// When a wait ends: at a time on a clock; never if the time is null.
#[repr(C)]
#[derive(Clone, Copy)]
struct Until {
    clock: clockid_t,
    abstime: *const timespec,
}

const NEVER: Until = Until { clock: libc::CLOCK_MONOTONIC, abstime: null() };

extern "C-unwind" {
    fn sem_wait(semaphore: *mut sem_t) -> c_int;
    fn sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, abstime: *const timespec) -> c_int;
    fn pthread_condattr_getpshared(attr: *const pthread_condattr_t, pshared: *mut c_int) -> c_int;
    fn pthread_condattr_getclock(attr: *const pthread_condattr_t, clock: *mut clockid_t) -> c_int;
}

impl Waiter {
    fn new() -> Self {
        let waiter = Waiter {
            next: Cell::new(null_mut()),
            previous: Cell::new(null_mut()),
            state: AtomicU32::new(SPINNING),
            // SAFETY: a semaphore is plain data, initialised below.
            semaphore: unsafe { core::mem::zeroed() },
        };
        // SAFETY: the memory is this waiter's; glibc's semaphore may be moved until it is waited for.
        unsafe { libc::sem_init(waiter.semaphore.get(), 0, 0) };
        waiter
    }

    /// Spins for a time that has paid off before. Returns whether the waiter was woken.
    fn spin(&self) -> bool {
        let experience = &tls::thread().condition_spins;
        let mut rounds = 0;
        let outcome = Native::spin_map_bounded(adaptive::budget::<Native>(experience.get(), MOST_SPINS), || {
            rounds += 1;
            // ORDER(wake): Acquire pairs with the Release in `try_wake`: the waker looks at this waiter no more.
            (self.state.load(Ordering::Acquire) != SPINNING).then_some(rounds)
        });
        experience.set(adaptive::learn(experience.get(), outcome));
        outcome.is_some()
    }

    /// Changes the state from `from` to `to`, unless the waiter has been woken, which it returns.
    fn advance(&self, from: u32, to: u32) -> Result<(), u32> {
        // ORDER(wake): as in `spin`. Relaxed on success: the list's lock or the semaphore orders what follows.
        self.state.compare_exchange(from, to, Ordering::Relaxed, Ordering::Acquire).map(|_| ())
    }

    /// Wakes the waiter with `how`. Returns its state before, or nothing if it is leaving.
    /// LAST: a waiter that was SPINNING may return after this.
    fn try_wake(&self, how: u32) -> Option<u32> {
        // ORDER(wake): Release pairs with the Acquires in `spin` and `advance`.
        let wake_unless_leaving = |state| (state != LEAVING).then_some(how);
        self.state.fetch_update(Ordering::Release, Ordering::Relaxed, wake_unless_leaving).ok()
    }

    /// Sleeps until the semaphore is posted, or returns `false` at the end of the wait. A cancellation point.
    ///
    /// # Safety
    /// The times in `until` are the program's.
    unsafe extern "C-unwind" fn sleep(&self, until: Until) -> bool {
        // SAFETY: the semaphore is initialised; errno belongs to this thread.
        unsafe {
            let errno = libc::__errno_location();
            let saved = *errno;
            loop {
                let result = if until.abstime.is_null() {
                    sem_wait(self.semaphore.get())
                } else {
                    sem_clockwait(self.semaphore.get(), until.clock, until.abstime)
                };
                let error = core::mem::replace(&mut *errno, saved);
                if result == 0 || error != libc::EINTR {
                    return result == 0;
                }
            }
        }
    }
}

impl Cond {
    /// # Safety
    /// `cond` points at a condition variable.
    unsafe fn of<'a>(cond: *mut pthread_cond_t) -> &'a Cond {
        // SAFETY: as for this call; the cells are accessed under the list's lock.
        unsafe { &*cond.cast() }
    }

    /// glibc's flags if the condition variable is process-shared, and therefore glibc's.
    fn glibc_flags(&self) -> Option<u32> {
        // Relaxed: set by glibc when the object was made.
        [&self.shared_before_2_41, &self.shared_since_2_41]
            .map(|word| word.load(Ordering::Relaxed))
            .into_iter()
            .find(|word| word & 1 != 0)
    }

    /// Whether the condition variable is ours; if so, it is of the current generation when this returns.
    #[inline(always)]
    fn adopt(&self) -> bool {
        // Relaxed: set by glibc when the object was made.
        let shared = self.shared_before_2_41.load(Ordering::Relaxed) | self.shared_since_2_41.load(Ordering::Relaxed);
        // ORDER(adopt): Acquire pairs with the Release in `adopt_new`.
        let ready = self.generation.load(Ordering::Acquire) == generation::current() as u32;
        (ready && shared & 1 == 0) || self.adopt_new()
    }

    #[cold]
    #[inline(never)]
    fn adopt_new(&self) -> bool {
        if self.glibc_flags().is_some() {
            return false;
        }
        // ORDER(adopt): Acquire pairs with the Release below.
        let mark = || self.generation.load(Ordering::Acquire) as u8;
        if mark() != generation::current() {
            generation::adopt(mark, |is_new, current| {
                if is_new {
                    count(Counter::Cond);
                }
                // SAFETY: only the thread that adopts touches the object; its waiters, if any, are in another process.
                unsafe { (&raw const self.list_lock).cast_mut().write_bytes(0, 1) };
                self.first.store(null_mut(), Ordering::Relaxed);
                self.last.set(null_mut());
                // ORDER(adopt): Release pairs with the Acquire of everybody's first look.
                self.generation.store(current as u32, Ordering::Release);
            });
        }
        true
    }

    fn with_list<R>(&self, f: impl FnOnce() -> R) -> R {
        // SAFETY: the lock needs no context. LAST: the condition variable may be destroyed after the unlock.
        unsafe {
            self.list_lock.lock(&());
            let result = f();
            self.list_lock.unlock(&());
            result
        }
    }

    /// Relaxed: written under the list's lock, and before the waiter gives up its mutex; who signals after it changed the
    /// condition under that mutex sees it.
    fn first(&self) -> *mut Waiter {
        self.first.load(Ordering::Relaxed)
    }

    fn append(&self, waiter: &Waiter) {
        let me = core::ptr::from_ref(waiter).cast_mut();
        self.with_list(|| {
            let last = self.last.replace(me);
            waiter.previous.set(last);
            // SAFETY: waiters in the list stay until they are taken out of it.
            match unsafe { last.as_ref() } {
                Some(last) => last.next.set(me),
                None => self.first.store(me, Ordering::Relaxed),
            }
        });
    }

    /// Closes the gap between two waiters, one of which may be missing; the list's lock is held.
    fn join(&self, previous: *mut Waiter, next: *mut Waiter) {
        // SAFETY: waiters in the list stay until they are taken out of it.
        unsafe {
            match previous.as_ref() {
                Some(previous) => previous.next.set(next),
                None => self.first.store(next, Ordering::Relaxed),
            }
            match next.as_ref() {
                Some(next) => next.previous.set(previous),
                None => self.last.set(previous),
            }
        }
    }

    /// Wakes waiters in the order of their arrival: one if `how` is SIGNALLED, all if it is BROADCAST.
    #[inline(always)]
    fn wake(&self, how: u32) {
        if !self.first().is_null() {
            self.wake_waiters(how);
        }
    }

    #[inline(never)]
    fn wake_waiters(&self, how: u32) {
        let asleep = Cell::new(null_mut::<Waiter>());
        self.with_list(|| {
            let mut to_last_asleep: *const Cell<*mut Waiter> = &asleep;
            let mut candidate = self.first();
            // SAFETY: waiters in the list stay until they are taken out of it.
            while let Some(waiter) = unsafe { candidate.as_ref() } {
                let (me, previous, next) = (candidate, waiter.previous.get(), waiter.next.get());
                candidate = next;
                let Some(state) = waiter.try_wake(how) else { continue };
                self.join(previous, next);
                if state == ASLEEP {
                    // SAFETY: a sleeper stays until its semaphore is posted, below.
                    unsafe {
                        (*me).next.set(null_mut());
                        (*to_last_asleep).set(me);
                        to_last_asleep = &(*me).next;
                    }
                }
                if how == SIGNALLED {
                    break;
                }
            }
        });
        let mut sleeper = asleep.get();
        while !sleeper.is_null() {
            // SAFETY: as above. LAST: the sleeper may return after the post.
            unsafe {
                let next = (*sleeper).next.get();
                libc::sem_post((*sleeper).semaphore.get());
                sleeper = next;
            }
        }
    }

    /// Takes a waiter in state `from` that gives up out of the list. Returns how it was woken instead, if it was.
    fn leave(&self, waiter: &Waiter, from: u32) -> Option<u32> {
        match waiter.advance(from, LEAVING) {
            Ok(()) => {
                self.with_list(|| self.join(waiter.previous.get(), waiter.next.get()));
                None
            }
            Err(how) => {
                if from == ASLEEP {
                    // The post is on its way, and the semaphore must outlive it.
                    // SAFETY: the semaphore is initialised.
                    let posted = || unsafe { libc::sem_trywait(waiter.semaphore.get()) == 0 }.then_some(());
                    Native::spin_map(posted);
                }
                Some(how)
            }
        }
    }

    /// Like [`Cond::leave`]; a wake-up that was meant for one waiter goes to another one.
    fn abandon(&self, waiter: &Waiter, from: u32) {
        if self.leave(waiter, from) == Some(SIGNALLED) {
            self.wake(SIGNALLED);
        }
    }
}

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
        ours.append(&waiter);
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

/// Waits on a condition variable of glibc's with a mutex of ours, which glibc cannot release: sleeps for a short while on
/// a mutex of glibc's instead, and calls that a spurious wake-up. A wake-up that comes before the sleep begins is late by
/// that while, not lost.
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
unsafe extern "C-unwind" fn wait_any(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t, until: Until) -> c_int {
    // SAFETY: as for this call.
    unsafe {
        if Cond::of(cond).adopt() {
            // A thread must not vanish while it is in the list, except where it sleeps.
            let deferred = cancel::defer();
            let result = wait_until(cond, mutex, until);
            cancel::undo_defer(deferred);
            result
        } else if mutex::is_glibcs(mutex) {
            if until.abstime.is_null() {
                REAL.pthread_cond_wait.get()(cond, mutex)
            } else {
                REAL.pthread_cond_clockwait.get()(cond, mutex, until.clock, until.abstime)
            }
        } else {
            wait_foreign(cond, mutex, until)
        }
    }
}

unsafe extern "C-unwind" fn wait(cond: *mut pthread_cond_t, mutex: *mut pthread_mutex_t) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { wait_any(cond, mutex, NEVER) }
}

unsafe extern "C-unwind" fn clockwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    clock: clockid_t,
    abstime: *const timespec,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe {
        if let Err(error) = deadline::clock(clock).and_then(|clock| deadline::deadline(clock, abstime)) {
            return error;
        }
        wait_any(cond, mutex, Until { clock, abstime })
    }
}

unsafe extern "C-unwind" fn timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut pthread_mutex_t,
    abstime: *const timespec,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe {
        let ours = Cond::of(cond);
        let clock = match ours.glibc_flags() {
            Some(flags) if flags & GLIBC_MONOTONIC != 0 => libc::CLOCK_MONOTONIC,
            Some(_) => libc::CLOCK_REALTIME,
            None => ours.clock.get(),
        };
        clockwait(cond, mutex, clock, abstime)
    }
}

unsafe extern "C-unwind" fn signal(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the program's condition variable.
    unsafe {
        let ours = Cond::of(cond);
        if !ours.adopt() {
            return REAL.pthread_cond_signal.get()(cond);
        }
        ours.wake(SIGNALLED);
        0
    }
}

unsafe extern "C-unwind" fn broadcast(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the program's condition variable.
    unsafe {
        let ours = Cond::of(cond);
        if !ours.adopt() {
            return REAL.pthread_cond_broadcast.get()(cond);
        }
        ours.wake(BROADCAST);
        0
    }
}

unsafe extern "C-unwind" fn init(cond: *mut pthread_cond_t, attr: *const pthread_condattr_t) -> c_int {
    // SAFETY: the program's memory and attribute.
    unsafe {
        let result = REAL.pthread_cond_init.get()(cond, attr);
        if result != 0 {
            return result;
        }
        let (mut pshared, mut clock) = (libc::PTHREAD_PROCESS_PRIVATE, libc::CLOCK_REALTIME);
        if !attr.is_null() {
            pthread_condattr_getpshared(attr, &mut pshared);
            pthread_condattr_getclock(attr, &mut clock);
        }
        if pshared != libc::PTHREAD_PROCESS_PRIVATE {
            count(Counter::Pshared);
            return 0;
        }
        cond.cast::<u8>().write_bytes(0, size_of::<pthread_cond_t>());
        let ours = Cond::of(cond);
        ours.clock.set(clock);
        // Relaxed: nobody else may use the condition variable before this returns.
        ours.generation.store(generation::current() as u32, Ordering::Relaxed);
        count(Counter::Cond);
        0
    }
}

/// Waits, as glibc does, until no waiter looks at the condition variable any more: those that time out right now.
unsafe extern "C-unwind" fn destroy(cond: *mut pthread_cond_t) -> c_int {
    // SAFETY: the program's condition variable.
    unsafe {
        let ours = Cond::of(cond);
        if !ours.adopt() {
            return REAL.pthread_cond_destroy.get()(cond);
        }
        Native::spin_map(|| ours.with_list(|| ours.first().is_null()).then_some(()));
        0
    }
}

/// Makes condition variables ours.
pub fn install() {
    ACTIVE.pthread_cond_init.set(init);
    ACTIVE.pthread_cond_destroy.set(destroy);
    ACTIVE.pthread_cond_wait.set(wait);
    ACTIVE.pthread_cond_timedwait.set(timedwait);
    ACTIVE.pthread_cond_clockwait.set(clockwait);
    ACTIVE.pthread_cond_signal.set(signal);
    ACTIVE.pthread_cond_broadcast.set(broadcast);
}
