//! Two samples that are not paired, as those of different programs: the rank-sum test of Wilcoxon, Mann and Whitney.

use crate::descriptive::median;
use crate::stats::{ERROR_RATE, Z_95};

/// Up to so many values in the larger sample the distribution is counted out.
const EXACT_BETWEEN: usize = 20;

/// By how much the values of one sample lie above those of another one, where no value of the one belongs to one of
/// the other: the estimate of Hodges and Lehmann, which is the median of all differences between the two, and the 95 %
/// interval that belongs to the rank-sum test of Wilcoxon, Mann and Whitney. The interval is missing where the samples
/// are too small to give one: with three values each, and with fewer.
pub fn shift_between(own: &[f64], other: &[f64]) -> Option<(f64, Option<(f64, f64)>)> {
    let mut differences: Vec<f64> = own.iter().flat_map(|a| other.iter().map(move |b| a - b)).collect();
    if differences.iter().any(|difference| !difference.is_finite()) {
        return None;
    }
    let value = median(&differences)?;
    differences.sort_unstable_by(f64::total_cmp);
    let outside = outside_between(own.len(), other.len());
    let interval = outside.map(|k| (differences[k - 1], differences[differences.len() - k]));
    Some((value, interval))
}

/// The rank, from 1, of the difference that is the lower end of the 95 % interval of two samples of these sizes.
fn outside_between(own: usize, other: usize) -> Option<usize> {
    if own.max(other) > EXACT_BETWEEN {
        let (n, m) = (own as f64, other as f64);
        let spread = (n * m * (n + m + 1.0) / 12.0).sqrt();
        return Some((n * m / 2.0 - Z_95 * spread).floor()).filter(|k| *k >= 1.0).map(|k| k as usize);
    }
    let mut below = 0.0;
    let within = distribution_between(own, other).into_iter().take_while(|share| {
        below += share;
        below <= ERROR_RATE / 2.0
    });
    Some(within.count()).filter(|count| *count > 0)
}

/// Chances, by number, that so many of the pairs of two samples have the larger value in the first, if both come from
/// one distribution: the largest of all values is in the first with its share, and then wins against the whole other
/// sample.
fn distribution_between(own: usize, other: usize) -> Vec<f64> {
    let mut chances = vec![vec![1.0]; other + 1];
    for n in 1..=own {
        let mut row: Vec<Vec<f64>> = vec![vec![1.0]];
        for (m, with_one_less) in chances.iter().enumerate().skip(1) {
            let share = n as f64 / (n + m) as f64;
            let mut both = vec![0.0; n * m + 1];
            with_one_less.iter().enumerate().for_each(|(wins, chance)| both[wins + m] += share * chance);
            row[m - 1].iter().enumerate().for_each(|(wins, chance)| both[wins] += (1.0 - share) * chance);
            row.push(both);
        }
        chances = row;
    }
    chances.swap_remove(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The chances are those of the table of Mann and Whitney (1947), and the interval that of R's
    /// `wilcox.test(a, b, conf.int = TRUE)`.
    #[test]
    fn samples_without_pairs() {
        let exact: Vec<f64> = distribution_between(2, 3).iter().map(|chance| (chance * 10.0).round()).collect();
        assert_eq!(exact, [1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0]);
        assert!((distribution_between(7, 9).iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Critical values at 5 %, two-sided: 2 for 5 and 5, 23 for 10 and 10, 127 for 20 and 20; none for 3 and 3.
        let critical = [(3, 3), (4, 4), (5, 5), (10, 10), (20, 20)].map(|(n, m)| outside_between(n, m));
        assert_eq!(critical, [None, Some(1), Some(3), Some(24), Some(128)]);
        // The approximation for larger ones continues the exact ones.
        let exact = distribution_between(21, 20).into_iter().scan(0.0, |sum, chance| {
            *sum += chance;
            Some(*sum)
        });
        let exact = exact.filter(|below| *below <= 0.025).count();
        assert!(exact.abs_diff(outside_between(21, 20).unwrap()) <= 2);
        let (a, b) = ([1.1, 2.2, 3.3, 4.4], [0.5, 0.6, 0.7, 0.8]);
        let (value, interval) = shift_between(&a, &b).unwrap();
        assert!((value - 2.1).abs() < 1e-9, "{value}");
        let (low, high) = interval.unwrap();
        assert!((low - 0.3).abs() < 1e-9 && (high - 3.9).abs() < 1e-9);
        assert_eq!(shift_between(&[1.0], &[3.0]), Some((-2.0, None)));
        assert_eq!((shift_between(&[], &[1.0]), shift_between(&[f64::NAN], &[1.0])), (None, None));
    }
}
