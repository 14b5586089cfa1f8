//! What a thread does. What its n-th operation tries depends on the seed, the round, the thread's number and n alone:
//! each operation draws from a sequence of its own, since how many choices one takes depends on what the locks answer.

use super::calls::{describe, fail, Time};
use super::objects::{name, Guarded, Number, MUTEXES, OBJECTS, RWLOCKS, SPINS};
use super::short_lived::Graveyard;
use super::watch::Call;
use super::{Focus, Round};
use crate::affinity;
use crate::random::Random;
use libc::{c_int, CLOCK_MONOTONIC, CLOCK_REALTIME, EBUSY, ETIMEDOUT};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// One thread of the round, and its successors.
pub(super) struct Worker<'a> {
    pub round: &'a Round<'a>,
    pub number: usize,
    /// The choices of the current operation.
    pub random: Random,
    /// Tells this thread's sequences from all others.
    seed: u64,
    /// Sequences begun.
    begun: u64,
    pub graveyard: Graveyard,
    acquired: [u64; OBJECTS],
    longest: Duration,
    operations: u64,
}

impl<'a> Worker<'a> {
    pub fn new(round: &'a Round<'a>, number: usize) -> Self {
        let seed = Random::seeded(round.config.seed, (round.number as u64) << 32 | number as u64).next();
        let (graveyard, longest) = (Graveyard::default(), Duration::ZERO);
        let (random, acquired) = (Random::seeded(seed, 0), [0; OBJECTS]);
        Self { round, number, random, seed, begun: 1, graveyard, acquired, longest, operations: 0 }
    }

    fn begin_choices(&mut self) {
        self.random = Random::seeded(self.seed, self.begun);
        self.begun += 1;
    }

    /// Operates until the round ends. Now and then the thread ends and leaves the rest to a new one.
    pub fn run<'scope>(mut self, scope: &'scope Scope<'scope, 'a>)
    where
        'a: 'scope,
    {
        self.begin_choices();
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

    pub fn one_in(&mut self, n: u32) -> bool {
        self.random.below(n) == 0
    }

    fn operation(&mut self) {
        self.begin_choices();
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

    pub fn spin_for(&mut self, most: u32) {
        for _ in 0..self.random.below(most) {
            std::hint::spin_loop();
        }
    }

    pub fn nap(&mut self, most_us: u32) {
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

    pub fn data(&self, object: Number) -> &'a Guarded {
        let round = self.round;
        round.objects.data(object).unwrap_or_else(|| fail("no such object"))
    }

    pub fn enter(&mut self, object: Number) {
        self.acquired[object] += 1;
        self.require(object, self.data(object).enter(self.number));
    }

    pub fn leave(&mut self, object: Number) {
        self.require(object, self.data(object).leave(self.number));
    }

    /// A deadline: passed, near, or far enough to be met mostly.
    pub fn deadline(&mut self, clock: libc::clockid_t) -> Time {
        let ns = [-1_000_000_000, 0, 50_000, 1_000_000, 20_000_000][self.random.below(5) as usize];
        Time::after(clock, ns)
    }

    pub fn clock(&mut self) -> libc::clockid_t {
        [CLOCK_MONOTONIC, CLOCK_REALTIME][self.random.below(2) as usize]
    }

    /// Makes a call with a deadline, which may be too late but not early.
    pub fn call_until(&mut self, call: Call, object: Number, time: Time, body: impl FnOnce() -> c_int) -> c_int {
        let code = self.call(call, object, body);
        if code == ETIMEDOUT && !time.has_passed() {
            self.require(object, Err(format!("{} timed out early", call.name())));
        }
        self.expect(call, object, code, &[0, ETIMEDOUT]);
        code
    }

    /// Makes a call that does not wait.
    pub fn try_call(&mut self, call: Call, number: Number, body: impl FnOnce() -> c_int) -> c_int {
        let code = self.call(call, number, body);
        self.expect(call, number, code, &[0, EBUSY]);
        code
    }

    /// An acquisition of an object that comes later in the order.
    pub fn next_object(&mut self, held: Number) {
        let next = held + 1 + self.random.below((OBJECTS - held - 1) as u32) as usize;
        match next {
            0..MUTEXES => self.mutex(next, false),
            _ if next < MUTEXES + RWLOCKS => self.rwlock(next - MUTEXES),
            _ => self.spin(next - MUTEXES - RWLOCKS),
        }
    }
}
