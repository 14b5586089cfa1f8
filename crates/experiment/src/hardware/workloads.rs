//! Workloads on this machine: what tells settings apart, and the forms in which their results leave.

pub mod page;

use super::series::{Group, Measure, Measured, Point, Series};
use crate::hardware::job::Work;
use crate::results;
use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_study::summary::Row;
use lockswap_workloads::ncs;
use lockswap_workloads::report::{summary, Report};
use lockswap_workloads::workload::Workload;
use lockswap_workloads::{counter, readers};
use serde_json::{Map, Value};
use std::io;
use std::time::Duration;

/// A thread that waits longer than this for one acquisition has stalled.
pub const STALL: Duration = Duration::from_secs(1);

/// What locks are compared by: operations per second.
pub fn throughput() -> Measure<Report> {
    Measure::new("throughput", |report: &Report| Some(report.throughput))
}

/// A group for each of the `workloads`, with all `locks` in each. What tells groups apart are the keys that they have
/// not all alike, after those of `always`.
pub fn groups(workloads: &[Workload], always: &[&str], locks: &[String], role: Role) -> Vec<Group<Report>> {
    let settings = settings(workloads, always);
    let group = |(workload, setting): (&Workload, _)| {
        let points = locks.iter().map(|lock| Point::new(lock, role, Work::Workload(workload.clone())));
        Group { setting, ..Group::of(points) }
    };
    workloads.iter().zip(settings).map(group).collect()
}

/// What tells each of these apart: the values of the keys of `always`, and of those that they have not all alike.
pub fn settings(workloads: &[Workload], always: &[&str]) -> Vec<Vec<(String, String)>> {
    let fields: Vec<Map<String, Value>> = workloads.iter().map(fields).collect();
    let differs = |key: &&String| fields.iter().any(|other| other.get(*key) != fields[0].get(*key));
    let varied = fields.first().into_iter().flat_map(Map::keys).filter(differs).map(String::as_str);
    let mut keys: Vec<&str> = always.to_vec();
    keys.extend(varied.filter(|key| !always.contains(key)));
    let of = |fields: &Map<String, Value>| {
        let pair = |key: &&str| Some((key.to_string(), text(fields.get(*key)?)));
        keys.iter().filter_map(pair).collect()
    };
    fields.iter().map(of).collect()
}

/// The parameters of a workload, by key; `timing.duration` is that of an object.
fn fields(workload: &Workload) -> Map<String, Value> {
    let Ok(Value::Object(fields)) = serde_json::to_value(workload.config()) else { return Map::new() };
    let flat = |(key, value)| match value {
        Value::Object(inner) => inner.into_iter().map(|(name, value)| (format!("{key}.{name}"), value)).collect(),
        value => vec![(key, value)],
    };
    fields.into_iter().flat_map(flat).collect()
}

/// A value as `--set` takes it.
fn text(value: &Value) -> String {
    match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(text).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}

impl Measured<Report> {
    /// What the threads did.
    pub fn workload(&self) -> Option<&Workload> {
        match &self.point.work {
            Work::Workload(workload) | Work::Realtime { workload, .. } => Some(workload),
            Work::Micro { .. } | Work::Price { .. } | Work::Condvar(_) | Work::Program(_) => None,
        }
    }

    /// The medians of all rounds, if there are any.
    pub fn median(&self) -> Option<Report> {
        summary(&self.rounds.iter().collect::<Vec<_>>())
    }

    /// The longest wait of any thread in each round, ns.
    pub fn longest_waits(&self) -> Vec<Ns> {
        let of = |report: &Report| report.per_thread.iter().filter_map(|thread| thread.longest_ns).max();
        self.rounds.iter().map(|report| of(report).unwrap_or_default()).collect()
    }

    /// Threads that waited longer than [`STALL`] for one acquisition, in all rounds.
    pub fn stalls(&self) -> usize {
        let threads = self.rounds.iter().flat_map(|report| &report.per_thread);
        threads.filter(|thread| thread.longest_ns.is_some_and(|wait| u128::from(wait) > STALL.as_nanos())).count()
    }
}

/// More threads than CPUs: the workload for a role.
pub fn oversubscribed(role: Role, threads: usize) -> Workload {
    match role {
        Role::RwLock => {
            let timing = counter::Config::oversubscribed(threads).timing;
            Workload::Readers(readers::Config { timing, ..readers::Config::new(threads) })
        }
        _ => Workload::Counter(counter::Config::oversubscribed(threads)),
    }
}

/// The same workload with an empty critical section, for the time of a round (RON, figure 8).
pub fn with_empty_section(workload: &Workload) -> Workload {
    match workload {
        Workload::Ncs(config) => Workload::Ncs(ncs::Config { lines: 0, inside: 0, ..config.clone() }),
        other => other.clone(),
    }
}

/// What the results of a series have in common.
pub struct About<'a> {
    /// The name of the part that measured: the workload's.
    pub name: &'a str,
    /// What `--set` changed.
    pub settings: &'a [(String, String)],
    /// Which CPUs play slower ones, as `--little` says it.
    pub little: Option<String>,
    /// This machine before the series began.
    pub machine: &'a results::Machine,
}

/// The results as JSON: `docs/results.schema.json`.
///
/// # Errors
/// A number that JSON has no form for.
pub fn json(series: &Series<Report>, about: &About<'_>) -> io::Result<Vec<u8>> {
    let settings: Vec<String> = about.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let common = results::About {
        simulated: false,
        machine: about.machine,
        workload: about.name,
        settings: &settings,
        seed: series.seed,
    };
    let measurement = |measured| measurement(series, measured, about.little.clone());
    let failed = |measured: &Measured<Report>| {
        let workload = measured.workload()?;
        Some(results::Failed {
            lock: measured.point.lock.clone(),
            threads: workload.threads(),
            seed: seed(series, measured.rounds.len()),
            what: measured.failure.clone()?,
            config: workload.config(),
        })
    };
    let failures = series.measured().filter_map(failed).collect();
    Ok(results::json(&common, series.measured().filter_map(measurement), failures)?)
}

fn measurement<'a>(
    series: &'a Series<Report>,
    measured: &'a Measured<Report>,
    little: Option<String>,
) -> Option<results::Measurement<'a>> {
    let round = |(round, report): (usize, &Report)| results::Round {
        seed: seed(series, round),
        report: report.clone(),
        simulation: None,
    };
    Some(results::Measurement {
        lock: &measured.point.lock,
        workload: measured.workload()?,
        little,
        seats: &series.seats,
        rounds: measured.rounds.iter().enumerate().map(round).collect(),
        compared: measured.rows.first().map(results::Compared::from),
    })
}

fn seed(series: &Series<Report>, round: usize) -> u64 {
    series.seed.wrapping_add(round as u64)
}

/// The runs, a line each: the lock, all parameters, the numbers, and for a run that gave none why.
///
/// # Errors
/// None that a CSV in memory can have.
pub fn csv(series: &Series<Report>) -> io::Result<Vec<u8>> {
    let mut keys: Vec<String> = Vec::new();
    let mut times: Vec<String> = Vec::new();
    let mut classes: Vec<String> = Vec::new();
    let add = |list: &mut Vec<String>, name: &String| {
        if !list.contains(name) {
            list.push(name.clone());
        }
    };
    for measured in series.measured() {
        measured.workload().map(fields).iter().flat_map(Map::keys).for_each(|key| add(&mut keys, key));
        measured.rounds.iter().flat_map(|report| report.latency.keys()).for_each(|class| add(&mut times, class));
        let held = measured.rounds.iter().filter_map(|report| report.lock_time.as_ref());
        held.flat_map(|held| held.shares.keys()).for_each(|class| add(&mut classes, class));
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut headings: Vec<String> = vec!["lock".to_owned()];
    headings.extend(keys.iter().cloned());
    headings
        .extend(["round", "seed", "ops", "throughput", "fairness_factor", "cv", "jain", "round_ns"].map(str::to_owned));
    headings.extend(["waiters", "handoffs", "within_core", "within_llc", "within_node"].map(str::to_owned));
    headings.extend(["handover_ns", "contention_ns"].map(str::to_owned));
    for class in &times {
        headings.extend(["p50", "p99", "p999", "max"].map(|part| format!("{class}_{part}_ns")));
    }
    if !classes.is_empty() {
        headings.extend(["lock_time_jain", "lock_held"].map(str::to_owned));
        headings.extend(classes.iter().map(|class| format!("lock_time_{class}")));
    }
    headings.push("problem".to_owned());
    writer.write_record(&headings)?;
    for measured in series.measured() {
        let fields = measured.workload().map(fields).unwrap_or_default();
        let mut about = vec![measured.point.lock.clone()];
        about.extend(keys.iter().map(|key| fields.get(key).map(text).unwrap_or_default()));
        for (round, report) in measured.rounds.iter().enumerate() {
            let mut record = about.clone();
            record.extend([(round + 1).to_string(), seed(series, round).to_string(), report.ops.to_string()]);
            let numbers = [report.throughput, report.fairness_factor, report.cv, report.jain, report.round_ns];
            record.extend(numbers.map(|number| number.to_string()));
            let optional = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
            record.push(optional(report.waiters));
            let handoffs = report.handoffs.as_ref();
            record.push(handoffs.map(|handoffs| handoffs.count.to_string()).unwrap_or_default());
            let shares = handoffs.map(|of| [of.within_core, of.within_llc, of.within_node].map(Some));
            record.extend(shares.unwrap_or_default().map(optional));
            record.push(optional(handoffs.and_then(|of| of.handover_ns)));
            record.push(optional(handoffs.and_then(|of| of.contention_ns)));
            for class in &times {
                let of = report.latency.get(class);
                let parts = of.map(|of| [of.p50_ns, of.p99_ns, of.p999_ns, of.max_ns].map(|ns| ns.to_string()));
                record.extend(parts.unwrap_or_default());
            }
            if !classes.is_empty() {
                let held = report.lock_time.as_ref();
                record.push(optional(held.map(|held| held.jain)));
                record.push(optional(held.map(|held| held.held)));
                record.extend(
                    classes.iter().map(|class| optional(held.and_then(|held| held.shares.get(class)).copied())),
                );
            }
            record.push(String::new());
            writer.write_record(&record)?;
        }
        if let Some(failure) = &measured.failure {
            let round = measured.rounds.len();
            let mut record = about;
            record.extend([(round + 1).to_string(), seed(series, round).to_string()]);
            record.resize(headings.len() - 1, String::new());
            record.push(failure.clone());
            writer.write_record(&record)?;
        }
    }
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}

/// The rows of everything that was compared, for a picture.
pub fn rows(series: &Series<Report>) -> Vec<&Row> {
    series.compared().flat_map(|group| &group.measured).filter_map(|measured| measured.rows.first()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_workloads::report::ThreadReport;

    fn kv(threads: usize, keys: &str) -> Workload {
        let mut workload = Workload::named("kv").expect("kv").with(threads, 1_000_000);
        workload.set("keys", keys).expect("keys");
        workload
    }

    fn pairs(setting: &[(String, String)]) -> Vec<(&str, &str)> {
        setting.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect()
    }

    #[test]
    fn settings_say_what_differs_and_what_always_counts() {
        let settings = settings(&[kv(1, "7"), kv(2, "7"), kv(1, "8")], &["threads"]);
        let expected =
            [[("threads", "1"), ("keys", "7")], [("threads", "2"), ("keys", "7")], [("threads", "1"), ("keys", "8")]];
        assert_eq!(settings.iter().map(|setting| pairs(setting)).collect::<Vec<_>>(), expected);
        let one = super::settings(&[kv(3, "7")], &["threads"]);
        assert_eq!(pairs(&one[0]), [("threads", "3")]);
    }

    #[test]
    fn stalls_are_waits_of_over_a_second() {
        let round = |longest: Ns| {
            let thread = |ns| ThreadReport { ops: 1, kind: "big".into(), longest_ns: Some(ns) };
            Report { per_thread: vec![thread(longest), thread(5), thread(longest)], ..Report::default() }
        };
        let point = Point::new("ttas", Role::Mutex, Work::Workload(oversubscribed(Role::Mutex, 3)));
        let measured = Measured::of(point, vec![round(7_000_000), round(1_500_000_000)]);
        assert_eq!((measured.longest_waits(), measured.stalls()), (vec![7_000_000, 1_500_000_000], 2));
    }

    #[test]
    fn csv_has_a_line_for_each_run_and_for_the_one_that_failed() {
        let report = Report { throughput: 5.0, ..Report::default() };
        let point = |lock| Point::new(lock, Role::Mutex, Work::Workload(kv(2, "7")));
        let good = Measured::of(point("pthread"), vec![report.clone(), report.clone()]);
        let bad = Measured::of(point("cna"), vec![report]).failed("signal: 6");
        let group = Group { setting: Vec::new(), measured: vec![good, bad], is_compared: true };
        let series = Series::new(vec![group], 9, Vec::new());
        let text = csv(&series).unwrap();
        let mut reader = csv::Reader::from_reader(&text[..]);
        let headings = reader.headers().unwrap().clone();
        let at = |name: &str| headings.iter().position(|heading| heading == name).unwrap();
        let lines: Vec<_> = reader.records().map(Result::unwrap).collect();
        assert_eq!(lines.len(), 4);
        let cell = |line: usize, name: &str| lines[line].get(at(name)).unwrap();
        assert_eq!((cell(1, "lock"), cell(1, "keys"), cell(1, "round"), cell(1, "seed")), ("pthread", "7", "2", "10"));
        assert_eq!((cell(1, "throughput"), cell(1, "problem")), ("5", ""));
        assert_eq!((cell(3, "lock"), cell(3, "round"), cell(3, "throughput")), ("cna", "2", ""));
        assert_eq!(cell(3, "problem"), "signal: 6");
    }
}
