//! Whether two locks differ in one program, as far as the runs tell.

use super::grid::{At, Cell, Grid, Numbers};
use crate::stats::Difference;
use crate::unpaired;

/// What may be said of two locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The first is better, by more than the margin.
    Better,
    /// It is worse, by more than the margin.
    Worse,
    /// The interval of the ratio holds 1 and is narrow, or the ratio is within the margin.
    Same,
    /// The interval is wide, or there are too few runs for one.
    Open,
}

/// An interval this wide that holds 1 leaves the question open: the same width as in a comparison.
const WIDE: f64 = 1.25;

/// What the runs of two cells say. Runs of the same rounds are paired, as in a comparison; others are not.
pub fn verdict(own: &Cell, other: &Cell, tie: f64) -> Verdict {
    let Some((value, interval)) = log_ratio(own, other) else { return Verdict::Open };
    let Some((low, high)) = interval else { return Verdict::Open };
    let margin = -(-tie).ln_1p();
    match () {
        _ if low <= 0.0 && 0.0 <= high && high - low > 2.0 * WIDE.ln() => Verdict::Open,
        _ if low <= 0.0 && 0.0 <= high || value.abs() <= margin => Verdict::Same,
        _ if value > 0.0 => Verdict::Better,
        _ => Verdict::Worse,
    }
}

/// The logarithm of how many times better the first is, and its 95 % interval.
fn log_ratio(own: &Cell, other: &Cell) -> Option<(f64, Option<(f64, f64)>)> {
    if !own.rounds.is_empty() && own.rounds == other.rounds {
        let pairs: Vec<(f64, f64)> = own.values.iter().copied().zip(other.values.iter().copied()).collect();
        return Difference::of(&pairs).map(|difference| (difference.shift.value, difference.shift.interval));
    }
    let logarithms = |cell: &Cell| cell.values.iter().map(|value| value.ln()).collect::<Vec<f64>>();
    unpaired::shift_between(&logarithms(own), &logarithms(other))
}

/// The runs of a lock where it is compared; nothing where it was not measured.
pub fn runs_at<'a>(grid: &'a Grid, numbers: &Numbers<'_>, program: usize, lock: usize, at: At) -> Option<&'a Cell> {
    let (nodes, _) = numbers.at(program, lock, at)?;
    Some(grid.cell(program, nodes, lock))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(values: &[f64], paired: bool) -> Cell {
        let rounds = if paired { (0..values.len() as u32).collect() } else { Vec::new() };
        Cell { values: values.to_vec(), rounds, failed: 0 }
    }

    #[test]
    fn verdicts_of_known_runs() {
        let of = |a: &[f64], b: &[f64]| verdict(&cell(a, false), &cell(b, false), 0.05);
        let ten = [10.0, 10.1, 9.9, 10.05, 9.95];
        assert_eq!(of(&ten.map(|v| v * 2.0), &ten), Verdict::Better);
        assert_eq!(of(&ten.map(|v| v * 0.9), &ten), Verdict::Worse);
        assert_eq!(of(&ten.map(|v| v * 1.03), &ten), Verdict::Same, "proven, but within the margin");
        assert_eq!(of(&ten, &ten), Verdict::Same);
        assert_eq!(of(&[10.0, 30.0, 5.0, 12.0, 20.0], &[11.0, 25.0, 6.0, 14.0, 18.0]), Verdict::Open);
        assert_eq!(of(&[20.0, 20.0, 20.0], &[10.0, 10.0, 10.0]), Verdict::Open, "three runs prove nothing");
        assert_eq!(of(&[], &ten), Verdict::Open);
    }

    #[test]
    fn runs_of_the_same_rounds_are_paired() {
        // The machine slows down from round to round; only within a round the difference shows.
        let slowing: Vec<f64> = (0..8).map(|round| 100.0 / f64::from(1 + round)).collect();
        let better: Vec<f64> = slowing.iter().map(|value| value * 1.2).collect();
        assert_eq!(verdict(&cell(&better, true), &cell(&slowing, true), 0.05), Verdict::Better);
        assert_eq!(verdict(&cell(&better, false), &cell(&slowing, false), 0.05), Verdict::Open);
    }
}
