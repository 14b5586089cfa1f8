//! How often the order of two locks changes with the number of nodes and with the machine: Tables 13 and 14.

use std::cmp::Ordering;

use super::{share, Of, Wanted, BOTH};
use crate::survey::grid::{order, At, Numbers};
use crate::survey::sheet::{Colours, Entry, Row, Sheet};

/// The numbers of nodes between which changes are counted, by their places: each at least twice the one before; if
/// there is none, the fewest and the most.
/// With 1, 2, 4, 6 and 8 they are the paper's 1, 2, 4 and 8.
fn ladder(nodes: &[u32]) -> Vec<usize> {
    let mut steps: Vec<usize> = Vec::new();
    for (place, count) in nodes.iter().enumerate() {
        let is_far = |last: &usize| u64::from(*count) >= 2 * u64::from(nodes[*last]);
        if steps.last().is_none_or(is_far) || steps.len() == 1 && place + 1 == nodes.len() {
            steps.push(place);
        }
    }
    steps
}

/// Whether the order of each two locks is not the same in all lines; those that lack a number are left out. Better,
/// worse and about the same are three orders.
fn changes<'a>(lines: &'a [Vec<Option<f64>>], tie: f64) -> impl Iterator<Item = bool> + 'a {
    let locks = lines.first().map_or(0, Vec::len);
    let pairs = (0..locks).flat_map(move |a| (a + 1..locks).map(move |b| (a, b)));
    pairs.filter_map(move |(a, b)| {
        let orders: Option<Vec<Ordering>> = lines.iter().map(|line| Some(order(line[a]?, line[b]?, tie))).collect();
        Some(orders?.windows(2).any(|two| two[0] != two[1]))
    })
}

pub(super) fn nodes(of: &Of<'_>) -> Sheet {
    let grid = of.numbers.grid;
    let steps = ladder(&grid.nodes);
    let mut sets: Vec<Vec<usize>> = steps.windows(2).map(<[usize]>::to_vec).collect();
    if sets.len() > 1 {
        sets.push(steps);
    }
    let changed = |program: usize, set: &Vec<usize>| {
        let lines: Vec<_> = set.iter().map(|place| of.numbers.line(program, At::Place(*place))).collect();
        share(changes(&lines, of.margins.tie))
    };
    let row = |program: &usize| Row {
        name: of.program(*program).into(),
        entries: sets.iter().map(|set| Entry::share(changed(*program, set))).collect(),
    };
    let name = |set: &Vec<usize>| set.iter().map(|place| grid.nodes[*place].to_string()).collect::<Vec<_>>().join("/");
    Sheet {
        id: "changes-nodes".into(),
        machine: of.machine(),
        title: "How often the order of two locks changes with the number of nodes".into(),
        about: "Share of all pairs of locks of which one is better, worse or about the same at one of these numbers of nodes \
                and not at another (Table 13)."
            .into(),
        heading: "program",
        columns: sets.iter().map(name).collect(),
        rows: of.programs.iter().map(row).collect(),
        colours: Some(Colours::MoreIsWorse),
    }
}

/// The table that compares machines; none for one machine.
pub(super) fn machines(all: &[Numbers<'_>], wanted: &Wanted) -> Option<Sheet> {
    let pairs = (0..all.len()).flat_map(|a| (a + 1..all.len()).map(move |b| (a, b)));
    let row = |(a, b): (usize, usize)| Row {
        name: format!("{} and {}", all[a].grid.machine, all[b].grid.machine),
        entries: BOTH.map(|(at, ..)| Entry::share(share(between(all, wanted, (a, b), at)))).to_vec(),
    };
    let rows: Vec<Row> = pairs.map(row).collect();
    let names: Vec<&str> = all.iter().map(|numbers| numbers.grid.machine.as_str()).collect();
    (!rows.is_empty()).then(|| Sheet {
        id: "changes-machines".into(),
        machine: names.join(", "),
        title: "How often the order of two locks changes with the machine".into(),
        about:
            "Share of all pairs of locks, over the programs that are lock-sensitive on both machines, of which one is \
                better, worse or about the same on one machine and not on the other (Table 14)."
                .into(),
        heading: "machines",
        columns: BOTH.map(|(.., at)| at.into()).to_vec(),
        rows,
        colours: Some(Colours::MoreIsWorse),
    })
}

/// The changes between two machines, over all programs that both know to be lock-sensitive.
fn between<'a>(
    all: &'a [Numbers<'_>],
    wanted: &'a Wanted,
    (a, b): (usize, usize),
    at: At,
) -> impl Iterator<Item = bool> + 'a {
    let (own, other) = (&all[a], &all[b]);
    let common = wanted.programs[a].iter().filter_map(move |program| {
        let there = other.grid.programs.binary_search(&own.grid.programs[*program]).ok()?;
        wanted.programs[b].contains(&there).then_some((*program, there))
    });
    common.flat_map(move |(here, there)| {
        let (first, second) = (own.line(here, at), other.line(there, at));
        let same = own.grid.locks.iter().map(|lock| second[other.grid.locks.binary_search(lock).ok()?]).collect();
        changes(&[first, same], wanted.margins.tie).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::grid::tests::runs;
    use crate::survey::grid::Grid;

    #[test]
    fn the_ladder_doubles() {
        let of = |nodes: &[u32]| ladder(nodes).iter().map(|place| nodes[*place]).collect::<Vec<_>>();
        assert_eq!(of(&[1, 2, 4, 6, 7, 8]), [1, 2, 4, 8]);
        assert_eq!(of(&[1, 2, 3, 4]), [1, 2, 4]);
        assert_eq!((of(&[2, 3]), of(&[5]), of(&[])), (vec![2, 3], vec![5], vec![]));
    }

    #[test]
    fn changes_of_known_orders() {
        let cells: [(u32, &str, &[f64]); 6] = [
            (1, "a", &[10.0]),
            (1, "b", &[10.1]),
            (1, "c", &[20.0]),
            (2, "a", &[10.0]),
            (2, "b", &[12.0]),
            (2, "c", &[30.0]),
        ];
        let grid = Grid::new("m", &runs("p", &cells));
        let numbers = grid.means();
        let sheet = nodes(&Of { numbers: &numbers, programs: &[0], margins: Default::default() });
        assert_eq!((sheet.columns.join(" "), sheet.rows[0].entries[0].words()), ("1/2".into(), "33 %".into()));
        // On the other machine a and b have changed places, and c is missing.
        let other = Grid::new("n", &runs("p", &[(4, "b", &[10.0]), (4, "a", &[20.0])]));
        let all = [grid.means(), other.means()];
        let wanted = Wanted { margins: Default::default(), programs: vec![vec![0], vec![0]] };
        let sheet = machines(&all, &wanted).unwrap();
        assert_eq!((sheet.rows[0].name.as_str(), sheet.rows[0].entries[0].words()), ("m and n", "100 %".into()));
        assert!(machines(&all[..1], &wanted).is_none());
    }
}
