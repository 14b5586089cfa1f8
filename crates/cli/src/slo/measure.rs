//! Runs the program with each target and collects what the preload library records.

use std::ffi::OsString;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use indicatif::ProgressBar;
use lockswap_platform::Ns;
use lockswap_study::machine::Machine;
use lockswap_study::metric::Metric;
use lockswap_study::model::{Comparison, Measure, Phase};
use lockswap_study::plan::{self, Observer, Plan, Variant};
use lockswap_study::runner::{Interrupt, Program};
use lockswap_study::summary;

use super::curve::{Curve, Point, Role, Run, SCHEMA};
use crate::asl::{slo_variable, AslArgs, Fifo, Slo};
use crate::compare::{bar, plain_failed};
use crate::error::UserError;
use crate::latencies::{Figures, Latencies, LatencyFile};
use crate::selection::{Selection, PLAIN, VARIABLES};

/// A target that every epoch meets.
const NO_TARGET: Ns = lockswap_platform::LONGEST_DURATION;

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
    /// The lock below, and the longest window.
    pub asl: AslArgs,
    /// Longest run.
    pub timeout: Option<Duration>,
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

/// Is told of the curve, and whether it is done.
pub type Keep<'a> = dyn FnMut(&Curve, bool) + 'a;

/// Measures; `keep` hears of the curve after each run.
pub fn measure<'a>(
    setting: &'a Setting,
    interrupt: &Interrupt,
    keep: &'a mut Keep<'a>,
) -> anyhow::Result<(Curve, Ending)> {
    let file = LatencyFile::create().map_err(|error| {
        let remedy = "set TMPDIR to a folder that you can write to, on a disk that is not full";
        UserError::new(format!("cannot record latencies: {error}"), remedy)
    })?;
    let points = points(setting);
    let variants: Vec<Variant> = points.iter().map(|point| variant(setting, point, &file)).collect::<Result<_, _>>()?;
    let progress = bar(2 + u64::from(setting.runs) * variants.len() as u64);
    let curve = Curve {
        schema: SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").into(),
        started_unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs()),
        machine: Machine::here(),
        command: setting.command.iter().map(|a| a.to_string_lossy().into_owned()).collect(),
        epoch: setting.epoch,
        lock: setting.asl.asl_fifo.unwrap_or(Fifo::Mcs).asl().into(),
        fifo: setting.asl.asl_fifo.unwrap_or(Fifo::Mcs).alone().into(),
        metric: setting.regex.clone(),
        runs: setting.runs,
        complete: false,
        points,
        knee_slo_ns: None,
    };
    let mut watcher = Watcher { setting, file, progress, curve, entered: Vec::new(), keep: None };

    // The first two, once and uncounted: does the program work, and does it enter the epoch?
    let ending = watcher.execute(&variants[..2], 1, interrupt)?;
    if let Ending::Interrupted { .. } = ending {
        return Ok((watcher.curve, ending));
    }
    watcher.check_entered()?;
    watcher.curve.points.iter_mut().for_each(|point| point.runs.clear());

    watcher.keep = Some(keep);
    let ending = watcher.execute(&variants, setting.runs, interrupt)?;
    watcher.curve.complete = matches!(ending, Ending::Complete);
    watcher.curve.summarise();
    watcher.progress.finish_and_clear();
    Ok((watcher.curve, ending))
}

/// The references, without the library first, then the targets.
fn points(setting: &Setting) -> Vec<Point> {
    let references = [Role::Pthread, Role::Fifo, Role::NoTarget].map(|role| Point::new(role, None));
    let targets = setting.slos.iter().map(|slo| Point::new(Role::Target, Some(*slo)));
    references.into_iter().chain(targets).collect()
}

fn variant(setting: &Setting, point: &Point, file: &LatencyFile) -> Result<Variant, UserError> {
    let fifo = setting.asl.asl_fifo.unwrap_or(Fifo::Mcs);
    let lock = match point.role {
        Role::Pthread => PLAIN,
        Role::Fifo => fifo.alone(),
        Role::NoTarget | Role::Target => fifo.asl(),
    };
    let selection = Selection { lock: Some(lock.into()), rwlock: None, spin: None };
    let mut envs = selection.environment()?;
    let stray = VARIABLES
        .into_iter()
        .chain(["LOCKSWAP_STATS", "LOCKSWAP_ONLY"])
        .filter(|v| !envs.iter().any(|(name, _)| name == v));
    let stray: Vec<_> = stray.map(|name| (name.into(), None)).collect();
    envs.extend(stray);
    envs.push(file.variable());
    envs.extend(setting.asl.environment());
    let target = match point.role {
        Role::Pthread | Role::Fifo => None,
        Role::NoTarget => Some(NO_TARGET),
        Role::Target => point.slo_ns,
    };
    if let Some(ns) = target {
        envs.push(slo_variable(&[Slo { id: setting.epoch, ns }]));
    }
    Ok(Variant::new(lock, !selection.is_plain(), Program { args: setting.command.clone(), envs }))
}

/// Collects what runs record.
struct Watcher<'a> {
    setting: &'a Setting,
    file: LatencyFile,
    progress: ProgressBar,
    curve: Curve,
    /// All epochs that the program has entered so far.
    entered: Vec<i32>,
    keep: Option<&'a mut Keep<'a>>,
}

impl Watcher<'_> {
    fn execute(&mut self, variants: &[Variant], runs: u32, interrupt: &Interrupt) -> anyhow::Result<Ending> {
        let mut plan = Plan::new(self.curve.command.clone(), variants.to_vec());
        if let Some(regex) = &self.setting.regex {
            plan.measures = vec![Measure::metric(0, "throughput", regex, "", false)];
        }
        plan.metrics = self.setting.metric.iter().cloned().collect();
        (plan.runs, plan.warmup, plan.timeout) = (runs, 0, self.setting.timeout);
        let (comparison, ending) = plan::execute(&plan, env!("CARGO_PKG_VERSION"), Some(interrupt), self);
        match ending {
            plan::Ending::Complete => Ok(Ending::Complete),
            plan::Ending::Interrupted { signal } => {
                self.progress.finish_and_clear();
                Ok(Ending::Interrupted { signal })
            }
            plan::Ending::PlainFailed { problem, variant } => {
                self.progress.finish_and_clear();
                Err(plain_failed(&comparison, &problem, variant).into())
            }
            plan::Ending::CommandFailed { problem } => Err(anyhow::Error::msg(problem)),
        }
    }

    /// Whether the run on the lock below entered the epoch, on a little core.
    fn check_entered(&self) -> Result<(), UserError> {
        let epoch = self.setting.epoch;
        let program = self.curve.command.first().map_or("", String::as_str);
        let Some(run) = self.curve.reference(Role::Fifo).and_then(|point| point.runs.last()) else { return Ok(()) };
        let (what, remedy) = if let Some(problem) = &run.problem {
            let mut what = format!("{program} fails on {} ({problem})", self.curve.fifo);
            if let Some(tail) = &run.sample.stderr_tail {
                what += "; it wrote to stderr:";
                tail.lines().for_each(|line| what += &format!("\n    {line}"));
            }
            (what, "try another lock below with --asl-fifo")
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
        self.progress.finish_and_clear();
        Err(UserError::new(what, remedy))
    }

    fn add(&mut self, index: usize, comparison: &Comparison, latencies: Latencies) {
        let lock = &comparison.locks[index];
        let Some(sample) = lock.samples.last() else { return };
        let problem = summary::problem(sample, &comparison.measures[0], comparison.expected_exit(lock));
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
        let point = &self.curve.points[index];
        let name = super::report::name(point, &self.curve);
        self.progress.set_message(name);
    }

    fn measured(&mut self, index: usize, comparison: &mut Comparison) {
        // A run whose latencies cannot be read counts as one without; the next one gets a new file in any case.
        let latencies = self.file.read().unwrap_or(Latencies { epochs: Vec::new(), unrecorded: 0 });
        let _ = self.file.renew();
        self.add(index, comparison, latencies);
        self.progress.inc(1);
        if let Some(keep) = &mut self.keep {
            self.curve.summarise();
            keep(&self.curve, false);
        }
    }
}
