//! `lockswap slo`

mod curve;
mod measure;
mod report;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lockswap_platform::Ns;
use lockswap_plot::{Format, Look};
use lockswap_study::export::OutputFile;
use lockswap_study::metric::Metric;
use lockswap_study::runner::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::asl::AslArgs;
use crate::duration;
use crate::error::{UserError, USAGE};
use crate::picture::LookArgs;
use crate::terminal;
use curve::Curve;
use measure::{Ending, Setting};

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
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Throughput as a number in the program's output, the first group of REGEX in its last match [default: epochs/s]
    #[arg(long, value_name = "REGEX")]
    metric: Option<String>,
    #[command(flatten)]
    asl: AslArgs,
    /// Longest run, such as 90s or 5m [default: 60, or ten times the plain program's slowest run if that is more]
    #[arg(long, value_name = "TIME", value_parser = duration::patience)]
    timeout: Option<Duration>,
    /// Draws throughput over the targets, as SVG or PNG
    #[arg(long, value_name = "FILE")]
    export: Option<PathBuf>,
    /// Draws the latencies over the targets, as SVG or PNG
    #[arg(long, value_name = "FILE")]
    export_latency: Option<PathBuf>,
    /// Writes everything, each run's figures included, as JSON
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    command: Vec<OsString>,
}

const HELP: &str = "\
The program must mark the epoch (docs/epochs.md). It is run with each target in
turn, and on three references: `pthread`, without the preload library; the lock
below LibASL, first come first served; and `no target`, with the longest window.
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
  lockswap slo --epoch 5 --from 1ms --to 50ms --asl-fifo futex --export knee.svg
      --export-json slo.json -- ./bench";

/// Runs `lockswap slo`.
pub fn run(args: SloArgs) -> anyhow::Result<ExitCode> {
    let setting = setting(&args)?;
    let exports = Exports::prepare(&args)?;
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let mut failed = Vec::new();
    let mut keep = |curve: &Curve, done| exports.write(curve, done, &mut failed);
    let (curve, ending) = measure::measure(&setting, &interrupt, &mut keep)?;
    exports.write(&curve, true, &mut failed);
    terminal::print(&report::words(&curve, terminal::width().map_or(100, usize::from)))?;
    for problem in &failed {
        let _ = writeln!(io::stderr(), "error: {problem}");
    }
    Ok(match ending {
        Ending::Interrupted { signal } => {
            let _ = writeln!(io::stderr(), "interrupted: the table shows what was measured until then");
            ExitCode::from(128u8.wrapping_add(signal as u8))
        }
        Ending::Complete if failed.is_empty() => ExitCode::SUCCESS,
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
    Ok(Setting {
        command: args.command.clone(),
        epoch: args.epoch,
        slos: curve::targets(args.from, args.to, args.steps),
        runs: args.runs,
        regex: args.metric.clone(),
        metric,
        asl: args.asl.clone(),
        timeout: args.timeout,
    })
}

/// The files to write; all of them can be, as far as that can be known before.
struct Exports {
    json: Option<OutputFile>,
    throughput: Option<(OutputFile, Look)>,
    latency: Option<(OutputFile, Look)>,
}

impl Exports {
    fn prepare(args: &SloArgs) -> Result<Self, UserError> {
        let file = |path: &Path| {
            OutputFile::prepare(path).map_err(|error| {
                let what = format!("cannot write {}: {error}", path.display());
                UserError::new(what, "name a file in a folder that you can write to; nothing was measured")
            })
        };
        let picture = |path: &Path| {
            let format = Format::of(path).map_err(|error| {
                UserError::new(error.to_string(), "name it, for instance, slo.svg").with_status(USAGE)
            })?;
            Ok::<_, UserError>((file(path)?, args.look.of(format)))
        };
        Ok(Self {
            throughput: args.export.as_deref().map(picture).transpose()?,
            latency: args.export_latency.as_deref().map(picture).transpose()?,
            json: args.export_json.as_deref().map(file).transpose()?,
        })
    }

    /// Writes the curve as it stands: the JSON always, what is drawn and what goes to a stream only when all is `done`.
    fn write(&self, curve: &Curve, done: bool, failed: &mut Vec<String>) {
        let mut note = |file: &OutputFile, result: io::Result<()>| {
            if let Err(error) = result {
                let problem = format!("cannot write {}: {error}", file.path().display());
                if !failed.contains(&problem) {
                    failed.push(problem);
                }
            }
        };
        if let Some(file) = self.json.as_ref().filter(|file| done || !file.is_stream()) {
            let text = serde_json::to_string_pretty(curve).map_err(io::Error::from);
            note(file, text.and_then(|text| file.replace((text + "\n").as_bytes())));
        }
        let charts = [(&self.throughput, report::throughput as fn(&Curve) -> _), (&self.latency, report::latency)];
        for (export, chart) in charts {
            if let Some((file, look)) = export.as_ref().filter(|_| done) {
                note(file, file.replace(&chart(curve).render(*look)));
            }
        }
    }
}
