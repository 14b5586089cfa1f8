//! What a sweep found: table, JSON, CSV and pictures.

use std::fmt::Write as _;
use std::path::PathBuf;

use lockswap_plot::{Axis, Chart, Format, Series};
use lockswap_sim::{Finished, Workload};
use lockswap_workloads::report::Report;

use super::{why, Plan, Row};
use crate::{results, terminal};

/// What a picture shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    Throughput,
    Fairness,
    Latency,
}

/// A picture to draw.
#[derive(Clone, Debug)]
pub struct Picture {
    pub shown: Shown,
    pub file: PathBuf,
    format: Format,
}

/// Reads `throughput=FILE`.
pub fn picture(text: &str) -> Result<Picture, String> {
    let (what, file) = text.split_once('=').ok_or("write WHAT=FILE, as in throughput=curve.svg")?;
    let shown = match what {
        "throughput" => Shown::Throughput,
        "fairness" => Shown::Fairness,
        "latency" => Shown::Latency,
        _ => return Err(format!("'{what}' cannot be drawn: use throughput, fairness or latency")),
    };
    let file = PathBuf::from(file);
    let format = Format::of(&file).map_err(|error| error.to_string())?;
    Ok(Picture { shown, file, format })
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The runs of one lock with so many threads.
fn runs<'a>(rows: &'a [Option<Row>], lock: &'a str, threads: u32) -> impl Iterator<Item = &'a Finished> {
    rows.iter()
        .flatten()
        .filter(move |row| row.lock == lock && row.threads == threads)
        .filter_map(|row| row.outcome.as_ref().ok())
}

fn time(ns: f64) -> String {
    match ns {
        ns if ns >= 999_500.0 => format!("{:.1} ms", ns / 1e6),
        ns if ns >= 999.5 => format!("{:.1} us", ns / 1e3),
        ns => format!("{ns:.0} ns"),
    }
}

/// The table, and what its columns mean.
pub fn table(plan: &Plan, rows: &[Option<Row>]) -> String {
    let mut text = format!("{}: {}, simulated\nworkload {}", plan.machine.id, plan.machine.title, plan.name);
    for (key, value) in &plan.settings {
        let _ = write!(text, ", {key}={value}");
    }
    let seeds = if plan.seeds.len() > 1 { format!(", mean of {} seeds", plan.seeds.len()) } else { String::new() };
    let _ = writeln!(text, ", {} of virtual time{seeds}\n", time(plan.duration as f64));
    let times =
        rows.iter().flatten().filter_map(|row| row.outcome.as_ref().ok()).map(|run| run.report.timed.as_str()).next();
    let timed = format!("{} p99", times.unwrap_or("wait"));
    let headings =
        ["lock", "threads", "M ops/s", "fairness", "waiters", "in node", "lock passes", "data comes", &timed];
    let mut table = terminal::table(&headings, &[1, 2, 3, 4, 5, 6, 7, 8]);
    for lock in &plan.locks {
        for &threads in &plan.threads {
            let of = |number: &dyn Fn(&Report) -> Option<f64>| {
                mean(runs(rows, lock, threads).filter_map(|run| number(&run.report)))
            };
            let handoffs = |report: &Report| report.handoffs.clone().filter(|handoffs| handoffs.count > 0);
            let show = |number: Option<f64>, form: &dyn Fn(f64) -> String| number.map_or_else(|| "-".to_owned(), form);
            table.add_row([
                lock.clone(),
                threads.to_string(),
                show(of(&|report| Some(report.throughput / 1e6)), &|number| format!("{number:.3}")),
                show(of(&|report| Some(report.fairness_factor)), &|number| format!("{number:.3}")),
                show(of(&|report| report.waiters), &|number| format!("{number:.1}")),
                show(of(&|report| Some(100.0 * handoffs(report)?.within_node)), &|number| format!("{number:.0} %")),
                show(of(&|report| handoffs(report)?.contention_ns), &time),
                show(of(&|report| handoffs(report)?.handover_ns), &time),
                show(of(&|report| Some(report.latency.get("all")?.p99_ns as f64)), &time),
            ]);
        }
    }
    text += &terminal::lines(&table);
    text +=
        "\nfairness: share of the busier half of the threads, 0.5 is fair. in node: hand-offs within a NUMA node.\n\
             lock passes: from the end of a critical section to the begin of the next one that waited for it.\n\
             data comes: time that the critical section takes for its data.\n";
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
    let workloads: Vec<Workload> = plan.threads.iter().map(|&threads| plan.workload(threads)).collect();
    let settings = plan.locks.iter().flat_map(|lock| workloads.iter().map(move |workload| (lock, workload)));
    let measurements = settings.map(|(lock, workload)| results::Measurement {
        lock,
        workload,
        little: None,
        seats: &[],
        rounds: rounds(rows, lock, workload.threads() as u32),
    });
    let failed = |row: &Row| {
        Some(results::Failed {
            lock: row.lock.clone(),
            threads: row.threads as usize,
            seed: row.seed,
            what: why(row.outcome.as_ref().err()?),
            config: plan.workload(row.threads).config(),
        })
    };
    results::json(&about, measurements, rows.iter().flatten().filter_map(failed).collect())
}

/// The runs of one lock with so many threads, as rounds.
fn rounds(rows: &[Option<Row>], lock: &str, threads: u32) -> Vec<results::Round> {
    let of = |row: &Row| {
        let run = row.outcome.as_ref().ok()?;
        let simulation = results::Simulation {
            memory_operations: run.totals.operations,
            misses: run.totals.misses,
            virtual_ns: run.totals.end / 1000,
        };
        Some(results::Round { seed: row.seed, report: run.report.clone(), simulation: Some(simulation) })
    };
    rows.iter().flatten().filter(|row| row.lock == lock && row.threads == threads).filter_map(of).collect()
}

/// One line per run.
pub fn csv(plan: &Plan, rows: &[Option<Row>]) -> String {
    let mut text = "machine,workload,lock,threads,seed,throughput,fairness_factor,cv,jain,waiters,within_core,within_llc,within_node,\
                    contention_ns,handover_ns,p50_ns,p99_ns,max_ns\n"
        .to_owned();
    for row in rows.iter().flatten() {
        let Ok(run) = &row.outcome else { continue };
        let report = &run.report;
        let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        let handoffs = report.handoffs.as_ref();
        let latency = report.latency.get("all");
        let fields = [
            // A path may hold a comma.
            format!("\"{}\"", plan.machine.id.replace('"', "\"\"")),
            plan.name.clone(),
            row.lock.clone(),
            row.threads.to_string(),
            row.seed.to_string(),
            report.throughput.to_string(),
            report.fairness_factor.to_string(),
            report.cv.to_string(),
            report.jain.to_string(),
            number(report.waiters),
            number(handoffs.map(|handoffs| handoffs.within_core)),
            number(handoffs.map(|handoffs| handoffs.within_llc)),
            number(handoffs.map(|handoffs| handoffs.within_node)),
            number(handoffs.and_then(|handoffs| handoffs.contention_ns)),
            number(handoffs.and_then(|handoffs| handoffs.handover_ns)),
            number(latency.map(|latency| latency.p50_ns as f64)),
            number(latency.map(|latency| latency.p99_ns as f64)),
            number(latency.map(|latency| latency.max_ns as f64)),
        ];
        text += &fields.join(",");
        text.push('\n');
    }
    text
}

/// The file of a picture.
pub fn draw(picture: &Picture, plan: &Plan, rows: &[Option<Row>]) -> Vec<u8> {
    chart(picture.shown, plan, rows).render(picture.format)
}

fn chart(shown: Shown, plan: &Plan, rows: &[Option<Row>]) -> Chart {
    let title = format!("{} on {} (simulated)", plan.name, plan.machine.title);
    let threads = || Axis::log("threads").ticks(plan.threads.iter().map(|threads| f64::from(*threads)));
    let over_threads = |number: fn(&Report) -> f64| {
        plan.locks.iter().map(move |lock| {
            let points = plan.threads.iter().filter_map(|&threads| {
                Some((f64::from(threads), mean(runs(rows, lock, threads).map(|run| number(&run.report)))?))
            });
            Series::new(lock, points.collect::<Vec<_>>())
        })
    };
    match shown {
        Shown::Throughput => {
            let mut chart = Chart::new(title, threads(), Axis::linear("M ops/s").from_zero());
            chart.series.extend(over_threads(|report| report.throughput / 1e6));
            chart
        }
        Shown::Fairness => {
            let mut chart = Chart::new(title, threads(), Axis::linear("fairness factor").range(0.5, 1.0));
            chart.series.extend(over_threads(|report| report.fairness_factor));
            chart
        }
        Shown::Latency => {
            let mut chart = Chart::new(title, Axis::log("time (ns)"), Axis::linear("share not longer").range(0.0, 1.0));
            for lock in &plan.locks {
                for &threads in &plan.threads {
                    // The first seed: distributions of several do not add up to one.
                    let Some(latency) = runs(rows, lock, threads).find_map(|run| run.report.latency.get("all")) else {
                        continue;
                    };
                    let mut below = 0;
                    let points = latency.histogram.iter().map(|&(ns, count)| {
                        below += count;
                        (ns as f64, below as f64 / latency.count.max(1) as f64)
                    });
                    let name = if plan.threads.len() > 1 { format!("{lock}, {threads} threads") } else { lock.clone() };
                    chart.series.push(Series::new(name, points.collect::<Vec<_>>()));
                }
            }
            chart
        }
    }
}
