//! Which runs count, and what is wrong with the others.

use crate::model::{Exit, LockRuns, Measure, Sample, Source};

/// The number that a run counts with. A run past the time limit took at least that long; leaving it out would make a
/// lock look better that hangs now and then.
pub(crate) fn value(sample: &Sample, measure: &Measure, expected: Option<&Exit>) -> Option<f64> {
    let timed_out = matches!(sample.exit, Exit::TimedOut { .. }) && measure.source == Source::Wall;
    (timed_out || problem(sample, measure, expected).is_none()).then(|| measure.value(sample)).flatten()
}

/// Why a run does not count, or `None` when it is good.
pub fn problem(sample: &Sample, measure: &Measure, expected: Option<&Exit>) -> Option<String> {
    if let Some(failure) = &sample.failure {
        return Some(failure.clone());
    }
    match (&sample.exit, expected) {
        (exit @ Exit::Code { code }, Some(Exit::Code { code: plain })) if code != plain => {
            return Some(format!("{} (plain: {plain})", exit.words()));
        }
        (Exit::Code { .. }, _) => {}
        (exit, _) => return Some(exit.words()),
    }
    measure.value(sample).is_none().then(|| "metric not found in the output".into())
}

/// What is wrong with the runs on a lock, with how many of them each is.
pub(crate) fn problems(lock: &LockRuns, measure: &Measure, expected: Option<&Exit>) -> Vec<String> {
    let mut counted: Vec<(String, usize)> = Vec::new();
    for what in lock.samples.iter().filter_map(|s| problem(s, measure, expected)) {
        match counted.iter_mut().find(|(seen, _)| *seen == what) {
            Some((_, count)) => *count += 1,
            None => counted.push((what, 1)),
        }
    }
    let total = lock.samples.len();
    let in_words = |(what, count): (String, usize)| match (count, total) {
        (1, 1) => what,
        _ if count == total => format!("{what}, in all {total} runs"),
        _ => format!("{what}, in {count} of {total} runs"),
    };
    let mut words: Vec<String> = counted.into_iter().map(in_words).collect();
    words.extend(lock.left_out.clone());
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Phase, Usage};

    fn run(exit: Exit, metric: Option<f64>) -> Sample {
        Sample {
            round: 0,
            phase: Phase::Measured,
            wall_s: 2.0,
            usage: Usage::default(),
            metrics: vec![metric],
            exit,
            failure: None,
            stdout_tail: None,
            stderr_tail: None,
        }
    }

    fn metric() -> Measure {
        Measure::metric(0, "x", "x", "", false)
    }

    #[test]
    fn a_run_is_held_against_how_the_plain_program_ends() {
        let code = |code| Exit::Code { code };
        let problem = |code_here, plain| problem(&run(code(code_here), Some(1.0)), &metric(), Some(&code(plain)));
        assert_eq!((problem(0, 0), problem(3, 3)), (None, None));
        assert_eq!(problem(0, 3).as_deref(), Some("exit status 0 (plain: 3)"));
        let signal = Exit::Signal { number: 11, name: "SIGSEGV".into() };
        assert_eq!(super::problem(&run(signal, Some(1.0)), &metric(), None).as_deref(), Some("crashed: SIGSEGV"));
    }

    #[test]
    fn only_good_runs_have_a_value_but_one_past_the_limit_took_that_long() {
        let late = run(Exit::TimedOut { after_s: 2.0 }, Some(1.0));
        assert!(value(&late, &Measure::wall(), None) == Some(2.0) && problem(&late, &Measure::wall(), None).is_some());
        assert_eq!(value(&late, &metric(), None), None, "of an unfinished run");
        let dumb = run(Exit::Code { code: 0 }, None);
        assert_eq!(problem(&dumb, &metric(), None).as_deref(), Some("metric not found in the output"));
        let failed = Sample { failure: Some("load generator: exit status 1".into()), ..dumb };
        assert_eq!(problem(&failed, &metric(), None).as_deref(), Some("load generator: exit status 1"));
    }

    #[test]
    fn problems_are_counted() {
        let good = || run(Exit::Code { code: 0 }, Some(1.0));
        let mut lock = LockRuns {
            lock: "a".into(),
            setting: Vec::new(),
            preloaded: true,
            counted: None,
            left_out: None,
            samples: vec![run(Exit::Code { code: 3 }, Some(1.0))],
        };
        let plain = Exit::Code { code: 0 };
        let words = |lock: &LockRuns| problems(lock, &metric(), Some(&plain));
        assert_eq!(words(&lock), ["exit status 3 (plain: 0)"]);
        lock.samples.extend([good(), run(Exit::Code { code: 3 }, Some(1.0)), run(Exit::Code { code: 0 }, None)]);
        lock.left_out = Some("it was left out".into());
        let found = ["exit status 3 (plain: 0), in 2 of 4 runs", "metric not found in the output, in 1 of 4 runs"];
        assert_eq!(words(&lock), [&found[..], &["it was left out"]].concat());
    }
}
