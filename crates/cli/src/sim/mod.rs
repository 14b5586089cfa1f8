//! `lockswap sim`: a workload on several locks and numbers of threads, on a machine that is only described.

mod draw;
mod host;
mod output;
mod plan;
mod probe;
mod reproduce;
pub mod validate;

use std::io::{self, IsTerminal, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use lockswap_platform::Ns;
use lockswap_sim::{Failure, Finished, Job, Workload};
use lockswap_study::export::OutputFile;
use lockswap_study::runner::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::duration::within;
use crate::error::UserError;
use crate::setting::pair;
use crate::{picture, terminal};
use draw::Picture;
pub use output::why;
pub use plan::Plan;

const EXAMPLES: &str = "\
Examples:
  lockswap sim --workload kv --lock mcs_spin,cna,ticket --threads 1,8,36,70
  lockswap sim --machine amd-2990wx --workload ncs --lock ron --set ncs=1us,10us
  lockswap sim --machine apple-m1 --workload epochs --lock asl --set slo=20us,50us
  lockswap sim --machine host --workload ncs --threads 1,2,4,8
  lockswap sim --workload oversub --all --export-json oversub.json
  lockswap sim --machine ./mine.toml --set latency.remote=200
  lockswap sim --plot throughput=curve.svg

Machines: xeon-e5-2699v3, xeon-e7-8895v3, xeon-8s192c, amd-2990wx, opteron-a64, epyc-7742-2s,
apple-m1, hikey970, intel-hybrid, host (this machine, as a probe of it finds it), or the path of a machine file.
Workloads: counter, kv, ncs, epochs, epochs-variable, epochs-mixed, epochs-scalability,
epochs-contention, epochs-oversub, oversub, readers; docs/workloads.md has their keys.

An interrupted run keeps what it has in its JSON and CSV files. Exit status: 0; 1 if a lock stopped
or a file cannot be written; 2 for wrong usage; 130 after Ctrl-C.";

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
    /// Locks [default: mcs_spin,cna,ticket,ttas, or what suits the workload]
    #[arg(long, alias = "locks", value_name = "ID,ID,...", value_delimiter = ',', conflicts_with = "all")]
    lock: Vec<String>,
    /// Simulate every lock
    #[arg(long)]
    all: bool,
    /// Numbers of threads, 1 to 4096 [default: 1, 2, 4, ... and as many as the machine has CPUs; oversub and
    /// epochs-oversub: twice as many]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Vec<u32>,
    /// Virtual time that is measured, after a warm-up of a tenth of it: 500us, 1s [default: 20ms; epochs-variable 350ms,
    /// oversub and epochs-oversub 200ms]
    #[arg(long, value_name = "TIME", value_parser = within(DURATIONS))]
    duration: Option<Ns>,
    /// Seed of all chance; the same one gives the same numbers on every machine
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs of each lock and number of threads, with seeds from --seed on; tables show medians. It is not called --runs
    /// because one seed gives the same numbers in all runs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    /// Another value for a key of the workload (keys=4096), or several (ncs=1us,10us), or another one for a key of the
    /// machine (latency.remote=200); repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Write everything to this file, as JSON (docs/results.schema.json), after each run
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Write one line per run to this file, as CSV, after each run
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
    /// Write the table to this file, as Markdown
    #[arg(long, value_name = "FILE")]
    export_md: Option<PathBuf>,
    /// Draw throughput, fairness or latency to an .svg or .png file; repeatable
    #[arg(long, value_name = "WHAT=FILE", value_parser = draw::picture)]
    plot: Vec<Picture>,
    #[command(flatten)]
    look: picture::LookArgs,
}

#[derive(clap::Subcommand)]
enum SimCommand {
    /// Runs what the papers claim, and prints their numbers next to the simulated ones
    Reproduce(reproduce::ReproduceArgs),
    Probe(probe::ProbeArgs),
    Validate(validate::ValidateArgs),
}

/// How long a run may be measured, in virtual time or on hardware.
const DURATIONS: RangeInclusive<Ns> = 1_000..=60_000_000_000;

/// One run of a plan, and what became of it.
pub struct Row {
    pub lock: String,
    pub threads: u32,
    pub workload: Workload,
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
    let files = Files::prepare(&args)?;
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let mut written = Throttle::default();
    let rows = run_each(&plan.jobs(), |rows| {
        if let Some(signal) = interrupt.signal() {
            files.write(&plan, rows, false)?;
            terminal::print(&output::table(&plan, &output::points(&plan, rows)))?;
            give_up(signal, "the table shows what was simulated until then");
        }
        written.now_and_then(rows, || files.write(&plan, rows, true))
    })?;
    files.write(&plan, &rows, false)?;
    terminal::print(&output::table(&plan, &output::points(&plan, &rows)))?;
    hint(&args);
    let is_drawn = args.plot.iter().any(|picture| picture.shown == draw::Shown::Fairness);
    if let Some(locks) = draw::too_short(&output::points(&plan, &rows)).filter(|_| is_drawn) {
        let _ = writeln!(
            io::stderr(),
            "note: too short to judge fairness: the lock seldom changed NUMA nodes in a run of {locks}; \
             a longer one (--duration) may be fairer"
        );
    }
    let failures = output::failures(&rows);
    if failures.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    // Not an error of the command's: what it found.
    let _ = write!(io::stderr(), "{failures}");
    Ok(ExitCode::FAILURE)
}

/// Ends the process after a signal. Nobody can stop a simulation from outside: it ends with the process.
fn give_up(signal: i32, what: &str) -> ! {
    let _ = writeln!(io::stderr(), "interrupted: {what}");
    std::process::exit(128 + signal)
}

/// Tells who looks at a long table that there are pictures.
fn hint(args: &SimArgs) {
    if args.plot.is_empty() && io::stdout().is_terminal() && io::stderr().is_terminal() {
        let _ = writeln!(io::stderr(), "--plot throughput=FILE.svg draws it (or fairness, latency)");
    }
}

/// The files to write, checked before anything runs.
struct Files<'a> {
    json: Option<OutputFile>,
    csv: Option<OutputFile>,
    markdown: Option<OutputFile>,
    pictures: Vec<(&'a Picture, OutputFile)>,
    look: &'a picture::LookArgs,
}

impl<'a> Files<'a> {
    fn prepare(args: &'a SimArgs) -> Result<Self, UserError> {
        let prepare = |path: &PathBuf| picture::prepare(path);
        Ok(Self {
            json: args.export_json.as_ref().map(prepare).transpose()?,
            csv: args.export_csv.as_ref().map(prepare).transpose()?,
            markdown: args.export_md.as_ref().map(prepare).transpose()?,
            pictures: args
                .plot
                .iter()
                .map(|plot| Ok((plot, prepare(&plot.file)?)))
                .collect::<Result<_, UserError>>()?,
            look: &args.look,
        })
    }

    /// Writes what is there; in the middle, pictures, the table and what keeps nothing must wait.
    fn write(&self, plan: &Plan, rows: &[Option<Row>], middle: bool) -> anyhow::Result<()> {
        let wanted = |file: &&OutputFile| !middle || !file.is_stream();
        if let Some(file) = self.json.as_ref().filter(wanted) {
            picture::replace(file, &output::json(plan, rows)?)?;
        }
        if let Some(file) = self.csv.as_ref().filter(wanted) {
            picture::replace(file, &output::csv(plan, rows)?)?;
        }
        if middle {
            return Ok(());
        }
        let points = output::points(plan, rows);
        if let Some(file) = &self.markdown {
            picture::replace(file, output::markdown(plan, &points).as_bytes())?;
        }
        for (picture, file) in &self.pictures {
            picture::replace(file, &draw::draw(picture, plan, &points, self.look))?;
        }
        Ok(())
    }
}

/// Keeps the writing of new rows below a tenth of the time.
#[derive(Default)]
struct Throttle {
    rows: usize,
    earliest: Option<Instant>,
}

impl Throttle {
    fn now_and_then(&mut self, rows: &[Option<Row>], write: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let (begin, rows) = (Instant::now(), rows.iter().flatten().count());
        if rows == self.rows || self.earliest.is_some_and(|earliest| begin < earliest) {
            return Ok(());
        }
        write()?;
        (self.rows, self.earliest) = (rows, Some(Instant::now() + 9 * begin.elapsed()));
        Ok(())
    }
}

/// Makes all runs, on all CPUs of the host; results are in the order of the jobs. `look` is called every now and then.
pub fn run_all(jobs: &[Job<'_>], look: impl Fn()) -> Vec<Row> {
    let looked = |_: &[Option<Row>]| {
        look();
        Ok(())
    };
    run_each(jobs, looked).unwrap_or_default().into_iter().flatten().collect()
}

/// How often somebody looks whether the user wants no more.
const LOOK: Duration = Duration::from_millis(100);

/// Makes all runs, on all CPUs of the host; `look` sees what there is, after each run and every now and then. What it cannot
/// do ends everything.
fn run_each(
    jobs: &[Job<'_>],
    mut look: impl FnMut(&[Option<Row>]) -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Option<Row>>> {
    let bar = crate::compare::bar(jobs.len() as u64);
    let next = AtomicUsize::new(0);
    let mut rows: Vec<Option<Row>> = jobs.iter().map(|_| None).collect();
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(jobs.len().max(1));
    std::thread::scope(|scope| {
        let (sender, finished) = mpsc::channel();
        for _ in 0..workers {
            let (next, bar, sender) = (&next, &bar, sender.clone());
            scope.spawn(move || loop {
                // Relaxed: each job is taken once; the channel publishes the results.
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(job) = jobs.get(index) else { break };
                let (lock, threads) = (job.lock.to_owned(), job.workload.threads() as u32);
                bar.set_message(format!("{lock}, {threads} threads"));
                let row = Row { lock, threads, workload: job.workload.clone(), seed: job.seed, outcome: job.run() };
                if sender.send((index, row)).is_err() {
                    break;
                }
            });
        }
        drop(sender);
        loop {
            match finished.recv_timeout(LOOK) {
                Ok((index, row)) => rows[index] = Some(row),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            bar.set_position(rows.iter().flatten().count() as u64);
            // What it prints, if it ends the process, stands where the bar was.
            bar.suspend(|| look(&rows))?;
        }
        anyhow::Ok(())
    })?;
    bar.finish_and_clear();
    Ok(rows)
}
