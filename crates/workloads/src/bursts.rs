//! Threads whose acquisitions come in bursts: each thread takes the lock some times in a row, then stays away for
//! long. How many threads compete therefore changes all the time, and what a lock learns from the last acquisitions
//! may be wrong for the next ones.

use crate::crew::{Crew, Timing};
use crate::lines::{check, lines, touch, Line};
use crate::random::Random;
use crate::record::Detail;
use crate::report::Report;
use crate::section::{self, On, Round, Rounds};
use crate::Mutex;
use lockswap_platform::Platform;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BurstsConfig", deny_unknown_fields)]
pub struct Config {
    /// Threads.
    pub threads: usize,
    /// How long.
    pub timing: Timing,
    /// Steps that the holder computes.
    pub inside: u64,
    /// Steps that a thread computes between two acquisitions of a burst.
    pub outside: u64,
    /// Acquisitions of a burst.
    pub burst: u64,
    /// Steps that a thread computes between two bursts; drawn anew each time, half as many to half as many again.
    pub away: u64,
    /// What is noted.
    pub detail: Detail,
}

impl Config {
    /// 30 acquisitions, each with some 100 ns inside and outside, then some 100 us without the lock.
    pub const fn new(threads: usize) -> Self {
        let (timing, detail) = (Timing::lasting(500_000_000), Detail::Counts);
        Self { threads, timing, inside: 50, outside: 50, burst: 30, away: 50_000, detail }
    }
}

/// What one thread does.
struct Bursting<'a, P: Platform> {
    lines: &'a [Line<P>],
    inside: u64,
    outside: u64,
    burst: u64,
    /// Acquisitions that are left of this burst.
    left: u64,
    away: u64,
    random: Random,
}

impl<P: Platform> Round for Bursting<'_, P> {
    #[inline]
    fn inside(&mut self) -> u64 {
        touch(self.lines, 1);
        P::compute(self.inside);
        1
    }

    #[inline]
    fn outside(&mut self) {
        self.left -= 1;
        if self.left > 0 {
            P::compute(self.outside);
        } else {
            self.left = self.burst;
            P::compute(self.away * u64::from(50 + self.random.below(101)) / 100);
        }
    }
}

/// Runs the workload on `mutex`. The times are waits for the lock.
///
/// # Panics
/// If an increment was lost, which means that the lock did not exclude; if there are no threads.
pub fn run<P: Platform, M: Mutex>(config: &Config, crew: &dyn Crew, mutex: &M) -> Report {
    run_on::<P>(config, crew, &On::<P, M>::new(mutex))
}

/// [`run`], compiled once for all locks.
fn run_on<P: Platform>(config: &Config, crew: &dyn Crew, lock: &dyn for<'a> Rounds<Bursting<'a, P>>) -> Report {
    let shared = lines::<P>(1);
    let plan = (config.threads, config.timing, config.detail);
    let (records, _, elapsed) = section::rounds(lock, crew, plan, |member| Bursting {
        lines: &shared,
        inside: member.paced(config.inside),
        outside: member.paced(config.outside),
        burst: config.burst,
        left: config.burst,
        away: member.paced(config.away),
        random: member.random(),
    });
    check(&records, &shared);
    Report::new(&records, elapsed, section::about(config.detail))
}
