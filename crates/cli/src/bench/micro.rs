//! `lockswap bench`, `bench uncontended` and `bench contended`: what the pthread functions cost on each lock.

use super::job::Work;
use super::numbers::{self, numbers_of, ratio_to, LockResult, Measurements};
use super::{Common, Quartiles};
use crate::selection::{INTERPOSED, PLAIN as PTHREAD};
use crate::terminal;
use lockswap_locks::registry::{self, Role};
use lockswap_study::machine::Machine;
use lockswap_workloads::micro::{id, Group, Measurement, Unit, MEASUREMENTS};
use std::fmt::Write as _;
use std::process::ExitCode;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// With one thread.
    Uncontended,
    /// With two.
    Contended,
    /// Both.
    Both,
}

impl Part {
    const fn groups(self) -> &'static [Group] {
        match self {
            Part::Uncontended => &[Group::Uncontended],
            Part::Contended => &[Group::Contended],
            Part::Both => &[Group::Uncontended, Group::Contended],
        }
    }

    const fn name(self) -> Option<&'static str> {
        match self {
            Part::Uncontended => Some("uncontended"),
            Part::Contended => Some("contended"),
            Part::Both => None,
        }
    }
}

/// Measures `part` for every lock.
pub fn run(common: &Common, part: Part) -> anyhow::Result<ExitCode> {
    let results = numbers::selection(&common.lock)?.into_iter().map(LockResult::new).collect();
    let ids = MEASUREMENTS.iter().map(|measurement| (measurement.id, unit_name(measurement.unit))).collect();
    let work = Work::Micro { uncontended: part != Part::Contended, contended: part != Part::Uncontended };
    let measurements = Measurements { part: part.name(), ids };
    numbers::run(
        results,
        common,
        &measurements,
        |_| work.clone(),
        |results| render(results, part.groups(), common.targets),
    )
}

const fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        Unit::Share => "share",
    }
}

/// The highest ratio to glibc (for bytes: the highest number) that the project set itself as a target.
fn target(lock: &str, id: &str) -> Option<f64> {
    let replaced = !registry::is_glibcs(lock);
    match id {
        id::EXTRA_BYTES if replaced => {
            let entry = registry::find(Role::Mutex, lock)?;
            (entry.extra_bytes_per_lock == 0).then_some(0.0)
        }
        id::PROCESS_SHARED if lock != PTHREAD => Some(1.10),
        id::UNCONTENDED if lock == INTERPOSED => Some(1.10),
        id::UNCONTENDED if replaced => match lock {
            "ttas" | "ticket" => Some(0.50),
            "futex" | "mcs_spin" | "mcs_stp" | "k42" | "clh_spin" | "cna" | "shfllock" | "shfllock-b" => Some(0.90),
            _ => None,
        },
        id::SINGLE_THREADED | id::RECURSIVE | id::ERROR_CHECK if replaced => Some(1.00),
        id::HANDOFF_ONE_CPU | id::HANDOFF_TWO_CPUS if replaced => Some(1.00),
        _ => None,
    }
}

/// How a number stands to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Met,
    /// The target lies between the quartiles.
    Close,
    /// Missed, and two empty calls into a library already take longer than the target allows.
    OutOfReach,
    Missed,
}

impl Mark {
    fn new(ratio: Quartiles, target: f64, floor: Option<f64>) -> Self {
        // Two decimals are shown, so 1.004 counts as the 1.00 that the reader sees.
        if ratio.median < target + 0.005 {
            Mark::Met
        } else if ratio.lower < target + 0.005 {
            Mark::Close
        } else if floor.is_some_and(|floor| floor > target) {
            Mark::OutOfReach
        } else {
            Mark::Missed
        }
    }

    const fn symbol(self) -> &'static str {
        match self {
            Mark::Met => "ok",
            Mark::Close => "~",
            Mark::OutOfReach => "floor",
            Mark::Missed => "MISS",
        }
    }
}

fn mark(result: &LockResult, baseline: &LockResult, measurement: &Measurement) -> Option<Mark> {
    let target = target(&result.lock, measurement.id)?;
    let two_calls = measurement.unit == Unit::Nanoseconds && measurement.group == Group::Uncontended;
    match measurement.unit {
        Unit::Bytes => Some(Mark::new(numbers_of(result, measurement.id)?, target, None)),
        _ => {
            let floor = two_calls.then(|| ratio_to(baseline, id::CALLS, baseline, measurement.id)).flatten();
            let ratio = ratio_to(result, measurement.id, baseline, measurement.id)?;
            Some(Mark::new(ratio, target, floor.map(|floor| floor.median)))
        }
    }
}

/// A number in words.
pub fn show(number: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds if number >= 999_500.0 => format!("{:.1} ms", number / 1e6),
        Unit::Nanoseconds if number >= 999.5 => format!("{:.1} us", number / 1e3),
        Unit::Nanoseconds if number >= 99.95 => format!("{number:.0} ns"),
        Unit::Nanoseconds if number >= 9.995 => format!("{number:.1} ns"),
        Unit::Nanoseconds => format!("{number:.2} ns"),
        Unit::Bytes => format!("{number:.1} B"),
        Unit::Share => format!("{:.0} %", number * 100.0),
    }
}

fn cell(result: &LockResult, baseline: &LockResult, measurement: &Measurement, targets: bool) -> String {
    let Some(numbers) = numbers_of(result, measurement.id) else {
        return "-".into();
    };
    let mut text = show(numbers.median, measurement.unit);
    match measurement.unit {
        Unit::Nanoseconds if result.lock == PTHREAD => {
            let _ = write!(text, "\n±{:.0} %", 100.0 * numbers.spread() / numbers.median);
        }
        Unit::Nanoseconds => {
            if let Some(ratio) = ratio_to(result, measurement.id, baseline, measurement.id) {
                let digits = if ratio.median < 10.0 { 2 } else { 0 };
                let _ = write!(text, "\n{:.digits$} ±{:.digits$}", ratio.median, ratio.spread());
            }
        }
        Unit::Share => {
            let _ = write!(text, "\n±{:.0} %", 100.0 * numbers.spread());
        }
        Unit::Bytes => {}
    }
    if let Some(mark) = mark(result, baseline, measurement).filter(|_| targets) {
        let _ = write!(text, " {}", mark.symbol());
    }
    text
}

/// Columns per table: this fits 120 characters.
const COLUMNS: usize = 6;

/// The tables; with the `targets` of the project, where they are wanted.
fn render(results: &[LockResult], groups: &[Group], targets: bool) -> String {
    let mut text = format!("{}\n\n", Machine::here().words());
    let Some(baseline) = results.iter().find(|result| result.lock == PTHREAD && !result.rounds.is_empty()) else {
        return text;
    };
    let columns: Vec<&Measurement> = MEASUREMENTS
        .iter()
        .filter(|measurement| groups.contains(&measurement.group))
        .filter(|measurement| ![id::BARE, id::CALLS].contains(&measurement.id))
        .collect();
    for columns in columns.chunks(COLUMNS) {
        let titles = columns.iter().map(|measurement| measurement.title);
        let headings: Vec<&str> = std::iter::once("lock").chain(titles).collect();
        let numeric: Vec<usize> = (1..headings.len()).collect();
        let mut table = terminal::table(&headings, &numeric);
        for result in results.iter().filter(|result| !result.rounds.is_empty()) {
            let cells = columns.iter().map(|measurement| cell(result, baseline, measurement, targets));
            table.add_row(std::iter::once(result.lock.clone()).chain(cells));
        }
        text += &terminal::lines(&table);
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "First line: median of {} rounds. Second line: ratio to {PTHREAD} in the same round, ± half the distance\n\
         between the quartiles: below 1 is faster.",
        baseline.rounds.len()
    );
    text.push_str(&limits(results, baseline).unwrap_or_default());
    if !targets {
        return text;
    }
    let marks: Vec<(&str, &str, Mark)> = results
        .iter()
        .flat_map(|result| columns.iter().map(move |measurement| (result, *measurement)))
        .filter_map(|(result, measurement)| {
            Some((&*result.lock, measurement.title, mark(result, baseline, measurement)?))
        })
        .collect();
    let count = |wanted| marks.iter().filter(|(_, _, mark)| *mark == wanted).count();
    let _ = writeln!(
        text,
        "ok: target met. ~: target within the quartiles. floor: two empty calls alone exceed the target. MISS: missed.\n\
         Targets: {} met, {} within the quartiles, {} below the cost of the calls, {} missed.",
        count(Mark::Met),
        count(Mark::Close),
        count(Mark::OutOfReach),
        count(Mark::Missed)
    );
    text
}

/// Where the time of an uncontended pair goes, and what the noise of this run was.
fn limits(results: &[LockResult], baseline: &LockResult) -> Option<String> {
    let glibc = numbers_of(baseline, id::UNCONTENDED)?.median;
    // Neither depends on the lock, so every process of the run counts.
    let of_all = |id: &str| {
        Quartiles::of(results.iter().flat_map(|result| &result.rounds).filter_map(|r| r.get(id).copied()).collect())
    };
    let (bare, calls) = (of_all(id::BARE)?, of_all(id::CALLS)?);
    Some(format!(
        "Limits: an inlined compare-exchange and store {:.2} ns ({:.2} of {PTHREAD}), two empty calls into a\n\
         library {:.2} ns ({:.2}).\n\
         Noise: the compare-exchange pair, the same code for every lock, varied by ±{:.0} %.\n",
        bare.median,
        bare.median / glibc,
        calls.median,
        calls.median / glibc,
        100.0 * bare.spread() / bare.median,
    ))
}

#[cfg(test)]
mod tests {
    use super::super::numbers::{failures, tests::result};
    use super::*;

    #[test]
    fn marks_tell_a_miss_from_what_no_lock_can_reach() {
        let at = |n| Quartiles { lower: n - 0.05, median: n, upper: n + 0.05 };
        assert_eq!(Mark::new(at(0.49), 0.50, Some(0.79)), Mark::Met);
        assert_eq!(Mark::new(at(0.54), 0.50, Some(0.79)), Mark::Close);
        assert_eq!(Mark::new(at(0.82), 0.50, Some(0.79)), Mark::OutOfReach);
        assert_eq!(Mark::new(at(0.99), 0.90, Some(0.79)), Mark::Missed);
        assert_eq!(Mark::new(at(0.99), 0.90, None), Mark::Missed);
    }

    #[test]
    fn targets_are_those_of_the_issue() {
        assert_eq!(target("ttas", id::UNCONTENDED), Some(0.50));
        assert_eq!(target("mcs_stp", id::UNCONTENDED), Some(0.90));
        assert_eq!(target(INTERPOSED, id::PROCESS_SHARED), Some(1.10));
        assert_eq!(target("cna", id::SINGLE_THREADED), Some(1.00));
        assert!(MEASUREMENTS.iter().all(|measurement| target(PTHREAD, measurement.id).is_none()));
    }

    #[test]
    fn the_table_shows_ratio_mark_and_failures() {
        let round: &[(&str, f64)] = &[(id::UNCONTENDED, 10.0), (id::BARE, 2.0), (id::CALLS, 3.0)];
        let own: &[(&str, f64)] = &[(id::UNCONTENDED, 4.0), (id::BARE, 2.0), (id::CALLS, 3.0)];
        let broken = LockResult::new("cna".into()).failed("signal: 6");
        let results = [result(PTHREAD, &[round]), result("ttas", &[own]), broken];
        let text = render(&results, &[Group::Uncontended], true) + &failures(&results);
        let plain = render(&results, &[Group::Uncontended], false);
        assert!(plain.contains("0.40 ±0.00\n") && !plain.contains("arget"), "{plain}");
        assert!(text.contains("0.40 ±0.00 ok"), "{text}");
        assert!(text.contains("1 met"), "{text}");
        assert!(text.contains("(0.20 of pthread)") && text.contains("3.00 ns (0.30)"), "{text}");
        assert!(text.contains("cna failed after 0 rounds: signal: 6"), "{text}");
        assert!(!text.contains("cond 2 CPUs"), "{text}");
    }
}
