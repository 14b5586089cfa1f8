//! From samples to words.

use serde::{Deserialize, Serialize};

use crate::model::{Comparison, Exit, LockRuns, Measure, Sample, Source, BASELINE};
use crate::stats::{self, Resampled};

/// Fewer good runs than this carry no verdict. In simulated comparisons of equal programs (normal, log-normal and
/// two-humped times) 8 to 11% looked different with 3 runs, 6 to 8% with 4, and about the promised 5% or less from 5
/// runs on.
pub const FEWEST_RUNS: usize = 5;

/// What the runs on one lock say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Id of the lock.
    pub lock: String,
    /// Measured runs that ended as the plain program does and gave a number.
    pub good_runs: usize,
    /// Median of the good runs.
    pub median: Option<f64>,
    /// Median absolute deviation of the good runs.
    pub spread: Option<f64>,
    /// How many times better than the baseline the median is; above 1 is better.
    pub ratio: Option<f64>,
    /// Lower end of the 95% interval of the ratio.
    pub ratio_low: Option<f64>,
    /// Upper end of the 95% interval of the ratio.
    pub ratio_high: Option<f64>,
    /// What went wrong, if anything.
    pub problems: Vec<String>,
    /// The conclusion in words.
    pub verdict: String,
}

/// One row for each lock of the comparison.
pub fn rows(comparison: &Comparison) -> Vec<Row> {
    let expected = comparison.expected_exit().cloned();
    let good = |lock: &LockRuns| good_values(lock, &comparison.measure, expected.as_ref());
    let plain = comparison.baseline().map(good).unwrap_or_default();
    let plain_medians = stats::resampled_medians(&plain, comparison.seed);
    let plain = Resampled { values: &plain, medians: &plain_medians };
    let row = |lock: &LockRuns| {
        let values = good(lock);
        let is_baseline = lock.lock == BASELINE;
        let medians = if is_baseline {
            Vec::new()
        } else {
            stats::resampled_medians(&values, comparison.seed ^ hash(&lock.lock))
        };
        let own = Resampled { values: &values, medians: &medians };
        let ratio = match (is_baseline, comparison.measure.lower_is_better) {
            (true, _) => None,
            (false, true) => stats::ratio(plain, own),
            (false, false) => stats::ratio(own, plain),
        };
        let problems = problems(lock, &comparison.measure, expected.as_ref());
        let verdict = if !problems.is_empty() {
            problems.join("; ")
        } else if is_baseline {
            "the baseline".into()
        } else {
            verdict(ratio, values.len().min(plain.values.len()))
        };
        Row {
            lock: lock.lock.clone(),
            good_runs: values.len(),
            median: stats::median(&values),
            spread: stats::median_absolute_deviation(&values),
            ratio: ratio.map(|r| r.value),
            ratio_low: ratio.map(|r| r.low),
            ratio_high: ratio.map(|r| r.high),
            problems,
            verdict,
        }
    };
    comparison.locks.iter().map(row).collect()
}

/// Why a run does not count, or `None` when it is good.
pub fn problem(sample: &Sample, measure: &Measure, expected: Option<&Exit>) -> Option<String> {
    match (&sample.exit, expected) {
        (exit @ Exit::Code { code }, Some(Exit::Code { code: plain })) if code != plain => {
            return Some(format!("{} (plain: {plain})", exit.words()));
        }
        (Exit::Code { .. }, _) => {}
        (exit, _) => return Some(exit.words()),
    }
    let metric_missing = matches!(measure.source, Source::Metric { .. }) && sample.metric.is_none();
    metric_missing.then(|| "metric not found in the output".into())
}

fn good_values(lock: &LockRuns, measure: &Measure, expected: Option<&Exit>) -> Vec<f64> {
    let good = lock.samples.iter().filter(|s| !s.warmup && problem(s, measure, expected).is_none());
    good.filter_map(|s| measure.value(s)).collect()
}

fn problems(lock: &LockRuns, measure: &Measure, expected: Option<&Exit>) -> Vec<String> {
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

fn verdict(ratio: Option<stats::Ratio>, runs: usize) -> String {
    let Some(ratio) = ratio else { return if runs == 0 { "no runs".into() } else { "no ratio".into() } };
    if runs < FEWEST_RUNS {
        return format!("too few runs (at least {FEWEST_RUNS})");
    }
    if ratio.low <= 1.0 && 1.0 <= ratio.high {
        return "no difference seen".into();
    }
    let word = if ratio.value > 1.0 { "faster" } else { "slower" };
    format!("{}x {word}", ratio_digits(ratio.value))
}

/// A ratio with as many digits as it takes to tell it from 1.
pub fn ratio_digits(ratio: f64) -> String {
    match (ratio - 1.0).abs() {
        d if d < 0.0005 => format!("{ratio:.4}"),
        d if d < 0.01 => format!("{ratio:.3}"),
        _ if ratio >= 100.0 => format!("{ratio:.0}"),
        _ => format!("{ratio:.2}"),
    }
}

/// A number with at most three digits after the point and no trailing zeros.
pub fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A value for people: four significant digits, with the unit scaled to fit (`ms`, `M ops/s`).
pub fn human(value: f64, unit: &str) -> String {
    let size = value.abs();
    let (scaled, prefix) = match unit {
        "s" if size == 0.0 || size >= 1.0 => (value, ""),
        "s" if size >= 1e-3 => (value * 1e3, "m"),
        "s" => (value * 1e6, "µ"),
        _ if size >= 1e9 => (value / 1e9, "G"),
        _ if size >= 1e6 => (value / 1e6, "M"),
        _ if size >= 1e5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        s if s >= 1000.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        _ => 3,
    };
    let gap = if unit.is_empty() && prefix.is_empty() { "" } else { " " };
    let join = if unit.contains('/') && !prefix.is_empty() { " " } else { "" };
    format!("{scaled:.digits$}{gap}{prefix}{join}{unit}")
}

/// The cells of one row as people read them: lock, median, spread, ratio with interval, verdict.
pub fn cells(row: &Row, measure: &Measure) -> [String; 5] {
    let none = || "-".to_owned();
    let median = row.median.map_or_else(none, |m| human(m, &measure.unit));
    let spread = match (row.median, row.spread) {
        (Some(median), Some(spread)) if median != 0.0 => format!("±{:.1}%", 100.0 * spread / median.abs()),
        (Some(_), Some(spread)) => format!("±{}", human(spread, &measure.unit)),
        _ => none(),
    };
    let ratio = match (row.ratio, row.ratio_low, row.ratio_high) {
        _ if row.lock == BASELINE && row.median.is_some() => "1".into(),
        (Some(r), Some(low), Some(high)) => {
            let digits = |v: f64| if v >= 100.0 { format!("{v:.0}") } else { format!("{v:.2}") };
            // An end that rounds to 1 although the interval does not hold 1 gets the digits that show it.
            let holds_one = low <= 1.0 && 1.0 <= high;
            let end = |v: f64| if holds_one { digits(v) } else { ratio_digits(v) };
            format!("{} [{}, {}]", digits(r), end(low), end(high))
        }
        _ => none(),
    };
    [row.lock.clone(), median, spread, ratio, row.verdict.clone()]
}

/// Headings for [`cells`].
pub const HEADINGS: [&str; 5] = ["lock", "median", "spread", "ratio [95% CI]", "verdict"];

/// How to read the table, in one line each.
pub fn legend(comparison: &Comparison) -> Vec<String> {
    let what = match (&comparison.measure.source, comparison.measure.lower_is_better) {
        (Source::Wall, _) => "median: wall time of a run".to_owned(),
        (Source::Metric { regex }, lower) => {
            format!("median: number captured by '{regex}', {} is better", if lower { "lower" } else { "higher" })
        }
    };
    vec![
        format!("{what}; spread: median absolute deviation"),
        "ratio: how many times better than pthread (above 1 is better), with its 95% bootstrap interval".into(),
    ]
}

fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::model::SCHEMA;

    fn sample(wall_s: f64, exit: Exit) -> Sample {
        Sample { round: 0, warmup: false, wall_s, metric: Some(1.0 / wall_s), exit, stderr_tail: None }
    }

    fn lock(name: &str, walls: &[f64]) -> LockRuns {
        let samples = walls.iter().map(|w| sample(*w, Exit::Code { code: 0 })).collect();
        LockRuns { lock: name.into(), preloaded: name != BASELINE, left_out: None, samples }
    }

    fn comparison(measure: Measure, locks: Vec<LockRuns>) -> Comparison {
        Comparison {
            schema: SCHEMA,
            tool_version: "0".into(),
            started_unix_s: 0,
            machine: Machine::default(),
            seed: 1,
            command: vec!["p".into()],
            measure,
            runs: 5,
            warmup: 0,
            timeout_s: 60.0,
            complete: true,
            locks,
            summary: Vec::new(),
        }
    }

    const PLAIN: [f64; 6] = [2.00, 2.01, 2.02, 1.99, 2.00, 2.01];
    const FAST: [f64; 6] = [1.00, 1.01, 1.00, 1.02, 0.99, 1.00];

    #[test]
    fn above_one_is_better_for_wall_time_and_for_both_kinds_of_metric() {
        let locks = || vec![lock("pthread", &PLAIN), lock("quick", &FAST)];
        let wall = rows(&comparison(Measure::wall(), locks()));
        assert_eq!(wall[1].verdict, "2.00x faster");
        assert!(wall[1].ratio_low.unwrap() > 1.9 && wall[1].ratio_high.unwrap() < 2.1);
        let higher = rows(&comparison(Measure::metric("x", "", false), locks()));
        assert_eq!(higher[1].verdict, "2.00x faster");
        let lower = rows(&comparison(Measure::metric("x", "", true), locks()));
        assert_eq!(lower[1].verdict, "0.50x slower");
        assert_eq!(wall[0].verdict, "the baseline");
    }

    #[test]
    fn an_interval_that_holds_one_is_no_difference() {
        let equal = [2.00, 2.02, 1.99, 2.01, 2.00, 2.01];
        let rows = rows(&comparison(Measure::wall(), vec![lock("pthread", &PLAIN), lock("same", &equal)]));
        assert_eq!(rows[1].verdict, "no difference seen");
    }

    #[test]
    fn few_runs_carry_no_verdict() {
        let rows = rows(&comparison(Measure::wall(), vec![lock("pthread", &PLAIN[..4]), lock("quick", &FAST[..4])]));
        assert_eq!(rows[1].verdict, "too few runs (at least 5)");
        assert!(rows[1].ratio.is_some());
    }

    #[test]
    fn bad_runs_are_named_and_counted_and_do_not_enter_the_median() {
        let mut bad = lock("bad", &FAST);
        bad.samples[0].exit = Exit::Signal { number: 11, name: "SIGSEGV".into() };
        bad.samples[0].wall_s = 99.0;
        bad.samples[1].exit = Exit::TimedOut { after_s: 2.5 };
        bad.samples[2].exit = Exit::Code { code: 3 };
        let mut dumb = lock("dumb", &FAST);
        dumb.samples.iter_mut().for_each(|s| s.metric = None);
        let all = vec![lock("pthread", &PLAIN), bad, dumb];
        let rows = rows(&comparison(Measure::metric("x", "", false), all));
        assert_eq!(
            rows[1].problems,
            [
                "crashed: SIGSEGV, in 1 of 6 runs",
                "timed out after 2.5 s, in 1 of 6 runs",
                "exit status 3 (plain: 0), in 1 of 6 runs"
            ]
        );
        assert_eq!(rows[1].good_runs, 3);
        assert_eq!(rows[2].verdict, "metric not found in the output, in all 6 runs");
        assert_eq!((rows[2].median, rows[2].ratio), (None, None));
    }

    #[test]
    fn a_program_that_always_exits_with_three_is_held_against_three() {
        let mut locks = vec![lock("pthread", &PLAIN), lock("same", &PLAIN), lock("zero", &PLAIN)];
        for l in &mut locks[..2] {
            l.samples.iter_mut().for_each(|s| s.exit = Exit::Code { code: 3 });
        }
        let rows = rows(&comparison(Measure::wall(), locks));
        assert!(rows[1].problems.is_empty());
        assert_eq!(rows[2].verdict, "exit status 0 (plain: 3), in all 6 runs");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(human(0.31234, "s"), "312.3 ms");
        assert_eq!(human(12.3456, "s"), "12.35 s");
        assert_eq!(human(123_456.0, "ops/s"), "123.5 k ops/s");
        assert_eq!(human(12_345_678.0, ""), "12.35 M");
        assert_eq!(human(42.0, ""), "42.00");
        assert_eq!(short(60.0), "60");
        assert_eq!(short(0.25), "0.25");
        assert_eq!(ratio_digits(1.004), "1.004");
        assert_eq!(ratio_digits(1.3211), "1.32");
    }
}
