//! The plain answer: what to change, what it brings and what it costs, or that no lock will help and what would.

use lockswap_locks::info::Fairness;
use lockswap_locks::named;
use lockswap_locks::registry::{Role, PTHREAD};
use lockswap_study::model::{Comparison, Source, BASELINE};
use lockswap_study::numbers::{digits, human, time_in_words, times};
use lockswap_study::stats::Finding;
use lockswap_study::summary::{between, Judgement, Row};
use serde::Serialize;

use crate::cause::Cause;
use crate::choice::Choices;
use crate::suspect::Suspect;
use crate::trial::{Confirmation, Trial, CHOSEN};

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Answer {
    /// Whether some lock helps.
    pub helps: bool,
    /// The locks to choose, if one does.
    pub choices: Option<Choices>,
    /// All that is to be said, a sentence or two each.
    pub sentences: Vec<String>,
}

/// What fresh runs say.
#[derive(Clone, Debug, PartialEq)]
enum Verdict {
    /// What was chosen for each mutex is better than glibc's locks, and no single lock is better than that.
    Profile,
    /// One lock for everything is better than that.
    Single(String),
    /// Nothing is proven.
    Nothing,
}

/// The answer where nothing was tried: no lock matters, or none can change what holds the program up.
pub fn nothing_to_try(causes: &[Cause]) -> Answer {
    let sentences = std::iter::once("No lock will help.".to_owned()).chain(causes.iter().map(Cause::words));
    Answer { sentences: sentences.collect(), ..Answer::default() }
}

/// The answer where no lock was better than glibc's in any trial.
pub fn nothing_better(trials: &[Trial], causes: &[Cause]) -> Answer {
    let is_open = |trial: &Trial| others(trial).any(|row| row.judgement == Judgement::Unclear);
    let mut sentences = vec![match () {
        () if trials.iter().all(is_missed) => {
            "No lock could be tried: no rule finds again what threads wait for. 'lockswap compare' tries locks for \
             everything."
        }
        () if trials.iter().any(is_open) => {
            "No lock is proven to help, but the runs differ too much to rule it out: a quieter machine, longer runs \
             of the program or a longer --time would tell."
        }
        () => "No lock will help: none that was tried is better than glibc's.",
    }
    .to_owned()];
    sentences.extend(trials.iter().map(tried_in_words));
    sentences.extend(causes.iter().map(Cause::words));
    Answer { sentences, ..Answer::default() }
}

/// The answer after the confirmation of these choices next to these single locks.
pub fn confirmed(
    choices: &Choices,
    singles: &[Choices],
    confirmation: &Confirmation,
    trials: &[Trial],
    causes: &[Cause],
) -> Answer {
    match verdict(confirmation) {
        Verdict::Profile => {
            let mut sentences = vec![brings(&confirmation.comparison, CHOSEN)];
            sentences.extend(next_to_single(confirmation));
            sentences.extend(cpu_time(&confirmation.comparison, CHOSEN));
            Answer { helps: true, choices: Some(choices.clone()), sentences }
        }
        Verdict::Single(lock) => {
            let mut sentences = vec![brings(&confirmation.comparison, &lock)];
            if trials.len() > 1 || trials.iter().any(|trial| trial.chosen.as_deref() != Some(&lock)) {
                sentences.push("A lock of its own for each mutex is no better than that.".into());
            }
            sentences.extend(cpu_time(&confirmation.comparison, &lock));
            let single = singles.iter().find(|single| single.words() == lock).cloned();
            Answer { helps: true, choices: single, sentences }
        }
        Verdict::Nothing => {
            let what = "No lock will help: what looked best in the trials was not confirmed by fresh runs.";
            let mut sentences = vec![what.to_owned()];
            sentences.extend(row(&confirmation.comparison, CHOSEN).map(|row| {
                format!("The locks of the trials came out {} times as good as glibc's.", row.ratio_in_words())
            }));
            sentences.extend(causes.iter().map(Cause::words));
            Answer { sentences, ..Answer::default() }
        }
    }
}

fn verdict(confirmation: &Confirmation) -> Verdict {
    let comparison = &confirmation.comparison;
    let is_better = |lock: &str| row(comparison, lock).is_some_and(|row| row.judgement == Judgement::Better);
    let runs = |lock: &str| comparison.locks.iter().find(|runs| runs.lock == lock);
    let single = confirmation.best_single.as_deref().filter(|lock| is_better(lock));
    let beats = |single: &&str| {
        let (Some(own), Some(profile)) = (runs(single), runs(CHOSEN)) else { return false };
        let difference = between(comparison, own, profile);
        difference.is_some_and(|found| found.finding(1, comparison.smallest_effect) == Finding::Better)
    };
    match single {
        Some(lock) if !is_better(CHOSEN) || beats(&lock) => Verdict::Single(lock.to_owned()),
        _ if is_better(CHOSEN) => Verdict::Profile,
        _ => Verdict::Nothing,
    }
}

/// The row of a lock in the table that decides.
pub fn row<'a>(comparison: &'a Comparison, lock: &str) -> Option<&'a Row> {
    comparison.summary.first()?.iter().find(|row| row.lock == lock)
}

/// `With that it is 1.62x [1.55, 1.70] faster than on glibc's own locks, in 10 fresh runs of each.`
fn brings(comparison: &Comparison, lock: &str) -> String {
    let wall = comparison.measures.first().is_some_and(|measure| measure.source == Source::Wall);
    let word = if wall { "faster" } else { "better" };
    let Some(row) = row(comparison, lock) else { return String::new() };
    let size = match (row.ratio, row.ratio_low, row.ratio_high) {
        (Some(ratio), Some(low), Some(high)) => {
            format!("{} [{}, {}] {word}", times(ratio), digits(low), digits(high))
        }
        _ => word.to_owned(),
    };
    format!("With that it is {size} than on glibc's own locks, in {} fresh runs of each.", row.good_runs)
}

/// How the profile does next to the best single lock.
fn next_to_single(confirmation: &Confirmation) -> Option<String> {
    let comparison = &confirmation.comparison;
    let singles: Vec<&str> = comparison
        .locks
        .iter()
        .map(|runs| runs.lock.as_str())
        .filter(|lock| ![BASELINE, CHOSEN].contains(lock))
        .collect();
    let compared = singles.join(", ");
    let Some(single) = confirmation.best_single.as_deref() else {
        let is_compared = !singles.is_empty();
        return is_compared.then(|| format!("No lock for everything does that: runs on {compared} failed."));
    };
    let runs = |lock: &str| comparison.locks.iter().find(|runs| runs.lock == lock);
    let found = between(comparison, runs(CHOSEN)?, runs(single)?)?;
    let (low, high) = found.ratio_interval()?;
    let size = format!("{} [{}, {}]", digits(found.ratio()?), digits(low), digits(high));
    Some(match found.finding(1, comparison.smallest_effect) {
        Finding::Better => format!(
            "No lock for everything does that: it is {size} times as good as {single}, the best of those that were \
             compared ({compared})."
        ),
        _ => format!(
            "One lock for everything may do as well: it is {size} times as good as the best of them, {single} (--lock \
             {single})."
        ),
    })
}

/// What it costs in CPU time.
fn cpu_time(comparison: &Comparison, lock: &str) -> Option<String> {
    let cpu = |lock: &str| row(comparison, lock)?.cpu_s;
    let (before, after) = (cpu(BASELINE)?, cpu(lock)?);
    let factor = after / before.max(1e-9);
    Some(format!(
        "A run takes {} of CPU time instead of {} ({} times).",
        human(after, "s"),
        human(before, "s"),
        digits(factor)
    ))
}

/// What it costs in fairness: how a lock serves its waiters, and how long they waited before and now.
pub fn fairness(before: &Suspect, after: Option<&Suspect>, lock: &str) -> String {
    let role = if before.read_share.is_some() { Role::RwLock } else { Role::Mutex };
    let order = named::read(role, lock).ok().map(|named| match named.entry.info.fairness {
        Fairness::Unfair => "lets newcomers overtake without bound".to_owned(),
        Fairness::Fifo => "serves waiters first come, first served".to_owned(),
        Fairness::Bounded(times) => format!("lets each thread overtake at most {times} times"),
        Fairness::LongTerm => "serves every waiter eventually".to_owned(),
    });
    let mut text = format!("Fairness: {lock} {}", order.unwrap_or_else(|| "is not known here".into()));
    if let Some(after) = after {
        text += &format!(
            "; of the waits for {} in one traced run each, 99 % were no longer than {} (glibc's own lock: {}), and \
             the longest took {} ({})",
            before.called(),
            time_in_words(after.wait_p99_ns),
            time_in_words(before.wait_p99_ns),
            time_in_words(after.wait_max_ns as f64),
            time_in_words(before.wait_max_ns as f64)
        );
    }
    text + "."
}

/// The rows of the locks that were tried, in the table that decides.
fn others(trial: &Trial) -> impl Iterator<Item = &Row> {
    trial.comparison.summary.first().into_iter().flatten().filter(|row| row.lock != BASELINE)
}

/// Whether no lock of the program got any of those that were tried.
fn is_missed(trial: &Trial) -> bool {
    others(trial).next().is_some() && others(trial).all(|row| row.judgement == Judgement::NothingReplaced)
}

/// What a trial found, in a line.
pub fn tried_in_words(trial: &Trial) -> String {
    let rows: Vec<&Row> = others(trial).collect();
    let best = rows
        .iter()
        .filter(|row| row.ratio.is_some())
        .max_by(|a, b| a.ratio.unwrap_or(0.0).total_cmp(&b.ratio.unwrap_or(0.0)));
    let count = rows.len();
    if is_missed(trial) {
        return format!("{}: no lock of the program got any of the {count} locks that were tried.", trial.name);
    }
    match (&trial.chosen, best) {
        (Some(lock), _) => {
            let size = row(&trial.comparison, lock).map(Row::ratio_in_words).unwrap_or_default();
            format!("{}: {lock} is the best of {count} locks, {size} times as good as before.", trial.name)
        }
        (None, Some(best)) => format!(
            "{}: of {count} locks {} came out best, {} times as good as {PTHREAD}, which proves nothing.",
            trial.name,
            best.lock,
            best.ratio_in_words()
        ),
        (None, None) => format!("{}: no run of {count} locks gave a number.", trial.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::choice::Target;
    use crate::tests::{comparison, lock, report};

    const PLAIN: [f64; 8] = [2.00, 2.01, 2.02, 1.99, 2.00, 2.01, 2.00, 1.98];

    fn confirmation(profile: f64, single: f64) -> Confirmation {
        let with = |factor: f64| PLAIN.map(|wall| wall / factor);
        let comparison = comparison(&[(BASELINE, PLAIN), (CHOSEN, with(profile)), ("auto", with(single))]);
        Confirmation { comparison, best_single: Some("auto".into()) }
    }

    fn answer(profile: f64, single: f64) -> Answer {
        let choices = Choices::default().with(&Target::AllMutexes, "ticket");
        let causes = [Cause::LightLocks { share: 0.5 }];
        confirmed(&choices, &[Choices::single("auto", None)], &confirmation(profile, single), &[], &causes)
    }

    #[test]
    fn a_profile_that_beats_everything_is_the_answer() {
        let found = answer(2.0, 1.5);
        assert!(found.helps && found.choices.unwrap().mutexes() == "ticket", "{:?}", found.sentences);
        assert!(
            found.sentences[0].starts_with("With that it is 2.0x [2.00, 2.00] faster than on glibc's own locks, in 8"),
            "{:?}",
            found.sentences
        );
        assert_eq!(
            found.sentences[1],
            "No lock for everything does that: it is 1.33 [1.33, 1.33] times as good as auto, the best of those that were \
             compared (auto)."
        );
        assert!(found.sentences[2].contains("CPU time"), "{:?}", found.sentences);
    }

    #[test]
    fn single_locks_that_failed_are_told() {
        let failed = Confirmation { best_single: None, ..confirmation(2.0, 1.0) };
        let choices = Choices::default().with(&Target::AllMutexes, "ticket");
        let found = confirmed(&choices, &[], &failed, &[], &[]);
        assert_eq!(found.sentences[1], "No lock for everything does that: runs on auto failed.");
    }

    #[test]
    fn one_lock_for_everything_is_the_answer_where_it_is_better() {
        let found = answer(1.5, 2.0);
        assert!(found.helps && found.choices.unwrap().mutexes() == "auto", "{:?}", found.sentences);
        // Equal ones: the smaller change.
        let found = answer(2.0, 2.0);
        assert!(found.choices.unwrap().mutexes() == "ticket" && found.sentences[1].contains("may do as well"));
        // The profile failed, the lock did not.
        assert_eq!(answer(1.0, 2.0).choices.unwrap().mutexes(), "auto");
    }

    #[test]
    fn what_is_not_confirmed_is_no_help_and_causes_are_named() {
        let found = answer(1.0, 1.0);
        assert!(!found.helps && found.choices.is_none());
        assert!(
            found.sentences[0].starts_with("No lock will help") && found.sentences[2].contains("waited 50 %"),
            "{found:?}"
        );
        let found = nothing_to_try(&[Cause::NoLocks]);
        assert!(!found.helps && found.sentences.len() == 2);
    }

    #[test]
    fn trials_are_told_in_a_line() {
        let with = |factor: f64| PLAIN.map(|wall| wall / factor);
        let trial = |factor, chosen: Option<&str>| Trial {
            name: "hot".into(),
            target: Target::AllMutexes,
            candidates: Vec::new(),
            comparison: comparison(&[(BASELINE, PLAIN), ("ticket", with(factor)), ("auto", with(0.5))]),
            chosen: chosen.map(str::to_owned),
        };
        let words = tried_in_words(&trial(2.0, Some("ticket")));
        assert_eq!(words, "hot: ticket is the best of 2 locks, 2.00 [2.00, 2.00] times as good as before.");
        let words = tried_in_words(&trial(1.0, None));
        assert!(words.contains("of 2 locks ticket came out best, 1.00"), "{words}");
        let found = nothing_better(&[trial(1.0, None)], &[]);
        assert!(found.sentences.len() == 2 && found.sentences[0].starts_with("No lock will help"), "{found:?}");
        let mut wild = trial(1.0, None);
        let walls = [1.0, 9.0, 1.1, 8.0, 1.0, 7.0, 1.2, 2.1];
        wild.comparison = comparison(&[(BASELINE, PLAIN), ("ticket", walls)]);
        let found = nothing_better(&[wild], &[]);
        assert!(found.sentences[0].starts_with("No lock is proven to help, but"), "{found:?}");
        let mut missed = trial(1.0, None);
        missed.comparison.summary[0].iter_mut().for_each(|row| row.judgement = Judgement::NothingReplaced);
        let found = nothing_better(&[missed], &[]);
        assert!(found.sentences[0].starts_with("No lock could be tried"), "{found:?}");
        assert_eq!(found.sentences[1], "hot: no lock of the program got any of the 2 locks that were tried.");
    }

    #[test]
    fn fairness_has_the_order_and_the_waits() {
        let before = crate::suspect::suspects(&report(vec![lock("hot", "mutex", 5e9)], 10_000_000_000)).remove(0);
        let after = Suspect { wait_max_ns: 40_000_000, ..before.clone() };
        let words = fairness(&before, Some(&after), "ticket");
        assert!(words.contains("ticket serves waiters first come, first served; of the waits for hot"), "{words}");
        assert!(words.ends_with("the longest took 40.0 ms (5.00 ms)."), "{words}");
        assert_eq!(fairness(&before, None, "ttas"), "Fairness: ttas lets newcomers overtake without bound.");
    }
}
