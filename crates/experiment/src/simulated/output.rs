//! What a sweep found, as text: table, Markdown, HTML, JSON and CSV.

use std::io;

use lockswap_locks::registry::PTHREAD;
use lockswap_study::numbers::digits;
use lockswap_study::page::{Page, Row, Table};
use lockswap_study::stats::Difference;
use lockswap_study::summary::Judgement;
use lockswap_workloads::report::{Distribution, LockTime, Report};

use super::plan::{Plan, Setting};
use super::points::{runs, Point};
use super::Row as Run;
use crate::results;

/// A time in words.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 999_950_000.0 => format!("{:.2} s", ns / 1e9),
        ns if ns >= 999_950.0 => format!("{:.1} ms", ns / 1e6),
        ns if ns >= 999.5 => format!("{:.1} us", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

/// What is run, in a line.
fn about(plan: &Plan) -> String {
    let mut run = format!("workload {}", plan.name);
    for (key, value) in &plan.settings {
        run += &format!(", {key}={value}");
    }
    run += &format!(", {} of virtual time", time(plan.duration as f64));
    if plan.seeds.len() > 1 {
        run += &format!(", medians of {} seeds", plan.seeds.len());
    }
    run
}

const LEGEND: [&str; 6] = [
    "fairness: share of the busier half of the threads, 0.5 is fair.",
    "waiters: threads that wait for the lock, on average.",
    LOCK_TIME_LEGEND,
    "in node: hand-offs within a NUMA node.",
    "lock passes: from the end of a critical section to the begin of the next one that waited for it.",
    "data comes: time that the critical section takes for its data.",
];

/// What was found so far, for people: a row for each lock, values of keys and number of threads; a lock that could not
/// be measured has dashes.
pub fn page(plan: &Plan, points: &[Point<'_>]) -> Page {
    let timed = points.first().map_or("wait", |point| point.summary.timed.as_str());
    let little = points.iter().any(|point| point.summary.latency.contains_key("little"));
    let ratios = points.iter().any(|point| point.difference.is_some());
    let shares = points.iter().any(|point| point.summary.lock_time.is_some());
    let is_shown = |heading: &str| match heading {
        "with" => !plan.swept.is_empty(),
        TO_BASELINE => ratios,
        "big P99" | "little P99" => little,
        LOCK_TIME | JAIN => shares,
        _ => true,
    };
    let timed_p99 = format!("{timed} P99");
    let all = [
        "lock",
        "with",
        "threads",
        "M ops/s",
        TO_BASELINE,
        "fairness",
        LOCK_TIME,
        JAIN,
        "waiters",
        "in node",
        "lock passes",
    ];
    let rest = ["data comes", &timed_p99, "longest", "big P99", "little P99"];
    let all: Vec<&str> = all.into_iter().chain(rest).collect();
    let row = |setting: Setting<'_>| {
        let is_baseline = setting.lock == PTHREAD;
        let cells = cells(&setting, points.iter().find(|point| point.is_of(&setting)));
        let shown = all.iter().zip(cells).filter(|(heading, _)| is_shown(heading));
        Row {
            cells: shown.map(|(_, cell)| cell).collect(),
            judgement: if is_baseline { Judgement::Baseline } else { Judgement::Same },
        }
    };
    let columns = all.iter().filter(|heading| is_shown(heading));
    let table = Table {
        columns: columns.map(|heading| ((*heading).to_owned(), !["lock", "with"].contains(heading))).collect(),
        rows: plan.all().map(row).collect(),
        ..Table::default()
    };
    let ratio_legend = ratios.then(|| ratio_legend(plan.seeds.len()));
    let legend = LEGEND.iter().filter(|line| shares || **line != LOCK_TIME_LEGEND);
    Page {
        title: format!("{}: {}, simulated", plan.machine.id, plan.machine.title),
        conclusion: vec![about(plan)],
        tables: vec![table],
        notes: ratio_legend.into_iter().chain(legend.map(|line| (*line).to_owned())).collect(),
        ..Page::default()
    }
}

/// The headings of what each class of threads had of the lock's time, and of how fair that is.
const LOCK_TIME: &str = "lock time";
const JAIN: &str = "Jain";

/// What they mean.
const LOCK_TIME_LEGEND: &str =
    "lock time: shares of the classes of threads, called after the length of their critical \
    sections; Jain: of the threads' lock time, each divided by the thread's weight, 1 is fair.";

/// The heading of the ratios.
const TO_BASELINE: &str = "to pthread";

/// What the ratios mean.
fn ratio_legend(seeds: usize) -> String {
    let fewest = lockswap_study::stats::fewest_rounds(1);
    let spread = match seeds {
        1 => String::new(),
        seeds if seeds < fewest as usize => format!("; --seeds {fewest} or more give its 95 % interval"),
        _ => ", with its 95 % interval over the seeds".to_owned(),
    };
    format!("to pthread: throughput divided by that of glibc's mutex with the same seed{spread}; above 1 is better.")
}

/// A ratio, and its interval where there are enough seeds for one.
fn ratio(difference: &Difference) -> Option<String> {
    let interval = difference.ratio_interval().map(|(low, high)| format!(" [{}, {}]", digits(low), digits(high)));
    Some(digits(difference.ratio()?) + &interval.unwrap_or_default())
}

/// Shares of lock time, class by class.
fn shares(time: &LockTime) -> String {
    let parts: Vec<String> =
        time.shares.iter().map(|(class, share)| format!("{class}: {:.1} %", 100.0 * share)).collect();
    parts.join(", ")
}

/// All cells of a row.
fn cells(setting: &Setting<'_>, point: Option<&Point<'_>>) -> [String; 16] {
    let report = point.map(|point| &point.summary);
    let show = |number: Option<f64>, form: &dyn Fn(f64) -> String| number.map_or_else(|| "-".to_owned(), form);
    let handoffs = report.and_then(|report| report.handoffs.as_ref()).filter(|handoffs| handoffs.count > 0);
    let lock_time = report.and_then(|report| report.lock_time.as_ref());
    let latency = |kind: &str, pick: fn(&Distribution) -> u64| {
        let times = report.and_then(|report| report.latency.get(kind)).filter(|times| times.count > 0);
        show(times.map(|times| pick(times) as f64), &time)
    };
    [
        setting.lock.to_owned(),
        setting.name.to_owned(),
        setting.workload.threads().to_string(),
        show(report.map(|report| report.throughput / 1e6), &|number| format!("{number:.3}")),
        match point {
            Some(_) if setting.lock == PTHREAD => "1".to_owned(),
            point => point.and_then(|point| ratio(point.difference.as_ref()?)).unwrap_or_else(|| "-".to_owned()),
        },
        show(report.map(|report| report.fairness_factor), &|number| format!("{number:.3}")),
        lock_time.map_or_else(|| "-".to_owned(), shares),
        show(lock_time.map(|time| time.jain), &|number| format!("{number:.3}")),
        show(report.and_then(|report| report.waiters), &|number| format!("{number:.1}")),
        show(handoffs.map(|handoffs| 100.0 * handoffs.within_node), &|number| format!("{number:.0} %")),
        show(handoffs.and_then(|handoffs| handoffs.contention_ns), &time),
        show(handoffs.and_then(|handoffs| handoffs.handover_ns), &time),
        latency("all", |times| times.p99_ns),
        latency("all", |times| times.max_ns),
        latency("big", |times| times.p99_ns),
        latency("little", |times| times.p99_ns),
    ]
}

/// What went wrong, run by run.
pub fn failures(rows: &[Option<Run>]) -> String {
    let failed = rows.iter().flatten().filter_map(|row| Some((row, row.outcome.as_ref().err()?)));
    failed
        .map(|(row, failure)| format!("{} with {} threads, seed {}: {failure}\n", row.lock, row.threads, row.seed))
        .collect()
}

/// Everything, the same for the same seed on every host.
///
/// # Errors
/// A number that JSON has no form for.
pub fn json(plan: &Plan, rows: &[Option<Run>]) -> serde_json::Result<Vec<u8>> {
    let machine = results::Machine {
        id: plan.machine.id.clone(),
        title: plan.machine.title.clone(),
        cpus: plan.machine.cpu_count(),
        host: None,
    };
    let settings: Vec<String> = plan.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let about = results::About {
        simulated: true,
        machine: &machine,
        workload: &plan.name,
        settings: &settings,
        seed: plan.seeds[0],
    };
    let all: Vec<Setting<'_>> = plan.all().collect();
    let measurements = all.iter().map(|setting| results::Measurement {
        lock: setting.lock,
        workload: &setting.workload,
        little: None,
        seats: &[],
        rounds: runs(rows, setting).filter_map(round).collect(),
        compared: None,
    });
    let failed = |row: &Run| {
        Some(results::Failed {
            lock: row.lock.clone(),
            threads: row.threads as usize,
            seed: row.seed,
            what: row.outcome.as_ref().err()?.to_string(),
            config: row.workload.config(),
        })
    };
    results::json(&about, measurements, rows.iter().flatten().filter_map(failed).collect())
}

/// A run that has ended well, as a round.
fn round(row: &Run) -> Option<results::Round> {
    let run = row.outcome.as_ref().ok()?;
    let simulation = results::Simulation {
        memory_operations: run.totals.operations,
        misses: run.totals.misses,
        virtual_ns: run.totals.end / 1000,
    };
    Some(results::Round { seed: row.seed, report: run.report.clone(), simulation: Some(simulation) })
}

/// One line per run, with the names of the JSON's fields and a column for each key that has several values; what there
/// is not is empty.
///
/// # Errors
/// None that memory gives.
pub fn csv(plan: &Plan, rows: &[Option<Run>]) -> io::Result<Vec<u8>> {
    let mut file = csv::Writer::from_writer(Vec::new());
    let names = plan.swept.iter().map(String::as_str);
    let fields = [
        "seed",
        "ops",
        "throughput",
        "fairness_factor",
        "cv",
        "jain",
        "round_ns",
        "waiters",
        "handoffs",
        "within_core",
        "within_llc",
        "within_node",
        "contention_ns",
        "handover_ns",
        "timed",
        "p50_ns",
        "p99_ns",
        "p999_ns",
        "max_ns",
        "big_p99_ns",
        "little_p99_ns",
        "lock_time_jain",
        "lock_held",
        "lock_time_shares",
        "failure",
    ];
    file.write_record(["machine", "workload", "lock", "threads"].into_iter().chain(names).chain(fields))?;
    for row in rows.iter().flatten() {
        let begin = [&plan.machine.id, &plan.name, &row.lock, &row.threads.to_string()];
        let number = |key: &String| row.workload.number(key).map(|value| value.to_string()).unwrap_or_default();
        let swept: Vec<String> = plan.swept.iter().map(number).chain([row.seed.to_string()]).collect();
        let rest = match &row.outcome {
            Ok(run) => numbers(&run.report),
            Err(failure) => {
                let mut rest = vec![String::new(); 23];
                rest.push(failure.to_string());
                rest
            }
        };
        file.write_record(begin.into_iter().chain(&swept).chain(&rest))?;
    }
    file.into_inner().map_err(|error| error.into_error())
}

/// A run's fields from `ops` to `failure`.
fn numbers(report: &Report) -> Vec<String> {
    let show = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    let handoffs = report.handoffs.as_ref();
    let times = |kind: &str| report.latency.get(kind).filter(|times| times.count > 0);
    let all = times("all");
    vec![
        report.ops.to_string(),
        report.throughput.to_string(),
        report.fairness_factor.to_string(),
        report.cv.to_string(),
        report.jain.to_string(),
        report.round_ns.to_string(),
        show(report.waiters),
        show(handoffs.map(|handoffs| handoffs.count as f64)),
        show(handoffs.map(|handoffs| handoffs.within_core)),
        show(handoffs.map(|handoffs| handoffs.within_llc)),
        show(handoffs.map(|handoffs| handoffs.within_node)),
        show(handoffs.and_then(|handoffs| handoffs.contention_ns)),
        show(handoffs.and_then(|handoffs| handoffs.handover_ns)),
        report.timed.clone(),
        show(all.map(|times| times.p50_ns as f64)),
        show(all.map(|times| times.p99_ns as f64)),
        show(all.map(|times| times.p999_ns as f64)),
        show(all.map(|times| times.max_ns as f64)),
        show(times("big").map(|times| times.p99_ns as f64)),
        show(times("little").map(|times| times.p99_ns as f64)),
        show(report.lock_time.as_ref().map(|time| time.jain)),
        show(report.lock_time.as_ref().map(|time| time.held)),
        report.lock_time.as_ref().map(shares).unwrap_or_default(),
        String::new(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::points::points;
    use lockswap_sim::{Failure, Finished, Machine, Stuck, Totals, Workload};

    fn counter() -> Workload {
        Workload::named("counter").expect("a workload")
    }

    fn plan() -> Plan {
        Plan {
            machine: Machine::built_in("apple-m1", &[]).expect("a machine"),
            name: "counter".into(),
            workloads: vec![(String::new(), counter())],
            swept: Vec::new(),
            locks: vec!["cna".into(), "ttas".into()],
            threads: vec![20],
            duration: 1_000_000,
            seeds: vec![5, 6],
            settings: Vec::new(),
        }
    }

    fn row(lock: &str, seed: u64, outcome: Result<Finished, Failure>) -> Option<Run> {
        let workload = counter().with(20, 1_000_000);
        Some(Run { lock: lock.into(), threads: 20, workload, seed, outcome })
    }

    fn stopped() -> Failure {
        let threads = (0..20).map(|n| format!("thread {n} on CPU 0 watches cache lines [7] at cna.rs:9")).collect();
        Failure::Stuck(Stuck::Deadlock(threads))
    }

    /// A lock that stopped with one seed keeps the results of the other one and is named with all that is known.
    #[test]
    fn a_deadlock_stands_in_every_output() {
        let report = Report { threads: 20, ops: 3, throughput: 3e6, ..Report::default() };
        let finished = Finished { report, totals: Totals::default(), cpu_time: 0 };
        let (plan, rows) = (plan(), [row("cna", 5, Ok(finished)), row("cna", 6, Err(stopped())), None]);
        let said = failures(&rows);
        assert!(said.starts_with("cna with 20 threads, seed 6: deadlock: nothing will happen any more\n"), "{said}");
        assert!(said.contains("thread 15 on CPU 0 watches cache lines [7] at cna.rs:9\n  and 4 more\n"), "{said}");
        let json: serde_json::Value = serde_json::from_slice(&json(&plan, &rows).expect("JSON")).expect("JSON");
        let found = (&json["failures"][0]["lock"], &json["failures"][0]["seed"], &json["results"][0]["rounds"][1]);
        assert_eq!(found, (&"cna".into(), &6.into(), &serde_json::Value::Null));
        assert_eq!((json["results"].as_array().map(Vec::len), &json["results"][0]["ops"]), (Some(1), &3.into()));
        let csv = String::from_utf8(csv(&plan, &rows).expect("CSV")).expect("text");
        assert!(csv.contains("cna,20,6,,") && csv.contains("deadlock"), "{csv}");
        let page = page(&plan, &points(&plan, &rows));
        let row =
            |lock: &str| page.tables[0].rows.iter().find(|row| row.cells[0] == lock).expect("a row").cells.clone();
        assert_eq!((&row("cna")[2], &row("ttas")[2]), (&"3.000".to_owned(), &"-".to_owned()));
        assert!(!page.markdown().contains("to pthread"), "without the baseline there is no ratio");
    }
}
