//! What a validation found, for people.

use lockswap_study::descriptive::Quartiles;
use lockswap_study::page::{Page, Row, Table};
use lockswap_study::summary::Judgement;

use super::judge::{Group, Spread, Verdict, FACTORS};
use super::rounds::SAME;
use super::{Findings, Outcome};

/// How many of the worst are listed.
const WORST: usize = 8;

/// Everything: a table for each workload and number of threads, and what they say together.
pub fn page(findings: &Findings) -> Page {
    let plan = &findings.plan;
    let mut simulated = "simulated ".to_owned();
    simulated += &plan.machine.as_ref().map_or(String::new(), |machine| format!("{}: {}", machine.id, machine.title));
    plan.settings.iter().for_each(|(key, value)| simulated += &format!(", {key}={value}"));
    let [duration, of_simulated] = [plan.duration, plan.simulated].map(|ns| ns as f64 / 1e6);
    let runs = format!("{} rounds of {duration} ms, {of_simulated} ms of virtual time", plan.rounds);
    let mut tables: Vec<Table> = findings.groups().map(|(outcome, group)| of_case(findings, outcome, group)).collect();
    tables.push(absolute(findings));
    tables.push(summary(findings));
    tables.extend(worst(findings));
    let failed = findings.failures.iter().map(|failure| format!("failed: {failure}"));
    Page {
        title: format!("measured on {}", findings.about.words()),
        conclusion: vec![simulated, runs],
        tables,
        notes: LEGEND.map(str::to_owned).into_iter().chain(drift(findings)).chain(failed).collect(),
        ..Page::default()
    }
}

const LEGEND: [&str; 5] = [
    "absolute: simulated throughput divided by measured throughput, of the same lock.",
    "relative: throughput divided by the geometric mean over the locks of the table; interval: that of the rounds' median, \
     93 % certain or more.",
    "ratio: simulated to measured relative throughput. ~ the simulated one lies in the interval: no disagreement. ! over \
     1.25 times off, !! over 2.",
    "fairness: share of the busier half of the threads, measured and simulated; 0.5 is fair.",
    "tau: Kendall's, 1 for the same order, 0 for none. in order: of the pairs of locks whose intervals are apart.",
];

fn table(title: String, columns: &[(&str, bool)], rows: Vec<Vec<String>>) -> Table {
    let columns = columns.iter().map(|(heading, is_numeric)| ((*heading).to_owned(), *is_numeric)).collect();
    let row = |cells| Row { cells, judgement: Judgement::Same };
    Table { title: Some(title), columns, rows: rows.into_iter().map(row).collect(), ..Table::default() }
}

/// The locks of one workload and number of threads.
fn of_case(findings: &Findings, outcome: &Outcome, group: &Group) -> Table {
    let case = outcome.case(&findings.plan);
    let (same, all) = group.decided();
    let fitted = match outcome.fitted {
        0 => String::new(),
        steps => format!(" (fitted at 1 thread: {steps} steps inside stand for the map's instructions)"),
    };
    let title = format!(
        "{}: the simulation is {:.2} times as fast{fitted}; orders alike: tau {:.2}, {same} of {all} pairs in order",
        case.title(),
        group.simulated / group.measured,
        group.tau()
    );
    let columns = [
        ("lock", false),
        ("measured M/s", true),
        ("relative", true),
        ("interval", true),
        ("simulated M/s", true),
        ("absolute", true),
        ("relative", true),
        ("ratio", true),
        ("", false),
        ("fairness", true),
        ("simulated", true),
    ];
    // One thread is always fair.
    let shown = if case.threads > 1 { columns.len() } else { columns.len() - 2 };
    let row = |lock: &Verdict| {
        let [low, high] = lock.measured_range;
        let [measured, simulated] = lock.fairness;
        let row = [
            lock.lock.clone(),
            format!("{:.3}", lock.measured / 1e6),
            format!("{:.2}", lock.measured_relative),
            format!("{low:.2}-{high:.2}"),
            format!("{:.3}", lock.simulated / 1e6),
            format!("{:.2}", lock.absolute()),
            format!("{:.2}", lock.simulated_relative),
            format!("{:.2}", lock.ratio()),
            mark(lock).to_owned(),
            format!("{measured:.2}"),
            format!("{simulated:.2}"),
        ];
        row.into_iter().take(shown).collect()
    };
    table(title, &columns[..shown], group.locks.iter().map(row).collect())
}

/// How far a ratio is from 1.
fn mark(lock: &Verdict) -> &'static str {
    match lock.factor() {
        _ if lock.is_within_noise() => "~",
        far if far < FACTORS[1] => "",
        far if far < FACTORS[2] => "!",
        _ => "!!",
    }
}

/// How many times as fast the simulation is, workload by workload.
fn absolute(findings: &Findings) -> Table {
    let headings = ["locks", "median", "95 %", "in 1.1", "in 1.25", "in 2"].map(|heading| (heading, true));
    let columns: Vec<(&str, bool)> = std::iter::once(("absolute", false)).chain(headings).collect();
    let rows = findings.groups().filter_map(|(outcome, group)| {
        let Spread { count, quartiles: Quartiles { median, .. }, range: [low, high], within } = group.absolute()?;
        let of_all = |share: f64| format!("{:.0} %", 100.0 * share);
        let first = [outcome.case(&findings.plan).title(), count.to_string(), format!("{median:.2}")];
        let rest = std::iter::once(format!("{low:.2}-{high:.2}")).chain(within.map(of_all));
        Some(first.into_iter().chain(rest).collect())
    });
    table("simulated throughput / measured throughput".to_owned(), &columns, rows.collect())
}

/// A name for some numbers of threads, and which they are.
type Wanted = (&'static str, fn(u32) -> bool);

/// The ratios of all locks, of those with one thread, and of those with several.
fn summary(findings: &Findings) -> Table {
    let headings = ["count", "median", "quartiles", "95 %", "noise", "in 1.1", "in 1.25", "in 2", "tau"];
    let numbers = headings.into_iter().chain(["pairs in order"]).map(|heading| (heading, true));
    let columns: Vec<(&str, bool)> = std::iter::once(("ratio", false)).chain(numbers).collect();
    let wanted: [Wanted; 3] = [("all", |_| true), ("1 thread", |n| n == 1), ("more", |n| n > 1)];
    let row = |(name, wanted): Wanted| {
        let summary = findings.summary(wanted)?;
        let Spread { count, quartiles: Quartiles { lower, median, upper }, range: [low, high], within } =
            summary.spread;
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        Some(vec![
            name.to_owned(),
            count.to_string(),
            format!("{median:.2}"),
            format!("{lower:.2}-{upper:.2}"),
            format!("{low:.2}-{high:.2}"),
            percent(summary.within_noise),
            percent(within[0]),
            percent(within[1]),
            percent(within[2]),
            format!("{:.2}", summary.tau),
            format!("{} of {}", summary.decided.0, summary.decided.1),
        ])
    };
    table("all locks".to_owned(), &columns, wanted.into_iter().filter_map(row).collect())
}

/// The locks that are farthest off; nothing where none is far off.
fn worst(findings: &Findings) -> Option<Table> {
    let worst = findings.worst();
    let row = |(outcome, lock): &(&Outcome, &Verdict)| {
        vec![
            lock.lock.clone(),
            outcome.case(&findings.plan).title(),
            format!("{:.2}", lock.measured_relative),
            format!("{:.2}", lock.simulated_relative),
            format!("{:.2} times too {}", lock.factor(), if lock.ratio() > 1.0 { "high" } else { "low" }),
        ]
    };
    let columns = [("lock", false), ("with", false), ("measured", true), ("simulated", true), ("off", false)];
    let title = format!("farthest off, beyond what their rounds leave open ({} in all)", worst.len());
    (!worst.is_empty()).then(|| table(title, &columns, worst.iter().take(WORST).map(row).collect()))
}

/// What has changed while the hardware was measured.
fn drift(findings: &Findings) -> Vec<String> {
    let range = |lines: &[f64]| {
        let ends = |f: fn(f64, f64) -> f64| lines.iter().copied().reduce(f);
        Some((ends(f64::min)?, ends(f64::max)?))
    };
    let mut notes = Vec::new();
    if findings.worst().is_empty() {
        notes.push("no lock is more than 1.25 times off, beyond what its rounds leave open".to_owned());
    }
    if let Some((low, high)) = range(&findings.lines) {
        let told = findings.plan.nearest_told();
        let told = told.map_or(String::new(), |told| format!("; the machine file says {told:.0}"));
        notes.push(format!("a line between the nearest cores during the rounds: {low:.0} to {high:.0} ns{told}"));
        if let Some((low, high)) = range(&findings.other_lines) {
            notes.push(format!(
                "left out: {} more rounds with lines of {low:.0} to {high:.0} ns (a virtual machine was moved, or is shared)",
                findings.left_out
            ));
        }
        if high > SAME * low {
            let what = "note: that is not one machine; with 2 and more threads its ratios mean little: try again";
            notes.push(what.to_owned());
        }
    }
    notes.extend(findings.about.busy_note());
    notes
}
