//! Regret as tables, JSON, CSV and a heat map.

use super::cells::{Cell, Targets};
use super::finding::{Best, Finding, Half, Round, Runs, PRECISION};
use super::summary::{Itself, Reached};
use super::Findings;
use crate::results::Machine;
use lockswap_plot::{Groups, HeatMap};
use lockswap_study::numbers::{digits, ratio_digits};
use lockswap_study::page::{Page, Row, Table};
use lockswap_study::stats::fewest_rounds;
use lockswap_study::summary::Judgement;
use serde::Serialize;
use std::io;

/// What is said before the held-out cells are measured, and with what was found in them.
pub const USED_UP: &str =
    "these are the held-out cells: a look at them uses them up, because what is changed afterwards has \
                           been chosen with them in view";

/// The ends of the colours.
const ENDS: (f64, f64) = (0.25, 1.25);

/// A target with what was reached, in words.
fn words(reached: &Reached) -> String {
    let sign = if reached.at_most { "<=" } else { ">=" };
    let cell = reached.cell.as_ref().map_or(String::new(), |cell| format!(" ({cell})"));
    let value = reached.value.map_or_else(|| "not known".to_owned(), ratio_digits);
    let met = match reached.is_met() {
        Some(true) => "met",
        Some(false) => "missed",
        None => "not judged",
    };
    format!("{}: {value}{cell}, target {sign} {}: {met}", reached.what, digits(reached.target))
}

/// The tables, and how to read them.
pub fn page(found: &Findings<'_>) -> Page {
    let summary = found.summary();
    let rounds = if found.simulated { "seeds" } else { "rounds" };
    let counts = || found.found.iter().map(made);
    let (fewest, most) = (counts().min().unwrap_or_default(), counts().max().unwrap_or_default());
    let count = if fewest < most { format!("{fewest} to {most}") } else { most.to_string() };
    let about = format!(
        "{} next to the best of {} locks in each of {} cells, {count} {rounds}",
        found.subject,
        found.cells.candidates.len(),
        found.found.len(),
    );
    let mut conclusion = vec![about];
    conclusion.extend(found.reached().iter().map(words));
    if let Some((cell, ratio)) = summary.worst.as_ref().filter(|_| !found.simulated) {
        conclusion.push(format!("the worst cell: {} ({cell})", ratio_digits(*ratio)));
    }
    if summary.judged < found.found.len() {
        conclusion.push(format!("cells without a ratio: {}", found.found.len() - summary.judged));
    }
    if summary.unfair > 0 {
        let what = format!("cells in which {} itself is less fair than {}", found.subject, found.cells.fairness_factor);
        conclusion.push(format!("{what}: {}", summary.unfair));
    }
    if let Some(itself) = summary.itself.as_ref().filter(|_| !found.simulated) {
        conclusion.push(next_to_itself(found.subject, itself));
    }
    let has_cpu = !found.simulated;
    let mut columns: Vec<(String, bool)> = ["cell", "best lock"].map(|name| (name.to_owned(), false)).to_vec();
    columns.extend(["ratio", "95 % interval", "fairness", "of best"].map(|name| (name.to_owned(), true)));
    if has_cpu {
        columns.push(("CPU time".to_owned(), true));
        columns.push(("next to".to_owned(), false));
    }
    let row = |finding: &Finding| {
        let judgement = match finding.ratio() {
            Some(ratio) if ratio < found.cells.targets.worst => Judgement::Worse,
            Some(_) => Judgement::Same,
            None => Judgement::Failed,
        };
        Row { cells: cells(finding, has_cpu), judgement }
    };
    let table = Table { columns, rows: found.found.iter().map(row).collect(), ..Table::default() };
    Page { title: title(found), conclusion, tables: vec![table], notes: notes(found, rounds, most), ..Page::default() }
}

/// Rounds that came to their end.
fn made(finding: &Finding) -> usize {
    finding.subject.rounds.iter().flatten().count()
}

/// What noise does to the ratios of this machine.
fn next_to_itself(lock: &str, Itself { cells, ratios: (least, largest), bound }: &Itself) -> String {
    let bound = bound
        .as_ref()
        .map_or(String::new(), |(cell, low)| format!(", lower ends of intervals from {} ({cell})", ratio_digits(*low)));
    let ratios = match cells {
        1 => format!("1 cell), its ratio is {}", ratio_digits(*least)),
        _ => format!("{cells} cells), its ratios go from {} to {}", ratio_digits(*least), ratio_digits(*largest)),
    };
    format!("noise: where {lock} is the best lock itself ({ratios}{bound}")
}

fn title(found: &Findings<'_>) -> String {
    let part = if found.held_out { ", held-out cells" } else { "" };
    format!("Regret of {}{}{part}", found.subject, if found.simulated { ", simulated" } else { "" })
}

fn cells(finding: &Finding, has_cpu: bool) -> Vec<String> {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let fairness = |runs: &Runs| Some(format!("{:.2}", runs.summary()?.fairness_factor));
    let best = finding.best.as_ref().ok();
    let of_lock = |lock: &String| fairness(finding.candidates.iter().find(|runs| runs.lock == *lock)?);
    let of_best = |best: &Best| {
        let all = std::iter::once(&best.lock).chain(&best.other);
        all.map(of_lock).collect::<Option<Vec<_>>>().map(|all| all.join(", "))
    };
    let mut row = vec![
        finding.cell.id.clone(),
        or_dash(best.map(ToString::to_string)),
        or_dash(finding.ratio().map(ratio_digits)),
        or_dash(finding.interval().map(|(low, high)| format!("[{}, {}]", digits(low), digits(high)))),
        or_dash(fairness(&finding.subject)),
        or_dash(best.and_then(of_best)),
    ];
    if has_cpu {
        row.push(or_dash(finding.cpu_ratio().map(digits)));
        row.push(or_dash(finding.cpu.as_ref().map(|(best, _)| best.to_string())));
    }
    row
}

/// How to read the table, and what is not in it.
fn notes(found: &Findings<'_>, rounds: &str, count: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if found.held_out {
        notes.push(USED_UP.to_owned());
    }
    notes.push(format!(
        "ratio: throughput next to that of the best eligible lock, above 1 is better. Eligible are {}, where their \
         fairness factor is at most {}. The best is picked in every other one of the {rounds} and measured in those \
         between, and the other way round; two locks stand where that makes a difference",
        found.cells.candidates.join(", "),
        found.cells.fairness_factor,
    ));
    notes.push(
        "fairness: share of all operations by the busier half of the threads, 0.5 is fair; of best: that of the best lock"
            .to_owned(),
    );
    if !found.simulated {
        notes.push(
            "CPU time: for an operation, next to that of the best eligible lock whose waiters sleep, which stands behind \
             it; below 1 is better"
                .to_owned(),
        );
    }
    let fewest = fewest_rounds(1) as usize;
    if count < fewest {
        notes.push(format!("an interval takes {fewest} {rounds}"));
    }
    let with_more = found.found.iter().filter(|finding| made(finding) > found.rounds as usize);
    let with_more: Vec<String> = with_more.map(|finding| format!("{} {}", finding.cell.id, made(finding))).collect();
    if !with_more.is_empty() {
        notes.push(format!(
            "more {rounds} where the interval reached farther than {:.0} % of the ratio: {}",
            100.0 * PRECISION,
            with_more.join(", ")
        ));
    }
    for finding in &found.found {
        notes.extend(finding.best.as_ref().err().map(|why| format!("{}: {why}", finding.cell.id)));
        notes.extend(finding.stood_still().then(|| {
            let Finding { cell, subject, .. } = finding;
            format!("{}: {} made no operation in a round, which counts as a ratio of 0", cell.id, subject.lock)
        }));
        // Those of hardware are told for every series.
        if found.simulated {
            notes.extend(finding.problems());
        }
    }
    notes.extend(found.skipped.iter().map(|(cell, why)| format!("skipped: {}: {why}", cell.id)));
    notes
}

/// Ratios by what the threads do, from left to right, and machine and number of threads, from above.
pub fn draw(found: &Findings<'_>, footer: String) -> HeatMap {
    let cells = || found.found.iter().map(|finding| &finding.cell);
    let columns: Vec<String> =
        found.cells.bodies.iter().filter(|body| cells().any(|cell| cell.body == **body)).cloned().collect();
    let mut rows: Vec<(Option<&str>, usize)> = Vec::new();
    for cell in cells() {
        let row = (cell.machine.as_deref(), cell.threads);
        if !rows.contains(&row) {
            rows.push(row);
        }
    }
    let mut machines: Vec<Option<&str>> = rows.iter().map(|(machine, _)| *machine).collect();
    machines.dedup();
    let number = |machine: Option<&str>| machines.iter().position(|known| *known == machine);
    rows.sort_by_key(|(machine, threads)| (number(*machine), *threads));
    let value = |(machine, threads): (Option<&str>, usize), body: &String| {
        let is_here = |cell: &Cell| (cell.machine.as_deref(), cell.threads, &cell.body) == (machine, threads, body);
        found.found.iter().find(|finding| is_here(&finding.cell))?.ratio()
    };
    let values = rows.iter().flat_map(|row| columns.iter().map(move |body| value(*row, body))).collect();
    let name = |(machine, threads): &(Option<&str>, usize)| match machine {
        Some(machine) => format!("{machine}, {threads}"),
        None => threads.to_string(),
    };
    HeatMap {
        title: format!("{}: throughput next to the best lock", title(found)),
        sides: if found.simulated { "machine, threads" } else { "threads" }.to_owned(),
        across: "what the threads do".to_owned(),
        unit: "next to the best lock".to_owned(),
        log: true,
        names: rows.iter().map(name).collect(),
        columns,
        values,
        ends: Some(ENDS),
        groups: vec![Groups {
            name: "machines".to_owned(),
            of: rows.iter().map(|(machine, _)| number(*machine)).collect(),
        }],
        footer,
        ..HeatMap::default()
    }
}

#[derive(Serialize)]
struct Document<'a> {
    schema: u32,
    tool: &'static str,
    simulated: bool,
    machine: Option<&'a Machine>,
    lock: &'a str,
    candidates: &'a [String],
    fairness_factor: f64,
    held_out: bool,
    seed: u64,
    targets: Targets,
    worst_ratio: Option<f64>,
    worst_bound: Option<f64>,
    geometric_mean: Option<f64>,
    largest_cpu_ratio: Option<f64>,
    reached: Vec<Target>,
    cells: Vec<Found<'a>>,
    skipped: Vec<Skipped<'a>>,
}

#[derive(Serialize)]
struct Target {
    #[serde(flatten)]
    reached: Reached,
    met: Option<bool>,
}

#[derive(Serialize)]
struct Skipped<'a> {
    cell: &'a str,
    why: &'a str,
}

#[derive(Serialize)]
struct Found<'a> {
    cell: &'a str,
    machine: Option<&'a str>,
    body: &'a str,
    threads: usize,
    best: Option<&'a str>,
    /// What the other half of the rounds picks, if that is another lock.
    other_best: Option<&'a str>,
    /// Why there is no best lock.
    problem: Option<&'a str>,
    ratio: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
    cpu_ratio: Option<f64>,
    cpu_next_to: Option<&'a str>,
    /// What the other half of the rounds picks, if that is another lock.
    cpu_other_next_to: Option<&'a str>,
    subject: Told<'a>,
    candidates: Vec<Told<'a>>,
}

/// What a lock did, round by round.
#[derive(Serialize)]
struct Told<'a> {
    lock: &'a str,
    throughput: Vec<Option<f64>>,
    fairness_factor: Vec<Option<f64>>,
    cpu_ns_per_op: Vec<Option<f64>>,
    failure: Option<&'a str>,
}

impl<'a> Told<'a> {
    fn of(runs: &'a Runs) -> Self {
        let all = |of: &dyn Fn(&Round) -> Option<f64>| {
            runs.rounds.iter().map(|round| round.as_ref().and_then(of)).collect::<Vec<_>>()
        };
        Self {
            lock: &runs.lock,
            throughput: all(&|round| Some(round.throughput)),
            fairness_factor: all(&|round| Some(round.fairness_factor)),
            cpu_ns_per_op: all(&|round| round.cpu_ns_per_op),
            failure: runs.failure.as_deref(),
        }
    }
}

/// Everything; `machine` is this one, where nothing was simulated.
///
/// # Errors
/// A number that JSON has no form for.
pub fn json(found: &Findings<'_>, machine: Option<&Machine>) -> io::Result<Vec<u8>> {
    let summary = found.summary();
    let number = |of: &Option<(String, f64)>| of.as_ref().map(|(_, value)| *value);
    let target = |reached: Reached| Target { met: reached.is_met(), reached };
    let document = Document {
        schema: 1,
        tool: concat!("lockswap ", env!("CARGO_PKG_VERSION")),
        simulated: found.simulated,
        machine,
        lock: found.subject,
        candidates: &found.cells.candidates,
        fairness_factor: found.cells.fairness_factor,
        held_out: found.held_out,
        seed: found.seed,
        targets: found.cells.targets,
        worst_ratio: number(&summary.worst),
        worst_bound: number(&summary.worst_bound),
        geometric_mean: summary.mean,
        largest_cpu_ratio: number(&summary.cpu),
        reached: found.reached().into_iter().map(target).collect(),
        cells: found.found.iter().map(told).collect(),
        skipped: found.skipped.iter().map(|(cell, why)| Skipped { cell: &cell.id, why }).collect(),
    };
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}

fn told(finding: &Finding) -> Found<'_> {
    let (low, high) = finding.interval().unzip();
    let best = finding.best.as_ref().ok();
    let next_to = finding.cpu.as_ref().map(|(best, _)| best);
    Found {
        cell: &finding.cell.id,
        machine: finding.cell.machine.as_deref(),
        body: &finding.cell.body,
        threads: finding.cell.threads,
        best: best.map(|best| best.lock.as_str()),
        other_best: best.and_then(|best| best.other.as_deref()),
        problem: finding.best.as_ref().err().map(String::as_str),
        ratio: finding.ratio(),
        low,
        high,
        cpu_ratio: finding.cpu_ratio(),
        cpu_next_to: next_to.map(|best| best.lock.as_str()),
        cpu_other_next_to: next_to.and_then(|best| best.other.as_deref()),
        subject: Told::of(&finding.subject),
        candidates: finding.candidates.iter().map(Told::of).collect(),
    }
}

/// A line for each run, with the names of the JSON's fields. A simulated candidate that is the subject has one line.
///
/// # Errors
/// None that a CSV in memory can have.
pub fn csv(found: &Findings<'_>) -> io::Result<Vec<u8>> {
    let mut file = csv::Writer::from_writer(Vec::new());
    file.write_record(
        ["cell", "machine", "body", "threads", "lock", "part", "round", "seed", "half"].iter().chain(&[
            "throughput",
            "fairness_factor",
            "cpu_ns_per_op",
            "problem",
        ]),
    )?;
    for finding in &found.found {
        let Cell { id, machine, body, threads, .. } = &finding.cell;
        let is_other = |runs: &&Runs| !found.simulated || runs.lock != finding.subject.lock;
        let others = finding.candidates.iter().filter(is_other).map(|runs| ("candidate", runs));
        for (part, runs) in std::iter::once(("subject", &finding.subject)).chain(others) {
            let about = [id, machine.as_deref().unwrap_or("here"), body, &threads.to_string(), &runs.lock, part]
                .map(str::to_owned);
            let line = |number: usize, rest: [String; 4]| {
                let seed = found.seed.wrapping_add(number as u64);
                let middle = [(number + 1).to_string(), seed.to_string(), Half::of(number).name().to_owned()];
                about.iter().cloned().chain(middle).chain(rest).collect::<Vec<_>>()
            };
            for (number, round) in runs.rounds.iter().enumerate().filter_map(|(at, round)| Some((at, (*round)?))) {
                let cpu = round.cpu_ns_per_op.map(|cpu| cpu.to_string()).unwrap_or_default();
                let numbers = [round.throughput.to_string(), round.fairness_factor.to_string(), cpu, String::new()];
                file.write_record(line(number, numbers))?;
            }
            if let Some(failure) = &runs.failure {
                let at = runs.rounds.iter().position(Option::is_none).unwrap_or(runs.rounds.len());
                let nothing = || String::new();
                file.write_record(line(at, [nothing(), nothing(), nothing(), failure.clone()]))?;
            }
        }
    }
    file.into_inner().map_err(|error| error.into_error())
}
