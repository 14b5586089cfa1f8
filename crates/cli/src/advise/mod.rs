//! `lockswap advise`

mod experiment;
mod narrow;
mod programs;
mod result;
mod seen;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockswap_advise::advice::{Advice, LISTED, SCHEMA};
use lockswap_advise::answer;
use lockswap_advise::cause::{self, Cause};
use lockswap_advise::suspect::{worth_it, Suspect};
use lockswap_study::execute::Ending;
use lockswap_study::model::Comparison;
use lockswap_study::runner::Interrupt;
use lockswap_study::service::Ready;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::compare::{percent, plain_failed, Direction};
use crate::duration;
use crate::error::UserError;
use crate::only::OnlyArgs;
use crate::outputs::{OutputArgs, Outputs};
use crate::terminal::say;
use experiment::Tried;
use programs::Programs;
use seen::Seen;

/// Finds out which lock each mutex of a program should have, or that no lock will help and what would.
#[derive(clap::Args)]
#[command(override_usage = "lockswap advise [OPTIONS] -- PROGRAM [ARGS]...", after_help = HELP)]
pub struct AdviseArgs {
    /// How long all of it may take; what is tried depends on it
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration::patience)]
    time: Duration,
    /// Where the profile is written, if one helps
    #[arg(short = 'o', long, value_name = "PROFILE.toml", default_value = "lockswap-profile.toml")]
    out: PathBuf,
    /// Replaces the profile if it is there already
    #[arg(short = 'f', long)]
    force: bool,
    #[command(flatten)]
    only: OnlyArgs,
    /// Decides by a number in the program's output instead of its wall time: the first group of REGEX in its last
    /// match. Higher is better, with `lower:` before REGEX lower is. Repeatable; the first one decides
    #[arg(short = 'm', long, value_name = "[lower:]REGEX")]
    metric: Vec<Direction>,
    /// Load generator: the program is then a server, and what CMD takes and prints decides. CMD runs in the shell,
    /// without lockswap, as do all CMD
    #[arg(long, value_name = "CMD", requires = "ready")]
    load: Option<String>,
    /// What shows that the server is ready: port:N, file:FILE or output:REGEX
    #[arg(long, value_name = "HOW", requires = "load", value_parser = Ready::parse)]
    ready: Option<Ready>,
    /// Runs CMD before each run
    #[arg(short = 'p', long, value_name = "CMD")]
    prepare: Option<String>,
    /// What the program reads from standard input [default: nothing]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Shows what the program writes
    #[arg(long)]
    show_output: bool,
    /// Longest run, such as 90s or 5m [default: ten times as long as without lockswap; at least 5, of the plain run
    /// 60]
    #[arg(long, value_name = "TIME", value_parser = duration::patience)]
    timeout: Option<Duration>,
    /// Takes a program although it exits with a status other than 0 without lockswap
    #[arg(short = 'i', long)]
    ignore_failure: bool,
    /// Differences of less than so many percent are not worth a verdict
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percent)]
    smallest_effect: f64,
    /// Leaves the simulator out: rules alone say which locks are tried
    #[arg(long)]
    no_simulation: bool,
    /// Seed of the order of runs
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    command: Vec<OsString>,
}

const HELP: &str = "\
The program runs once as it is and once traced, on glibc's own locks. Locks for
which its threads wait a good part of their time, at most three, get up to five
locks tried, one mutex after the other: each trial is a comparison with the
rounds and the statistics of lockswap compare, and what was best for one mutex
stays while the next one is tried. Fresh runs then compare what was chosen with
glibc's own locks and with single locks for everything. docs/advise.md walks
through a real case.

Read-write locks get one lock for all of them, which is not part of a profile.

Exit status: 0, whether a lock helps or not; 1 if the program fails without
lockswap (126 or 127 if it cannot be executed or found), is too short to be
traced, or --time too short for the least; 2 for wrong usage; 130 after Ctrl-C.

Examples:
  lockswap advise -- ./program --threads 8
  lockswap advise --time 30m -o server.toml --export advice.html -- ./bench
  lockswap advise --metric 'total: ([0-9.]+) req/s' -- ./bench
  lockswap advise --load 'wrk -d 5 http://localhost:8080/' --ready port:8080 \\
      --metric 'Requests/sec: +([0-9.]+)' -- ./server
then:
  lockswap run --lock pthread --profile lockswap-profile.toml -- ./program --threads 8";

/// The forms of results that there are.
const FORMS: &[&str] = &["json", "md", "html", "svg", "png"];

/// Runs `lockswap advise`.
pub fn run(args: &AdviseArgs) -> anyhow::Result<ExitCode> {
    let begin = Instant::now();
    result::check_format(args.output.format)?;
    let out = result::prepare(&args.out, args.force)?;
    let mut outputs = Outputs::prepare(&args.output, FORMS)?;
    let programs = Programs::new(args)?;
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let seen = match Seen::look(&programs, &interrupt)? {
        Some(seen) => seen,
        None => return Ok(interrupted(&interrupt)),
    };
    let suspects = worth_it(&seen.locks);
    say(&words(&seen, suspects.len()));
    let (settled, open): (Vec<&Suspect>, Vec<&Suspect>) =
        suspects.iter().copied().partition(|suspect| cause::is_settled(suspect));
    let causes = causes(&seen, &suspects, &settled);
    let tried = match open.is_empty() {
        true => Tried { answer: answer::nothing_to_try(&causes), ..Tried::default() },
        false => {
            let left = || args.time.saturating_sub(begin.elapsed());
            match experiment::run(args, &programs, &seen, &open, &causes, &left, &interrupt)? {
                Some(tried) => tried,
                None => return Ok(interrupted(&interrupt)),
            }
        }
    };
    let profile = result::profile(&tried, &seen, &programs.shown);
    let run_with = result::run_with(&tried, &args.out, &args.command);
    let advice = Advice {
        schema: SCHEMA,
        tool_version: env!("CARGO_PKG_VERSION").into(),
        command: programs.shown.clone(),
        run: seen.run.clone(),
        locks: seen.locks.iter().take(LISTED).cloned().collect(),
        causes,
        budget: tried.budget,
        trials: tried.trials,
        confirmation: tried.confirmation,
        after: tried.after,
        answer: tried.answer,
        run_with,
        profile,
        took_s: begin.elapsed().as_secs_f64(),
    };
    result::tell(&advice, &mut outputs, args.output.format, &out)
}

/// What holds the program up that no lock changes.
fn causes(seen: &Seen, suspects: &[&Suspect], settled: &[&Suspect]) -> Vec<Cause> {
    match suspects.is_empty() {
        true => cause::of_run(&seen.run, &seen.report),
        false => {
            // What is settled says it all; of the others it matters only if no lock helps.
            let told = if settled.len() == suspects.len() { settled } else { suspects };
            told.iter().flat_map(|suspect| cause::of_lock(suspect)).collect()
        }
    }
}

/// What the traced run showed, in a line.
fn words(seen: &Seen, matter: usize) -> String {
    let locks = match matter {
        0 => "no lock matters".to_owned(),
        1 => "1 lock matters".to_owned(),
        several => format!("{several} locks matter"),
    };
    format!(
        "traced a run of {:.2} s: threads waited {} of their time for locks; {locks}",
        seen.run.wall_s,
        lockswap_study::numbers::percent(seen.run.waited)
    )
}

fn interrupted(interrupt: &Interrupt) -> ExitCode {
    say("interrupted: nothing was written");
    ExitCode::from(128u8.wrapping_add(interrupt.signal().unwrap_or(SIGINT) as u8))
}

/// The error of a comparison that did not come to its end; nothing if that was wanted.
fn ended(comparison: &Comparison, ending: Ending) -> Option<UserError> {
    match ending {
        Ending::Complete | Ending::Interrupted { .. } => None,
        Ending::PlainFailed { problem, variant } => Some(plain_failed(comparison, &problem, variant)),
        Ending::CommandFailed { problem } => {
            Some(UserError::new(problem, "run it by hand in the shell: it must exit with status 0"))
        }
    }
}
