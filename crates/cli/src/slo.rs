//! `lockswap slo`

mod report;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::ProgressBar;
use lockswap_locks::parameters::{Parameters, Values};
use lockswap_locks::registry;
use lockswap_platform::{Ns, LONGEST_DURATION};
use lockswap_plot::Chart;
use lockswap_study::latencies::LatencyFile;
use lockswap_study::metric::Metric;
use lockswap_study::plan::Variant;
use lockswap_study::runner::{Interrupt, Program};
use lockswap_study::slo::curve::{targets, Curve, Point, Role};
use lockswap_study::slo::draw;
use lockswap_study::slo::measure::{measure, points, Ending, Failure, Setting, Watch};
use lockswap_study::slo::report::render;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::asl::{slo_variable, AslArgs, Slo};
use crate::compare::plain_failed;
use crate::duration;
use crate::error::{UserError, USAGE};
use crate::outputs::{OutputArgs, Outputs, Wanted, ALL_FORMS};
use crate::picture::{footer, Picture};
use crate::selection::{named, Selection, PLAIN, VARIABLES};
use crate::terminal;

/// Knows targets without a lock below.
const AUTO: &str = "auto";

/// Finds a latency target for an epoch: what each one costs in latency and brings in throughput.
#[derive(clap::Args)]
#[command(after_help = HELP, override_usage = "lockswap slo --epoch <ID> --from <TIME> --to <TIME>
       [OPTIONS] -- <PROGRAM> [ARGS]...")]
pub struct SloArgs {
    /// The epoch, as the program numbers it in lockswap_epoch_start
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    epoch: i32,
    /// The lowest target, such as 10us
    #[arg(long, value_name = "TIME", value_parser = duration::with_unit)]
    from: Ns,
    /// The highest target, such as 1ms
    #[arg(long, value_name = "TIME", value_parser = duration::with_unit)]
    to: Ns,
    /// Number of targets, each the same factor above the one before
    #[arg(long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(2..=1000))]
    steps: u32,
    /// Runs with each target, interleaved; the medians count
    #[arg(short = 'r', long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Throughput as a number in the program's output, the first group of REGEX in its last match [default: epochs/s]
    #[arg(short = 'm', long, value_name = "REGEX")]
    metric: Option<String>,
    /// Lock of LibASL, with its parameters (`lockswap list asl`), as in asl:fifo=futex, or auto
    #[arg(short = 'l', long, value_name = "ID", default_value = "asl")]
    lock: String,
    #[command(flatten)]
    asl: AslArgs,
    /// Longest run, such as 90s or 5m [default: 60, or ten times the plain program's slowest run if that is more]
    #[arg(long, value_name = "TIME", value_parser = duration::patience)]
    timeout: Option<Duration>,
    #[command(flatten)]
    output: OutputArgs,
    /// Draws the latencies over the targets, as .svg or .png; --export draws the throughput
    #[arg(long, value_name = "FILE")]
    export_latency: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    command: Vec<OsString>,
}

const HELP: &str = "\
The program must mark the epoch (docs/epochs.md). It is run with each target in
turn, and on three references: `pthread`, without the preload library; the lock
below LibASL, first come first served (auto itself, with nobody standing back);
and `no target`, with the longest window.
The table shows how long the epoch took on big and on little cores. A target
that is `not met` is below what the lock can do; LibASL is then first come first
served.

The knee is the lowest target that is met and brings at least 90% of the gain in
throughput, from the lock below to the best target. There is none if the best
one gains less than 5%.

A machine whose cores are all alike has no little ones: LOCKSWAP_BIG=0 declares
CPU 0 big and all others little.

Exit status: 0; 1 if the program fails or never enters the epoch, or a file
cannot be written (126 or 127 if the program cannot be executed or found); 2 for
wrong usage; 130 after Ctrl-C, with the table of what was measured.

Examples:
  lockswap slo --epoch 5 --from 10us --to 1ms -- ./server --seconds 2
  lockswap slo --epoch 5 --from 10us --to 1ms --steps 24 --runs 5 -- ./bench
  lockswap slo --epoch 5 --from 10us --to 1ms --metric '([0-9.]+) req/s' -- ./bench
  lockswap slo --epoch 5 --from 1ms --to 50ms --lock asl:fifo=futex \\
      --export knee.svg --export slo.json -- ./bench";

/// Runs `lockswap slo`.
pub fn run(args: SloArgs) -> anyhow::Result<ExitCode> {
    let setting = setting(&args)?;
    let mut outputs = Outputs::prepare(&args.output, ALL_FORMS)?;
    let latency = args.export_latency.as_deref().map(Picture::prepare).transpose()?;
    let file = LatencyFile::create().map_err(|error| {
        let remedy = "set TMPDIR to a folder that you can write to, on a disk that is not full";
        UserError::new(format!("cannot record latencies: {error}"), remedy)
    })?;
    let points = points(&setting.slos);
    let variants: Vec<Variant> =
        points.iter().map(|point| variant(&setting, point, &file)).collect::<Result<_, _>>()?;
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let mut watcher = Watcher { bar: terminal::bar(0), outputs: &mut outputs };
    let measured = measure(&setting, (points, &variants), file, &interrupt, &mut watcher);
    watcher.bar.finish_and_clear();
    let (curve, ending) = measured.map_err(|failure| match failure {
        Failure::Plain { comparison, problem, variant } => plain_failed(&comparison, &problem, variant),
        Failure::Unfit { what, remedy } => UserError::new(what, remedy),
    })?;
    write(&mut outputs, &curve, true);
    if let Some(picture) = &latency {
        let draw = |format| with_footer(draw::latency(&curve), &curve).render(args.output.look.of(format));
        outputs.failed.extend(picture.write(draw).err().map(|error| format!("{error:#}")));
    }
    match args.output.format.data() {
        None => terminal::print(&report::words(&curve, terminal::width().map_or(100, usize::from)))?,
        Some(format) => terminal::print_data(&render(format, &curve, &report::environment())?)?,
    }
    let written = outputs.tell();
    Ok(match ending {
        Ending::Interrupted { signal } => {
            let _ = writeln!(io::stderr(), "interrupted: the table shows what was measured until then");
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
        Ending::Complete if written => ExitCode::SUCCESS,
        Ending::Complete => ExitCode::FAILURE,
    })
}

fn setting(args: &SloArgs) -> Result<Setting, UserError> {
    if args.from == 0 || args.from > args.to {
        let what = "the targets must begin above 0 and end where they begin or later";
        return Err(UserError::new(what, "give, for instance, --from 10us --to 1ms").with_status(USAGE));
    }
    let metric = args.metric.as_deref().map(Metric::new).transpose().map_err(|error| {
        let remedy = "see https://docs.rs/regex-lite for the syntax; put the expression in single quotes";
        UserError::new(format!("--metric: {error}"), remedy).with_status(USAGE)
    })?;
    let (lock, fifo) = locks(args)?;
    Ok(Setting {
        command: args.command.clone(),
        epoch: args.epoch,
        slos: targets(args.from, args.to, args.steps),
        runs: args.runs,
        regex: args.metric.clone(),
        metric,
        lock,
        fifo,
        timeout: args.timeout,
        version: env!("CARGO_PKG_VERSION").into(),
    })
}

/// The lock, and the one where nobody stands back: that below LibASL, or the same.
fn locks(args: &SloArgs) -> Result<(String, String), UserError> {
    let lock = named(registry::Role::Mutex, &args.asl.choose(Some(args.lock.clone()))?.unwrap_or_default())?;
    let id = lock.split(':').next().unwrap_or_default();
    if id == AUTO {
        return Ok((lock.clone(), lock));
    }
    let asl = registry::find(registry::Role::Mutex, "asl").map(|asl| asl.parameters);
    let fifo = asl.iter().flat_map(Parameters::iter).find_map(|parameter| match parameter.values {
        Values::Locks(known) => known.iter().find(|(_, asl)| *asl == id).map(|(fifo, _)| (*fifo).to_owned()),
        Values::Time(_) | Values::Number(..) => None,
    });
    match fifo {
        Some(fifo) => Ok((lock, fifo)),
        None => {
            let what = format!("--lock {lock}: targets mean something to auto and the locks of LibASL only");
            Err(UserError::new(what, "leave it out, or name asl with a lock below, as in asl:fifo=ticket")
                .with_status(USAGE))
        }
    }
}

/// The program as it is run at this point.
fn variant(setting: &Setting, point: &Point, file: &LatencyFile) -> Result<Variant, UserError> {
    let lock = match point.role {
        Role::Pthread => PLAIN,
        Role::Fifo => &setting.fifo,
        Role::NoTarget | Role::Target => &setting.lock,
    };
    let selection = Selection { lock: Some(lock.into()), rwlock: None, spin: None };
    let mut envs = selection.environment()?;
    let stray = VARIABLES
        .into_iter()
        .chain(["LOCKSWAP_STATS", "LOCKSWAP_ONLY", "LOCKSWAP_PROFILE"])
        .filter(|v| !envs.iter().any(|(name, _)| name == v));
    let stray: Vec<_> = stray.map(|name| (name.into(), None)).collect();
    envs.extend(stray);
    envs.push(file.variable());
    let target = match point.role {
        // None that an epoch could meet, so that nobody stands back. A lock below knows of no target.
        Role::Fifo if setting.fifo == setting.lock => Some(0),
        Role::Pthread | Role::Fifo => None,
        // One that every epoch meets.
        Role::NoTarget => Some(LONGEST_DURATION),
        Role::Target => point.slo_ns,
    };
    if let Some(ns) = target {
        envs.push(slo_variable(&[Slo { id: setting.epoch, ns }]));
    }
    Ok(Variant::new(lock, !selection.is_plain(), Program { args: setting.command.clone(), envs, ..Program::default() }))
}

/// Shows the progress and keeps what there is.
struct Watcher<'a> {
    bar: ProgressBar,
    outputs: &'a mut Outputs,
}

impl Watch for Watcher<'_> {
    fn begin(&mut self, runs: u64) {
        self.bar.set_length(runs);
    }

    fn starting(&mut self, point: &Point, curve: &Curve) {
        self.bar.set_message(curve.name_of(point));
    }

    fn measured(&mut self, curve: Option<&Curve>) {
        self.bar.inc(1);
        if let Some(curve) = curve {
            write(self.outputs, curve, false);
        }
    }
}

/// Writes the curve as it stands to all files; pictures only when all is `done`.
fn write(outputs: &mut Outputs, curve: &Curve, done: bool) {
    outputs.write(done, |wanted| match wanted {
        Wanted::Data(format) => render(format, curve, &report::environment()).map(String::into_bytes),
        Wanted::Picture(look) => Ok(with_footer(draw::throughput(curve), curve).render(look)),
    });
}

fn with_footer(chart: Chart, curve: &Curve) -> Chart {
    Chart { footer: footer(&[draw::facts(curve)]), ..chart }
}
