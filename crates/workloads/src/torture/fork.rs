//! A fork while other threads hold and await the objects: the child, which has one thread, uses them and ends.

use super::calls::{self, describe, fail, Time};
use super::objects::{name, MutexObject, MUTEXES};
use super::watch::Call;
use super::worker::Worker;
use crate::pthread::{Cond, Kind, Mutex};
use libc::{c_int, c_void, CLOCK_MONOTONIC, CLOCK_REALTIME, EBUSY, ETIMEDOUT};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

impl Worker<'_> {
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
        if libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGALRM {
            self.require(held, Err("the child of a fork, made while this thread held it, hangs".into()));
        }
        if status != 0 {
            let status = std::os::unix::process::ExitStatusExt::from_raw(status);
            let status: std::process::ExitStatus = status;
            self.require(held, Err(format!("the child of a fork, made while this thread held it, ended: {status}")));
        }
    }

    /// The child's life: its own mutex first, then everybody's, then a condition variable, then a second thread.
    fn in_child(&mut self, held: usize) -> ! {
        let round = self.round;
        let seconds = round.config.patience.as_secs().clamp(1, 3600) as libc::c_uint;
        // SAFETY: ends the child if it hangs; no handler is installed.
        unsafe { libc::alarm(seconds) };
        let own = &round.objects.mutexes[held];
        // glibc lets nobody else than the thread that locked it release such a mutex, and the child's thread is another.
        if round.config.glibc && matches!(own.kind, Kind::Recursive | Kind::ErrorCheck) {
            require("pthread_mutex_trylock", held, calls::try_lock(&own.mutex), &[EBUSY]);
        } else {
            require("pthread_mutex_trylock", held, calls::try_lock(&own.mutex), expected_of_holder(own));
            if own.kind == Kind::Recursive {
                require("pthread_mutex_unlock", held, calls::unlock(&own.mutex), &[0]);
            }
            require("pthread_mutex_unlock", held, calls::unlock(&own.mutex), &[0]);
            for _ in 0..3 {
                require("pthread_mutex_lock", held, calls::lock(&own.mutex), &[0]);
                require("pthread_mutex_unlock", held, calls::unlock(&own.mutex), &[0]);
            }
            // glibc's condition variable may be in the middle of another thread's call.
            if !round.config.glibc {
                wait_in_vain(&own.cond, &own.mutex, held);
            }
            compete(&own.mutex, held);
        }
        for (number, object) in round.objects.mutexes.iter().enumerate() {
            let soon = Time::after(CLOCK_REALTIME, 1_000_000);
            for (call, code, otherwise) in [
                ("pthread_mutex_trylock", calls::try_lock(&object.mutex), EBUSY),
                ("pthread_mutex_timedlock", calls::timed_lock(&object.mutex, soon), ETIMEDOUT),
            ] {
                // After a successful trylock the timed call meets its own thread's lock.
                require(call, number, code, &[0, otherwise, libc::EDEADLK]);
            }
        }
        for (index, object) in round.objects.rwlocks.iter().enumerate() {
            let soon = Time::after(CLOCK_REALTIME, 1_000_000);
            let code = calls::timed_read(&object.lock, soon);
            require("pthread_rwlock_timedrdlock", MUTEXES + index, code, &[0, ETIMEDOUT]);
            if code == 0 {
                require("pthread_rwlock_unlock", MUTEXES + index, calls::rw_unlock(&object.lock), &[0]);
            }
            let code = calls::try_write(&object.lock);
            require("pthread_rwlock_trywrlock", MUTEXES + index, code, &[0, EBUSY]);
        }
        let fresh = (Mutex::new(Kind::Normal), Cond::new());
        require("pthread_mutex_lock", held, calls::lock(&fresh.0), &[0]);
        require("pthread_mutex_unlock", held, calls::unlock(&fresh.0), &[0]);
        wait_in_vain(&fresh.1, &fresh.0, held);
        compete(&fresh.0, held);
        if self.random.below(2) == 0 {
            // SAFETY: ends the child, with the handlers that other libraries have installed.
            unsafe { libc::exit(0) }
        }
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(0) }
    }
}

fn require(call: &str, number: usize, code: c_int, allowed: &[c_int]) {
    if !allowed.contains(&code) {
        fail(&format!("in the child of a fork: {call} of {} returned {}", name(number), describe(code)));
    }
}

fn expected_of_holder(object: &MutexObject) -> &'static [c_int] {
    if object.kind == Kind::Recursive {
        &[0]
    } else {
        &[EBUSY]
    }
}

/// A timed wait that nobody ends; those who waited in the parent are not here.
fn wait_in_vain(cond: &Cond, mutex: &Mutex, number: usize) {
    require("pthread_cond_signal", number, calls::signal(cond), &[0]);
    require("pthread_cond_broadcast", number, calls::broadcast(cond), &[0]);
    require("pthread_mutex_lock", number, calls::lock(mutex), &[0]);
    let soon = Time::after(CLOCK_MONOTONIC, 500_000);
    // It may wake early.
    require("pthread_cond_clockwait", number, calls::clock_wait(cond, mutex, soon), &[0, ETIMEDOUT]);
    require("pthread_mutex_unlock", number, calls::unlock(mutex), &[0]);
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
fn compete(mutex: &Mutex, number: usize) {
    let contest = Contest { mutex, count: AtomicU32::new(0) };
    let mut thread = std::mem::MaybeUninit::uninit();
    let argument = std::ptr::from_ref(&contest).cast_mut().cast();
    // SAFETY: the contest outlives the thread, which is joined below.
    let code = unsafe { libc::pthread_create(thread.as_mut_ptr(), std::ptr::null(), second, argument) };
    if code != 0 {
        fail(&format!("in the child of a fork: pthread_create returned {}", describe(code)));
    }
    contest.run();
    // SAFETY: the thread exists and is joined once.
    let code = unsafe { libc::pthread_join(thread.assume_init(), std::ptr::null_mut()) };
    let count = contest.count.load(Relaxed);
    if code != 0 || count != 2 * TURNS {
        fail(&format!("in the child of a fork: {count} of {} increments under {}", 2 * TURNS, name(number)));
    }
}
