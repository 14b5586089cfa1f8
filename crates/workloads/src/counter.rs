//! Threads that count under one lock: the lock alone, or with a computation inside and outside (`oversub`, where there
//! are more threads than CPUs).

use crate::crew::{Crew, Timing};
use crate::lines::{check, lines, Line};
use crate::record::Detail;
use crate::report::Report;
use crate::section::{self, On, Round, Rounds};
use crate::Mutex;
use lockswap_platform::Platform;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "CounterConfig", deny_unknown_fields)]
pub struct Config {
    /// Threads that compete.
    pub threads: usize,
    /// How long.
    pub timing: Timing,
    /// Steps that the holder computes ([`Platform::compute`]).
    pub inside: u64,
    /// Steps that a thread computes between two acquisitions.
    pub outside: u64,
    /// What is noted.
    pub detail: Detail,
}

impl Config {
    /// Nothing but the lock and the number, for half a second.
    pub const fn bare(threads: usize) -> Self {
        let timing = Timing::lasting(500_000_000);
        Self { threads, timing, inside: 0, outside: 0, detail: Detail::Counts }
    }

    /// About 50 ns inside and 200 ns outside; long enough for a wait of over a second to show.
    pub const fn oversubscribed(threads: usize) -> Self {
        let timing = Timing::lasting(1_200_000_000);
        Self { threads, timing, inside: 32, outside: 128, detail: Detail::Waits }
    }
}

/// What one thread does.
struct Counting<'a, P: Platform> {
    line: &'a Line<P>,
    inside: u64,
    outside: u64,
}

impl<P: Platform> Round for Counting<'_, P> {
    #[inline]
    fn inside(&mut self) -> u64 {
        self.line.increment();
        P::compute(self.inside);
        1
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
fn run_on<P: Platform>(config: &Config, crew: &dyn Crew, lock: &dyn for<'a> Rounds<Counting<'a, P>>) -> Report {
    let shared = lines::<P>(1);
    let plan = (config.threads, config.timing, config.detail);
    let (records, _, elapsed) = section::rounds(lock, crew, plan, |member| Counting {
        line: &shared[0],
        inside: member.paced(config.inside),
        outside: member.paced(config.outside),
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
    use std::time::Duration;

    #[test]
    fn the_longest_wait_is_as_long_as_the_mutex_was_taken() {
        let mutex = PthreadMutex::new(Kind::Normal);
        let config = Config { timing: Timing::lasting(60_000_000), ..Config::oversubscribed(3) };
        let report = std::thread::scope(|scope| {
            let run = scope.spawn(|| run::<Native, _>(&config, &Hardware::default(), &*mutex));
            std::thread::sleep(Duration::from_millis(30));
            mutex.lock();
            std::thread::sleep(Duration::from_millis(20));
            mutex.unlock();
            run.join().expect("the workload")
        });
        assert!(report.ops > 10 && report.duration_ns >= config.timing.duration, "{report:?}");
        assert_eq!(report.per_thread.iter().map(|thread| thread.ops).sum::<u64>(), report.ops);
        assert!(report.per_thread.iter().filter_map(|thread| thread.longest_ns).max() >= Some(10_000_000));
        assert!(report.waiters.is_some_and(|waiters| (0.0..3.0).contains(&waiters)), "{:?}", report.waiters);
    }

    #[test]
    fn two_threads_hand_over_and_the_shares_add_up() {
        let mutex = PthreadMutex::new(Kind::Normal);
        let timing = Timing::lasting(500_000_000);
        let config = Config { timing, detail: Detail::Handoffs, ..Config::bare(2) };
        let report = run::<Native, _>(&config, &Hardware::default(), &*mutex);
        let handoffs = report.handoffs.expect("noted");
        assert!(handoffs.count > 0 && handoffs.count <= report.ops, "{handoffs:?}");
        assert!(handoffs.within_core <= handoffs.within_llc && handoffs.within_llc <= handoffs.within_node);
        assert!(handoffs.handover_ns.is_some());
        let bare = run::<Native, _>(&Config { timing, ..Config::bare(2) }, &Hardware::default(), &*mutex);
        assert!(bare.handoffs.is_none() && bare.latency.is_empty() && bare.waiters.is_none() && bare.ops > 0);
    }
}
