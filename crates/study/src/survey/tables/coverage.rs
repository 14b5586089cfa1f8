//! How often each lock is among the best: Tables 7 and 8.

use super::{share, Of};
use crate::descriptive;
use crate::survey::grid::{best, At};
use crate::survey::sheet::{percent, Colours, Entry, Row, Sheet};

const AT: [(At, &str); 3] = [(At::Fewest, "fewest nodes"), (At::Most, "max nodes"), (At::Best, "opt nodes")];

pub(super) fn sheets(of: &Of<'_>) -> [Sheet; 2] {
    let shares = AT.map(|(at, _)| coverage(of, at));
    let row = |(lock, name): (usize, &String)| Row {
        name: name.clone(),
        entries: shares.iter().map(|shares| Entry::share(shares[lock])).collect(),
    };
    let summary = |((_, name), shares): (&(At, &str), &Vec<Option<f64>>)| {
        let found: Vec<f64> = shares.iter().copied().flatten().collect();
        let numbers = [
            found.iter().copied().reduce(f64::min),
            found.iter().copied().reduce(f64::max),
            descriptive::mean(&found),
            descriptive::standard_deviation(&found),
        ];
        Row { name: (*name).into(), entries: numbers.map(Entry::share).to_vec() }
    };
    let within = percent(of.margins.tie);
    [
        Sheet {
            id: "coverage".into(),
            machine: of.machine(),
            title: "How often a lock is among the best".into(),
            about: format!(
                "Share of the lock-sensitive programs that ran on the lock for which it is the best one or within {within} \
                 of it (Table 7)."
            ),
            heading: "lock",
            columns: AT.map(|(_, name)| name.into()).to_vec(),
            rows: of.locks().iter().enumerate().map(row).collect(),
            colours: Some(Colours::MoreIsBetter),
        },
        Sheet {
            id: "coverage-summary".into(),
            machine: of.machine(),
            title: "The same over all locks".into(),
            about: "Least, largest and mean share, and their standard deviation (Table 8).".into(),
            heading: "at",
            columns: ["least", "largest", "mean", "deviation"].map(String::from).to_vec(),
            rows: AT.iter().zip(&shares).map(summary).collect(),
            colours: None,
        },
    ]
}

/// For each lock the share of programs for which it is among the best.
fn coverage(of: &Of<'_>, at: At) -> Vec<Option<f64>> {
    let lines = of.lines(at);
    let is_among =
        |lock: usize| lines.iter().filter_map(move |line| Some(line[lock]? >= (1.0 - of.margins.tie) * best(line)?));
    (0..of.locks().len()).map(|lock| share(is_among(lock))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::grid::tests::runs;
    use crate::survey::grid::Grid;

    #[test]
    fn among_the_best_is_within_the_margin() {
        let mut all = runs("p", &[(1, "a", &[100.0]), (1, "b", &[95.0]), (1, "c", &[94.9])]);
        all.extend(runs("q", &[(1, "a", &[10.0]), (1, "b", &[100.0])]));
        let grid = Grid::new("m", &all);
        let numbers = grid.means();
        let [shares, summary] = sheets(&Of { numbers: &numbers, programs: &[0, 1], margins: Default::default() });
        let words = |row: &Row| row.entries.iter().map(Entry::words).collect::<Vec<_>>();
        assert_eq!(words(shares.row("a").unwrap()), ["50 %"; 3]);
        assert_eq!(words(shares.row("b").unwrap()), ["100 %"; 3]);
        assert_eq!(words(shares.row("c").unwrap()), ["0 %"; 3], "it ran one program");
        assert_eq!(words(summary.row("max nodes").unwrap()), ["0 %", "100 %", "50 %", "50 %"]);
    }
}
