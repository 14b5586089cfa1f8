//! All runs on hardware, round by round.
//!
//! A virtual machine is moved from CPUs to others now and then, and a line between two of its CPUs then takes several
//! times as long, or less. So the line between the nearest cores is measured throughout each round, and only rounds
//! count in which it stays the same: the largest set of such rounds. Others are made up for, up to as many again. Each
//! round begins with a pass of the probe, so that the simulated machine is the one that the rounds ran on.

use lockswap_platform::Ns;
use lockswap_sim::host::{line_now, Found};
use lockswap_sim::Invalid;
use lockswap_workloads::report::Report;

use super::hardware::Run;
use super::plan::Plan;
use crate::host::Host;
use crate::Progress;

/// Lines of one machine differ by less than this factor.
pub const SAME: f64 = 1.3;

/// One round.
struct Round {
    /// Nothing where the machine has one core.
    lines: Vec<f64>,
    probed: Found,
    /// By case and lock: operations per second and the share of the busier half of the threads; `None` after a
    /// failure.
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

    /// Whether no run has come to its end.
    pub fn is_empty(&self) -> bool {
        self.rounds.iter().all(|round| round.runs.iter().flatten().all(Option::is_none))
    }

    /// How many rounds there are.
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

/// How a run on hardware is made, which takes about so long; why it could not be made, in words.
pub type Make<'a> = dyn Fn(&Run, Ns) -> Result<Report, String> + 'a;

/// How many runs there are at least.
pub fn runs(plan: &Plan) -> u64 {
    u64::from(plan.rounds) * per_round(plan)
}

fn per_round(plan: &Plan) -> u64 {
    plan.cases.iter().map(|case| case.locks.len() as u64).sum()
}

/// Makes the rounds. A lock that fails with a workload is left out there from then on. A round that was `interrupted`
/// counts if there is no other one.
///
/// # Errors
/// The machine cannot be probed.
pub fn measure(
    plan: &Plan,
    host: &Host,
    make: &Make<'_>,
    progress: &dyn Progress,
    interrupted: &dyn Fn() -> bool,
) -> Result<Measured, Invalid> {
    let wanted = plan.rounds as usize;
    let mut measured = Measured { rounds: Vec::new(), chosen: Vec::new(), failures: Vec::new() };
    let mut failed: Vec<(usize, usize)> = Vec::new();
    while measured.chosen.len() < wanted && measured.rounds.len() < 2 * wanted && !interrupted() {
        if measured.rounds.len() >= wanted {
            progress.expect(per_round(plan));
        }
        progress.begins("the machine");
        // Before the pass of the probe; the first case has it measured again after that.
        let lines = line_now(host.shape()).into_iter().collect();
        let probed = if plan.machine.is_none() { host.pass()? } else { Found::default() };
        let mut round = Round { lines, probed, runs: Vec::new() };
        for (number, case) in plan.cases.iter().enumerate() {
            round.lines.extend(line_now(host.shape()));
            let locks = case.locks.len();
            let mut runs = vec![None; locks];
            // Another one first in each round: the first one after a change finds the caches and the scheduler as they
            // were.
            for lock in (0..locks).map(|lock| (lock + 5 * measured.rounds.len()) % locks) {
                if interrupted() {
                    break;
                }
                progress.begins(&format!("{}, {}", case.name, case.locks[lock]));
                if failed.contains(&(number, lock)) {
                    progress.done();
                    continue;
                }
                let run = Run {
                    workload: case.run(plan.length(case, plan.duration)),
                    lock: case.locks[lock].clone(),
                    cpus: plan.seats.clone(),
                };
                let made = make(&run, plan.length(case, plan.duration));
                progress.done();
                match made {
                    Ok(report) => runs[lock] = Some((report.throughput, report.fairness_factor)),
                    // A signal from a terminal reaches the measuring process, too.
                    Err(_) if interrupted() => {}
                    Err(error) => {
                        failed.push((number, lock));
                        measured.failures.push(format!("{}, {}, measured: {error}", case.title(), case.locks[lock]));
                    }
                }
            }
            round.runs.push(runs);
        }
        if interrupted() && !measured.rounds.is_empty() {
            break;
        }
        round.lines.extend(line_now(host.shape()));
        measured.rounds.push(round);
        let lines: Vec<&[f64]> = measured.rounds.iter().map(|round| round.lines.as_slice()).collect();
        measured.chosen = alike(&lines);
    }
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
