//! A measurement plan: which program, on which locks, how often; and carrying it out.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::machine::Machine;
use crate::metric::Metric;
use crate::model::{Comparison, Exit, LockRuns, Measure, Sample, BASELINE, SCHEMA};
use crate::runner::{run_once, Interrupt, Limits, Program};
use crate::summary;

/// Longest run when the user names no limit.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// Without a limit of the user's, a lock that takes this many times as long as the plain program counts as hung.
const HUNG_FACTOR: f64 = 10.0;

/// A lock that timed out this often is left out of the remaining rounds: each costs the whole limit.
const TIMEOUTS_ALLOWED: usize = 2;

/// Bytes of output searched for a metric; the end of longer output is searched.
const METRIC_BYTES: usize = 8 << 20;

/// Bytes of stderr kept for the report of a failed run.
const STDERR_BYTES: usize = 2000;

/// The program as it is run on one lock.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Id of the lock.
    pub lock: String,
    /// Whether the preload library is loaded.
    pub preloaded: bool,
    /// The program with the environment that selects the lock.
    pub program: Program,
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The command as shown to users.
    pub command: Vec<String>,
    /// The variants, the one of the [`BASELINE`] first.
    pub variants: Vec<Variant>,
    /// What is compared.
    pub measure: Measure,
    /// How the metric is found, when the measure is one.
    pub metric: Option<Metric>,
    /// Measured rounds.
    pub runs: u32,
    /// Rounds before them.
    pub warmup: u32,
    /// Longest run, or `None` for [`DEFAULT_TIMEOUT`], raised to ten times the slowest plain run.
    pub timeout: Option<Duration>,
    /// Seed of the bootstrap.
    pub seed: u64,
    /// Whether a plain program that exits with a status other than 0 is measured all the same.
    pub ignore_failure: bool,
}

/// Hears how a plan goes on.
pub trait Observer {
    /// A run begins.
    fn starting(&mut self, lock: &str, round: u32);
    /// A run has ended and is the last sample of its lock; the summary in `comparison` is not yet renewed.
    fn measured(&mut self, comparison: &mut Comparison);
}

/// How a plan ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// All runs were made.
    Complete,
    /// A signal came; what was measured is there.
    Interrupted {
        /// The signal.
        signal: i32,
    },
    /// The very first run, of the plain program, failed, so that there is nothing to compare with.
    PlainFailed {
        /// What went wrong.
        problem: String,
    },
}

/// Carries the plan out: all variants in turn, round after round.
pub fn execute(
    plan: &Plan,
    tool_version: &str,
    interrupt: Option<&Interrupt>,
    observer: &mut dyn Observer,
) -> (Comparison, Ending) {
    let mut comparison = start(plan, tool_version);
    let ending = rounds(plan, &mut comparison, interrupt, observer);
    comparison.complete = ending == Ending::Complete;
    comparison.summarise();
    (comparison, ending)
}

fn start(plan: &Plan, tool_version: &str) -> Comparison {
    let empty =
        |v: &Variant| LockRuns { lock: v.lock.clone(), preloaded: v.preloaded, left_out: None, samples: Vec::new() };
    Comparison {
        schema: SCHEMA,
        tool_version: tool_version.into(),
        started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        machine: Machine::here(),
        seed: plan.seed,
        command: plan.command.clone(),
        measure: plan.measure.clone(),
        runs: plan.runs,
        warmup: plan.warmup,
        timeout_s: plan.timeout.unwrap_or(DEFAULT_TIMEOUT).as_secs_f64(),
        complete: false,
        locks: plan.variants.iter().map(empty).collect(),
        summary: Vec::new(),
    }
}

fn rounds(
    plan: &Plan,
    comparison: &mut Comparison,
    interrupt: Option<&Interrupt>,
    observer: &mut dyn Observer,
) -> Ending {
    for round in 0..plan.warmup + plan.runs {
        for (index, variant) in plan.variants.iter().enumerate() {
            if comparison.locks[index].left_out.is_some() {
                continue;
            }
            observer.starting(&variant.lock, round);
            let Some(sample) = measure(plan, variant, round, limit(plan, comparison), interrupt) else {
                return Ending::Interrupted { signal: interrupt.and_then(Interrupt::signal).unwrap_or_default() };
            };
            let first = round == 0 && variant.lock == BASELINE;
            let failure = first.then(|| plain_problem(plan, &sample)).flatten();
            let lock = &mut comparison.locks[index];
            lock.samples.push(sample);
            let timeouts = lock.samples.iter().filter(|s| matches!(s.exit, Exit::TimedOut { .. })).count();
            if timeouts >= TIMEOUTS_ALLOWED && round + 1 < plan.warmup + plan.runs {
                lock.left_out = Some("left out of the rest".into());
            }
            observer.measured(comparison);
            if let Some(problem) = failure {
                return Ending::PlainFailed { problem };
            }
        }
    }
    Ending::Complete
}

/// Why the first run of the plain program is nothing to compare with.
fn plain_problem(plan: &Plan, sample: &Sample) -> Option<String> {
    match sample.exit {
        Exit::Code { code } if code != 0 && !plan.ignore_failure => Some(sample.exit.words()),
        _ => summary::problem(sample, &plan.measure, None),
    }
}

fn limit(plan: &Plan, comparison: &Comparison) -> Duration {
    let plain = comparison.baseline().map_or(&[][..], |b| &b.samples);
    let slowest = plain.iter().map(|s| s.wall_s).fold(0.0, f64::max);
    plan.timeout.unwrap_or_else(|| DEFAULT_TIMEOUT.max(Duration::from_secs_f64(HUNG_FACTOR * slowest)))
}

fn measure(
    plan: &Plan,
    variant: &Variant,
    round: u32,
    timeout: Duration,
    interrupt: Option<&Interrupt>,
) -> Option<Sample> {
    let keep_bytes = if plan.metric.is_some() { METRIC_BYTES } else { STDERR_BYTES };
    let limits = Limits { timeout, capture_stdout: plan.metric.is_some(), keep_bytes };
    let run = run_once(&variant.program, limits, interrupt)?;
    let find = |metric: &Metric| {
        let in_stream = |bytes: &[u8]| metric.find(&String::from_utf8_lossy(bytes));
        in_stream(&run.stdout).or_else(|| in_stream(&run.stderr))
    };
    let mut sample = Sample {
        round,
        warmup: round < plan.warmup,
        wall_s: run.wall.as_secs_f64(),
        metric: plan.metric.as_ref().and_then(find),
        exit: run.exit,
        stderr_tail: None,
    };
    let ended_well = sample.exit == Exit::Code { code: 0 } && summary::problem(&sample, &plan.measure, None).is_none();
    if !ended_well {
        let tail = &run.stderr[run.stderr.len().saturating_sub(STDERR_BYTES)..];
        sample.stderr_tail = Some(String::from_utf8_lossy(tail).trim_end().to_owned()).filter(|t| !t.is_empty());
    }
    Some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Order(Vec<String>);

    impl Observer for Order {
        fn starting(&mut self, lock: &str, round: u32) {
            self.0.push(format!("{lock}{round}"));
        }
        fn measured(&mut self, _: &mut Comparison) {}
    }

    fn plan(variants: &[(&str, &str)]) -> Plan {
        let variant = |(lock, script): &(&str, &str)| Variant {
            lock: (*lock).into(),
            preloaded: false,
            program: Program { args: vec!["/bin/sh".into(), "-c".into(), script.into()], envs: Vec::new() },
        };
        Plan {
            command: vec!["sh".into()],
            variants: variants.iter().map(variant).collect(),
            measure: Measure::wall(),
            metric: None,
            runs: 2,
            warmup: 1,
            timeout: None,
            seed: 1,
            ignore_failure: false,
        }
    }

    #[test]
    fn runs_are_interleaved_and_warm_up_counts_apart() {
        let mut order = Order::default();
        let (comparison, ending) = execute(&plan(&[("pthread", ":"), ("a", ":"), ("b", ":")]), "0", None, &mut order);
        assert_eq!(ending, Ending::Complete);
        assert!(comparison.complete);
        assert_eq!(order.0.join(" "), "pthread0 a0 b0 pthread1 a1 b1 pthread2 a2 b2");
        let warm: Vec<bool> = comparison.locks[1].samples.iter().map(|s| s.warmup).collect();
        assert_eq!(warm, [true, false, false]);
        assert_eq!(comparison.summary[1].good_runs, 2);
    }

    #[test]
    fn bad_locks_do_not_stop_the_others_and_hanging_ones_are_left_out() {
        let bad =
            [("pthread", ":"), ("crash", "kill -ABRT $$"), ("hang", "sleep 60"), ("odd", "exit 3"), ("good", ":")];
        let mut plan = plan(&bad);
        plan.timeout = Some(Duration::from_millis(500));
        plan.runs = 3;
        let (comparison, ending) = execute(&plan, "0", None, &mut Order::default());
        assert_eq!(ending, Ending::Complete);
        let verdicts: Vec<&str> = comparison.summary.iter().map(|r| r.verdict.as_str()).collect();
        assert_eq!(
            verdicts[1..4],
            [
                "crashed: SIGABRT, in all 4 runs",
                "timed out after 0.5 s, in all 2 runs; left out of the rest",
                "exit status 3 (plain: 0), in all 4 runs",
            ]
        );
        assert_eq!(comparison.summary[4].good_runs, 3);
    }

    #[test]
    fn a_plain_program_that_fails_ends_the_comparison_at_once() {
        let mut order = Order::default();
        let failing = [("pthread", "echo why >&2; exit 4"), ("a", ":")];
        let (comparison, ending) = execute(&plan(&failing), "0", None, &mut order);
        assert_eq!(ending, Ending::PlainFailed { problem: "exit status 4".into() });
        assert_eq!(order.0, ["pthread0"]);
        assert_eq!(comparison.locks[0].samples[0].stderr_tail.as_deref(), Some("why"));
        let mut ignoring = plan(&[("pthread", "exit 4"), ("a", "exit 4"), ("b", ":")]);
        ignoring.ignore_failure = true;
        let (comparison, ending) = execute(&ignoring, "0", None, &mut order);
        assert_eq!(ending, Ending::Complete);
        assert!(comparison.summary[1].problems.is_empty());
        assert_eq!(comparison.summary[2].verdict, "exit status 0 (plain: 4), in all 3 runs");
    }

    #[test]
    fn metrics_come_from_stdout_or_stderr() {
        let mut plan = plan(&[("pthread", "echo rate=5"), ("a", "echo rate=6 >&2"), ("b", "echo none")]);
        plan.measure = Measure::metric("rate=([0-9]+)", "", false);
        plan.metric = Some(Metric::new("rate=([0-9]+)").unwrap());
        let (comparison, _) = execute(&plan, "0", None, &mut Order::default());
        let medians: Vec<_> = comparison.summary.iter().map(|r| r.median).collect();
        assert_eq!(medians, [Some(5.0), Some(6.0), None]);
        assert_eq!(comparison.summary[2].verdict, "metric not found in the output, in all 3 runs");
    }
}
