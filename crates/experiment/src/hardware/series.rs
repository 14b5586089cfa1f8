//! A series of measurements: locks and parameters, round by round, and the locks of a round next to each other.
//!
//! A round measures everything once. Its order is drawn from the seed: that of the settings, and within each setting
//! that of the locks, so that a lock and its baseline are near each other in time and neither is always the first.
//! What follows from the rounds is decided as `lockswap compare` decides it: `docs/statistics.md`.

use super::child::Environment;
use super::job::{Job, Work};
use lockswap_locks::registry::Role;
use lockswap_study::descriptive;
use lockswap_study::runner::Interrupt;
use lockswap_study::stats::{self, Difference};
use lockswap_study::summary::{self, Judgement, Row};
use lockswap_workloads::hardware::Seat;
use serde::de::DeserializeOwned;
use std::ops::Range;
use std::path::Path;

/// A ratio nearer to 1 is not worth naming.
pub const SMALLEST_EFFECT: f64 = 0.01;

/// Glibc's locks with the library loaded: not a choice but the price of loading, hence no comparison of its own.
const INTERPOSED: &str = lockswap_study::model::INTERPOSED;

/// One measurement of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The lock.
    pub lock: String,
    /// What else tells it from the others of its group, in words; mostly nothing.
    pub variant: String,
    /// What the lock replaces.
    pub role: Role,
    /// What the measuring process does.
    pub work: Work,
    /// Variables of the measuring process besides those that choose the lock.
    pub variables: Environment,
}

impl Point {
    /// A lock that does some work.
    pub fn new(lock: &str, role: Role, work: Work) -> Self {
        Self { lock: lock.to_owned(), variant: String::new(), role, work, variables: Vec::new() }
    }

    /// The lock, and what else tells it from others.
    pub fn name(&self) -> String {
        match self.variant.as_str() {
            "" => self.lock.clone(),
            variant => format!("{}, {variant}", self.lock),
        }
    }
}

/// What the runs of a point gave.
#[derive(Clone, Debug)]
pub struct Measured<T> {
    /// What was measured.
    pub point: Point,
    /// Round by round.
    pub rounds: Vec<T>,
    /// Why the run after these rounds gave nothing. A lock is not measured again then: a measurement checks its own
    /// result, and one that hangs takes long to tell.
    pub failure: Option<String>,
    /// What the rounds say, for each [`Measure`]; empty before [`Series::judge`], and where nothing is compared.
    pub rows: Vec<Row>,
    environment: Environment,
}

impl<T> Measured<T> {
    /// What these rounds gave, as if they had been measured.
    pub fn of(point: Point, rounds: Vec<T>) -> Self {
        Self { point, rounds, failure: None, rows: Vec::new(), environment: Environment::new() }
    }

    /// The same with a failure.
    pub fn failed(self, why: &str) -> Self {
        Self { failure: Some(why.to_owned()), ..self }
    }

    /// What went wrong, with the number of rounds before it.
    pub fn problem(&self) -> Option<String> {
        let count = self.rounds.len();
        let rounds = if count == 1 { "round" } else { "rounds" };
        Some(format!("{} failed after {count} {rounds}: {}", self.point.name(), self.failure.as_ref()?))
    }
}

/// Measurements that belong together; the first is the baseline of the others.
#[derive(Clone, Debug)]
pub struct Group<T> {
    /// What tells it from other groups, keys with values.
    pub setting: Vec<(String, String)>,
    /// In the order of the table.
    pub measured: Vec<Measured<T>>,
    /// Whether its measurements are compared. Some are there for their own numbers only.
    pub is_compared: bool,
}

impl<T> Group<T> {
    /// Measurements that are to be made.
    pub fn of(points: impl IntoIterator<Item = Point>) -> Self {
        let measured = points.into_iter().map(|point| Measured::of(point, Vec::new())).collect();
        Self { setting: Vec::new(), measured, is_compared: true }
    }

    /// The same, not compared.
    pub fn alone(self) -> Self {
        Self { is_compared: false, ..self }
    }
}

/// Reads a number off a round, where there is one.
pub type Number<T> = Box<dyn Fn(&T) -> Option<f64>>;

/// A number of a round that tells good locks from bad ones.
pub struct Measure<T> {
    /// Its name.
    pub name: &'static str,
    /// The number of a round, where there is one.
    pub number: Number<T>,
    /// Whether less is better; a ratio is the baseline's number divided by the lock's then, so that above 1 is better
    /// always.
    pub lower_is_better: bool,
}

impl<T> Measure<T> {
    /// A number of which more is better.
    pub fn new(name: &'static str, number: impl Fn(&T) -> Option<f64> + 'static) -> Self {
        Self { name, number: Box::new(number), lower_is_better: false }
    }

    /// The same with less as better.
    pub fn lower_is_better(self) -> Self {
        Self { lower_is_better: true, ..self }
    }

    fn of(&self, own: &Measured<T>, base: &Measured<T>) -> Option<Difference> {
        let pairs = own.rounds.iter().zip(&base.rounds);
        let pairs = pairs.filter_map(|(own, base)| Some(((self.number)(own)?, (self.number)(base)?)));
        let better = |(own, base)| if self.lower_is_better { (base, own) } else { (own, base) };
        Difference::of(&pairs.map(better).collect::<Vec<_>>())
    }
}

/// A series and its results so far.
#[derive(Clone, Debug)]
pub struct Series<T> {
    /// What is measured, setting by setting.
    pub groups: Vec<Group<T>>,
    /// What the order follows, and the threads' random numbers in the first round; the next rounds have the next
    /// numbers.
    pub seed: u64,
    /// Where threads are pinned; nowhere if empty.
    pub seats: Vec<Seat>,
    /// The signal that ended it early.
    pub signal: Option<i32>,
}

impl<T> Series<T> {
    /// Nothing is measured yet.
    pub fn new(groups: Vec<Group<T>>, seed: u64, seats: Vec<Seat>) -> Self {
        Self { groups, seed, seats, signal: None }
    }

    /// All measurements.
    pub fn measured(&self) -> impl Iterator<Item = &Measured<T>> {
        self.groups.iter().flat_map(|group| &group.measured)
    }

    /// The groups that are compared.
    pub fn compared(&self) -> impl Iterator<Item = &Group<T>> {
        self.groups.iter().filter(|group| group.is_compared)
    }

    /// The fewest and the most rounds that a measurement has which did not fail.
    pub fn rounds(&self) -> (usize, usize) {
        let sound = || self.measured().filter(|measured| measured.failure.is_none());
        let rounds = || sound().map(|measured| measured.rounds.len());
        (rounds().min().unwrap_or_default(), rounds().max().unwrap_or_default())
    }

    /// What failed, a line each.
    pub fn problems(&self) -> Vec<String> {
        self.measured().filter_map(Measured::problem).collect()
    }

    /// Adds what changes the environment of every measurement, which `environment` gives.
    ///
    /// # Errors
    /// Those of `environment`.
    pub fn settle<E>(&mut self, mut environment: impl FnMut(&Point) -> Result<Environment, E>) -> Result<(), E> {
        for measured in self.groups.iter_mut().flat_map(|group| &mut group.measured) {
            measured.environment = environment(&measured.point)?;
            measured.environment.extend(measured.point.variables.iter().cloned());
        }
        Ok(())
    }

    /// How many comparisons so many measures make: each lock with its baseline.
    pub fn comparisons(&self, measures: usize) -> usize {
        let others = self.compared().flat_map(|group| group.measured.iter().skip(1));
        measures * others.filter(|measured| measured.point.lock != INTERPOSED).count()
    }

    /// Says what the rounds so far mean: each lock's ratio to the first of its group, and a verdict that the p value
    /// allows after Holm's correction for everything that the series compares.
    pub fn judge(&mut self, measures: &[Measure<T>]) {
        let mut p_values: Vec<(usize, usize, usize, Difference)> = Vec::new();
        let mut prices: Vec<(usize, usize, usize, Difference)> = Vec::new();
        for (g, group) in self.groups.iter_mut().enumerate().filter(|(_, group)| group.is_compared) {
            let rows: Vec<Vec<Row>> = group
                .measured
                .iter()
                .map(|own| measures.iter().map(|m| row(own, &group.setting, m)).collect())
                .collect();
            group.measured.iter_mut().zip(rows).for_each(|(own, rows)| own.rows = rows);
            let Some(base) = group.measured.first() else { continue };
            for (n, own) in group.measured.iter().enumerate().skip(1) {
                let list = if own.point.lock == INTERPOSED { &mut prices } else { &mut p_values };
                let found =
                    measures.iter().enumerate().filter_map(|(m, measure)| Some((g, n, m, measure.of(own, base)?)));
                list.extend(found);
            }
            let base = group.measured.first_mut().into_iter().flat_map(|base| &mut base.rows);
            base.filter(|row| row.judgement != Judgement::Failed).for_each(|row| {
                (row.judgement, row.verdict) = (Judgement::Baseline, "the baseline".to_owned());
            });
        }
        let corrected = stats::holm(&p_values.iter().map(|(.., difference)| difference.p).collect::<Vec<_>>());
        p_values.iter_mut().zip(corrected).for_each(|((.., difference), p)| difference.p = p);
        let compared = p_values.len();
        let all = p_values.into_iter().map(|found| (found, compared)).chain(prices.into_iter().map(|found| (found, 1)));
        for ((g, n, m, difference), compared) in all {
            decide(&mut self.groups[g].measured[n].rows[m], &difference, compared);
        }
    }

    /// The measurements of these groups in the order in which a round makes them: groups, and numbers within them.
    fn order(&self, groups: &[usize], random: &mut fastrand::Rng) -> Vec<(usize, usize)> {
        let mut groups = groups.to_vec();
        random.shuffle(&mut groups);
        let mut order = Vec::new();
        for group in groups {
            let mut numbers: Vec<usize> = (0..self.groups[group].measured.len()).collect();
            random.shuffle(&mut numbers);
            order.extend(numbers.into_iter().map(|number| (group, number)));
        }
        order
    }
}

impl<T: DeserializeOwned> Series<T> {
    /// Measures these groups in these rounds, in children of `program`. What one measurement cannot do is noted, the
    /// others go on. `begin` is told what begins, `done` what there is afterwards.
    pub fn run(
        &mut self,
        program: &Path,
        (groups, rounds): (&[usize], Range<u32>),
        interrupt: &Interrupt,
        mut begin: impl FnMut(&Point),
        mut done: impl FnMut(&mut Self),
    ) {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(u64::from(rounds.start)));
        for round in rounds {
            for (group, number) in self.order(groups, &mut random) {
                let measured = &mut self.groups[group].measured[number];
                if measured.failure.is_none() {
                    begin(&measured.point);
                    let seed = self.seed.wrapping_add(u64::from(round));
                    let job = Job { work: measured.point.work.clone(), seats: self.seats.clone(), seed };
                    let found = job.run(program, &measured.environment);
                    self.signal = interrupt.signal();
                    match found {
                        Ok(found) => measured.rounds.push(found),
                        // A terminal interrupts the measuring process, too, which is no failure of the lock's.
                        Err(_) if self.signal.is_some() => {}
                        Err(failure) => measured.failure = Some(failure.to_string()),
                    }
                }
                done(self);
                if self.signal.is_some() {
                    return;
                }
            }
        }
    }
}

/// The numbers of a row, without a verdict.
fn row<T>(own: &Measured<T>, setting: &[(String, String)], measure: &Measure<T>) -> Row {
    let numbers: Vec<f64> = own.rounds.iter().filter_map(&*measure.number).collect();
    let problems: Vec<String> = own.problem().into_iter().collect();
    let (judgement, verdict) = match own.rounds.len() {
        _ if problems.is_empty() => {
            (Judgement::TooFew, if numbers.is_empty() { "no runs" } else { "no ratio" }.to_owned())
        }
        1 => (Judgement::Failed, "failed after 1 run".to_owned()),
        runs => (Judgement::Failed, format!("failed after {runs} runs")),
    };
    Row {
        lock: own.point.name(),
        setting: setting.to_vec(),
        good_runs: numbers.len(),
        median: descriptive::median(&numbers),
        spread: descriptive::median_absolute_deviation(&numbers),
        cpu_s: None,
        switches: None,
        calls_ours: None,
        calls_glibc: None,
        ratio: None,
        ratio_low: None,
        ratio_high: None,
        p: None,
        problems,
        judgement,
        verdict,
    }
}

/// Adds a ratio to a row, and a verdict unless the lock failed.
fn decide(row: &mut Row, difference: &Difference, compared: usize) {
    row.ratio = difference.ratio();
    (row.ratio_low, row.ratio_high) = difference.ratio_interval().unzip();
    row.p = Some(difference.p);
    if row.judgement != Judgement::Failed {
        let finding = difference.finding(compared, SMALLEST_EFFECT);
        (row.judgement, row.verdict) = summary::verdict(difference, finding, SMALLEST_EFFECT, ["faster", "slower"], "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn measured(lock: &str, rounds: &[f64]) -> Measured<f64> {
        let work = Work::Price { directly: None };
        Measured::of(Point::new(lock, Role::Mutex, work), rounds.to_vec())
    }

    fn series(groups: Vec<Vec<Measured<f64>>>) -> Series<f64> {
        let group = |measured| Group { setting: Vec::new(), measured, is_compared: true };
        Series::new(groups.into_iter().map(group).collect(), 1, Vec::new())
    }

    fn verdicts(series: &Series<f64>) -> Vec<(Judgement, &str)> {
        series.measured().map(|measured| (measured.rows[0].judgement, measured.rows[0].verdict.as_str())).collect()
    }

    /// The machine is twice as slow in each round: the ratios of the rounds do not change.
    #[test]
    fn ratios_are_those_of_one_round() {
        let drift = |factor: f64, n: usize| (0..n).map(|round| factor * 2f64.powi(round as i32)).collect::<Vec<_>>();
        let own = measured("ttas", &drift(5.0, 6));
        let mut times = series(vec![vec![measured("pthread", &drift(10.0, 6)), own.clone()]]);
        times.judge(&[Measure::new("time", |n: &f64| Some(*n)).lower_is_better()]);
        let row = &times.groups[0].measured[1].rows[0];
        assert!((row.ratio.unwrap() - 2.0).abs() < 1e-9, "times as fast: above 1 is better, {row:?}");
        assert_eq!(verdicts(&times), [(Judgement::Baseline, "the baseline"), (Judgement::Better, "2.0x faster")]);
        let mut rates = series(vec![vec![measured("pthread", &drift(10.0, 6)), own]]);
        rates.judge(&[Measure::new("throughput", |n: &f64| Some(*n))]);
        assert_eq!(verdicts(&rates)[1], (Judgement::Worse, "2.0x slower"));
    }

    #[test]
    fn more_locks_take_more_rounds_and_the_price_of_loading_is_no_choice() {
        let base = || measured("pthread", &[1.0; 6]);
        let mut all = series(vec![
            vec![base(), measured(INTERPOSED, &[0.5; 6]), measured("a", &[2.0; 6]), measured("b", &[1.0; 6])],
            vec![base(), measured("a", &[3.0; 6])],
        ]);
        assert_eq!((all.comparisons(1), all.comparisons(2)), (3, 6));
        all.judge(&[Measure::new("throughput", |n: &f64| Some(*n))]);
        let few = (Judgement::TooFew, "too few runs (at least 7)");
        let base = (Judgement::Baseline, "the baseline");
        assert_eq!(verdicts(&all), [base, (Judgement::Worse, "2.0x slower"), few, few, base, few]);
        // One p value of 2 / 2^6, multiplied by three.
        let p = all.groups[0].measured[2].rows[0].p.unwrap();
        assert!((p - 3.0 / 32.0).abs() < 1e-12, "{p}");
    }

    #[test]
    fn what_failed_is_shown_and_gets_no_verdict() {
        let broken = measured("cna", &[2.0; 3]).failed("signal: 6");
        let never = measured("ttas", &[]).failed("hangs");
        let mut all = series(vec![vec![measured("pthread", &[1.0; 6]), broken, never]]);
        all.judge(&[Measure::new("throughput", |n: &f64| Some(*n))]);
        let shown = verdicts(&all);
        assert_eq!(
            shown[1..],
            [(Judgement::Failed, "failed after 3 runs"), (Judgement::Failed, "failed after 0 runs")]
        );
        assert_eq!(all.problems(), ["cna failed after 3 rounds: signal: 6", "ttas failed after 0 rounds: hangs"]);
        assert!(all.groups[0].measured[1].rows[0].ratio.is_some_and(|ratio| (ratio - 2.0).abs() < 1e-9));
    }

    #[test]
    fn each_round_measures_all_in_an_order_of_its_own_that_the_seed_decides() {
        let three = || vec![measured("a", &[]), measured("b", &[]), measured("c", &[])];
        let all = series(vec![three(), three()]);
        let orders = |seed| {
            let mut random = fastrand::Rng::with_seed(seed);
            (0..50).map(|_| all.order(&[0, 1], &mut random)).collect::<Vec<_>>()
        };
        for order in orders(1) {
            assert_eq!(order.iter().collect::<HashSet<_>>().len(), 6);
            assert!(
                order[..3].iter().all(|(group, _)| *group == order[0].0),
                "locks of a setting stay together: {order:?}"
            );
        }
        assert_eq!(orders(1), orders(1));
        assert!(orders(1).iter().collect::<HashSet<_>>().len() > 20);
        let first = |number| orders(1).iter().any(|order| order[0].1 == number);
        assert!((0..3).all(first), "each lock is the first one now and then");
    }
}
