//! Numbers that describe a list of numbers: where its middle is, and how far the others lie from it.

use crate::stats::ERROR_RATE;

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

/// The mean of a list that is not empty.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The standard deviation of a sample, with n - 1 below the line; nothing for fewer than two values.
pub fn standard_deviation(values: &[f64]) -> Option<f64> {
    let middle = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// The middle 95 % of a list that is not empty.
pub fn middle_95(mut values: Vec<f64>) -> Option<(f64, f64)> {
    values.sort_unstable_by(f64::total_cmp);
    let outside = (values.len() as f64 * ERROR_RATE / 2.0).floor() as usize;
    Some((*values.get(outside)?, values[values.len() - 1 - outside]))
}

/// The median and the quartiles of a list that is not empty.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    /// A quarter of the numbers is not above it.
    pub lower: f64,
    /// Half of them are not.
    pub median: f64,
    /// Three quarters are not.
    pub upper: f64,
}

impl Quartiles {
    /// Those of a list, between two numbers in proportion; nothing where it is empty.
    pub fn of(mut numbers: Vec<f64>) -> Option<Self> {
        numbers.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (numbers.len().checked_sub(1)?) as f64;
            let (low, high) = (numbers[place.floor() as usize], numbers[place.ceil() as usize]);
            Some(low + (high - low) * place.fract())
        };
        Some(Self { lower: at(0.25)?, median: at(0.5)?, upper: at(0.75)? })
    }

    /// Half the distance between the quartiles.
    pub fn spread(&self) -> f64 {
        (self.upper - self.lower) / 2.0
    }
}

impl std::fmt::Display for Quartiles {
    /// The median and the spread, with two decimals.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} ±{:.2}", self.median, self.spread())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn means_and_deviations() {
        assert_eq!((mean(&[]), mean(&[1.0, 2.0, 6.0])), (None, Some(3.0)));
        assert_eq!((standard_deviation(&[1.0]), standard_deviation(&[2.0, 4.0, 6.0])), (None, Some(2.0)));
        assert_eq!(middle_95((0..1000).map(f64::from).collect()), Some((25.0, 974.0)));
        assert_eq!((middle_95(vec![3.0]), middle_95(vec![])), (Some((3.0, 3.0)), None));
    }

    #[test]
    fn quartiles_interpolate() {
        assert_eq!(Quartiles::of(vec![]), None);
        assert_eq!(Quartiles::of(vec![3.0]), Some(Quartiles { lower: 3.0, median: 3.0, upper: 3.0 }));
        let five = Quartiles::of(vec![5.0, 1.0, 2.0, 4.0, 3.0]).unwrap();
        assert_eq!(five, Quartiles { lower: 2.0, median: 3.0, upper: 4.0 });
        assert_eq!(Quartiles::of(vec![1.0, 2.0]).unwrap().median, 1.5);
    }
}
