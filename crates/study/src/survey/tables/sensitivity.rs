//! How much locks matter to each program: Table 3.

use super::Of;
use crate::descriptive;
use crate::survey::grid::{best, At, Numbers};
use crate::survey::sheet::{Entry, Row, Sheet};

/// By how much the best lock is better than the worst one, and the relative standard deviation over all locks; nothing
/// for fewer than two locks.
fn spread(line: &[Option<f64>]) -> Option<(f64, f64)> {
    let values: Vec<f64> = line.iter().copied().flatten().collect();
    let worst = values.iter().copied().reduce(f64::min)?;
    let deviation = descriptive::standard_deviation(&values)?;
    Some((best(line)? / worst - 1.0, deviation / descriptive::mean(&values)?))
}

/// The programs, by their places, for which the relative standard deviation at the most nodes is above the margin.
pub fn sensitive(numbers: &Numbers<'_>, margin: f64) -> Vec<usize> {
    let deviation = |program: &usize| spread(&numbers.line(*program, At::Most)).map_or(0.0, |(_, deviation)| deviation);
    (0..numbers.grid.programs.len()).filter(|program| deviation(program) > margin).collect()
}

pub(super) fn sheet(of: &Of<'_>) -> Sheet {
    let row = |program: usize| {
        let entries = [At::Fewest, At::Most, At::Best].into_iter().flat_map(|at| {
            let spread = spread(&of.numbers.line(program, at));
            [Entry::share(spread.map(|(gain, _)| gain)), Entry::share(spread.map(|(_, deviation)| deviation))]
        });
        Row { name: of.numbers.grid.programs[program].clone(), entries: entries.collect() }
    };
    let columns =
        ["fewest nodes", "max nodes", "opt nodes"].map(|at| [format!("gain, {at}"), format!("deviation, {at}")]);
    Sheet {
        id: "sensitivity".into(),
        machine: of.machine(),
        title: "How much locks matter".into(),
        about: "Gain of the best lock over the worst one, and the relative standard deviation over all locks (Table 3 of \
                the paper). Max nodes are the most that a program was run on; at opt nodes, each lock has the number that \
                is best for it."
            .into(),
        heading: "program",
        columns: columns.concat(),
        rows: (0..of.numbers.grid.programs.len()).map(row).collect(),
        colours: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::grid::tests::runs;
    use crate::survey::grid::Grid;

    #[test]
    fn sensitive_programs_differ_at_the_most_nodes() {
        let mut all = runs("calm", &[(1, "a", &[10.0]), (1, "b", &[90.0]), (8, "a", &[10.0]), (8, "b", &[10.5])]);
        all.extend(runs("wild", &[(1, "a", &[10.0]), (1, "b", &[10.0]), (8, "a", &[10.0]), (8, "b", &[30.0])]));
        all.extend(runs("alone", &[(1, "a", &[10.0])]));
        let grid = Grid::new("m", &all);
        let numbers = grid.means();
        assert_eq!(sensitive(&numbers, 0.10), [2]);
        let of = Of { numbers: &numbers, programs: &[2], margins: Default::default() };
        let words = |name: &str| sheet(&of).row(name).unwrap().entries.iter().map(Entry::words).collect::<Vec<_>>();
        // 10 and 30: their mean is 20, their deviation the square root of 200.
        assert_eq!(words("wild"), ["0 %", "0 %", "200 %", "71 %", "200 %", "71 %"]);
        assert_eq!(words("alone"), ["-"; 6]);
    }
}
