//! Threads that wake each other through condition variables of one mutex: a ring around which a turn goes (with two
//! threads that is ping-pong), and a bounded queue between threads that put and threads that take.
//!
//! On hardware only, because the locks of the catalogue have no condition variables: these are the pthread functions,
//! which a preloaded library replaces together with the mutex.

use crate::crew::{gather, Crew, Member, Phase, Timing};
use crate::pthread::{Cond, Kind, Mutex};
use crate::record::Record;
use crate::report::{About, Report};
use lockswap_platform::{Native, Platform};
use serde::{Deserialize, Serialize};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Who wakes whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Each thread waits for its turn and gives it to the next one. An operation is a turn.
    Ring,
    /// Every other thread puts items into a queue, the others take them out. An operation is an item put, or taken.
    Queue,
}

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// Threads, at least 2.
    pub threads: usize,
    /// How long.
    pub timing: Timing,
    /// Who wakes whom.
    pub shape: Shape,
    /// Items that the queue holds at most.
    pub capacity: u64,
    /// Steps that a thread computes between two operations.
    pub outside: u64,
}

impl Config {
    /// Nothing but the waking, or a queue of 16 items.
    pub fn new(shape: Shape, threads: usize) -> Self {
        Self { threads, timing: Timing::lasting(500_000_000), shape, capacity: 16, outside: 0 }
    }
}

/// The mutex, and what it guards. The numbers are relaxed atomics, so that a mutex that does not exclude loses
/// operations instead of being undefined behaviour.
struct Shared<'a> {
    config: &'a Config,
    mutex: Pin<Box<Mutex>>,
    /// In a ring one for each thread; in a queue, the first for those who take and the second for those who put.
    conds: Vec<Pin<Box<Cond>>>,
    /// Operations so far. In a ring it is the turn of thread `made` modulo their number.
    made: AtomicU64,
    /// Items in the queue.
    items: AtomicU64,
    ended: AtomicBool,
}

impl Shared<'_> {
    /// One operation of a thread; whether it was made, which it is not at the end.
    fn operation(&self, thread: u64) -> bool {
        let count = match self.config.shape {
            Shape::Ring => self.config.threads as u64,
            Shape::Queue => 2,
        };
        let role = thread % count;
        let may = || match self.config.shape {
            Shape::Ring => self.made.load(Relaxed) % count == role,
            Shape::Queue if role == 0 => self.items.load(Relaxed) < self.config.capacity,
            Shape::Queue => self.items.load(Relaxed) > 0,
        };
        let (own, next) = match self.config.shape {
            Shape::Ring => (role, (role + 1) % count),
            // Who puts waits for room, the second condition, and wakes somebody who waits for an item, the first one.
            Shape::Queue => (1 - role, role),
        };
        self.mutex.lock();
        while !may() && !self.ended.load(Relaxed) {
            self.conds[own as usize].wait(&self.mutex);
        }
        let made = !self.ended.load(Relaxed);
        if made {
            self.made.store(self.made.load(Relaxed) + 1, Relaxed);
            let items = self.items.load(Relaxed);
            match self.config.shape {
                Shape::Queue if role == 0 => self.items.store(items + 1, Relaxed),
                Shape::Queue => self.items.store(items - 1, Relaxed),
                Shape::Ring => {}
            }
            self.conds[next as usize].signal();
        }
        self.mutex.unlock();
        made
    }

    /// Lets all waits end.
    fn end(&self) {
        self.mutex.lock();
        self.ended.store(true, Relaxed);
        self.conds.iter().for_each(|cond| cond.broadcast());
        self.mutex.unlock();
    }

    fn work(&self, member: &Member<'_>) -> Record {
        let mut record = Record::new(member, 0);
        loop {
            let seen = member.signal.phase();
            if seen == Phase::Stop {
                self.end();
                return record;
            }
            if self.operation(member.number as u64) {
                record.made += 1;
                record.ops += u64::from(seen == Phase::Measure && member.signal.phase() == Phase::Measure);
            }
            Native::compute(member.paced(self.config.outside));
        }
    }
}

/// Runs the workload on the pthread functions of this process. Nothing is timed.
///
/// # Panics
/// If an operation was lost, which means that the mutex did not exclude; if there are fewer than two threads.
pub fn run(config: &Config, crew: &dyn Crew) -> Report {
    assert!(config.threads >= 2, "one thread has nobody to wake it");
    let conds = (0..config.threads.max(2)).map(|_| Cond::new()).collect();
    let (made, items, ended) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let shared = Shared { config, mutex: Mutex::new(Kind::Normal), conds, made, items, ended };
    let (records, elapsed) = gather(crew, config.threads, config.timing, |member| shared.work(member));
    let own: u64 = records.iter().map(|record| record.made).sum();
    let kept = shared.made.load(Relaxed);
    assert!(own == kept, "the mutex did not exclude: {own} operations left {kept}");
    Report::new(&records, elapsed, About::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;

    fn run_here(shape: Shape, threads: usize) -> Report {
        let timing = Timing::lasting(50_000_000);
        run(&Config { timing, outside: 10, ..Config::new(shape, threads) }, &Hardware::default())
    }

    /// The turn goes around: nobody completes more than one operation more than another thread. What is counted may
    /// differ by two more. An operation counts if its thread sees the measurement before and after it: at the
    /// beginning a thread may wait inside an operation already, which is not counted, while another one has not begun
    /// its own; at the end a thread may lose its CPU between its operation and the look at the clock.
    #[test]
    fn a_ring_is_fair_and_ends() {
        for threads in [2, 5] {
            let report = run_here(Shape::Ring, threads);
            let ops = report.per_thread.iter().map(|thread| thread.ops);
            let (least, most) = (ops.clone().min().expect("threads"), ops.max().expect("threads"));
            assert!(report.ops > 0 && most - least <= 3, "{report:?}");
        }
    }

    /// What is put is taken, but for what the queue holds.
    #[test]
    fn a_queue_holds_no_more_than_its_capacity() {
        for threads in [2, 5] {
            let report = run_here(Shape::Queue, threads);
            let of = |role| report.per_thread.iter().skip(role).step_by(2).map(|thread| thread.ops).sum::<u64>();
            assert!(report.ops > 0 && of(0).abs_diff(of(1)) <= 16 + threads as u64, "{report:?}");
        }
    }
}
