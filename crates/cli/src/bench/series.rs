//! A series of measurements of one workload: locks and parameters, round by round, so that a change of the machine's state
//! hits all alike.

use super::job::{environment, Environment, Job, Work};
use super::Common;
use crate::error::{UserError, USAGE};
use crate::setting::pair;
use crate::{duration, selection, terminal};
use anyhow::Context;
use lockswap_experiment::results;
use lockswap_locks::registry::{self, Role};
use lockswap_platform::Ns;
use lockswap_study::export::OutputFile;
use lockswap_study::machine::Machine;
use lockswap_workloads::affinity;
use lockswap_workloads::crew::Timing;
use lockswap_workloads::hardware::Seat;
use lockswap_workloads::little::{self, Little};
use lockswap_workloads::report::{summary, Report};
use lockswap_workloads::workload::Workload;

/// Rounds where none are asked for.
const ROUNDS: u32 = 5;

/// Options that all workloads have.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Options {
    /// Measured time of each run [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = duration::run)]
    pub duration: Option<Ns>,
    /// Pin thread i to the i-th CPU that this process may use, and again from the first
    #[arg(long)]
    pub pin: bool,
    /// Let the code on these CPUs do FACTOR times the work, with threads pinned, and call them little: 1:3, 2-3:2.5
    #[arg(long, value_name = "CPUS:FACTOR")]
    pub little: Option<Little>,
    /// Seed of the threads' random numbers in the first round; the next rounds have the next seeds
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Another value for a parameter of the workload (docs/workloads.md; an unknown KEY gets the list); repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub set: Vec<(String, String)>,
}

impl Options {
    /// The settings with what `--set` changes, each once.
    ///
    /// # Errors
    /// A parameter is out of its range.
    pub fn settle(&self, settings: impl IntoIterator<Item = Workload>) -> Result<Vec<Workload>, UserError> {
        let mut settled: Vec<Workload> = Vec::new();
        for mut workload in settings {
            self.set.iter().try_for_each(|(key, value)| workload.set(key, value)).map_err(UserError::from)?;
            workload.check().map_err(UserError::from)?;
            if !settled.contains(&workload) {
                settled.push(workload);
            }
        }
        Ok(settled)
    }

    fn settings(&self) -> Vec<String> {
        self.set.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// Where threads are pinned; `always`: also where nobody asked for it.
    pub fn seats(&self, always: bool) -> Result<Vec<Seat>, UserError> {
        match &self.little {
            Some(little) => Ok(little.seats()?),
            None if self.pin || always => {
                Ok(affinity::allowed().into_iter().map(|cpu| Seat { cpu, pace: 1.0 }).collect())
            }
            None => Ok(Vec::new()),
        }
    }

    /// How long a run is, where nothing else is said.
    pub fn timing(&self, standard: Timing) -> Timing {
        self.duration.map_or(standard, Timing::lasting)
    }
}

/// Threads where none are given: one per CPU that this process may use, at least 2.
pub fn usual_threads() -> usize {
    affinity::allowed().len().max(2)
}

/// The locks to measure: the `baselines`, then those asked for, or if there are none the `standard` ones.
pub fn locks(common: &Common, role: Role, baselines: &[&str], standard: &[&str]) -> Result<Vec<String>, UserError> {
    let wanted: Vec<&str> = common.lock.iter().map(|lock| selection::known(role, lock)).collect::<Result<_, _>>()?;
    let mut locks: Vec<String> = baselines.iter().map(|lock| (*lock).to_owned()).collect();
    let chosen: Vec<&str> = match (common.all, common.lock.is_empty()) {
        (true, _) => registry::ids(role).collect(),
        (false, true) => standard.to_vec(),
        (false, false) => wanted,
    };
    for lock in chosen {
        if !locks.iter().any(|present| present == lock) {
            locks.push(lock.to_owned());
        }
    }
    Ok(locks)
}

/// One measurement of a series.
pub struct Point {
    /// The lock.
    pub lock: String,
    /// What it replaces.
    pub role: Role,
    /// What the threads do.
    pub workload: Workload,
    /// Variables of the measuring process besides those that choose the lock.
    pub variables: Environment,
}

/// Each of `settings` on each of `locks`.
pub fn points(settings: Vec<Workload>, locks: &[String], role: Role) -> Vec<Point> {
    let on = |workload: Workload| {
        let point =
            move |lock: &String| Point { lock: lock.clone(), role, workload: workload.clone(), variables: Vec::new() };
        locks.iter().map(point)
    };
    settings.into_iter().flat_map(on).collect()
}

/// What a measurement gave.
pub struct Measured {
    /// What was measured.
    pub point: Point,
    environment: Environment,
    /// Round by round.
    pub rounds: Vec<Report>,
    failure: Option<String>,
}

impl Measured {
    /// Makes a round; its failure is kept.
    fn measure(&mut self, setup: &Setup<'_>, round: u32) {
        let seed = setup.options.seed.wrapping_add(u64::from(round));
        let job = Job { work: Work::Workload(self.point.workload.clone()), seats: setup.seats.clone(), seed };
        let report = job.run(&self.environment).and_then(|text| {
            serde_json::from_slice(&text).context("the measuring process printed something else than its numbers")
        });
        match report {
            Ok(report) => self.rounds.push(report),
            Err(failure) => self.failure = Some(format!("{failure:#}")),
        }
    }

    /// As if these rounds had been measured.
    #[cfg(test)]
    pub fn of(point: Point, rounds: Vec<Report>) -> Self {
        Self { point, environment: Vec::new(), rounds, failure: None }
    }

    /// The medians of all rounds, if there are any.
    pub fn median(&self) -> Option<Report> {
        summary(&self.rounds.iter().collect::<Vec<_>>())
    }
}

/// A series and its results so far.
pub struct Series {
    /// In the order of the table.
    pub measured: Vec<Measured>,
    /// Load average before it began, if the machine was busy.
    busy: Option<f64>,
    /// The signal that ended it early.
    signal: Option<i32>,
}

/// What the points of a series have in common.
struct Setup<'a> {
    name: &'a str,
    machine: results::Machine,
    options: &'a Options,
    seats: Vec<Seat>,
}

impl Series {
    /// As if this had been measured.
    #[cfg(test)]
    pub fn of(measured: Vec<Measured>) -> Self {
        Self { measured, busy: None, signal: None }
    }

    /// Measures all points of the workload called `name`, on `seats`. What one of them cannot do is noted, the others go on.
    pub fn run(
        name: &str,
        points: Vec<Point>,
        seats: Vec<Seat>,
        options: &Options,
        common: &Common,
    ) -> anyhow::Result<Self> {
        let file = super::prepare(common)?;
        let before = Machine::here();
        let measured: Result<Vec<_>, UserError> = points
            .into_iter()
            .map(|point| {
                let mut environment = environment(point.role, &point.lock)?;
                environment.extend(little::environment(&seats));
                environment.extend(point.variables.iter().cloned());
                Ok(Measured { point, environment, rounds: Vec::new(), failure: None })
            })
            .collect();
        let busy = before.is_busy().then_some(before.load_average);
        let mut series = Self { measured: measured?, busy, signal: None };
        let setup = Setup { name, machine: results::Machine::here(), options, seats };
        let rounds = common.runs.unwrap_or(ROUNDS);
        let bar = crate::compare::bar(u64::from(rounds) * series.measured.len() as u64);
        let interrupt = super::interrupt()?;
        'rounds: for round in 0..rounds {
            for index in 0..series.measured.len() {
                let measured = &mut series.measured[index];
                if measured.failure.is_some() {
                    continue;
                }
                bar.set_message(format!("{}, {} threads", measured.point.lock, measured.point.workload.threads()));
                measured.measure(&setup, round);
                bar.inc(1);
                series.signal = interrupt.signal();
                if series.signal.is_some() {
                    // A terminal interrupts the measuring process, too, which is no failure of the lock's.
                    series.measured[index].failure = None;
                    break 'rounds;
                }
                if let Some(file) = file.as_ref().filter(|file| !file.is_stream()) {
                    series.export(file, &setup)?;
                }
            }
        }
        bar.finish_and_clear();
        if let Some(file) = file.filter(|file| file.is_stream() || series.signal.is_some()) {
            series.export(&file, &setup)?;
        }
        Ok(series)
    }

    fn export(&self, file: &OutputFile, setup: &Setup<'_>) -> anyhow::Result<()> {
        let options = setup.options;
        let about = results::About {
            simulated: false,
            machine: &setup.machine,
            workload: setup.name,
            settings: &options.settings(),
            seed: options.seed,
        };
        let seeded = |(round, report): (usize, &Report)| results::Round {
            seed: options.seed.wrapping_add(round as u64),
            report: report.clone(),
            simulation: None,
        };
        let measurements = self.measured.iter().map(|Measured { point, rounds, .. }| results::Measurement {
            lock: &point.lock,
            workload: &point.workload,
            little: options.little.as_ref().map(ToString::to_string),
            seats: &setup.seats,
            rounds: rounds.iter().enumerate().map(seeded).collect(),
        });
        let failed = |measured: &Measured| {
            Some(results::Failed {
                lock: measured.point.lock.clone(),
                threads: measured.point.workload.threads(),
                seed: options.seed.wrapping_add(measured.rounds.len() as u64),
                what: measured.failure.clone()?,
                config: measured.point.workload.config(),
            })
        };
        let text = results::json(&about, measurements, self.measured.iter().filter_map(failed).collect())?;
        crate::picture::replace(file, &text)
    }

    /// Prints `text`, then what went wrong; the exit status.
    pub fn finish(&self, text: &str) -> anyhow::Result<std::process::ExitCode> {
        let mut text = format!("{}\n\n{text}", Machine::here().words());
        let mut failed = false;
        for Measured { point, rounds, failure, .. } in &self.measured {
            if let Some(failure) = failure {
                failed = true;
                text += &format!("{} failed after {} rounds: {failure}\n", point.lock, rounds.len());
            }
        }
        if let Some(load) = self.busy {
            text += &super::busy(load);
        }
        terminal::print(&text)?;
        if let Some(signal) = self.signal {
            return Ok(super::interrupted(signal));
        }
        Ok(if failed { std::process::ExitCode::FAILURE } else { std::process::ExitCode::SUCCESS })
    }

    /// The median ratio, over the rounds, of `number` of one measurement to that of another in the same round.
    pub fn ratio(own: &Measured, base: &Measured, number: impl Fn(&Report) -> f64) -> Option<super::Quartiles> {
        let pairs = own.rounds.iter().zip(&base.rounds);
        super::Quartiles::of(pairs.map(|(own, base)| number(own) / number(base)).collect())
    }
}

/// Refuses a percentage over 100.
pub fn percent(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|&n| n <= 100).ok_or_else(|| "give a percentage, 0 to 100".to_owned())
}

/// A wrong use of options, with its remedy.
pub fn misuse(what: impl Into<String>, remedy: &str) -> anyhow::Error {
    UserError::new(what, remedy).with_status(USAGE).into()
}

/// A throughput in words: operations per second.
pub fn rate(per_second: f64) -> String {
    match per_second {
        n if n >= 1e6 => format!("{:.2} M/s", n / 1e6),
        n if n >= 1e3 => format!("{:.1} k/s", n / 1e3),
        n => format!("{n:.0} /s"),
    }
}

/// A time in words.
pub fn ns(time: f64) -> String {
    if time == 0.0 {
        return "0".to_owned();
    }
    super::micro::show(time, lockswap_workloads::micro::Unit::Nanoseconds)
}
