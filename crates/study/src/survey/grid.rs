//! All runs of one machine, sorted into cells: a program, a number of nodes, a lock.

use std::cmp::Ordering;

use crate::descriptive;

/// One run, as the tables see it.
#[derive(Clone, Debug, PartialEq)]
pub struct Observation {
    /// The program.
    pub program: String,
    /// Its level of contention.
    pub nodes: u32,
    /// The lock.
    pub lock: String,
    /// The round, where runs were made in rounds: runs of one round are compared with each other.
    pub round: Option<u32>,
    /// What the run reached, more is better and above 0; nothing where it failed.
    pub value: Option<f64>,
}

/// The runs of one cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What the good runs reached, above 0.
    pub values: Vec<f64>,
    /// The rounds of the values, where all are known; else empty.
    pub rounds: Vec<u32>,
    /// How many runs failed.
    pub failed: u32,
}

impl Cell {
    /// Whether the cell has numbers that count: a lock on which some runs failed must not win by the others.
    pub fn is_measured(&self) -> bool {
        self.failed == 0 && !self.values.is_empty()
    }
}

/// All cells of one machine. Programs and locks are in alphabetical order, nodes in that of numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    /// The machine's name.
    pub machine: String,
    /// The programs.
    pub programs: Vec<String>,
    /// All levels of contention; a program may have some of them only.
    pub nodes: Vec<u32>,
    /// The locks.
    pub locks: Vec<String>,
    cells: Vec<Cell>,
}

impl Grid {
    /// Sorts the runs of a machine.
    pub fn new(machine: &str, runs: &[Observation]) -> Self {
        let programs = distinct(runs.iter().map(|run| run.program.clone()));
        let nodes = distinct(runs.iter().map(|run| run.nodes));
        let locks = distinct(runs.iter().map(|run| run.lock.clone()));
        let cells = vec![Cell::default(); programs.len() * nodes.len() * locks.len()];
        let mut grid = Self { machine: machine.into(), programs, nodes, locks, cells };
        for run in runs {
            let place = (
                grid.programs.binary_search(&run.program),
                grid.nodes.binary_search(&run.nodes),
                grid.locks.binary_search(&run.lock),
            );
            let (Ok(program), Ok(nodes), Ok(lock)) = place else { continue };
            let index = grid.index(program, nodes, lock);
            let cell = &mut grid.cells[index];
            match run.value {
                Some(value) => cell.values.push(value),
                None => cell.failed += 1,
            }
            cell.rounds.extend(run.round.filter(|_| run.value.is_some()));
        }
        grid.cells
            .iter_mut()
            .filter(|cell| cell.rounds.len() != cell.values.len())
            .for_each(|cell| cell.rounds.clear());
        grid
    }

    fn index(&self, program: usize, nodes: usize, lock: usize) -> usize {
        (program * self.nodes.len() + nodes) * self.locks.len() + lock
    }

    /// The runs of a cell, by the places of its program, its nodes and its lock.
    pub fn cell(&self, program: usize, nodes: usize, lock: usize) -> &Cell {
        &self.cells[self.index(program, nodes, lock)]
    }

    /// All cells with their names, such as `x264 at 4 on mcs_stp`.
    pub fn cells(&self) -> impl Iterator<Item = (String, &Cell)> {
        let places = (0..self.programs.len())
            .flat_map(|program| (0..self.nodes.len()).map(move |nodes| (program, nodes)))
            .flat_map(|(program, nodes)| (0..self.locks.len()).map(move |lock| (program, nodes, lock)));
        places.map(|(program, nodes, lock)| {
            let name = format!("{} at {} on {}", self.programs[program], self.nodes[nodes], self.locks[lock]);
            (name, self.cell(program, nodes, lock))
        })
    }

    /// The numbers of all cells, each made of its values by `average`.
    pub fn numbers(&self, mut average: impl FnMut(&[f64]) -> Option<f64>) -> Numbers<'_> {
        let of = |cell: &Cell| if cell.is_measured() { average(&cell.values) } else { None };
        Numbers { values: self.cells.iter().map(of).collect(), grid: self }
    }

    /// The numbers with the mean of each cell, as in the paper.
    pub fn means(&self) -> Numbers<'_> {
        self.numbers(descriptive::mean)
    }
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = values.collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// At which number of nodes locks are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// The fewest that the program has.
    Fewest,
    /// The most that it has.
    Most,
    /// The number at which the lock does best: each lock at its own.
    Best,
    /// The one with this place in [`Grid::nodes`].
    Place(usize),
}

/// One number for each cell.
#[derive(Clone, Debug)]
pub struct Numbers<'a> {
    /// What they are numbers of.
    pub grid: &'a Grid,
    values: Vec<Option<f64>>,
}

impl Numbers<'_> {
    /// The number of a cell; nothing where it was not measured.
    pub fn cell(&self, program: usize, nodes: usize, lock: usize) -> Option<f64> {
        self.values[self.grid.index(program, nodes, lock)]
    }

    /// The places of the numbers of nodes at which the program was measured on any lock.
    pub fn nodes(&self, program: usize) -> Vec<usize> {
        let is_measured =
            |nodes: usize| (0..self.grid.locks.len()).any(|lock| self.cell(program, nodes, lock).is_some());
        (0..self.grid.nodes.len()).filter(|nodes| is_measured(*nodes)).collect()
    }

    /// At which nodes the lock is compared, by their place, and its number there.
    pub fn at(&self, program: usize, lock: usize, at: At) -> Option<(usize, f64)> {
        let number = |nodes: usize| Some((nodes, self.cell(program, nodes, lock)?));
        match at {
            At::Place(nodes) => number(nodes),
            At::Fewest => number(*self.nodes(program).first()?),
            At::Most => number(*self.nodes(program).last()?),
            // Of equal ones the fewest nodes.
            At::Best => (0..self.grid.nodes.len())
                .filter_map(number)
                .reduce(|best, next| if next.1 > best.1 { next } else { best }),
        }
    }

    /// The numbers of all locks for a program.
    pub fn line(&self, program: usize, at: At) -> Vec<Option<f64>> {
        let at = match (at, self.nodes(program).as_slice()) {
            (At::Fewest, [first, ..]) => At::Place(*first),
            (At::Most, [.., last]) => At::Place(*last),
            (at, _) => at,
        };
        (0..self.grid.locks.len()).map(|lock| Some(self.at(program, lock, at)?.1)).collect()
    }
}

/// The largest number of a line.
pub fn best(line: &[Option<f64>]) -> Option<f64> {
    line.iter().copied().flatten().reduce(f64::max)
}

/// Which of two numbers is better, by more than the margin: section 5 of the paper calls A better than B if B is below
/// 95 % of A.
pub fn order(a: f64, b: f64, tie: f64) -> Ordering {
    match () {
        _ if b < (1.0 - tie) * a => Ordering::Greater,
        _ if a < (1.0 - tie) * b => Ordering::Less,
        _ => Ordering::Equal,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Runs of one program: for each number of nodes the runs on each lock; 0 stands for a run that failed.
    pub(crate) fn runs(program: &str, cells: &[(u32, &str, &[f64])]) -> Vec<Observation> {
        let of = |(nodes, lock, values): &(u32, &str, &[f64])| {
            let (nodes, lock) = (*nodes, lock.to_string());
            let run = move |(round, value): (usize, &f64)| Observation {
                program: program.into(),
                nodes,
                lock: lock.clone(),
                round: Some(round as u32),
                value: Some(*value).filter(|value| *value > 0.0),
            };
            values.iter().enumerate().map(run).collect::<Vec<_>>()
        };
        cells.iter().flat_map(of).collect()
    }

    #[test]
    fn runs_are_sorted_into_cells() {
        let mut all = runs("p", &[(4, "b", &[6.0]), (1, "b", &[2.0, 4.0]), (4, "a", &[9.0, 0.0]), (1, "a", &[5.0])]);
        all.extend(runs("o", &[(2, "b", &[1.0])]));
        let grid = Grid::new("m", &all);
        assert_eq!((grid.programs.join(" "), grid.locks.join(" ")), ("o p".into(), "a b".into()));
        assert_eq!(grid.nodes, [1, 2, 4]);
        assert_eq!(grid.cell(1, 0, 1), &Cell { values: vec![2.0, 4.0], rounds: vec![0, 1], failed: 0 });
        assert_eq!(grid.cell(1, 2, 0).failed, 1);
        let means = grid.means();
        assert_eq!(means.cell(1, 0, 1), Some(3.0));
        assert_eq!(means.cell(1, 2, 0), None, "a failed run takes the cell out");
        assert_eq!((means.nodes(0), means.nodes(1)), (vec![1], vec![0, 2]));
        assert_eq!(means.at(1, 1, At::Best), Some((2, 6.0)));
        assert_eq!(means.at(1, 0, At::Best), Some((0, 5.0)));
        assert_eq!(means.line(1, At::Most), [None, Some(6.0)]);
        assert_eq!(means.line(1, At::Fewest), [Some(5.0), Some(3.0)]);
        assert_eq!(means.line(1, At::Place(1)), [None, None]);
    }

    #[test]
    fn better_is_by_more_than_the_margin() {
        assert_eq!(order(100.0, 94.9, 0.05), Ordering::Greater);
        assert_eq!(order(94.9, 100.0, 0.05), Ordering::Less);
        assert_eq!(order(100.0, 95.1, 0.05), Ordering::Equal);
    }
}
