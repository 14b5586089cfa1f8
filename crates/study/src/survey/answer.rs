//! What follows from a survey, in sentences.

use super::grid::{best, At, Grid, Numbers};
use super::sheet::{percent, Entry, Sheet};
use super::tables::{Of, Typical};
use super::verdict::{runs_at, verdict, Verdict};
use super::Margins;

/// So many programs are named, and the rest counted.
const NAMED: usize = 6;

/// The sentences about one machine. `typical` is its table of locks over all programs, with intervals.
pub fn sentences(numbers: &Numbers<'_>, programs: &[usize], margins: Margins, typical: &Sheet) -> Vec<String> {
    let of = Of { numbers, programs, margins };
    let grid = numbers.grid;
    let mut text =
        vec![format!("{}: {} of {} programs are lock-sensitive.", grid.machine, programs.len(), grid.programs.len())];
    for (index, (at, words)) in [(At::Most, "max nodes"), (At::Best, "opt nodes")].into_iter().enumerate() {
        text.extend(choice(&of, at, words, typical, 1 + 2 * index));
    }
    text
}

/// Which lock to use where one must do, and where another one is better.
fn choice(of: &Of<'_>, at: At, words: &str, sheet: &Sheet, column: usize) -> Option<String> {
    let grid = of.numbers.grid;
    let found: Vec<(usize, Typical)> =
        (0..grid.locks.len()).filter_map(|lock| Some((lock, Typical::of(of, lock, at)?))).collect();
    let most = found.iter().map(|(_, typical)| typical.programs).max()?;
    let ran_all = found.iter().filter(|(_, typical)| typical.programs == most);
    let (lock, chosen) = ran_all.clone().max_by(|a, b| a.1.share.total_cmp(&b.1.share))?;
    let name = |lock: usize| grid.locks[lock].as_str();
    let interval = |lock: usize| match &sheet.row(name(lock))?.entries[column] {
        Entry::Share(figure) => figure.interval,
        _ => None,
    };
    let range = interval(*lock).map_or(String::new(), |(low, high)| format!(" [{}, {}]", percent(low), percent(high)));
    let mut text = format!(
        "{} at {words}: if one lock must do, use {}: it typically gives {}{range} of what the best lock gives, and loses at \
         most {} ({}; programs: {most}).",
        grid.machine,
        name(*lock),
        percent(chosen.share),
        percent(chosen.loss),
        grid.programs[chosen.worst]
    );
    let is_rival = |other: usize| match (interval(other), interval(*lock)) {
        (Some((_, high)), Some((low, _))) => other != *lock && high >= low,
        _ => false,
    };
    let rivals: Vec<&str> = ran_all.filter(|(other, _)| is_rival(*other)).map(|(other, _)| name(*other)).collect();
    if !rivals.is_empty() {
        text += &format!(" As good, as far as the runs tell: {}.", rivals.join(", "));
    }
    let stronger = found.iter().filter(|(_, typical)| typical.programs < most && typical.share > chosen.share);
    if let Some((other, typical)) = stronger.max_by(|a, b| a.1.share.total_cmp(&b.1.share)) {
        text += &format!(
            " {} reaches {}, but only {} of the {} programs ran on it.",
            name(*other),
            percent(typical.share),
            typical.programs,
            of.programs.len()
        );
    }
    text += &beaten(of, *lock, at);
    Some(text)
}

/// Where the best lock is better than this one by more than the harm margin, as far as the runs tell.
fn beaten(of: &Of<'_>, lock: usize, at: At) -> String {
    let grid = of.numbers.grid;
    let mut where_better: Vec<(f64, String)> = of
        .programs
        .iter()
        .filter_map(|program| {
            let line = of.numbers.line(*program, at);
            let winner = line.iter().position(|value| value.is_some() && *value == best(&line))?;
            let gain = line[winner]? / line[lock]? - 1.0;
            let is_harm =
                gain > of.margins.harm && differ(grid, of.numbers, *program, (winner, lock), at, of.margins.tie);
            let words = format!("{} ({} +{})", grid.programs[*program], grid.locks[winner], percent(gain));
            is_harm.then_some((gain, words))
        })
        .collect();
    where_better.sort_by(|a, b| b.0.total_cmp(&a.0));
    if where_better.is_empty() {
        return format!(" No other lock is shown to be better by more than {}.", percent(of.margins.harm));
    }
    let more = where_better.len().saturating_sub(NAMED);
    let named: Vec<String> = where_better.into_iter().take(NAMED).map(|(_, words)| words).collect();
    let rest = if more > 0 { format!(", and {more} more") } else { String::new() };
    format!(" Another lock is better by more than {} for {}{rest}.", percent(of.margins.harm), named.join(", "))
}

/// Whether the runs show that the first of two locks is better.
pub(super) fn differ(
    grid: &Grid,
    numbers: &Numbers<'_>,
    program: usize,
    (better, worse): (usize, usize),
    at: At,
    tie: f64,
) -> bool {
    let runs = |lock| runs_at(grid, numbers, program, lock, at);
    let (Some(own), Some(other)) = (runs(better), runs(worse)) else { return false };
    verdict(own, other, tie) == Verdict::Better
}
