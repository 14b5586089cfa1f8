//! From samples to verdicts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::descriptive;
use crate::model::{Comparison, LockRuns, Measure, Phase, Sample, Source, Winner, BASELINE, INTERPOSED};
use crate::numbers::{digits, human, ratio_digits, short, times};
use crate::problems::{problem, problems, value};
use crate::stats::{self, Difference, Finding, Shift, ERROR_RATE};

/// What the runs on one lock say about one measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Id of the lock.
    pub lock: String,
    /// Parameters of the sweep with their values.
    pub setting: Vec<(String, String)>,
    /// Measured runs that ended as the plain program does and gave a number.
    pub good_runs: usize,
    /// Median of the good runs.
    pub median: Option<f64>,
    /// Median absolute deviation of the good runs.
    pub spread: Option<f64>,
    /// Median CPU time of the good runs, seconds.
    pub cpu_s: Option<f64>,
    /// Median number of context switches of the good runs.
    pub switches: Option<f64>,
    /// Lock calls that lockswap answered in one run, where they were counted.
    pub calls_ours: Option<u64>,
    /// Lock calls that went on to glibc.
    pub calls_glibc: Option<u64>,
    /// How many times better than the baseline it is; above 1 is better.
    pub ratio: Option<f64>,
    /// Lower end of the 95 % interval of the ratio.
    pub ratio_low: Option<f64>,
    /// Upper end of the 95 % interval of the ratio.
    pub ratio_high: Option<f64>,
    /// The p value after Holm's correction for all that the comparison compares.
    pub p: Option<f64>,
    /// What went wrong, if anything.
    pub problems: Vec<String>,
    /// The conclusion.
    pub judgement: Judgement,
    /// The conclusion in words.
    pub verdict: String,
}

impl Row {
    /// The ratio and its interval: `1.32 [1.25, 1.39]`.
    pub fn ratio_in_words(&self) -> String {
        match (self.ratio, self.ratio_low, self.ratio_high) {
            (Some(ratio), Some(low), Some(high)) => {
                // An end that rounds to 1 although the interval does not hold 1 gets the digits that show it.
                let holds_one = low <= 1.0 && 1.0 <= high;
                let end = |v: f64| if holds_one { digits(v) } else { ratio_digits(v) };
                format!("{} [{}, {}]", digits(ratio), end(low), end(high))
            }
            (Some(ratio), _, _) => digits(ratio),
            _ => "-".to_owned(),
        }
    }
}

/// What a row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// It is what the others are compared with.
    Baseline,
    /// It is better than the baseline.
    Better,
    /// It is worse.
    Worse,
    /// The interval holds 1, or the difference is below the smallest worth naming.
    Same,
    /// Perhaps there is a difference; the runs do not tell.
    Unclear,
    /// It is worse by no more than loading the library costs.
    Loading,
    /// No lock call was ours: a difference does not come from the lock.
    NothingReplaced,
    /// Too few runs for a verdict.
    TooFew,
    /// Runs went wrong.
    Failed,
}

/// The rows of all locks, for each measure.
pub fn all(comparison: &Comparison) -> Vec<Vec<Row>> {
    let mut tables: Vec<Vec<(Row, Option<Shift>)>> = comparison
        .measures
        .iter()
        .map(|measure| comparison.locks.iter().map(|lock| row(comparison, lock, measure)).collect())
        .collect();
    // All that is compared with the baseline, but not the price of interposition, which is no choice.
    let tested = |row: &Row| !matches!(row.lock.as_str(), BASELINE | INTERPOSED);
    let mut p_values: Vec<&mut Option<f64>> = tables
        .iter_mut()
        .flatten()
        .filter(|(row, _)| tested(row) && row.judgement != Judgement::NothingReplaced)
        .map(|(row, _)| &mut row.p)
        .filter(|p| p.is_some())
        .collect();
    let corrected = stats::holm(&p_values.iter().filter_map(|p| **p).collect::<Vec<_>>());
    let compared = corrected.len();
    p_values.iter_mut().zip(corrected).for_each(|(p, corrected)| **p = Some(corrected));
    let judged = |(mut row, shift): (Row, Option<Shift>), measure: &Measure| {
        let family = if tested(&row) { compared } else { 1 };
        judge(&mut row, shift, comparison, measure, family);
        row
    };
    let tables = tables.into_iter().zip(&comparison.measures);
    tables.map(|(rows, measure)| rows.into_iter().map(|row| judged(row, measure)).collect()).collect()
}

/// The numbers of a row, without a verdict.
fn row(comparison: &Comparison, lock: &LockRuns, measure: &Measure) -> (Row, Option<Shift>) {
    let expected = comparison.expected_exit(lock);
    let good: Vec<&Sample> =
        lock.samples.iter().filter(|s| s.phase == Phase::Measured && value(s, measure, expected).is_some()).collect();
    let median_of = |number: &dyn Fn(&Sample) -> f64| {
        descriptive::median(&good.iter().map(|sample| number(sample)).collect::<Vec<_>>())
    };
    let values: Vec<f64> = good.iter().filter_map(|s| value(s, measure, expected)).collect();
    let calls = lock.counted.map(|counted| counted.calls.all());
    let nothing = lock.counted.is_some_and(|counted| match lock.lock.as_str() {
        INTERPOSED => counted.calls.all().total() == 0,
        id => !counted.is_replaced(id),
    });
    let shift = (lock.lock != BASELINE && !nothing)
        .then(|| stats::shift(&differences(comparison, lock, measure, Phase::Measured, 0.0).0))
        .flatten();
    let is_ratio = differences(comparison, lock, measure, Phase::Measured, 0.0).1;
    let times = |value: f64| Some(value.exp()).filter(|_| is_ratio);
    let row = Row {
        lock: lock.lock.clone(),
        setting: lock.setting.clone(),
        good_runs: values.len(),
        median: descriptive::median(&values),
        spread: descriptive::median_absolute_deviation(&values),
        cpu_s: median_of(&|sample| sample.usage.cpu_s()),
        switches: median_of(&|sample| (sample.usage.voluntary_switches + sample.usage.involuntary_switches) as f64),
        calls_ours: calls.map(|calls| calls.ours),
        calls_glibc: calls.map(|calls| calls.total() - calls.ours),
        ratio: shift.and_then(|s| times(s.value)),
        ratio_low: shift.and_then(|s| times(s.interval?.0)),
        ratio_high: shift.and_then(|s| times(s.interval?.1)),
        p: shift.map(|s| s.p),
        problems: problems(lock, measure, expected),
        judgement: if nothing { Judgement::NothingReplaced } else { Judgement::Baseline },
        verdict: String::new(),
    };
    (row, shift)
}

/// The difference to the baseline in each round that has both, better is above 0; and whether they are logarithms of
/// ratios. Where a value is not above 0 a ratio means nothing, and plain differences are taken. `subtracted` is taken
/// from the lock's own values first.
fn differences(
    comparison: &Comparison,
    lock: &LockRuns,
    measure: &Measure,
    phase: Phase,
    subtracted: f64,
) -> (Vec<f64>, bool) {
    let Some(baseline) = comparison.baseline_of(lock) else { return (Vec::new(), true) };
    differences_to(comparison, lock, baseline, measure, phase, subtracted)
}

/// What the measured rounds say of one lock next to another one that is not the baseline, by the first measure;
/// nothing where they have no rounds in common. Nothing is corrected: it is for one pair that was chosen before.
pub fn between(comparison: &Comparison, own: &LockRuns, other: &LockRuns) -> Option<Difference> {
    let measure = comparison.measures.first()?;
    let (differences, is_ratio) = differences_to(comparison, own, other, measure, Phase::Measured, 0.0);
    let shift = stats::shift(&differences)?;
    Some(Difference { shift, is_ratio, rounds: differences.len(), p: shift.p })
}

/// The differences to those of any other lock.
fn differences_to(
    comparison: &Comparison,
    lock: &LockRuns,
    baseline: &LockRuns,
    measure: &Measure,
    phase: Phase,
    subtracted: f64,
) -> (Vec<f64>, bool) {
    let expected = comparison.expected_exit(lock);
    let values = |runs: &LockRuns| -> Vec<(u32, f64)> {
        let of_phase = runs.samples.iter().filter(|s| s.phase == phase);
        of_phase.filter_map(|s| Some((s.round, value(s, measure, expected)?))).collect()
    };
    let (plain, own) = (values(baseline), values(lock));
    let mut pairs = Vec::with_capacity(own.len());
    // Both are in the order of rounds.
    let mut rest = plain.iter().peekable();
    for (round, value) in own {
        while rest.next_if(|(other, _)| *other < round).is_some() {}
        if let Some((_, plain)) = rest.next_if(|(other, _)| *other == round) {
            pairs.push((value - subtracted, *plain));
        }
    }
    let sign = if measure.lower_is_better { -1.0 } else { 1.0 };
    let is_ratio = pairs.iter().all(|(own, plain)| *own > 0.0 && *plain > 0.0);
    let difference =
        |(own, plain): &(f64, f64)| if is_ratio { sign * (own / plain).ln() } else { sign * (own - plain) };
    (pairs.iter().map(difference).collect(), is_ratio)
}

fn judge(row: &mut Row, shift: Option<Shift>, comparison: &Comparison, measure: &Measure, compared: usize) {
    let (judgement, verdict) = if !row.problems.is_empty() {
        (Judgement::Failed, row.problems.join("; "))
    } else if row.lock == BASELINE {
        (Judgement::Baseline, "the baseline".into())
    } else if row.judgement == Judgement::NothingReplaced {
        (Judgement::NothingReplaced, "nothing was replaced".into())
    } else {
        match (shift, row.p) {
            (Some(shift), Some(p)) => certain(row, shift, p, comparison, measure, compared),
            _ => (Judgement::TooFew, if row.good_runs == 0 { "no runs".into() } else { "no ratio".into() }),
        }
    };
    (row.judgement, row.verdict) = (judgement, verdict);
}

fn certain(
    row: &Row,
    shift: Shift,
    p: f64,
    comparison: &Comparison,
    measure: &Measure,
    compared: usize,
) -> (Judgement, String) {
    let difference = Difference { shift, is_ratio: row.ratio.is_some(), rounds: row.good_runs, p };
    let finding = difference.finding(compared, comparison.smallest_effect);
    if finding == Finding::Worse && is_price_of_loading(row, comparison, measure) {
        return (Judgement::Loading, "no more than loading costs".into());
    }
    let words = match measure.source {
        Source::Wall => ["faster", "slower"],
        Source::Metric { .. } => ["better", "worse"],
    };
    verdict(&difference, finding, comparison.smallest_effect, words, &measure.unit)
}

/// The conclusion from what was found: what it is, and in words. `words` are those for better and worse; `unit` is
/// that of plain differences.
pub fn verdict(
    difference: &Difference,
    finding: Finding,
    smallest_effect: f64,
    words: [&str; 2],
    unit: &str,
) -> (Judgement, String) {
    let size = |word: &str| match difference.ratio() {
        Some(ratio) => format!("{} {word}", times(ratio.max(1.0 / ratio))),
        None => format!("{} {word}", human(difference.shift.value.abs(), unit)),
    };
    match finding {
        Finding::TooFew(fewest) => (Judgement::TooFew, format!("too few runs (at least {fewest})")),
        Finding::NotSeen => (Judgement::Same, "no difference seen".into()),
        Finding::Wide => {
            let (low, high) = difference.ratio_interval().unwrap_or((0.0, f64::INFINITY));
            (Judgement::Unclear, format!("unclear: from {} to {}", digits(low), digits(high)))
        }
        Finding::Small => (Judgement::Same, format!("differs by less than {}%", short(100.0 * smallest_effect))),
        Finding::NotProven => (Judgement::Unclear, "unclear: more runs would tell".into()),
        Finding::Better => (Judgement::Better, size(words[0])),
        Finding::Worse => (Judgement::Worse, size(words[1])),
    }
}

/// Whether the lock is no longer slower when its runs are shortened by what loading the library takes.
fn is_price_of_loading(row: &Row, comparison: &Comparison, measure: &Measure) -> bool {
    let lock = comparison.locks.iter().find(|lock| lock.lock == row.lock && lock.setting == row.setting);
    let (Some(lock), Some(loading), Source::Wall) = (lock, comparison.loading_s, &measure.source) else { return false };
    let processes = lock.counted.map_or(1, |counted| counted.all_processes()).max(1);
    let (differences, _) = differences(comparison, lock, measure, Phase::Measured, loading * processes as f64);
    let high = stats::shift(&differences).and_then(|shift| Some(shift.interval?.1));
    high.is_some_and(|high| high >= -comparison.smallest_effect.ln_1p())
}

/// For each setting the indices of the baseline and of the best lock, where one is better.
pub fn best(comparison: &Comparison) -> Vec<(usize, usize)> {
    let Some(rows) = all(comparison).into_iter().next() else { return Vec::new() };
    let mut chosen: Vec<(usize, usize)> = Vec::new();
    for (baseline, plain) in rows.iter().enumerate().filter(|(_, row)| row.lock == BASELINE) {
        let better = |(_, row): &(usize, &Row)| row.setting == plain.setting && row.judgement == Judgement::Better;
        let size = |row: &Row| row.ratio.unwrap_or_default();
        let best = rows.iter().enumerate().filter(better).max_by(|(_, a), (_, b)| size(a).total_cmp(&size(b)));
        chosen.extend(best.map(|(index, _)| (baseline, index)));
    }
    chosen
}

/// What the fresh runs say of the locks that [`best`] had chosen.
pub fn winners(comparison: &Comparison) -> Vec<Winner> {
    let Some(measure) = comparison.measures.first() else { return Vec::new() };
    let fresh = |lock: &&LockRuns| {
        lock.lock != BASELINE && lock.samples.iter().any(|sample| sample.phase == Phase::Confirmation)
    };
    let winner = |lock: &LockRuns| {
        let (differences, is_ratio) = differences(comparison, lock, measure, Phase::Confirmation, 0.0);
        let shift = stats::shift(&differences);
        let ratio = |value: f64| Some(value.exp()).filter(|_| is_ratio);
        let good = lock.samples.iter().all(|s| problem(s, measure, comparison.expected_exit(lock)).is_none());
        Winner {
            lock: lock.lock.clone(),
            setting: lock.setting.clone(),
            ratio: shift.and_then(|s| ratio(s.value)),
            ratio_low: shift.and_then(|s| ratio(s.interval?.0)),
            ratio_high: shift.and_then(|s| ratio(s.interval?.1)),
            p: shift.map(|s| s.p),
            rounds: differences.len(),
            confirmed: good && shift.is_some_and(|s| s.value > 0.0 && s.p <= ERROR_RATE),
        }
    };
    comparison.locks.iter().filter(fresh).map(winner).collect()
}

/// The rows as they are shown: the baselines, then the best first, and those without a ratio last; setting by setting.
pub fn sorted<'a>(comparison: &Comparison, rows: &'a [Row]) -> Vec<&'a Row> {
    let settings = comparison.settings();
    let place = |row: &Row| settings.iter().position(|setting| *setting == row.setting);
    let rank = |row: &Row| match row.lock.as_str() {
        BASELINE => 0,
        INTERPOSED => 1,
        _ if row.ratio.is_some() => 2,
        _ => 3,
    };
    let mut rows: Vec<&Row> = rows.iter().collect();
    rows.sort_by(|a, b| {
        let by_size = || b.ratio.unwrap_or_default().total_cmp(&a.ratio.unwrap_or_default());
        place(a).cmp(&place(b)).then(rank(a).cmp(&rank(b))).then_with(by_size)
    });
    rows
}

/// Why all that was measured says nothing about locks, and what to do; nothing where at least one row replaced some.
pub fn nothing_replaced(comparison: &Comparison) -> Option<(&'static str, &'static str)> {
    let counted: Vec<_> =
        comparison.locks.iter().filter(|lock| !matches!(lock.lock.as_str(), BASELINE | INTERPOSED)).collect();
    let nothing = |lock: &&LockRuns| lock.counted.is_some_and(|counted| !counted.is_replaced(&lock.lock));
    let all = !counted.is_empty() && counted.iter().all(nothing);
    counted.first().filter(|_| all)?.counted.map(|counted| counted.why_nothing())
}

/// `threads=4, keys=100`.
pub fn in_words(setting: &[(String, String)]) -> String {
    setting.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{Answers, Calls, Counted};
    use crate::model::{Exit, Usage};
    use crate::notes::{conclusion, notes};

    fn sample(round: usize, wall_s: f64, exit: Exit) -> Sample {
        Sample {
            round: round as u32,
            phase: Phase::Measured,
            wall_s,
            usage: Usage { user_s: wall_s, ..Usage::default() },
            metrics: vec![Some(1.0 / wall_s)],
            exit,
            failure: None,
            stdout_tail: None,
            stderr_tail: None,
        }
    }

    fn counted(ours: u64) -> Option<Counted> {
        let mutex = Answers { ours, ..Answers::default() };
        Some(Counted { calls: Calls { mutex, ..Calls::default() }, processes: 1, left_alone: 0 })
    }

    fn lock(name: &str, walls: &[f64]) -> LockRuns {
        let samples = walls.iter().enumerate().map(|(r, w)| sample(r, *w, Exit::Code { code: 0 })).collect();
        let preloaded = name != BASELINE;
        LockRuns {
            lock: name.into(),
            setting: Vec::new(),
            preloaded,
            counted: counted(100_000).filter(|_| preloaded),
            left_out: None,
            samples,
        }
    }

    fn comparison(measure: Measure, locks: Vec<LockRuns>) -> Comparison {
        let mut comparison = crate::export::tests::comparison();
        (comparison.measures, comparison.locks, comparison.smallest_effect) = (vec![measure], locks, 0.01);
        comparison.summarise();
        comparison
    }

    fn rows(measure: Measure, locks: Vec<LockRuns>) -> Vec<Row> {
        comparison(measure, locks).summary.remove(0)
    }

    fn metric(lower_is_better: bool) -> Measure {
        Measure::metric(0, "x", "x", "", lower_is_better)
    }

    const PLAIN: [f64; 8] = [2.00, 2.01, 2.02, 1.99, 2.00, 2.01, 2.00, 1.98];
    const FAST: [f64; 8] = [1.00, 1.01, 1.00, 1.02, 0.99, 1.00, 1.01, 1.00];

    #[test]
    fn above_one_is_better_for_wall_time_and_for_both_kinds_of_metric() {
        let locks = || vec![lock("pthread", &PLAIN), lock("quick", &FAST)];
        let wall = rows(Measure::wall(), locks());
        assert_eq!((wall[1].verdict.as_str(), wall[1].judgement), ("2.0x faster", Judgement::Better));
        assert!(wall[1].ratio_low.unwrap() > 1.9 && wall[1].ratio_high.unwrap() < 2.1);
        assert_eq!(rows(metric(false), locks())[1].verdict, "2.0x better");
        let lower = rows(metric(true), locks());
        assert_eq!((lower[1].verdict.as_str(), lower[1].judgement), ("2.0x worse", Judgement::Worse));
        assert!(lower[1].ratio.unwrap() < 0.51);
        assert_eq!(wall[0].verdict, "the baseline");
        assert_eq!(wall[1].cpu_s, Some(1.0));
    }

    #[test]
    fn two_locks_are_compared_with_each_other() {
        let locks = vec![lock("pthread", &PLAIN), lock("quick", &FAST), lock("third", &PLAIN.map(|wall| wall / 4.0))];
        let comparison = comparison(Measure::wall(), locks);
        let [plain, quick, third] = &comparison.locks[..] else { panic!() };
        let found = between(&comparison, third, quick).unwrap();
        assert!(found.rounds == 8 && (found.ratio().unwrap() - 2.0).abs() < 0.1, "{found:?}");
        assert_eq!(found.finding(1, 0.01), stats::Finding::Better);
        assert_eq!(between(&comparison, quick, third).unwrap().finding(1, 0.01), stats::Finding::Worse);
        assert_eq!(between(&comparison, quick, plain).unwrap().ratio(), comparison.summary[0][1].ratio);
    }

    #[test]
    fn equal_locks_and_small_effects() {
        let equal = [2.00, 2.02, 1.99, 2.01, 2.00, 2.01, 1.99, 2.00];
        let same = rows(Measure::wall(), vec![lock("pthread", &PLAIN), lock("same", &equal)]);
        assert_eq!(same[1].verdict, "no difference seen");
        let close = PLAIN.map(|wall| wall * 1.005);
        let small = rows(Measure::wall(), vec![lock("pthread", &PLAIN), lock("close", &close)]);
        assert_eq!((small[1].verdict.as_str(), small[1].judgement), ("differs by less than 1%", Judgement::Same));
    }

    #[test]
    fn few_runs_carry_no_verdict() {
        let few = rows(Measure::wall(), vec![lock("pthread", &PLAIN[..5]), lock("quick", &FAST[..5])]);
        assert_eq!(few[1].verdict, "too few runs (at least 6)");
        assert!(few[1].ratio.is_some() && few[1].ratio_low.is_none());
        // Of many locks one is best by chance: it takes more runs to tell.
        let many = (0..20).map(|i| lock(&format!("lock{i}"), &FAST));
        let many = rows(Measure::wall(), std::iter::once(lock("pthread", &PLAIN)).chain(many).collect());
        assert_eq!(many[1].verdict, "too few runs (at least 10)");
    }

    #[test]
    fn wide_intervals_are_unclear() {
        let wild = [1.0, 9.0, 1.1, 8.0, 1.0, 7.0, 1.2, 2.1];
        let row = &rows(Measure::wall(), vec![lock("pthread", &PLAIN), lock("wild", &wild)])[1];
        assert_eq!(row.judgement, Judgement::Unclear);
        assert!(row.verdict.starts_with("unclear: from 0."), "{}", row.verdict);
    }

    #[test]
    fn no_verdict_where_nothing_was_replaced() {
        let mut none = lock("none", &FAST);
        none.counted = counted(0);
        let comparison = comparison(Measure::wall(), vec![lock("pthread", &PLAIN), none]);
        let row = &comparison.summary[0][1];
        assert_eq!((row.judgement, row.ratio, row.p), (Judgement::NothingReplaced, None, None));
        assert!(nothing_replaced(&comparison).unwrap().0.contains("none of the pthread lock functions"));
        assert!(conclusion(&comparison).is_empty() && best(&comparison).is_empty());
    }

    #[test]
    fn what_loading_costs_is_not_the_locks() {
        let slower = PLAIN.map(|wall| wall + 0.1);
        let mut all = comparison(Measure::wall(), vec![lock("pthread", &PLAIN), lock("futex", &slower)]);
        assert_eq!(all.summary[0][1].judgement, Judgement::Worse);
        all.loading_s = Some(0.1);
        all.summarise();
        assert_eq!(all.summary[0][1].judgement, Judgement::Loading);
        all.loading_s = Some(0.02);
        all.summarise();
        assert_eq!(all.summary[0][1].judgement, Judgement::Worse);
        assert!(notes(&all).iter().any(|note| note.contains("20.00 ms per process")), "{:?}", notes(&all));
    }

    #[test]
    fn values_that_are_not_positive_are_compared_by_their_difference() {
        let metrics = |name: &str, values: [f64; 8]| {
            let mut lock = lock(name, &PLAIN);
            lock.samples.iter_mut().zip(values).for_each(|(s, v)| s.metrics = vec![Some(v)]);
            lock
        };
        let plain = metrics("pthread", [0.0, -1.0, 0.5, 0.0, -0.5, 0.0, 1.0, 0.0]);
        let higher = metrics("up", [10.0, 9.5, 10.0, 11.0, 10.5, 10.0, 10.0, 10.5]);
        let row = &rows(metric(false), vec![plain, higher])[1];
        assert_eq!((row.ratio, row.judgement, row.verdict.as_str()), (None, Judgement::Better, "10.25 better"));
    }

    #[test]
    fn a_fixed_duration_is_noticed() {
        let mut busy = lock("busy", &[2.0; 8]);
        busy.counted = counted(300_000);
        let all = comparison(
            Measure::wall(),
            vec![lock("pthread", &[2.0; 8]), lock("a", &[2.0; 8]), lock("b", &[2.0; 8]), busy],
        );
        assert!(notes(&all).iter().any(|note| note.contains("fixed time") && note.contains("--metric")));
        let other = comparison(Measure::wall(), vec![lock("pthread", &PLAIN), lock("quick", &FAST)]);
        assert!(!notes(&other).iter().any(|note| note.contains("fixed time")));
    }

    #[test]
    fn outliers_are_noticed() {
        let mut walls = FAST;
        walls[3] = 12.0;
        let all = comparison(Measure::wall(), vec![lock("pthread", &PLAIN), lock("quick", &walls)]);
        assert!(notes(&all).iter().any(|note| note.contains("factor of 12") && note.contains("quick")));
        let none = comparison(Measure::wall(), vec![lock("pthread", &PLAIN), lock("quick", &FAST)]);
        assert!(!notes(&none).iter().any(|note| note.contains("warning")), "{:?}", notes(&none));
    }

    #[test]
    fn bad_runs_are_named_and_counted_and_do_not_enter_the_median() {
        let mut bad = lock("bad", &FAST);
        bad.samples[0].exit = Exit::Signal { number: 11, name: "SIGSEGV".into() };
        bad.samples[0].wall_s = 99.0;
        bad.samples[2].exit = Exit::Code { code: 3 };
        bad.samples[4].failure = Some("load generator: exit status 1".into());
        let mut dumb = lock("dumb", &FAST);
        dumb.samples.iter_mut().for_each(|s| s.metrics = vec![None]);
        let rows = rows(metric(false), vec![lock("pthread", &PLAIN), bad, dumb]);
        assert_eq!(
            rows[1].problems,
            [
                "crashed: SIGSEGV, in 1 of 8 runs",
                "exit status 3 (plain: 0), in 1 of 8 runs",
                "load generator: exit status 1, in 1 of 8 runs"
            ]
        );
        assert_eq!((rows[1].good_runs, rows[1].judgement), (5, Judgement::Failed));
        assert_eq!(rows[2].verdict, "metric not found in the output, in all 8 runs");
        assert_eq!((rows[2].median, rows[2].ratio), (None, None));
    }

    #[test]
    fn a_run_past_the_limit_counts_with_the_limit() {
        let mut late = lock("late", &FAST);
        for sample in &mut late.samples[..6] {
            (sample.exit, sample.wall_s) = (Exit::TimedOut { after_s: 60.0 }, 60.0);
        }
        let row = &rows(Measure::wall(), vec![lock("pthread", &PLAIN), late])[1];
        assert_eq!((row.good_runs, row.median, row.judgement), (8, Some(60.0), Judgement::Failed));
    }

    #[test]
    fn a_program_that_always_exits_with_three_is_held_against_three() {
        let mut locks = vec![lock("pthread", &PLAIN), lock("same", &PLAIN), lock("zero", &PLAIN)];
        for l in &mut locks[..2] {
            l.samples.iter_mut().for_each(|s| s.exit = Exit::Code { code: 3 });
        }
        let rows = rows(Measure::wall(), locks);
        assert!(rows[1].problems.is_empty());
        assert_eq!(rows[2].verdict, "exit status 0 (plain: 3), in all 8 runs");
    }

    #[test]
    fn the_best_comes_first_and_each_setting_has_its_baseline() {
        let with = |threads: &str, mut lock: LockRuns| {
            lock.setting = vec![("threads".into(), threads.into())];
            lock
        };
        let slow = PLAIN.map(|w| 3.0 * w);
        let all = comparison(
            Measure::wall(),
            vec![
                with("1", lock("pthread", &PLAIN)),
                with("2", lock("pthread", &slow)),
                with("1", lock("a", &slow)),
                with("1", lock("b", &FAST)),
                with("2", lock("a", &PLAIN)),
                with("2", lock("b", &FAST)),
            ],
        );
        let order: Vec<(&str, &str)> = sorted(&all, &all.summary[0])
            .into_iter()
            .map(|row| (row.setting[0].1.as_str(), row.lock.as_str()))
            .collect();
        assert_eq!(order, [("1", "pthread"), ("1", "b"), ("1", "a"), ("2", "pthread"), ("2", "b"), ("2", "a")]);
        assert!((all.summary[0][4].ratio.unwrap() - 3.0).abs() < 0.1);
        assert_eq!(best(&all), [(0, 3), (1, 5)]);
    }
}
