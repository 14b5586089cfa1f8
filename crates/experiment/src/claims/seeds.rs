//! With how many seeds a claim is simulated: as many as its number takes to be precise, or its bound to be decided.
//!
//! A claim gets [`FEWEST`] seeds first. As long as the 95 % interval of the mean (Student's t) reaches farther than
//! [`PRECISION`] of it to either side, and more seeds are allowed, it gets half as many more. Where a paper has only a
//! bound it is enough that the whole interval keeps the bound, or misses it. The rule looks at the numbers only, and
//! the seeds are 1, 2, 3 and so on, so the result is the same on every host.
//!
//! Two seeds are enough where their numbers lie within 0.3 % of each other. Where chance moves a number by far more
//! than that, two are seldom so near, and then their mean is no farther off than that of any two.

/// Seeds of a claim, at least.
pub const FEWEST: u32 = 2;
/// The share of the mean that its interval may reach to either side: a fifth of what a claim may be off.
pub const PRECISION: f64 = 0.02;

/// The 97.5 % quantiles of Student's t with 1, 2, 3 ... degrees of freedom; the last one, which is the smallest here,
/// stands for all that follow.
const T: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];

/// The mean of a claim's numbers, one of each seed, and how far its interval reaches to either side.
fn interval(numbers: &[f64]) -> Option<(f64, f64)> {
    let count = numbers.len() as f64;
    let t = T[numbers.len().checked_sub(2)?.min(T.len() - 1)];
    let mean = numbers.iter().sum::<f64>() / count;
    let variance = numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / (count - 1.0);
    Some((mean, t * (variance / count).sqrt()))
}

/// Whether the mean of these numbers is precise.
pub fn is_precise(numbers: &[f64]) -> bool {
    interval(numbers).is_some_and(|(mean, reach)| reach <= PRECISION * mean.abs())
}

/// Whether the interval of these numbers lies on one side of `bound`.
pub fn are_apart(numbers: &[f64], bound: f64) -> bool {
    interval(numbers).is_some_and(|(mean, reach)| (mean - bound).abs() > reach)
}

/// How many seeds follow on so many, if there may be `most`.
pub fn next(seeds: u32, most: u32) -> u32 {
    seeds.saturating_add((seeds / 2).max(1)).max(FEWEST).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_is_precise_if_its_interval_is_narrow() {
        // The standard deviations are 0.5, 0.8 and 0.9: intervals of 1.24, 1.99 and 2.24 to either side.
        for (numbers, expected) in [
            (&[99.5, 100.0, 100.5][..], true),
            (&[99.2, 100.0, 100.8], true),
            (&[99.1, 100.0, 100.9], false),
            (&[-99.2, -100.0, -100.8], true),
            (&[99.1, 100.0, 100.9, 99.1, 100.0, 100.9], true),
            // One number, or none, says nothing about chance; two need to be very near.
            (&[100.0], false),
            (&[], false),
            (&[99.9, 100.1], true),
            (&[99.8, 100.2], false),
            (&[0.0, 0.0, 0.0], true),
        ] {
            assert_eq!(is_precise(numbers), expected, "{numbers:?}");
        }
        let many: Vec<f64> = (0..100).map(|number| if number % 2 == 0 { 92.0 } else { 108.0 }).collect();
        assert!(is_precise(&many) && !is_precise(&many[..60]));
    }

    #[test]
    fn a_bound_is_decided_if_the_interval_does_not_contain_it() {
        // The interval reaches from 87.6 to 112.4.
        let numbers = [95.0, 100.0, 105.0];
        assert_eq!([87.0, 88.0, 112.0, 113.0].map(|bound| are_apart(&numbers, bound)), [true, false, false, true]);
        assert!(!are_apart(&[100.0], 1.0));
    }

    #[test]
    fn seeds_grow_by_half_up_to_the_most() {
        let steps = |most: u32| {
            let steps = std::iter::successors(Some(next(0, most)), |seeds| (*seeds < most).then(|| next(*seeds, most)));
            steps.collect::<Vec<_>>()
        };
        assert_eq!([1, 2, 5, 10].map(steps), [vec![1], vec![2], vec![2, 3, 4, 5], vec![2, 3, 4, 6, 9, 10]]);
    }
}
