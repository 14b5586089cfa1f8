//! What is said below a comparison's tables: how to read them, what to mind, and the conclusion.

use lockswap_records::counters::FILE_BYTES;

use crate::model::{Comparison, LockRuns, Measure, Phase, Source, BASELINE, INTERPOSED};
use crate::numbers::{digits, human, times};
use crate::problems::value;
use crate::summary::{in_words, nothing_replaced, Judgement, Row};
use crate::{descriptive, stats};

/// Lock calls per run below which a difference hardly comes from the locks.
const FEW_CALLS: u64 = 1000;

/// The price of loading is not named below this: it is less than the clock of a start tells.
const LEAST_LOADING_S: f64 = 10e-6;

/// The conclusion in plain sentences, one for each setting of the sweep.
pub fn conclusion(comparison: &Comparison) -> Vec<String> {
    let (Some(measure), Some(rows)) = (comparison.measures.first(), comparison.summary.first()) else {
        return Vec::new();
    };
    if nothing_replaced(comparison).is_some() {
        return Vec::new();
    }
    let mut sentences = Vec::new();
    for setting in comparison.settings() {
        let with = if setting.is_empty() { String::new() } else { format!("{}: ", in_words(setting)) };
        let of_setting = rows.iter().filter(|row| row.setting == setting);
        let tested: Vec<&Row> = of_setting.filter(|row| !matches!(row.lock.as_str(), BASELINE | INTERPOSED)).collect();
        let winner = comparison.winners.iter().find(|winner| winner.setting == setting);
        let better: Vec<&&Row> = tested.iter().filter(|row| row.judgement == Judgement::Better).collect();
        let sentence = match winner {
            Some(winner) if winner.confirmed => {
                let word = if measure.source == Source::Wall { "faster" } else { "better" };
                let size = match (winner.ratio, winner.ratio_low, winner.ratio_high) {
                    (Some(ratio), Some(low), Some(high)) => {
                        format!("{} [{}, {}] {word}", times(ratio), digits(low), digits(high))
                    }
                    _ => word.to_owned(),
                };
                let runs = winner.rounds;
                let of =
                    if tested.len() == 1 { String::new() } else { format!("the best of {} locks: ", tested.len()) };
                format!("{} is {of}{size} than {BASELINE} in {runs} fresh runs.", winner.lock)
            }
            Some(winner) => format!(
                "{} looked best, but {} fresh runs did not confirm it: no lock is proven better than {BASELINE}.",
                winner.lock, winner.rounds
            ),
            None if better.is_empty() && tested.iter().all(|row| row.judgement == Judgement::TooFew) => {
                let fewest = stats::fewest_rounds(tested.len() * comparison.measures.len());
                let locks = if tested.len() == 1 { "lock takes" } else { "locks take" };
                format!("Too few runs for a verdict: {} {locks} at least --runs {fewest}.", tested.len())
            }
            None if better.is_empty() => match tested[..] {
                [only] => format!("{} is not proven better than {BASELINE}.", only.lock),
                _ => format!("None of {} locks is proven better than {BASELINE}.", tested.len()),
            },
            None => {
                let names: Vec<&str> = better.iter().map(|row| row.lock.as_str()).collect();
                format!("Better than {BASELINE}: {}; fresh runs did not confirm it.", names.join(", "))
            }
        };
        sentences.push(with + &sentence);
    }
    sentences
}

/// How to read the table, and what to mind, a line each.
pub fn notes(comparison: &Comparison) -> Vec<String> {
    let Some(measure) = comparison.measures.first() else { return Vec::new() };
    let mut notes = vec![format!("{}; spread: median absolute deviation", what_median(measure))];
    if nothing_replaced(comparison).is_some() {
        return notes;
    }
    notes.push(format!(
        "ratio: how many times better than {BASELINE} (above 1 is better), with its 95% interval over paired rounds"
    ));
    if comparison.locks.iter().any(|lock| lock.counted.is_some()) {
        notes.push(
            "calls: lock calls of one run that lockswap's locks answered (of all, where some went to glibc)".into(),
        );
    }
    notes.extend(uncounted_note(comparison));
    notes.extend(loading_note(comparison));
    notes.extend(fixed_duration_note(comparison));
    notes.extend(few_calls_note(comparison));
    notes.extend(outlier_note(comparison));
    notes
}

fn what_median(measure: &Measure) -> String {
    match (&measure.source, measure.lower_is_better) {
        (Source::Wall, _) => "median: wall time of a run".to_owned(),
        (Source::Metric { regex, .. }, lower) => {
            format!("median: number captured by '{regex}', {} is better", if lower { "lower" } else { "higher" })
        }
    }
}

/// What is said where there was no place for the file in which lock calls are counted.
fn uncounted_note(comparison: &Comparison) -> Option<String> {
    let uncounted = |lock: &LockRuns| lock.preloaded && lock.counted.is_none() && !lock.samples.is_empty();
    comparison.locks.iter().any(uncounted).then(|| {
        let size = FILE_BYTES.div_ceil(1024);
        format!(
            "warning: lock calls were not counted, because neither the folder for temporary files (TMPDIR) nor /dev/shm has \
             room for {size} KiB: nothing proves that locks of the program were replaced"
        )
    })
}

fn loading_note(comparison: &Comparison) -> Option<String> {
    let loading = comparison.loading_s?;
    let processes = comparison.locks.iter().filter_map(|lock| lock.counted).map(|c| c.all_processes()).max();
    if loading < LEAST_LOADING_S {
        return None;
    }
    let mut note = format!("loading the library takes {} per process", human(loading, "s"));
    let wall = comparison.locks.first()?.samples.iter().map(|s| s.wall_s);
    if let (Some(processes), Some(wall)) =
        (processes.filter(|p| *p > 0), descriptive::median(&wall.collect::<Vec<_>>()))
    {
        let share = 100.0 * loading * processes as f64 / wall;
        let plural = if processes == 1 { "process" } else { "processes" };
        if share >= 0.1 {
            note += &format!("; with {processes} {plural} in a run, up to {share:.1}% of it");
        }
    }
    Some(note)
}

/// A program that runs for a fixed time takes it on any lock; that its work differs shows in its lock calls.
fn fixed_duration_note(comparison: &Comparison) -> Option<String> {
    if comparison.measures.first()?.source != Source::Wall {
        return None;
    }
    let rows: Vec<&Row> = comparison.summary.first()?.iter().filter(|row| row.problems.is_empty()).collect();
    let medians: Vec<f64> = rows.iter().filter_map(|row| row.median).collect();
    let (least, most) = ends(&medians)?;
    let calls: Vec<f64> = rows
        .iter()
        .filter(|row| row.lock != BASELINE)
        .filter_map(|row| Some(row.calls_ours?.saturating_add(row.calls_glibc?) as f64))
        .collect();
    let (fewest, most_calls) = ends(&calls)?;
    let same_time = least > 0.05 && most / least < 1.02;
    (same_time && fewest > 0.0 && most_calls / fewest > 1.2).then(|| {
        format!(
            "warning: all runs take about {} although their lock calls differ by a factor of {:.1}: the program seems to \
             run for a fixed time, so that its wall time says nothing; compare its own figures with --metric",
            human(most, "s"),
            most_calls / fewest
        )
    })
}

fn ends(values: &[f64]) -> Option<(f64, f64)> {
    let least = values.iter().copied().min_by(f64::total_cmp)?;
    Some((least, values.iter().copied().max_by(f64::total_cmp)?)).filter(|_| values.len() > 2)
}

fn few_calls_note(comparison: &Comparison) -> Option<String> {
    let rows = comparison.summary.first()?;
    // With glibc's own locks behind the library none of ours answers, however many calls there are.
    let rows = rows.iter().filter(|row| row.lock != INTERPOSED);
    let judged = rows.filter(|row| matches!(row.judgement, Judgement::Better | Judgement::Worse));
    let few: Vec<&Row> = judged.filter(|row| row.calls_ours.is_some_and(|calls| calls < FEW_CALLS)).collect();
    let most = few.iter().filter_map(|row| row.calls_ours).max()?;
    Some(format!("warning: a run makes at most {most} lock calls: differences hardly come from the lock"))
}

/// Runs far from the others of their lock.
fn outlier_note(comparison: &Comparison) -> Option<String> {
    let measure = comparison.measures.first()?;
    let mut worst: Option<(f64, &LockRuns)> = None;
    let (mut outliers, mut locks) = (0, 0);
    for lock in &comparison.locks {
        let expected = comparison.expected_exit(lock);
        let measured = lock.samples.iter().filter(|s| s.phase == Phase::Measured);
        let values: Vec<f64> = measured.filter_map(|s| value(s, measure, expected)).collect();
        let (Some(median), Some(spread)) =
            (descriptive::median(&values), descriptive::median_absolute_deviation(&values))
        else {
            continue;
        };
        // Ten deviations, and a quarter of the median where all others are nearly equal.
        let far = (10.0 * spread).max(0.25 * median.abs());
        let here: Vec<f64> = values.iter().copied().filter(|v| (v - median).abs() > far).collect();
        outliers += here.len();
        locks += usize::from(!here.is_empty());
        for value in here.iter().filter(|value| **value > 0.0 && median > 0.0) {
            let factor = (value / median).max(median / value);
            if worst.is_none_or(|(most, _)| factor > most) {
                worst = Some((factor, lock));
            }
        }
    }
    let (factor, lock) = worst?;
    let runs = if outliers == 1 { "run lies" } else { "runs lie" };
    Some(format!(
        "warning: {outliers} {runs} far from the others of {}: by a factor of {factor:.1} on {}; other programs may have \
         disturbed them",
        if locks == 1 { "their lock".to_owned() } else { format!("{locks} locks") },
        lock.lock
    ))
}
