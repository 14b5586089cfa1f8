//! Threads that go through phases together: every phase has its own length of the critical section and of what is done
//! between two acquisitions, so that a lock that has adapted itself to one phase meets another one.
//!
//! A thread looks at the clock after each critical section to know which phase it is in.

use crate::crew::{Crew, Timing};
use crate::lines::{check, lines, touch, Line};
use crate::record::Detail;
use crate::report::Report;
use crate::section::{self, now, On, Round, Rounds};
use crate::Mutex;
use lockswap_platform::{Ns, Platform};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PhasesConfig", deny_unknown_fields)]
pub struct Config {
    /// Threads.
    pub threads: usize,
    /// How long.
    pub timing: Timing,
    /// Steps that the holder computes, phase by phase, and again from the first.
    pub inside: Vec<u64>,
    /// Steps that a thread computes between two acquisitions, phase by phase, and again from the first.
    pub outside: Vec<u64>,
    /// Length of a phase, ns.
    pub phase: Ns,
    /// What is noted.
    pub detail: Detail,
}

impl Config {
    /// The lock is always wanted, then seldom, then wanted for ten times as long; 2 ms each.
    pub fn new(threads: usize) -> Self {
        let (timing, detail) = (Timing::lasting(500_000_000), Detail::Counts);
        let (inside, outside) = (vec![50, 50, 500], vec![50, 10_000, 500]);
        Self { threads, timing, inside, outside, phase: 2_000_000, detail }
    }
}

/// What one thread does.
struct Changing<'a, P: Platform> {
    lines: &'a [Line<P>],
    inside: Vec<u64>,
    outside: Vec<u64>,
    began: Ns,
    length: Ns,
    /// The number of the phase, which only grows.
    phase: usize,
}

impl<P: Platform> Round for Changing<'_, P> {
    #[inline]
    fn inside(&mut self) -> u64 {
        touch(self.lines, 1);
        P::compute(self.inside[self.phase % self.inside.len()]);
        1
    }

    #[inline]
    fn outside(&mut self) {
        self.phase = (now::<P>().saturating_sub(self.began) / self.length) as usize;
        P::compute(self.outside[self.phase % self.outside.len()]);
    }
}

/// Runs the workload on `mutex`. The times are waits for the lock.
///
/// # Panics
/// If an increment was lost, which means that the lock did not exclude; if there are no threads, or no phases.
pub fn run<P: Platform, M: Mutex>(config: &Config, crew: &dyn Crew, mutex: &M) -> Report {
    run_on::<P>(config, crew, &On::<P, M>::new(mutex))
}

/// [`run`], compiled once for all locks.
fn run_on<P: Platform>(config: &Config, crew: &dyn Crew, lock: &dyn for<'a> Rounds<Changing<'a, P>>) -> Report {
    let shared = lines::<P>(1);
    let began = now::<P>();
    let plan = (config.threads, config.timing, config.detail);
    let (records, _, elapsed) = section::rounds(lock, crew, plan, |member| Changing {
        lines: &shared,
        inside: config.inside.iter().map(|steps| member.paced(*steps)).collect(),
        outside: config.outside.iter().map(|steps| member.paced(*steps)).collect(),
        began,
        length: config.phase,
        phase: 0,
    });
    check(&records, &shared);
    Report::new(&records, elapsed, section::about(config.detail))
}
