//! `lockswap trace`

pub mod attached;
mod outputs;
pub mod sampling;
mod whatif;

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use lockswap_inspect::{examine, Prospect, Status};
use lockswap_platform::Ns;
use lockswap_study::runner::{is_ignored, Program};
use lockswap_trace::export::{page, Extent, Side};
use lockswap_trace::{Report, Session, SharedFile};
use rustix::process::{kill_process, Pid, Signal};
use signal_hook::consts::{SIGCHLD, SIGINT};
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::iterator::SignalsInfo;
use signal_hook::low_level::siginfo::Cause;

use crate::error::{UserError, USAGE};
use crate::only::OnlyArgs;
use crate::run::{end_as, not_started, FORWARDED, OWN_FAILURE};
use crate::selection::{Selection, INTERPOSED, PLAIN};
use crate::terminal::{self, visible};
use crate::{duration, library};
use outputs::Outputs;
use sampling::SamplingArgs;

/// Says which locks a program's threads wait for, and which code holds them meanwhile.
#[derive(clap::Args)]
#[command(
    override_usage = "lockswap trace [OPTIONS] -- PROGRAM [ARGS]...\n       lockswap trace [OPTIONS] --pid PID",
    after_help = "\
The program runs as it would without lockswap, on glibc's own locks unless --lock
names others. When it has ended, a table on stderr names the locks for which
threads waited longest, the code that held them meanwhile, and the code that
waited. Numbers are estimated from a sample; `+-` says how far off a sum may be,
with 95 % confidence. docs/trace.md tells how all this is measured.

--export writes what the ending of the name says:
  .json          everything
  .html          a page with all tables and flame graphs
  .svg           a flame graph: the code that let others wait, and how long
  .folded        the same as folded stacks, for other flame graphs
  .pb.gz         the same for pprof
  .profile.json  a time line for https://profiler.firefox.com
With --waiters, flame graphs, folded stacks and pprof's files show the code that
waited instead.

--delay and --shorten make an experiment instead: how often would the program get
through the sections of a lock if each were longer, or shorter? Sections are those
between an acquisition and the release. While the program runs they get longer in
turns, or all other threads are held up as if they were shorter. MUTEX is the name
of a lock as the table shows it, HOT or QUEUE+0x40, or of the function that
initialises it; FILE:NAME is one of that program or library.

--pid traces a program that runs already, from now on until Ctrl-C, its end, or
for as long as --for says. It must have been started by lockswap run, or with the
library and LOCKSWAP_TRACE=ready; it runs on as if nothing had been.

Without --pid, Ctrl-C goes to the program. A second one ends the trace at once;
the program may run on then, untraced.

Exit status: the program's own; 126 if it cannot be executed, 127 if it is not
found, 125 if lockswap itself fails, 2 for wrong usage, 130 after a second Ctrl-C.

Examples:
  lockswap trace -- ./server --port 8080
  lockswap trace --top 3 --export trace.html --export trace.svg -- ./program
  lockswap trace --lock mcs_stp -- ./program
  lockswap trace --pid $(pidof server) --for 10s --export trace.html
  lockswap trace --spacing 0ms -- ./short-program
  lockswap trace --shorten cache_lock:50% -- ./server
  lockswap trace --delay cache_lock:100ns --progress requests -- ./server"
)]
pub struct TraceArgs {
    /// Lock for mutexes (`lockswap list` names them)
    #[arg(short = 'l', long, value_name = "ID", default_value = PLAIN)]
    lock: String,
    /// Lock for rwlocks [default: pthread, or rw-futex with a --lock that is not glibc's]
    #[arg(long, value_name = "ID")]
    rwlock: Option<String>,
    #[command(flatten)]
    only: OnlyArgs,
    /// Number of locks in the table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    /// Writes a file in the form that its ending names. Repeatable
    #[arg(short = 'e', long, value_name = "FILE")]
    export: Vec<std::path::PathBuf>,
    /// Flame graphs, folded stacks and pprof's files show the code that waited, not the code that let it wait
    #[arg(long)]
    waiters: bool,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// Traces a process that runs already
    #[arg(long, value_name = "PID", conflicts_with_all = ["command", "lock", "rwlock", "only"])]
    pid: Option<u32>,
    /// How long a process that runs already is traced [default: until it ends, or Ctrl-C]
    #[arg(long = "for", value_name = "TIME", value_parser = duration::with_unit)]
    time: Option<Ns>,
    /// What if each section of a lock took longer by a time?
    #[arg(long, value_name = "MUTEX:TIME", value_parser = whatif::delay, conflicts_with_all = WHATIF_WITHOUT)]
    delay: Option<whatif::Changed>,
    /// What if each section of a lock took less by a share of its length?
    #[arg(long, value_name = "MUTEX:PERCENT%", value_parser = whatif::shorten, conflicts_with = "delay",
        conflicts_with_all = WHATIF_WITHOUT)]
    shorten: Option<whatif::Changed>,
    /// The lock whose releases say how the program gets on [default: the one of --delay or --shorten]
    #[arg(long, value_name = "MUTEX", value_parser = whatif::named)]
    progress: Option<(String, lockswap_trace::whatif::Name)>,
    /// The program and its arguments
    #[arg(required_unless_present = "pid", trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    command: Vec<OsString>,
}

/// Nothing is traced during an experiment.
const WHATIF_WITHOUT: [&str; 5] = ["pid", "top", "waiters", "stack", "spacing"];

/// How often the file is read: then it holds a small part of what fits.
pub const INTERVAL: Duration = Duration::from_millis(2);

/// Runs `lockswap trace`.
pub fn run(args: TraceArgs) -> anyhow::Result<ExitCode> {
    if let Some(process) = args.pid {
        return attached::run(&args, process);
    }
    if args.time.is_some() {
        let what = "--for is for a process that runs already";
        return Err(UserError::new(what, "add --pid PID, or leave it out").with_status(USAGE).into());
    }
    if let Some(changed) = args.delay.clone().or_else(|| args.shorten.clone()) {
        return whatif::run(&args, changed);
    }
    if args.progress.is_some() {
        let what = "--progress is for an experiment";
        return Err(UserError::new(what, "add --delay or --shorten, or leave it out").with_status(USAGE).into());
    }
    let selection = args.selection()?;
    let mut outputs = Outputs::prepare(&args.export)?;
    check(&args.command)?;
    let settings = args.sampling.settings();
    let shared = SharedFile::create(settings).map_err(|error| {
        let remedy = "make room in /dev/shm, or set TMPDIR to a folder with room";
        UserError::new(format!("the program was not started: no file for the trace: {error}"), remedy)
            .with_status(OWN_FAILURE)
    })?;
    let mut session = Session::new(&shared, outputs.want_spans());
    let program = args.program(&selection, shared.variable())?;
    let mut process = 0;
    let status = follow(&program, |child| {
        process = child;
        session.read(child, false);
    })?;
    session.stop();
    session.read(process, status.is_some());
    let command = program.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let report = session.report(command, selection.ids().to_vec(), settings);
    let mut text = words(&report, args.top as usize);
    if !session.has_begun() {
        text = "nothing was traced: the program did not load the library, or ended before it could\n".into();
    }
    // A closed stderr must not change how the program's end is reported.
    let _ = io::stderr().write_all(text.as_bytes());
    outputs.write(args.side(), &report, &session.gathered);
    match status {
        Some(status) => end_as(status),
        None => {
            terminal::say("interrupted: the program was left alone and may run on; the table shows what was seen");
            Ok(ExitCode::from(128 + SIGINT as u8))
        }
    }
}

/// The tables of a report, with so many locks.
fn words(report: &Report, top: usize) -> String {
    visible_lines(&terminal::page_words(&page(report, Extent::Worst(top))))
}

/// Names of the program's can hold anything; line feeds are ours.
fn visible_lines(text: &str) -> String {
    text.lines().map(|line| visible(line) + "\n").collect()
}

impl TraceArgs {
    /// The locks that the program runs on.
    fn selection(&self) -> anyhow::Result<Selection> {
        let lock = if self.lock == PLAIN { INTERPOSED } else { &self.lock };
        Ok(Selection::named(Some(lock.to_owned()), self.rwlock.clone(), None)?)
    }

    /// The program, with a variable of ours.
    fn program(&self, selection: &Selection, variable: (OsString, Option<OsString>)) -> Result<Program, UserError> {
        let mut envs = selection.environment().map_err(|error| error.with_status(OWN_FAILURE))?;
        envs.extend(self.only.variable()?);
        envs.push(variable);
        Ok(Program { args: self.command.clone(), envs, ..Program::default() })
    }

    /// Whose code pictures show.
    fn side(&self) -> Side {
        if self.waiters {
            Side::Waiters
        } else {
            Side::Holders
        }
    }
}

/// Refuses a program that cannot be traced.
pub fn check(command: &[OsString]) -> Result<(), UserError> {
    let Some(name) = command.first() else { return Ok(()) };
    let examined = examine(name, &library::EMBEDDED.image).map_err(|error| {
        let status = if matches!(error, lockswap_inspect::Error::CannotRead(..)) { 126 } else { 127 };
        UserError::from(error).with_status(status)
    })?;
    let cannot = |what: String, remedy: &str| {
        let name = visible(&name.to_string_lossy());
        UserError::new(format!("{name} cannot be traced: {}", visible(&what)), remedy).with_status(126)
    };
    if let Some(problem) = examined.checks.iter().find(|finding| finding.status == Status::Problem) {
        let remedy = problem.remedy.as_deref().unwrap_or("lockswap doctor tells more");
        return Err(cannot(format!("{}: {}", problem.name, problem.found), remedy));
    }
    match examined.prospect {
        Prospect::StandsAside => {
            Err(cannot("ThreadSanitizer must see its locks".into(), "trace a build without -fsanitize=thread"))
        }
        _ => Ok(()),
    }
}

/// Starts a program, does `work` with the number of its process again and again until it has ended, and passes signals
/// on to it; `None` if the user does not want to wait any longer.
fn follow(program: &Program, mut work: impl FnMut(u32)) -> anyhow::Result<Option<ExitStatus>> {
    // Caught before the program starts, so that none is lost; the program itself starts with the usual dispositions.
    let forwarded = FORWARDED.into_iter().filter(|signal| !is_ignored(*signal));
    let mut signals = SignalsInfo::<WithOrigin>::new(forwarded.chain([SIGCHLD]))?;
    let mut child = program.spawn(|_| {}).map_err(|error| not_started(program, &error))?;
    let pid = Pid::from_child(&child);
    let mut interrupts = 0;
    loop {
        work(child.id());
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        for origin in signals.pending() {
            let from_terminal = matches!(origin.cause, Cause::Kernel);
            let from_program = origin.process.map(|p| p.pid) == Some(pid.as_raw_nonzero().get());
            if origin.signal == SIGINT && !from_program {
                interrupts += 1;
            }
            if interrupts > 1 {
                return Ok(None);
            }
            // The terminal signals the whole foreground group, the program included. The end of the program is
            // SIGCHLD.
            if !FORWARDED.contains(&origin.signal) || from_terminal || from_program {
                continue;
            }
            if let Some(signal) = Signal::from_named_raw(origin.signal) {
                // It fails only when the program has just ended, and then the next turn of the loop sees that.
                let _ = kill_process(pid, signal);
            }
        }
        std::thread::sleep(INTERVAL);
    }
}
