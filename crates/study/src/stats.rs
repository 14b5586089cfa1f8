//! The one statistic of lockswap: paired rounds and Wilcoxon's signed-rank test. `docs/statistics.md` says why.
//!
//! A round runs every lock once, in an order drawn from the seed. What counts is the difference that a round sees
//! between two locks: whatever drifts over minutes falls on both. Under the hypothesis that two locks do not differ,
//! each round could as well have seen the opposite difference; the test counts in how many of all 2^n outcomes the
//! differences lie as far to one side as they did. That needs no model of the noise.

/// Chance of a wrong verdict in a whole comparison of equal locks.
pub const ERROR_RATE: f64 = 0.05;

/// An interval this wide that holds 1 is called unclear rather than no difference.
const WIDE: f64 = 1.25;

/// Up to so many rounds distributions are counted out; above, the normal approximation is exact to three digits.
const EXACT: usize = 60;

/// The normal distribution's quantile that leaves 2.5 % above it.
pub(crate) const Z_95: f64 = 1.959_963_984_540_054;

/// By how much one lock differs from another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    /// The estimate (Hodges and Lehmann): the median of the means of all pairs of differences.
    pub value: f64,
    /// The ends of the 95 % confidence interval; nothing where there are fewer than 6 rounds, which cannot give one.
    pub interval: Option<(f64, f64)>,
    /// Wilcoxon's two-sided p value: the chance that equal locks give differences as one-sided as these.
    pub p: f64,
}

/// What the differences of all rounds say; nothing where there are none, or one is not a finite number.
pub fn shift(differences: &[f64]) -> Option<Shift> {
    if differences.is_empty() || differences.iter().any(|d| !d.is_finite()) {
        return None;
    }
    let mut sorted = differences.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let means = sorted.len() as u64 * (sorted.len() as u64 + 1) / 2;
    let lower = pair_mean(&sorted, means.div_ceil(2));
    let upper = pair_mean(&sorted, means / 2 + 1);
    let interval = outside(sorted.len()).map(|k| (pair_mean(&sorted, k), pair_mean(&sorted, means + 1 - k)));
    Some(Shift { value: lower + (upper - lower) / 2.0, interval, p: signed_rank(&sorted) })
}

/// The `k`-th smallest, from 1, of the means of all pairs of values, each value paired with itself, too.
///
/// Their number grows with the square of the values' and none is stored: one walk along the sorted values tells how
/// many are at most x, and halving the range of x finds the one.
fn pair_mean(sorted: &[f64], k: u64) -> f64 {
    let mean = |a: f64, b: f64| a + (b - a) / 2.0;
    // How many means are at most x, and the largest of them.
    let at_most = |x: f64| {
        let (mut count, mut largest, mut end) = (0, f64::NEG_INFINITY, sorted.len());
        for (begin, value) in sorted.iter().enumerate() {
            while end > begin && mean(*value, sorted[end - 1]) > x {
                end -= 1;
            }
            if end == begin {
                break;
            }
            count += (end - begin) as u64;
            largest = f64::max(largest, mean(*value, sorted[end - 1]));
        }
        (count, largest)
    };
    let (mut low, mut high) = (sorted[0], sorted[sorted.len() - 1]);
    if at_most(low).0 >= k {
        return low;
    }
    let close_enough = 1e-13 * low.abs().max(high.abs());
    while high - low > close_enough {
        let middle = mean(low, high);
        if middle <= low || middle >= high {
            break;
        }
        match at_most(middle) {
            (count, largest) if count >= k => high = largest,
            _ => low = middle,
        }
    }
    at_most(high).1
}

/// The rank, from 1, of the pair mean that is the lower end of the 95 % interval of so many values.
fn outside(values: usize) -> Option<u64> {
    if values > EXACT {
        let n = values as f64;
        let spread = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        return Some((n * (n + 1.0) / 4.0 - Z_95 * spread).floor().max(1.0) as u64);
    }
    let ranks: Vec<usize> = (1..=values).collect();
    let mut below = 0.0;
    let within = distribution(&ranks).into_iter().take_while(|share| {
        below += share;
        below <= ERROR_RATE / 2.0
    });
    Some(within.count() as u64).filter(|count| *count > 0)
}

/// Chances of all sums of a choice of `weights` in which each is taken with the chance 1/2, by sum.
fn distribution(weights: &[usize]) -> Vec<f64> {
    let mut chances = vec![0.0; weights.iter().sum::<usize>() + 1];
    chances[0] = 1.0;
    let mut most = 0;
    for weight in weights {
        most += weight;
        for sum in (0..=most).rev() {
            let with = if sum >= *weight { chances[sum - weight] } else { 0.0 };
            chances[sum] = (chances[sum] + with) / 2.0;
        }
    }
    chances
}

/// Wilcoxon's signed-rank test, two-sided. Differences of nothing say nothing and are left out; equal ones share their
/// ranks, and the distribution is that of these ranks.
fn signed_rank(differences: &[f64]) -> f64 {
    let mut differences: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    differences.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    // Twice the ranks, so that shared ones are whole numbers: first + last.
    let mut ranks = Vec::with_capacity(differences.len());
    // Logarithms of a ratio and of its inverse differ in their last digits, always in the same direction.
    for tied in differences.chunk_by(|a, b| b.abs() - a.abs() <= 1e-9 * b.abs()) {
        let first = ranks.len() + 1;
        ranks.extend(std::iter::repeat_n(2 * first + tied.len() - 1, tied.len()));
    }
    let positive: usize = ranks.iter().zip(&differences).filter(|(_, d)| **d > 0.0).map(|(rank, _)| rank).sum();
    let all: usize = ranks.iter().sum();
    let fewer = positive.min(all - positive);
    let one_sided = if ranks.len() <= EXACT {
        distribution(&ranks)[..=fewer].iter().sum::<f64>()
    } else {
        let variance: f64 = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum::<f64>() / 4.0;
        normal_below((fewer as f64 + 1.0 - all as f64 / 2.0) / variance.sqrt())
    };
    (2.0 * one_sided).min(1.0)
}

/// The share of the normal distribution below `z`, for `z` of at most 0.5: Mills' ratio as a continued fraction in the
/// tail, a series in the middle.
fn normal_below(z: f64) -> f64 {
    let z = z.min(0.5);
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z < -2.5 {
        let fraction = (1..=60).rev().fold(-z, |rest, n| -z + f64::from(n) / rest);
        return density / fraction;
    }
    let (mut term, mut sum) = (z, z);
    for n in 1..100 {
        term *= z * z / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 + density * sum
}

/// The p values after Holm's correction, in their order: below 5 % then means that the chance of one wrong verdict or
/// more among all of them is below 5 %.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (position, index) in order.into_iter().enumerate() {
        largest = largest.max(p_values[index] * (p_values.len() - position) as f64).min(1.0);
        corrected[index] = largest;
    }
    corrected
}

/// The fewest rounds in which one of so many comparisons can be certain at all: if all differences lie on one side, p
/// is 2 / 2^n, and Holm multiplies the smallest by their number.
pub fn fewest_rounds(comparisons: usize) -> u32 {
    (1..60).find(|n| 2.0 * 0.5f64.powi(*n) * comparisons.max(1) as f64 <= ERROR_RATE).unwrap_or(60) as u32
}

/// What paired rounds say about a lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difference {
    /// The shift of the logarithms of ratios, or of plain differences; above 0 is better.
    pub shift: Shift,
    /// Whether logarithms of ratios were compared. Where a number is not above 0 a ratio means nothing, and plain
    /// differences are.
    pub is_ratio: bool,
    /// How many rounds have both numbers.
    pub rounds: usize,
    /// The p value, after Holm's correction where [`holm`] has been applied to all that are compared.
    pub p: f64,
}

impl Difference {
    /// What the pairs of a lock's number and the baseline's in the same round say, where more is better; nothing where
    /// there are no pairs, or a number is not finite.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Self> {
        let is_ratio = pairs.iter().all(|(own, base)| *own > 0.0 && *base > 0.0);
        let difference = |(own, base): &(f64, f64)| if is_ratio { (own / base).ln() } else { own - base };
        let shift = shift(&pairs.iter().map(difference).collect::<Vec<_>>())?;
        Some(Self { shift, is_ratio, rounds: pairs.len(), p: shift.p })
    }

    /// How many times better than the baseline it is; nothing where plain differences were compared.
    pub fn ratio(&self) -> Option<f64> {
        Some(self.shift.value.exp()).filter(|_| self.is_ratio)
    }

    /// The ends of the ratio's 95 % interval; nothing below 6 rounds.
    pub fn ratio_interval(&self) -> Option<(f64, f64)> {
        self.shift.interval.map(|(low, high)| (low.exp(), high.exp())).filter(|_| self.is_ratio)
    }

    /// What may be said of it where so many are `compared`, and a ratio nearer to 1 than `smallest_effect` is not
    /// worth naming.
    pub fn finding(&self, compared: usize, smallest_effect: f64) -> Finding {
        let fewest = fewest_rounds(compared);
        if self.rounds < fewest as usize {
            return Finding::TooFew(fewest);
        }
        let (low, high) = self.shift.interval.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
        if low <= 0.0 && 0.0 <= high {
            let is_wide = self.is_ratio && high - low > 2.0 * WIDE.ln();
            return if is_wide { Finding::Wide } else { Finding::NotSeen };
        }
        if self.is_ratio && self.shift.value.abs() < smallest_effect.ln_1p() {
            return Finding::Small;
        }
        match self.p {
            p if p > ERROR_RATE => Finding::NotProven,
            _ if self.shift.value > 0.0 => Finding::Better,
            _ => Finding::Worse,
        }
    }
}

/// What may be said of a [`Difference`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It takes at least so many rounds to say anything.
    TooFew(u32),
    /// The interval holds 1 and is narrow.
    NotSeen,
    /// The interval holds 1 and is wide.
    Wide,
    /// There is a difference, which is not worth naming.
    Small,
    /// The interval does not hold 1, but with all that are compared, chance alone shows such a difference too often.
    NotProven,
    /// It is better.
    Better,
    /// It is worse.
    Worse,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::descriptive::median;

    #[test]
    fn findings_of_known_rounds() {
        let of = |ratios: &[f64]| Difference::of(&ratios.iter().map(|r| (r * 7.0, 7.0)).collect::<Vec<_>>()).unwrap();
        let twice = of(&[2.0; 6]);
        assert!((twice.ratio().unwrap() - 2.0).abs() < 1e-12 && twice.ratio_interval().is_some());
        assert_eq!((twice.finding(1, 0.01), twice.finding(2, 0.01)), (Finding::Better, Finding::TooFew(7)));
        assert_eq!(of(&[0.5; 6]).finding(1, 0.01), Finding::Worse);
        assert_eq!(of(&[1.004; 6]).finding(1, 0.01), Finding::Small);
        assert_eq!(of(&[1.02, 0.99, 1.01, 0.98, 1.0, 1.01]).finding(1, 0.01), Finding::NotSeen);
        assert_eq!(of(&[2.0, 0.5, 1.7, 0.6, 1.3, 0.8]).finding(1, 0.01), Finding::Wide);
        // What Holm's correction makes of the same rounds.
        assert_eq!(Difference { p: 0.06, ..twice }.finding(1, 0.01), Finding::NotProven);
        assert_eq!(of(&[2.0; 5]).ratio_interval(), None);
    }

    #[test]
    fn without_ratios_differences_count() {
        let plain = Difference::of(&[(1.0, 0.0), (2.0, 1.0), (3.0, 2.0), (4.0, 3.0), (5.0, 4.0), (6.0, 5.0)]).unwrap();
        assert_eq!((plain.ratio(), plain.shift.value), (None, 1.0));
        assert_eq!(plain.finding(1, 0.01), Finding::Better);
        assert_eq!(Difference::of(&[]), None);
        assert_eq!(Difference::of(&[(f64::NAN, 1.0)]), None);
    }

    /// The data of Fisher's example, in eighths of an inch: R's `wilcox.test` gives p = 0.04126.
    #[test]
    fn darwins_maize() {
        let eighths = [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];
        let found = shift(&eighths).unwrap();
        assert!((found.p - 0.041_26).abs() < 1e-4, "{found:?}");
        let mut means: Vec<f64> = Vec::new();
        for (index, a) in eighths.iter().enumerate() {
            means.extend(eighths[..=index].iter().map(|b| (a + b) / 2.0));
        }
        means.sort_by(f64::total_cmp);
        assert_eq!(found.value, median(&means).unwrap());
        // The table of critical values has 25 for 15 differences.
        assert_eq!(found.interval, Some((means[25], means[means.len() - 26])));
    }

    #[test]
    fn few_rounds_prove_nothing() {
        for rounds in 1..6 {
            let found = shift(&vec![1.0; rounds]).unwrap();
            assert_eq!((found.value, found.interval), (1.0, None));
            assert_eq!(found.p, 2.0 * 0.5f64.powi(rounds as i32));
        }
        assert_eq!(shift(&[1.0; 6]).unwrap().interval, Some((1.0, 1.0)));
        assert_eq!(shift(&[]), None);
        assert_eq!(shift(&[1.0, f64::INFINITY]), None);
        assert_eq!((fewest_rounds(0), fewest_rounds(1), fewest_rounds(7), fewest_rounds(52)), (6, 6, 9, 12));
    }

    #[test]
    fn equal_differences_share_ranks() {
        assert_eq!(shift(&[0.0; 9]), Some(Shift { value: 0.0, interval: Some((0.0, 0.0)), p: 1.0 }));
        // Four of six are nothing: two remain, of which a quarter of the outcomes lie all on this side.
        assert_eq!(shift(&[0.0, 0.0, 2.0, 0.0, 2.0, 0.0]).unwrap().p, 0.5);
        // Ranks 1.5, 1.5, 3: of the 8 outcomes 2 have a sum as small as that of -1 alone, and 2 as large; 0 and all,
        // too.
        assert_eq!(shift(&[1.0, -1.0, 2.0]).unwrap().p, 0.75);
    }

    /// The approximation for many rounds continues the exact distribution.
    #[test]
    fn the_two_ways_agree() {
        let mut rng = fastrand::Rng::with_seed(7);
        for _ in 0..50 {
            let differences: Vec<f64> = (0..EXACT).map(|_| rng.f64() - 0.5 + 0.25 * rng.f64()).collect();
            let exact = signed_rank(&differences);
            let ranks: Vec<usize> = (1..=EXACT).map(|r| 2 * r).collect();
            let mut by_size = differences.clone();
            by_size.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
            let positive: usize = by_size.iter().zip(&ranks).filter(|(d, _)| **d > 0.0).map(|(_, r)| r).sum();
            let all: usize = ranks.iter().sum();
            let variance: f64 = ranks.iter().map(|r| (*r as f64).powi(2)).sum::<f64>() / 4.0;
            let fewer = positive.min(all - positive) as f64;
            let normal = 2.0 * normal_below((fewer + 1.0 - all as f64 / 2.0) / variance.sqrt());
            assert!((exact - normal.min(1.0)).abs() < 0.003, "{exact} {normal}");
        }
        for (z, share) in [(0.0, 0.5), (-1.0, 0.158_655_254), (-1.96, 0.024_997_895), (-3.0, 0.001_349_898)] {
            assert!((normal_below(z) - share).abs() < 1e-8, "{z}");
        }
    }

    #[test]
    fn holm_multiplies_the_smallest_by_all() {
        let corrected = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        corrected.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-12, "{corrected:?}"));
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
