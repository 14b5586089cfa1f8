//! Operations on mutexes and condition variables.

use super::calls::{self, Time};
use super::objects::{MutexObject, Number, MUTEXES};
use super::watch::Call;
use super::worker::Worker;
use crate::pthread::Kind;
use libc::{c_int, CLOCK_REALTIME, EBUSY, EDEADLK, EINVAL, EPERM, ETIMEDOUT};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

/// A clock that no lock function takes.
const WRONG_CLOCK: libc::clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;

/// Tokens at most, so that waits without a limit go on happening.
const TOKENS: u32 = 8;

impl Worker<'_> {
    /// Acquires the mutex in one of the ways there are, and returns whether it did.
    fn acquire(&mut self, object: Number) -> bool {
        let mutex = &*self.round.objects.mutexes[object].mutex;
        let code = match self.random.below(8) {
            0 => {
                let code = self.call(Call::TryLock, object, || calls::try_lock(mutex));
                self.expect(Call::TryLock, object, code, &[0, EBUSY]);
                code
            }
            1 => {
                let time = self.deadline(CLOCK_REALTIME);
                self.call_until(Call::TimedLock, object, time, || calls::timed_lock(mutex, time))
            }
            2 => {
                let clock = self.clock();
                let time = self.deadline(clock);
                self.call_until(Call::ClockLock, object, time, || calls::clock_lock(mutex, time))
            }
            _ => {
                let code = self.call(Call::Lock, object, || calls::lock(mutex));
                self.expect(Call::Lock, object, code, &[0]);
                code
            }
        };
        code == 0
    }

    /// One acquisition of a mutex. With `nothing_held` it may also wait for a condition or fork.
    pub fn mutex(&mut self, number: usize, nothing_held: bool) {
        let object = &self.round.objects.mutexes[number];
        if object.kind == Kind::ErrorCheck && self.one_in(16) {
            let code = self.call(Call::Unlock, number, || calls::unlock(&object.mutex));
            self.expect(Call::Unlock, number, code, &[EPERM]);
        }
        if !self.acquire(number) {
            return;
        }
        self.enter(number);
        self.hold();
        let mut late = None;
        match self.random.below(64) {
            0..=5 => late = self.produce(number),
            6..=11 if nothing_held => self.consume(number),
            12..=15 => self.misuse(object, number),
            16..=19 => self.next_object(number),
            20 if nothing_held && self.one_in(32) => return self.fork(number),
            _ => {}
        }
        if self.round.exit.load(Relaxed) && self.round.exit.swap(false, SeqCst) {
            self.round.board.enter(self.number, Call::Exit, number);
            std::process::exit(0);
        }
        self.release(number);
        if let Some(call) = late {
            self.wake(number, call);
        }
    }

    /// Releases a mutex that is held.
    pub fn release(&mut self, number: usize) {
        let mutex = &*self.round.objects.mutexes[number].mutex;
        self.leave(number);
        let code = self.call(Call::Unlock, number, || calls::unlock(mutex));
        self.expect(Call::Unlock, number, code, &[0]);
    }

    fn wake(&mut self, number: usize, call: Call) {
        let cond = &*self.round.objects.mutexes[number].cond;
        let code = self.call(call, number, || match call {
            Call::Broadcast => calls::broadcast(cond),
            _ => calls::signal(cond),
        });
        self.expect(call, number, code, &[0]);
    }

    /// Adds a token to a mutex that is held and wakes a waiter for it, or returns the call that does so after the
    /// release.
    pub fn produce(&mut self, number: usize) -> Option<Call> {
        let tokens = &self.round.objects.mutexes[number].tokens;
        let call = if self.one_in(4) { Call::Broadcast } else { Call::Signal };
        tokens.store((tokens.load(Relaxed) + 1).min(TOKENS), Relaxed);
        if self.one_in(2) {
            return Some(call);
        }
        self.wake(number, call);
        None
    }

    /// Takes a token of a mutex that is held; waits for one on the condition variable, for a time or without a limit.
    fn consume(&mut self, number: usize) {
        let MutexObject { mutex, cond, tokens, waiting, .. } = &self.round.objects.mutexes[number];
        // If all waited, nobody would make tokens.
        let patient = waiting.load(Relaxed) < self.round.threads as u32 / 2 && self.one_in(2);
        if patient {
            waiting.store(waiting.load(Relaxed) + 1, Relaxed);
        }
        while tokens.load(Relaxed) == 0 && !self.round.stop.load(SeqCst) {
            self.leave(number);
            let code = if patient {
                let code = self.call(Call::Wait, number, || calls::wait(cond, mutex));
                self.expect(Call::Wait, number, code, &[0]);
                code
            } else if self.one_in(2) {
                let time = self.deadline(CLOCK_REALTIME);
                self.call_until(Call::TimedWait, number, time, || calls::timed_wait(cond, mutex, time))
            } else {
                let clock = self.clock();
                let time = self.deadline(clock);
                self.call_until(Call::ClockWait, number, time, || calls::clock_wait(cond, mutex, time))
            };
            self.enter(number);
            if code == ETIMEDOUT {
                break;
            }
        }
        tokens.store(tokens.load(Relaxed).saturating_sub(1), Relaxed);
        if patient {
            waiting.store(waiting.load(Relaxed) - 1, Relaxed);
        }
    }

    /// The main thread's share: makes sure that threads which wait for a token get one.
    pub fn beat(&mut self) {
        std::thread::sleep(Duration::from_millis(5));
        for number in 0..MUTEXES {
            if self.acquire(number) {
                self.enter(number);
                let late = self.produce(number);
                self.release(number);
                if let Some(call) = late {
                    self.wake(number, call);
                }
            }
        }
    }

    /// Wakes all who wait for the condition, after the round has been told to stop.
    pub fn send_home(&mut self, number: usize) {
        let mutex = &*self.round.objects.mutexes[number].mutex;
        let code = self.call(Call::Lock, number, || calls::lock(mutex));
        self.expect(Call::Lock, number, code, &[0]);
        self.enter(number);
        self.wake(number, Call::Broadcast);
        self.release(number);
    }

    /// What must be refused, or counted, while the calling thread holds the mutex.
    fn misuse(&mut self, object: &MutexObject, number: usize) {
        let mutex = &*object.mutex;
        let past = Time::after(CLOCK_REALTIME, -1_000_000_000);
        let mut check = |call, code: &dyn Fn() -> c_int, allowed: c_int| {
            let code = self.call(call, number, code);
            self.expect(call, number, code, &[allowed]);
        };
        check(Call::Destroy, &|| calls::destroy(mutex), EBUSY);
        match object.kind {
            Kind::Recursive => {
                check(Call::Lock, &|| calls::lock(mutex), 0);
                check(Call::TryLock, &|| calls::try_lock(mutex), 0);
                check(Call::TimedLock, &|| calls::timed_lock(mutex, past), 0);
                for _ in 0..3 {
                    check(Call::Unlock, &|| calls::unlock(mutex), 0);
                }
            }
            Kind::ErrorCheck => {
                check(Call::Lock, &|| calls::lock(mutex), EDEADLK);
                check(Call::TryLock, &|| calls::try_lock(mutex), EBUSY);
                check(Call::TimedLock, &|| calls::timed_lock(mutex, past), EDEADLK);
            }
            _ => {
                let mut wrong = past;
                wrong.at.tv_nsec = 1_000_000_000;
                check(Call::TryLock, &|| calls::try_lock(mutex), EBUSY);
                check(Call::TimedLock, &|| calls::timed_lock(mutex, past), ETIMEDOUT);
                check(Call::TimedLock, &|| calls::timed_lock(mutex, wrong), EINVAL);
                wrong = Time { clock: WRONG_CLOCK, ..past };
                check(Call::ClockLock, &|| calls::clock_lock(mutex, wrong), EINVAL);
            }
        }
    }
}
