//! `lockswap sim`: a workload on several locks and numbers of threads, on a machine that is only described.

mod host;
mod output;
mod plan;
mod probe;
mod reproduce;
pub mod validate;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use anyhow::Context;
use lockswap_platform::{parse_duration, Ns};
use lockswap_sim::{Failure, Finished, Job, Stuck};
use lockswap_study::export::OutputFile;

use crate::terminal;
use output::Picture;
pub use plan::Plan;

const EXAMPLES: &str = "\
Examples:
  lockswap sim --machine xeon-e5-2699v3 --workload kv --locks mcs_spin,cna,ticket --threads 1,2,4,8,16,36,70
  lockswap sim --machine amd-2990wx --workload ncs --locks ron,mcs_spin --threads 64 --set ncs=1000
  lockswap sim --machine apple-m1 --workload epochs --locks asl --threads 8 --set slo=50000 --duration 200ms
  lockswap sim --machine host --workload ncs --threads 1,2,4,8
  lockswap sim --machine ./mine.toml --set latency.remote=200 --plot throughput=curve.svg

Machines: xeon-e5-2699v3, xeon-e7-8895v3, xeon-8s192c, amd-2990wx, opteron-a64, epyc-7742-2s, apple-m1, hikey970,
intel-hybrid, host (this machine, as a probe of it finds it), or the path of a machine file.
Workloads: counter, kv, ncs, epochs, epochs-variable, epochs-mixed, epochs-contention, oversub, readers.";

/// Runs the locks' own source on a machine that is only described, in virtual time: the same seed, the same result.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct SimArgs {
    #[command(subcommand)]
    command: Option<SimCommand>,
    /// Machine: a name, or the path of a machine file
    #[arg(long, value_name = "NAME|FILE", default_value = "xeon-e5-2699v3")]
    machine: String,
    /// What the threads do
    #[arg(long, value_name = "NAME", default_value = "counter")]
    workload: String,
    /// Locks
    #[arg(long, value_name = "ID", value_delimiter = ',', default_value = "mcs_spin,cna,ticket,ttas")]
    locks: Vec<String>,
    /// Numbers of threads, 1 to 4096 [default: 1, 2, 4, ... and as many as the machine has CPUs]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Vec<u32>,
    /// Virtual time that is measured, after a warm-up of a tenth of it: 500us, 20ms, 1s
    #[arg(long, value_name = "TIME", default_value = "20ms", value_parser = duration)]
    duration: Ns,
    /// Seed of all chance; the same one gives the same numbers on every machine
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs of each lock and number of threads, with seeds from --seed on; tables show the mean
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    /// Another value for a key of the workload (keys=4096) or of the machine (latency.remote=200); repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Write everything to this file
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Write one line per run to this file
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
    /// Draw throughput, fairness or latency to an .svg or .png file; repeatable
    #[arg(long, value_name = "WHAT=FILE", value_parser = output::picture)]
    plot: Vec<Picture>,
}

#[derive(clap::Subcommand)]
enum SimCommand {
    /// Runs what the papers claim, and prints their numbers next to the simulated ones
    Reproduce(reproduce::ReproduceArgs),
    Probe(probe::ProbeArgs),
    Validate(validate::ValidateArgs),
}

impl SimArgs {
    const DEFAULT_LOCKS: [&str; 4] = ["mcs_spin", "cna", "ticket", "ttas"];
}

fn duration(text: &str) -> Result<Ns, String> {
    let found = parse_duration(text).ok_or("write a number and a unit, as in 500us, 20ms or 1s")?;
    if (1_000..=60_000_000_000).contains(&found) {
        Ok(found)
    } else {
        Err("use 1us to 60s".into())
    }
}

pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.to_owned(), value.to_owned()))
}

/// One run of a plan, and what became of it.
pub struct Row {
    pub lock: String,
    pub threads: u32,
    pub seed: u64,
    pub outcome: Result<Finished, Failure>,
}

pub fn run(args: SimArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(SimCommand::Reproduce(args)) => return reproduce::run(args),
        Some(SimCommand::Probe(args)) => return probe::run(args),
        Some(SimCommand::Validate(args)) => return validate::run(args),
        None => {}
    }
    let plan = Plan::new(&args)?;
    let prepare =
        |path: &PathBuf| OutputFile::prepare(path).with_context(|| format!("cannot write {}", path.display()));
    let json = args.export_json.as_ref().map(prepare).transpose()?;
    let csv = args.export_csv.as_ref().map(prepare).transpose()?;
    let pictures: Vec<(&Picture, OutputFile)> =
        args.plot.iter().map(|picture| Ok((picture, prepare(&picture.file)?))).collect::<anyhow::Result<_>>()?;
    let rows = run_all(&plan.jobs());
    terminal::print(&output::table(&plan, &rows))?;
    let written = |file: &OutputFile, content: Vec<u8>| {
        file.replace(&content).with_context(|| format!("cannot write {}", file.path().display()))
    };
    if let Some(file) = &json {
        written(file, output::json(&plan, &rows)?)?;
    }
    if let Some(file) = &csv {
        written(file, output::csv(&plan, &rows).into_bytes())?;
    }
    for (picture, file) in &pictures {
        written(file, output::draw(picture, &plan, &rows))?;
    }
    let failures = output::failures(&rows);
    if failures.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    // Not an error of the command's: what it found.
    eprint!("{failures}");
    Ok(ExitCode::FAILURE)
}

/// Makes all runs, on all CPUs of the host; results are in the order of the jobs.
pub fn run_all(jobs: &[Job<'_>]) -> Vec<Row> {
    let progress = indicatif::ProgressBar::new(jobs.len() as u64);
    let next = AtomicUsize::new(0);
    let rows: Mutex<Vec<Option<Row>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(jobs.len().max(1));
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| loop {
                // Relaxed: each job is taken once; the threads' ends publish the results.
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(index) else { break };
                let row = Row {
                    lock: job.lock.to_owned(),
                    threads: job.workload.threads() as u32,
                    seed: job.seed,
                    outcome: job.run(),
                };
                rows.lock().expect("no worker panicked")[index] = Some(row);
                progress.inc(1);
            });
        }
    });
    progress.finish_and_clear();
    rows.into_inner().expect("no worker panicked").into_iter().flatten().collect()
}

/// What a run failed of, for people.
pub fn why(failure: &Failure) -> String {
    let (what, threads) = match failure {
        Failure::NoSuchLock => return "no such lock".into(),
        Failure::Stuck(Stuck::Deadlock(threads)) => ("deadlock: nothing will happen any more", threads),
        Failure::Stuck(Stuck::Livelock(threads)) => {
            ("livelock: threads go on and on, and none comes to its end", threads)
        }
        Failure::Stuck(Stuck::Late(threads)) => {
            ("no end: 100 s of virtual time after the measurement threads still run", threads)
        }
    };
    const SHOWN: usize = 16;
    let mut text = format!("{what}\n");
    for line in threads.iter().take(SHOWN) {
        text += &format!("  {line}\n");
    }
    if threads.len() > SHOWN {
        text += &format!("  and {} more\n", threads.len() - SHOWN);
    }
    text
}
