//! What a sweep found, as text: table, Markdown, JSON and CSV.

use lockswap_sim::Stuck;
use lockswap_workloads::report::{summary, Distribution, Report};

use super::plan::Setting;
use super::{Plan, Row};
use crate::terminal;
use lockswap_experiment::results;
use lockswap_sim::Failure;

/// What the runs of one measurement gave.
pub struct Point<'a> {
    pub setting: Setting<'a>,
    /// Seed by seed.
    pub reports: Vec<&'a Report>,
    /// Their medians, and the sums of their histograms.
    pub summary: Report,
}

/// What has been found so far, in the order of the table.
pub fn points<'a>(plan: &'a Plan, rows: &'a [Option<Row>]) -> Vec<Point<'a>> {
    let point = |setting: Setting<'a>| {
        let reports: Vec<&Report> =
            runs(rows, &setting).filter_map(|row| Some(&row.outcome.as_ref().ok()?.report)).collect();
        Some(Point { summary: summary(&reports)?, setting, reports })
    };
    plan.all().filter_map(point).collect()
}

/// The runs of one measurement that have ended.
fn runs<'a>(rows: &'a [Option<Row>], setting: &Setting<'_>) -> impl Iterator<Item = &'a Row> + use<'a> {
    let (lock, workload) = (setting.lock.to_owned(), setting.workload.clone());
    rows.iter().flatten().filter(move |row| row.lock == lock && row.workload == workload)
}

/// A time in words.
pub fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 999_950_000.0 => format!("{:.2} s", ns / 1e9),
        ns if ns >= 999_950.0 => format!("{:.1} ms", ns / 1e6),
        ns if ns >= 999.5 => format!("{:.1} us", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

/// What is run, in a line or two.
fn about(plan: &Plan) -> String {
    let mut text = format!("{}: {}, simulated\nworkload {}", plan.machine.id, plan.machine.title, plan.name);
    for (key, value) in &plan.settings {
        text += &format!(", {key}={value}");
    }
    text += &format!(", {} of virtual time", time(plan.duration as f64));
    if plan.seeds.len() > 1 {
        text += &format!(", medians of {} seeds", plan.seeds.len());
    }
    text
}

const LEGEND: &str = "\
fairness: share of the busier half of the threads, 0.5 is fair. waiters: threads that wait for the lock, on average.
in node: hand-offs within a NUMA node. lock passes: from the end of a critical section to the begin of the next one
that waited for it. data comes: time that the critical section takes for its data.";

/// The headings of the table, and its rows; a lock that could not be measured has dashes.
fn cells(plan: &Plan, points: &[Point<'_>]) -> (Vec<String>, Vec<Vec<String>>) {
    let timed = points.first().map_or("wait", |point| point.summary.timed.as_str());
    let little = points.iter().any(|point| point.summary.latency.contains_key("little"));
    let is_swept = !plan.swept.is_empty();
    let mut headings: Vec<String> =
        ["lock", "threads", "M ops/s", "fairness", "waiters", "in node", "lock passes", "data comes"]
            .map(str::to_owned)
            .to_vec();
    headings.extend([format!("{timed} P99"), "longest".to_owned()]);
    if is_swept {
        headings.insert(1, "with".to_owned());
    }
    if little {
        headings.extend(["big P99", "little P99"].map(str::to_owned));
    }
    let row = |setting: Setting<'_>| {
        let is_same =
            |point: &&Point<'_>| point.setting.lock == setting.lock && point.setting.workload == setting.workload;
        let report = points.iter().find(is_same).map(|point| &point.summary);
        let show = |number: Option<f64>, form: &dyn Fn(f64) -> String| number.map_or_else(|| "-".to_owned(), form);
        let handoffs = report.and_then(|report| report.handoffs.as_ref()).filter(|handoffs| handoffs.count > 0);
        let latency = |kind: &str, pick: fn(&Distribution) -> u64| {
            let times = report.and_then(|report| report.latency.get(kind)).filter(|times| times.count > 0);
            show(times.map(|times| pick(times) as f64), &time)
        };
        let mut row = vec![
            setting.lock.to_owned(),
            setting.workload.threads().to_string(),
            show(report.map(|report| report.throughput / 1e6), &|number| format!("{number:.3}")),
            show(report.map(|report| report.fairness_factor), &|number| format!("{number:.3}")),
            show(report.and_then(|report| report.waiters), &|number| format!("{number:.1}")),
            show(handoffs.map(|handoffs| 100.0 * handoffs.within_node), &|number| format!("{number:.0} %")),
            show(handoffs.and_then(|handoffs| handoffs.contention_ns), &time),
            show(handoffs.and_then(|handoffs| handoffs.handover_ns), &time),
            latency("all", |times| times.p99_ns),
            latency("all", |times| times.max_ns),
        ];
        if is_swept {
            row.insert(1, setting.name.to_owned());
        }
        if little {
            row.extend(["big", "little"].map(|kind| latency(kind, |times| times.p99_ns)));
        }
        row
    };
    (headings, plan.all().map(row).collect())
}

/// The table, and what its columns mean.
pub fn table(plan: &Plan, points: &[Point<'_>]) -> String {
    let (headings, rows) = cells(plan, points);
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let words = if plan.swept.is_empty() { 1 } else { 2 };
    let mut table = terminal::table(&headings, &(words..headings.len()).collect::<Vec<_>>());
    rows.into_iter().for_each(|row| {
        table.add_row(row);
    });
    format!("{}\n\n{}\n{LEGEND}\n", about(plan), terminal::lines(&table))
}

/// The same in Markdown.
pub fn markdown(plan: &Plan, points: &[Point<'_>]) -> String {
    let (headings, rows) = cells(plan, points);
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = format!("|---|{}\n", "--:|".repeat(headings.len() - 1));
    let rows: String = rows.iter().map(|row| line(row)).collect();
    format!("{}\n\n{}{rule}{rows}\n{LEGEND}\n", about(plan), line(&headings))
}

/// What a run failed of, for people.
pub fn why(failure: &Failure) -> String {
    let (what, threads) = match failure {
        Failure::NoSuchLock => return "no such lock".into(),
        Failure::Stuck(Stuck::Deadlock(threads)) => ("deadlock: nothing will happen any more", threads),
        Failure::Stuck(Stuck::Livelock(threads)) => {
            ("livelock: threads go on and on, and none comes to its end", threads)
        }
        Failure::Stuck(Stuck::Late(threads)) => {
            ("no end: 100 s of virtual time after the measurement threads still run", threads)
        }
    };
    const SHOWN: usize = 16;
    let mut text = format!("{what}\n");
    for line in threads.iter().take(SHOWN) {
        text += &format!("  {line}\n");
    }
    if threads.len() > SHOWN {
        text += &format!("  and {} more\n", threads.len() - SHOWN);
    }
    text
}

/// What went wrong, run by run.
pub fn failures(rows: &[Option<Row>]) -> String {
    let failed = rows.iter().flatten().filter_map(|row| Some((row, row.outcome.as_ref().err()?)));
    failed
        .map(|(row, failure)| format!("{} with {} threads, seed {}: {}", row.lock, row.threads, row.seed, why(failure)))
        .collect()
}

/// Everything, the same for the same seed on every host.
pub fn json(plan: &Plan, rows: &[Option<Row>]) -> serde_json::Result<Vec<u8>> {
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
    let failed = |row: &Row| {
        Some(results::Failed {
            lock: row.lock.clone(),
            threads: row.threads as usize,
            seed: row.seed,
            what: why(row.outcome.as_ref().err()?),
            config: row.workload.config(),
        })
    };
    results::json(&about, measurements, rows.iter().flatten().filter_map(failed).collect())
}

/// A run that has ended well, as a round.
fn round(row: &Row) -> Option<results::Round> {
    let run = row.outcome.as_ref().ok()?;
    let simulation = results::Simulation {
        memory_operations: run.totals.operations,
        misses: run.totals.misses,
        virtual_ns: run.totals.end / 1000,
    };
    Some(results::Round { seed: row.seed, report: run.report.clone(), simulation: Some(simulation) })
}

/// One line per run, with the names of the JSON's fields and a column for each key that has several values; what there is
/// not is empty.
pub fn csv(plan: &Plan, rows: &[Option<Row>]) -> anyhow::Result<Vec<u8>> {
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
                let mut rest = vec![String::new(); 20];
                rest.push(why(failure).trim_end().to_owned());
                rest
            }
        };
        file.write_record(begin.into_iter().chain(&swept).chain(&rest))?;
    }
    Ok(file.into_inner()?)
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
        String::new(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_sim::{Finished, Machine, Totals, Workload};

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

    fn row(lock: &str, seed: u64, outcome: Result<Finished, Failure>) -> Option<Row> {
        let workload = counter().with(20, 1_000_000);
        Some(Row { lock: lock.into(), threads: 20, workload, seed, outcome })
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
        let table = table(&plan, &points(&plan, &rows));
        let fields: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().take(3).collect()).collect();
        assert!(fields.contains(&vec!["cna", "20", "3.000"]) && fields.contains(&vec!["ttas", "20", "-"]), "{table}");
        assert!(markdown(&plan, &points(&plan, &rows)).contains("| ttas | 20 | - |"));
    }
}
