//! What a thread does: operations drawn from a sequence that depends on the seed and the thread's number alone.

use super::calls::{self, describe, fail, Time};
use super::objects::{name, Guarded, MutexObject, Number, MUTEXES, OBJECTS, RWLOCKS, SPINS};
use super::short_lived::Graveyard;
use super::watch::Call;
use super::{Focus, Round};
use crate::affinity;
use crate::pthread::{Kind, RwLock};
use crate::random::Random;
use libc::{c_int, CLOCK_MONOTONIC, CLOCK_REALTIME, EBUSY, EDEADLK, EINVAL, EPERM, ETIMEDOUT};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// A clock that no lock function takes.
const WRONG_CLOCK: libc::clockid_t = libc::CLOCK_THREAD_CPUTIME_ID;

/// Tokens at most, so that waits without a limit go on happening.
const TOKENS: u32 = 8;

/// One thread of the round, and its successors.
pub(super) struct Worker<'a> {
    pub round: &'a Round<'a>,
    pub number: usize,
    pub random: Random,
    pub graveyard: Graveyard,
    acquired: [u64; OBJECTS],
    longest: Duration,
    operations: u64,
}

impl<'a> Worker<'a> {
    pub fn new(round: &'a Round<'a>, number: usize) -> Self {
        let random = Random::seeded(round.config.seed, (round.number as u64) << 32 | number as u64);
        let (graveyard, longest) = (Graveyard::default(), Duration::ZERO);
        Self { round, number, random, graveyard, acquired: [0; OBJECTS], longest, operations: 0 }
    }

    /// Operates until the round ends. Now and then the thread ends and leaves the rest to a new one.
    pub fn run<'scope>(mut self, scope: &'scope Scope<'scope, 'a>)
    where
        'a: 'scope,
    {
        self.choose_cpus();
        let lifetime = 1 + self.random.below(400);
        for _ in 0..lifetime {
            if self.round.stop.load(Relaxed) {
                return self.finish();
            }
            self.operation();
        }
        self.round.totals.threads_ended.fetch_add(1, Relaxed);
        let successor = std::thread::Builder::new();
        if let Err(error) = successor.spawn_scoped(scope, move || self.run(scope)) {
            fail(&format!("cannot start a thread: {error}"));
        }
    }

    /// Adds the thread's own counts to the round's.
    pub fn finish(mut self) {
        for (number, acquired) in self.acquired.iter().enumerate() {
            if let Some(data) = self.round.objects.data(number) {
                data.expected.fetch_add(*acquired, SeqCst);
            }
        }
        let buried = self.graveyard.clear();
        self.require(super::objects::SHORT_LIVED, buried);
        self.report();
    }

    fn report(&mut self) {
        self.round.totals.operations.fetch_add(std::mem::take(&mut self.operations), Relaxed);
        self.round.totals.longest_ns.fetch_max(self.longest.as_nanos() as u64, Relaxed);
    }

    fn choose_cpus(&mut self) {
        let cpus = &self.round.config.cpus;
        let choice = self.random.below(4 * cpus.len().max(1) as u32) as usize;
        // A CPU that was taken away meanwhile is no reason to stop.
        let _ = affinity::pin(cpus.get(choice..=choice).unwrap_or(cpus));
    }

    fn one_in(&mut self, n: u32) -> bool {
        self.random.below(n) == 0
    }

    fn operation(&mut self) {
        self.operations += 1;
        if self.operations == 64 {
            self.report();
        }
        let of_each = match self.round.config.focus {
            Focus::Mutex => [80, 10],
            Focus::RwLock => [15, 80],
            Focus::Spin => [15, 5],
        };
        let choice = self.random.below(100);
        if choice < of_each[0] {
            match self.random.below(32) {
                0 => self.make_short_lived(),
                1 | 2 => self.take_short_lived(),
                // Half of the rest meets at one mutex, another one in each round.
                3..=16 => self.mutex(self.round.number % MUTEXES, true),
                _ => {
                    let number = self.random.below(MUTEXES as u32) as usize;
                    self.mutex(number, true);
                }
            }
        } else if choice < of_each[0] + of_each[1] {
            let number = self.random.below(RWLOCKS as u32) as usize;
            self.rwlock(number);
        } else {
            let number = self.random.below(SPINS as u32) as usize;
            self.spin(number);
        }
        match self.random.below(32) {
            0 => std::thread::yield_now(),
            1 => self.nap(50),
            n if n < 16 => self.spin_for(300),
            _ => {}
        }
    }

    fn spin_for(&mut self, most: u32) {
        for _ in 0..self.random.below(most) {
            std::hint::spin_loop();
        }
    }

    fn nap(&mut self, most_us: u32) {
        std::thread::sleep(Duration::from_micros(u64::from(self.random.below(most_us))));
    }

    /// Stays inside for a while: mostly none, now and then long enough for waiters to go to sleep.
    pub fn hold(&mut self) {
        match self.random.below(512) {
            0..=255 => {}
            256..=489 => self.spin_for(500),
            490..=507 => std::thread::yield_now(),
            508..=510 => self.nap(400),
            _ => self.nap(3000),
        }
    }

    /// Makes a call, visible to the watching thread.
    pub fn call(&mut self, call: Call, object: Number, body: impl FnOnce() -> c_int) -> c_int {
        self.round.board.enter(self.number, call, object);
        let began = Instant::now();
        let code = body();
        // Waiting for a token is not waiting for a lock.
        if !matches!(call, Call::Wait | Call::TimedWait | Call::ClockWait | Call::ForkedChild) {
            self.longest = self.longest.max(began.elapsed());
        }
        self.round.board.leave(self.number);
        code
    }

    /// Ends the process when a call has returned something else than it may.
    pub fn expect(&self, call: Call, object: Number, code: c_int, allowed: &[c_int]) {
        if !allowed.contains(&code) {
            let allowed: Vec<String> = allowed.iter().map(|code| describe(*code)).collect();
            let (call, code, allowed) = (call.name(), describe(code), allowed.join(" or "));
            self.require(object, Err(format!("{call} returned {code} instead of {allowed}")));
        }
    }

    /// Ends the process on an error.
    pub fn require(&self, object: Number, result: Result<(), String>) {
        if let Err(problem) = result {
            fail(&format!("{}thread {}, {}: {problem}", self.round.prefix(), self.number, name(object)));
        }
    }

    fn data(&self, object: Number) -> &'a Guarded {
        let round = self.round;
        round.objects.data(object).unwrap_or_else(|| fail("no such object"))
    }

    fn enter(&mut self, object: Number) {
        self.acquired[object] += 1;
        self.require(object, self.data(object).enter(self.number));
    }

    fn leave(&mut self, object: Number) {
        self.require(object, self.data(object).leave(self.number));
    }

    /// A deadline: passed, near, or far enough to be met mostly.
    fn deadline(&mut self, clock: libc::clockid_t) -> Time {
        let ns = [-1_000_000_000, 0, 50_000, 1_000_000, 20_000_000][self.random.below(5) as usize];
        Time::after(clock, ns)
    }

    fn clock(&mut self) -> libc::clockid_t {
        [CLOCK_MONOTONIC, CLOCK_REALTIME][self.random.below(2) as usize]
    }

    /// Makes a call with a deadline, which may be too late but not early.
    fn call_until(&mut self, call: Call, object: Number, time: Time, body: impl FnOnce() -> c_int) -> c_int {
        let code = self.call(call, object, body);
        if code == ETIMEDOUT && !time.has_passed() {
            self.require(object, Err(format!("{} timed out early", call.name())));
        }
        self.expect(call, object, code, &[0, ETIMEDOUT]);
        code
    }

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
    fn mutex(&mut self, number: usize, nothing_held: bool) {
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

    pub(super) fn release(&mut self, number: usize) {
        let mutex = &*self.round.objects.mutexes[number].mutex;
        self.leave(number);
        let code = self.call(Call::Unlock, number, || calls::unlock(mutex));
        self.expect(Call::Unlock, number, code, &[0]);
    }

    /// An acquisition of an object that comes later in the order.
    fn next_object(&mut self, held: Number) {
        let next = held + 1 + self.random.below((OBJECTS - held - 1) as u32) as usize;
        match next {
            0..MUTEXES => self.mutex(next, false),
            _ if next < MUTEXES + RWLOCKS => self.rwlock(next - MUTEXES),
            _ => self.spin(next - MUTEXES - RWLOCKS),
        }
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

    /// One acquisition of a read-write lock.
    fn rwlock(&mut self, index: usize) {
        let object = &self.round.objects.rwlocks[index];
        let (lock, number) = (&*object.lock, MUTEXES + index);
        let writes = self.one_in(3);
        let code = match self.random.below(8) {
            0 if writes => self.try_call(Call::TryWrite, number, || calls::try_write(lock)),
            0 => self.try_call(Call::TryRead, number, || calls::try_read(lock)),
            1 => {
                let time = self.deadline(CLOCK_REALTIME);
                match writes {
                    true => self.call_until(Call::TimedWrite, number, time, || calls::timed_write(lock, time)),
                    false => self.call_until(Call::TimedRead, number, time, || calls::timed_read(lock, time)),
                }
            }
            2 => {
                let clock = self.clock();
                let time = self.deadline(clock);
                match writes {
                    true => self.call_until(Call::ClockWrite, number, time, || calls::clock_write(lock, time)),
                    false => self.call_until(Call::ClockRead, number, time, || calls::clock_read(lock, time)),
                }
            }
            _ => {
                let call = if writes { Call::Write } else { Call::Read };
                let code = self.call(call, number, || if writes { calls::write(lock) } else { calls::read(lock) });
                self.expect(call, number, code, &[0]);
                code
            }
        };
        if code != 0 {
            return;
        }
        if writes {
            self.enter(number);
            self.hold();
            if self.one_in(16) {
                let function = |function: fn(&RwLock) -> c_int| function;
                for (call, function, refusal) in [
                    (Call::TryRead, function(calls::try_read), EBUSY),
                    (Call::TryWrite, function(calls::try_write), EBUSY),
                    (Call::Read, function(calls::read), EDEADLK),
                    (Call::Write, function(calls::write), EDEADLK),
                ] {
                    let code = self.call(call, number, || function(lock));
                    self.expect(call, number, code, &[refusal]);
                }
            }
            self.leave(number);
        } else {
            let before = object.data.read();
            self.hold();
            if self.one_in(16) {
                self.expect(Call::TryWrite, number, calls::try_write(lock), &[EBUSY]);
                if object.readers_first {
                    let code = self.call(Call::Read, number, || calls::read(lock));
                    self.expect(Call::Read, number, code, &[0]);
                    let code = self.call(Call::RwUnlock, number, || calls::rw_unlock(lock));
                    self.expect(Call::RwUnlock, number, code, &[0]);
                }
            }
            let after = object.data.read();
            let same = before.and_then(|before| match after? {
                after if after == before => Ok(()),
                _ => Err("a writer was inside beside a reader".into()),
            });
            self.require(number, same);
        }
        if self.one_in(16) {
            self.next_object(number);
        }
        let code = self.call(Call::RwUnlock, number, || calls::rw_unlock(lock));
        self.expect(Call::RwUnlock, number, code, &[0]);
    }

    fn try_call(&mut self, call: Call, number: Number, body: impl FnOnce() -> c_int) -> c_int {
        let code = self.call(call, number, body);
        self.expect(call, number, code, &[0, EBUSY]);
        code
    }

    /// One acquisition of a spinlock.
    fn spin(&mut self, index: usize) {
        let (lock, number) = (&*self.round.objects.spins[index].lock, MUTEXES + RWLOCKS + index);
        if self.one_in(8) {
            if self.try_call(Call::SpinTryLock, number, || calls::spin_try_lock(lock)) != 0 {
                return;
            }
        } else {
            let code = self.call(Call::SpinLock, number, || calls::spin_lock(lock));
            self.expect(Call::SpinLock, number, code, &[0]);
        }
        self.enter(number);
        match self.random.below(32) {
            0 => std::thread::yield_now(),
            1 => self.expect(Call::SpinTryLock, number, calls::spin_try_lock(lock), &[EBUSY]),
            n if n < 8 => self.spin_for(200),
            _ => {}
        }
        self.leave(number);
        let code = self.call(Call::SpinUnlock, number, || calls::spin_unlock(lock));
        self.expect(Call::SpinUnlock, number, code, &[0]);
    }
}
