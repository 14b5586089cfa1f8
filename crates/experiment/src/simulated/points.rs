//! What a sweep found: the medians of the runs of each measurement, and ratios to the baseline.

use std::fmt;

use lockswap_locks::registry::PTHREAD;
use lockswap_study::stats::shift;
use lockswap_study::summary::digits;
use lockswap_workloads::report::{summary, Report};

use super::plan::{Plan, Setting};
use super::Row;

/// What the runs of one measurement gave.
pub struct Point<'a> {
    /// What was measured.
    pub setting: Setting<'a>,
    /// Seed by seed.
    pub reports: Vec<&'a Report>,
    /// Their medians, and the sums of their histograms.
    pub summary: Report,
    /// Throughput relative to the baseline's; nothing where that has no results, or one of the two did nothing.
    pub ratio: Option<Ratio>,
}

impl Point<'_> {
    /// Whether it is that of the setting.
    pub fn is_of(&self, setting: &Setting<'_>) -> bool {
        self.setting.lock == setting.lock && self.setting.workload == setting.workload
    }
}

/// A ratio to the baseline, above 1 where the lock is better.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The estimate: `docs/statistics.md` says which.
    pub value: f64,
    /// The ends of the 95 % confidence interval; nothing where there are too few seeds for one.
    pub interval: Option<(f64, f64)>,
}

impl Ratio {
    /// The ratio of two numbers of each seed, as pairs. A seed is to a simulation what a round is to a comparison: both
    /// runs of a pair have the same chances.
    fn of(pairs: impl Iterator<Item = (f64, f64)>) -> Option<Self> {
        // What is not finite has no ratio; `shift` gives nothing then.
        let differences: Vec<f64> = pairs.map(|(own, base)| (own / base).ln()).collect();
        let found = shift(&differences)?;
        Some(Self { value: found.value.exp(), interval: found.interval.map(|(low, high)| (low.exp(), high.exp())) })
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&digits(self.value))?;
        match self.interval {
            Some((low, high)) => write!(f, " [{}, {}]", digits(low), digits(high)),
            None => Ok(()),
        }
    }
}

/// What has been found so far, in the order of the table.
pub fn points<'a>(plan: &'a Plan, rows: &'a [Option<Row>]) -> Vec<Point<'a>> {
    let point = |setting: Setting<'a>| {
        let reports: Vec<&Report> =
            runs(rows, &setting).filter_map(|row| Some(&row.outcome.as_ref().ok()?.report)).collect();
        Some(Point { summary: summary(&reports)?, ratio: ratio(rows, &setting), setting, reports })
    };
    plan.all().filter_map(point).collect()
}

/// The throughput relative to the baseline's, over the seeds that both have results for.
fn ratio(rows: &[Option<Row>], setting: &Setting<'_>) -> Option<Ratio> {
    if setting.lock == PTHREAD {
        return None;
    }
    let throughputs = |setting: &Setting<'_>| -> Vec<(u64, f64)> {
        runs(rows, setting).filter_map(|row| Some((row.seed, row.outcome.as_ref().ok()?.report.throughput))).collect()
    };
    let base = throughputs(&Setting { lock: PTHREAD, ..setting.clone() });
    let with_base = |(seed, own): (u64, f64)| Some((own, base.iter().find(|(other, _)| *other == seed)?.1));
    Ratio::of(throughputs(setting).into_iter().filter_map(with_base))
}

/// The runs of one measurement that have ended.
pub(super) fn runs<'a>(rows: &'a [Option<Row>], setting: &Setting<'_>) -> impl Iterator<Item = &'a Row> + use<'a> {
    let (lock, workload) = (setting.lock.to_owned(), setting.workload.clone());
    rows.iter().flatten().filter(move |row| row.lock == lock && row.workload == workload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_has_an_interval_from_six_seeds_on() {
        let pairs = |seeds: usize| (0..seeds).map(|n| (2.0 + 0.1 * n as f64, 1.0));
        let one = Ratio::of(pairs(1)).expect("a ratio");
        assert_eq!((one.to_string().as_str(), one.interval), ("2.00", None));
        assert_eq!(Ratio::of(pairs(5)).expect("a ratio").interval, None);
        let six = Ratio::of(pairs(6)).expect("a ratio");
        assert_eq!(six.to_string(), "2.24 [2.00, 2.50]");
        assert_eq!(Ratio::of([(0.0, 1.0)].into_iter()), None, "who did nothing has no ratio");
        assert_eq!(Ratio::of([(1.0, 0.0)].into_iter()), None);
        assert_eq!(Ratio::of(pairs(0)), None);
    }
}
