//! What the rounds told about the locks of a cell, which of them is the best, and how far the subject is behind it.
//!
//! Who is picked as the best for having had the largest number had luck, too; so each half of the rounds measures what
//! the other half has picked.

use super::cells::Cell;
use lockswap_locks::info::WaitingPolicy;
use lockswap_locks::named;
use lockswap_locks::registry::Role;
use lockswap_study::descriptive;
use lockswap_study::stats::Difference;
use lockswap_workloads::report::Report;

/// How far the interval of a ratio may reach to either side, as a share of the ratio, without more rounds.
pub const PRECISION: f64 = 0.05;

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
}

/// A half of the rounds: every other one. The best lock that it picks is measured in the other half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The first round, the third, and so on.
    Odd,
    /// The second round, the fourth, and so on.
    Even,
}

impl Half {
    /// Both of them.
    pub const ALL: [Self; 2] = [Self::Odd, Self::Even];

    /// That of the round at this place, from 0.
    pub fn of(place: usize) -> Self {
        if place.is_multiple_of(2) {
            Self::Odd
        } else {
            Self::Even
        }
    }

    /// Its name in files: what the numbers of its rounds, which begin with 1, have in common.
    pub fn name(self) -> &'static str {
        match self {
            Self::Odd => "odd",
            Self::Even => "even",
        }
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
    /// The rounds that have come to their end, with their places, from 0.
    fn ended(&self) -> impl Iterator<Item = (usize, Round)> + '_ {
        self.rounds.iter().enumerate().filter_map(|(place, round)| Some((place, (*round)?)))
    }

    /// The median of a number over one half of the rounds.
    fn median(&self, half: Half, of: impl Fn(&Round) -> f64) -> Option<f64> {
        let rounds = self.ended().filter(|(place, _)| Half::of(*place) == half);
        descriptive::median(&rounds.map(|(_, round)| of(&round)).collect::<Vec<_>>())
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

    /// Whether the lock may be the best: it did not fail, and is too unfair in neither half of the rounds. Some locks
    /// are either fair or fast, by chance.
    fn is_eligible(&self, fairness_factor: f64) -> bool {
        let mut halves = Half::ALL.into_iter().filter_map(|half| self.median(half, |round| round.fairness_factor));
        self.failure.is_none() && self.ended().next().is_some() && halves.all(|found| found <= fairness_factor)
    }
}

/// The best lock of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Best {
    /// What the first half of the rounds that has an end picks.
    pub lock: String,
    /// What the other half picks, if that is another lock. In most cells it is not.
    pub other: Option<String>,
}

impl std::fmt::Display for Best {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.lock)?;
        self.other.iter().try_for_each(|other| write!(f, ", {other}"))
    }
}

/// What either half of the rounds picks of these locks: that with the largest median.
#[derive(Clone, Copy)]
struct Picked<'a>([Option<&'a Runs>; 2]);

impl<'a> Picked<'a> {
    fn of(locks: &[&'a Runs]) -> Self {
        let throughput = |runs: &Runs, half| runs.median(half, |round| round.throughput);
        let pick = |half| {
            let numbers = locks.iter().filter_map(|runs| Some((*runs, throughput(runs, half)?)));
            numbers.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(runs, _)| runs)
        };
        Self(Half::ALL.map(pick))
    }

    fn names(self) -> Option<Best> {
        let mut names = self.0.into_iter().flatten().map(|runs| runs.lock.clone());
        let lock = names.next()?;
        Some(Best { other: names.find(|other| *other != lock), lock })
    }

    /// By what factor a number of the subject is larger than that of the picked lock in the same round, where each
    /// half measures what the other one has picked.
    fn next_to(self, subject: &Runs, of: impl Fn(&Round) -> Option<f64>) -> Option<Difference> {
        let pair = |(place, own): (usize, Round)| {
            let [odd, even] = self.0;
            let picked = if Half::of(place) == Half::Odd { even } else { odd };
            let best = picked?.rounds.get(place).copied().flatten()?;
            Some((of(&own)?, of(&best)?))
        };
        Difference::of(&subject.ended().filter_map(pair).collect::<Vec<_>>())
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
    pub best: Result<Best, String>,
    /// The subject's throughput next to the best one's; nothing before the second round.
    pub regret: Option<Difference>,
    /// The best eligible candidate that blocks, and the subject's CPU time for an operation next to that one's.
    pub cpu: Option<(Best, Difference)>,
}

/// Whether a lock's waiters sleep.
fn blocks(lock: &str) -> bool {
    named::read(Role::Mutex, lock).is_ok_and(|named| named.entry.info.waiting != WaitingPolicy::Spin)
}

impl Finding {
    /// What follows from the runs in a cell.
    pub fn of(cell: Cell, subject: Runs, candidates: Vec<Runs>, fairness_factor: f64) -> Self {
        let mut eligible: Vec<&Runs> = candidates.iter().filter(|runs| runs.is_eligible(fairness_factor)).collect();
        let is_sound = subject.failure.is_none();
        let compare = |picked: Picked<'_>, of: &dyn Fn(&Round) -> Option<f64>| {
            is_sound.then(|| picked.next_to(&subject, of)).flatten()
        };
        let picked = Picked::of(&eligible);
        let regret = compare(picked, &|round| Some(round.throughput));
        let best = picked.names().ok_or_else(|| match candidates.iter().all(|runs| runs.ended().next().is_none()) {
            true => "no run has come to its end".to_owned(),
            false => format!("no candidate has a fairness factor of at most {fairness_factor}"),
        });
        eligible.retain(|runs| blocks(&runs.lock));
        let blocking = Picked::of(&eligible);
        let cpu = blocking.names().and_then(|names| Some((names, compare(blocking, &|round| round.cpu_ns_per_op)?)));
        Self { cell, best, regret, cpu, subject, candidates }
    }

    /// Throughput over that of the best eligible lock: 1 is no regret, and 0 is the ratio of a subject that stood
    /// still.
    pub fn ratio(&self) -> Option<f64> {
        let regret = self.regret.as_ref()?;
        regret.ratio().or_else(|| self.stood_still().then_some(0.0))
    }

    /// The 95 % interval of the ratio; it takes six rounds.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let regret = self.regret.as_ref()?;
        regret.ratio_interval().or_else(|| self.stood_still().then_some((0.0, 0.0)))
    }

    /// Whether more rounds would say hardly more: the interval is narrow, or there is no ratio.
    pub fn is_precise(&self) -> bool {
        let Some(ratio) = self.ratio() else { return true };
        let (least, most) = (ratio * (1.0 - PRECISION), ratio * (1.0 + PRECISION));
        self.interval().is_some_and(|(low, high)| least <= low && high <= most)
    }

    /// Whether the subject made no operation at all in a round. No number says how much slower that is, and it must
    /// not go unnoticed because of that.
    pub fn stood_still(&self) -> bool {
        self.subject.ended().any(|(_, round)| round.throughput <= 0.0)
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::regret::cells::Kind;
    use crate::regret::summary::Summary;
    use lockswap_sim::Workload;

    pub(in crate::regret) fn cell(id: &str) -> Cell {
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

    pub(in crate::regret) fn runs(
        lock: &str,
        fairness_factor: f64,
        throughputs: impl IntoIterator<Item = f64>,
    ) -> Runs {
        let round = |throughput| Some(Round { throughput, fairness_factor, cpu_ns_per_op: Some(1e9 / throughput) });
        Runs { lock: lock.to_owned(), rounds: throughputs.into_iter().map(round).collect(), failure: None }
    }

    fn locks(finding: &Finding) -> String {
        finding.best.as_ref().map_or_else(Clone::clone, ToString::to_string)
    }

    /// Ten locks that are all alike, and noise of 5 %: whoever picks and measures in the same rounds finds that the
    /// subject is worse than the best of the others, and it is not. The intervals are as wide as they should be.
    #[test]
    fn picking_in_one_half_and_measuring_in_the_other_has_no_bias() {
        let mut random = fastrand::Rng::with_seed(5);
        let mut noise = || {
            let sum: f64 = (0..12).map(|_| random.f64()).sum();
            1000.0 * (0.05 * (sum - 6.0)).exp()
        };
        let (mut halves, mut same, mut covered) = (Vec::new(), Vec::new(), 0);
        for _ in 0..400 {
            let subject = runs("auto", 0.5, (0..12).map(|_| noise()));
            let candidates: Vec<Runs> =
                (0..10).map(|n| runs(&format!("lock{n}"), 0.5, (0..12).map(|_| noise()))).collect();
            // What one would do without a second half: the best in the rounds that are measured.
            let number = |runs: &&Runs| runs.summary().expect("rounds").throughput;
            let best = candidates.iter().max_by(|a, b| number(a).total_cmp(&number(b))).expect("ten");
            let throughput = |round: &Round| Some(round.throughput);
            same.push(Picked([Some(best); 2]).next_to(&subject, throughput).expect("rounds").shift.value);
            let finding = Finding::of(cell("a"), subject, candidates, 0.8);
            covered += usize::from(finding.interval().is_some_and(|(low, high)| low <= 1.0 && 1.0 <= high));
            halves.push(finding.regret.expect("a ratio").shift.value);
        }
        let mean = |logs: &[f64]| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        let (halves, same) = (mean(&halves), mean(&same));
        // The standard error of the mean is 0.05 * sqrt(2 / 12) / sqrt(400), some 0.001.
        assert!((halves - 1.0).abs() < 0.004, "no bias: {halves}");
        assert!(same < 0.985, "the bias that there would be: {same}");
        assert!((368..=392).contains(&covered), "of 400 intervals of 95 % some 380 contain the ratio: {covered}");
    }

    #[test]
    fn the_best_is_fair_enough_and_has_not_failed() {
        let subject = || runs("futex", 0.9, [50.0; 12]);
        let broken = Runs { failure: Some("signal: 6".into()), ..runs("cna", 0.5, [900.0; 3]) };
        let all =
            || vec![runs("ttas", 0.81, [200.0; 12]), runs("mcs_spin", 0.8, [100.0; 12]), broken.clone(), subject()];
        let finding = Finding::of(cell("a"), subject(), all(), 0.8);
        assert_eq!((locks(&finding).as_str(), finding.ratio().map(|r| (100.0 * r).round())), ("mcs_spin", Some(50.0)));
        assert_eq!(finding.interval().map(|(low, high)| (low < 0.51, high > 0.49)), Some((true, true)));
        assert!(finding.is_precise());
        assert_eq!(finding.problems(), ["a: cna: signal: 6"]);
        assert!(finding.cpu.is_none(), "futex would block, but it is too unfair here: {:?}", finding.cpu);
        let finding = Finding::of(cell("a"), subject(), all(), 1.0);
        assert_eq!(locks(&finding), "ttas");
        let cpu = finding.cpu.map(|(best, difference)| (best.to_string(), difference.ratio()));
        assert_eq!(cpu, Some(("futex".into(), Some(1.0))));
        let finding = Finding::of(cell("a"), subject(), all(), 0.5);
        assert!(
            finding.best.expect_err("nobody").contains("fairness factor of at most 0.5") && finding.regret.is_none()
        );
        let failed = Runs { failure: Some("hangs".into()), ..subject() };
        assert!(Finding::of(cell("a"), failed, all(), 0.8).regret.is_none(), "a lock that fails has no regret");
    }

    /// A lock that is fair in one half of the rounds, and fast in the other, is not both.
    #[test]
    fn the_best_is_fair_where_it_is_measured() {
        let changing = |fair: Half| {
            let round = |place: usize| {
                let is_fair = Half::of(place) == fair;
                let (throughput, fairness_factor) = if is_fair { (200.0, 0.7) } else { (900.0, 1.0) };
                Some(Round { throughput, fairness_factor, cpu_ns_per_op: None })
            };
            Runs { lock: "cna".to_owned(), rounds: (0..12).map(round).collect(), failure: None }
        };
        for fair in Half::ALL {
            let candidates = vec![changing(fair), runs("futex", 0.5, [100.0; 12])];
            let finding = Finding::of(cell("a"), runs("auto", 0.5, [100.0; 12]), candidates, 0.8);
            assert_eq!(locks(&finding), "futex");
        }
        let one = vec![runs("futex", 0.5, [100.0])];
        assert_eq!(locks(&Finding::of(cell("a"), runs("auto", 0.5, [100.0]), one, 0.8)), "futex");
    }

    /// What a candidate does in the rounds that measure it says nothing about whether it is the best.
    #[test]
    fn each_half_measures_what_the_other_has_picked() {
        let in_turn = |even: f64, odd: f64| [even, odd].into_iter().cycle().take(12);
        let candidates = vec![runs("ttas", 0.5, in_turn(10.0, 1.0)), runs("mcs_spin", 0.5, in_turn(1.0, 10.0))];
        let finding = Finding::of(cell("a"), runs("futex", 0.5, in_turn(5.0, 5.0)), candidates, 0.8);
        assert_eq!((locks(&finding).as_str(), finding.ratio().map(f64::round)), ("ttas, mcs_spin", Some(5.0)));
        assert!(finding.cpu.is_none() && Summary::of(&[finding], 0.8).itself.is_none());
        // With three rounds one measures what two have picked, and two what one has.
        let candidates = vec![runs("ttas", 0.5, [10.0, 1.0, 10.0]), runs("mcs_spin", 0.5, [1.0, 20.0, 1.0])];
        let finding = Finding::of(cell("a"), runs("futex", 0.5, [5.0; 3]), candidates, 0.8);
        assert_eq!((locks(&finding).as_str(), finding.ratio().map(f64::round)), ("ttas, mcs_spin", Some(5.0)));
        assert!(!finding.is_precise(), "three rounds give no interval");
        let few = Finding::of(cell("a"), runs("futex", 0.5, [1.0]), vec![runs("ttas", 0.5, [1.0])], 0.8);
        assert!(few.best.is_ok() && few.regret.is_none(), "one round picks, and none measures");
        let wide =
            Finding::of(cell("a"), runs("futex", 0.5, in_turn(3.0, 5.0)), vec![runs("ttas", 0.5, [4.0; 12])], 0.8);
        assert!(!wide.is_precise(), "{:?}", wide.interval());
        let still =
            Finding::of(cell("a"), runs("futex", 0.5, in_turn(5.0, 0.0)), vec![runs("ttas", 0.5, [1.0; 12])], 0.8);
        assert_eq!((still.ratio(), still.interval()), (Some(0.0), Some((0.0, 0.0))), "it is the worst, not left out");
        assert_eq!(Summary::of(&[still], 0.8).mean, Some(0.0));
        let none = Finding::of(cell("a"), runs("futex", 0.5, []), vec![runs("ttas", 0.5, [])], 0.8);
        assert!(none.best.expect_err("nobody").contains("no run"));
    }
}
