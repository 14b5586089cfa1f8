//! All runs on hardware, round by round.
//!
//! A virtual machine is moved from CPUs to others now and then, and a line between two of its CPUs then takes several times
//! as long, or less. So the line between the nearest cores is measured throughout each round, and only rounds count in which
//! it stays the same: the largest set of such rounds. Others are made up for, up to as many again. The passes of the probe
//! are taken between the rounds, so that the simulated machine is the one that the rounds ran on.

use std::io::IsTerminal;

use lockswap_sim::host::{line_now, Found};

use super::hardware::Run;
use super::plan::Plan;
use lockswap_study::runner::Interrupt;

use crate::error::UserError;
use crate::sim::host::Host;

/// Lines of one machine differ by less than this factor.
pub const SAME: f64 = 1.3;

/// One round.
struct Round {
    /// Nothing where the machine has one core.
    lines: Vec<f64>,
    probed: Found,
    /// By case and lock: operations per second and the share of the busier half of the threads; `None` after a failure.
    runs: Vec<Vec<Option<(f64, f64)>>>,
}

/// All rounds, and which of them count.
pub struct Measured {
    rounds: Vec<Round>,
    chosen: Vec<usize>,
    /// A line each.
    pub failures: Vec<String>,
}

impl Measured {
    /// What the rounds that count gave.
    pub fn runs(&self, case: usize, lock: usize) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.chosen.iter().filter_map(move |round| self.rounds[*round].runs[case][lock])
    }

    /// What the probe found meanwhile.
    pub fn probed(&self) -> Found {
        let mut all = Found::default();
        self.chosen.iter().for_each(|round| all.extend(self.rounds[*round].probed.clone()));
        all
    }

    /// The lines of the rounds that count, or of those that do not.
    pub fn lines(&self, counts: bool) -> impl Iterator<Item = f64> + '_ {
        let wanted = self.rounds.iter().enumerate().filter(move |(number, _)| self.chosen.contains(number) == counts);
        wanted.flat_map(|(_, round)| round.lines.iter().copied())
    }

    /// Rounds that were measured to their ends.
    pub fn count(&self) -> usize {
        self.rounds.len()
    }

    /// Rounds that do not count.
    pub fn left_out(&self) -> usize {
        self.rounds.len() - self.chosen.len()
    }
}

/// The largest set of rounds whose lines are alike, as numbers of rounds; all of them if there is none.
fn alike(rounds: &[&[f64]]) -> Vec<usize> {
    let within = |lines: &[f64], least: f64| lines.iter().all(|line| (least..least * SAME).contains(line));
    let starting_at =
        |least: f64| -> Vec<usize> { (0..rounds.len()).filter(|&number| within(rounds[number], least)).collect() };
    let sets = rounds.iter().flat_map(|lines| lines.iter()).map(|least| starting_at(*least));
    let largest = sets.reduce(|best, next| if next.len() > best.len() { next } else { best });
    largest.filter(|set| !set.is_empty()).unwrap_or_else(|| (0..rounds.len()).collect())
}

/// Makes the rounds. A lock that fails with a workload is left out there from then on.
/// An interrupted round is left out.
pub fn measure(plan: &Plan, host: &Host, interrupt: &Interrupt) -> Result<Measured, UserError> {
    let per_round: usize = plan.cases.iter().map(|case| case.locks.len()).sum();
    let bar = match std::io::stderr().is_terminal() {
        true => crate::compare::bar(u64::from(plan.rounds) * per_round as u64),
        false => indicatif::ProgressBar::hidden(),
    };
    let wanted = plan.rounds as usize;
    let mut measured = Measured { rounds: Vec::new(), chosen: Vec::new(), failures: Vec::new() };
    let mut failed: Vec<(usize, usize)> = Vec::new();
    'rounds: while measured.chosen.len() < wanted && measured.rounds.len() < 2 * wanted {
        if measured.rounds.len() >= wanted {
            bar.inc_length(per_round as u64);
        }
        let probed = if plan.machine.is_none() { host.pass()? } else { Found::default() };
        let mut round = Round { lines: Vec::new(), probed, runs: Vec::new() };
        for (number, case) in plan.cases.iter().enumerate() {
            round.lines.extend(line_now(host.shape()));
            let locks = case.locks.len();
            let mut runs = vec![None; locks];
            // Another one first in each round: the first one after a change finds the caches and the scheduler as they were.
            for lock in (0..locks).map(|lock| (lock + 5 * measured.rounds.len()) % locks) {
                bar.inc(1);
                if failed.contains(&(number, lock)) {
                    continue;
                }
                bar.set_message(format!("{}, {}", case.name, case.locks[lock]));
                let run = Run {
                    workload: case.run(plan.length(case, plan.duration)),
                    lock: case.locks[lock].clone(),
                    cpus: plan.seats.clone(),
                };
                let made = run.make(plan.length(case, plan.duration));
                if interrupt.signal().is_some() {
                    break 'rounds;
                }
                match made {
                    Ok(report) => runs[lock] = Some((report.throughput, report.fairness_factor)),
                    Err(error) => {
                        failed.push((number, lock));
                        measured.failures.push(format!("{}, {}, measured: {error:#}", case.title(), case.locks[lock]));
                    }
                }
            }
            round.runs.push(runs);
        }
        round.lines.extend(line_now(host.shape()));
        measured.rounds.push(round);
        let lines: Vec<&[f64]> = measured.rounds.iter().map(|round| round.lines.as_slice()).collect();
        measured.chosen = alike(&lines);
    }
    bar.finish_and_clear();
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_of_the_same_machine_count() {
        let rounds: [&[f64]; 5] = [&[30.0, 31.0], &[120.0, 125.0], &[30.0, 120.0], &[29.0, 33.0], &[128.0, 121.0]];
        assert_eq!(alike(&rounds[..4]), [0, 3]);
        assert_eq!(alike(&rounds[1..]), [0, 3], "those at 120 to 128 ns");
        assert_eq!(alike(&[&[], &[]]), [0, 1], "one core: nothing tells rounds apart");
        assert_eq!(alike(&[&[30.0, 90.0]]), [0], "nothing better");
    }
}
