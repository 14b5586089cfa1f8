//! The Linux kernel's own test of its spinlocks as a benchmark, which CNA's paper measured (Dice, Kogan: EuroSys 2019,
//! section 7.2.1): threads take one lock again and again, and stay inside for a while now and then, the more seldom
//! the more threads there are.
//!
//! After `kernel/locking/locktorture.c` of Linux 6.1: a holder writes a flag, counts in a line that four threads
//! share, draws three random numbers, and delays for 2 us one time in 4 times the number of threads. The divisions
//! take the most of that time: 32 to 96 cycles each (Fog, instruction tables: DIV r64, Haswell). Left out: the delay
//! of 100 ms one time in 200,000 times the number of threads, which comes once in seconds; what a thread does between
//! two acquisitions is one draw.

use crate::crew::{Crew, Timing};
use crate::lines::{check, lines, Line};
use crate::random::Random;
use crate::record::Detail;
use crate::report::Report;
use crate::section::{self, On, Round, Rounds};
use crate::Mutex;
use lockswap_platform::{Ns, Platform};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Threads whose counts are in one line: two numbers of 8 bytes each.
const SHARE_A_LINE: usize = 4;

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LocktortureConfig", deny_unknown_fields)]
pub struct Config {
    /// Threads.
    pub threads: usize,
    /// How long.
    pub timing: Timing,
    /// Steps that the holder computes: three draws.
    pub inside: u64,
    /// Steps between two acquisitions: a draw.
    pub outside: u64,
    /// How long a delay is, ns.
    pub delay: Ns,
    /// One acquisition in so many times the number of threads has a delay.
    pub seldom: u32,
    /// What is noted.
    pub detail: Detail,
}

impl Config {
    /// As in the kernel.
    pub const fn new(threads: usize) -> Self {
        let (timing, detail) = (Timing::lasting(200_000_000), Detail::Handoffs);
        Self { threads, timing, inside: 20, outside: 7, delay: 2_000, seldom: 4, detail }
    }
}

/// What one thread does.
struct Torturing<'a, P: Platform> {
    flag: &'a Line<P>,
    count: &'a Line<P>,
    inside: u64,
    outside: u64,
    delay: Ns,
    one_in: u32,
    random: Random,
}

impl<P: Platform> Round for Torturing<'_, P> {
    #[inline]
    fn inside(&mut self) -> u64 {
        self.flag.increment();
        self.count.increment();
        P::compute(self.inside);
        if self.random.below(self.one_in) == 0 {
            P::keep_busy(self.delay);
        }
        2
    }

    #[inline]
    fn outside(&mut self) {
        P::compute(self.outside);
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
fn run_on<P: Platform>(config: &Config, crew: &dyn Crew, lock: &dyn for<'a> Rounds<Torturing<'a, P>>) -> Report {
    let (flag, counts) = (lines::<P>(1), lines::<P>(config.threads.div_ceil(SHARE_A_LINE)));
    let plan = (config.threads, config.timing, config.detail);
    let (records, _, elapsed) = section::rounds(lock, crew, plan, |member| Torturing {
        flag: &flag[0],
        count: &counts[member.number / SHARE_A_LINE],
        inside: member.paced(config.inside),
        outside: member.paced(config.outside),
        delay: member.paced(config.delay),
        one_in: config.seldom.saturating_mul(config.threads as u32),
        random: member.random(),
    });
    check(&records, flag.iter().chain(&counts));
    Report::new(&records, elapsed, section::about(config.detail))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;
    use crate::pthread::{Kind, Mutex as PthreadMutex};
    use lockswap_platform::Native;

    /// Of its delays see `tests/workloads.rs` of `crates/sim`.
    #[test]
    fn no_increment_is_lost_with_more_threads_than_share_a_line() {
        let mutex = PthreadMutex::new(Kind::Normal);
        let config = Config { timing: Timing::lasting(20_000_000), ..Config::new(SHARE_A_LINE + 1) };
        let report = run::<Native, _>(&config, &Hardware::default(), &*mutex);
        assert!(report.ops > 0, "{report:?}");
    }
}
