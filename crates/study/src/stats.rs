//! Median, spread and bootstrap.

/// The middle value; the mean of the two middle values where their number is even. `None` for no values.
pub fn median(values: &[f64]) -> Option<f64> {
    median_of(&mut values.to_vec())
}

/// Median absolute deviation from the median: half of the values lie within this distance of it.
pub fn median_absolute_deviation(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    median_of(&mut values.iter().map(|v| (v - middle).abs()).collect::<Vec<_>>())
}

fn median_of(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let half = values.len() / 2;
    let odd = values.len() % 2 == 1;
    let (below, &mut upper, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    if odd {
        return Some(upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(lower + (upper - lower) / 2.0)
}

/// A ratio with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Ratio of the medians.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Number of bootstrap resamples: the ends of the interval then vary by less than a tenth of its width with the seed.
pub const RESAMPLES: usize = 5000;

/// Medians of [`RESAMPLES`] samples drawn with replacement from `values`. The same seed gives the same medians.
pub fn resampled_medians(values: &[f64], seed: u64) -> Vec<f64> {
    if values.is_empty() {
        return Vec::new();
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut draw = vec![0.0; values.len()];
    let resample = |_| {
        draw.fill_with(|| values[rng.usize(..values.len())]);
        median_of(&mut draw).unwrap_or_default()
    };
    (0..RESAMPLES).map(resample).collect()
}

/// Ratio of the medians of two samples, `numerator / denominator`, with a 95% percentile bootstrap interval made from
/// their [`resampled_medians`]. `None` where a sample is empty or a median is not positive: a ratio means nothing then.
pub fn ratio(numerator: Resampled<'_>, denominator: Resampled<'_>) -> Option<Ratio> {
    let positive = |m: Option<f64>| m.filter(|v| v.is_finite() && *v > 0.0);
    let value = positive(median(numerator.values))? / positive(median(denominator.values))?;
    let mut ratios: Vec<f64> = numerator.medians.iter().zip(denominator.medians).map(|(n, d)| n / d).collect();
    if ratios.iter().any(|r| !r.is_finite()) {
        return None;
    }
    ratios.sort_by(f64::total_cmp);
    Some(Ratio { value, low: percentile(&ratios, 0.025), high: percentile(&ratios, 0.975) })
}

/// A sample together with its resampled medians.
#[derive(Clone, Copy, Debug)]
pub struct Resampled<'a> {
    /// The sample.
    pub values: &'a [f64],
    /// Its [`resampled_medians`].
    pub medians: &'a [f64],
}

fn percentile(sorted: &[f64], part: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * part).round() as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio_of(n: &[f64], d: &[f64], seed: u64) -> Option<Ratio> {
        let (nm, dm) = (resampled_medians(n, seed), resampled_medians(d, seed ^ 1));
        ratio(Resampled { values: n, medians: &nm }, Resampled { values: d, medians: &dm })
    }

    #[test]
    fn medians_of_known_data() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[7.0, 7.0, 1.0, 100.0, 7.0]), Some(7.0));
    }

    #[test]
    fn deviation_of_known_data() {
        assert_eq!(median_absolute_deviation(&[1.0, 1.0, 2.0, 2.0, 4.0, 6.0, 9.0]), Some(1.0));
        assert_eq!(median_absolute_deviation(&[5.0, 5.0, 5.0, 1000.0]), Some(0.0));
        assert_eq!(median_absolute_deviation(&[]), None);
    }

    #[test]
    fn the_same_seed_gives_the_same_interval_and_another_seed_another() {
        let a: Vec<f64> = (0..10).map(|i| 10.0 + f64::from(i * i % 7)).collect();
        let b: Vec<f64> = (0..10).map(|i| 11.0 + f64::from(i * 3 % 5)).collect();
        assert_eq!(ratio_of(&a, &b, 7), ratio_of(&a, &b, 7));
        assert_ne!(resampled_medians(&a, 7), resampled_medians(&a, 8));
    }

    #[test]
    fn the_interval_covers_the_true_ratio_about_as_often_as_it_says() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut covered = 0;
        for seed in 0..200 {
            let mut draw = |scale: f64| (0..10).map(|_| scale * (1.0 + 0.2 * rng.f64())).collect::<Vec<_>>();
            let (n, d) = (draw(3.0), draw(2.0));
            let r = ratio_of(&n, &d, seed).unwrap();
            covered += usize::from(r.low <= 1.5 && 1.5 <= r.high);
        }
        assert!((180..=200).contains(&covered), "the true ratio lay in {covered} of 200 intervals");
    }

    #[test]
    fn no_ratio_to_nothing() {
        assert_eq!(ratio_of(&[], &[1.0], 1), None);
        assert_eq!(ratio_of(&[1.0; 5], &[0.0; 5], 1), None);
        assert_eq!(ratio_of(&[-1.0; 5], &[1.0; 5], 1), None);
        assert_eq!(ratio_of(&[1.0; 5], &[0.0, 1.0, 1.0, 1.0, 0.0], 1), None, "resamples with a median of 0");
    }
}
