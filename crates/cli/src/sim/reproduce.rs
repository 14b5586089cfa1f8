//! `lockswap sim reproduce`: what the papers claim, next to what the simulated machines show.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use lockswap_platform::parse_duration;
use lockswap_sim::{Job, Machine, Workload};
use lockswap_study::export::OutputFile;
use lockswap_study::runner::Interrupt;
use lockswap_workloads::report::Report;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{give_up, plan, run_each, why, Row};
use crate::error::{UserError, USAGE};
use crate::{picture, terminal};

const CLAIMS: &str = include_str!("claims.toml");

/// Arguments of `lockswap sim reproduce`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lockswap sim reproduce
  lockswap sim reproduce --only cna --seeds 10
  lockswap sim reproduce --export-json claims.json")]
pub struct ReproduceArgs {
    /// Claims whose names begin so: cna, ron, shfl, m1, cna-70
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Runs of each number, with seeds from 1 on
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    /// Write everything to this file
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "claim")]
    claims: Vec<Claim>,
}

/// A number from a paper, and the runs that should give it; `claims.toml` says what the fields mean.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    id: String,
    source: String,
    says: String,
    machine: String,
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
    value: f64,
    #[serde(default)]
    relation: Relation,
    agree: [f64; 2],
    basis: Basis,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Run {
    lock: String,
    threads: usize,
    /// Of this run, if not the claim's.
    class: Option<String>,
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

#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Basis {
    Fitted,
    Predicted,
}

/// What the paper says about the number.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
enum Relation {
    #[default]
    #[serde(rename = "about")]
    About,
    #[serde(rename = "at least")]
    AtLeast,
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

/// What the runs of a claim gave, seed by seed.
#[derive(Serialize)]
struct Outcome<'a> {
    claim: &'a Claim,
    simulated: Vec<f64>,
    mean: Option<f64>,
    agrees: bool,
    failures: Vec<String>,
}

/// All claims. The file is part of the program, so its mistakes are the program's.
fn claims() -> Vec<Claim> {
    toml::from_str::<File>(CLAIMS).expect("claims.toml is right").claims
}

fn pair(setting: &str) -> (&str, &str) {
    setting.split_once('=').expect("KEY=VALUE in claims.toml")
}

fn machine(claim: &Claim) -> Result<Machine, UserError> {
    let changes = claim.machine_set.iter().map(|setting| pair(setting));
    plan::machine(&claim.machine, &changes.map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>())
}

fn workload(claim: &Claim, run: &Run) -> Workload {
    let mut workload = Workload::named(&claim.workload).expect("a workload of claims.toml");
    for setting in claim.set.iter().chain(&run.set) {
        let (key, value) = pair(setting);
        workload.set(key, value).unwrap_or_else(|error| panic!("{}: {error}", claim.id));
    }
    let duration = parse_duration(&claim.duration).expect("a duration in claims.toml");
    workload.with(run.threads, duration)
}

impl Claim {
    fn runs(&self) -> impl Iterator<Item = &Run> {
        std::iter::once(&self.of).chain(&self.to)
    }

    /// The claim's number in runs with one seed, in the order of [`Claim::runs`].
    fn number(&self, rows: &[&Row]) -> Option<f64> {
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

/// Runs the command.
pub fn run(args: &ReproduceArgs) -> anyhow::Result<ExitCode> {
    let mut claims = claims();
    if !args.only.is_empty() {
        let ids: Vec<String> = claims.iter().map(|claim| claim.id.clone()).collect();
        claims.retain(|claim| args.only.iter().any(|only| claim.id.starts_with(only.as_str())));
        if claims.is_empty() {
            let what = format!("there is no claim whose name begins with '{}'", args.only.join(","));
            return Err(UserError::new(what, format!("use one of: {}", ids.join(", "))).with_status(USAGE).into());
        }
    }
    let json = args
        .export_json
        .as_ref()
        .map(|path| OutputFile::prepare(path).with_context(|| format!("cannot write {}", path.display())));
    let json = json.transpose()?;
    let machines: Vec<Machine> = claims.iter().map(machine).collect::<Result<_, _>>()?;
    let (mut jobs, mut known) = (Vec::new(), HashMap::new());
    // What each claim needs, seed by seed, run by run. Claims share runs.
    let mut needs = Vec::new();
    for (claim, machine) in claims.iter().zip(&machines) {
        for seed in 1..=u64::from(args.seeds) {
            for run in claim.runs() {
                let workload = workload(claim, run);
                let key = (&claim.machine, &claim.machine_set, format!("{workload:?}"), &run.lock, seed);
                needs.push(*known.entry(key).or_insert_with(|| {
                    jobs.push(Job { machine, workload, lock: &run.lock, seed });
                    jobs.len() - 1
                }));
            }
        }
    }
    let finish = |rows: &[Option<Row>]| -> anyhow::Result<()> {
        let outcomes = outcomes(&claims, &needs, rows, args.seeds);
        terminal::print(&table(&outcomes, args.seeds))?;
        let Some(file) = &json else { return Ok(()) };
        let document = serde_json::json!({ "schema": 1, "seeds": args.seeds, "claims": outcomes });
        picture::replace(file, &serde_json::to_vec_pretty(&document)?)
    };
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let rows = run_each(&jobs, |rows| {
        if let Some(signal) = interrupt.signal() {
            finish(rows)?;
            give_up(signal, "the table shows what was simulated until then");
        }
        Ok(())
    })?;
    finish(&rows)?;
    Ok(ExitCode::SUCCESS)
}

/// What became of the claims, as far as all runs with one seed at least have been made.
fn outcomes<'a>(claims: &'a [Claim], needs: &[usize], rows: &[Option<Row>], seeds: u32) -> Vec<Outcome<'a>> {
    let mut rest = needs;
    let mut outcomes = Vec::new();
    for claim in claims {
        let (mut simulated, mut failures, mut complete) = (Vec::new(), Vec::new(), 0);
        for _ in 0..seeds {
            let (own, next) = rest.split_at(1 + claim.to.len());
            rest = next;
            let Some(own) = own.iter().map(|index| rows[*index].as_ref()).collect::<Option<Vec<&Row>>>() else {
                continue;
            };
            complete += 1;
            simulated.extend(claim.number(&own));
            failures.extend(own.iter().filter_map(|row| {
                Some(format!("{} with {} threads: {}", row.lock, row.threads, why(row.outcome.as_ref().err()?)))
            }));
        }
        let mean = (!simulated.is_empty()).then(|| simulated.iter().sum::<f64>() / simulated.len() as f64);
        let agrees = mean.is_some_and(|mean| (claim.agree[0]..=claim.agree[1]).contains(&mean));
        if complete > 0 {
            outcomes.push(Outcome { claim, simulated, mean, agrees, failures });
        }
    }
    outcomes
}

fn digits(number: f64) -> String {
    match number.abs() {
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

fn table(outcomes: &[Outcome<'_>], seeds: u32) -> String {
    let headings = ["claim", "paper", "simulated", "min..max", "ratio", "basis", "", "what"];
    let mut table = terminal::table(&headings, &[1, 2, 3, 4]);
    for outcome in outcomes {
        let claim = outcome.claim;
        let least = outcome.simulated.iter().copied().fold(f64::INFINITY, f64::min);
        let most = outcome.simulated.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let basis = if claim.basis == Basis::Fitted { "fitted" } else { "predicted" };
        let verdict = if outcome.agrees { "agrees" } else { "DISAGREES" };
        let (mean, range, ratio) = match outcome.mean {
            Some(mean) => {
                (digits(mean), format!("{}..{}", digits(least), digits(most)), format!("{:.2}", mean / claim.value))
            }
            None => ("-".into(), "-".into(), "-".into()),
        };
        let paper = match claim.relation {
            Relation::About => digits(claim.value),
            Relation::AtLeast => format!(">= {}", digits(claim.value)),
            Relation::AtMost => format!("<= {}", digits(claim.value)),
        };
        let what = format!("{} ({}; {})", claim.says, claim.source, claim.machine);
        table.add_row([claim.id.clone(), paper, mean, range, ratio, basis.into(), verdict.into(), what]);
    }
    let mut text = terminal::lines(&table);
    let agree = outcomes.iter().filter(|outcome| outcome.agrees).count();
    let predicted = outcomes.iter().filter(|outcome| outcome.claim.basis == Basis::Predicted);
    let (right, all) = predicted.fold((0, 0), |(right, all), o| (right + usize::from(o.agrees), all + 1));
    let _ = writeln!(
        text,
        "\n{agree} of {} claims agree, {right} of the {all} predicted ones; mean of {seeds} seeds. ratio: simulated / paper.\n\
         A claim agrees if the mean lies within the range that claims.toml states for it. amd-2990wx is held out of every fit.",
        outcomes.len(),
    );
    for outcome in outcomes.iter().filter(|outcome| !outcome.failures.is_empty()) {
        let _ = writeln!(text, "{}: {}", outcome.claim.id, outcome.failures[0]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_locks::registry::{self, Role};

    #[test]
    fn every_claim_can_be_run() {
        let claims = claims();
        assert!(claims.len() > 30);
        for claim in &claims {
            machine(claim).unwrap();
            for run in claim.runs() {
                assert_eq!(workload(claim, run).threads(), run.threads);
                assert!(registry::find(Role::Mutex, &run.lock).is_some(), "{}: {}", claim.id, run.lock);
            }
            assert!(claim.agree[0] < claim.agree[1], "{}", claim.id);
        }
        let mut ids: Vec<&str> = claims.iter().map(|claim| claim.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), claims.len(), "two claims of one name");
    }

    #[test]
    fn the_held_out_machine_has_no_fitted_claim() {
        assert!(claims().iter().all(|claim| claim.machine != "amd-2990wx" || claim.basis == Basis::Predicted));
    }
}
