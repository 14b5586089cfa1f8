//! What a sweep found: the medians of the runs of each measurement, and ratios to the baseline.

use lockswap_locks::registry::PTHREAD;
use lockswap_study::stats::Difference;
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
    /// Throughput next to the baseline's with the same seeds; nothing where that has no results. A seed is to a
    /// simulation what a round is to a comparison: both runs of a pair have the same chances.
    pub difference: Option<Difference>,
}

impl Point<'_> {
    /// Whether it is that of the setting.
    pub fn is_of(&self, setting: &Setting<'_>) -> bool {
        self.setting.lock == setting.lock && self.setting.workload == setting.workload
    }
}

/// What has been found so far, in the order of the table.
pub fn points<'a>(plan: &'a Plan, rows: &'a [Option<Row>]) -> Vec<Point<'a>> {
    let point = |setting: Setting<'a>| {
        let reports: Vec<&Report> =
            runs(rows, &setting).filter_map(|row| Some(&row.outcome.as_ref().ok()?.report)).collect();
        Some(Point { summary: summary(&reports)?, difference: difference(rows, &setting), setting, reports })
    };
    plan.all().filter_map(point).collect()
}

/// The throughput next to the baseline's, over the seeds that both have results for.
fn difference(rows: &[Option<Row>], setting: &Setting<'_>) -> Option<Difference> {
    if setting.lock == PTHREAD {
        return None;
    }
    let throughputs = |setting: &Setting<'_>| -> Vec<(u64, f64)> {
        runs(rows, setting).filter_map(|row| Some((row.seed, row.outcome.as_ref().ok()?.report.throughput))).collect()
    };
    let base = throughputs(&Setting { lock: PTHREAD, ..setting.clone() });
    let with_base = |(seed, own): (u64, f64)| Some((own, base.iter().find(|(other, _)| *other == seed)?.1));
    Difference::of(&throughputs(setting).into_iter().filter_map(with_base).collect::<Vec<_>>())
}

/// The runs of one measurement that have ended.
pub(super) fn runs<'a>(rows: &'a [Option<Row>], setting: &Setting<'_>) -> impl Iterator<Item = &'a Row> + use<'a> {
    let (lock, workload) = (setting.lock.to_owned(), setting.workload.clone());
    rows.iter().flatten().filter(move |row| row.lock == lock && row.workload == workload)
}
