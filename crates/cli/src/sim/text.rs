//! What `lockswap sim validate` found, as tables, and as a page with all of it.

use std::fmt::Write as _;

use lockswap_experiment::host::today;
use lockswap_experiment::validate::judge::{Group, Spread, Verdict, FACTORS};
use lockswap_experiment::validate::rounds::SAME;
use lockswap_experiment::validate::{Findings, Outcome};
use lockswap_study::stats::Quartiles;

use super::paragraph;
use crate::terminal;

/// How many of the worst are listed.
const WORST: usize = 8;

fn table(group: &Group, threads: u32) -> String {
    let headings = [
        "lock",
        "measured M/s",
        "relative",
        "interval",
        "simulated M/s",
        "relative",
        "ratio",
        "",
        "fairness",
        "simulated",
    ];
    let shown = if threads > 1 { headings.len() } else { 8 };
    let mut table = terminal::table(&headings[..shown], &[1, 2, 3, 4, 5, 6, 8, 9][..if shown > 8 { 8 } else { 6 }]);
    for lock in &group.locks {
        let [low, high] = lock.measured_range;
        let [measured, simulated] = lock.fairness;
        let row = [
            lock.lock.clone(),
            format!("{:.3}", lock.measured / 1e6),
            format!("{:.2}", lock.measured_relative),
            format!("{low:.2}-{high:.2}"),
            format!("{:.3}", lock.simulated / 1e6),
            format!("{:.2}", lock.simulated_relative),
            format!("{:.2}", lock.ratio()),
            mark(lock).to_owned(),
            format!("{measured:.2}"),
            format!("{simulated:.2}"),
        ];
        table.add_row(row.into_iter().take(shown));
    }
    terminal::lines(&table)
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

/// Everything, for people.
pub fn text(findings: &Findings) -> String {
    let plan = &findings.plan;
    let simulated = plan.machine.as_ref().map_or(String::new(), |machine| format!("{}: {}", machine.id, machine.title));
    let mut text = format!("measured on {}\nsimulated {simulated}", findings.about.words());
    plan.settings.iter().for_each(|(key, value)| _ = write!(text, ", {key}={value}"));
    let _ = writeln!(
        text,
        "\n{} rounds of {} ms, {} ms of virtual time",
        plan.rounds,
        plan.duration as f64 / 1e6,
        plan.simulated as f64 / 1e6
    );
    for (outcome, group) in findings.groups() {
        let _ = write!(
            text,
            "\n{}: the simulation is {:.2} times as fast{}; orders alike: tau {:.2}{}\n{}",
            outcome.case(&findings.plan).title(),
            group.simulated / group.measured,
            fitted(outcome),
            group.tau(),
            in_order(group.decided()),
            table(group, outcome.case(&findings.plan).threads),
        );
    }
    let legend: String = LEGEND.iter().map(|line| paragraph(line)).collect();
    text += &format!("\n{legend}\n{}", summary(findings));
    for failure in &findings.failures {
        let _ = writeln!(text, "failed: {failure}");
    }
    text
}

const LEGEND: [&str; 4] = [
    "relative: throughput divided by the geometric mean over the locks of the table; interval: that of the rounds' median, \
     93 % certain or more.",
    "ratio: simulated to measured relative throughput. ~ the simulated one lies in the interval: no disagreement. ! over \
     1.25 times off, !! over 2.",
    "fairness: share of the busier half of the threads, measured and simulated; 0.5 is fair.",
    "tau: Kendall's, 1 for the same order, 0 for none. in order: of the pairs of locks whose intervals are apart.",
];

fn fitted(outcome: &Outcome) -> String {
    match outcome.fitted {
        0 => String::new(),
        steps => format!(" (fitted at 1 thread: {steps} steps inside stand for the map's instructions)"),
    }
}

fn in_order((same, all): (usize, usize)) -> String {
    format!(", {same} of {all} pairs in order")
}

/// The ratios of all locks, of those with one thread, and of those with several.
fn summary(findings: &Findings) -> String {
    let headings = ["ratio", "count", "median", "quartiles", "95 %", "noise", "in 1.1", "in 1.25", "in 2", "tau"];
    let headings: Vec<&str> = headings.into_iter().chain(["pairs in order"]).collect();
    let mut table = terminal::table(&headings, &(1..headings.len()).collect::<Vec<_>>());
    let wanted: [(&str, fn(u32) -> bool); 3] = [("all", |_| true), ("1 thread", |n| n == 1), ("more", |n| n > 1)];
    for (name, wanted) in wanted {
        let Some(summary) = findings.summary(wanted) else { continue };
        let Spread { count, quartiles: Quartiles { lower, median, upper }, range: [low, high], within } =
            summary.spread;
        let percent = |share: f64| format!("{:.0} %", 100.0 * share);
        table.add_row([
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
        ]);
    }
    let mut text = terminal::lines(&table);
    let worst = findings.worst();
    if worst.is_empty() {
        text += "\nno lock is more than 1.25 times off, beyond what its rounds leave open\n";
    } else {
        let _ = writeln!(text, "\nfarthest off, beyond what their rounds leave open ({} in all):", worst.len());
    }
    for (outcome, lock) in worst.iter().take(WORST) {
        let _ = writeln!(
            text,
            "  {:<12} {:<28} measured {:.2}, simulated {:.2}: {:.2} times too {}",
            lock.lock,
            outcome.case(&findings.plan).title(),
            lock.measured_relative,
            lock.simulated_relative,
            lock.factor(),
            if lock.ratio() > 1.0 { "high" } else { "low" },
        );
    }
    text + &drift(findings)
}

/// What has changed while the hardware was measured.
fn drift(findings: &Findings) -> String {
    let range = |lines: &[f64]| {
        let ends = |f: fn(f64, f64) -> f64| lines.iter().copied().reduce(f);
        Some((ends(f64::min)?, ends(f64::max)?))
    };
    let mut text = String::new();
    if let Some((low, high)) = range(&findings.lines) {
        let told = findings.plan.nearest_told();
        let told = told.map_or(String::new(), |told| format!("; the machine file says {told:.0}"));
        let _ = writeln!(text, "\na line between the nearest cores during the rounds: {low:.0} to {high:.0} ns{told}");
        if let Some((low, high)) = range(&findings.other_lines) {
            let out = findings.left_out;
            let _ = writeln!(text, "left out: {out} more rounds with lines of {low:.0} to {high:.0} ns (a virtual machine was moved, or is shared)");
        }
        if high > SAME * low {
            text += "note: that is not one machine; with 2 and more threads its ratios mean little: try again\n";
        }
    }
    if findings.about.is_busy() {
        let _ = writeln!(text, "note: the machine was busy before (load average {:.1})", findings.about.load_average);
    }
    text
}

/// A page.
pub fn markdown(findings: &Findings) -> String {
    let load_average = findings.about.load_average;
    let command: Vec<String> = std::env::args().skip(1).collect();
    let file = findings.plan.probed.as_ref().map_or(String::new(), |file| {
        format!("\n## The machine as it was probed\n```toml\n{}\n```\n", file.trim_end())
    });
    format!(
        "# Validation of the simulator on one machine\n\n\
         `lockswap {}` on {}, load average before {load_average:.1}. Another machine or day\n\
         gives other numbers. [The simulated machine](simulator.md#validation-against-hardware) says how to read them.\n\n\
         ```\n{}\n```\n{file}",
        command.join(" "),
        today(),
        text(findings).trim_end(),
    )
}
