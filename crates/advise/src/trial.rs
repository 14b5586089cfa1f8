//! The experiments: for one mutex after the other the program runs on each of the candidates, next to what was chosen
//! for the mutexes before it; then what was chosen is confirmed by fresh runs.

use lockswap_study::execute::{execute, Ending, Observer};
use lockswap_study::model::{Comparison, BASELINE};
use lockswap_study::plan::{Plan, Variant};
use lockswap_study::runner::{Interrupt, Program};
use lockswap_study::summary;
use serde::Serialize;

use crate::candidate::Candidate;
use crate::choice::{Choices, Target};

/// What was chosen is called so in the table of the confirmation.
pub const CHOSEN: &str = "chosen";

/// A mutex and what was tried for it.
#[derive(Clone, Debug, Serialize)]
pub struct Trial {
    /// The mutex, by its name.
    pub name: String,
    /// What the lock was chosen for.
    pub target: Target,
    /// What was tried.
    pub candidates: Vec<Candidate>,
    /// The runs: `pthread` is what was chosen for the mutexes before this one, and glibc's own lock for this one.
    pub comparison: Comparison,
    /// The lock that was better than that; nothing if none was.
    pub chosen: Option<String>,
}

/// Fresh runs of what was chosen, next to glibc's own locks and to single locks for everything.
#[derive(Clone, Debug, Serialize)]
pub struct Confirmation {
    /// The runs.
    pub comparison: Comparison,
    /// The best of the single locks, if there are any.
    pub best_single: Option<String>,
}

/// Makes the program with these choices.
pub type Made<'a> = dyn Fn(&Choices) -> Result<Program, String> + 'a;

/// How programs are run: everything of the plan but its variants and rounds, of which the only variant has the load
/// and the preparation, and is the plain program.
pub struct Laboratory<'a> {
    /// The plan.
    pub template: &'a Plan,
    /// Makes a program.
    pub made: &'a Made<'a>,
    /// Version of the command, for the results.
    pub version: &'a str,
    /// Rounds of an experiment.
    pub rounds: u32,
    /// What ends it early.
    pub interrupt: Option<&'a Interrupt>,
}

/// Why an experiment gave nothing.
#[derive(Debug)]
pub enum Stopped {
    /// The runs did not come to their end.
    Ended(Box<(Comparison, Ending)>),
    /// A program could not be made.
    NotMade(String),
}

impl Laboratory<'_> {
    /// Runs the program with each of the candidates for `target`, next to what is chosen `so_far`, and says which is
    /// best.
    ///
    /// # Errors
    /// The runs were interrupted, or a command around them failed.
    pub fn try_for(
        &self,
        name: &str,
        target: &Target,
        candidates: &[Candidate],
        so_far: &Choices,
        observer: &mut dyn Observer,
    ) -> Result<Trial, Stopped> {
        let mut variants = vec![(BASELINE.to_owned(), so_far.clone())];
        for Candidate { lock, .. } in candidates.iter().filter(|candidate| candidate.lock != BASELINE) {
            variants.push((lock.clone(), so_far.with(target, lock)));
        }
        let comparison = self.run(&variants, observer)?;
        let best = summary::best(&comparison).first().map(|(_, index)| comparison.locks[*index].lock.clone());
        let (name, target, candidates) = (name.to_owned(), target.clone(), candidates.to_vec());
        Ok(Trial { name, target, candidates, comparison, chosen: best })
    }

    /// Runs what was chosen, next to glibc's own locks and to each of `singles` for everything.
    ///
    /// # Errors
    /// As above.
    pub fn confirm(
        &self,
        chosen: &Choices,
        singles: &[Choices],
        observer: &mut dyn Observer,
    ) -> Result<Confirmation, Stopped> {
        let mut variants = vec![(BASELINE.to_owned(), Choices::default()), (CHOSEN.to_owned(), chosen.clone())];
        variants.extend(singles.iter().map(|single| (single.words(), single.clone())));
        let comparison = self.run(&variants, observer)?;
        let rows = comparison.summary.first().into_iter().flatten().skip(2).filter(|row| row.problems.is_empty());
        let best = rows.filter_map(|row| Some((row.ratio?, &row.lock))).max_by(|(a, _), (b, _)| a.total_cmp(b));
        Ok(Confirmation { best_single: best.map(|(_, lock)| lock.clone()), comparison })
    }

    fn run(&self, variants: &[(String, Choices)], observer: &mut dyn Observer) -> Result<Comparison, Stopped> {
        let prototype = &self.template.variants[0];
        let variant = |(label, choices): &(String, Choices)| {
            let program = (self.made)(choices).map_err(Stopped::NotMade)?;
            let preloaded = !choices.is_plain();
            Ok(Variant { lock: label.clone(), preloaded, program, ..prototype.clone() })
        };
        let variants = variants.iter().map(variant).collect::<Result<Vec<_>, Stopped>>()?;
        let plan = Plan {
            variants,
            runs: self.rounds,
            warmup: 1,
            // What is chosen here is confirmed at the end, all together.
            confirms: false,
            ..self.template.clone()
        };
        match execute(&plan, self.version, self.interrupt, observer) {
            (comparison, Ending::Complete) => Ok(comparison),
            stopped => Err(Stopped::Ended(Box::new(stopped))),
        }
    }
}

/// The single locks that what was chosen has to stand up to: each of those that it consists of, and `auto`, for
/// everything; the first ones if there are more than `most`.
pub fn singles(trials: &[Trial], most: usize) -> Vec<Choices> {
    let chosen = trials.iter().filter_map(|trial| Some((&trial.target, trial.chosen.as_deref()?)));
    let rwlock = chosen.clone().find(|(target, _)| **target == Target::RwLocks).map(|(_, lock)| lock);
    let mut mutexes: Vec<&str> = Vec::new();
    for lock in
        chosen.filter(|(target, _)| **target != Target::RwLocks).map(|(_, lock)| lock).chain([crate::candidate::AUTO])
    {
        if !mutexes.contains(&lock) {
            mutexes.push(lock);
        }
    }
    mutexes.truncate(most);
    mutexes.into_iter().map(|lock| Choices::single(lock, rwlock)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Condition;
    use lockswap_study::metric::Metric;
    use lockswap_study::model::{Measure, Phase};

    struct Quiet;

    impl Observer for Quiet {
        fn starting(&mut self, _: usize, _: &Variant, _: Phase) {}
        fn measured(&mut self, _: usize, _: &mut Comparison) {}
    }

    fn symbol(name: &str) -> Target {
        Target::Mutex(Condition::Symbol { symbol: name.into(), module: None })
    }

    fn candidates(locks: &[&str]) -> Vec<Candidate> {
        locks.iter().map(|lock| Candidate { lock: (*lock).to_owned(), simulated: None }).collect()
    }

    /// A program that says how good its choices are: 1,000, times 2 for `ticket` on `a`, times 3 for `ttas` on `b`. It
    /// says the same each time: what varied by chance would make one lock the best of equals in some of the runs.
    fn program(choices: &Choices) -> Result<Program, String> {
        let has = |name: &str, lock: &str| {
            choices.rules().iter().any(|rule| rule.condition.to_string() == name && rule.lock == lock)
        };
        let factor = if has("a", "ticket") { 2 } else { 1 } * if has("b", "ttas") { 3 } else { 1 };
        let command = format!("echo $(( 1000 * {factor} ))");
        Ok(Program { args: ["sh", "-c", &command].map(Into::into).to_vec(), ..Program::default() })
    }

    fn template() -> Plan {
        let variant = Variant::new(BASELINE, false, program(&Choices::default()).unwrap());
        let mut plan = Plan::new(vec!["p".into()], vec![variant]);
        plan.measures = vec![Measure::metric(0, "rate", "[0-9]+", "", false)];
        plan.metrics = vec![Metric::new("[0-9]+").unwrap()];
        plan
    }

    #[test]
    fn each_mutex_keeps_its_best_lock_while_the_next_is_tried() {
        let template = template();
        let laboratory = Laboratory { template: &template, made: &program, version: "0", rounds: 8, interrupt: None };
        let mut choices = Choices::default();
        let mut trials = Vec::new();
        for (name, locks) in [
            ("a", ["pthread", "auto", "ticket"]),
            ("b", ["pthread", "auto", "ttas"]),
            ("c", ["pthread", "auto", "futex"]),
        ] {
            let trial = laboratory.try_for(name, &symbol(name), &candidates(&locks), &choices, &mut Quiet).unwrap();
            if let Some(lock) = &trial.chosen {
                choices = choices.with(&trial.target, lock);
            }
            trials.push(trial);
        }
        let chosen: Vec<Option<&str>> = trials.iter().map(|trial| trial.chosen.as_deref()).collect();
        assert_eq!(chosen, [Some("ticket"), Some("ttas"), None]);
        // The baseline of the second is the choice for the first.
        assert!(trials[1].comparison.summary[0][0].median.unwrap() >= 2_000.0);
        let singles = singles(&trials, 3);
        let names: Vec<String> = singles.iter().map(Choices::words).collect();
        assert_eq!(names, ["ticket", "ttas", "auto"]);
        let confirmed = laboratory.confirm(&choices, &singles, &mut Quiet).unwrap();
        let rows = &confirmed.comparison.summary[0];
        assert!(rows[1].lock == CHOSEN && rows[1].ratio.unwrap() == 6.0, "{rows:?}");
        assert!(confirmed.best_single.is_some());
    }

    #[test]
    fn a_lock_that_is_better_by_less_than_the_smallest_effect_is_not_chosen() {
        let mut template = template();
        for (smallest_effect, rate, chosen) in [(0.01, 1_002, None), (0.01, 1_020, Some("ticket")), (0.03, 1_020, None)]
        {
            let made = |choices: &Choices| {
                let rate = if choices.is_plain() { 1_000 } else { rate };
                let args = ["echo", &rate.to_string()].map(Into::into).to_vec();
                Ok(Program { args, ..Program::default() })
            };
            template.smallest_effect = smallest_effect;
            let laboratory = Laboratory { template: &template, made: &made, version: "0", rounds: 8, interrupt: None };
            let locks = candidates(&["pthread", "ticket"]);
            let trial = laboratory.try_for("a", &symbol("a"), &locks, &Choices::default(), &mut Quiet).unwrap();
            assert_eq!(trial.chosen.as_deref(), chosen, "{rate} {:?}", trial.comparison.summary);
        }
    }

    #[test]
    fn what_goes_wrong_is_told() {
        let template = template();
        let made = |_: &Choices| Err("no room".to_owned());
        let laboratory = Laboratory { template: &template, made: &made, version: "0", rounds: 1, interrupt: None };
        let found = laboratory.try_for("a", &symbol("a"), &candidates(&["auto"]), &Choices::default(), &mut Quiet);
        assert!(matches!(found, Err(Stopped::NotMade(why)) if why == "no room"));
        let fails = |_: &Choices| Ok(Program { args: vec!["false".into()], ..Program::default() });
        let laboratory = Laboratory { made: &fails, ..laboratory };
        let found = laboratory.try_for("a", &symbol("a"), &candidates(&["auto"]), &Choices::default(), &mut Quiet);
        assert!(matches!(found, Err(Stopped::Ended(ended)) if matches!(ended.1, Ending::PlainFailed { .. })));
    }
}
