//! A series of measurements of one workload: locks and parameters, round by round, so that a change of the machine's state
//! hits all alike.

use super::job::{environment, Environment, Job};
use super::Common;
use crate::error::{UserError, USAGE};
use crate::little::{self, Little};
use crate::{selection, terminal};
use anyhow::Context;
use lockswap_locks::registry::{self, Role};
use lockswap_platform::{parse_duration, Ns};
use lockswap_study::export::OutputFile;
use lockswap_study::machine::Machine;
use lockswap_workloads::affinity;
use lockswap_workloads::crew::Timing;
use lockswap_workloads::hardware::Seat;
use lockswap_workloads::report::{medians, Report};
use serde_json::{json, Map, Value};

/// Rounds where none are asked for.
const ROUNDS: u32 = 5;

/// Options that all workloads have.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// Measured time of each run [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub duration: Option<Ns>,
    /// Pin thread i to the i-th CPU that this process may use, and again from the first
    #[arg(long)]
    pub pin: bool,
    /// Let the code on these CPUs do FACTOR times the work, with threads pinned, and call them little: 1:3, 2-3:2.5
    #[arg(long, value_name = "CPUS:FACTOR")]
    pub little: Option<Little>,
}

impl Options {
    /// Where threads are pinned; `always`: also where nobody asked for it.
    pub fn seats(&self, always: bool) -> Result<Vec<Seat>, UserError> {
        match &self.little {
            Some(little) => little.seats(),
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

/// A time that is not 0.
pub fn duration(text: &str) -> Result<Ns, String> {
    parse_duration(text).filter(|&ns| ns > 0).ok_or_else(|| "give a time with its unit, as in 500ms or 2s".to_owned())
}

/// A time that may be 0.
pub fn time(text: &str) -> Result<Ns, String> {
    parse_duration(text).ok_or_else(|| "give a time with its unit, as in 50us or 1.5ms".to_owned())
}

/// Threads where none are given: one per CPU that this process may use, at least 2.
pub fn usual_threads() -> usize {
    affinity::allowed().len().max(2)
}

/// The locks to measure: the `baselines`, then those asked for, or if there are none the `standard` ones.
pub fn locks(common: &Common, role: Role, baselines: &[&str], standard: &[&str]) -> Result<Vec<String>, UserError> {
    common.lock.iter().try_for_each(|lock| selection::known(role, lock))?;
    let mut locks: Vec<String> = baselines.iter().map(|lock| (*lock).to_owned()).collect();
    let chosen: Vec<&str> = match (common.all, common.lock.is_empty()) {
        (true, _) => registry::ids(role).collect(),
        (false, true) => standard.to_vec(),
        (false, false) => common.lock.iter().map(String::as_str).collect(),
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
    /// What tells it from the series' other measurements on the lock.
    pub about: Map<String, Value>,
    /// The job.
    pub job: Job,
    /// Variables of the measuring process besides those that choose the lock.
    pub variables: Environment,
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
    /// As if these rounds had been measured.
    #[cfg(test)]
    pub fn of(point: Point, rounds: Vec<Report>) -> Self {
        Self { point, environment: Vec::new(), rounds, failure: None }
    }

    /// The medians of all rounds, if there are any.
    pub fn median(&self) -> Option<Report> {
        serde_json::from_value(self.medians()).ok()
    }

    fn medians(&self) -> Value {
        let rounds: Vec<Value> = self.rounds.iter().filter_map(|round| serde_json::to_value(round).ok()).collect();
        medians(&rounds)
    }

    fn json(&self) -> Value {
        let Point { lock, about, job, .. } = &self.point;
        let mut object =
            Map::from_iter([("lock".to_owned(), json!(lock)), ("workload".to_owned(), json!(job.work.name()))]);
        object.extend(about.clone());
        if let Value::Object(medians) = self.medians() {
            object.extend(medians);
        }
        let little = object.get("latency").and_then(|latency| latency["little"]["p99_ns"].as_f64());
        let slo = about.get("slo_ns").and_then(Value::as_f64).filter(|&slo| slo > 0.0);
        if let (Some(p99), Some(slo)) = (little, slo) {
            object.insert("little_p99_to_slo".to_owned(), json!(p99 / slo));
        }
        let rest = json!({
            "config": job.work.config(), "seats": job.seats, "rounds": self.rounds, "failure": self.failure,
        });
        object.extend(rest.as_object().cloned().unwrap_or_default());
        Value::Object(object)
    }
}

/// A series and its results so far.
pub struct Series {
    /// In the order of the table.
    pub measured: Vec<Measured>,
    /// Load average before it began, if the machine was busy.
    busy: Option<f64>,
}

impl Series {
    /// As if this had been measured.
    #[cfg(test)]
    pub fn of(measured: Vec<Measured>) -> Self {
        Self { measured, busy: None }
    }

    /// Measures all points. What one of them cannot do is noted, the others go on.
    pub fn run(points: Vec<Point>, common: &Common) -> anyhow::Result<Self> {
        let file = super::prepare(common)?;
        let before = Machine::here();
        let measured: Result<Vec<_>, UserError> = points
            .into_iter()
            .map(|point| {
                let mut environment = environment(point.role, &point.lock)?;
                environment.extend(little::environment(&point.job.seats));
                environment.extend(point.variables.iter().cloned());
                Ok(Measured { point, environment, rounds: Vec::new(), failure: None })
            })
            .collect();
        let mut series = Self { measured: measured?, busy: before.is_busy().then_some(before.load_average) };
        let rounds = common.rounds.unwrap_or(ROUNDS);
        let bar = crate::compare::bar(u64::from(rounds) * series.measured.len() as u64);
        for _ in 0..rounds {
            for measured in series.measured.iter_mut().filter(|measured| measured.failure.is_none()) {
                bar.set_message(measured.point.lock.clone());
                let report = measured.point.job.run(&measured.environment).and_then(|text| {
                    serde_json::from_slice(&text)
                        .context("the measuring process printed something else than its numbers")
                });
                match report {
                    Ok(report) => measured.rounds.push(report),
                    Err(failure) => measured.failure = Some(format!("{failure:#}")),
                }
                bar.inc(1);
            }
            if let Some(file) = file.as_ref().filter(|file| !file.is_stream()) {
                series.export(file, &before)?;
            }
        }
        bar.finish_and_clear();
        if let Some(file) = file.filter(OutputFile::is_stream) {
            series.export(&file, &before)?;
        }
        Ok(series)
    }

    fn export(&self, file: &OutputFile, machine: &Machine) -> anyhow::Result<()> {
        let results: Vec<Value> = self.measured.iter().map(Measured::json).collect();
        let document = json!({
            "schema": 1,
            "tool": concat!("lockswap ", env!("CARGO_PKG_VERSION")),
            "simulated": false,
            "machine": machine,
            "results": results,
        });
        let written = file.replace(&serde_json::to_vec_pretty(&document)?);
        written.with_context(|| format!("cannot write {}", file.path().display()))
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
