//! `lockswap torture`: every lock under everything that programs do to locks, in a process of its own.

use crate::duration::{as_option, within};
use crate::error::{UserError, USAGE};
use crate::selection::{known, Selection, PLAIN, VARIABLES};
use crate::{hidden, terminal};
use anyhow::Context;
use lockswap_locks::registry::{self, Role};
use lockswap_platform::Ns;
use lockswap_study::export::OutputFile;
use lockswap_study::machine::Machine;
use lockswap_study::model::Exit;
use lockswap_study::runner::{run_once, Interrupt, Limits, Program};
use lockswap_study::summary::human;
use lockswap_workloads::torture::FAILED;
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Tests locks on this machine by doing at random everything that programs do to them, and checks every result.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct TortureArgs {
    /// Mutex locks to test
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',', conflicts_with = "all")]
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
    /// Writes the results as JSON, after every lock
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
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
  lockswap torture --all --time 1s --export-json torture.json";

/// A tenth of a second to a day.
const TIMES: RangeInclusive<Ns> = 100_000_000..=86_400_000_000_000;

fn seconds(ns: Ns) -> f64 {
    Duration::from_nanos(ns).as_secs_f64()
}

/// What a process did before it ended well.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Counts {
    /// Operations, each of some calls.
    pub operations: u64,
    /// Exclusive acquisitions.
    pub acquisitions: u64,
    /// Children forked.
    pub forks: u64,
    /// Threads that ended while others went on.
    pub threads_ended: u64,
    /// Longest wait for one acquisition.
    pub longest_wait_ms: f64,
}

#[derive(Serialize)]
struct LockResult {
    role: &'static str,
    id: &'static str,
    #[serde(flatten)]
    counts: Option<Counts>,
    failure: Option<Failure>,
}

impl LockResult {
    /// Whether anything but a lock of glibc's failed.
    fn failed(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| !failure.glibcs)
    }

    fn glibc_failed(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.glibcs)
    }
}

#[derive(Serialize)]
struct Failure {
    message: String,
    replay: String,
    /// A check failed on a lock of glibc's: neither ours nor, as with a crash, perhaps of this test.
    glibcs: bool,
}

#[derive(Serialize)]
struct Results<'a> {
    schema: u32,
    tool: &'static str,
    machine: &'a Machine,
    seed: u64,
    seconds: f64,
    threads: &'a [u16],
    locks: &'a [LockResult],
}

/// Runs `lockswap torture`.
pub fn run(args: TortureArgs) -> anyhow::Result<ExitCode> {
    let subjects = subjects(&args)?;
    let file = args.export_json.as_deref().map(|path| {
        OutputFile::prepare(path).map_err(|error| {
            let what = format!("cannot write {}: {error}", path.display());
            UserError::new(what, "name a file in a folder that you can write to; nothing was tested")
        })
    });
    let file = file.transpose()?;
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let machine = Machine::here();
    let seed = args.seed.unwrap_or_else(some_seed);
    let mut results = Vec::new();
    let export = |results: &[LockResult], file: &OutputFile| {
        let (tool, threads) = (concat!("lockswap ", env!("CARGO_PKG_VERSION")), &*args.threads);
        let document =
            Results { schema: 1, tool, machine: &machine, seed, seconds: seconds(args.time), threads, locks: results };
        let written = file.replace(serde_json::to_string_pretty(&document)?.as_bytes());
        written.with_context(|| format!("cannot write {}", file.path().display()))
    };
    for (done, &(role, id)) in subjects.iter().enumerate() {
        progress(&format!("{}/{} {id}", done + 1, subjects.len()));
        let Some(result) = torture(role, id, &args, seed, &interrupt)? else { break };
        results.push(result);
        if let Some(file) = file.as_ref().filter(|file| !file.is_stream()) {
            export(&results, file)?;
        }
    }
    progress("");
    if let Some(file) = file.as_ref().filter(|file| file.is_stream()) {
        export(&results, file)?;
    }
    terminal::print(&render(&results, &machine, &args, seed))?;
    if let Some(signal) = interrupt.signal() {
        let _ = writeln!(io::stderr(), "interrupted: {} of {} locks were tested", results.len(), subjects.len());
        return Ok(ExitCode::from(128u8.wrapping_add(signal as u8)));
    }
    Ok(if results.iter().any(LockResult::failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
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
fn subjects(args: &TortureArgs) -> Result<Vec<(Role, &'static str)>, UserError> {
    let wanted = [(Role::Mutex, &args.lock), (Role::RwLock, &args.rwlock), (Role::Spin, &args.spin)];
    if args.threads.is_empty() {
        return Err(UserError::new("--threads is empty", "give at least one number, as in 2,16").with_status(USAGE));
    }
    let mut subjects: Vec<(Role, &str)> = Vec::new();
    let everything = wanted.iter().all(|(_, ids)| ids.is_empty());
    for (role, ids) in wanted {
        if everything {
            subjects.extend(registry::ids(role).map(|id| (role, id)));
        }
        for id in ids {
            let subject = (role, known(role, id)?);
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
    }
    Ok(subjects)
}

/// The locks of a process whose lock of one role is under test. Glibc's own stand beside glibc's own only, so that what
/// fails there is glibc's.
fn selection(role: Role, id: &str) -> Selection {
    let of = |other: Role| match other {
        _ if other == role => Some(id.to_owned()),
        _ if registry::is_glibcs(id) => Some(PLAIN.to_owned()),
        _ => Some(other.default_id().to_owned()),
    };
    Selection { lock: of(Role::Mutex), rwlock: of(Role::RwLock), spin: of(Role::Spin) }
}

/// Tests one lock; `None` after an interruption.
fn torture(
    role: Role,
    id: &'static str,
    args: &TortureArgs,
    seed: u64,
    interrupt: &Interrupt,
) -> anyhow::Result<Option<LockResult>> {
    let selection = selection(role, id);
    let mut envs = selection.environment()?;
    let stray = VARIABLES.into_iter().chain(["LOCKSWAP_STATS", "LOCKSWAP_ONLY"]);
    let stray = stray.filter(|v| !envs.iter().any(|(name, _)| name == v));
    let stray: Vec<_> = stray.map(|name| (name.into(), None)).collect();
    envs.extend(stray);
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let mut words = vec![own.into_os_string(), hidden::TORTURE.into()];
    let options = [
        ("--focus", role.name().to_owned()),
        ("--seed", seed.to_string()),
        ("--threads", list(&args.threads)),
        ("--seconds", seconds(args.time).to_string()),
        ("--patience", seconds(args.patience).to_string()),
    ];
    words.extend(options.into_iter().flat_map(|(option, value)| [OsString::from(option), value.into()]));
    words.extend(registry::is_glibcs(id).then(|| "--glibc".into()));
    words.extend((!selection.is_plain()).then(|| "--preloaded".into()));

    // Its own watching thread ends it long before, with a better message.
    let timeout = Duration::from_nanos(args.time + 3 * args.patience) + Duration::from_secs(10);
    let limits = Limits { timeout, capture_stdout: true, keep_bytes: 1 << 16, input: None, show: false };
    let Some(run) = run_once(&Program { args: words, envs }, limits, Some(interrupt)) else {
        return Ok(None);
    };
    let said = String::from_utf8_lossy(&run.stderr);
    let outcome = match &run.exit {
        Exit::Code { code: 0 } => {
            serde_json::from_slice(&run.stdout).map_err(|_| "ended without a result, before its time".to_owned())
        }
        Exit::Code { code } if *code == FAILED => Err(message(&said)),
        exit => Err(format!("{}\n{}", exit.words(), said.trim()).trim().to_owned()),
    };
    let glibcs = registry::is_glibcs(id) && matches!(run.exit, Exit::Code { code: FAILED });
    let (counts, failure) = match outcome {
        Ok(counts) => (Some(counts), None),
        Err(message) => (None, Some(Failure { message, replay: replay(role, id, args, seed), glibcs })),
    };
    Ok(Some(LockResult { role: role.name(), id, counts, failure }))
}

/// The failing process's own message; the first one counts if several threads found something.
fn message(stderr: &str) -> String {
    let first = stderr.find("torture: ").map_or(stderr, |at| &stderr[at + "torture: ".len()..]);
    first.split("\ntorture: ").next().unwrap_or(first).trim().to_owned()
}

fn list(numbers: &[u16]) -> String {
    numbers.iter().map(u16::to_string).collect::<Vec<_>>().join(",")
}

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

fn render(results: &[LockResult], machine: &Machine, args: &TortureArgs, seed: u64) -> String {
    let headings = ["lock", "for", "operations", "acquisitions", "forks", "threads ended", "longest wait", "result"];
    let mut table = terminal::table(&headings, &[2, 3, 4, 5, 6]);
    for result in results {
        let mut row = vec![result.id.to_owned(), result.role.to_owned()];
        row.extend(match &result.counts {
            Some(counts) => [
                human(counts.operations as f64, ""),
                human(counts.acquisitions as f64, ""),
                counts.forks.to_string(),
                counts.threads_ended.to_string(),
                format!("{:.1} ms", counts.longest_wait_ms),
            ],
            None => [const { "-" }; 5].map(str::to_owned),
        });
        let verdict = match &result.failure {
            None => "ok",
            Some(_) if result.glibc_failed() => "glibc failed",
            Some(_) => "FAILED",
        };
        row.push(verdict.to_owned());
        table.add_row(row);
    }
    let mut text = terminal::lines(&table);
    text += &format!(
        "\n{}\nseed {seed}, {} per lock, rounds of {} threads in turn\n",
        machine.words(),
        as_option(args.time),
        list(&args.threads)
    );
    for LockResult { role, id, failure, .. } in results {
        if let Some(Failure { message, replay, glibcs }) = failure {
            let what = match glibcs {
                true => format!("glibc's own lock failed: {id} ({role}):"),
                false => format!("{id} ({role}) failed:"),
            };
            text += &format!("\n{what} {message}\n  repeat: {replay}\n");
        }
    }
    let failed = results.iter().filter(|result| result.failed()).count();
    let glibcs = results.iter().filter(|result| result.glibc_failed()).count();
    text + &match (failed, glibcs) {
        (0, 0) if results.len() == 1 => "the lock passed\n".to_owned(),
        (0, 0) => format!("{} locks passed\n", results.len()),
        (0, _) => format!("\npassed: {}; failed of glibc's own: {glibcs}\n", results.len() - glibcs),
        _ => format!("\nFAILED: {failed} of {}\n", results.len()),
    }
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
            assert!(all.contains(&subject), "{subject:?}");
        }
        assert_eq!(all.len(), registry::ENTRIES.len());
        assert_eq!(parse(&[]).threads, [2, 4, 16, 64]);
        let named = subjects(&parse(&["--lock", "cna,futex,cna", "--spin", "ttas"])).unwrap();
        assert_eq!(named, [(Role::Mutex, "cna"), (Role::Mutex, "futex"), (Role::Spin, "ttas")]);
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
        let replay = replay(Role::Mutex, "cna", &args, 17);
        assert!(replay.ends_with("lockswap torture --lock cna --seed 17 --time 2s --threads 3,5"), "{replay}");
        let message = message("x\ntorture: one\n  more\ntorture: two\n");
        let failure = Some(Failure { message, replay, glibcs: false });
        let results = [LockResult { role: "mutex", id: "cna", counts: None, failure }];
        let text = render(&results, &Machine::here(), &args, 17);
        assert!(text.contains("cna (mutex) failed: one\n  more\n  repeat: "), "{text}");
        assert!(text.contains("FAILED: 1 of 1\n") && !text.contains("two"), "{text}");
    }

    #[test]
    fn a_failure_of_glibcs_is_called_so() {
        let args = parse(&["--rwlock", PLAIN]);
        let failure = Failure { message: "hangs".to_owned(), replay: "again".to_owned(), glibcs: true };
        let results = [
            LockResult { role: "rwlock", id: PLAIN, counts: None, failure: Some(failure) },
            LockResult { role: "rwlock", id: "rw-futex", counts: None, failure: None },
        ];
        assert!(results[0].glibc_failed() && !results.iter().any(LockResult::failed));
        let text = render(&results, &Machine::here(), &args, 17);
        assert!(text.contains("glibc's own lock failed: pthread (rwlock): hangs\n  repeat: again\n"), "{text}");
        assert!(text.contains("passed: 1; failed of glibc's own: 1\n") && !text.contains("FAILED"), "{text}");
    }
}
