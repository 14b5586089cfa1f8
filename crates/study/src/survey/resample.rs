//! Intervals of the tables' numbers, by the bootstrap: the runs of each cell are drawn again, with repetition, and the
//! tables are computed from each draw. What a number is in the middle 95 % of the draws is its interval.
//!
//! A comparison of two locks has a better interval ([`super::verdict`]); but no test knows how a share of programs, or
//! the gain of the best of thirty locks, would have come out in another night.

use fastrand::Rng;

use super::grid::Grid;
use super::sheet::Sheet;
use super::tables::{self, Wanted};
use crate::descriptive::{mean, middle_95};

/// Adds an interval to each number of the tables, from so many draws.
pub fn add_intervals(sheets: &mut [Sheet], grids: &[Grid], wanted: &Wanted, draws: u32, seed: u64) {
    let mut random = Rng::with_seed(seed);
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); sheets.iter().flat_map(Sheet::figures).count()];
    for _ in 0..draws {
        let mut drawn = |values: &[f64]| drawn_mean(values, &mut random);
        let numbers: Vec<_> = grids.iter().map(|grid| grid.numbers(&mut drawn)).collect();
        let again = tables::all(&numbers, wanted);
        for (figure, values) in again.iter().flat_map(Sheet::figures).zip(&mut found) {
            values.push(figure.value);
        }
    }
    for (figure, values) in sheets.iter_mut().flat_map(Sheet::figures_mut).zip(found) {
        figure.interval = middle_95(values);
    }
}

/// The interval of the mean of some runs, from so many draws.
pub fn interval(values: &[f64], draws: u32, random: &mut Rng) -> Option<(f64, f64)> {
    middle_95((0..draws).map(|_| drawn_mean(values, random)).collect::<Option<Vec<f64>>>()?)
}

/// The mean of as many runs as there are, each drawn from all of them.
fn drawn_mean(values: &[f64], random: &mut Rng) -> Option<f64> {
    let again: Vec<f64> = values.iter().map(|_| values[random.usize(..values.len())]).collect();
    mean(&again)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::grid::tests::runs;
    use crate::survey::Margins;

    #[test]
    fn intervals_are_as_wide_as_the_runs_vary() {
        let steady = [100.0, 101.0, 99.0, 100.5, 99.5];
        let wild = [20.0, 60.0, 35.0, 90.0, 45.0];
        let grids = [Grid::new("m", &runs("p", &[(1, "a", &steady), (1, "b", &wild), (1, "c", &[50.0; 5])]))];
        let numbers: Vec<_> = grids.iter().map(Grid::means).collect();
        let wanted = Wanted::new(&numbers, Margins::default());
        let mut sheets = tables::all(&numbers, &wanted);
        add_intervals(&mut sheets, &grids, &wanted, 500, 1);
        let gains = sheets.iter().find(|sheet| sheet.id == "gains-max").unwrap();
        let widths: Vec<f64> =
            gains.figures().map(|figure| figure.interval.map_or(9.0, |(low, high)| high - low)).collect();
        assert_eq!(widths[0], 0.0, "the best lock is the best one in each draw");
        assert!(widths[1] > 0.5 && widths[2] < 0.05, "{widths:?}");
        gains.figures().for_each(|figure| {
            let (low, high) = figure.interval.unwrap();
            assert!(low <= figure.value && figure.value <= high, "{figure:?}");
        });
        let mut again = tables::all(&numbers, &wanted);
        add_intervals(&mut again, &grids, &wanted, 500, 1);
        assert_eq!(again, sheets, "the seed decides");
    }
}
