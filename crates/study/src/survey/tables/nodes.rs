//! At how many nodes each program does best: Tables 5 and 6.

use super::Of;
use crate::survey::grid::At;
use crate::survey::sheet::{Colours, Entry, Figure, Row, Sheet};

pub(super) fn sheets(of: &Of<'_>) -> [Sheet; 2] {
    let numbers = of.numbers;
    let best = |program: usize, lock: usize| numbers.at(program, lock, At::Best);
    let gain = |program: usize, lock: usize| {
        let (place, value) = best(program, lock)?;
        let (_, most) = numbers.at(program, lock, At::Most)?;
        Some(Figure {
            value: value / most - 1.0,
            interval: None,
            nodes: Some(numbers.grid.nodes[place]),
            is_open: false,
        })
    };
    let locks = 0..of.locks().len();
    let row = |program: &usize| Row {
        name: of.program(*program).into(),
        entries: locks.clone().map(|lock| gain(*program, lock).map_or(Entry::Untested, Entry::Share)).collect(),
    };
    let places: Vec<usize> =
        of.programs.iter().flat_map(|p| locks.clone().filter_map(|lock| Some(best(*p, lock)?.0))).collect();
    let share = |place: usize| super::share(places.iter().map(|found| *found == place));
    let level =
        |(place, nodes): (usize, &u32)| Row { name: nodes.to_string(), entries: vec![Entry::share(share(place))] };
    [
        Sheet {
            id: "optimum".into(),
            machine: of.machine(),
            title: "Gain of the best number of nodes over the most".into(),
            about:
                "By how much a program is better on a lock at the number of nodes that is best for both than at max \
                    nodes, and that number (Table 5)."
                    .into(),
            heading: "program",
            columns: of.locks().to_vec(),
            rows: of.programs.iter().map(row).collect(),
            colours: Some(Colours::MoreIsWorse),
        },
        Sheet {
            id: "optimum-nodes".into(),
            machine: of.machine(),
            title: "How often which number of nodes is best".into(),
            about: "Share of the pairs of a lock-sensitive program and a lock (Table 6).".into(),
            heading: "nodes",
            columns: vec!["share".into()],
            rows: numbers.grid.nodes.iter().enumerate().map(level).collect(),
            colours: None,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::grid::tests::runs;
    use crate::survey::grid::Grid;

    #[test]
    fn the_best_number_of_nodes_and_its_gain() {
        let cells: [(u32, &str, &[f64]); 4] =
            [(1, "a", &[30.0]), (8, "a", &[10.0]), (1, "b", &[5.0]), (8, "b", &[10.0])];
        let grid = Grid::new("m", &runs("p", &cells));
        let numbers = grid.means();
        let [gains, levels] = sheets(&Of { numbers: &numbers, programs: &[0], margins: Default::default() });
        let words = |row: &Row| row.entries.iter().map(Entry::words).collect::<Vec<_>>();
        assert_eq!(words(&gains.rows[0]), ["200 % at 1", "0 % at 8"]);
        assert_eq!(
            (words(levels.row("1").unwrap()), words(levels.row("8").unwrap())),
            (vec!["50 %".into()], vec!["50 %".into()])
        );
    }
}
