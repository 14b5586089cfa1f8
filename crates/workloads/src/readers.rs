//! Readers and writers of one read-write lock. A writer increments every line of an array, a reader sees whether all
//! hold the same number.

use crate::crew::{gather, Crew, Phase, Timing};
use crate::lines::{check, lines, touch, Line};
use crate::record::Record;
use crate::report::{About, Report};
use crate::section::now;
use crate::ReadWrite;
use lockswap_platform::Platform;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReadersConfig", deny_unknown_fields)]
pub struct Config {
    /// Threads, each of which reads and writes.
    pub threads: usize,
    /// How long.
    pub timing: Timing,
    /// Share of the operations that read, percent.
    pub reads: u32,
    /// Lines of the array, at least 1.
    pub lines: usize,
    /// Steps that a reader computes inside.
    pub reading: u64,
    /// Steps that a writer computes inside.
    pub writing: u64,
    /// Steps that a thread computes between two operations.
    pub outside: u64,
}

impl Config {
    /// Nine reads for a write, about 50 ns inside and 200 ns outside, on 4 lines; for half a second.
    pub const fn new(threads: usize) -> Self {
        let timing = Timing::lasting(500_000_000);
        Self { threads, timing, reads: 90, lines: 4, reading: 32, writing: 32, outside: 128 }
    }
}

const READ: usize = 1;
const WRITE: usize = 2;

/// Runs the workload on `lock`. The times are waits for the lock, of all operations, of reads and of writes.
///
/// # Panics
/// If a reader saw what a writer had half done, or an increment was lost, which means that the lock did not exclude;
/// if there are no threads or lines, or `reads` is over 100.
pub fn run<P: Platform, L: ReadWrite>(config: &Config, crew: &dyn Crew, lock: &L) -> Report {
    assert!(config.reads <= 100, "reads is {}, over 100", config.reads);
    assert!(config.lines > 0, "an array without a line");
    let shared = lines::<P>(config.lines);
    let classes = &["", "read", "write"];
    let (records, elapsed) = gather(crew, config.threads, config.timing, |member| {
        let mut record = Record::new(member, classes.len());
        let mut random = member.random();
        let work = [config.reading, config.writing, config.outside].map(|steps| member.paced(steps));
        loop {
            let seen = member.signal.phase();
            if seen == Phase::Stop {
                return record;
            }
            let is_read = random.below(100) < config.reads;
            let asked = now::<P>();
            let (entered, measured) = if is_read {
                lock.read();
                let entered = now::<P>();
                let measured = member.signal.measured(asked, entered);
                assert!(alike(&shared), "the lock did not exclude: a reader saw a half-done write");
                P::compute(work[0]);
                lock.unlock_read();
                (entered, measured)
            } else {
                lock.write();
                let entered = now::<P>();
                let measured = member.signal.measured(asked, entered);
                touch(&shared, shared.len() as u64);
                P::compute(work[1]);
                lock.unlock_write();
                record.made += shared.len() as u64;
                (entered, measured)
            };
            if seen == Phase::Measure || measured > 0 {
                record.time(0, entered - asked);
                record.time(if is_read { READ } else { WRITE }, entered - asked);
            }
            record.waited += measured;
            record.ops += u64::from(seen == Phase::Measure && member.signal.phase() == Phase::Measure);
            P::compute(work[2]);
        }
    });
    check(&records, &shared);
    Report::new(&records, elapsed, About { timed: "wait", classes, waits: true, handoffs: false })
}

fn alike<P: Platform>(lines: &[Line<P>]) -> bool {
    let first = lines[0].get();
    lines.iter().all(|line| line.get() == first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;
    use crate::pthread::RwLock;
    use lockswap_platform::Native;

    fn short(threads: usize) -> Config {
        Config { timing: Timing::lasting(50_000_000), ..Config::new(threads) }
    }

    #[test]
    fn reads_and_writes_are_as_many_as_wanted() {
        let report = run::<Native, _>(&short(2), &Hardware::default(), &*RwLock::new());
        let [all, reads, writes] = ["all", "read", "write"].map(|class| report.latency[class].count);
        assert_eq!(reads + writes, all);
        assert!(report.ops > 100 && (0.8..0.97).contains(&(reads as f64 / all as f64)), "{reads} of {all}");
        let only = run::<Native, _>(&Config { reads: 0, ..short(2) }, &Hardware::default(), &*RwLock::new());
        assert_eq!(only.latency["read"].count, 0);
    }

    #[test]
    fn a_lock_that_lets_readers_in_beside_a_writer_is_found() {
        struct Broken;
        impl ReadWrite for Broken {
            fn read(&self) {}
            fn unlock_read(&self) {}
            fn write(&self) {}
            fn unlock_write(&self) {}
        }
        let config = Config { reads: 50, outside: 0, lines: 64, ..short(4) };
        let caught = (0..40).any(|_| {
            let config = config.clone();
            let crew = Hardware::default();
            let outcome = std::thread::spawn(move || run::<Native, _>(&config, &crew, &Broken)).join();
            outcome.is_err()
        });
        assert!(caught);
    }
}
