//! What the papers claim, next to what the simulated machines show. `claims/claims.toml` has the claims.
//!
//! - [`changes`] says what was fitted or changed when results were at hand, and so what kind of evidence a claim is.
//! - [`judge`] has the rule by which a claim agrees, and the error factors of the machines.
//! - [`seeds`] says how many runs a claim needs.
//! - [`golden`] is what the numbers were before.
//! - [`sensitivity`] moves the parameters of the machines, which [`knobs`] finds, and sees how far claims move.
//! - [`output`] gives tables, Markdown, HTML, CSV and JSON.

pub mod changes;
pub mod golden;
pub mod judge;
pub mod knobs;
pub mod output;
pub mod seeds;
pub mod sensitivity;

use std::collections::HashMap;

use lockswap_platform::parse_duration;
use lockswap_sim::{Job, Machine, Workload};
use lockswap_workloads::report::Report;
use serde::{Deserialize, Serialize};

use crate::simulated::Row as Done;

const CLAIMS: &str = include_str!("claims/claims.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "claim")]
    claims: Vec<Claim>,
}

/// A number from a paper, and the runs that should give it; `claims.toml` says what the fields mean.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// The paper, and where in it.
    pub source: String,
    /// The claim in words.
    pub says: String,
    /// The id of the described machine.
    pub machine: String,
    workload: String,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    machine_set: Vec<String>,
    #[serde(default = "usual_duration")]
    duration: String,
    #[serde(default)]
    metric: Metric,
    #[serde(default = "all")]
    class: String,
    of: Run,
    #[serde(default)]
    to: Vec<Run>,
    under: Option<Limit>,
    #[serde(default = "one")]
    scale: f64,
    /// The paper's number.
    pub value: f64,
    /// What the paper says about it.
    #[serde(default)]
    pub relation: Relation,
    /// Why the number is true by construction, if it is.
    pub structural: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Run {
    lock: String,
    threads: usize,
    /// Of this run, if not the claim's.
    class: Option<String>,
    /// Of this run, if not the claim's.
    duration: Option<String>,
    #[serde(default)]
    set: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Metric {
    #[default]
    Throughput,
    FairnessFactor,
    HandoverNs,
    P99Ns,
    Waiters,
}

/// A bound on the times of a class of threads or epochs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Limit {
    class: String,
    p99_ns: f64,
}

impl Limit {
    fn holds(&self, report: &Report) -> bool {
        report.latency.get(&self.class).is_some_and(|times| times.p99_ns as f64 <= self.p99_ns)
    }
}

/// What the paper says about the number.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
pub enum Relation {
    /// It is that number.
    #[default]
    #[serde(rename = "about")]
    About,
    /// It is that number or a larger one.
    #[serde(rename = "at least")]
    AtLeast,
    /// It is that number or a smaller one.
    #[serde(rename = "at most")]
    AtMost,
}

fn usual_duration() -> String {
    "20ms".into()
}

fn all() -> String {
    "all".into()
}

fn one() -> f64 {
    1.0
}

impl Metric {
    fn of(self, class: &str, report: &Report) -> Option<f64> {
        match self {
            Metric::Throughput => Some(report.throughput),
            Metric::FairnessFactor => Some(report.fairness_factor),
            Metric::HandoverNs => report.handoffs.as_ref()?.handover_ns,
            Metric::P99Ns => Some(report.latency.get(class)?.p99_ns as f64),
            Metric::Waiters => report.waiters,
        }
    }
}

/// What the runs of a claim gave.
pub struct Outcome<'a> {
    /// The claim.
    pub claim: &'a Claim,
    /// Its place among the claims that were examined.
    pub place: usize,
    /// Its number, seed by seed.
    pub simulated: Vec<f64>,
    /// The mean of those.
    pub mean: Option<f64>,
    /// What went wrong, run by run.
    pub failures: Vec<String>,
}

impl Outcome<'_> {
    /// Whether its numbers need no more seeds.
    fn is_enough(&self) -> bool {
        let numbers = &self.simulated;
        let bound = match self.claim.range() {
            [Some(bound), None] | [None, Some(bound)] => Some(bound),
            _ => None,
        };
        seeds::is_precise(numbers) || bound.is_some_and(|bound| seeds::are_apart(numbers, bound))
    }
}

/// All claims. The file is part of the program, so its mistakes are the program's.
pub fn claims() -> Vec<Claim> {
    toml::from_str::<File>(CLAIMS).expect("claims.toml is right").claims
}

fn pair(setting: &str) -> (&str, &str) {
    setting.split_once('=').expect("KEY=VALUE in claims.toml")
}

fn machine(claim: &Claim) -> Machine {
    let changes = claim.machine_set.iter().map(|setting| pair(setting));
    let changes: Vec<_> = changes.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    Machine::built_in(&claim.machine, &changes).unwrap_or_else(|error| panic!("{}: {error}", claim.id))
}

fn workload(claim: &Claim, run: &Run) -> Workload {
    let mut workload = Workload::named(&claim.workload).expect("a workload of claims.toml");
    for setting in claim.set.iter().chain(&run.set) {
        let (key, value) = pair(setting);
        workload.set(key, value).unwrap_or_else(|error| panic!("{}: {error}", claim.id));
    }
    let duration = parse_duration(run.duration.as_ref().unwrap_or(&claim.duration)).expect("a duration in claims.toml");
    workload.with(run.threads, duration)
}

impl Claim {
    fn runs(&self) -> impl Iterator<Item = &Run> {
        std::iter::once(&self.of).chain(&self.to)
    }

    /// The claim's number in runs with one seed, in the order of [`Claim::runs`].
    fn number(&self, rows: &[&Done]) -> Option<f64> {
        let reports: Vec<&Report> =
            rows.iter().map(|row| Some(&row.outcome.as_ref().ok()?.report)).collect::<Option<_>>()?;
        let value = |(run, report): (&Run, &&Report)| self.metric.of(run.class.as_ref().unwrap_or(&self.class), report);
        let own = value((&self.of, reports.first()?))?;
        if self.to.is_empty() {
            return Some(own / self.scale);
        }
        let within = |(_, report): &(&Run, &&Report)| self.under.as_ref().is_none_or(|limit| limit.holds(report));
        let others = self.to.iter().zip(&reports[1..]).filter(within).map(value).collect::<Option<Vec<f64>>>()?;
        others.into_iter().reduce(f64::max).map(|best| own / best)
    }
}

/// Claims, and the machines that they are about.
pub struct Examination {
    claims: Vec<Claim>,
    machines: Vec<Machine>,
    seeds: u32,
}

/// The runs that claims need. Claims share runs.
#[derive(Default)]
pub struct Runs<'a> {
    /// Each run once.
    pub jobs: Vec<Job<'a>>,
    /// Which of them it is: by machine, changes of that, workload, lock and seed.
    known: HashMap<(&'a str, &'a [String], String, &'a str, u64), usize>,
    /// For each claim, seed by seed and run by run, which of them it is.
    needs: Vec<Vec<usize>>,
}

impl Examination {
    /// Of these claims, with so many seeds at the most, from 1 on.
    pub fn of(claims: Vec<Claim>, seeds: u32) -> Self {
        Self { machines: claims.iter().map(machine).collect(), claims, seeds }
    }

    /// The runs with all seeds.
    pub fn runs(&self) -> Runs<'_> {
        let mut runs = Runs::default();
        (0..self.claims.len()).for_each(|place| self.add(&mut runs, place, self.seeds));
        runs
    }

    /// The runs to begin with, where [`seeds`] decides how many follow.
    pub fn first_runs(&self) -> Runs<'_> {
        let mut runs = Runs::default();
        (0..self.claims.len()).for_each(|place| self.add(&mut runs, place, seeds::next(0, self.seeds)));
        runs
    }

    /// Adds runs with more seeds for the claims whose numbers, as all runs so far gave them, are not enough; whether
    /// there are any.
    pub fn add_runs<'a>(&'a self, runs: &mut Runs<'a>, rows: &[Option<Done>]) -> bool {
        let before = runs.jobs.len();
        for outcome in self.outcomes(runs, rows) {
            let made = (runs.needs[outcome.place].len() / (1 + outcome.claim.to.len())) as u32;
            if made < self.seeds && !outcome.is_enough() {
                self.add(runs, outcome.place, seeds::next(made, self.seeds));
            }
        }
        runs.jobs.len() > before
    }

    /// Adds what the claim at `place` needs for all seeds up to `seeds`.
    fn add<'a>(&'a self, runs: &mut Runs<'a>, place: usize, seeds: u32) {
        let (claim, machine) = (&self.claims[place], &self.machines[place]);
        runs.needs.resize(runs.needs.len().max(place + 1), Vec::new());
        let made = runs.needs[place].len() / (1 + claim.to.len());
        for seed in made as u64 + 1..=u64::from(seeds) {
            for run in claim.runs() {
                let workload = workload(claim, run);
                let key = (&*claim.machine, &*claim.machine_set, format!("{workload:?}"), &*run.lock, seed);
                let index = *runs.known.entry(key).or_insert_with(|| {
                    runs.jobs.push(Job { machine, workload, lock: &run.lock, seed });
                    runs.jobs.len() - 1
                });
                runs.needs[place].push(index);
            }
        }
    }

    /// What became of the claims, as far as all runs with one seed at least have been made; `rows` has what became of
    /// each job.
    pub fn outcomes(&self, runs: &Runs<'_>, rows: &[Option<Done>]) -> Vec<Outcome<'_>> {
        let mut outcomes = Vec::new();
        for (place, (claim, needs)) in self.claims.iter().zip(&runs.needs).enumerate() {
            let (mut simulated, mut failures, mut complete) = (Vec::new(), Vec::new(), 0);
            for own in needs.chunks(1 + claim.to.len()) {
                let Some(own) = own.iter().map(|index| rows[*index].as_ref()).collect::<Option<Vec<&Done>>>() else {
                    continue;
                };
                complete += 1;
                simulated.extend(claim.number(&own));
                failures.extend(own.iter().filter_map(|row| {
                    Some(format!("{} with {} threads: {}", row.lock, row.threads, row.outcome.as_ref().err()?))
                }));
            }
            let mean = (!simulated.is_empty()).then(|| simulated.iter().sum::<f64>() / simulated.len() as f64);
            if complete > 0 {
                outcomes.push(Outcome { claim, place, simulated, mean, failures });
            }
        }
        outcomes
    }

    /// With how many seeds at the most.
    pub fn seeds(&self) -> u32 {
        self.seeds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::run_more;
    use lockswap_locks::registry::Role;
    use lockswap_sim::find_lock;

    #[test]
    fn every_claim_can_be_run() {
        let claims = claims();
        assert!(claims.len() > 30);
        for claim in &claims {
            machine(claim);
            for run in claim.runs() {
                assert_eq!(workload(claim, run).threads(), run.threads);
                assert!(find_lock(Role::Mutex, &run.lock).is_some(), "{}: {}", claim.id, run.lock);
            }
            assert!(claim.value > 0.0, "{}: errors are factors", claim.id);
        }
        let mut ids: Vec<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), claims.len(), "two claims of one name");
    }
    #[test]
    fn a_claim_gets_as_many_seeds_as_its_number_needs() {
        let (precise, imprecise) = ("shfl-1", "m1-tas-latency");
        let chosen: Vec<Claim> =
            claims().into_iter().filter(|claim| [precise, imprecise].contains(&claim.id.as_str())).collect();
        let numbers = |examination: &Examination, runs: &Runs<'_>, rows: &[Option<Done>]| {
            let outcomes = examination.outcomes(runs, rows).into_iter();
            outcomes.map(|outcome| (outcome.claim.id.clone(), outcome.simulated)).collect::<HashMap<_, _>>()
        };
        let examination = Examination::of(chosen, 5);
        let all = examination.runs();
        let rows = run_more::<()>(&all.jobs, Vec::new(), |_| (), |_| Ok(())).unwrap();
        let all = numbers(&examination, &all, &rows);
        let mut runs = examination.first_runs();
        let mut rows = Vec::new();
        let mut rounds = Vec::new();
        loop {
            let made = std::cell::Cell::new(rows.len());
            rows = run_more::<()>(
                &runs.jobs,
                rows,
                |_| (),
                |rows| {
                    made.set(rows.iter().flatten().count().max(made.get()));
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(made.get(), runs.jobs.len(), "runs are made once");
            rounds.push(runs.jobs.len());
            if !examination.add_runs(&mut runs, &rows) {
                break;
            }
        }
        let found = numbers(&examination, &runs, &rows);
        assert_eq!(found[precise], all[precise][..2]);
        assert_eq!(found[imprecise], all[imprecise]);
        assert_eq!(rounds, [8, 10, 12, 14], "two runs for each seed of a claim");
    }
}
