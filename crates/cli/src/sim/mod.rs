//! `lockswap sim`: a workload on several locks and numbers of threads, on a machine that is only described.

pub mod host;
mod probe;
mod regret;
mod reproduce;
mod sensitivity;
mod validate;

use std::io::{self, IsTerminal, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use indicatif::ProgressBar;
use lockswap_experiment::simulated::draw::{self, Shown};
use lockswap_experiment::simulated::output;
use lockswap_experiment::simulated::plan::{self, Plan, Wanted as Sweep};
use lockswap_experiment::simulated::points::points;
use lockswap_experiment::simulated::{run_each, Row};
use lockswap_platform::Ns;
use lockswap_sim::{Job, Workload};
use lockswap_study::export::Format;
use lockswap_study::page::Page;
use lockswap_study::runner::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::duration::within;
use crate::error::{UserError, USAGE};
use crate::outputs::{OutputArgs, Outputs, Wanted, ALL_FORMS};
use crate::picture::{footer, Picture};
use crate::selection;
use crate::setting::pair;
use crate::terminal::{self, say};

const EXAMPLES: &str = "\
Examples:
  lockswap sim --workload kv --lock mcs_spin,cna,ticket --threads 1,8,36,70
  lockswap sim --machine amd-2990wx --workload ncs --lock ron --set ncs=1us,10us
  lockswap sim --machine apple-m1 --workload epochs --lock asl --set slo=20us,50us
  lockswap sim --machine host --workload ncs --threads 1,2,4,8
  lockswap sim --workload oversub --all --export oversub.json
  lockswap sim --machine xeon-e7-8895v3 --workload lock2 --lock qspinlock-cna:threshold=10ms
  lockswap sim --machine ./mine.toml --set latency.remote=200
  lockswap sim --seeds 6 --export curve.svg --plot latency=waits.svg

Machines: xeon-e5-2699v3, xeon-e7-8895v3, xeon-8s192c, amd-2990wx, opteron-a64, epyc-7742-2s,
apple-m1, hikey970, intel-hybrid, host (this machine, as a probe of it finds it), or the path of a
machine file.
Workloads: counter, kv, ncs, epochs, epochs-variable, epochs-mixed, epochs-scalability,
epochs-contention, epochs-oversub, oversub, shares, shares-store, bursts, phases, readers,
locktorture, lock1, lock2, open1, open2; docs/workloads.md has their keys.
Locks: those of 'lockswap list' and, with at most one thread for each CPU, the spinlocks of the
Linux kernel: qspinlock, qspinlock-cna, qspinlock-shfl, qspinlock-ron.

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
    /// Locks; pthread is glibc's mutex, to which ratios refer [default: pthread,mcs_spin,cna,ticket,ttas, or what
    /// suits the workload]
    #[arg(short = 'l', long, alias = "locks", value_name = "ID,ID,...", value_delimiter = ',', conflicts_with = "all")]
    lock: Vec<String>,
    /// Simulate every lock
    #[arg(long)]
    all: bool,
    /// Numbers of threads, 1 to 4096 [default: 1, 2, 4, ... and as many as the machine has CPUs; oversub and
    /// epochs-oversub: twice as many]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Vec<u32>,
    /// Virtual time that is measured, after a warm-up of a tenth of it: 500us, 1s [default: 20ms; epochs-variable
    /// 350ms, oversub and epochs-oversub 200ms]
    #[arg(long, value_name = "TIME", value_parser = within(DURATIONS))]
    duration: Option<Ns>,
    /// Seed of all chance; the same one gives the same numbers on every machine
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs of each lock and number of threads, with seeds from --seed on; tables show medians. It is not called
    /// --runs because one seed gives the same numbers in all runs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    /// Another value for a key of the workload (keys=4096), or several (ncs=1us,10us), or another one for a key of the
    /// machine (latency.remote=200); repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    set: Vec<(String, String)>,
    /// Draw throughput (as --export FILE.svg does), fairness or latency to an .svg or .png file; repeatable
    #[arg(long, value_name = "WHAT=FILE", value_parser = plot)]
    plot: Vec<(Shown, PathBuf)>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(clap::Subcommand)]
enum SimCommand {
    /// Runs what the papers claim, and prints their numbers next to the simulated ones
    Reproduce(reproduce::ReproduceArgs),
    Probe(probe::ProbeArgs),
    Regret(regret::RegretArgs),
    Sensitivity(sensitivity::SensitivityArgs),
    Validate(validate::ValidateArgs),
}

/// How long a run may be measured, in virtual time or on hardware.
const DURATIONS: RangeInclusive<Ns> = 1_000..=60_000_000_000;

/// Reads `throughput=FILE`.
fn plot(text: &str) -> Result<(Shown, PathBuf), String> {
    let (what, file) = text.split_once('=').ok_or("write WHAT=FILE, as in throughput=curve.svg")?;
    let shown = match what {
        "throughput" => Shown::Throughput,
        "fairness" => Shown::Fairness,
        "latency" => Shown::Latency,
        _ => return Err(format!("'{what}' cannot be drawn: use throughput, fairness or latency")),
    };
    let file = PathBuf::from(file);
    lockswap_plot::Format::of(&file).map_err(|error| error.to_string())?;
    Ok((shown, file))
}

pub fn run(args: SimArgs) -> anyhow::Result<ExitCode> {
    match &args.command {
        Some(SimCommand::Reproduce(command)) => return reproduce::run(command, &args.output),
        Some(SimCommand::Probe(_)) if args.output.is_asked() => {
            let remedy = "--out FILE.toml writes it, --print prints it";
            return Err(UserError::new("a probe makes a machine file, nothing else", remedy).with_status(USAGE).into());
        }
        Some(SimCommand::Probe(command)) => return probe::run(command),
        Some(SimCommand::Regret(command)) => return regret::run(command, &args.output),
        Some(SimCommand::Sensitivity(command)) => return sensitivity::run(command, &args.output),
        Some(SimCommand::Validate(command)) => return validate::run(command, &args.output),
        None => {}
    }
    let plan = sweep(&args)?;
    let mut files = Files::prepare(&args)?;
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let mut written = Throttle::default();
    let jobs = plan.jobs();
    let bar = bar(jobs.len() as u64);
    let rows = run_each(&jobs, starting(&bar), |rows| {
        advance(&bar, &interrupt, rows, RUNS, || {
            let is_any = rows.iter().any(Option::is_some);
            if is_any {
                files.write(&plan, rows, true);
                show(&args, &plan, rows)?;
            }
            Ok(is_any)
        })?;
        written.now_and_then(rows, || files.write(&plan, rows, false));
        anyhow::Ok(())
    })?;
    bar.finish_and_clear();
    files.write(&plan, &rows, true);
    show(&args, &plan, &rows)?;
    if args.plot.is_empty() && io::stdout().is_terminal() {
        say("--export FILE.svg draws throughput, --plot fairness=FILE.svg or latency=FILE.svg the rest");
    }
    let is_drawn = args.plot.iter().any(|(shown, _)| *shown == Shown::Fairness);
    if let Some(locks) = draw::too_short(&points(&plan, &rows)).filter(|_| is_drawn) {
        say(&format!(
            "note: too short to judge fairness: the lock seldom changed NUMA nodes in a run of {locks}; \
             a longer one (--duration) may be fairer"
        ));
    }
    let failures = output::failures(&rows);
    // Not an error of the command's: what it found.
    let _ = write!(io::stderr(), "{failures}");
    Ok(if files.outputs.tell() && failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The plan that the arguments ask for.
fn sweep(args: &SimArgs) -> Result<Plan, UserError> {
    let workload = Workload::named(&args.workload)?;
    let settings = plan::settings(&args.workload, &args.set);
    let machine = host::machine(&args.machine, &plan::apart(&settings).0)?;
    let role = workload.role();
    let locks = match args.all {
        true => lockswap_sim::locks(role).map(str::to_owned).collect(),
        false => selection::all_simulated(role, &args.lock)?,
    };
    Ok(Plan::new(Sweep {
        workload: args.workload.clone(),
        machine,
        settings,
        locks,
        threads: args.threads.clone(),
        duration: args.duration,
        seed: args.seed,
        seeds: args.seeds,
    })?)
}

/// Prints what was found so far.
fn show(args: &SimArgs, plan: &Plan, rows: &[Option<Row>]) -> anyhow::Result<()> {
    match args.output.format.data() {
        None => terminal::print(&shown(&output::page(plan, &points(plan, rows))))?,
        Some(format) => print_data(&render(format, plan, rows)?)?,
    }
    Ok(())
}

/// A page in the terminal.
fn shown(page: &Page) -> String {
    let paragraphs = |lines: &[String]| lines.iter().map(|line| paragraph(line)).collect::<String>();
    let mut text = paragraph(&page.title) + &paragraphs(&page.conclusion) + "\n";
    for table in &page.tables {
        text += &table.title.as_deref().map_or(String::new(), paragraph);
        let headings: Vec<&str> = table.columns.iter().map(|(heading, _)| heading.as_str()).collect();
        let numbers: Vec<usize> = (0..headings.len()).filter(|column| table.columns[*column].1).collect();
        let mut lines = terminal::table(&headings, &numbers);
        table.rows.iter().for_each(|row| {
            lines.add_row(&row.cells);
        });
        text += &format!("{}\n", terminal::lines(&lines));
    }
    text + &paragraphs(&page.notes)
}

/// Text in lines that are not longer than the terminal, or than those of a page.
fn paragraph(text: &str) -> String {
    const PAGE: u16 = 120;
    terminal::fold(text, Some(terminal::width().map_or(PAGE, |width| width.min(PAGE))))
}

fn print_data(bytes: &[u8]) -> io::Result<()> {
    terminal::print_data(&String::from_utf8_lossy(bytes))
}

fn render(format: Format, plan: &Plan, rows: &[Option<Row>]) -> io::Result<Vec<u8>> {
    let page = || output::page(plan, &points(plan, rows));
    match format {
        Format::Json => Ok(output::json(plan, rows)?),
        Format::Csv => output::csv(plan, rows),
        Format::Markdown => Ok(page().markdown().into_bytes()),
        Format::Html => Ok(page().html().into_bytes()),
    }
}

/// A bar of so many steps, drawn at once: the `^C` that a terminal shows then stands over it and goes with it.
fn bar(steps: u64) -> ProgressBar {
    let bar = terminal::bar(steps);
    bar.tick();
    bar
}

/// Shows on the bar which run begins.
fn starting(bar: &ProgressBar) -> impl Fn(&Job<'_>) + Sync + '_ {
    |job| bar.set_message(format!("{}, {} threads", job.lock, job.workload.threads()))
}

/// What an interrupted simulation says: what is missing if there is nothing to show, and what is shown otherwise.
type Interrupted = (&'static str, &'static str);

const RUNS: Interrupted = ("no run had come to its end", "the table shows what was simulated until then");

/// Shows on the bar how many runs have been made. After a signal the process ends with what `show` shows of the
/// result, if there is anything, as it says.
fn advance(
    bar: &ProgressBar,
    interrupt: &Interrupt,
    rows: &[Option<Row>],
    (nothing, part): Interrupted,
    show: impl FnOnce() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    bar.set_position(rows.iter().flatten().count() as u64);
    let Some(signal) = interrupt.signal() else { return Ok(()) };
    bar.finish_and_clear();
    give_up(signal, if show()? { part } else { nothing })
}

/// Ends the process after a signal. Nobody can stop a simulation from outside: it ends with the process.
fn give_up(signal: i32, what: &str) -> ! {
    say(&format!("interrupted: {what}"));
    std::process::exit(128 + signal)
}

/// The files to write, checked before anything runs.
struct Files {
    outputs: Outputs,
    plots: Vec<(Shown, Picture)>,
    look: crate::picture::LookArgs,
}

impl Files {
    fn prepare(args: &SimArgs) -> Result<Self, UserError> {
        let plots = args.plot.iter().map(|(shown, file)| Ok((*shown, Picture::prepare(file)?)));
        Ok(Self {
            outputs: Outputs::prepare(&args.output, ALL_FORMS)?,
            plots: plots.collect::<Result<_, UserError>>()?,
            look: args.output.look,
        })
    }

    /// Writes what is there; pictures only when all is `done`.
    fn write(&mut self, plan: &Plan, rows: &[Option<Row>], done: bool) {
        let draw = |shown, look| draw::draw(shown, plan, &points(plan, rows), look, &footer);
        self.outputs.write(done, |wanted| match wanted {
            Wanted::Data(format) => render(format, plan, rows),
            Wanted::Picture(look) => Ok(draw(Shown::Throughput, look)),
        });
        for (shown, picture) in self.plots.iter().filter(|_| done) {
            if let Err(error) = picture.write(|format| draw(*shown, self.look.of(format))) {
                self.outputs.failed.push(format!("{error:#}"));
            }
        }
    }
}

/// Keeps the writing of new rows below a tenth of the time.
#[derive(Default)]
struct Throttle {
    rows: usize,
    earliest: Option<Instant>,
}

impl Throttle {
    fn now_and_then(&mut self, rows: &[Option<Row>], write: impl FnOnce()) {
        let (begin, rows) = (Instant::now(), rows.iter().flatten().count());
        if rows == self.rows || self.earliest.is_some_and(|earliest| begin < earliest) {
            return;
        }
        write();
        (self.rows, self.earliest) = (rows, Some(Instant::now() + 9 * begin.elapsed()));
    }
}
