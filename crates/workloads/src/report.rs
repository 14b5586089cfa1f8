//! The numbers of a run, in one form for hardware and simulation.
//!
//! Fairness factor: Dice, Kogan: EuroSys 2019, section 7.1.1. Jain's index: Jain, Chiu, Hawe: DEC-TR-301, 1984.

use crate::record::{Handoffs, Record};
use hdrhistogram::Histogram;
use lockswap_platform::{CoreKind, Ns};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a run gave. Times are in ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// Threads.
    pub threads: usize,
    /// The measured time.
    pub duration_ns: Ns,
    /// Operations within it.
    pub ops: u64,
    /// Operations per second.
    #[schemars(range(min = 0))]
    pub throughput: f64,
    /// Share of the operations made by the busier half of the threads: 0.5 is fair, 1 unfair.
    #[schemars(range(min = 0.5, max = 1))]
    pub fairness_factor: f64,
    /// Standard deviation of the operations per thread, divided by their mean: 0 is fair.
    pub cv: f64,
    /// (sum of x)^2 / (n * sum of x^2) over the operations x of n threads: 1 is fair, 1/n if one thread made all.
    #[schemars(range(min = 0, max = 1))]
    pub jain: f64,
    /// Mean time from one operation of a thread to its next.
    pub round_ns: f64,
    /// Mean number of threads that waited for the lock; null where waits are not timed.
    pub waiters: Option<f64>,
    /// What hand-offs were like; null where they are not noted.
    pub handoffs: Option<HandoffReport>,
    /// CPU time of the process in the measured time, ns; null in simulation.
    #[serde(default)]
    pub cpu_ns: Option<Ns>,
    /// Who held the lock for how long; null where that is not noted.
    pub lock_time: Option<LockTime>,
    /// What is timed: `wait` for the lock, or `epoch`; empty where nothing is.
    pub timed: String,
    /// The times: of `all` threads, and of those on `big` and on `little` CPUs where both are used; with a class in
    /// front (`read`, `read-little`) where the workload has classes.
    pub latency: BTreeMap<String, Distribution>,
    /// Thread by thread; absent where it stands for several rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub per_thread: Vec<ThreadReport>,
}

/// What a thread did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct ThreadReport {
    /// Operations within the measured time.
    pub ops: u64,
    /// The kind of CPU that it ran on: `big` or `little`.
    pub kind: String,
    /// Its longest time, ns; null where nothing is timed.
    pub longest_ns: Option<Ns>,
}

/// Hand-offs: acquisitions after another thread's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct HandoffReport {
    /// How many.
    pub count: u64,
    /// Share of those between CPUs of one core.
    pub within_core: f64,
    /// Share of those between CPUs that share the last-level cache.
    pub within_llc: f64,
    /// Share of those between CPUs of one NUMA node.
    pub within_node: f64,
    /// Mean time that the critical section then took to touch its data, ns (RON, figure 7); null without hand-offs.
    pub handover_ns: Option<f64>,
    /// Mean time from the end of the critical section before to the begin of the next, of those threads that had asked
    /// before that end, ns: what the lock itself needs to pass from one thread to the next; null if none had.
    pub contention_ns: Option<f64>,
}

/// How the time in which a lock was held divides among threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct LockTime {
    /// Jain's index over the threads' lock time, each divided by the scheduler's weight of the thread: 1 if each had
    /// its share.
    #[schemars(range(min = 0, max = 1))]
    pub jain: f64,
    /// Share of the measured time in which the lock was held.
    pub held: f64,
    /// Share of that time which the threads of each class had together.
    pub shares: BTreeMap<String, f64>,
}

/// Times, ns, exact to 1 %.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Distribution {
    /// How many.
    pub count: u64,
    /// Their mean.
    pub mean_ns: f64,
    /// Half are not longer.
    pub p50_ns: Ns,
    /// 99 % are not longer.
    pub p99_ns: Ns,
    /// 99.9 % are not longer.
    pub p999_ns: Ns,
    /// The longest.
    pub max_ns: Ns,
    /// Upper end of each range that has any, and how many it has.
    #[serde(default)]
    pub histogram: Vec<(Ns, u64)>,
}

impl Distribution {
    /// The distribution that a histogram holds.
    pub fn of(times: &Histogram<u64>) -> Self {
        Self {
            count: times.len(),
            mean_ns: times.mean(),
            p50_ns: times.value_at_quantile(0.5),
            p99_ns: times.value_at_quantile(0.99),
            p999_ns: times.value_at_quantile(0.999),
            max_ns: times.max(),
            histogram: times
                .iter_recorded()
                .map(|bin| (bin.value_iterated_to(), bin.count_since_last_iteration()))
                .collect(),
        }
    }
}

const fn name(kind: CoreKind) -> &'static str {
    match kind {
        CoreKind::Big => "big",
        CoreKind::Little => "little",
    }
}

/// Share of `counts` that the busier half of them makes up, the larger half if their number is odd; 0.5 if all are 0.
pub fn fairness_factor(counts: &[u64]) -> f64 {
    let mut sorted = counts.to_vec();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    let all: u64 = sorted.iter().sum();
    let half = sorted.len() as f64 / 2.0;
    // The thread in the middle of an odd number counts half, so that equal counts give 0.5.
    let upper: f64 = sorted.iter().enumerate().map(|(i, &n)| n as f64 * (half - i as f64).clamp(0.0, 1.0)).sum();
    if all == 0 {
        0.5
    } else {
        upper / all as f64
    }
}

/// Standard deviation of `counts` divided by their mean; 0 if all are 0.
pub fn coefficient_of_variation(counts: &[u64]) -> f64 {
    let n = counts.len() as f64;
    let mean = counts.iter().sum::<u64>() as f64 / n;
    let variance = counts.iter().map(|&x| (x as f64 - mean).powi(2)).sum::<f64>() / n;
    if mean > 0.0 {
        variance.sqrt() / mean
    } else {
        0.0
    }
}

/// Jain's index of `counts`; 1 if all are 0.
pub fn jain(counts: &[u64]) -> f64 {
    jain_of(counts.iter().map(|&x| x as f64))
}

/// Jain's index of `numbers`; 1 if all are 0.
pub fn jain_of(numbers: impl Iterator<Item = f64>) -> f64 {
    let (count, sum, squares) =
        numbers.fold((0.0, 0.0, 0.0), |(count, sum, squares), x| (count + 1.0, sum + x, squares + x * x));
    if squares > 0.0 {
        sum * sum / (count * squares)
    } else {
        1.0
    }
}

/// What the numbers of a workload are about.
#[derive(Clone, Copy, Default)]
pub struct About<'a> {
    /// What is timed; empty: nothing.
    pub timed: &'a str,
    /// Names of the classes of times, one empty name if there is one class.
    pub classes: &'a [&'a str],
    /// Whether the records' `waited` is known.
    pub waits: bool,
    /// Whether hand-offs are noted.
    pub handoffs: bool,
}

impl Report {
    /// The report on what all threads noted in `elapsed` ns.
    pub fn new(records: &[Record], elapsed: Ns, about: About<'_>) -> Self {
        let counts: Vec<u64> = records.iter().map(|record| record.ops).collect();
        let ops: u64 = counts.iter().sum();
        let waited: Ns = records.iter().map(|record| record.waited).sum();
        let time = (elapsed as f64).max(1.0);
        Self {
            threads: records.len(),
            duration_ns: elapsed,
            ops,
            throughput: ops as f64 * 1e9 / time,
            fairness_factor: fairness_factor(&counts),
            cv: coefficient_of_variation(&counts),
            jain: jain(&counts),
            round_ns: records.len() as f64 * time / ops.max(1) as f64,
            waiters: about.waits.then_some(waited as f64 / time),
            handoffs: about.handoffs.then(|| HandoffReport::of(records)),
            cpu_ns: None,
            lock_time: None,
            timed: about.timed.to_owned(),
            latency: latency(records, about.classes),
            per_thread: records.iter().map(ThreadReport::of).collect(),
        }
    }
}

impl ThreadReport {
    fn of(record: &Record) -> Self {
        let longest = record.times.iter().map(Histogram::max).max();
        Self { ops: record.ops, kind: name(record.kind).to_owned(), longest_ns: longest }
    }
}

impl HandoffReport {
    fn of(records: &[Record]) -> Self {
        let mut sum = Handoffs::default();
        records.iter().for_each(|record| sum.add(&record.handoffs));
        let share = |part: u64| part as f64 / sum.count.max(1) as f64;
        let mean = |time: Ns, count: u64| (count > 0).then(|| time as f64 / count as f64);
        Self {
            count: sum.count,
            within_core: share(sum.within_core),
            within_llc: share(sum.within_llc),
            within_node: share(sum.within_node),
            handover_ns: mean(sum.touching, sum.count),
            contention_ns: mean(sum.passing, sum.awaited),
        }
    }
}

fn latency(records: &[Record], classes: &[&str]) -> BTreeMap<String, Distribution> {
    let kinds = [CoreKind::Big, CoreKind::Little];
    let mixed = kinds.iter().all(|kind| records.iter().any(|record| record.kind == *kind));
    let mut found = BTreeMap::new();
    for (index, &class) in classes.iter().enumerate() {
        let mut add = |of: &str, kinds: &[CoreKind]| {
            let mut times = crate::record::histogram();
            for record in records.iter().filter(|record| kinds.contains(&record.kind)) {
                times.add(&record.times[index]).expect("histograms of one form");
            }
            let key = match (class, of) {
                ("", of) => of.to_owned(),
                (class, "all") => class.to_owned(),
                (class, of) => format!("{class}-{of}"),
            };
            found.insert(key, Distribution::of(&times));
        };
        add("all", &kinds);
        if mixed {
            kinds.iter().for_each(|&kind| add(name(kind), &[kind]));
        }
    }
    found
}

/// What several rounds gave: the median of each number, and the sums of the histograms; nothing if there are none.
pub fn summary(rounds: &[&Report]) -> Option<Report> {
    let values: Vec<Value> = rounds.iter().filter_map(|round| serde_json::to_value(round).ok()).collect();
    let mut summary: Report = serde_json::from_value(medians(&values)).ok()?;
    for (class, times) in &mut summary.latency {
        let mut sum = BTreeMap::new();
        for (end, count) in rounds.iter().filter_map(|round| round.latency.get(class)).flat_map(|of| &of.histogram) {
            *sum.entry(*end).or_default() += count;
        }
        times.histogram = sum.into_iter().collect();
    }
    Some(summary)
}

/// The median of each number in several reports of one form. Lists go, because they are of one run; what is no number
/// is that of the first report, and what one report lacks is of those that have it.
fn medians(reports: &[Value]) -> Value {
    match reports.first() {
        Some(Value::Object(first)) => {
            let of = |key: &String| {
                let values: Vec<Value> = reports
                    .iter()
                    .filter_map(|report| report.get(key))
                    .filter(|value| !value.is_null())
                    .cloned()
                    .collect();
                (key.clone(), medians(&values))
            };
            Value::Object(first.iter().filter(|(_, value)| !value.is_array()).map(|(key, _)| of(key)).collect())
        }
        Some(Value::Number(_)) => {
            let mut numbers: Vec<f64> = reports.iter().filter_map(Value::as_f64).collect();
            numbers.sort_unstable_by(f64::total_cmp);
            let middle = numbers.len() / 2;
            let median =
                if numbers.len() % 2 == 1 { numbers[middle] } else { (numbers[middle - 1] + numbers[middle]) / 2.0 };
            if reports.iter().all(Value::is_u64) {
                Value::from(median.round() as u64)
            } else {
                Value::from(median)
            }
        }
        Some(other) => other.clone(),
        None => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crew::{Member, Signal};
    use serde_json::json;

    #[test]
    fn fairness_by_hand() {
        assert_eq!(fairness_factor(&[10, 10]), 0.5);
        assert_eq!(fairness_factor(&[0, 30, 10, 60]), 0.9);
        assert_eq!(fairness_factor(&[5, 5, 5]), 0.5);
        assert_eq!(fairness_factor(&[0, 0]), 0.5);
        assert_eq!(coefficient_of_variation(&[2, 4, 4, 4, 5, 5, 7, 9]), 0.4);
        assert_eq!(coefficient_of_variation(&[3, 3]), 0.0);
        assert_eq!(jain(&[1, 0, 0, 0]), 0.25);
        assert_eq!(jain(&[7, 7, 7]), 1.0);
        assert_eq!(jain(&[1, 3]), 16.0 / 20.0);
        assert_eq!((jain(&[0]), coefficient_of_variation(&[0])), (1.0, 0.0));
    }

    fn record(kind: CoreKind, ops: u64, waited: Ns, times: &[Ns]) -> Record {
        let signal = Signal::default();
        let mut record = Record::new(&Member { number: 0, pace: 1.0, kind, signal: &signal, seed: 1 }, 1);
        (record.ops, record.waited) = (ops, waited);
        times.iter().for_each(|&time| record.time(0, time));
        record
    }

    #[test]
    fn a_report_by_hand() {
        let mut big = record(CoreKind::Big, 3, 500, &[10, 20, 30]);
        let mut little = record(CoreKind::Little, 1, 1500, &[100]);
        big.handoffs = Handoffs { count: 3, within_llc: 3, within_node: 3, awaited: 1, passing: 40, ..little.handoffs };
        little.handoffs = Handoffs { count: 1, touching: 80, awaited: 1, passing: 60, ..little.handoffs };
        let about = About { timed: "wait", classes: &[""], waits: true, handoffs: true };
        let report = Report::new(&[big, little], 2000, about);
        assert_eq!((report.threads, report.ops, report.throughput), (2, 4, 2e6));
        assert_eq!((report.fairness_factor, report.round_ns, report.waiters), (0.75, 1000.0, Some(1.0)));
        let handoffs = report.handoffs.as_ref().expect("noted");
        assert_eq!((handoffs.count, handoffs.within_core, handoffs.within_llc), (4, 0.0, 0.75));
        assert_eq!((handoffs.handover_ns, handoffs.contention_ns), (Some(20.0), Some(50.0)));
        let keys: Vec<&str> = report.latency.keys().map(String::as_str).collect();
        assert_eq!(keys, ["all", "big", "little"]);
        let big = &report.latency["big"];
        assert_eq!((big.count, big.p50_ns, big.p99_ns, big.max_ns, big.mean_ns), (3, 20, 30, 30, 20.0));
        assert_eq!(report.latency["all"].max_ns, 100);
        assert_eq!(report.per_thread[1], ThreadReport { ops: 1, kind: "little".into(), longest_ns: Some(100) });
        let back: Report = serde_json::from_value(serde_json::to_value(&report).expect("JSON")).expect("a report");
        assert_eq!(back, report);
    }

    #[test]
    fn a_summary_adds_histograms_up() {
        let about = About { timed: "wait", classes: &[""], waits: true, handoffs: false };
        let of = |ops, times: &[Ns]| Report::new(&[record(CoreKind::Big, ops, 0, times)], 1000, about);
        let (first, second) = (of(2, &[10, 20]), of(4, &[20]));
        let summary = summary(&[&first, &second]).expect("two rounds");
        assert_eq!((summary.ops, summary.per_thread.len(), summary.latency["all"].p50_ns), (3, 0, 15));
        assert_eq!(summary.latency["all"].histogram, [(10, 1), (20, 2)]);
        assert_eq!(super::summary(&[]), None);
    }

    #[test]
    fn medians_go_through_all_levels() {
        let rounds = [
            json!({"ops": 1, "jain": 0.5, "timed": "wait", "latency": {"all": {"p99_ns": 5}}, "per_thread": [1], "x": 1}),
            json!({"ops": 9, "jain": 0.9, "timed": "wait", "latency": {"all": {"p99_ns": 7}}, "per_thread": [2]}),
            json!({"ops": 3, "jain": 0.7, "timed": "wait", "latency": {"all": {"p99_ns": 6}}, "per_thread": [3], "x": null}),
        ];
        let expected = json!({"ops": 3, "jain": 0.7, "timed": "wait", "latency": {"all": {"p99_ns": 6}}, "x": 1});
        assert_eq!(medians(&rounds), expected);
        assert_eq!(medians(&rounds[..2])["ops"], json!(5));
        assert_eq!(medians(&rounds[..2])["latency"]["all"]["p99_ns"], json!(6));
    }
}
