//! The locks that tests run on, and programs compared on them.

use crate::{lockswap, run_with_timeout, Outcome};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

/// One way to run a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Lock id of the mutex role.
    pub lock: String,
    /// Value of `LOCKSWAP_TOPOLOGY`, for locks that look at NUMA nodes.
    pub topology: Option<&'static str>,
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lock)?;
        self.topology.map_or(Ok(()), |topology| write!(f, " on {topology}"))
    }
}

impl Variant {
    /// Whether the preload library leaves all objects to glibc. It then counts none.
    pub fn forwards(&self) -> bool {
        ["interposed-pthread", "pthreadadapt"].contains(&self.lock.as_str())
    }

    /// Whether a file of `lockswap run --stats-json` proves that the program ran on this lock: without that a test
    /// would pass on glibc's own.
    pub fn proven_by(&self, statistics: &Path) -> Result<(), String> {
        let text = fs::read_to_string(statistics).map_err(|error| format!("no statistics: {error}"))?;
        let json: serde_json::Value = serde_json::from_str(&text).map_err(|error| format!("{error} in {text}"))?;
        let counted = if self.forwards() { &json["threads_seen"] } else { &json["replaced"]["mutex"] };
        if json["lock"] == self.lock.as_str() && counted.as_u64().is_some_and(|number| number > 0) {
            return Ok(());
        }
        Err(format!("the program did not run on {self}: {text}"))
    }

    /// `lockswap run` with this lock, `options`, and the program.
    pub fn command(&self, options: &[&str], program: &Path, arguments: &[String]) -> Command {
        let mut command = Command::new(lockswap());
        command.args(["run", "--lock", &self.lock]).args(options).arg("--").arg(program).args(arguments);
        if let Some(topology) = self.topology {
            command.env("LOCKSWAP_TOPOLOGY", topology);
        }
        command
    }
}

/// The ids of all locks that can be chosen for a role: `mutex`, `rwlock` or `spin`.
pub fn ids(role: &str) -> Vec<String> {
    let mut command = Command::new(lockswap());
    let outcome = run_with_timeout(command.args(["list", "--json"]), Duration::from_secs(20));
    assert!(outcome.success(), "lockswap list --json {}:\n{}", outcome.ending(), outcome.tail());
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("lockswap list --json prints JSON");
    let all = json.as_array().expect("lockswap list --json prints an array");
    let chosen = all.iter().filter(|lock| lock["role"] == role);
    chosen.map(|lock| lock["id"].as_str().expect("each lock has an id").to_string()).collect()
}

/// Locks that stand for all others where each run takes seconds: every way to wait, to lie in the mutex or outside,
/// and to keep a node or none. `.ci/run` names others for the drivers.
const REPRESENTATIVES: [&str; 9] =
    ["interposed-pthread", "auto", "futex", "ttas", "mcs_spin", "mcs_stp-barging", "cna", "shfllock-b", "asl"];

/// Locks that look at NUMA nodes: they run on a simulated machine with two nodes, too.
const NUMA: [&str; 6] = ["cna", "shfllock", "c-", "hmcs", "ahmcs", "hbo"];

/// The locks that tests of servers run on, where each run takes many seconds: the default, one whose waiters spin, one
/// that looks at NUMA nodes, a blocking one that does, and glibc's behind ours.
const FEW: [&str; 5] = ["interposed-pthread", "auto", "mcs_spin", "cna", "shfllock-b"];

/// Which locks a test runs on. `LOCKSWAP_TEST_LOCKS=a,b` narrows them down to those that it names, in its order; `all`
/// makes all of them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Every mutex lock that is preloaded.
    All,
    /// One of each kind, the NUMA ones on the simulated machine only, unless `LOCKSWAP_TEST_LOCKS` names them.
    Representatives,
    /// As few as make sense, the NUMA ones on the simulated machine only.
    Few,
}

/// The locks, and the NUMA ones once more on a simulated machine.
pub fn variants(which: Which) -> &'static [Variant] {
    static ALL: OnceLock<Vec<Variant>> = OnceLock::new();
    static REPRESENTING: OnceLock<Vec<Variant>> = OnceLock::new();
    static FEW_FOUND: OnceLock<Vec<Variant>> = OnceLock::new();
    let wanted = std::env::var("LOCKSWAP_TEST_LOCKS").ok();
    let find = || {
        let mut ids = ids("mutex");
        let missing = REPRESENTATIVES.iter().chain(&FEW).find(|id| !ids.iter().any(|found| found == *id));
        assert!(missing.is_none(), "lockswap list lacks {missing:?}: {ids:?}");
        ids.retain(|id| id != "pthread");
        match &wanted {
            Some(all) if all == "all" => {}
            Some(list) => {
                let place = |id: &String| list.split(',').position(|want| want == id);
                ids.retain(|id| place(id).is_some());
                ids.sort_by_key(place);
            }
            None if which == Which::All => {}
            None if which == Which::Few => ids.retain(|id| FEW.contains(&id.as_str())),
            None => ids.retain(|id| REPRESENTATIVES.contains(&id.as_str())),
        }
        let numa = |id: &&String| NUMA.iter().any(|name| id.starts_with(name));
        let simulated: Vec<Variant> =
            ids.iter().filter(numa).map(|id| Variant { lock: id.clone(), topology: Some("2x1") }).collect();
        if which == Which::Few || which == Which::Representatives && wanted.is_none() {
            ids.retain(|id| !numa(&id));
        }
        ids.into_iter().map(|lock| Variant { lock, topology: None }).chain(simulated).collect()
    };
    match which {
        Which::All => ALL.get_or_init(find),
        Which::Representatives => REPRESENTING.get_or_init(find),
        Which::Few => FEW_FOUND.get_or_init(find),
    }
}

/// Runs `body` for each of the locks, `at_once` of them at a time, and fails with all the complaints at the end.
pub fn each_lock(what: &str, which: Which, at_once: usize, body: impl Fn(&Variant) -> Result<(), String> + Sync) {
    let begin = Instant::now();
    let next = AtomicUsize::new(0);
    let complaints = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                // Relaxed: only hands out numbers.
                while let Some(variant) = variants(which).get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(complaint) = body(variant) {
                        eprintln!("{what} on {variant}: {complaint}");
                        complaints.lock().expect("no panic").push(format!("{what} on {variant}: {complaint}"));
                    }
                }
            });
        }
    });
    eprintln!("{what}: {} locks in {:.1} s", variants(which).len(), begin.elapsed().as_secs_f64());
    let complaints = complaints.into_inner().expect("no panic");
    assert!(complaints.is_empty(), "{} failures:\n{}", complaints.len(), complaints.join("\n----\n"));
}

/// A program whose result must not depend on the lock.
pub struct Program {
    /// For messages.
    pub name: &'static str,
    /// Path of the executable.
    pub program: PathBuf,
    /// Its arguments; `{dir}` becomes a fresh directory of this run.
    pub arguments: Vec<String>,
    /// Environment variables to set.
    pub environment: Vec<(String, String)>,
    /// Killed and reported after this time.
    pub limit: Duration,
    /// What of a successful run must be the same with every lock; an error is a failure by itself.
    pub result: fn(&Outcome, &Path) -> Result<String, String>,
}

impl Program {
    /// A program with arguments, 30 s of time, and its whole standard output as the result.
    pub fn new(name: &'static str, program: PathBuf, arguments: &[&str]) -> Self {
        Program {
            name,
            program,
            arguments: arguments.iter().map(ToString::to_string).collect(),
            environment: Vec::new(),
            limit: Duration::from_secs(30),
            result: |outcome, _| Ok(outcome.stdout.clone()),
        }
    }

    fn arguments_in(&self, directory: &Path) -> Vec<String> {
        let directory = directory.to_str().expect("temporary directories have plain names");
        self.arguments.iter().map(|argument| argument.replace("{dir}", directory)).collect()
    }

    fn finish(&self, mut command: Command, directory: &Path) -> Result<String, String> {
        command.envs(self.environment.iter().map(|(name, value)| (name, value))).current_dir(directory);
        let outcome = run_with_timeout(&mut command, self.limit);
        if !outcome.success() {
            return Err(format!("{}; {command:?}; last lines:\n{}", outcome.ending(), outcome.tail()));
        }
        (self.result)(&outcome, directory).map_err(|error| format!("{error}; last lines:\n{}", outcome.tail()))
    }

    /// Runs it without lockswap.
    pub fn plain(&self) -> Result<String, String> {
        let directory = crate::scratch_dir();
        let mut command = Command::new(&self.program);
        command.args(self.arguments_in(directory.path()));
        self.finish(command, directory.path())
    }

    /// Runs it on a lock.
    pub fn on(&self, variant: &Variant) -> Result<String, String> {
        let directory = crate::scratch_dir();
        let command = variant.command(&[], &self.program, &self.arguments_in(directory.path()));
        self.finish(command, directory.path())
    }

    /// Runs it on a lock, which its statistics must prove.
    pub fn proven_on(&self, variant: &Variant) -> Result<String, String> {
        let (directory, own) = (crate::scratch_dir(), crate::scratch_dir());
        let statistics = own.path().join("stats.json");
        let options = ["--stats-json", statistics.to_str().expect("temporary directories have plain names")];
        let command = variant.command(&options, &self.program, &self.arguments_in(directory.path()));
        let result = self.finish(command, directory.path())?;
        variant.proven_by(&statistics)?;
        Ok(result)
    }
}

fn shorten(text: &str) -> String {
    if text.len() < 2000 {
        return text.to_string();
    }
    let head: String = text.chars().take(1000).collect();
    format!("{head}... ({} bytes)", text.len())
}

/// Runs `body` without lockswap and then on locks, one at a time; the results must be the same.
pub fn compare_on(what: &str, which: Which, body: impl Fn(Option<&Variant>) -> Result<String, String> + Sync) {
    let expected = body(None).unwrap_or_else(|error| panic!("{what} without lockswap: {error}"));
    each_lock(what, which, 1, |variant| {
        let got = body(Some(variant))?;
        if got == expected {
            return Ok(());
        }
        Err(format!("result differs from the plain run; expected\n{}\ngot\n{}", shorten(&expected), shorten(&got)))
    });
}

/// Runs the program without lockswap and on locks of every kind; the results must be the same.
pub fn compare(program: &Program) {
    compare_on(program.name, Which::Representatives, |variant| {
        variant.map_or_else(|| program.plain(), |variant| program.on(variant))
    });
}
