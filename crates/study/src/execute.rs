//! Carrying a plan out: rounds in random order, and what is around the runs.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockswap_records::counters::FILE_BYTES;

use crate::calls::Counted;
use crate::machine::Machine;
use crate::mapped;
use crate::metric::Metric;
use crate::model::{Comparison, Exit, LockRuns, Phase, Sample, BASELINE, SCHEMA};
use crate::plan::{Plan, Variant, DEFAULT_TIMEOUT};
use crate::runner::{run_once, Interrupt, Limits, Program, Run};
use crate::service::run_loaded;
use crate::{descriptive, problems, summary};

/// Without a limit of the user's, a lock that takes this many times as long as the plain program counts as hung.
const HUNG_FACTOR: f64 = 10.0;

/// A lock that timed out this often is left out of the remaining rounds: each costs the whole limit.
pub(crate) const TIMEOUTS_ALLOWED: usize = 2;

/// Bytes of output searched for a metric; the end of longer output is searched.
const METRIC_BYTES: usize = 8 << 20;

/// Bytes of each stream kept for the report of a failed run.
const OUTPUT_BYTES: usize = 2000;

/// Starts of a program that the price of loading the library is measured with.
const LOADS: usize = 15;

/// Hears how a plan goes on.
pub trait Observer {
    /// A run of the variant with this index begins.
    fn starting(&mut self, index: usize, variant: &Variant, phase: Phase);
    /// It has ended and is the last sample of its lock; the summary in `comparison` is not yet renewed.
    fn measured(&mut self, index: usize, comparison: &mut Comparison);
    /// So many more runs come than were planned.
    fn more(&mut self, _runs: u64) {}
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
    /// The first run of the plain program failed, so that there is nothing to compare with.
    PlainFailed {
        /// What went wrong.
        problem: String,
        /// Its index.
        variant: usize,
    },
    /// A command around the runs failed.
    CommandFailed {
        /// Which, and what went wrong.
        problem: String,
    },
}

/// Carries the plan out: all variants in each round, in an order drawn from the seed.
pub fn execute(
    plan: &Plan,
    tool_version: &str,
    interrupt: Option<&Interrupt>,
    observer: &mut dyn Observer,
) -> (Comparison, Ending) {
    let mut comparison = start(plan, tool_version);
    let ending = match all_rounds(plan, &mut comparison, interrupt, observer) {
        Ok(()) => Ending::Complete,
        Err(ending) => ending,
    };
    comparison.complete = ending == Ending::Complete;
    comparison.summarise();
    // Not interrupted: it puts in order what the program left behind.
    let cleaned = around("--cleanup", plan.cleanup.as_ref(), plan, None);
    match (cleaned, ending) {
        (Err(failed), Ending::Complete) => (comparison, failed),
        (_, ending) => (comparison, ending),
    }
}

fn start(plan: &Plan, tool_version: &str) -> Comparison {
    let empty = |v: &Variant| LockRuns {
        lock: v.lock.clone(),
        setting: v.setting.clone(),
        preloaded: v.preloaded,
        counted: None,
        left_out: None,
        samples: Vec::new(),
    };
    Comparison {
        schema: SCHEMA,
        tool_version: tool_version.into(),
        started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        machine: Machine::here(),
        seed: plan.seed,
        name: plan.name.clone(),
        command: plan.command.clone(),
        measures: plan.measures.clone(),
        runs: plan.runs,
        warmup: plan.warmup,
        timeout_s: plan.timeout.unwrap_or(DEFAULT_TIMEOUT).as_secs_f64(),
        smallest_effect: plan.smallest_effect,
        loading_s: None,
        complete: false,
        locks: plan.variants.iter().map(empty).collect(),
        summary: Vec::new(),
        winners: Vec::new(),
    }
}

fn all_rounds(
    plan: &Plan,
    comparison: &mut Comparison,
    interrupt: Option<&Interrupt>,
    observer: &mut dyn Observer,
) -> Result<(), Ending> {
    around("--setup", plan.setup.as_ref(), plan, interrupt)?;
    comparison.loading_s = plan.loading.as_ref().and_then(|programs| price_of_loading(programs, interrupt));
    let mut random = fastrand::Rng::with_seed(plan.seed);
    let mut order: Vec<usize> = (0..plan.variants.len()).collect();
    for round in 0..plan.warmup + plan.runs {
        let phase = if round < plan.warmup { Phase::WarmUp } else { Phase::Measured };
        // The baselines first in the first round: without them there is nothing to compare with.
        match round {
            0 => order.sort_by_key(|index| plan.variants[*index].lock != BASELINE),
            _ => random.shuffle(&mut order),
        }
        for index in &order {
            one(plan, *index, round, phase, comparison, interrupt, observer)?;
        }
    }
    if plan.confirms && plan.runs > 0 {
        let chosen = summary::best(comparison);
        let mut order: Vec<usize> = chosen.iter().flat_map(|(baseline, best)| [*baseline, *best]).collect();
        observer.more(order.len() as u64 * u64::from(plan.runs));
        for round in 0..plan.runs {
            random.shuffle(&mut order);
            for index in &order {
                let round = plan.warmup + plan.runs + round;
                one(plan, *index, round, Phase::Confirmation, comparison, interrupt, observer)?;
            }
        }
    }
    Ok(())
}

/// Runs one variant once.
fn one(
    plan: &Plan,
    index: usize,
    round: u32,
    phase: Phase,
    comparison: &mut Comparison,
    interrupt: Option<&Interrupt>,
    observer: &mut dyn Observer,
) -> Result<(), Ending> {
    let variant = &plan.variants[index];
    if comparison.locks[index].left_out.is_some() {
        return Ok(());
    }
    observer.starting(index, variant, phase);
    around("--prepare", variant.prepare.as_ref(), plan, interrupt)?;
    // Counting costs time: never in a run that is compared.
    let counters = (plan.counts && variant.preloaded && round == 0 && phase == Phase::WarmUp)
        .then(|| mapped::create("lockswap-stats-", FILE_BYTES).ok())
        .flatten();
    let mut program = variant.program.clone();
    if let Some(file) = &counters {
        program.envs.push(("LOCKSWAP_STATS".into(), Some(file.path().into())));
    }
    let limit = limit(plan, comparison, index);
    let sample = measure(plan, variant, &program, (round, phase), limit, interrupt);
    // A run that a signal has reached, too, says nothing.
    let Some(sample) = sample.filter(|_| interrupt.and_then(Interrupt::signal).is_none()) else {
        return Err(interrupted(interrupt));
    };
    let problem = (variant.lock == BASELINE && comparison.locks[index].samples.is_empty())
        .then(|| plain_problem(plan, &sample))
        .flatten();
    let lock = &mut comparison.locks[index];
    lock.counted = lock.counted.or_else(|| Counted::read(counters.as_ref()?.as_file()).ok());
    lock.samples.push(sample);
    let timeouts = lock.samples.iter().filter(|s| matches!(s.exit, Exit::TimedOut { .. })).count();
    if timeouts >= TIMEOUTS_ALLOWED && round + 1 < plan.warmup + plan.runs {
        lock.left_out = Some("left out of the rest".into());
    }
    observer.measured(index, comparison);
    problem.map_or(Ok(()), |problem| Err(Ending::PlainFailed { problem, variant: index }))
}

fn interrupted(interrupt: Option<&Interrupt>) -> Ending {
    Ending::Interrupted { signal: interrupt.and_then(Interrupt::signal).unwrap_or_default() }
}

/// Runs a command that the user wants around the runs; it must succeed.
pub(crate) fn around(
    option: &str,
    command: Option<&Program>,
    plan: &Plan,
    interrupt: Option<&Interrupt>,
) -> Result<(), Ending> {
    let Some(command) = command else { return Ok(()) };
    let limits = Limits {
        timeout: Duration::from_secs(365 * 24 * 3600),
        capture_stdout: true,
        keep_bytes: OUTPUT_BYTES,
        show: plan.shows_output,
        ..Limits::default()
    };
    let Some(run) = run_once(command, limits, interrupt) else { return Err(interrupted(interrupt)) };
    if run.exit == (Exit::Code { code: 0 }) {
        return Ok(());
    }
    let mut problem = format!("the command of {option} failed: {}", run.exit.words());
    for line in String::from_utf8_lossy(&[run.stdout, run.stderr].concat()).lines() {
        problem += &format!("\n    {line}");
    }
    Err(Ending::CommandFailed { problem })
}

/// How much longer a short program takes with the library: the median over several interleaved starts.
fn price_of_loading(programs: &[Program; 2], interrupt: Option<&Interrupt>) -> Option<f64> {
    let limits = Limits { timeout: DEFAULT_TIMEOUT, keep_bytes: OUTPUT_BYTES, ..Limits::default() };
    let mut differences = Vec::new();
    for _ in 0..LOADS {
        let [plain, loaded] = [0, 1].map(|index| run_once(&programs[index], limits, interrupt));
        differences.push(loaded?.wall.as_secs_f64() - plain?.wall.as_secs_f64());
    }
    descriptive::median(&differences).map(|price| price.max(0.0))
}

/// Why the first run of the plain program is nothing to compare with.
fn plain_problem(plan: &Plan, sample: &Sample) -> Option<String> {
    match sample.exit {
        _ if sample.failure.is_some() => sample.failure.clone(),
        Exit::Code { code } if code != 0 && !plan.ignore_failure => Some(sample.exit.words()),
        _ => plan.measures.iter().find_map(|measure| problems::problem(sample, measure, None)),
    }
}

fn limit(plan: &Plan, comparison: &Comparison, index: usize) -> Duration {
    let plain = comparison.baseline_of(&comparison.locks[index]).map_or(&[][..], |b| &b.samples);
    let slowest = plain.iter().map(|s| s.wall_s).fold(0.0, f64::max);
    plan.timeout.unwrap_or_else(|| DEFAULT_TIMEOUT.max(Duration::from_secs_f64(HUNG_FACTOR * slowest)))
}

/// Runs a variant once; nothing after an interruption.
pub(crate) fn measure(
    plan: &Plan,
    variant: &Variant,
    program: &Program,
    (round, phase): (u32, Phase),
    timeout: Duration,
    interrupt: Option<&Interrupt>,
) -> Option<Sample> {
    let keep_bytes = if plan.metrics.is_empty() { OUTPUT_BYTES } else { METRIC_BYTES };
    let limits = Limits {
        timeout,
        capture_stdout: plan.keeps_output || !plan.metrics.is_empty(),
        keep_bytes,
        input: plan.input.as_deref(),
        show: plan.shows_output,
        window: plan.window.as_ref(),
    };
    let (run, failure): (Run, Option<String>) = match (&variant.load, &plan.ready) {
        (Some(load), Some(ready)) => run_loaded(program, load, ready, limits, interrupt)?,
        _ => (run_once(program, limits, interrupt)?, None),
    };
    let find = |metric: &Metric| {
        let in_stream = |bytes: &[u8]| metric.find(&String::from_utf8_lossy(bytes));
        match &run.counters {
            Some(counters) => counters.as_ref().ok()?.rate(metric),
            None => in_stream(&run.stdout).or_else(|| in_stream(&run.stderr)),
        }
    };
    let output = |metric: &Metric| {
        let in_stream = |bytes: &[u8]| metric.not_a_number(&String::from_utf8_lossy(bytes));
        in_stream(&run.stdout).or_else(|| in_stream(&run.stderr))
    };
    let not_a_number = |metric: &Metric| match find(metric) {
        None if run.counters.is_none() => {
            output(metric).map(|found| format!("the metric matched '{found}', which is not a number"))
        }
        _ => None,
    };
    let uncounted = run.counters.as_ref().and_then(|counters| counters.as_ref().err().cloned());
    // What ended with a status of its own, such as a crash, needs no other reason.
    let uncounted = uncounted.filter(|_| run.exit == Exit::Code { code: 0 });
    let failure = failure.or(uncounted).or_else(|| plan.metrics.iter().find_map(not_a_number));
    let mut sample = Sample {
        round,
        phase,
        wall_s: run.wall.as_secs_f64(),
        usage: run.usage,
        metrics: plan.metrics.iter().map(find).collect(),
        exit: run.exit,
        failure,
        stdout_tail: None,
        stderr_tail: None,
    };
    let ended_well = sample.exit == Exit::Code { code: 0 }
        && plan.measures.iter().all(|measure| problems::problem(&sample, measure, None).is_none());
    if !ended_well {
        sample.stdout_tail = last_words(&run.stdout);
        sample.stderr_tail = last_words(&run.stderr);
    }
    Some(sample)
}

/// The end of a stream, without empty lines after it; nothing where nothing was written.
fn last_words(stream: &[u8]) -> Option<String> {
    let tail = &stream[stream.len().saturating_sub(OUTPUT_BYTES)..];
    Some(String::from_utf8_lossy(tail).trim_end().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Measure;

    #[derive(Default)]
    struct Order(Vec<String>);

    impl Observer for Order {
        fn starting(&mut self, _: usize, variant: &Variant, _: Phase) {
            self.0.push(variant.lock.clone());
        }
        fn measured(&mut self, _: usize, _: &mut Comparison) {}
    }

    fn shell(script: &str) -> Program {
        Program { args: vec!["/bin/sh".into(), "-c".into(), script.into()], envs: Vec::new(), ..Program::default() }
    }

    fn plan(variants: &[(&str, &str)]) -> Plan {
        let variants = variants.iter().map(|(lock, script)| Variant::new(lock, false, shell(script))).collect();
        Plan { runs: 2, ..Plan::new(vec!["sh".into()], variants) }
    }

    #[test]
    fn each_round_has_all_locks_in_an_order_of_its_own() {
        let many = Plan { runs: 30, seed: 5, ..plan(&[("pthread", ":"), ("a", ":"), ("b", ":")]) };
        let mut order = Order::default();
        let (comparison, ending) = execute(&many, "0", None, &mut order);
        assert_eq!(ending, Ending::Complete);
        assert!(comparison.complete);
        assert_eq!(order.0[..3], ["pthread", "a", "b"]);
        let rounds: Vec<String> = order.0.chunks(3).map(|round| round.join(" ")).collect();
        for round in &rounds {
            assert!(["pthread", "a", "b"].iter().all(|lock| round.split(' ').any(|l| l == *lock)), "{round}");
        }
        let firsts: Vec<&str> = rounds.iter().filter_map(|round| round.split(' ').next()).collect();
        for lock in ["pthread", "a", "b"] {
            assert!(firsts.iter().filter(|l| **l == lock).count() >= 3, "{firsts:?}");
        }
        let mut again = Order::default();
        execute(&many, "0", None, &mut again);
        assert_eq!(order.0, again.0, "the seed decides");
        assert_eq!(comparison.locks[1].samples[0].phase, Phase::WarmUp);
        assert_eq!(comparison.summary[0][1].good_runs, 30);
    }

    #[test]
    fn commands_around_the_runs() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let say = |what: &str| shell(&format!("echo {what} >> {}", log.display()));
        let mut all = plan(&[("pthread", &format!("echo run >> {}", log.display()))]);
        (all.setup, all.cleanup) = (Some(say("setup")), Some(say("cleanup")));
        all.variants[0].prepare = Some(say("prepare"));
        let (_, ending) = execute(&all, "0", None, &mut Order::default());
        assert_eq!(ending, Ending::Complete);
        let lines = std::fs::read_to_string(&log).unwrap();
        let expected = ["setup", "prepare", "run", "prepare", "run", "prepare", "run", "cleanup"];
        assert_eq!(lines.lines().collect::<Vec<_>>(), expected);
        all.variants[0].prepare = Some(shell("echo no disk >&2; exit 2"));
        let (_, ending) = execute(&all, "0", None, &mut Order::default());
        let problem = "the command of --prepare failed: exit status 2\n    no disk".into();
        assert_eq!(ending, Ending::CommandFailed { problem });
        assert!(std::fs::read_to_string(&log).unwrap().ends_with("cleanup\nsetup\ncleanup\n"));
    }

    #[test]
    fn the_best_lock_is_confirmed_by_fresh_runs() {
        let mut order = Order::default();
        let mut graded = plan(&[("pthread", "echo 10"), ("slow", "echo 5"), ("quick", "echo 20"), ("best", "echo 30")]);
        (graded.runs, graded.confirms) = (8, true);
        graded.measures = vec![Measure::metric(0, "rate", "[0-9]+", "", false)];
        graded.metrics = vec![Metric::new("[0-9]+").unwrap()];
        let (comparison, _) = execute(&graded, "0", None, &mut order);
        let fresh = &order.0[9 * 4..];
        assert_eq!(fresh.len(), 16);
        assert!(fresh.iter().all(|lock| lock == "best" || lock == "pthread"), "{fresh:?}");
        let [winner] = &comparison.winners[..] else { panic!("{:?}", comparison.winners) };
        assert_eq!((winner.lock.as_str(), winner.confirmed, winner.rounds), ("best", true, 8));
        assert!((winner.ratio.unwrap() - 3.0).abs() < 1e-9);
        let equal = Plan { confirms: true, runs: 8, ..plan(&[("pthread", ":"), ("a", ":")]) };
        let mut order = Order::default();
        let (comparison, _) = execute(&equal, "0", None, &mut order);
        assert!(comparison.winners.is_empty() || order.0.len() > 18);
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
        let verdicts: Vec<&str> = comparison.summary[0].iter().map(|r| r.verdict.as_str()).collect();
        assert_eq!(
            verdicts[1..4],
            [
                "crashed: SIGABRT, in all 4 runs",
                "timed out after 0.5 s, in all 2 runs; left out of the rest",
                "exit status 3 (plain: 0), in all 4 runs",
            ]
        );
        assert_eq!(comparison.summary[0][4].good_runs, 3);
    }

    #[test]
    fn a_plain_program_that_fails_ends_the_comparison_at_once() {
        let mut order = Order::default();
        let failing = [("pthread", "echo why >&2; exit 4"), ("a", ":")];
        let (comparison, ending) = execute(&plan(&failing), "0", None, &mut order);
        assert_eq!(ending, Ending::PlainFailed { problem: "exit status 4".into(), variant: 0 });
        assert_eq!(order.0, ["pthread"]);
        assert_eq!(comparison.locks[0].samples[0].stderr_tail.as_deref(), Some("why"));
        let mut ignoring = plan(&[("pthread", "exit 4"), ("a", "exit 4"), ("b", ":")]);
        ignoring.ignore_failure = true;
        let (comparison, ending) = execute(&ignoring, "0", None, &mut order);
        assert_eq!(ending, Ending::Complete);
        assert!(comparison.summary[0][1].problems.is_empty());
        assert_eq!(comparison.summary[0][2].verdict, "exit status 0 (plain: 4), in all 3 runs");
    }

    #[test]
    fn metrics_come_from_stdout_or_stderr() {
        let mut plan = plan(&[("pthread", "echo rate=5"), ("a", "echo rate=6 >&2"), ("b", "echo none")]);
        plan.measures = vec![Measure::metric(0, "rate", "rate=([0-9]+)", "", false)];
        plan.metrics = vec![Metric::new("rate=([0-9]+)").unwrap()];
        let (comparison, _) = execute(&plan, "0", None, &mut Order::default());
        let medians: Vec<_> = comparison.summary[0].iter().map(|r| r.median).collect();
        assert_eq!(medians, [Some(5.0), Some(6.0), None]);
        assert_eq!(comparison.summary[0][2].verdict, "metric not found in the output, in all 3 runs");
    }
}
