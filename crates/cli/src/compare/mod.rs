//! `lockswap compare`

mod plan;
mod report;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::ProgressBar;
use lockswap_study::draw::draw;
use lockswap_study::execute::{Ending, Observer};
use lockswap_study::export::render;
use lockswap_study::model::{Comparison, Exit, Phase};
use lockswap_study::plan::Variant;
use lockswap_study::runner::{find_in_path, Interrupt};
use lockswap_study::service::Ready;
use lockswap_study::summary;
use lockswap_workloads::little::Little;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::duration;
use crate::error::UserError;
use crate::only::OnlyArgs;
use crate::outputs::{OutputArgs, Outputs, Wanted, ALL_FORMS};
use crate::picture;
use crate::terminal;
use plan::Sweep;
pub use plan::{measured, percent, shell, strays, words, Direction, Variables};

/// Runs a program on several locks in turn and says what the difference is worth.
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "lockswap compare [OPTIONS] [-- PROGRAM [ARGS]...]")]
pub struct CompareArgs {
    #[arg(
        short = 'l',
        long,
        value_name = "ID,ID,...",
        value_delimiter = ',',
        conflicts_with = "all",
        help = format!("Locks to compare [default: {}]", plan::DEFAULT_LOCKS.join(","))
    )]
    lock: Vec<String>,
    /// Compares every mutex lock that `lockswap list` shows
    #[arg(long)]
    all: bool,
    /// Locks for rwlocks; several are compared, on each of the locks, or with glibc's mutexes if no lock is named
    /// [default: rw-futex]
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',')]
    rwlock: Vec<String>,
    /// Lock for spinlocks, the same for all but the baselines [default: ttas]
    #[arg(long, value_name = "ID")]
    spin: Option<String>,
    #[command(flatten)]
    only: OnlyArgs,
    /// Measured rounds, each with one run per lock [default: 10, or as many as that many locks take for a verdict]
    #[arg(short = 'r', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    runs: Option<u32>,
    /// Rounds before them, which do not count; there is always one, in which lock calls are counted
    #[arg(short = 'w', long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    warmup: u32,
    /// Compares a number in the program's output instead of its wall time: the first group of REGEX in its last match.
    /// Higher is better, with `lower:` before REGEX lower is. Repeatable; the first one decides
    #[arg(short = 'm', long, value_name = "[lower:]REGEX")]
    metric: Vec<Direction>,
    /// Old spelling of `lower:` before the REGEX of --metric
    #[arg(long, requires = "metric", hide = true)]
    lower_is_better: bool,
    /// Lets the built-in workload do FACTOR times the work on these CPUs, with threads pinned, and calls them little,
    /// as in 1:3
    #[arg(long, value_name = "CPUS:FACTOR", conflicts_with = "command")]
    little: Option<Little>,
    /// Runs all locks with each value of a parameter, which stands as {NAME} in the program's arguments; as in
    /// threads=1-8 or size=10,100. Repeatable
    #[arg(long, value_name = "NAME=VALUES", requires = "command")]
    sweep: Vec<Sweep>,
    /// Load generator: the program is then a server, started on the lock, and what CMD takes and prints is compared.
    /// CMD runs in the shell, without lockswap, as do all CMD
    #[arg(long, value_name = "CMD", requires_all = ["command", "ready"])]
    load: Option<String>,
    /// What shows that the server is ready: port:N (somebody listens on that TCP port), file:FILE (it is there) or
    /// output:REGEX (a line that it wrote)
    #[arg(long, value_name = "HOW", requires = "load", value_parser = Ready::parse)]
    ready: Option<Ready>,
    /// Runs CMD once before everything
    #[arg(short = 's', long, value_name = "CMD", requires = "command")]
    setup: Option<String>,
    /// Runs CMD before each run
    #[arg(short = 'p', long, value_name = "CMD", requires = "command")]
    prepare: Option<String>,
    /// Runs CMD once at the end, also after Ctrl-C
    #[arg(short = 'c', long, value_name = "CMD", requires = "command")]
    cleanup: Option<String>,
    /// What the program reads from standard input [default: nothing]
    #[arg(long, value_name = "FILE", requires = "command")]
    input: Option<PathBuf>,
    /// Shows what the program writes
    #[arg(long)]
    show_output: bool,
    /// What the comparison is called in its results [default: the command]
    #[arg(short = 'n', long, value_name = "NAME")]
    name: Option<String>,
    /// Longest run, such as 90s or 5m [default: 60, or ten times the plain program's slowest run if that is more]
    #[arg(long, value_name = "TIME", value_parser = duration::patience)]
    timeout: Option<Duration>,
    /// Measures a program although it exits with a status other than 0 without lockswap
    #[arg(short = 'i', long)]
    ignore_failure: bool,
    /// Differences of less than so many percent are not worth a verdict
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = plan::percent)]
    smallest_effect: f64,
    /// Leaves out the fresh runs at the end that confirm the best lock
    #[arg(long)]
    no_confirm: bool,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
    /// The program and its arguments; without one, a built-in contended key-value workload is compared
    #[arg(trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    command: Vec<OsString>,
}

const HELP: &str = "\
Two baselines are always in: `pthread`, the program without the preload
library, to which all ratios refer, and `interposed-pthread`, with the library
but on glibc's locks, which shows the price of interposition. A round runs all
locks once, in random order, and ratios are those of a round. A ratio above 1
is better, for wall time and for metrics. There is a verdict only where lock
calls were ours, the 95% interval of the ratio does not hold 1, the difference
is not smaller than --smallest-effect nor than what loading the library costs,
and Holm's correction for the number of locks does not take it back. The best
lock is then run again, against `pthread` alone. docs/statistics.md says more.

A run that crashes, times out, exits otherwise than the plain program or lacks
the metric is reported in the table and never stops the rest. Export files are
replaced as runs end, so an interrupted comparison keeps what it measured.

Exit status: 0; 1 if the program fails without lockswap (126 or 127 if it
cannot be executed or found), a command around the runs does, or a file cannot
be written; 2 for wrong usage; 3 if all was measured but runs of some lock
failed; 130 after Ctrl-C.

Examples:
  lockswap compare
  lockswap compare -- ./program --threads 8
  lockswap compare --lock futex,mcs_stp --runs 20 --export r.svg -- ./program
  lockswap compare --sweep threads=1-8 -- ./program --threads {threads}
  lockswap compare --metric 'total: ([0-9.]+) req/s' \\
      --metric 'lower:p99 (?<p99_us>[0-9.]+) us' -- ./bench
  lockswap compare --load 'wrk -d 5 http://localhost:8080/' --ready port:8080 \\
      --metric 'Requests/sec: +([0-9.]+)' -- ./server
  lockswap compare --only server -- ./start-server-and-load-it.sh
  lockswap compare --little 1:3 --lock mcs_spin,asl";

/// Status where all was measured, but runs of some lock failed.
const SOME_FAILED: u8 = 3;

/// Runs `lockswap compare`.
pub fn run(args: CompareArgs) -> anyhow::Result<ExitCode> {
    let plan = plan::plan(&args)?;
    let outputs = Outputs::prepare(&args.output, ALL_FORMS)?;
    if args.lower_is_better {
        // Stderr may be closed.
        let _ = writeln!(io::stderr(), "note: --lower-is-better is now written --metric 'lower:REGEX'");
    }
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let mut watcher = Watcher {
        bar: terminal::bar(u64::from(plan.runs + plan.warmup) * plan.variants.len() as u64),
        outputs,
        begin: Instant::now(),
        next_write: Instant::now(),
    };
    let version = env!("CARGO_PKG_VERSION");
    let (comparison, ending) = lockswap_study::execute::execute(&plan, version, Some(&interrupt), &mut watcher);
    watcher.bar.finish_and_clear();
    if let Ending::PlainFailed { problem, variant } = ending {
        return Err(plain_failed(&comparison, &problem, variant).into());
    }
    let nothing = comparison.locks.iter().all(|lock| lock.samples.is_empty());
    if let (Ending::CommandFailed { problem }, true) = (&ending, nothing) {
        return Err(command_failed(problem).into());
    }
    write(&mut watcher.outputs, &comparison, true);
    match args.output.format.data() {
        None => terminal::print(&report::report(&comparison, watcher.begin.elapsed()))?,
        Some(format) => terminal::print_data(&render(format, &comparison)?)?,
    }
    warn_of_quota(&comparison);
    let written = watcher.outputs.tell();
    let failed = comparison.summary.iter().flatten().any(|row| !row.problems.is_empty());
    Ok(match ending {
        Ending::Interrupted { signal } => {
            let _ = writeln!(io::stderr(), "interrupted: the table shows what was measured until then");
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
        Ending::CommandFailed { problem } => return Err(command_failed(&problem).into()),
        _ if !written => ExitCode::FAILURE,
        _ if failed => ExitCode::from(SOME_FAILED),
        _ => ExitCode::SUCCESS,
    })
}

/// Writes the comparison as it stands to all files; pictures only when all is `done`.
fn write(outputs: &mut Outputs, comparison: &Comparison, done: bool) {
    outputs.write(done, |wanted| match wanted {
        Wanted::Data(format) => render(format, comparison).map(String::into_bytes),
        Wanted::Picture(look) => Ok(draw(comparison, picture::footer(&[format!("seed {}", comparison.seed)]), look)),
    });
}

/// Writing the files takes at most this part of the time.
const WRITING: u32 = 20;

/// Shows the progress and writes the exports.
struct Watcher {
    bar: ProgressBar,
    outputs: Outputs,
    begin: Instant,
    /// Files are not written again before.
    next_write: Instant,
}

impl Observer for Watcher {
    fn starting(&mut self, _: usize, variant: &Variant, phase: Phase) {
        // Drawn here only, between runs: a ticking thread would take its share of the CPUs that are measured.
        let mut message = variant.lock.clone();
        if !variant.setting.is_empty() {
            message += &format!(", {}", summary::in_words(&variant.setting));
        }
        if phase == Phase::Confirmation {
            message += ", to confirm it";
        }
        self.bar.set_message(message);
    }

    fn measured(&mut self, _: usize, comparison: &mut Comparison) {
        self.bar.inc(1);
        let now = Instant::now();
        if self.outputs.keeps_files() && now >= self.next_write {
            comparison.summarise();
            write(&mut self.outputs, comparison, false);
            self.next_write = Instant::now() + WRITING * now.elapsed();
        }
    }

    fn more(&mut self, runs: u64) {
        self.bar.inc_length(runs);
    }
}

fn command_failed(problem: &str) -> UserError {
    UserError::new(problem, "run it by hand in the shell: it must exit with status 0")
}

/// The error that the program does not even run without lockswap.
pub fn plain_failed(comparison: &Comparison, problem: &str, variant: usize) -> UserError {
    let sample = comparison.locks.get(variant).and_then(|lock| lock.samples.last());
    let program = comparison.command.first().map_or("", String::as_str);
    let exit = sample.map(|s| &s.exit);
    let (remedy, status) = match exit {
        _ if sample.is_some_and(|s| s.failure.is_some()) => ("run both by hand, without lockswap", 1),
        Some(Exit::NotStarted { .. }) if find_in_path(program.as_ref()).is_none_or(|p| !p.exists()) => {
            ("give its path, or add its folder to PATH", 127)
        }
        Some(Exit::NotStarted { .. }) => ("check that it is a program and executable (chmod +x)", 126),
        Some(Exit::TimedOut { .. }) => ("give a longer --timeout, or a program that ends by itself", 1),
        Some(Exit::Code { code: 0 }) => ("check the REGEX of --metric against the program's output", 1),
        Some(Exit::Code { .. }) => ("check its arguments; --ignore-failure measures it all the same", 1),
        _ => ("run it without lockswap first", 1),
    };
    let mut what = match exit {
        Some(Exit::NotStarted { error }) => format!("cannot start {program}: {error}"),
        _ => format!("{program} fails without lockswap ({problem}), so there is nothing to compare with"),
    };
    if let Some(tail) = sample.and_then(|s| s.stderr_tail.as_deref()) {
        what += "; it wrote to stderr:";
        tail.lines().for_each(|line| what += &format!("\n    {line}"));
    }
    UserError::new(what, remedy).with_status(status)
}

fn warn_of_quota(comparison: &Comparison) {
    let machine = &comparison.machine;
    if machine.cpu_quota.is_some_and(|quota| quota < machine.cpus_allowed as f64) {
        let _ = writeln!(
            io::stderr(),
            "warning: the control group's CPU quota throttles runs; 'lockswap doctor' says more"
        );
    }
}
