//! Which lock to use where one must do for all programs: beyond the paper.

use super::{Of, BOTH};
use crate::descriptive;
use crate::survey::grid::{best, At};
use crate::survey::sheet::{Entry, Row, Sheet};

/// How a lock does over several programs.
#[derive(Clone, Debug, PartialEq)]
pub struct Typical {
    /// Programs that ran on it.
    pub programs: usize,
    /// What a program typically reaches on it, as a share of what it reaches on its best lock: the geometric mean.
    pub share: f64,
    /// The share that is lost in the program for which the lock is worst.
    pub loss: f64,
    /// That program, by its place.
    pub worst: usize,
}

impl Typical {
    pub(crate) fn of(of: &Of<'_>, lock: usize, at: At) -> Option<Self> {
        let share = |program: &usize| {
            let line = of.numbers.line(*program, at);
            Some((*program, line[lock]? / best(&line)?))
        };
        let shares: Vec<(usize, f64)> = of.programs.iter().filter_map(share).collect();
        let (worst, least) = shares.iter().copied().reduce(|a, b| if b.1 < a.1 { b } else { a })?;
        let logarithms: Vec<f64> = shares.iter().map(|(_, share)| share.ln()).collect();
        Some(Self { programs: shares.len(), share: descriptive::mean(&logarithms)?.exp(), loss: 1.0 - least, worst })
    }
}

pub(super) fn sheet(of: &Of<'_>) -> Sheet {
    let row = |(lock, name): (usize, &String)| {
        let found = BOTH.map(|(at, ..)| Typical::of(of, lock, at));
        let programs = found.iter().flatten().map(|typical| typical.programs).max().unwrap_or_default();
        let numbers = found.iter().flat_map(|typical| {
            let of = |number: fn(&Typical) -> f64| Entry::share(typical.as_ref().map(number));
            [of(|typical| typical.share), of(|typical| typical.loss)]
        });
        Row { name: name.clone(), entries: std::iter::once(Entry::Count(programs as u64)).chain(numbers).collect() }
    };
    let columns = BOTH.iter().flat_map(|(.., at)| [format!("typical, {at}"), format!("worst loss, {at}")]);
    Sheet {
        id: "typical".into(),
        machine: of.machine(),
        title: "One lock for all programs".into(),
        about: "How many lock-sensitive programs ran on the lock, what they typically reach of what they reach on their best \
                lock (the geometric mean), and what the program loses for which it is worst."
            .into(),
        heading: "lock",
        columns: std::iter::once("programs".to_owned()).chain(columns).collect(),
        rows: of.locks().iter().enumerate().map(row).collect(),
        colours: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::grid::tests::runs;
    use crate::survey::grid::Grid;

    #[test]
    fn typical_is_a_geometric_mean() {
        let mut all = runs("p", &[(1, "a", &[100.0]), (1, "b", &[25.0])]);
        all.extend(runs("q", &[(1, "a", &[100.0]), (1, "b", &[100.0]), (1, "c", &[50.0])]));
        let grid = Grid::new("m", &all);
        let numbers = grid.means();
        let of = Of { numbers: &numbers, programs: &[0, 1], margins: Default::default() };
        assert_eq!(Typical::of(&of, 1, At::Most), Some(Typical { programs: 2, share: 0.5, loss: 0.75, worst: 0 }));
        let words = |row: &str| sheet(&of).row(row).unwrap().entries.iter().map(Entry::words).collect::<Vec<_>>();
        assert_eq!(words("c"), ["1", "50 %", "50 %", "50 %", "50 %"]);
    }
}
