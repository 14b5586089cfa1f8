//! What is printed at the end.

use std::time::Duration;

use lockswap_experiment::hardware::child;
use lockswap_study::export::{conclusion, notes, tables};
use lockswap_study::model::Comparison;
use lockswap_study::problems::problem;
use lockswap_study::summary::Judgement;

use crate::terminal;

/// Columns where standard output is not a terminal: room for all.
const WIDE: usize = 200;

/// The tables, notes and conclusion.
pub fn report(comparison: &Comparison, took: Duration) -> String {
    let width = terminal::width().map_or(WIDE, usize::from);
    let mut text = format!("{}\n", comparison.name);
    for shown in tables(comparison, width) {
        text += "\n";
        if let Some(title) = &shown.title {
            text += &format!("{title}\n");
        }
        let headings: Vec<&str> = shown.columns.iter().map(|column| column.heading()).collect();
        let numeric: Vec<usize> = (0..shown.columns.len()).filter(|i| shown.columns[*i].is_numeric()).collect();
        let mut table = terminal::table(&headings, &numeric);
        for row in &shown.rows {
            let tone = match row.judgement {
                Judgement::Better => terminal::Tone::Good,
                Judgement::Worse => terminal::Tone::Bad,
                Judgement::Failed | Judgement::NothingReplaced => terminal::Tone::Warning,
                _ => terminal::Tone::Plain,
            };
            terminal::add_row(&mut table, shown.cells(row).collect(), tone);
        }
        terminal::fold_last_column(&mut table);
        text += &terminal::lines(&table);
    }
    text += "\n";
    let mut notes = notes(comparison);
    if comparison.measures.first().is_some_and(|measure| measure.unit == child::KEY_VALUE_UNIT) {
        notes[0] = "median: operations per second, higher is better; spread: median absolute deviation".into();
    }
    if let Some(runs) = notes.iter_mut().find(|note| note.contains(", seed ")) {
        *runs += &format!("; took {} s", seconds_in_words(took));
    }
    for note in notes {
        text += &terminal::wrapped(&note, width);
    }
    for line in failures(comparison) {
        text += &format!("{line}\n");
    }
    for sentence in conclusion(comparison) {
        text += &format!("\n{}", terminal::wrapped(&sentence, width));
    }
    text
}

fn seconds_in_words(time: Duration) -> String {
    let digits = usize::from(time.as_secs() < 10);
    format!("{:.digits$}", time.as_secs_f64())
}

/// The last words of the first bad run of each lock.
fn failures(comparison: &Comparison) -> Vec<String> {
    let mut lines = Vec::new();
    for lock in &comparison.locks {
        let expected = comparison.expected_exit(lock);
        let bad = |s: &&_| comparison.measures.iter().any(|measure| problem(s, measure, expected).is_some());
        let Some(tail) = lock.samples.iter().filter(bad).find_map(|s| s.stderr_tail.as_deref()) else { continue };
        lines.push(String::new());
        lines.push(format!("{} wrote to stderr:", lock.lock));
        let all: Vec<&str> = tail.lines().collect();
        lines.extend(all[all.len().saturating_sub(5)..].iter().map(|line| format!("    {line}")));
    }
    lines
}
