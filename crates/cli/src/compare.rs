//! `lockswap compare`

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lockswap_locks::registry::{self, Role};
use lockswap_study::export::{runs_in_words, Export, Format, OutputFile};
use lockswap_study::metric::Metric;
use lockswap_study::model::{Comparison, Exit, Measure, Source};
use lockswap_study::plan::{self, Ending, Observer, Plan, Variant};
use lockswap_study::runner::{find_in_path, Interrupt, Program};
use lockswap_study::summary;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::error::{UserError, USAGE};
use crate::little::{self, Little};
use crate::only::OnlyArgs;
use crate::selection::{known, Selection, INTERPOSED, PLAIN, VARIABLES};
use crate::{duration, hidden, terminal};

/// Runs a program on several locks in turn and says what the difference is worth.
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "lockswap compare [OPTIONS] [-- PROGRAM [ARGS]...]")]
pub struct CompareArgs {
    /// Locks to compare [default: futex,ttas,ticket,mcs_spin,mcs_stp,cna,shfllock-b]
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',', conflicts_with = "all")]
    lock: Vec<String>,
    /// Compares every mutex lock that `lockswap list` shows
    #[arg(long)]
    all: bool,
    /// Lock for rwlocks, the same for all but the baselines [default: rw-futex]
    #[arg(long, value_name = "ID")]
    rwlock: Option<String>,
    /// Lock for spinlocks, the same for all but the baselines [default: ttas]
    #[arg(long, value_name = "ID")]
    spin: Option<String>,
    #[command(flatten)]
    only: OnlyArgs,
    /// Measured runs per lock
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Runs per lock before them, which do not count
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    warmup: u32,
    /// Compares a number in the program's output instead of its wall time: the first group of REGEX in its last match
    #[arg(long, value_name = "REGEX")]
    metric: Option<String>,
    /// Lets the built-in workload do FACTOR times the work on these CPUs, with threads pinned, and calls them little, as
    /// in 1:3
    #[arg(long, value_name = "CPUS:FACTOR", conflicts_with = "command")]
    little: Option<Little>,
    /// The metric is better when it is lower, such as a latency
    #[arg(long, requires = "metric")]
    lower_is_better: bool,
    /// Longest run, such as 90s or 5m [default: 60, or ten times the plain program's slowest run if that is more]
    #[arg(long, value_name = "TIME", value_parser = duration::patience)]
    timeout: Option<Duration>,
    /// Measures a program although it exits with a status other than 0 without lockswap
    #[arg(long)]
    ignore_failure: bool,
    /// Seed of the bootstrap behind the confidence intervals
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Writes everything, raw samples included, as JSON
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Writes one line per run as CSV
    #[arg(long, value_name = "FILE")]
    export_csv: Option<PathBuf>,
    /// Writes the table as Markdown
    #[arg(long, value_name = "FILE")]
    export_md: Option<PathBuf>,
    /// The program and its arguments; without one, a built-in contended key-value workload is compared
    #[arg(trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    command: Vec<OsString>,
}

const HELP: &str = "\
Two baselines are always in: `pthread`, the program without the preload
library, to which all ratios refer, and `interposed-pthread`, with the library
but on glibc's locks, which shows the price of interposition. Runs are
interleaved (A B C A B C). A ratio above 1 is better, for wall time and for
metrics. 'no difference seen' means that the 95% bootstrap interval of the
ratio holds 1. A run that crashes, times out, exits otherwise than the plain
program or lacks the metric is reported in the table and never stops the rest.
The program reads nothing from standard input, and its output is not shown.

Export files are replaced after every run, so an interrupted comparison keeps
what it measured.

Exit status: 0; 1 if the program fails without lockswap (126 or 127 if it
cannot be executed or found) or a file cannot be written; 2 for wrong usage;
130 after Ctrl-C.

Examples:
  lockswap compare
  lockswap compare --little 1:3 --lock mcs_spin,asl
  lockswap compare --lock futex,mcs_stp --runs 20 -- ./program --threads 8
  lockswap compare --only server -- ./start-server-and-load-it.sh
  lockswap compare --metric 'total: ([0-9.]+) req/s' -- ./bench
  lockswap compare --metric 'p99 ([0-9.]+) us' --lower-is-better -- ./bench
  lockswap compare --all --export-json all.json --export-md all.md -- ./bench";

/// Locks compared when none are named: each way of waiting and each family once.
const DEFAULT_LOCKS: [&str; 7] = ["futex", "ttas", "ticket", "mcs_spin", "mcs_stp", "cna", "shfllock-b"];

/// Length of a run of the built-in workload: with the default locks and runs the whole takes about 30 seconds.
const BUILT_IN_MILLIS: u64 = 250;

/// Threads of the built-in workload at most, so that larger machines do not measure memory traffic alone.
const BUILT_IN_THREADS: usize = 16;

/// The built-in workload's name in tables.
const BUILT_IN: &str = "built-in key-value workload";

/// Runs `lockswap compare`.
pub fn run(args: CompareArgs) -> anyhow::Result<ExitCode> {
    let plan = plan(&args)?;
    let exports = exports(&args)?;
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let mut watcher = Watcher {
        bar: bar(u64::from(plan.runs + plan.warmup) * plan.variants.len() as u64),
        exports,
        failed: Vec::new(),
        begin: Instant::now(),
    };
    let (mut comparison, ending) = plan::execute(&plan, env!("CARGO_PKG_VERSION"), Some(&interrupt), &mut watcher);
    watcher.bar.finish_and_clear();
    if let Ending::PlainFailed { problem } = ending {
        return Err(plain_failed(&comparison, &problem).into());
    }
    watcher.export(&mut comparison, true);
    terminal::print(&report(&comparison, watcher.begin.elapsed()))?;
    warn_of_quota(&comparison);
    for problem in &watcher.failed {
        let _ = writeln!(io::stderr(), "error: {problem}");
    }
    Ok(match ending {
        Ending::Interrupted { signal } => {
            let _ = writeln!(io::stderr(), "interrupted: the table shows what was measured until then");
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
        _ if watcher.failed.is_empty() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

fn plan(args: &CompareArgs) -> anyhow::Result<Plan> {
    let built_in = args.command.is_empty();
    if built_in && args.metric.is_some() {
        let what = "--metric needs a program: the built-in workload has its own metric";
        return Err(UserError::new(what, "name a program after --").with_status(USAGE).into());
    }
    let (command, shown) = if built_in {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, BUILT_IN_THREADS);
        let own = std::env::current_exe()?.into_os_string();
        let options = [hidden::KEY_VALUE, "--threads", &threads.to_string(), "--millis", &BUILT_IN_MILLIS.to_string()]
            .map(OsString::from);
        let little = args.little.as_ref().map(|little| OsString::from(format!("--little={little}")));
        let mut shown = format!("{BUILT_IN}, {threads} threads, {BUILT_IN_MILLIS} ms");
        if let Some(little) = &args.little {
            shown += &format!(", little CPUs {little}");
        }
        (std::iter::once(own).chain(options).chain(little).collect(), vec![shown])
    } else {
        (args.command.clone(), args.command.iter().map(|a| a.to_string_lossy().into_owned()).collect())
    };
    let (measure, expression) = match (&args.metric, built_in) {
        (Some(regex), _) => (Measure::metric(regex, "", args.lower_is_better), Some(regex.as_str())),
        (None, true) => (Measure::metric(hidden::KEY_VALUE_METRIC, "ops/s", false), Some(hidden::KEY_VALUE_METRIC)),
        (None, false) => (Measure::wall(), None),
    };
    let metric = expression.map(Metric::new).transpose().map_err(|error| {
        let remedy = "see https://docs.rs/regex-lite for the syntax; put the expression in single quotes";
        UserError::new(format!("--metric: {error}"), remedy).with_status(USAGE)
    })?;
    Ok(Plan {
        command: shown,
        variants: variants(args, &command)?,
        measure,
        metric,
        runs: args.runs,
        warmup: args.warmup,
        timeout: args.timeout,
        seed: args.seed,
        ignore_failure: args.ignore_failure,
    })
}

/// The baselines, then the chosen locks, each once.
fn variants(args: &CompareArgs, command: &[OsString]) -> Result<Vec<Variant>, UserError> {
    let chosen: Vec<&str> = match (args.all, args.lock.is_empty()) {
        (true, _) => registry::ids(Role::Mutex).collect(),
        (false, true) => DEFAULT_LOCKS.to_vec(),
        (false, false) => args.lock.iter().map(|id| id.trim()).collect(),
    };
    let mut locks = vec![PLAIN, INTERPOSED];
    for id in chosen {
        let id = known(Role::Mutex, id)?;
        if !locks.contains(&id) {
            locks.push(id);
        }
    }
    let only = args.only.variable()?;
    let variant = |lock: &str| {
        let glibc = || Some(PLAIN.to_owned());
        let (rwlock, spin) = match lock {
            PLAIN | INTERPOSED => (glibc(), glibc()),
            _ => (args.rwlock.clone(), args.spin.clone()),
        };
        let selection = Selection { lock: Some(lock.into()), rwlock, spin };
        selection.check()?;
        let mut envs = selection.environment()?;
        envs.extend(only.clone());
        // Variables of our own environment must not change what is compared.
        let stray = VARIABLES
            .into_iter()
            .chain(["LOCKSWAP_STATS", "LOCKSWAP_LATENCIES", "LOCKSWAP_ONLY"])
            .filter(|v| !envs.iter().any(|(name, _)| name == v));
        let stray: Vec<_> = stray.map(|name| (name.into(), None)).collect();
        envs.extend(stray);
        if let Some(little) = &args.little {
            envs.extend(little::environment(&little.seats()?));
        }
        Ok(Variant {
            lock: lock.into(),
            preloaded: !selection.is_plain(),
            program: Program { args: command.to_vec(), envs },
        })
    };
    let check = Selection { lock: None, rwlock: args.rwlock.clone(), spin: args.spin.clone() };
    check.check()?;
    locks.into_iter().map(variant).collect()
}

fn exports(args: &CompareArgs) -> Result<Vec<Export>, UserError> {
    let wanted =
        [(Format::Json, &args.export_json), (Format::Csv, &args.export_csv), (Format::Markdown, &args.export_md)];
    let prepare = |(format, path): (Format, &Path)| match OutputFile::prepare(path) {
        Ok(file) => Ok(Export { format, file }),
        Err(error) => Err(UserError::new(
            format!("cannot write {}: {error}", path.display()),
            "name a file in a folder that you can write to; nothing was measured",
        )),
    };
    wanted.into_iter().filter_map(|(format, path)| Some((format, path.as_deref()?))).map(prepare).collect()
}

/// Shows the progress and writes the exports.
struct Watcher {
    bar: ProgressBar,
    exports: Vec<Export>,
    failed: Vec<String>,
    begin: Instant,
}

/// A bar for so many runs; hidden where nobody looks at it.
pub fn bar(runs: u64) -> ProgressBar {
    let bar = ProgressBar::new(runs);
    if !io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        return bar;
    }
    let template = "{elapsed} [{bar:24}] {pos}/{len} runs, {eta} left  {wide_msg}";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

impl Observer for Watcher {
    fn starting(&mut self, lock: &str, _: u32) {
        // Drawn here only, between runs: a ticking thread would take its share of the CPUs that are measured.
        self.bar.set_message(lock.to_owned());
    }

    fn measured(&mut self, comparison: &mut Comparison) {
        self.bar.inc(1);
        if self.exports.iter().any(|e| !e.file.is_stream()) {
            comparison.summarise();
            self.export(comparison, false);
        }
    }
}

impl Watcher {
    /// Streams, which keep nothing, are written only when all is `done`.
    fn export(&mut self, comparison: &mut Comparison, done: bool) {
        for export in self.exports.iter().filter(|e| done || !e.file.is_stream()) {
            if let Err(error) = export.write(comparison) {
                let problem = format!("cannot write {}: {error}", export.file.path().display());
                if !self.failed.contains(&problem) {
                    self.failed.push(problem);
                }
            }
        }
    }
}

/// The error that the program does not even run without lockswap.
pub fn plain_failed(comparison: &Comparison, problem: &str) -> UserError {
    let sample = comparison.baseline().and_then(|b| b.samples.first());
    let program = comparison.command.first().map_or("", String::as_str);
    let exit = sample.map(|s| &s.exit);
    let (remedy, status) = match exit {
        Some(Exit::NotStarted { .. }) if find_in_path(program.as_ref()).is_none_or(|p| !p.exists()) => {
            ("give its path, or add its folder to PATH", 127)
        }
        Some(Exit::NotStarted { .. }) => ("check that it is a program and executable (chmod +x)", 126),
        Some(Exit::TimedOut { .. }) => ("give a longer --timeout S, or a program that ends by itself", 1),
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

/// What is printed at the end.
fn report(comparison: &Comparison, took: Duration) -> String {
    let mut table = terminal::table(&summary::HEADINGS, &[1, 2]);
    for row in &comparison.summary {
        table.add_row(summary::cells(row, &comparison.measure));
    }
    terminal::fold_last_column(&mut table);
    let mut text = format!("{}\n\n{}\n", comparison.command.join(" "), terminal::lines(&table));
    let built_in = matches!(&comparison.measure.source, Source::Metric { regex } if regex == hidden::KEY_VALUE_METRIC);
    let mut legend = summary::legend(comparison);
    if built_in {
        legend[0] = "median: operations per second, higher is better; spread: median absolute deviation".into();
    }
    for line in legend {
        text += &format!("{line}\n");
    }
    text +=
        &format!("{}\n{}; took {} s\n", comparison.machine.words(), runs_in_words(comparison), seconds_in_words(took));
    if comparison.machine.is_busy() {
        let load = comparison.machine.load_average;
        text +=
            &format!("note: the machine was busy before (load average {load:.1}); an idle one gives clearer results\n");
    }
    for line in failures(comparison) {
        text += &format!("{line}\n");
    }
    text
}

fn seconds_in_words(time: Duration) -> String {
    let digits = usize::from(time.as_secs() < 10);
    format!("{:.digits$}", time.as_secs_f64())
}

/// The last words of the first bad run of each lock.
fn failures(comparison: &Comparison) -> Vec<String> {
    let expected = comparison.expected_exit();
    let mut lines = Vec::new();
    for lock in &comparison.locks {
        let bad = |s: &&_| summary::problem(s, &comparison.measure, expected).is_some();
        let Some(tail) = lock.samples.iter().filter(bad).find_map(|s| s.stderr_tail.as_deref()) else { continue };
        lines.push(String::new());
        lines.push(format!("{} wrote to stderr:", lock.lock));
        let all: Vec<&str> = tail.lines().collect();
        lines.extend(all[all.len().saturating_sub(5)..].iter().map(|line| format!("    {line}")));
    }
    lines
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
