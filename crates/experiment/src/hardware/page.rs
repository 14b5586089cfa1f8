//! Tables of what was measured, for people.

use super::series::{Group, Measured, Series};
use lockswap_study::page::{Row, Table};
use lockswap_study::summary::Judgement;
use lockswap_workloads::micro::Unit;
use lockswap_workloads::report::Report;
use lockswap_workloads::workload::Workload;

/// Numbers as cells: of the group and measurement with these places, from the medians of its rounds.
pub type Cells<'a> = dyn Fn((usize, usize), &Report) -> Vec<String> + 'a;

/// The columns of a table behind those that say what was measured.
pub struct Columns<'a> {
    /// What the locks replace.
    pub lock: &'a str,
    /// Headings of the numbers, the first of which stands before the ratio.
    pub headings: Vec<&'a str>,
    /// The numbers.
    pub cells: &'a Cells<'a>,
}

/// The heading of a ratio with its interval.
pub const RATIO: &str = "ratio [95% CI]";

/// One table of all groups that are compared, with a column for each key that tells settings apart.
pub fn table(series: &Series<Report>, columns: &Columns<'_>) -> Table {
    let compared = || series.groups.iter().enumerate().filter(|(_, group)| group.is_compared);
    let keys = compared().next().into_iter().flat_map(|(_, group)| &group.setting).map(|(key, _)| (key.clone(), true));
    let mut table = Table { columns: keys.collect(), ..Table::default() };
    table.columns.extend(headings(columns));
    for (number, group) in compared() {
        let setting: Vec<String> = group.setting.iter().map(|(key, value)| shown(key, value)).collect();
        table.rows.extend(rows(group, number, &setting, columns));
    }
    table
}

/// The headings without those of the setting, and which columns hold numbers.
pub fn headings(columns: &Columns<'_>) -> Vec<(String, bool)> {
    let mut headings = vec![(columns.lock.to_owned(), false)];
    headings.extend(columns.headings.iter().map(|heading| (heading.to_string(), true)));
    headings.insert(headings.len().min(2), (RATIO.to_owned(), false));
    headings.push(("verdict".to_owned(), false));
    headings
}

/// The rows of a group, which begin with the cells of its setting.
pub fn rows(group: &Group<Report>, number: usize, setting: &[String], columns: &Columns<'_>) -> Vec<Row> {
    let row = |(place, own): (usize, &Measured<Report>)| {
        let found = own.rows.first()?;
        let numbers = match own.median() {
            Some(median) => (columns.cells)((number, place), &median),
            None => vec!["-".to_owned(); columns.headings.len()],
        };
        let ratio = if found.judgement == Judgement::Baseline { "1".to_owned() } else { found.ratio_in_words() };
        let mut cells = setting.to_vec();
        cells.push(own.point.name());
        cells.extend(numbers.iter().take(1).cloned());
        cells.push(ratio);
        cells.extend(numbers.into_iter().skip(1));
        cells.push(found.verdict.clone());
        Some(Row { cells, judgement: found.judgement })
    };
    group.measured.iter().enumerate().filter_map(row).collect()
}

/// The value of a key for people.
pub fn shown(key: &str, value: &str) -> String {
    match value.parse() {
        Ok(time) if Workload::is_time(key) => ns(time),
        Ok(share) if ["reads", "updates", "long"].contains(&key) => format!("{share} %"),
        _ => value.to_owned(),
    }
}

/// How to read the ratio and the verdict.
pub fn how_to_read(baseline: &str, compared: usize) -> String {
    let correction = match compared {
        0 | 1 => String::new(),
        many => format!("; verdicts are corrected for {many} comparisons"),
    };
    format!(
        "numbers: medians of the rounds. ratio: times as fast as {baseline} in the same round (above 1 is better), with its \
         95% interval{correction}"
    )
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
    show(time, Unit::Nanoseconds)
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
