//! Regret: how far a lock stays behind the best lock for each of many settings, on hardware and on simulated machines.
//! `docs/regret.md` defines it.
//!
//! - [`cells`] reads the settings, which are fixed in files.
//! - [`hardware`] makes a series of measurements of them, [`simulated`] runs of the simulator.
//! - [`output`] gives tables, JSON, CSV and the heat map.
//!
//! Here is what follows from the rounds. Who is picked as the best for having had the largest number had luck, too;
//! so the best is picked in every other round, and measured in those between. A seed is to a simulation what a round
//! is to hardware.

pub mod cells;
pub mod hardware;
pub mod output;
pub mod simulated;

use cells::{Cell, Cells, Targets};
use lockswap_locks::info::WaitingPolicy;
use lockswap_locks::named;
use lockswap_locks::registry::Role;
use lockswap_study::descriptive;
use lockswap_study::stats::Difference;
use lockswap_workloads::report::Report;

/// What one round told about a lock in a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Round {
    /// Operations per second.
    pub throughput: f64,
    /// Share of the operations that the busier half of the threads made.
    pub fairness_factor: f64,
    /// CPU time for an operation, ns; nothing where it is not told.
    pub cpu_ns_per_op: Option<f64>,
}

impl Round {
    /// What counts of a report.
    pub fn of(report: &Report) -> Self {
        let ops = report.throughput * report.duration_ns as f64 / 1e9;
        let cpu_ns_per_op = report.cpu_ns.filter(|_| ops > 0.0).map(|cpu| cpu as f64 / ops);
        Self { throughput: report.throughput, fairness_factor: report.fairness_factor, cpu_ns_per_op }
    }

    /// Whether the best is picked in the round of this number, from 0, rather than measured.
    pub fn is_for_picking(number: usize) -> bool {
        number.is_multiple_of(2)
    }
}

/// What the rounds told about a lock in a cell.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    /// Its name.
    pub lock: String,
    /// Round by round; nothing for those that have not come to their end.
    pub rounds: Vec<Option<Round>>,
    /// Why there are no more, if a run failed.
    pub failure: Option<String>,
}

impl Runs {
    /// The rounds in which the best lock is picked, or those in which it is measured, with their numbers.
    fn half(&self, picking: bool) -> impl Iterator<Item = (usize, Round)> + '_ {
        let rounds = self.rounds.iter().enumerate().filter_map(|(number, round)| Some((number, (*round)?)));
        rounds.filter(move |(number, _)| Round::is_for_picking(*number) == picking)
    }

    fn median(&self, picking: bool, of: impl Fn(&Round) -> f64) -> Option<f64> {
        descriptive::median(&self.half(picking).map(|(_, round)| of(&round)).collect::<Vec<_>>())
    }

    /// The medians over all rounds.
    pub fn summary(&self) -> Option<Round> {
        let rounds: Vec<Round> = self.rounds.iter().flatten().copied().collect();
        let median =
            |of: &dyn Fn(&Round) -> Option<f64>| descriptive::median(&rounds.iter().filter_map(of).collect::<Vec<_>>());
        Some(Round {
            throughput: median(&|round| Some(round.throughput))?,
            fairness_factor: median(&|round| Some(round.fairness_factor))?,
            cpu_ns_per_op: median(&|round| round.cpu_ns_per_op),
        })
    }

    /// Whether the lock may be the best: it did not fail, and is too unfair neither where it is picked nor where it is
    /// measured. Some locks are either fair or fast, by chance.
    fn is_eligible(&self, fairness_factor: f64) -> bool {
        let [picking, measuring] = [true, false].map(|half| self.median(half, |round| round.fairness_factor));
        let is_fair = |found: f64| found <= fairness_factor;
        self.failure.is_none() && picking.is_some_and(is_fair) && measuring.is_none_or(is_fair)
    }

    /// By what factor a number of this lock is larger than that of another one in the same rounds, those that measure.
    fn next_to(&self, other: &Runs, of: impl Fn(&Round) -> Option<f64>) -> Option<Difference> {
        let number = |round| Some((of(&round)?, round));
        let pair = |(at, own): (usize, Round)| {
            let (base, _) = number(other.rounds.get(at).copied().flatten()?)?;
            Some((of(&own)?, base))
        };
        Difference::of(&self.half(false).filter_map(pair).collect::<Vec<_>>())
    }
}

/// What was found in a cell.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The cell.
    pub cell: Cell,
    /// What the subject did.
    pub subject: Runs,
    /// What the candidates did, in their order.
    pub candidates: Vec<Runs>,
    /// The best eligible candidate, or why there is none.
    pub best: Result<String, String>,
    /// The subject's throughput next to the best one's; nothing before the first round that measures.
    pub regret: Option<Difference>,
    /// The best eligible candidate that blocks, and the subject's CPU time for an operation next to that one's.
    pub cpu: Option<(String, Difference)>,
}

/// Whether a lock's waiters sleep.
fn blocks(lock: &str) -> bool {
    named::read(Role::Mutex, lock).is_ok_and(|named| named.entry.info.waiting != WaitingPolicy::Spin)
}

impl Finding {
    /// What follows from the runs in a cell.
    pub fn of(cell: Cell, subject: Runs, candidates: Vec<Runs>, fairness_factor: f64) -> Self {
        let eligible: Vec<&Runs> = candidates.iter().filter(|runs| runs.is_eligible(fairness_factor)).collect();
        let picked = |of: &dyn Fn(&str) -> bool| {
            let number = |runs: &&Runs| runs.median(true, |round| round.throughput).unwrap_or_default();
            let choice = eligible.iter().copied().filter(|runs| of(&runs.lock));
            choice.max_by(|a, b| number(a).total_cmp(&number(b)))
        };
        let best = picked(&|_| true);
        let nobody = || match candidates.iter().all(|runs| runs.half(true).next().is_none()) {
            true => "no run has come to its end".to_owned(),
            false => format!("no candidate has a fairness factor of at most {fairness_factor}"),
        };
        let sound = subject.failure.is_none();
        let regret = best.filter(|_| sound).and_then(|best| subject.next_to(best, |round| Some(round.throughput)));
        let blocking = picked(&blocks).filter(|_| sound);
        let cpu =
            blocking.and_then(|runs| Some((runs.lock.clone(), subject.next_to(runs, |round| round.cpu_ns_per_op)?)));
        let best = best.map(|runs| runs.lock.clone()).ok_or_else(nobody);
        Self { cell, best, regret, cpu, subject, candidates }
    }

    /// Throughput over that of the best eligible lock: 1 is no regret, and 0 is the ratio of a subject that stood
    /// still.
    pub fn ratio(&self) -> Option<f64> {
        let regret = self.regret.as_ref()?;
        regret.ratio().or_else(|| self.stood_still().then_some(0.0))
    }

    /// The 95 % interval of the ratio; it takes six rounds that measure.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let regret = self.regret.as_ref()?;
        regret.ratio_interval().or_else(|| self.stood_still().then_some((0.0, 0.0)))
    }

    /// Whether the subject made no operation at all in a round that measures. No number says how much slower that is,
    /// and it must not go unnoticed because of that.
    pub fn stood_still(&self) -> bool {
        self.subject.half(false).any(|(_, round)| round.throughput <= 0.0)
    }

    /// CPU time for an operation over that of the best eligible lock that blocks.
    pub fn cpu_ratio(&self) -> Option<f64> {
        self.cpu.as_ref()?.1.ratio()
    }

    /// What went wrong, a line each.
    pub fn problems(&self) -> Vec<String> {
        let all = std::iter::once(&self.subject).chain(&self.candidates);
        let failed: Vec<String> = all
            .filter_map(|runs| Some(format!("{}: {}: {}", self.cell.id, runs.lock, runs.failure.as_ref()?)))
            .collect();
        failed.into_iter().fold(Vec::new(), |mut once, line| {
            if !once.contains(&line) {
                once.push(line);
            }
            once
        })
    }
}

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
        let itself = || findings.iter().filter(|finding| finding.best.as_ref() == Ok(&finding.subject.lock));
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

/// Everything that a run of the command found.
pub struct Findings<'a> {
    /// What was to be measured.
    pub cells: &'a Cells,
    /// The lock in question.
    pub subject: &'a str,
    /// Whether the cells are the held-out ones.
    pub held_out: bool,
    /// Whether the machines are simulated.
    pub simulated: bool,
    /// Cell by cell.
    pub found: Vec<Finding>,
    /// Cells that cannot be measured here, and why.
    pub skipped: &'a [(Cell, String)],
    /// The seed of the first round.
    pub seed: u64,
}

impl Findings<'_> {
    /// What all cells say together.
    pub fn summary(&self) -> Summary {
        Summary::of(&self.found, self.cells.fairness_factor)
    }

    /// What was reached of the targets.
    pub fn reached(&self) -> Vec<Reached> {
        reached(&self.summary(), &self.cells.targets, self.simulated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regret::cells::Kind;
    use lockswap_sim::Workload;

    fn cell(id: &str) -> Cell {
        let workload = Workload::named("counter").expect("a workload");
        Cell {
            id: id.to_owned(),
            machine: None,
            body: "a".into(),
            threads: 2,
            kind: Kind::Workload(workload, 0),
            duration: 1,
            is_held_out: false,
        }
    }

    fn runs(lock: &str, fairness_factor: f64, throughputs: impl IntoIterator<Item = f64>) -> Runs {
        let round = |throughput| Some(Round { throughput, fairness_factor, cpu_ns_per_op: Some(1e9 / throughput) });
        Runs { lock: lock.to_owned(), rounds: throughputs.into_iter().map(round).collect(), failure: None }
    }

    /// Ten locks that are all alike, and noise of 5 %: whoever picks and measures in the same rounds finds that the
    /// subject is worse than the best of the others, and it is not.
    #[test]
    fn picking_in_one_half_and_measuring_in_the_other_has_no_bias() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut noise = || {
            let sum: f64 = (0..12).map(|_| random.f64()).sum();
            1000.0 * (0.05 * (sum - 6.0)).exp()
        };
        let (mut halves, mut same) = (Vec::new(), Vec::new());
        for _ in 0..400 {
            let subject = runs("auto", 0.5, (0..12).map(|_| noise()));
            let candidates: Vec<Runs> =
                (0..10).map(|n| runs(&format!("lock{n}"), 0.5, (0..12).map(|_| noise()))).collect();
            // What one would do without a second half: the best in the rounds that are measured.
            let number = |runs: &&Runs| runs.median(false, |round| round.throughput).expect("rounds");
            let best = candidates.iter().max_by(|a, b| number(a).total_cmp(&number(b))).expect("ten");
            same.push(subject.next_to(best, |round| Some(round.throughput)).expect("rounds").shift.value);
            let finding = Finding::of(cell("a"), subject, candidates, 0.8);
            halves.push(finding.regret.expect("a ratio").shift.value);
        }
        let mean = |logs: &[f64]| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        let (halves, same) = (mean(&halves), mean(&same));
        // The standard error of the mean is 0.05 * sqrt(2 / 6) / sqrt(400), some 0.0015.
        assert!((halves - 1.0).abs() < 0.006, "no bias: {halves}");
        assert!(same < 0.98, "the bias that there would be: {same}");
    }

    #[test]
    fn the_best_is_fair_enough_and_has_not_failed() {
        let subject = || runs("futex", 0.9, [50.0; 12]);
        let broken = Runs { failure: Some("signal: 6".into()), ..runs("cna", 0.5, [900.0; 3]) };
        let all =
            || vec![runs("ttas", 0.81, [200.0; 12]), runs("mcs_spin", 0.8, [100.0; 12]), broken.clone(), subject()];
        let finding = Finding::of(cell("a"), subject(), all(), 0.8);
        assert_eq!(
            (finding.best.as_deref(), finding.ratio().map(|r| (100.0 * r).round())),
            (Ok("mcs_spin"), Some(50.0))
        );
        assert_eq!(finding.interval().map(|(low, high)| (low < 0.51, high > 0.49)), Some((true, true)));
        assert_eq!(finding.problems(), ["a: cna: signal: 6"]);
        assert!(finding.cpu.is_none(), "futex would block, but it is too unfair here: {:?}", finding.cpu);
        let finding = Finding::of(cell("a"), subject(), all(), 1.0);
        assert_eq!(finding.best.as_deref(), Ok("ttas"));
        assert_eq!(finding.cpu.map(|(lock, difference)| (lock, difference.ratio())), Some(("futex".into(), Some(1.0))));
        let finding = Finding::of(cell("a"), subject(), all(), 0.5);
        assert!(
            finding.best.expect_err("nobody").contains("fairness factor of at most 0.5") && finding.regret.is_none()
        );
        let failed = Runs { failure: Some("hangs".into()), ..subject() };
        assert!(Finding::of(cell("a"), failed, all(), 0.8).regret.is_none(), "a lock that fails has no regret");
    }

    /// A lock that is fair in the rounds that pick, and fast in those that measure, is not both.
    #[test]
    fn the_best_is_fair_where_it_is_measured() {
        let changing = |first: bool| {
            let round = |number: usize| {
                let is_fair = Round::is_for_picking(number) == first;
                let (throughput, fairness_factor) = if is_fair { (200.0, 0.7) } else { (900.0, 1.0) };
                Some(Round { throughput, fairness_factor, cpu_ns_per_op: None })
            };
            Runs { lock: "cna".to_owned(), rounds: (0..12).map(round).collect(), failure: None }
        };
        for first in [true, false] {
            let candidates = vec![changing(first), runs("futex", 0.5, [100.0; 12])];
            let finding = Finding::of(cell("a"), runs("auto", 0.5, [100.0; 12]), candidates, 0.8);
            assert_eq!(finding.best.as_deref(), Ok("futex"));
        }
        let one = vec![runs("futex", 0.5, [100.0])];
        assert_eq!(Finding::of(cell("a"), runs("auto", 0.5, [100.0]), one, 0.8).best.as_deref(), Ok("futex"));
    }

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

    /// What a candidate does in the rounds that measure says nothing about whether it is the best.
    #[test]
    fn rounds_that_measure_do_not_pick() {
        let in_turn = |even: f64, odd: f64| [even, odd].into_iter().cycle().take(12);
        let candidates = vec![runs("ttas", 0.5, in_turn(10.0, 1.0)), runs("mcs_spin", 0.5, in_turn(1.0, 10.0))];
        let finding = Finding::of(cell("a"), runs("futex", 0.5, in_turn(5.0, 5.0)), candidates, 0.8);
        assert_eq!((finding.best.as_deref(), finding.ratio().map(f64::round)), (Ok("ttas"), Some(5.0)));
        let few = Finding::of(cell("a"), runs("futex", 0.5, [1.0]), vec![runs("ttas", 0.5, [1.0])], 0.8);
        assert!(few.best.is_ok() && few.regret.is_none(), "one round picks, none measures");
        let still =
            Finding::of(cell("a"), runs("futex", 0.5, in_turn(5.0, 0.0)), vec![runs("ttas", 0.5, [1.0; 12])], 0.8);
        assert_eq!((still.ratio(), still.interval()), (Some(0.0), Some((0.0, 0.0))), "it is the worst, not left out");
        assert_eq!(Summary::of(&[still], 0.8).mean, Some(0.0));
        let none = Finding::of(cell("a"), runs("futex", 0.5, []), vec![runs("ttas", 0.5, [])], 0.8);
        assert!(none.best.expect_err("nobody").contains("no run"));
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
