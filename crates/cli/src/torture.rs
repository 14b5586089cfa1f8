//! `lockswap torture`: every lock under everything that programs do to locks, in a process of its own.

use crate::duration::{as_option, within};
use crate::error::{UserError, USAGE};
use crate::outputs::{OutputArgs, Outputs, Wanted};
use crate::selection::{all_named, Selection, PLAIN, VARIABLES};
use crate::terminal;
use anyhow::Context;
use lockswap_experiment::hardware::child::Environment;
use lockswap_experiment::hardware::torture::{torture, Document, LockResult, Order};
use lockswap_locks::registry::{self, Role};
use lockswap_platform::Ns;
use lockswap_study::export::Format;
use lockswap_study::machine::Machine;
use lockswap_study::runner::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, IsTerminal, Write};
use std::ops::RangeInclusive;
use std::process::ExitCode;

/// Tests locks on this machine by doing at random everything that programs do to them, and checks every result.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct TortureArgs {
    /// Mutex locks to test
    #[arg(short = 'l', long, value_name = "ID,ID,...", value_delimiter = ',', conflicts_with = "all")]
    lock: Vec<String>,
    /// Locks for rwlocks to test
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',', conflicts_with = "all")]
    rwlock: Vec<String>,
    /// Locks for spinlocks to test
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',', conflicts_with = "all")]
    spin: Vec<String>,
    /// Tests every lock that `lockswap list` shows (the default)
    #[arg(long)]
    all: bool,
    /// Time for each lock
    #[arg(long, alias = "seconds", value_name = "TIME", default_value = "4s", value_parser = within(TIMES))]
    time: Ns,
    /// What the threads do depends on this alone [default: another one each time]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Threads of each round, in turn
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "2,4,16,64",
          value_parser = clap::value_parser!(u16).range(2..=2000))]
    threads: Vec<u16>,
    /// Time after which a lock that is wanted and that nobody gets has failed
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = within(TIMES))]
    patience: Ns,
    #[command(flatten)]
    outputs: OutputArgs,
}

const HELP: &str = "\
Each lock gets a process with the preload library, in which threads on all
CPUs lock, try, wait with deadlines on either clock, wait for conditions, nest
locks, hold them not at all, shortly, or long enough for waiters to sleep,
misuse them where that has a defined result, make and destroy mutexes, end
while others wait, and fork. Some processes call exit() while threads hold and
await locks. Checked: that locks exclude (unprotected data must add up), every
error code, that nothing times out early, that nobody writes to a destroyed
mutex, and that no lock stays unused while somebody waits for it. `pthread`,
glibc's own lock, is there to test the test. Where it or the mutexes that only
forward to it fail a check, that is reported as glibc's failure.

A failure ends the lock's process and is printed with the command that repeats
it: the same seed gives each thread the same choices, though not the same
timing.

Exit status: 0; 1 if a lock other than glibc's failed, a process crashed, or a
file cannot be written; 2 for wrong usage; 130 after Ctrl-C.

Examples:
  lockswap torture
  lockswap torture --lock mcs_stp,cna --time 1m
  lockswap torture --rwlock rw-futex --spin ttas --threads 3,200
  lockswap torture --lock futex --seed 17 --threads 64
  lockswap torture --all --time 1s --export torture.json";

/// A tenth of a second to a day.
const TIMES: RangeInclusive<Ns> = 100_000_000..=86_400_000_000_000;

/// Runs `lockswap torture`.
pub fn run(args: TortureArgs) -> anyhow::Result<ExitCode> {
    let subjects = subjects(&args)?;
    let mut outputs = Outputs::prepare(&args.outputs, &["json", "csv", "md", "html"])?;
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let machine = Machine::here();
    let seed = args.seed.unwrap_or_else(some_seed);
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let threads = args.threads.iter().map(|&n| n.into()).collect();
    let (time, patience) = (args.time, args.patience);
    let mut order = Order { focus: String::new(), seed, threads, time, patience, glibc: false, preloaded: false };
    let mut results: Vec<LockResult> = Vec::new();
    let content = |results: &[LockResult], order: &Order, format: Format| match format {
        Format::Json => Document::new(&machine, order, results).json(),
        Format::Csv => Document::new(&machine, order, results).csv(),
        Format::Markdown => Ok(Document::new(&machine, order, results).page().markdown().into_bytes()),
        Format::Html => Ok(Document::new(&machine, order, results).page().html().into_bytes()),
    };
    let write = |outputs: &mut Outputs, results: &[LockResult], order: &Order, done| {
        outputs.write(done, |wanted| match wanted {
            Wanted::Data(format) => content(results, order, format),
            Wanted::Picture(_) => Ok(Vec::new()),
        });
    };
    for (done, (role, lock)) in subjects.iter().enumerate() {
        let (role, id) = (*role, lock.as_str());
        progress(&format!("{}/{} {id}", done + 1, subjects.len()));
        let selection = selection(role, id);
        (order.focus, order.glibc) = (role.name().to_owned(), registry::is_glibcs(id));
        order.preloaded = !selection.is_plain();
        let replay = replay(role, id, &args, seed);
        let found = torture(&own, environment(&selection)?, (role, id), &order, replay, &interrupt)?;
        let Some(result) = found else { break };
        results.push(result);
        write(&mut outputs, &results, &order, false);
    }
    progress("");
    write(&mut outputs, &results, &order, true);
    match args.outputs.format.data() {
        None => terminal::print_page(&Document::new(&machine, &order, &results).page())?,
        Some(format) => terminal::print_data(&String::from_utf8_lossy(&content(&results, &order, format)?))?,
    }
    let written = outputs.tell();
    if let Some(signal) = interrupt.signal() {
        let _ = writeln!(io::stderr(), "interrupted: {} of {} locks were tested", results.len(), subjects.len());
        return Ok(ExitCode::from(128u8.wrapping_add(signal as u8)));
    }
    let failed = results.iter().any(LockResult::failed) || !written;
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The environment of a process whose locks are these.
fn environment(selection: &Selection) -> Result<Environment, UserError> {
    let mut environment = selection.environment()?;
    let stray = VARIABLES.into_iter().chain(["LOCKSWAP_STATS", "LOCKSWAP_ONLY", "LOCKSWAP_PROFILE"]);
    let stray = stray.filter(|variable| !environment.iter().any(|(name, _)| name == variable));
    let stray: Environment = stray.map(|name| (name.into(), None)).collect();
    environment.extend(stray);
    Ok(environment)
}

fn some_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    // Short enough to be typed.
    std::collections::hash_map::RandomState::new().build_hasher().finish() % 1_000_000_000
}

fn progress(text: &str) {
    if io::stderr().is_terminal() {
        // A terminal that is gone needs no progress.
        let _ = write!(io::stderr(), "\r\x1b[K{text}");
    }
}

/// The locks to test, each with what it stands in for.
fn subjects(args: &TortureArgs) -> Result<Vec<(Role, String)>, UserError> {
    let wanted = [(Role::Mutex, &args.lock), (Role::RwLock, &args.rwlock), (Role::Spin, &args.spin)];
    if args.threads.is_empty() {
        return Err(UserError::new("--threads is empty", "give at least one number, as in 2,16").with_status(USAGE));
    }
    let mut subjects: Vec<(Role, String)> = Vec::new();
    let everything = wanted.iter().all(|(_, ids)| ids.is_empty());
    for (role, ids) in wanted {
        if everything {
            subjects.extend(registry::ids(role).map(|id| (role, id.to_owned())));
        }
        subjects.extend(all_named(role, ids)?.into_iter().map(|lock| (role, lock)));
    }
    Ok(subjects)
}

/// The locks of a process whose lock of one role is under test. Glibc's own stand beside glibc's own only, so that
/// what fails there is glibc's.
fn selection(role: Role, id: &str) -> Selection {
    let of = |other: Role| match other {
        _ if other == role => Some(id.to_owned()),
        _ if registry::is_glibcs(id) => Some(PLAIN.to_owned()),
        _ => Some(other.default_id().to_owned()),
    };
    Selection { lock: of(Role::Mutex), rwlock: of(Role::RwLock), spin: of(Role::Spin) }
}

fn list(numbers: &[u16]) -> String {
    numbers.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

/// The command that tries the same again.
fn replay(role: Role, id: &str, args: &TortureArgs, seed: u64) -> String {
    let option = match role {
        Role::Mutex => "--lock",
        Role::RwLock => "--rwlock",
        Role::Spin => "--spin",
    };
    let topology = std::env::var("LOCKSWAP_TOPOLOGY").map(|value| format!("LOCKSWAP_TOPOLOGY={value} "));
    let (topology, time, threads) = (topology.unwrap_or_default(), as_option(args.time), list(&args.threads));
    format!("{topology}lockswap torture {option} {id} --seed {seed} --time {time} --threads {threads}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selection::INTERPOSED;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: TortureArgs,
    }

    fn parse(words: &[&str]) -> TortureArgs {
        Command::try_parse_from([&["torture"], words].concat()).unwrap_or_else(|error| panic!("{error}")).args
    }

    #[test]
    fn all_roles_are_tested_unless_locks_are_named() {
        let all = subjects(&parse(&[])).unwrap();
        for subject in [(Role::Mutex, "futex"), (Role::RwLock, "rw-futex"), (Role::Spin, "ttas"), (Role::Mutex, PLAIN)]
        {
            assert!(all.iter().any(|(role, id)| (*role, id.as_str()) == subject), "{subject:?}");
        }
        assert_eq!(all.len(), registry::ENTRIES.len());
        assert_eq!(parse(&[]).threads, [2, 4, 16, 64]);
        let named = subjects(&parse(&["--lock", "cna,futex,cna,CNA:threshold=3", "--spin", "ttas"])).unwrap();
        let named: Vec<_> = named.iter().map(|(role, id)| (*role, id.as_str())).collect();
        let (mutex, spin) = (Role::Mutex, Role::Spin);
        assert_eq!(named, [(mutex, "cna"), (mutex, "futex"), (mutex, "cna:threshold=3"), (spin, "ttas")]);
        assert!(subjects(&parse(&["--rwlock", "futex"])).is_err());
    }

    #[test]
    fn only_the_lock_under_test_differs_from_the_default() {
        let of = |role, id| {
            let Selection { lock, rwlock, spin } = selection(role, id);
            [lock, rwlock, spin].map(|id| id.unwrap())
        };
        assert_eq!(of(Role::Mutex, "cna"), ["cna", "rw-futex", "ttas"]);
        assert_eq!(of(Role::Mutex, INTERPOSED), [INTERPOSED, PLAIN, PLAIN]);
        for role in [Role::Mutex, Role::RwLock, Role::Spin] {
            assert!(selection(role, PLAIN).is_plain());
        }
    }

    #[test]
    fn a_failure_says_how_to_repeat_it() {
        let args = parse(&["--lock", "cna", "--threads", "3,5", "--time", "2"]);
        let again = replay(Role::Mutex, "cna", &args, 17);
        assert!(again.ends_with("lockswap torture --lock cna --seed 17 --time 2s --threads 3,5"), "{again}");
    }
}
