//! The experiments for the locks that matter, and what they say.

use std::time::Duration;

use indicatif::ProgressBar;
use lockswap_advise::advice;
use lockswap_advise::answer::{self, Answer};
use lockswap_advise::budget::{Budget, CONFIRMED};
use lockswap_advise::candidate::Candidate;
use lockswap_advise::cause::Cause;
use lockswap_advise::choice::{Choices, Target};
use lockswap_advise::suspect::{suspects, Suspect};
use lockswap_advise::trial::{singles, Confirmation, Laboratory, Stopped, Trial};
use lockswap_study::execute::Observer;
use lockswap_study::model::{Comparison, Phase};
use lockswap_study::plan::{Plan, Variant};
use lockswap_study::runner::Interrupt;

use super::programs::Programs;
use super::seen::{limit, traced, Seen};
use super::{ended, narrow, AdviseArgs};
use crate::error::UserError;
use crate::terminal::{self, say};

/// What was tried, and the answer.
#[derive(Default)]
pub struct Tried {
    /// How much was tried.
    pub budget: Option<Budget>,
    /// Mutex by mutex.
    pub trials: Vec<Trial>,
    /// The fresh runs.
    pub confirmation: Option<Confirmation>,
    /// The locks of a run with what was chosen.
    pub after: Vec<Suspect>,
    /// The answer.
    pub answer: Answer,
}

/// A lock that matters, and what is tried for it.
struct Question<'a> {
    suspect: &'a Suspect,
    target: Target,
    candidates: Vec<Candidate>,
}

/// Makes the experiments for `open`, the locks that matter, in the time that is `left`; nothing after an
/// interruption.
pub fn run(
    args: &AdviseArgs,
    programs: &Programs,
    seen: &Seen,
    open: &[&Suspect],
    causes: &[Cause],
    left: &dyn Fn() -> Duration,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Tried>> {
    let Some(questions) = questions(open, seen, !args.no_simulation, left, interrupt) else { return Ok(None) };
    let most = questions.iter().map(|question| question.candidates.len()).max().unwrap_or_default();
    let budget = Budget::within(left(), seen.takes, questions.len(), most).map_err(|too_short| {
        let spent = args.time.saturating_sub(left());
        let needed = (too_short.needed + spent).as_secs_f64().ceil();
        let what = format!(
            "--time {:.0} s is too short: a run takes {:.2} s, and the least that tells something about one lock \
             takes {needed:.0} s in all",
            args.time.as_secs_f64(),
            seen.takes.as_secs_f64()
        );
        UserError::new(what, format!("give --time {needed:.0}s or more, or a shorter run of the program"))
    })?;
    say(&plan_in_words(&budget, seen, &questions));
    let bar = terminal::bar(u64::from(budget.runs));
    let made = |choices: &Choices| programs.with(choices, Vec::new()).map_err(|error| error.to_string());
    let longest = limit(programs, seen.takes);
    let template = Plan { timeout: Some(longest), ..programs.template.clone() };
    let laboratory = Laboratory {
        template: &template,
        made: &made,
        version: env!("CARGO_PKG_VERSION"),
        rounds: budget.rounds,
        interrupt: Some(interrupt),
    };
    let mut tried = Tried { budget: Some(budget), ..Tried::default() };
    let mut choices = Choices::default();
    for Question { suspect, target, candidates } in questions.iter().take(budget.mutexes) {
        let mut watcher = Watcher { bar: &bar, what: suspect.name.clone() };
        let candidates = &candidates[..candidates.len().min(budget.candidates)];
        let trial = match laboratory.try_for(&suspect.called(), target, candidates, &choices, &mut watcher) {
            Ok(trial) => trial,
            Err(stopped) => return stop(stopped),
        };
        bar.suspend(|| say(&answer::tried_in_words(&trial)));
        if let Some(lock) = &trial.chosen {
            choices = choices.with(target, lock);
        }
        tried.trials.push(trial);
    }
    if choices.is_plain() {
        bar.finish_and_clear();
        tried.answer = answer::nothing_better(&tried.trials, causes);
        return Ok(Some(tried));
    }
    let singles = singles(&tried.trials, CONFIRMED - 1);
    let mut watcher = Watcher { bar: &bar, what: "to confirm it".into() };
    let confirmation = match laboratory.confirm(&choices, &singles, &mut watcher) {
        Ok(confirmation) => confirmation,
        Err(stopped) => return stop(stopped),
    };
    bar.finish_and_clear();
    tried.answer = answer::confirmed(&choices, &singles, &confirmation, &tried.trials, causes);
    tried.confirmation = Some(confirmation);
    if let Some(chosen) = tried.answer.choices.clone() {
        // What cannot be traced now leaves a gap in what is told of fairness, and nothing else.
        let report = traced(programs, longest, interrupt, |more| programs.with(&chosen, more)).ok().flatten();
        tried.after = report.map(|report| suspects(&report)).unwrap_or_default();
        tried.answer.sentences.extend(fairness(&chosen, &questions, &tried.after));
        tried.after.truncate(advice::LISTED);
    }
    Ok(Some(tried))
}

/// What is tried for the locks that matter; nothing after an interruption.
fn questions<'a>(
    open: &[&'a Suspect],
    seen: &Seen,
    simulates: bool,
    left: &dyn Fn() -> Duration,
    interrupt: &Interrupt,
) -> Option<Vec<Question<'a>>> {
    let place = narrow::place();
    let mut questions: Vec<Question<'a>> = Vec::new();
    for &suspect in open {
        let Some(target) = Target::of(suspect) else { continue };
        // All read-write locks get one, and so do mutexes that nobody can tell apart.
        if questions.iter().any(|question| question.target == target) {
            continue;
        }
        let candidates = narrow::candidates(suspect, seen, place, simulates, left(), interrupt)?;
        questions.push(Question { suspect, target, candidates });
    }
    Some(questions)
}

/// How long it takes, before it begins.
fn plan_in_words(budget: &Budget, seen: &Seen, questions: &[Question<'_>]) -> String {
    let of = |question: &Question<'_>| {
        let locks: Vec<&str> = question.candidates.iter().take(budget.candidates).map(|c| c.lock.as_str()).collect();
        format!("{}: {}", question.suspect.name, locks.join(", "))
    };
    let tried: Vec<String> = questions.iter().take(budget.mutexes).map(of).collect();
    let seconds = budget.takes(seen.takes).as_secs_f64();
    format!(
        "trying {}; {} rounds each, at most {} runs of {:.2} s with those that confirm the best: about {}",
        tried.join("; "),
        budget.rounds,
        budget.runs,
        seen.takes.as_secs_f64(),
        if seconds < 100.0 { format!("{seconds:.0} s") } else { format!("{:.1} min", seconds / 60.0) }
    )
}

/// What the locks that were chosen do to those who wait.
fn fairness(chosen: &Choices, questions: &[Question<'_>], after: &[Suspect]) -> Vec<String> {
    let of = |question: &Question<'_>| {
        let lock = match &question.target {
            Target::Mutex(condition) => {
                let rule = chosen.rules().iter().find(|rule| rule.condition == *condition);
                rule.map_or(chosen.mutexes(), |rule| &rule.lock)
            }
            Target::AllMutexes => chosen.mutexes(),
            Target::RwLocks => chosen.rwlocks(),
        };
        let now =
            after.iter().find(|other| (&other.name, other.kind) == (&question.suspect.name, question.suspect.kind));
        (lock != lockswap_locks::registry::PTHREAD).then(|| answer::fairness(question.suspect, now, lock))
    };
    questions.iter().filter_map(of).collect()
}

/// Experiments that did not come to their end: an error, unless the user wanted that.
fn stop(stopped: Stopped) -> anyhow::Result<Option<Tried>> {
    match stopped {
        Stopped::NotMade(why) => Err(UserError::new(why, "make room, or set TMPDIR to a folder with room").into()),
        Stopped::Ended(stopped) => {
            let (comparison, ending) = *stopped;
            ended(&comparison, ending).map_or(Ok(None), |error| Err(error.into()))
        }
    }
}

/// Shows the progress.
struct Watcher<'a> {
    bar: &'a ProgressBar,
    what: String,
}

impl Observer for Watcher<'_> {
    fn starting(&mut self, _: usize, variant: &Variant, _: Phase) {
        self.bar.set_message(format!("{}: {}", self.what, variant.lock));
    }

    fn measured(&mut self, _: usize, _: &mut Comparison) {
        self.bar.inc(1);
    }
}
