//! Each lock against each other one: Tables 9 and 10.

use std::cmp::Ordering;

use super::{share, Of, BOTH};
use crate::descriptive;
use crate::survey::grid::{order, At};
use crate::survey::sheet::{percent, Colours, Entry, Row, Sheet};

pub(super) fn sheets(of: &Of<'_>) -> Vec<Sheet> {
    let scores = BOTH.map(|(at, ..)| scores(of, at));
    let mut sheets: Vec<Sheet> = BOTH.iter().zip(&scores).map(|(both, scores)| pairs(of, both, scores)).collect();
    let row = |(lock, name): (usize, &String)| {
        let of_both = scores.iter().flat_map(|scores| [mean_of_row(scores, lock), mean_of_column(scores, lock)]);
        Row { name: name.clone(), entries: of_both.map(Entry::share).collect() }
    };
    sheets.push(Sheet {
        id: "better-worse".into(),
        machine: of.machine(),
        title: "How often a lock is better or worse than others".into(),
        about:
            "Mean over all other locks of the share of lock-sensitive programs for which the lock is better, or worse, \
                by more than the margin (Table 10)."
                .into(),
        heading: "lock",
        columns: BOTH.iter().flat_map(|(.., at)| [format!("better, {at}"), format!("worse, {at}")]).collect(),
        rows: of.locks().iter().enumerate().map(row).collect(),
        colours: None,
    });
    sheets
}

type Scores = Vec<Vec<Option<f64>>>;

/// For each lock and each other one the share of programs for which it is better.
fn scores(of: &Of<'_>, at: At) -> Scores {
    let lines = of.lines(at);
    let tie = of.margins.tie;
    let score = |a: usize, b: usize| {
        let better = lines.iter().filter_map(|line| Some(order(line[a]?, line[b]?, tie) == Ordering::Greater));
        if a == b {
            None
        } else {
            share(better)
        }
    };
    let locks = 0..of.locks().len();
    locks.clone().map(|a| locks.clone().map(|b| score(a, b)).collect()).collect()
}

fn mean_of_row(scores: &Scores, lock: usize) -> Option<f64> {
    descriptive::mean(&scores[lock].iter().copied().flatten().collect::<Vec<_>>())
}

fn mean_of_column(scores: &Scores, lock: usize) -> Option<f64> {
    descriptive::mean(&scores.iter().filter_map(|row| row[lock]).collect::<Vec<_>>())
}

fn pairs(of: &Of<'_>, (_, id, at): &(At, &str, &str), scores: &Scores) -> Sheet {
    let locks = of.locks();
    let row = |lock: usize| {
        let entry = |other: usize| if other == lock { Entry::Empty } else { Entry::share(scores[lock][other]) };
        let mut entries: Vec<Entry> = (0..locks.len()).map(entry).collect();
        entries.push(Entry::share(mean_of_row(scores, lock)));
        Row { name: locks[lock].clone(), entries }
    };
    let mut rows: Vec<Row> = (0..locks.len()).map(row).collect();
    let mut means: Vec<Entry> = (0..locks.len()).map(|lock| Entry::share(mean_of_column(scores, lock))).collect();
    means.push(Entry::Empty);
    rows.push(Row { name: "mean".into(), entries: means });
    Sheet {
        id: format!("pairs-{id}"),
        machine: of.machine(),
        title: format!("Each lock against each other one, {at}"),
        about: format!(
            "Share of the lock-sensitive programs that ran on both for which the lock of the row is better than that of the \
             column by more than {} (Table 9).",
            percent(of.margins.tie)
        ),
        heading: "lock",
        columns: locks.iter().cloned().chain(["mean".into()]).collect(),
        rows,
        colours: Some(Colours::MoreIsBetter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::grid::tests::runs;
    use crate::survey::grid::Grid;

    #[test]
    fn pairs_count_programs_that_both_ran() {
        let mut all = runs("p", &[(1, "a", &[100.0]), (1, "b", &[90.0]), (1, "c", &[98.0])]);
        all.extend(runs("q", &[(1, "a", &[50.0]), (1, "b", &[90.0])]));
        let grid = Grid::new("m", &all);
        let numbers = grid.means();
        let sheets = sheets(&Of { numbers: &numbers, programs: &[0, 1], margins: Default::default() });
        let words = |sheet: &Sheet, row: &str| {
            sheet.row(row).unwrap().entries.iter().map(Entry::words).collect::<Vec<_>>().join("|")
        };
        assert_eq!(sheets[0].id, "pairs-max");
        assert_eq!(words(&sheets[0], "a"), "|50 %|0 %|25 %");
        assert_eq!(words(&sheets[0], "b"), "50 %||0 %|25 %");
        assert_eq!(words(&sheets[0], "c"), "0 %|100 %||50 %");
        assert_eq!(words(&sheets[0], "mean"), "25 %|75 %|0 %|");
        assert_eq!(words(&sheets[2], "b"), "25 %|75 %|25 %|75 %");
    }
}
