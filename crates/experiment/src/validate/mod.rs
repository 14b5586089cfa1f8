//! The same workloads on the same locks, on hardware and simulated, side by side.
//!
//! - [`plan`] is what is to be compared, [`hardware`] one run on hardware, and [`rounds`] all of them.
//! - [`judge`] compares, [`simulate`] makes the simulated runs and has everything judged, [`report`] and
//!   [`output`] write it down.

pub mod hardware;
pub mod judge;
pub mod output;
pub mod plan;
pub mod report;
pub mod rounds;

use std::convert::Infallible;

use lockswap_sim::{Invalid, Job, Machine};
use lockswap_study::descriptive::median;
use lockswap_study::machine::Machine as About;
use lockswap_workloads::workload::Workload;

use crate::simulated::{run_each, Row};
use judge::{Group, Sample, Summary, Verdict, FACTORS};
use plan::{Case, Plan};
use rounds::Measured;

/// What the runs of one workload with so many threads gave.
pub struct Outcome {
    /// The number of the case in the plan.
    case: usize,
    /// Steps that a holder computed in the simulation for the instructions of its map operation, which are not
    /// simulated: so many that one thread is as fast as measured, on the geometric mean of the locks. 0 for other
    /// workloads than the map's, for one with steps of its own, and where one thread was not measured.
    pub fitted: u64,
    /// Lock by lock.
    pub samples: Vec<Sample>,
    /// The locks without those that failed; nothing where fewer than two are left.
    pub group: Option<Group>,
}

impl Outcome {
    /// Its case.
    pub fn case<'a>(&self, plan: &'a Plan) -> &'a Case {
        &plan.cases[self.case]
    }
}

/// Everything that was found.
pub struct Findings {
    /// What was to be compared.
    pub plan: Plan,
    /// The machine that was measured, before that.
    pub about: About,
    /// Case by case.
    pub outcomes: Vec<Outcome>,
    /// A line between the nearest cores during the rounds that count, and those that do not, ns.
    pub lines: Vec<f64>,
    /// Those of the rounds that do not count.
    pub other_lines: Vec<f64>,
    /// Rounds that do not count.
    pub left_out: usize,
    /// What went wrong, a line each.
    pub failures: Vec<String>,
}

impl Findings {
    /// The cases that could be judged.
    pub fn groups(&self) -> impl Iterator<Item = (&Outcome, &Group)> {
        self.outcomes.iter().filter_map(|outcome| Some((outcome, outcome.group.as_ref()?)))
    }

    /// Those whose number of threads is `wanted`, in a few numbers.
    pub fn summary(&self, wanted: impl Fn(u32) -> bool) -> Option<Summary> {
        let chosen = self.groups().filter(|(outcome, _)| wanted(outcome.case(&self.plan).threads));
        Summary::of(&chosen.map(|(_, group)| group).collect::<Vec<_>>())
    }

    /// The locks that are more than 1.25 times off, beyond what their rounds leave open, the farthest first.
    pub fn worst(&self) -> Vec<(&Outcome, &Verdict)> {
        let all = self.groups().flat_map(|(outcome, group)| group.locks.iter().map(move |lock| (outcome, lock)));
        let mut worst: Vec<_> =
            all.filter(|(_, lock)| !lock.is_within_noise() && lock.factor() >= FACTORS[1]).collect();
        worst.sort_by(|one, other| other.1.factor().total_cmp(&one.1.factor()));
        worst
    }
}

/// Who is told of simulated runs: of how many there are next, of each that begins, and every now and then of those
/// that have ended.
pub struct Watch<'a> {
    /// So many runs come next.
    pub next: &'a dyn Fn(u64),
    /// A run begins, on the thread that makes it.
    pub starting: &'a (dyn Fn(&Job<'_>) + Sync),
    /// What has been found of the runs that were announced.
    pub look: &'a dyn Fn(&[Option<Row>]),
}

impl Watch<'_> {
    fn run_all(&self, jobs: &[Job<'_>]) -> Vec<Row> {
        (self.next)(jobs.len() as u64);
        let look = |rows: &[Option<Row>]| -> Result<(), Infallible> {
            (self.look)(rows);
            Ok(())
        };
        run_each(jobs, self.starting, look).into_iter().flatten().flatten().collect()
    }
}

/// See [`Outcome::fitted`], case by case.
fn fitted_steps(plan: &Plan, machine: &Machine, measured: &Measured, watch: &Watch<'_>) -> Vec<u64> {
    let mut fitted = vec![0; plan.cases.len()];
    for (number, case) in plan.cases.iter().enumerate() {
        let Workload::Kv(config) = &case.workload else { continue };
        if case.threads != 1 || config.inside > 0 {
            continue;
        }
        let jobs: Vec<Job<'_>> = case.locks.iter().map(|lock| plan.job(machine, case, lock, 0)).collect();
        let times = watch.run_all(&jobs).into_iter().enumerate().filter_map(|(lock, row)| {
            let throughputs: Vec<f64> = measured.runs(number, lock).map(|run| run.0).collect();
            let measured = median(&throughputs).filter(|median| *median > 0.0)?;
            Some(1e9 / measured - 1e9 / row.outcome.ok()?.report.throughput)
        });
        let missing = median(&times.collect::<Vec<_>>()).unwrap_or_default();
        let steps = (missing / machine.step_ns()).round().max(0.0) as u64;
        let same = |other: &&Case| other.name == case.name;
        let of_this = plan.cases.iter().enumerate().filter(|(_, other)| same(other)).map(|(other, _)| other);
        of_this.for_each(|other| fitted[other] = steps);
    }
    fitted
}

/// Makes all simulated runs and judges them next to what was measured on `about`.
///
/// # Errors
/// The plan has no machine to simulate yet.
pub fn simulate(plan: Plan, about: About, measured: &Measured, watch: &Watch<'_>) -> Result<Findings, Invalid> {
    let machine =
        plan.machine.as_ref().ok_or_else(|| Invalid::new("there is no machine to simulate", "probe this one"))?;
    let fitted = fitted_steps(&plan, machine, measured, watch);
    let of_case = |(case, steps): (_, &u64)| {
        let (case, steps): (&Case, u64) = (case, *steps);
        let plan = &plan;
        case.locks.iter().map(move |lock| plan.job(machine, case, lock, steps))
    };
    let jobs: Vec<Job<'_>> = plan.cases.iter().zip(&fitted).flat_map(of_case).collect();
    let mut rows = watch.run_all(&jobs).into_iter();
    let (mut outcomes, mut failures) = (Vec::new(), measured.failures.clone());
    for (number, case) in plan.cases.iter().enumerate() {
        let rows = rows.by_ref().take(case.locks.len()).enumerate();
        let samples = rows.map(|(lock, row)| sample(case, row, measured.runs(number, lock).unzip(), &mut failures));
        let samples: Vec<Sample> = samples.collect();
        outcomes.push(Outcome { case: number, fitted: fitted[number], group: None, samples });
    }
    for outcome in &mut outcomes {
        outcome.group = group(outcome.case(&plan), &outcome.samples, &mut failures);
    }
    Ok(Findings {
        about,
        outcomes,
        lines: measured.lines(true).collect(),
        other_lines: measured.lines(false).collect(),
        left_out: measured.left_out(),
        failures,
        plan,
    })
}

/// What a lock did; `measured` are the throughputs of the rounds, and the shares of the busier half of the threads.
fn sample(case: &Case, row: Row, measured: (Vec<f64>, Vec<f64>), failures: &mut Vec<String>) -> Sample {
    let (mut simulated, mut fairness) = (0.0, 0.0);
    match &row.outcome {
        Ok(run) => (simulated, fairness) = (run.report.throughput, run.report.fairness_factor),
        Err(failure) => failures.push(format!("{}, {}, simulated: {failure}", case.title(), row.lock)),
    }
    let (measured, shares) = measured;
    let share = median(&shares).unwrap_or_default();
    Sample { lock: row.lock, simulated, fairness: [share, fairness], measured }
}

/// The locks of a case that have results on both sides.
fn group(case: &Case, samples: &[Sample], failures: &mut Vec<String>) -> Option<Group> {
    let title = case.title();
    let idle = |sample: &Sample| median(&sample.measured).is_none_or(|median| median <= 0.0);
    let (idle, rest): (Vec<Sample>, Vec<Sample>) = samples.iter().cloned().partition(idle);
    let did_nothing = idle.iter().filter(|sample| !sample.measured.is_empty());
    failures.extend(did_nothing.map(|sample| {
        format!("{title}, {}, measured: no operation in most of its rounds; give it a longer --duration", sample.lock)
    }));
    let rest: Vec<Sample> = rest.into_iter().filter(|sample| sample.simulated > 0.0).collect();
    let group = Group::of(&rest);
    if group.is_none() {
        failures.push(format!("{title}: fewer than two locks have results"));
    }
    group
}
