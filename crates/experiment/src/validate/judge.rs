//! Compares the simulated order of locks with the measured one.
//!
//! Only *relative* throughput counts: that of a lock divided by the geometric mean over all locks of the same workload
//! and number of threads; on hardware, its median over the rounds divided by the mean of those medians. What the
//! rounds leave open is the interval of the median: the order statistics between which the true one lies with 93 %
//! certainty or more, whatever the distribution. A simulated value within it is no disagreement. The ratio of a lock
//! is its simulated relative throughput divided by its measured one; 1 is agreement. Over the locks of a group the
//! geometric mean of the ratios is 1 by construction: what tells is how far they spread.

use lockswap_study::descriptive::Quartiles;

/// What one lock did with one workload and so many threads.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The lock's id.
    pub lock: String,
    /// Operations per second, round by round.
    pub measured: Vec<f64>,
    /// Operations per second, simulated.
    pub simulated: f64,
    /// Share of the busier half of the threads, measured (the median) and simulated.
    pub fairness: [f64; 2],
}

/// A lock among others.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The lock's id.
    pub lock: String,
    /// Operations per second, the median.
    pub measured: f64,
    /// Operations per second, simulated.
    pub simulated: f64,
    /// Relative to the geometric mean of the locks.
    pub measured_relative: f64,
    /// The interval of that median.
    pub measured_range: [f64; 2],
    /// The simulated one, relative.
    pub simulated_relative: f64,
    /// Share of the busier half of the threads, measured and simulated.
    pub fairness: [f64; 2],
}

impl Verdict {
    /// Simulated to measured, relative throughput.
    pub fn ratio(&self) -> f64 {
        self.simulated_relative / self.measured_relative
    }

    /// Simulated to measured throughput as they are: what the relative ones hide if all locks are off alike.
    pub fn absolute(&self) -> f64 {
        self.simulated / self.measured
    }

    /// How far the ratio is from 1, either way.
    pub fn factor(&self) -> f64 {
        self.ratio().max(1.0 / self.ratio())
    }

    /// Whether the simulated value is one that the hardware may have, too: then nothing disagrees.
    pub fn is_within_noise(&self) -> bool {
        (self.measured_range[0]..=self.measured_range[1]).contains(&self.simulated_relative)
    }
}

/// The locks of one workload and number of threads.
#[derive(Clone, Debug)]
pub struct Group {
    /// Lock by lock.
    pub locks: Vec<Verdict>,
    /// Geometric means of all locks, operations per second.
    pub measured: f64,
    /// The simulated one.
    pub simulated: f64,
}

/// The geometric mean of positive numbers; 1 of none.
pub(crate) fn geometric_mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) =
        values.fold((0.0, 0u32), |(sum, count), value| (sum + value.max(f64::MIN_POSITIVE).ln(), count + 1));
    (sum / f64::from(count.max(1))).exp()
}

fn median(values: &[f64]) -> f64 {
    lockswap_study::descriptive::median(values).unwrap_or_default()
}

/// Certainty with which the median lies in its interval; 5 values reach it.
const CERTAINTY: f64 = 0.93;

/// The interval of the median of these values: the narrowest pair of order statistics that are equally far from the
/// ends and certain enough; the lowest and highest value where even those are not.
fn interval(values: &[f64]) -> [f64; 2] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    let (Some(mut low), Some(mut high)) = (sorted.first().copied(), sorted.last().copied()) else { return [0.0; 2] };
    // Of `count` values, each below the true median by a coin's toss: the chance that at most `cut` are.
    let (mut exactly, mut tail) = (0.5f64.powi(count as i32), 0.0);
    for cut in 0..count / 2 {
        tail += exactly;
        exactly *= (count - cut) as f64 / (cut + 1) as f64;
        if 1.0 - 2.0 * tail < CERTAINTY {
            break;
        }
        (low, high) = (sorted[cut], sorted[count - 1 - cut]);
    }
    [low, high]
}

impl Group {
    /// `None` where there are fewer than two locks to compare, or one of them did nothing.
    pub fn of(samples: &[Sample]) -> Option<Self> {
        if samples.len() < 2 || samples.iter().any(|sample| median(&sample.measured) <= 0.0 || sample.simulated <= 0.0)
        {
            return None;
        }
        let measured = geometric_mean(samples.iter().map(|sample| median(&sample.measured)));
        let simulated = geometric_mean(samples.iter().map(|sample| sample.simulated));
        let verdict = |sample: &Sample| Verdict {
            lock: sample.lock.clone(),
            measured: median(&sample.measured),
            simulated: sample.simulated,
            measured_relative: median(&sample.measured) / measured,
            measured_range: interval(&sample.measured).map(|end| end / measured),
            simulated_relative: sample.simulated / simulated,
            fairness: sample.fairness,
        };
        Some(Group { locks: samples.iter().map(verdict).collect(), measured, simulated })
    }

    /// How far absolute throughputs spread.
    pub fn absolute(&self) -> Option<Spread> {
        Spread::of(&self.locks.iter().map(Verdict::absolute).collect::<Vec<_>>())
    }

    /// Kendall's tau-a of the two orders: 1 if they are the same, 0 if they have nothing to do with each other, -1 if
    /// one is the other backwards.
    pub fn tau(&self) -> f64 {
        let mut sum = 0.0;
        let mut pairs = 0.0;
        for (one, other) in pairs_of(&self.locks) {
            let sign = |a: f64, b: f64| if a == b { 0.0 } else { (a - b).signum() };
            sum += sign(one.measured_relative, other.measured_relative)
                * sign(one.simulated_relative, other.simulated_relative);
            pairs += 1.0;
        }
        sum / f64::max(pairs, 1.0)
    }

    /// Of the pairs of locks of which the hardware says which one is faster (their intervals are apart): how many the
    /// simulation puts in the same order, and how many there are.
    pub fn decided(&self) -> (usize, usize) {
        let decided = pairs_of(&self.locks).filter_map(|(one, other)| {
            let above = |a: &Verdict, b: &Verdict| a.measured_range[0] > b.measured_range[1];
            match (above(one, other), above(other, one)) {
                (true, _) => Some(one.simulated_relative > other.simulated_relative),
                (_, true) => Some(other.simulated_relative > one.simulated_relative),
                _ => None,
            }
        });
        decided.fold((0, 0), |(same, all), agrees| (same + usize::from(agrees), all + 1))
    }
}

fn pairs_of(locks: &[Verdict]) -> impl Iterator<Item = (&Verdict, &Verdict)> {
    locks.iter().enumerate().flat_map(|(number, one)| locks[..number].iter().map(move |other| (one, other)))
}

/// How far ratios spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many ratios.
    pub count: usize,
    /// Their median and quartiles.
    pub quartiles: Quartiles,
    /// Between them lie 95 % of the ratios.
    pub range: [f64; 2],
    /// Shares of those within a factor of 1.1, 1.25 and 2, either way.
    pub within: [f64; 3],
}

/// Factors of [`Spread::within`].
pub const FACTORS: [f64; 3] = [1.1, 1.25, 2.0];

impl Spread {
    /// `None` for no ratios.
    pub fn of(ratios: &[f64]) -> Option<Self> {
        let quartiles = Quartiles::of(ratios.to_vec())?;
        let mut sorted = ratios.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64).round() as usize];
        let share = |factor: f64| {
            let within = sorted.iter().filter(|ratio| (1.0 / factor..=factor).contains(*ratio)).count();
            within as f64 / sorted.len() as f64
        };
        Some(Spread { count: sorted.len(), quartiles, range: [at(0.025), at(0.975)], within: FACTORS.map(share) })
    }
}

/// Several groups in a few numbers.
#[derive(Clone, Copy, Debug)]
pub struct Summary {
    /// How far the ratios of all locks spread.
    pub spread: Spread,
    /// Share of the locks whose simulated value the hardware may have, too.
    pub within_noise: f64,
    /// The mean of the groups' [`Group::tau`].
    pub tau: f64,
    /// The sums of the groups' [`Group::decided`].
    pub decided: (usize, usize),
}

impl Summary {
    /// `None` for no groups.
    pub fn of(groups: &[&Group]) -> Option<Self> {
        let all: Vec<&Verdict> = groups.iter().flat_map(|group| &group.locks).collect();
        let spread = Spread::of(&all.iter().map(|lock| lock.ratio()).collect::<Vec<_>>())?;
        let noise = all.iter().filter(|lock| lock.is_within_noise()).count();
        let decided = groups.iter().map(|group| group.decided());
        Some(Self {
            spread,
            within_noise: noise as f64 / all.len() as f64,
            tau: groups.iter().map(|group| group.tau()).sum::<f64>() / groups.len() as f64,
            decided: decided.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(lock: &str, measured: &[f64], simulated: f64) -> Sample {
        Sample { lock: lock.into(), measured: measured.into(), simulated, fairness: [0.5; 2] }
    }

    #[test]
    fn a_simulation_that_is_twice_as_fast_for_all_agrees() {
        let samples = [sample("a", &[1.0, 1.1], 2.0), sample("b", &[4.0, 4.4], 8.0), sample("c", &[16.0, 17.6], 32.0)];
        let group = Group::of(&samples).unwrap();
        assert!(group.locks.iter().all(|lock| (lock.ratio() - 1.0).abs() < 1e-9), "{group:?}");
        assert_eq!((group.tau(), group.decided()), (1.0, (3, 3)));
        assert!((group.simulated / group.measured - 2.0 / 1.05).abs() < 1e-9);
        let absolute = group.absolute().unwrap();
        assert!((absolute.quartiles.median - 2.0 / 1.05).abs() < 1e-9, "which the absolute ones show: {absolute:?}");
        assert_eq!(absolute.within, [0.0, 0.0, 1.0]);
    }

    #[test]
    fn what_disagrees_shows_and_noise_decides_nothing() {
        // The hardware does not tell a from b; c is slower than both, the simulation says faster.
        let samples = [sample("a", &[4.0, 5.0], 4.0), sample("b", &[5.0, 4.0], 5.0), sample("c", &[1.0, 1.0], 9.0)];
        let group = Group::of(&samples).unwrap();
        assert_eq!(group.decided(), (0, 2));
        assert!(group.tau() < 0.0);
        let c = &group.locks[2];
        assert!(c.ratio() > 2.0 && !c.is_within_noise(), "{c:?}");
        let product: f64 = group.locks.iter().map(|lock| lock.simulated_relative).product();
        assert!((product - 1.0).abs() < 1e-9);
    }

    #[test]
    fn more_rounds_tell_more() {
        let values = |count: u32| (0..count).map(f64::from).collect::<Vec<_>>();
        for (count, expected) in [(1, [0.0, 0.0]), (3, [0.0, 2.0]), (5, [0.0, 4.0]), (7, [0.0, 6.0]), (9, [1.0, 7.0])] {
            assert_eq!(interval(&values(count)), expected, "{count}");
        }
        // Student's tables: 25 values, 95 %: the 8th and the 18th.
        assert_eq!(interval(&values(25)), [7.0, 17.0]);
    }

    #[test]
    fn nothing_is_compared_with_itself() {
        assert!(Group::of(&[sample("a", &[1.0], 1.0)]).is_none());
        assert!(Group::of(&[sample("a", &[], 1.0), sample("b", &[], 1.0)]).is_none());
        assert!(Group::of(&[sample("a", &[1.0], 1.0), sample("b", &[0.0, 0.0, 9.0], 1.0)]).is_none());
        assert_eq!(Spread::of(&[]), None);
    }

    #[test]
    fn spreads() {
        let spread = Spread::of(&[0.5, 0.9, 1.0, 1.2, 4.0]).unwrap();
        assert_eq!((spread.quartiles.median, spread.range, spread.count), (1.0, [0.5, 4.0], 5));
        assert_eq!(spread.within, [0.2, 0.6, 0.8]);
    }
}
