//! A shared array in the critical section, and a timed non-critical section (Lo, Chen, Cheng, Wu, Shih: RON, OSDI
//! 2023, algorithm 4).
//!
//! A non-critical section ends at the first look at the clock that finds more time passed than 0.85 to 1.15 times its
//! stated length. That is drawn anew at each look, so that most end soon after 0.85 times.
//!
//! Deviation from the paper: its array has 100 numbers in "2 cache lines", here the lines are a parameter.

use crate::crew::{Crew, Timing};
use crate::lines::{check, lines, touch, Line};
use crate::random::Random;
use crate::record::Detail;
use crate::report::Report;
use crate::section::{self, On, Round, Rounds};
use crate::Mutex;
use lockswap_platform::{Clock, Ns, Platform};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Steps for 100 increments, a cycle each: the paper's array.
pub const INSIDE: u64 = 17;

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NcsConfig", deny_unknown_fields)]
pub struct Config {
    /// Threads.
    pub threads: usize,
    /// How long.
    pub timing: Timing,
    /// Lines of the array; every critical section increments each. 0: the lock alone, as in figure 8.
    pub lines: usize,
    /// Steps that the holder computes, besides.
    pub inside: u64,
    /// Length of the non-critical section, ns; at each look at the clock 0.85 to 1.15 times as much is taken for its
    /// end.
    pub ncs: Ns,
    /// What is noted.
    pub detail: Detail,
}

impl Config {
    /// The paper's figure 10: 10 us between two critical sections. Two lines are a guess.
    pub const fn new(threads: usize) -> Self {
        let (timing, detail) = (Timing::lasting(200_000_000), Detail::Handoffs);
        Self { threads, timing, lines: 2, inside: INSIDE, ncs: 10_000, detail }
    }
}

/// What one thread does.
struct Sharing<'a, P: Platform> {
    lines: &'a [Line<P>],
    touches: u64,
    inside: u64,
    ncs: Ns,
    random: Random,
}

impl<P: Platform> Round for Sharing<'_, P> {
    #[inline]
    fn inside(&mut self) -> u64 {
        touch(self.lines, self.touches);
        P::compute(self.inside);
        self.touches * u64::from(!self.lines.is_empty())
    }

    #[inline]
    fn outside(&mut self) {
        if self.ncs > 0 {
            let now = || P::now(Clock::Monotonic);
            let begin = now();
            let part = |thousandths: u32| self.ncs * u64::from(thousandths) / 1000;
            // No look before that ends it.
            P::keep_busy(part(850));
            while now() - begin < part(850 + self.random.below(301)) {}
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
fn run_on<P: Platform>(config: &Config, crew: &dyn Crew, lock: &dyn for<'a> Rounds<Sharing<'a, P>>) -> Report {
    let shared = lines::<P>(config.lines);
    let plan = (config.threads, config.timing, config.detail);
    let (records, _, elapsed) = section::rounds(lock, crew, plan, |member| Sharing {
        lines: &shared,
        touches: member.paced(config.lines as u64),
        inside: member.paced(config.inside),
        ncs: member.paced(config.ncs),
        random: member.random(),
    });
    check(&records, &shared);
    Report::new(&records, elapsed, section::about(config.detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;
    use crate::pthread::{Kind, Mutex as PthreadMutex};
    use lockswap_platform::Native;

    /// Of how often threads meet see `tests/workloads.rs` of `crates/sim`.
    #[test]
    fn a_pause_is_no_shorter_than_it_should_be() {
        let mutex = PthreadMutex::new(Kind::Normal);
        let config = Config { timing: Timing::lasting(50_000_000), inside: 0, ncs: 20_000, ..Config::new(2) };
        let report = run::<Native, _>(&config, &Hardware::default(), &*mutex);
        assert!(report.ops > 0 && report.round_ns > 17_000.0, "{report:?}");
    }
}
