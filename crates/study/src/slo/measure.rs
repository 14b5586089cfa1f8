//! Runs the program with each target and collects what the preload library records.

use std::ffi::OsString;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lockswap_platform::Ns;

use super::curve::{Curve, Point, Role, Run, SCHEMA};
use crate::execute::{self, Observer};
use crate::latencies::{Figures, Latencies, LatencyFile};
use crate::machine::Machine;
use crate::metric::Metric;
use crate::model::{Comparison, Measure, Phase};
use crate::plan::{Plan, Variant};
use crate::problems;
use crate::runner::Interrupt;

/// What to measure.
pub struct Setting {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The epoch.
    pub epoch: i32,
    /// Its targets.
    pub slos: Vec<Ns>,
    /// Runs with each of them.
    pub runs: u32,
    /// How the throughput is found, as the user gave it.
    pub regex: Option<String>,
    /// The same, compiled.
    pub metric: Option<Metric>,
    /// Id of LibASL over the lock below, or of a lock that knows targets itself.
    pub lock: String,
    /// Id of the lock below; in the second case the same one.
    pub fifo: String,
    /// Longest run.
    pub timeout: Option<Duration>,
    /// Version of lockswap, for the results.
    pub version: String,
}

/// How measuring ended.
pub enum Ending {
    /// All runs were made.
    Complete,
    /// A signal came.
    Interrupted {
        /// The signal.
        signal: i32,
    },
}

/// Why nothing was measured.
pub enum Failure {
    /// The program does not even run without lockswap.
    Plain {
        /// What there is of its runs.
        comparison: Box<Comparison>,
        /// What it did.
        problem: String,
        /// Which of them.
        variant: usize,
    },
    /// It does not do what has to be measured.
    Unfit {
        /// What is wrong.
        what: String,
        /// What to do about it.
        remedy: String,
    },
}

/// Hears how measuring goes on.
pub trait Watch {
    /// So many runs will be made.
    fn begin(&mut self, runs: u64);
    /// A run of this point begins.
    fn starting(&mut self, point: &Point, curve: &Curve);
    /// A run has ended. `curve` is what there is so far, once the program is known to be fit.
    fn measured(&mut self, curve: Option<&Curve>);
}

/// The references, without the library first, then the targets.
pub fn points(slos: &[Ns]) -> Vec<Point> {
    let references = [Role::Pthread, Role::Fifo, Role::NoTarget].map(|role| Point::new(role, None));
    let targets = slos.iter().map(|slo| Point::new(Role::Target, Some(*slo)));
    references.into_iter().chain(targets).collect()
}

/// Measures the program at each of the `points`, as one of the `variants` each; their library records in `file`.
///
/// # Errors
/// The program is not fit for it.
pub fn measure(
    setting: &Setting,
    (points, variants): (Vec<Point>, &[Variant]),
    file: LatencyFile,
    interrupt: &Interrupt,
    watch: &mut dyn Watch,
) -> Result<(Curve, Ending), Failure> {
    watch.begin(2 + u64::from(setting.runs) * variants.len() as u64);
    let curve = Curve {
        schema: SCHEMA,
        tool_version: setting.version.clone(),
        started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        machine: Machine::here(),
        command: setting.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        epoch: setting.epoch,
        lock: setting.lock.clone(),
        fifo: setting.fifo.clone(),
        metric: setting.regex.clone(),
        runs: setting.runs,
        complete: false,
        points,
        knee_slo_ns: None,
    };
    let mut watcher = Watcher { setting, file, watch, curve, entered: Vec::new(), fit: false };

    // The first two, once and uncounted: does the program work, and does it enter the epoch?
    let ending = watcher.execute(&variants[..2], 1, interrupt)?;
    if let Ending::Interrupted { .. } = ending {
        return Ok((watcher.curve, ending));
    }
    watcher.check_entered()?;
    watcher.curve.points.iter_mut().for_each(|point| point.runs.clear());

    watcher.fit = true;
    let ending = watcher.execute(variants, setting.runs, interrupt)?;
    watcher.curve.complete = matches!(ending, Ending::Complete);
    watcher.curve.summarise();
    Ok((watcher.curve, ending))
}

/// Collects what runs record.
struct Watcher<'a> {
    setting: &'a Setting,
    file: LatencyFile,
    watch: &'a mut dyn Watch,
    curve: Curve,
    /// All epochs that the program has entered so far.
    entered: Vec<i32>,
    /// Whether it enters the one that is measured.
    fit: bool,
}

impl Watcher<'_> {
    fn execute(&mut self, variants: &[Variant], runs: u32, interrupt: &Interrupt) -> Result<Ending, Failure> {
        let mut plan = Plan::new(self.curve.command.clone(), variants.to_vec());
        if let Some(regex) = &self.setting.regex {
            plan.measures = vec![Measure::metric(0, "throughput", regex, "", false)];
        }
        plan.metrics = self.setting.metric.iter().cloned().collect();
        (plan.runs, plan.warmup, plan.timeout) = (runs, 0, self.setting.timeout);
        let (comparison, ending) = execute::execute(&plan, &self.setting.version, Some(interrupt), self);
        match ending {
            execute::Ending::Complete => Ok(Ending::Complete),
            execute::Ending::Interrupted { signal } => Ok(Ending::Interrupted { signal }),
            execute::Ending::PlainFailed { problem, variant } => {
                Err(Failure::Plain { comparison: Box::new(comparison), problem, variant })
            }
            // There are no commands around these runs.
            execute::Ending::CommandFailed { problem } => {
                Err(Failure::Unfit { what: problem, remedy: "run it by hand in the shell".into() })
            }
        }
    }

    /// Whether the run on the lock below entered the epoch, on a little core.
    fn check_entered(&self) -> Result<(), Failure> {
        let epoch = self.setting.epoch;
        let program = self.curve.command.first().map_or("", String::as_str);
        let Some(run) = self.curve.reference(Role::Fifo).and_then(|point| point.runs.last()) else { return Ok(()) };
        let (what, remedy) = if let Some(problem) = &run.problem {
            let mut what = format!("{program} fails on {} ({problem})", self.curve.fifo);
            if let Some(tail) = &run.sample.stderr_tail {
                what += "; it wrote to stderr:";
                tail.lines().for_each(|line| what += &format!("\n    {line}"));
            }
            (what, "try another lock below, as in --lock asl:fifo=ticket")
        } else if self.entered.is_empty() {
            let remedy = "mark the epoch with lockswap_epoch_start and lockswap_epoch_end (docs/epochs.md); \
                          'lockswap doctor PROGRAM' says whether the preload library can work on it";
            (format!("{program} enters no epoch at all"), remedy)
        } else if !self.entered.contains(&epoch) {
            let entered: Vec<String> = self.entered.iter().map(i32::to_string).collect();
            (format!("{program} never enters epoch {epoch}, only {}", entered.join(", ")), "give one of those")
        } else if run.latencies.iter().all(|figures| figures.kind != "little") {
            let remedy = "declare the big CPUs, as in LOCKSWAP_BIG=0, or let threads run on little ones";
            (format!("epoch {epoch} runs on big cores only, which wait for nobody's sake"), remedy)
        } else {
            return Ok(());
        };
        Err(Failure::Unfit { what, remedy: remedy.into() })
    }

    fn add(&mut self, index: usize, comparison: &Comparison, latencies: Latencies) {
        let lock = &comparison.locks[index];
        let Some(sample) = lock.samples.last() else { return };
        let problem = problems::problem(sample, &comparison.measures[0], comparison.expected_exit(lock));
        let of_epoch: Vec<_> = latencies.epochs.iter().filter(|all| all.id == self.setting.epoch).collect();
        let first = of_epoch.iter().map(|all| all.first).min().unwrap_or_default();
        let last = of_epoch.iter().map(|all| all.last).max().unwrap_or_default();
        let count: u64 = of_epoch.iter().map(|all| all.count()).sum();
        let took_s = last.saturating_sub(first) as f64 / 1e9;
        for id in latencies.epochs.iter().map(|all| all.id) {
            if !self.entered.contains(&id) {
                self.entered.push(id);
            }
        }
        self.curve.points[index].runs.push(Run {
            sample: sample.clone(),
            epochs_per_s: (took_s > 0.0).then(|| count as f64 / took_s),
            latencies: of_epoch.into_iter().map(Figures::of).collect(),
            problem,
        });
    }
}

impl Observer for Watcher<'_> {
    fn starting(&mut self, index: usize, _: &Variant, _: Phase) {
        self.watch.starting(&self.curve.points[index], &self.curve);
    }

    fn measured(&mut self, index: usize, comparison: &mut Comparison) {
        // A run whose latencies cannot be read counts as one without; the next one gets a new file in any case.
        let latencies = self.file.read().unwrap_or(Latencies { epochs: Vec::new(), unrecorded: 0 });
        let _ = self.file.renew();
        self.add(index, comparison, latencies);
        if self.fit {
            self.curve.summarise();
        }
        self.watch.measured(self.fit.then_some(&self.curve));
    }
}
