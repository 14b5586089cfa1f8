//! What all cells say together, and whether that is what was aimed at.

use super::cells::Targets;
use super::finding::{Best, Finding};

/// What all cells say together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The least ratio, and its cell.
    pub worst: Option<(String, f64)>,
    /// The least lower end of an interval, and its cell; nothing unless all cells with a ratio have an interval.
    pub worst_bound: Option<(String, f64)>,
    /// The geometric mean of the ratios.
    pub mean: Option<f64>,
    /// The largest ratio of CPU times, and its cell.
    pub cpu: Option<(String, f64)>,
    /// Cells with a ratio.
    pub judged: usize,
    /// Cells in which the subject itself is less fair than the best lock may be.
    pub unfair: usize,
    /// What was found where the subject is the best lock itself; nothing if it is that nowhere.
    pub itself: Option<Itself>,
}

/// A lock next to itself. On hardware, where the subject is measured besides the candidates although it is one of
/// them, what differs from 1 here is noise. A simulation comes out the same twice.
#[derive(Clone, Debug, PartialEq)]
pub struct Itself {
    /// In so many cells.
    pub cells: usize,
    /// The least and the largest ratio.
    pub ratios: (f64, f64),
    /// The least lower end of an interval, and its cell; nothing without intervals.
    pub bound: Option<(String, f64)>,
}

impl Itself {
    fn of(findings: &[Finding]) -> Option<Self> {
        let alone = |lock: &str| Ok(Best { lock: lock.to_owned(), other: None });
        let is_best = |finding: &&Finding| finding.best == alone(&finding.subject.lock);
        let itself = || findings.iter().filter(is_best);
        let ratios = || itself().filter_map(Finding::ratio);
        let bounds = itself().filter_map(|finding| Some((finding.cell.id.clone(), finding.interval()?.0)));
        Some(Self {
            cells: ratios().count(),
            ratios: (ratios().min_by(f64::total_cmp)?, ratios().max_by(f64::total_cmp)?),
            bound: bounds.min_by(|a, b| a.1.total_cmp(&b.1)),
        })
    }
}

impl Summary {
    /// That of these findings.
    pub fn of(findings: &[Finding], fairness_factor: f64) -> Self {
        let extreme = |of: &dyn Fn(&Finding) -> Option<f64>, sign: f64| {
            let found = findings.iter().filter_map(|finding| Some((finding.cell.id.clone(), of(finding)?)));
            found.min_by(|a, b| (sign * a.1).total_cmp(&(sign * b.1)))
        };
        let ratios: Vec<f64> = findings.iter().filter_map(Finding::ratio).collect();
        let bounded = findings.iter().filter(|finding| finding.interval().is_some()).count();
        let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
        let unfair = findings.iter().filter_map(|finding| finding.subject.summary());
        Self {
            worst: extreme(&Finding::ratio, 1.0),
            worst_bound: extreme(&|finding| Some(finding.interval()?.0), 1.0).filter(|_| bounded == ratios.len()),
            mean: (!ratios.is_empty()).then(|| (logs / ratios.len() as f64).exp()),
            cpu: extreme(&Finding::cpu_ratio, -1.0),
            judged: ratios.len(),
            unfair: unfair.filter(|round| round.fairness_factor > fairness_factor).count(),
            itself: Itself::of(findings),
        }
    }
}

/// A target, and what was reached.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Reached {
    /// What it is about.
    pub what: &'static str,
    /// What was found; nothing where it cannot be told.
    pub value: Option<f64>,
    /// Its cell, where it is that of one.
    pub cell: Option<String>,
    /// What is meant to be reached.
    pub target: f64,
    /// Whether less is better.
    pub at_most: bool,
}

impl Reached {
    /// Whether the target is met; nothing where that cannot be told.
    pub fn is_met(&self) -> Option<bool> {
        self.value.map(|value| if self.at_most { value <= self.target } else { value >= self.target })
    }
}

/// What was reached of the targets; where the machine was `simulated` the worst ratio counts, else the lower end of
/// its interval.
pub fn reached(summary: &Summary, targets: &Targets, simulated: bool) -> Vec<Reached> {
    let (what, worst) = match simulated {
        true => ("the worst cell", &summary.worst),
        false => ("lower 95 % bound of the worst cell", &summary.worst_bound),
    };
    let of = |what, found: Option<&(String, f64)>, target, at_most| Reached {
        what,
        value: found.map(|(_, value)| *value),
        cell: found.map(|(cell, _)| cell.clone()),
        target,
        at_most,
    };
    let mean = Reached { value: summary.mean, ..of("geometric mean", None, targets.mean, false) };
    let cpu = targets.cpu.map(|target| of("largest ratio of CPU times", summary.cpu.as_ref(), target, true));
    [of(what, worst.as_ref(), targets.worst, false), mean].into_iter().chain(cpu).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regret::finding::tests::{cell, runs};

    /// A subject that is a candidate, and is measured twice, shows what noise does.
    #[test]
    fn a_lock_next_to_itself() {
        let of = |id: &str, own: f64, again: f64, other: f64| {
            let candidates = vec![runs("ttas", 0.5, vec![again; 12]), runs("futex", 0.5, vec![other; 12])];
            Finding::of(cell(id), runs("ttas", 0.5, vec![own; 12]), candidates, 0.8)
        };
        let findings = [of("a", 90.0, 100.0, 50.0), of("b", 120.0, 100.0, 50.0), of("c", 10.0, 10.0, 50.0)];
        let itself = Summary::of(&findings, 0.8).itself.expect("it is the best in two cells");
        let close = |found: f64, wanted: f64| (found - wanted).abs() < 1e-9;
        assert!(itself.cells == 2 && close(itself.ratios.0, 0.9) && close(itself.ratios.1, 1.2), "{itself:?}");
        assert!(itself.bound.is_some_and(|(cell, low)| cell == "a" && close(low, 0.9)));
        assert_eq!(Summary::of(&findings[2..], 0.8).itself, None);
    }

    #[test]
    fn a_summary_by_hand() {
        let of = |id: &str, own: f64, best: f64, rounds: usize| {
            let candidates = vec![runs("mcs_stp", 0.6, vec![best; rounds])];
            Finding::of(cell(id), runs("futex", 0.9, vec![own; rounds]), candidates, 0.8)
        };
        let findings = [of("a", 50.0, 100.0, 12), of("b", 200.0, 100.0, 12)];
        let summary = Summary::of(&findings, 0.8);
        let close = |found: Option<f64>, wanted: f64| found.is_some_and(|found| (found - wanted).abs() < 1e-9);
        assert!(close(summary.mean, 1.0) && close(summary.worst_bound.clone().map(|of| of.1), 0.5), "{summary:?}");
        assert_eq!(summary.cpu.as_ref().map(|(cell, _)| cell.as_str()), Some("a"));
        assert_eq!((summary.judged, summary.unfair), (2, 2));
        let targets = Targets { worst: 0.6, mean: 0.97, cpu: Some(2.5) };
        let met: Vec<_> = reached(&summary, &targets, false).iter().map(Reached::is_met).collect();
        assert_eq!(met, [Some(false), Some(true), Some(true)]);
        // Without an interval in each cell the bound of the worst is not known; the ratio is.
        let summary = Summary::of(&[of("a", 50.0, 100.0, 12), of("b", 40.0, 100.0, 4)], 0.8);
        assert_eq!((summary.worst_bound.clone(), summary.worst.map(|of| of.0)), (None, Some("b".into())));
    }
}
