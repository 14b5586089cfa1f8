//! `lockswap sim validate`: the same workloads on the same locks, on hardware and simulated, side by side.

pub mod hardware;
mod judge;
mod plan;
mod report;
mod rounds;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use lockswap_platform::Ns;
use lockswap_sim::Job;
use lockswap_study::export::OutputFile;
use lockswap_study::machine::Machine as About;
use lockswap_study::runner::Interrupt;
use lockswap_workloads::workload::Workload;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::host::{say, Host};
use super::output::why;
use super::{give_up, run_all, DURATIONS};
use crate::bench::rate;
use crate::duration::within;
use crate::setting::pair;
use crate::{picture, terminal};
use judge::{Group, Sample};
use plan::{Case, Plan};
use rounds::Measured;

const EXAMPLES: &str = "\
Each lock's throughput is divided by the geometric mean over all locks of the same workload and
number of threads, on hardware (medians of rounds) and simulated. The ratio of the two is 1 where the
simulation ranks the lock as the hardware does. Where the rounds leave the simulated value possible,
nothing disagrees (~).

Examples:
  lockswap sim validate
  lockswap sim validate --lock mcs_spin,ticket,ttas --workloads counter,kv --threads 2 --runs 9
  lockswap sim validate --workloads counter:inside=100:outside=400,readers --set core.hit=0.5
  lockswap sim validate --all --export-json all.json
  lockswap sim validate --export-md docs/validation-here.md";

/// Compares the simulated machine with this one: the same workloads and locks on both, and how far the results differ
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ValidateArgs {
    /// Machine to simulate: host as stored, a name, or a file [default: this one, probed now]
    #[arg(long, value_name = "NAME|FILE")]
    machine: Option<String>,
    /// Locks [default: a dozen of all families]
    #[arg(long, alias = "locks", value_name = "ID,ID,...", value_delimiter = ',', conflicts_with = "all")]
    lock: Vec<String>,
    /// All locks that can be simulated
    #[arg(long)]
    all: bool,
    /// Workloads, with other values for their keys: counter, oversub, kv, ncs, readers, ncs:ncs=5000:lines=4
    #[arg(
        long,
        value_name = "NAME[:KEY=VALUE]",
        value_delimiter = ',',
        default_value = "counter,oversub,kv,ncs:ncs=1000"
    )]
    workloads: Vec<String>,
    /// Numbers of threads, pinned as the simulated ones [default: 1, 2, 4, ... and as many as there are CPUs]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Vec<u32>,
    /// Runs of every lock, workload and number of threads on hardware, interleaved
    #[arg(long, alias = "rounds", value_name = "N", default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Measured time of each run on hardware; at least 200ms with more threads than CPUs
    #[arg(long, value_name = "TIME", default_value = "40ms", value_parser = within(DURATIONS))]
    duration: Ns,
    /// Measured virtual time of each simulated run; the same
    #[arg(long, value_name = "TIME", default_value = "4ms", value_parser = within(DURATIONS))]
    simulated: Ns,
    /// Seed of the simulation
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Another value for a key of the machine, as in latency.memory=90; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Write everything to this file
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Write one line per lock, workload and number of threads to this file
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
    /// Write the tables to this file, with what it takes to make them again
    #[arg(long, value_name = "FILE")]
    export_md: Option<PathBuf>,
}

/// What the runs of one workload with so many threads gave.
struct Outcome<'a> {
    case: &'a Case,
    /// See [`fitted_steps`].
    fitted: u64,
    samples: Vec<Sample>,
    /// The locks without those that failed.
    group: Option<Group>,
}

/// Everything that was found.
struct Findings<'a> {
    plan: &'a Plan,
    about: About,
    outcomes: Vec<Outcome<'a>>,
    /// A line between the nearest cores during the rounds that count, and those that do not, ns.
    lines: Vec<f64>,
    other_lines: Vec<f64>,
    /// Rounds that do not count.
    left_out: usize,
    failures: Vec<String>,
}

pub fn run(args: &ValidateArgs) -> anyhow::Result<ExitCode> {
    let files: Vec<(&str, Option<OutputFile>)> =
        [("json", &args.export_json), ("csv", &args.export_csv), ("md", &args.export_md)]
            .into_iter()
            .map(|(form, path)| Ok((form, path.as_deref().map(picture::prepare).transpose()?)))
            .collect::<anyhow::Result<_>>()?;
    // What is wrong with the arguments shows before anything is measured.
    let host = Host::here()?;
    let mut plan = Plan::new(args, &host)?;
    let about = About::here();
    say(&format!("about {}", plan.estimate()));
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let measured = rounds::measure(&plan, &host, &interrupt)?;
    let hardware = hardware_alone(&plan, &measured);
    let look = || {
        let Some(signal) = interrupt.signal() else { return };
        if measured.count() == 0 {
            give_up(signal, "nothing was measured to the end of a round");
        }
        // A closed stdout changes nothing any more.
        let _ = terminal::print(&hardware);
        give_up(signal, "the table shows what was measured on hardware; nothing is compared");
    };
    look();
    if plan.machine.is_none() {
        plan.simulate(host.file(&measured.probed())?)?;
    }
    let mut findings = simulate(&plan, about, &measured, look)?;
    let mut failures = Vec::new();
    for outcome in &mut findings.outcomes {
        let title = outcome.case.title();
        let idle = |sample: &Sample| lockswap_study::stats::median(&sample.measured).is_none_or(|median| median <= 0.0);
        let (idle, rest): (Vec<Sample>, Vec<Sample>) = outcome.samples.iter().cloned().partition(idle);
        let did_nothing = idle.iter().filter(|sample| !sample.measured.is_empty());
        failures.extend(did_nothing.map(|sample| {
            format!(
                "{title}, {}, measured: no operation in most of its rounds; give it a longer --duration",
                sample.lock
            )
        }));
        let simulated: Vec<Sample> = rest.into_iter().filter(|sample| sample.simulated > 0.0).collect();
        outcome.group = Group::of(&simulated);
        if outcome.group.is_none() {
            failures.push(format!("{title}: fewer than two locks have results"));
        }
    }
    findings.failures.extend(failures);
    terminal::print(&report::text(&findings))?;
    for (form, file) in &files {
        let Some(file) = file else { continue };
        let content = match *form {
            "json" => report::json(&findings)?,
            "csv" => report::csv(&findings).into_bytes(),
            _ => report::markdown(&findings).into_bytes(),
        };
        file.replace(&content).with_context(|| format!("cannot write {}", file.path().display()))?;
    }
    Ok(if findings.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The table of what was measured, for those who do not wait for what is simulated.
fn hardware_alone(plan: &Plan, measured: &Measured) -> String {
    let mut table = terminal::table(&["workload", "lock", "throughput on hardware"], &[2]);
    for (number, case) in plan.cases.iter().enumerate() {
        for (lock, name) in case.locks.iter().enumerate() {
            let throughputs: Vec<f64> = measured.runs(number, lock).map(|run| run.0).collect();
            let median = lockswap_study::stats::median(&throughputs).map_or("-".to_owned(), rate);
            table.add_row([case.title(), name.clone(), median]);
        }
    }
    format!("{}\nMedians of {} rounds.\n", terminal::lines(&table), measured.count() - measured.left_out())
}

/// Steps that a holder is to compute in the simulation for the instructions of its map operation, which are not simulated: so
/// many that one thread is as fast as measured, on the geometric mean of the locks. 0 for other workloads than the map's,
/// for one with steps of its own, and where one thread was not measured.
fn fitted_steps(plan: &Plan, measured: &Measured, look: impl Fn()) -> anyhow::Result<Vec<u64>> {
    let machine = plan.machine.as_ref().context("no machine")?;
    let mut fitted = vec![0; plan.cases.len()];
    for (number, case) in plan.cases.iter().enumerate() {
        let Workload::Kv(config) = &case.workload else { continue };
        if case.threads != 1 || config.inside > 0 {
            continue;
        }
        let jobs: Vec<Job<'_>> = case.locks.iter().map(|lock| plan.job(machine, case, lock, 0)).collect();
        let times = run_all(&jobs, &look).into_iter().enumerate().filter_map(|(lock, row)| {
            let throughputs: Vec<f64> = measured.runs(number, lock).map(|run| run.0).collect();
            let measured = lockswap_study::stats::median(&throughputs).filter(|median| *median > 0.0)?;
            Some(1e9 / measured - 1e9 / row.outcome.ok()?.report.throughput)
        });
        let missing = lockswap_study::stats::median(&times.collect::<Vec<_>>()).unwrap_or_default();
        let steps = (missing / machine.step_ns()).round().max(0.0) as u64;
        let same = |other: &&Case| other.name == case.name;
        let of_this = plan.cases.iter().enumerate().filter(|(_, other)| same(other)).map(|(other, _)| other);
        of_this.for_each(|other| fitted[other] = steps);
    }
    Ok(fitted)
}

/// All simulated runs, next to what was measured.
fn simulate<'a>(plan: &'a Plan, about: About, measured: &Measured, look: impl Fn()) -> anyhow::Result<Findings<'a>> {
    let machine = plan.machine.as_ref().context("no machine")?;
    let fitted = fitted_steps(plan, measured, &look)?;
    let of_case = |(case, steps): (_, &u64)| {
        let (case, steps): (&Case, u64) = (case, *steps);
        case.locks.iter().map(move |lock| plan.job(machine, case, lock, steps))
    };
    let jobs: Vec<Job<'_>> = plan.cases.iter().zip(&fitted).flat_map(of_case).collect();
    let mut rows = run_all(&jobs, look).into_iter();
    let lines = |counts| measured.lines(counts).collect();
    let mut findings = Findings {
        plan,
        about,
        outcomes: Vec::new(),
        lines: lines(true),
        other_lines: lines(false),
        left_out: measured.left_out(),
        failures: measured.failures.clone(),
    };
    for (number, case) in plan.cases.iter().enumerate() {
        let mut samples = Vec::new();
        for (lock, row) in rows.by_ref().take(case.locks.len()).enumerate() {
            let (mut simulated, mut fairness) = (0.0, 0.0);
            match &row.outcome {
                Ok(run) => (simulated, fairness) = (run.report.throughput, run.report.fairness_factor),
                Err(failure) => {
                    findings.failures.push(format!(
                        "{}, {}, simulated: {}",
                        case.title(),
                        row.lock,
                        why(failure).trim_end()
                    ));
                }
            }
            let (measured, shares): (Vec<f64>, Vec<f64>) = measured.runs(number, lock).unzip();
            let share = lockswap_study::stats::median(&shares).unwrap_or_default();
            samples.push(Sample { lock: row.lock, simulated, fairness: [share, fairness], measured });
        }
        findings.outcomes.push(Outcome { case, fitted: fitted[number], samples, group: None });
    }
    Ok(findings)
}
