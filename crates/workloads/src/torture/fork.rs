//! A fork while other threads hold and await the objects: the child, which has one thread, uses them and ends.

use super::calls::{self, describe, fail, Time};
use super::objects::{name, MutexObject, Number, RwObject, MUTEXES, SHORT_LIVED};
use super::watch::Call;
use super::worker::Worker;
use super::Round;
use crate::pthread::{Cond, Kind, Mutex};
use libc::{c_int, c_void, CLOCK_MONOTONIC, CLOCK_REALTIME, EBUSY, ETIMEDOUT};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Duration;

impl Worker<'_> {
    /// Acquires the mutex and forks.
    pub(super) fn fork_holding(&mut self, number: Number) {
        let mutex = &*self.round.objects.mutexes[number].mutex;
        let code = self.call(Call::Lock, number, || calls::lock(mutex));
        self.expect(Call::Lock, number, code, &[0]);
        self.enter(number);
        self.fork(number);
    }

    /// Forks while the calling thread holds the mutex, releases it, and waits for the child.
    pub(super) fn fork(&mut self, held: usize) {
        // One at a time: each copies the whole process.
        if self.round.forking.swap(true, SeqCst) {
            return self.release(held);
        }
        self.round.board.enter(self.number, Call::Fork, held);
        // SAFETY: the child makes lock calls and system calls only, and starts threads through the C library, whose
        // own fork handlers keep its memory allocator usable.
        let child = unsafe { libc::fork() };
        match child {
            0 => self.in_child(held),
            -1 => fail(&format!("cannot fork: {}", std::io::Error::last_os_error())),
            _ => {}
        }
        self.round.board.leave(self.number);
        self.release(held);
        let mut status = 0;
        self.call(Call::ForkedChild, held, || {
            // SAFETY: waits for our own child and writes to our variable.
            while unsafe { libc::waitpid(child, &mut status, 0) } == -1 {
                let error = std::io::Error::last_os_error();
                if error.kind() != std::io::ErrorKind::Interrupted {
                    fail(&format!("cannot wait for the child of a fork: {error}"));
                }
            }
            0
        });
        self.round.forking.store(false, SeqCst);
        self.round.totals.forks.fetch_add(1, Relaxed);
        if status != 0 {
            let status = std::os::unix::process::ExitStatusExt::from_raw(status);
            let status: std::process::ExitStatus = status;
            self.require(held, Err(format!("the child of a fork, made while this thread held it, ended: {status}")));
        }
    }

    /// The child's life: its own mutex first, then everybody's, then new objects; all with a second thread at times.
    fn in_child(&mut self, held: usize) -> ! {
        let Round { config, objects, .. } = self.round;
        end_after(config.patience);
        let own = &objects.mutexes[held];
        // glibc lets nobody else than the thread that locked it release such a mutex, and the child's thread is
        // another.
        if config.glibc && matches!(own.kind, Kind::Recursive | Kind::ErrorCheck) {
            step(Call::TryLock, held, || calls::try_lock(&own.mutex), &[EBUSY]);
        } else {
            if own.kind == Kind::Recursive {
                step(Call::TryLock, held, || calls::try_lock(&own.mutex), &[0]);
                step(Call::Unlock, held, || calls::unlock(&own.mutex), &[0]);
            } else {
                step(Call::TryLock, held, || calls::try_lock(&own.mutex), &[EBUSY]);
            }
            step(Call::Unlock, held, || calls::unlock(&own.mutex), &[0]);
            for _ in 0..3 {
                step(Call::Lock, held, || calls::lock(&own.mutex), &[0]);
                step(Call::Unlock, held, || calls::unlock(&own.mutex), &[0]);
            }
            // glibc's condition variable may be in the middle of another thread's call.
            if !config.glibc {
                wait_in_vain(&own.cond, &own.mutex, held);
            }
            compete(&own.mutex, held);
        }
        for (number, MutexObject { mutex, .. }) in objects.mutexes.iter().enumerate() {
            let soon = Time::after(CLOCK_REALTIME, 1_000_000);
            // Whoever held it in the parent is not here, so it may stay locked for ever.
            if step(Call::TryLock, number, || calls::try_lock(mutex), &[0, EBUSY]) == 0
                || step(Call::TimedLock, number, || calls::timed_lock(mutex, soon), &[0, ETIMEDOUT]) == 0
            {
                step(Call::Unlock, number, || calls::unlock(mutex), &[0]);
            }
        }
        // glibc's rwlock may be in the middle of another thread's call, too; even a timed one then waits for ever.
        let rwlocks = if config.glibc { &[][..] } else { &objects.rwlocks[..] };
        for (index, RwObject { lock, .. }) in rwlocks.iter().enumerate() {
            let (number, soon) = (MUTEXES + index, Time::after(CLOCK_REALTIME, 1_000_000));
            if step(Call::TimedRead, number, || calls::timed_read(lock, soon), &[0, ETIMEDOUT]) == 0 {
                step(Call::RwUnlock, number, || calls::rw_unlock(lock), &[0]);
            }
            if step(Call::TryWrite, number, || calls::try_write(lock), &[0, EBUSY]) == 0 {
                step(Call::RwUnlock, number, || calls::rw_unlock(lock), &[0]);
            }
        }
        let (mutex, cond) = (Mutex::new(Kind::Normal), Cond::new());
        wait_in_vain(&cond, &mutex, SHORT_LIVED);
        compete(&mutex, SHORT_LIVED);
        if self.random.below(2) == 0 {
            // SAFETY: ends the child, with the handlers that other libraries have installed.
            step(Call::Exit, SHORT_LIVED, || unsafe { libc::exit(0) }, &[]);
        }
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) }
    }
}

/// The call that the child is in and its object, for the message of a child that hangs.
static STEP: AtomicU32 = AtomicU32::new(0);

/// Ends the child when `patience` has passed, with a message.
fn end_after(patience: Duration) {
    extern "C" fn hangs(_: c_int) {
        let step = STEP.load(Relaxed);
        let (call, object) = (Call::from_number((step >> 8) as u8).name(), name(step as usize & 0xFF));
        // No memory is allocated here, since the signal may have interrupted that.
        for part in ["torture: in the child of a fork: ", call, " of ", object, " hangs\n"] {
            // SAFETY: writes bytes that never go away.
            unsafe { libc::write(libc::STDERR_FILENO, part.as_ptr().cast(), part.len()) };
        }
        // SAFETY: async-signal-safe.
        unsafe { libc::_exit(super::FAILED) }
    }
    let handler: extern "C" fn(c_int) = hangs;
    // SAFETY: the handler calls only what a handler may.
    unsafe {
        libc::signal(libc::SIGALRM, handler as libc::sighandler_t);
        libc::alarm(patience.as_secs().clamp(1, 3600) as libc::c_uint);
    }
}

/// Makes a call in the child and ends it, with a message, when the code is none of the `allowed` ones.
fn step(call: Call, number: Number, body: impl FnOnce() -> c_int, allowed: &[c_int]) -> c_int {
    STEP.store((call as u32) << 8 | number as u32, Relaxed);
    let code = body();
    if !allowed.contains(&code) {
        fail(&format!("in the child of a fork: {} of {} returned {}", call.name(), name(number), describe(code)));
    }
    code
}

/// A timed wait that nobody ends; those who waited in the parent are not here.
fn wait_in_vain(cond: &Cond, mutex: &Mutex, number: Number) {
    step(Call::Signal, number, || calls::signal(cond), &[0]);
    step(Call::Broadcast, number, || calls::broadcast(cond), &[0]);
    step(Call::Lock, number, || calls::lock(mutex), &[0]);
    let soon = Time::after(CLOCK_MONOTONIC, 500_000);
    // It may wake early.
    step(Call::ClockWait, number, || calls::clock_wait(cond, mutex, soon), &[0, ETIMEDOUT]);
    step(Call::Unlock, number, || calls::unlock(mutex), &[0]);
}

const TURNS: u32 = 200;

struct Contest<'a> {
    mutex: &'a Mutex,
    count: AtomicU32,
}

impl Contest<'_> {
    fn run(&self) {
        for turn in 0..TURNS {
            if calls::lock(self.mutex) != 0 {
                return;
            }
            let seen = self.count.load(Relaxed);
            if turn % 64 == 0 {
                std::thread::yield_now();
            }
            self.count.store(seen + 1, Relaxed);
            if calls::unlock(self.mutex) != 0 {
                return;
            }
        }
    }
}

extern "C" fn second(contest: *mut c_void) -> *mut c_void {
    // SAFETY: `compete` waits for this thread before its contest goes away.
    unsafe { &*contest.cast::<Contest<'_>>() }.run();
    std::ptr::null_mut()
}

/// Two threads of the child increment a number under the mutex.
fn compete(mutex: &Mutex, number: Number) {
    let contest = Contest { mutex, count: AtomicU32::new(0) };
    let mut thread = std::mem::MaybeUninit::uninit();
    let argument = std::ptr::from_ref(&contest).cast_mut().cast();
    // SAFETY: the contest outlives the thread, which is joined below.
    let create = || unsafe { libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), second, argument) };
    step(Call::Create, number, create, &[0]);
    let run = || {
        contest.run();
        0
    };
    step(Call::Lock, number, run, &[0]);
    // SAFETY: the thread exists and is joined once.
    let join = || unsafe { libc::pthread_join(thread.assume_init(), std::ptr::null_mut()) };
    step(Call::JoinThread, number, join, &[0]);
    let count = contest.count.load(Relaxed);
    if count != 2 * TURNS {
        fail(&format!("in the child of a fork: {count} of {} increments under {}", 2 * TURNS, name(number)));
    }
}
