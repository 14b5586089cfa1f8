//! Torture: each lock under everything that programs do to locks, in a process of its own.

use super::child::{Environment, TORTURE};
use lockswap_locks::registry::{self, Role};
use lockswap_platform::Ns;
use lockswap_study::machine::Machine;
use lockswap_study::model::Exit;
use lockswap_study::numbers::{as_option, human};
use lockswap_study::page::{Page, Row, Table};
use lockswap_study::runner::{run_once, Interrupt, Limits, Program};
use lockswap_study::summary::Judgement;
use lockswap_workloads::torture::{self, Config, Focus, FAILED};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

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

/// What a process is to do. It crosses to the child as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The kind of lock that gets most of the operations: the name of its role.
    pub focus: String,
    /// What each thread's operations follow.
    pub seed: u64,
    /// Threads of the rounds, in turn.
    pub threads: Vec<usize>,
    /// Time for all rounds, ns.
    pub time: Ns,
    /// Time after which a lock that is wanted and that nobody gets has failed, ns.
    pub patience: Ns,
    /// Whether the functions are glibc's.
    pub glibc: bool,
    /// Whether the preload library is in the process.
    pub preloaded: bool,
}

impl Order {
    /// The torturing process: tortures its own locks, and gives `done` the counts before it ends. A failure ends the
    /// process.
    pub fn perform(self, done: impl FnOnce(Counts)) {
        let focus = match self.focus {
            focus if focus == Role::RwLock.name() => Focus::RwLock,
            focus if focus == Role::Spin.name() => Focus::Spin,
            _ => Focus::Mutex,
        };
        let patience = Duration::from_nanos(self.patience);
        let standard = Config::new(self.seed, Duration::from_nanos(self.time));
        torture::run(&Config { threads: self.threads, patience, focus, glibc: self.glibc, ..standard }, |report| {
            done(Counts {
                operations: report.operations,
                acquisitions: report.acquisitions,
                forks: report.forks,
                threads_ended: report.threads_ended,
                longest_wait_ms: report.longest_wait.as_secs_f64() * 1e3,
            });
        });
    }
}

/// What the torture of a lock gave.
#[derive(Clone, Debug, Serialize)]
pub struct LockResult {
    /// What the lock replaced.
    pub role: &'static str,
    /// The lock, perhaps with parameters.
    pub id: String,
    /// What was done; nothing where it failed.
    #[serde(flatten)]
    pub counts: Option<Counts>,
    /// What went wrong.
    pub failure: Option<Failure>,
}

impl LockResult {
    /// Whether anything but a lock of glibc's failed.
    pub fn failed(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| !failure.glibcs)
    }

    /// Whether a lock of glibc's failed.
    pub fn glibc_failed(&self) -> bool {
        self.failure.as_ref().is_some_and(|failure| failure.glibcs)
    }

    /// The result in a word or two.
    pub fn verdict(&self) -> &'static str {
        match &self.failure {
            None => "ok",
            Some(failure) if failure.glibcs => "glibc failed",
            Some(_) => "FAILED",
        }
    }
}

/// What went wrong with a lock.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// What the process said.
    pub message: String,
    /// The command that tries the same again.
    pub replay: String,
    /// A check failed on a lock of glibc's: neither ours nor, as with a crash, perhaps of this test.
    pub glibcs: bool,
}

/// All results.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: u32,
    tool: &'static str,
    machine: &'a Machine,
    seed: u64,
    seconds: f64,
    threads: &'a [usize],
    locks: &'a [LockResult],
    #[serde(skip)]
    time: Ns,
}

impl<'a> Document<'a> {
    /// The results of the locks that got this order, whatever lock it names.
    pub fn new(machine: &'a Machine, order: &'a Order, locks: &'a [LockResult]) -> Self {
        let seconds = Duration::from_nanos(order.time).as_secs_f64();
        let tool = concat!("lockswap ", env!("CARGO_PKG_VERSION"));
        Self { schema: 1, tool, machine, seed: order.seed, seconds, threads: &order.threads, locks, time: order.time }
    }

    /// Everything, as JSON.
    ///
    /// # Errors
    /// A number that JSON has no form for.
    pub fn json(&self) -> io::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        Ok(text)
    }

    /// The table, and what went wrong.
    pub fn page(&self) -> Page {
        let (results, seed) = (self.locks, self.seed);
        let words = ["lock", "for"].map(|heading| (heading.to_owned(), false));
        let numbers = ["operations", "acquisitions", "forks", "threads ended", "longest wait"];
        let mut columns = words.to_vec();
        columns.extend(numbers.map(|heading| (heading.to_owned(), true)));
        columns.push(("result".to_owned(), false));
        let row = |result: &LockResult| {
            let mut cells = vec![result.id.clone(), result.role.to_owned()];
            cells.extend(match &result.counts {
                Some(counts) => [
                    human(counts.operations as f64, ""),
                    human(counts.acquisitions as f64, ""),
                    counts.forks.to_string(),
                    counts.threads_ended.to_string(),
                    format!("{:.1} ms", counts.longest_wait_ms),
                ],
                None => [const { "-" }; 5].map(str::to_owned),
            });
            cells.push(result.verdict().to_owned());
            Row { cells, judgement: if result.failed() { Judgement::Failed } else { Judgement::Baseline } }
        };
        let table = Table { columns, rows: results.iter().map(row).collect(), ..Table::default() };
        let (time, threads) = (as_option(self.time), list(self.threads));
        let mut notes =
            vec![self.machine.words(), format!("seed {seed}, {time} per lock, rounds of {threads} threads in turn")];
        for LockResult { role, id, failure, .. } in results {
            if let Some(failure) = failure {
                let what = match failure.glibcs {
                    true => format!("glibc's own lock failed: {id} ({role}):"),
                    false => format!("{id} ({role}) failed:"),
                };
                notes.push(format!("\n{what} {}\n  repeat: {}", failure.message, failure.replay));
            }
        }
        let failed = results.iter().filter(|result| result.failed()).count();
        let glibcs = results.iter().filter(|result| result.glibc_failed()).count();
        notes.push(match (failed, glibcs) {
            (0, 0) if results.len() == 1 => "the lock passed".to_owned(),
            (0, 0) => format!("{} locks passed", results.len()),
            (0, _) => format!("\npassed: {}; failed of glibc's own: {glibcs}", results.len() - glibcs),
            _ => format!("\nFAILED: {failed} of {}", results.len()),
        });
        Page { title: "lockswap torture".to_owned(), tables: vec![table], notes, ..Page::default() }
    }

    /// The locks, a line each.
    ///
    /// # Errors
    /// None that a CSV in memory can have.
    pub fn csv(&self) -> io::Result<Vec<u8>> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let counts = ["operations", "acquisitions", "forks", "threads_ended", "longest_wait_ms"];
        writer.write_record(["role", "lock", "seed"].iter().chain(&counts).chain(&["result", "message"]))?;
        for lock in self.locks {
            let mut record = vec![lock.role.to_owned(), lock.id.clone(), self.seed.to_string()];
            let numbers = lock.counts.as_ref().map(|counts| {
                let whole = [counts.operations, counts.acquisitions, counts.forks, counts.threads_ended];
                let [operations, acquisitions, forks, ended] = whole.map(|count| count.to_string());
                [operations, acquisitions, forks, ended, counts.longest_wait_ms.to_string()]
            });
            record.extend(numbers.unwrap_or_default());
            let message = lock.failure.as_ref().map(|failure| failure.message.clone());
            record.extend([lock.verdict().to_owned(), message.unwrap_or_default()]);
            writer.write_record(&record)?;
        }
        writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
    }
}

/// Tests one lock in a child of `program` that runs in `environment`; `None` after an interruption. `replay` is the
/// command that tries the same again.
///
/// # Errors
/// The order has no form as text, which none has.
pub fn torture(
    program: &Path,
    environment: Environment,
    (role, id): (Role, &str),
    order: &Order,
    replay: String,
    interrupt: &Interrupt,
) -> io::Result<Option<LockResult>> {
    let words: Vec<OsString> = vec![program.into(), TORTURE.into(), serde_json::to_string(order)?.into()];
    // Its own watching thread ends it long before, with a better message.
    let timeout = Duration::from_nanos(order.time + 3 * order.patience) + Duration::from_secs(10);
    let limits = Limits { timeout, capture_stdout: true, keep_bytes: 1 << 16, ..Limits::default() };
    let Some(run) =
        run_once(&Program { args: words, envs: environment, ..Program::default() }, limits, Some(interrupt))
    else {
        return Ok(None);
    };
    // The signal may have ended the child first: Ctrl-C goes to all processes of a terminal.
    if interrupt.signal().is_some() {
        return Ok(None);
    }
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
        Err(message) => (None, Some(Failure { message, replay, glibcs })),
    };
    Ok(Some(LockResult { role: role.name(), id: id.to_owned(), counts, failure }))
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// The failing process's own message; the first one counts if several threads found something.
fn message(stderr: &str) -> String {
    let first = stderr.find("torture: ").map_or(stderr, |at| &stderr[at + "torture: ".len()..]);
    first.split("\ntorture: ").next().unwrap_or(first).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_message_counts() {
        assert_eq!(message("x\ntorture: one\n  more\ntorture: two\n"), "one\n  more");
        assert_eq!(message("no word of it\n"), "no word of it");
    }

    #[test]
    fn failures_of_glibcs_are_told_from_ours() {
        let failure = |glibcs| Failure { message: "hangs".to_owned(), replay: "again".to_owned(), glibcs };
        let counts = Counts { operations: 9, acquisitions: 8, forks: 1, threads_ended: 2, longest_wait_ms: 1.5 };
        let of = |id: &str, counts, failure| LockResult { role: "rwlock", id: id.to_owned(), counts, failure };
        let locks = [
            of("pthread", None, Some(failure(true))),
            of("bravo", None, Some(failure(false))),
            of("rw-futex", Some(counts), None),
        ];
        assert_eq!(locks.each_ref().map(LockResult::failed), [false, true, false]);
        assert_eq!(locks.each_ref().map(LockResult::verdict), ["glibc failed", "FAILED", "ok"]);
        let order = Order {
            focus: "mutex".to_owned(),
            seed: 7,
            threads: vec![2],
            time: 1_000_000_000,
            patience: 1,
            glibc: false,
            preloaded: true,
        };
        let machine = Machine::default();
        let document = Document::new(&machine, &order, &locks);
        let shown = document.page().notes.join("\n");
        assert!(shown.contains("seed 7, 1s per lock, rounds of 2 threads in turn"), "{shown}");
        assert!(shown.contains("glibc's own lock failed: pthread (rwlock): hangs\n  repeat: again"), "{shown}");
        assert!(shown.contains("bravo (rwlock) failed: hangs") && shown.ends_with("FAILED: 1 of 3"), "{shown}");
        let shown = Document::new(&machine, &order, &locks[..1]).page().notes.join("\n");
        assert!(shown.ends_with("passed: 0; failed of glibc's own: 1"), "{shown}");
        let csv = String::from_utf8(document.csv().unwrap()).unwrap();
        let lines: Vec<&str> = csv.lines().skip(1).collect();
        assert_eq!(
            lines,
            [
                "rwlock,pthread,7,,,,,,glibc failed,hangs",
                "rwlock,bravo,7,,,,,,FAILED,hangs",
                "rwlock,rw-futex,7,9,8,1,2,1.5,ok,"
            ]
        );
    }
}
