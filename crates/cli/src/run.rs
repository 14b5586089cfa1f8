//! `lockswap run`

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ExitCode, ExitStatus};
use std::time::Duration;

use lockswap_carry::Watch;
use lockswap_locks::registry::Role;
use lockswap_study::counting::Counting;
use lockswap_study::export::OutputFile;
use lockswap_study::run_summary::Stats;
use lockswap_study::runner::{is_ignored, Program};
use rustix::process::{kill_process, Pid, Signal};
use serde::Serialize;
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::exfiltrator::origin::WithOrigin;
use signal_hook::iterator::SignalsInfo;
use signal_hook::low_level::siginfo::Cause;

use crate::asl::{slo, slo_variable, AslArgs, Slo};
use crate::error::{UserError, USAGE};
use crate::only::OnlyArgs;
use crate::profile::{Profile, ProfileArgs};
use crate::selection::{self, Selection, INTERPOSED, PLAIN};

/// Runs a program on the locks of your choice.
#[derive(clap::Args)]
#[command(
    override_usage = "lockswap run [OPTIONS] -- PROGRAM [ARGS]...",
    after_help = "\
The program's input, output, exit status and signals are untouched.
`--lock pthread` runs it without the preload library, and
`--lock interposed-pthread` with the library forwarding every call to glibc.

Exit status: the program's own; 126 if it cannot be executed, 127 if it is not
found, 125 if lockswap itself fails, 2 for wrong usage.

lockswap turns into the program, with two exceptions: with --summary or
--stats-json, and with a lock that prefers near or big CPUs, it stays, passes
signals on, and ends as the program does, also if that is killed by a signal.
While it stays it looks once a second whether CPUs went online or offline or
changed their capacity, and tells the locks. Where there is no room for counters
the program runs all the same, and one line on stderr says so.

Processes that the program starts get the locks, too, unless --only names one
executable. A script is run by its interpreter: name that.

Examples:
  lockswap run -- ./server --port 8080
  lockswap run --lock mcs_stp --summary -- ./program
  lockswap run --lock pthread --rwlock rw-futex -- ./program
  lockswap run --lock mcs_stp --only server -- ./start-server.sh
  lockswap run --lock asl:fifo=ticket --slo 5=50us -- ./program
  lockswap run --profile locks.toml --summary -- ./program
  lockswap run --lock ticket --stats-json stats.json -- ./program"
)]
pub struct RunArgs {
    #[arg(short = 'l', long, value_name = "ID", help = format!("Lock for mutexes (`lockswap list` names them) [default: {}]", Role::Mutex.default_id()))]
    lock: Option<String>,
    #[arg(long, value_name = "ID", help = format!("Lock for rwlocks [default: {}]", Role::RwLock.default_id()))]
    rwlock: Option<String>,
    #[arg(long, value_name = "ID", help = format!("Lock for spinlocks [default: {}]", Role::Spin.default_id()))]
    spin: Option<String>,
    #[command(flatten)]
    profile: ProfileArgs,
    #[command(flatten)]
    only: OnlyArgs,
    #[command(flatten)]
    asl: AslArgs,
    /// Target of an epoch, whatever the program says; several times for several epochs
    #[arg(long, value_name = "ID=TIME", allow_hyphen_values = true, value_parser = slo)]
    slo: Vec<Slo>,
    /// Says on stderr, when the program has ended, what was replaced and what was passed through to glibc
    #[arg(long)]
    summary: bool,
    /// Writes the same as JSON
    #[arg(long, value_name = "FILE")]
    stats_json: Option<PathBuf>,
    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_names = ["PROGRAM", "ARGS"])]
    command: Vec<OsString>,
}

/// Status when lockswap itself fails, as with `env` and `timeout`.
pub const OWN_FAILURE: u8 = 125;

/// Signals passed on to the program.
pub const FORWARDED: [i32; 6] = [SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGQUIT];

/// Runs `lockswap run`.
pub fn run(args: RunArgs) -> anyhow::Result<ExitCode> {
    let mut selection = Selection::named(args.asl.choose(args.lock)?, args.rwlock, args.spin)?;
    let [lock, ..] = selection.ids();
    let profile = args.profile.read(&selection::read(Role::Mutex, &lock)?, &args.command[0])?;
    // The library has to be there for the others.
    if profile.is_some() && selection.lock.as_deref() == Some(PLAIN) {
        selection.lock = Some(INTERPOSED.into());
    }
    check_asl(&selection, profile.as_ref(), &args.slo)?;
    let mut envs = selection.environment().map_err(|e| e.with_status(OWN_FAILURE))?;
    if let Some(profile) = &profile {
        let locks: Vec<String> = profile.locks().iter().map(ToString::to_string).collect();
        envs.extend(selection::spins_before_park(locks.iter().map(|lock| (Role::Mutex, lock.as_str()))));
        envs.push(profile.variable());
    }
    envs.extend(args.only.variable()?);
    envs.extend(Some(&args.slo).filter(|slos| !slos.is_empty()).map(|slos| slo_variable(slos)));
    // Nothing runs in the program for it, see docs/trace.md.
    if std::env::var_os("LOCKSWAP_TRACE").is_none() {
        lockswap_trace::attach::sweep();
        envs.push(("LOCKSWAP_TRACE".into(), Some("ready".into())));
    }
    let mut program = Program { args: args.command, envs, ..Program::default() };
    let asks = profile.as_ref().map_or(selection.asks(), |profile| selection.asks().and(profile.asks()));
    let watch = asks.any_place().then(Watch::begin).flatten();
    if let Some(note) = watch.as_ref().and_then(|watch| kinds_note(&selection, &args.slo, watch)) {
        // A closed stderr must not keep the program from running.
        let _ = writeln!(io::stderr(), "note: {note}");
    }
    let output = args.stats_json.as_ref().map(|path| {
        OutputFile::prepare(path).map_err(|error| {
            let what = format!("cannot write {}: {error}", path.display());
            UserError::new(what, "name a file in a folder that you can write to").with_status(OWN_FAILURE)
        })
    });
    let output = output.transpose()?;
    let wanted = args.summary || output.is_some();
    let counting = wanted.then(|| begin_counting(output.as_ref())).flatten();
    if counting.is_none() && watch.is_none() {
        let error = program.command().exec();
        return Err(not_started(&program, &error).into());
    }
    program.envs.extend(counting.iter().flat_map(Counting::variables));
    program.envs.extend(watch.as_ref().map(Watch::variable));
    // Caught before the program starts, so that none is lost; the program itself starts with the usual dispositions.
    let forwarded = FORWARDED.into_iter().filter(|s| !is_ignored(*s));
    let mut signals = SignalsInfo::<WithOrigin>::new(forwarded.chain([SIGCHLD]))?;
    let mut child = program.spawn(|_| {}).map_err(|error| not_started(&program, &error))?;
    if let Some(watch) = watch {
        watch.go_on();
    }
    let status = wait(&mut child, &mut signals)?;
    let Some(counting) = counting else { return end_as(status) };
    let stats = Stats::read(selection.ids(), selection.is_plain(), counting.counters(), &counting.latencies()?)?;
    let stats = match profile {
        Some(profile) => stats.with_rules(profile.rules, counting.counters())?,
        None => stats,
    };
    drop(counting);
    if args.summary {
        // A closed stderr must not change how the program's end is reported.
        let _ = io::stderr().write_all(stats.words(&status).as_bytes());
    }
    if let Some(output) = output {
        write_json(&output, &stats)?;
    }
    end_as(status)
}

/// Refuses targets for a lock that has none.
fn check_asl(selection: &Selection, profile: Option<&Profile>, slos: &[Slo]) -> Result<(), UserError> {
    if slos.is_empty() {
        return Ok(());
    }
    let [lock, ..] = selection.ids();
    let mut of_profile = profile.iter().flat_map(|profile| profile.locks());
    if selection.asks().epoch || of_profile.any(|lock| lock.entry.info.asks.epoch) {
        return Ok(());
    }
    let what = format!("--slo means nothing to {lock}, only to auto and to the locks of LibASL");
    Err(UserError::new(what, "leave --lock out, or add --lock asl").with_status(USAGE))
}

/// What to tell the user of a lock that prefers big CPUs where there is nothing to prefer.
fn kinds_note(selection: &Selection, slos: &[Slo], watch: &Watch) -> Option<String> {
    let (big, little) = watch.kinds();
    let [lock, ..] = selection.ids();
    let asks = if slos.is_empty() { selection.asks() } else { selection.asks().in_epochs() };
    let kind = match (big, little) {
        (true, true) => return None,
        _ if !asks.kind => return None,
        (_, false) => "big",
        (false, true) => "little",
    };
    let declared = std::env::var("LOCKSWAP_BIG").ok().filter(|cpus| !cpus.is_empty());
    let why = declared.map_or("as the system says".to_owned(), |cpus| format!("as LOCKSWAP_BIG={cpus} says"));
    Some(format!(
        "{lock} lets big CPUs go first, but all CPUs are {kind}, {why}; LOCKSWAP_BIG=0 would declare CPU 0 big and all others little"
    ))
}

/// Why the program did not start, and what to do.
pub fn not_started(program: &Program, error: &io::Error) -> UserError {
    let name = program.args.first().map(|p| p.to_string_lossy().into_owned()).unwrap_or_default();
    if error.kind() == io::ErrorKind::NotFound {
        let remedy = if name.contains('/') {
            "check the path, and for a script also that of the interpreter in its first line"
        } else {
            "give its path, or add its folder to PATH"
        };
        return UserError::new(format!("{name}: not found"), remedy).with_status(127);
    }
    UserError::new(format!("cannot execute {name}: {error}"), "check that it is a program and executable (chmod +x)")
        .with_status(126)
}

/// Makes the files for counting. Where that is not possible the program runs all the same, and it is said that nothing
/// is counted.
fn begin_counting(output: Option<&OutputFile>) -> Option<Counting> {
    let note = |what: &str, error: &io::Error| {
        // A closed stderr must not keep the program from running.
        let _ = writeln!(io::stderr(), "lockswap: the program runs, but {what}: {error}");
    };
    match Counting::begin() {
        Ok(counting) => {
            if let Some(error) = counting.without_latencies() {
                note("latencies of epochs cannot be recorded", error);
            }
            Some(counting)
        }
        Err(error) => {
            note("what is replaced cannot be counted", &error);
            if let Some(output) = output {
                // That it cannot be written is told there; the program runs.
                let _ = write_json(output, &NotCounted { schema: 1, not_counted: error.to_string() });
            }
            None
        }
    }
}

/// What takes the place of [`Stats`] where nothing could be counted.
#[derive(Serialize)]
struct NotCounted {
    schema: u32,
    not_counted: String,
}

fn write_json(output: &OutputFile, content: &impl Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(content)? + "\n";
    if let Err(error) = output.replace(text.as_bytes()) {
        let _ = writeln!(io::stderr(), "error: cannot write {}: {error}", output.path().display());
    }
    Ok(())
}

/// Waits for the program and passes signals on to it.
fn wait(child: &mut Child, signals: &mut SignalsInfo<WithOrigin>) -> io::Result<ExitStatus> {
    let pid = Pid::from_child(child);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        for origin in signals.wait() {
            // The terminal signals the whole foreground group, the program included. The end of the program is
            // SIGCHLD.
            let from_terminal = matches!(origin.cause, Cause::Kernel);
            let sender = origin.process.map(|p| p.pid);
            let from_program = sender == Some(pid.as_raw_nonzero().get());
            if !FORWARDED.contains(&origin.signal) || from_terminal || from_program {
                continue;
            }
            if let Some(signal) = Signal::from_named_raw(origin.signal) {
                // It fails only when the program has just ended, and then the next turn of the loop sees that.
                let _ = kill_process(pid, signal);
            }
        }
    }
}

/// Ends as the program did.
pub fn end_as(status: ExitStatus) -> anyhow::Result<ExitCode> {
    if let Some(code) = status.code() {
        return Ok(ExitCode::from(code as u8));
    }
    let signal = status.signal().unwrap_or_default();
    // The program has dumped its core; ours would overwrite it.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    signal_hook::low_level::emulate_default_handler(signal)?;
    // A signal whose default is not to kill cannot have killed the program; the shell's way of saying it is left.
    std::thread::sleep(Duration::from_millis(10));
    Ok(ExitCode::from(128u8.wrapping_add(signal as u8)))
}
