//! Torture for pthread locks: many threads do everything that programs do to locks, at random, and every result is
//! checked.
//!
//! A run is a sequence of rounds. Each makes fresh objects and threads, lets the threads operate for a while, ends
//! them and compares the protected data with what the threads did. A failure writes one message to standard error and
//! ends the process with [`FAILED`].

mod calls;
mod fork;
mod mutexes;
mod objects;
mod others;
mod short_lived;
mod watch;
mod worker;

use crate::affinity;
use crate::random::Random;
use calls::fail;
use objects::{Objects, MUTEXES};
use short_lived::Mailbox;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::time::{Duration, Instant};
use watch::{Board, Call, Watch};
use worker::Worker;

/// Exit status of a process whose locks failed.
pub const FAILED: i32 = 3;

/// The kind of lock that gets most of the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Focus {
    /// `pthread_mutex_t`
    Mutex,
    /// `pthread_rwlock_t`
    RwLock,
    /// `pthread_spinlock_t`
    Spin,
}

/// What to run.
#[derive(Clone, Debug)]
pub struct Config {
    /// What a thread's n-th operation tries is a function of this, the round, the thread's number and n.
    pub seed: u64,
    /// Threads of the rounds, in turn; each at least 2.
    pub threads: Vec<usize>,
    /// Time for all rounds.
    pub duration: Duration,
    /// An object that nobody gets for this long although somebody waits for it is broken.
    pub patience: Duration,
    /// The kind of lock that gets most of the operations.
    pub focus: Focus,
    /// The functions are glibc's: leave out what only lockswap promises.
    pub glibc: bool,
    /// End with `exit` in the middle of the last round, while threads hold and await locks.
    pub ends_inside: bool,
    /// CPUs to use.
    pub cpus: Vec<usize>,
}

impl Config {
    /// Mutexes, for `duration`, on all CPUs, with the defaults of the command.
    pub fn new(seed: u64, duration: Duration) -> Self {
        Self {
            seed,
            threads: vec![2, 4, 16, 64],
            duration,
            patience: Duration::from_secs(10),
            focus: Focus::Mutex,
            glibc: true,
            // A quarter of the seeds end in the ordinary way.
            ends_inside: !Random::seeded(seed, u64::MAX).next().is_multiple_of(4),
            cpus: affinity::allowed(),
        }
    }
}

/// What the run did, all of it with the expected results.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Operations that the threads began, each of which makes one to some dozens of calls.
    pub operations: u64,
    /// Exclusive acquisitions of the lasting objects.
    pub acquisitions: u64,
    /// Children that were forked and ended well.
    pub forks: u64,
    /// Threads that ended while others went on.
    pub threads_ended: u64,
    /// Longest wait for one acquisition.
    pub longest_wait: Duration,
}

#[derive(Default)]
pub(crate) struct Totals {
    operations: AtomicU64,
    acquisitions: AtomicU64,
    forks: AtomicU64,
    threads_ended: AtomicU64,
    longest_ns: AtomicU64,
}

impl Totals {
    fn report(&self, objects: Option<&Objects>) -> Report {
        Report {
            operations: self.operations.load(Relaxed),
            acquisitions: self.acquisitions.load(Relaxed) + objects.map_or(0, Objects::acquisitions),
            forks: self.forks.load(Relaxed),
            threads_ended: self.threads_ended.load(Relaxed),
            longest_wait: Duration::from_nanos(self.longest_ns.load(Relaxed)),
        }
    }
}

pub(crate) struct Round<'a> {
    config: &'a Config,
    totals: &'a Totals,
    number: usize,
    threads: usize,
    objects: Objects,
    board: Board,
    mailbox: Mailbox,
    /// No more operations are begun.
    stop: AtomicBool,
    /// The next thread that holds a mutex calls `exit`.
    exit: AtomicBool,
    /// A thread forks or waits for its child.
    forking: AtomicBool,
}

/// Longest round.
const ROUND: Duration = Duration::from_millis(500);

/// Tortures the locks. `report` is called with the result right before the run ends, be it by `exit`.
pub fn run(config: &Config, report: impl FnOnce(&Report)) {
    let totals = Totals::default();
    // Each number of threads gets a round.
    let length = (config.duration / config.threads.len().max(1) as u32).min(ROUND);
    let begin = Instant::now();
    for number in 0.. {
        let threads = config.threads[number % config.threads.len()];
        let round = Round::new(config, &totals, number, threads);
        let last = begin.elapsed() + length + length / 2 >= config.duration;
        if last && config.ends_inside {
            round.run(length, |round| report(&totals.report(Some(&round.objects))), true);
            return;
        }
        round.run(length, |_| {}, false);
        totals.acquisitions.fetch_add(round.objects.acquisitions(), Relaxed);
        if last {
            return report(&totals.report(None));
        }
    }
}

impl<'a> Round<'a> {
    fn new(config: &'a Config, totals: &'a Totals, number: usize, threads: usize) -> Self {
        Self {
            config,
            totals,
            number,
            threads,
            objects: Objects::new(),
            // The main thread has the last place but one, the wait for all threads the last.
            board: Board::new(threads + 2),
            mailbox: Mailbox::default(),
            stop: AtomicBool::new(false),
            exit: AtomicBool::new(false),
            forking: AtomicBool::new(false),
        }
    }

    /// How messages begin.
    fn prefix(&self) -> String {
        format!("round {} with {} threads: ", self.number, self.threads)
    }

    /// Operates for `length`, calls `at_end`, and ends the threads, or the process from inside of them.
    fn run(&self, length: Duration, at_end: impl FnOnce(&Self), by_exit: bool) {
        let over = AtomicBool::new(false);
        let (board, objects, stop) = (&self.board, &self.objects, &self.stop);
        let watch = Watch { board, objects, stop, over: &over, patience: self.config.patience, prefix: self.prefix() };
        std::thread::scope(|outer| {
            outer.spawn(|| watch.run());
            std::thread::scope(|scope| {
                for number in 0..self.threads {
                    let worker = Worker::new(self, number);
                    scope.spawn(move || worker.run(scope));
                }
                self.supervise(length, at_end, by_exit);
                self.board.enter(self.threads + 1, Call::Join, 0);
            });
            self.board.leave(self.threads + 1);
            over.store(true, Relaxed);
        });
        if let Err(problem) = self.objects.check() {
            fail(&format!("{}{problem}", self.prefix()));
        }
    }

    fn supervise(&self, length: Duration, at_end: impl FnOnce(&Self), by_exit: bool) {
        let mut main = Worker::new(self, self.threads);
        let begin = Instant::now();
        let until = |main: &mut Worker<'_>, time| {
            while begin.elapsed() < time {
                main.beat();
            }
        };
        until(&mut main, length / 2);
        // However few forks the threads choose, each round has one, while they queue for the busiest mutex.
        main.fork_holding(self.number % MUTEXES);
        until(&mut main, length);
        at_end(self);
        if by_exit {
            self.exit.store(true, SeqCst);
            loop {
                main.beat();
            }
        }
        // A waiter looks at it while it holds the mutex; those that looked too early get the broadcast.
        self.stop.store(true, SeqCst);
        (0..MUTEXES).for_each(|number| main.send_home(number));
        main.take_short_lived();
        main.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_seeds_end_inside() {
        let inside = |seed| Config::new(seed, Duration::ZERO).ends_inside;
        assert!((0..20).any(inside) && !(0..20).all(inside));
    }
}
