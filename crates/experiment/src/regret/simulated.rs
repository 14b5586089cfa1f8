//! Regret on described machines: a run of the simulator for each lock, cell and seed.

use super::cells::{Cell, Cells};
use super::finding::{Finding, Round, Runs};
use crate::simulated::Row;
use lockswap_platform::Ns;
use lockswap_sim::{Invalid, Job, Machine};
use std::ops::Range;

/// CPU time of a run for a millisecond of virtual time, seconds, and for each thread besides where there are more of
/// them than CPUs and those that wait yield again and again: what the cells of the program take on an AMD EPYC, on
/// average. Locks and bodies differ by factors.
const COST_PER_MS: f64 = 0.003;
const COST_PER_THREAD_MS: f64 = 0.000_14;

/// The locks to run, each once, since a simulation comes out the same twice: the subject, then the candidates.
pub fn locks(subject: &str, cells: &Cells) -> Vec<String> {
    let others = cells.candidates.iter().filter(|lock| *lock != subject).cloned();
    std::iter::once(subject.to_owned()).chain(others).collect()
}

/// What is to be simulated.
pub struct Plan {
    /// The cells.
    pub cells: Vec<Cell>,
    /// The subject, then the others.
    pub locks: Vec<String>,
    /// The candidates, of which the subject may be one.
    candidates: Vec<String>,
    fairness_factor: f64,
    seeds: Range<u64>,
    /// The number of a cell and a seed, for each of which all locks run.
    rounds: Vec<(usize, u64)>,
    duration: Option<Ns>,
    /// Cell by cell.
    machines: Vec<Machine>,
}

impl Plan {
    /// The plan for these cells.
    ///
    /// # Errors
    /// A cell names a machine that there is not.
    pub fn new(
        cells: Vec<Cell>,
        (locks, candidates): (Vec<String>, &[String]),
        fairness_factor: f64,
        (seeds, duration): (Range<u64>, Option<Ns>),
    ) -> Result<Self, Invalid> {
        let machines = cells.iter().map(machine).collect::<Result<_, _>>()?;
        // Of each seed every cell, so that there is something of each cell early on.
        let rounds = seeds.clone().flat_map(|seed| (0..cells.len()).map(move |cell| (cell, seed))).collect();
        Ok(Self { cells, locks, candidates: candidates.to_vec(), fairness_factor, seeds, rounds, duration, machines })
    }

    /// All runs.
    pub fn jobs(&self) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        for &(cell, seed) in &self.rounds {
            let (cell, machine) = (&self.cells[cell], &self.machines[cell]);
            let Some(workload) = cell.workload(self.duration) else { continue };
            for lock in &self.locks {
                jobs.push(Job { machine, workload: workload.clone(), lock, seed });
            }
        }
        jobs
    }

    /// Adds as many seeds as there were in the beginning to cells that are not precise after all runs so far, unless
    /// that makes more than `most`; whether there are any.
    pub fn extend(&mut self, rows: &[Option<Row>], most: u32) -> bool {
        let made = self.rounds.len();
        let found = self.findings(rows);
        for (cell, _) in found.iter().enumerate().filter(|(_, finding)| !finding.is_precise()) {
            let seeds = self.rounds.iter().filter(|(known, _)| *known == cell).count() as u64;
            let next = self.seeds.start.saturating_add(seeds);
            let end = next.saturating_add(self.seeds.end - self.seeds.start);
            if end - self.seeds.start <= u64::from(most) {
                self.rounds.extend((next..end).map(|seed| (cell, seed)));
            }
        }
        self.rounds.len() > made
    }

    /// How long all runs take on the CPUs of this machine, seconds, about.
    pub fn estimate(&self) -> f64 {
        let of = |(cell, machine): (&Cell, &Machine)| {
            let virtual_ms = self.duration.unwrap_or(cell.duration) as f64 / 1e6;
            let yielding = if cell.threads > machine.cpu_count() { cell.threads as f64 } else { 0.0 };
            virtual_ms * (COST_PER_MS + COST_PER_THREAD_MS * yielding)
        };
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get());
        let rounds = self.rounds.iter().map(|&(cell, _)| of((&self.cells[cell], &self.machines[cell])));
        rounds.sum::<f64>() * self.locks.len() as f64 / cpus as f64
    }

    /// What the runs so far say; `rows` are in the order of the jobs.
    pub fn findings(&self, rows: &[Option<Row>]) -> Vec<Finding> {
        let of = |(number, cell): (usize, &Cell)| {
            let places = self.rounds.iter().enumerate().filter(|(_, (known, _))| *known == number);
            let places: Vec<usize> = places.map(|(round, _)| round * self.locks.len()).collect();
            let runs = |lock: &String| {
                let place = self.locks.iter().position(|known| known == lock)?;
                let rows = || places.iter().map(|first| rows.get(first + place).and_then(Option::as_ref));
                let report = |row: Option<&Row>| Some(Round::of(&row?.outcome.as_ref().ok()?.report));
                let failed = rows().flatten().find_map(|row| row.outcome.as_ref().err());
                let rounds = rows().map(report).collect();
                Some(Runs { lock: lock.clone(), rounds, failure: failed.map(ToString::to_string) })
            };
            let subject = runs(&self.locks[0])?;
            let candidates = self.candidates.iter().filter_map(runs).collect();
            Some(Finding::of(cell.clone(), subject, candidates, self.fairness_factor))
        };
        self.cells.iter().enumerate().filter_map(of).collect()
    }
}

/// The machine of a cell. With more threads than CPUs, waits that spin end in naps, as those of the shipped library
/// do.
fn machine(cell: &Cell) -> Result<Machine, Invalid> {
    let id = cell.machine.as_deref().unwrap_or_default();
    let machine = Machine::built_in(id, &[])?;
    if cell.threads <= machine.cpu_count() {
        return Ok(machine);
    }
    Machine::built_in(id, &[("scheduler.patience".to_owned(), "true".to_owned())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regret::cells::Cells;
    use crate::simulated::run_each;
    use lockswap_study::stats::Difference;

    const CELLS: &str = r#"
candidates = ["futex", "mcs_spin"]
fairness_factor = 0.8
rounds = 2
targets = { worst = 0.8, mean = 0.95 }
[[machine]]
id = "apple-m1"
threads = [1, 16]
[[body]]
name = "short"
workload = "counter"
duration = "200us"
[held_out]
seed = 1
cells = []
"#;

    /// The runs of a cell are told apart from all others, and a cell whose runs are missing has no ratio.
    #[test]
    fn each_cell_gets_its_own_runs() {
        let cells = Cells::read("a.toml", CELLS).expect("cells");
        let locks = ["ttas", "futex", "mcs_spin"].map(str::to_owned).to_vec();
        let mut plan = Plan::new(cells.cells.clone(), (locks, &cells.candidates), 1.0, (1..4, None)).expect("a plan");
        let jobs = plan.jobs();
        assert_eq!(jobs.len(), 18);
        let mut rows = run_each(&jobs, |_| {}, |_| Ok::<(), ()>(())).expect("runs");
        let found = plan.findings(&rows);
        assert_eq!(found.iter().map(|finding| finding.cell.threads).collect::<Vec<_>>(), [1, 16]);
        for (finding, cell) in found.iter().zip(0..) {
            let row = |seed: usize, lock: usize| rows[(seed * 2 + cell) * 3 + lock].as_ref().expect("a run");
            let throughput = |seed, lock| row(seed, lock).outcome.as_ref().expect("a result").report.throughput;
            let own: Vec<f64> = finding.subject.rounds.iter().map(|round| round.expect("a run").throughput).collect();
            assert_eq!(own, [throughput(0, 0), throughput(1, 0), throughput(2, 0)]);
            // The second seed measures what the others have picked, and these what that has.
            let larger = |of: &dyn Fn(usize) -> f64| if of(1) > of(2) { 1 } else { 2 };
            let odd = larger(&|lock| throughput(0, lock) + throughput(2, lock));
            let even = larger(&|lock| throughput(1, lock));
            let pair = |(seed, best)| (throughput(seed, 0), throughput(seed, best));
            let expected = Difference::of(&[(0, even), (1, odd), (2, even)].map(pair)).expect("pairs").ratio();
            assert_eq!(finding.ratio(), expected, "{finding:?}");
        }
        // Three seeds give no interval.
        let counts = |plan: &Plan| [0, 1].map(|cell| plan.rounds.iter().filter(|(of, _)| *of == cell).count());
        drop(jobs);
        assert!(plan.extend(&rows, 6) && counts(&plan) == [6, 6], "{:?}", plan.rounds);
        assert_eq!(plan.rounds[6..], [(0, 4), (0, 5), (0, 6), (1, 4), (1, 5), (1, 6)]);
        assert!(!plan.extend(&rows, 6), "there are no more");
        rows[3..].iter_mut().for_each(|row| *row = None);
        let found = plan.findings(&rows);
        assert!(found[0].best.is_ok() && found[0].ratio().is_none() && found[1].best.is_err(), "{found:?}");
    }
}
