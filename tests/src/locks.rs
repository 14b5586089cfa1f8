//! Every lock, and programs compared on all of them.

use crate::{lockswap, run_with_timeout, Outcome};
use std::fmt;
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

/// Every lock that is preloaded, and the NUMA ones on a simulated machine with two nodes. `LOCKSWAP_TEST_LOCKS=a,b`
/// narrows them down.
pub fn variants() -> &'static [Variant] {
    static VARIANTS: OnceLock<Vec<Variant>> = OnceLock::new();
    VARIANTS.get_or_init(|| {
        let mut ids = ids("mutex");
        assert!(ids.iter().any(|id| id == "interposed-pthread"), "lockswap list lacks interposed-pthread: {ids:?}");
        ids.retain(|id| id != "pthread");
        if let Ok(wanted) = std::env::var("LOCKSWAP_TEST_LOCKS") {
            ids.retain(|id| wanted.split(',').any(|want| want == id));
        }
        let numa = |id: &&String| id.starts_with("cna") || id.starts_with("shfllock");
        let simulated: Vec<Variant> =
            ids.iter().filter(numa).map(|id| Variant { lock: id.clone(), topology: Some("2x1") }).collect();
        ids.into_iter().map(|lock| Variant { lock, topology: None }).chain(simulated).collect()
    })
}

/// Runs `body` for every variant, `at_once` of them at a time, and fails with all the complaints at the end.
pub fn each_lock(what: &str, at_once: usize, body: impl Fn(&Variant) -> Result<(), String> + Sync) {
    let begin = Instant::now();
    let next = AtomicUsize::new(0);
    let complaints = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                // Relaxed: only hands out numbers.
                while let Some(variant) = variants().get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(complaint) = body(variant) {
                        eprintln!("{what} on {variant}: {complaint}");
                        complaints.lock().expect("no panic").push(format!("{what} on {variant}: {complaint}"));
                    }
                }
            });
        }
    });
    eprintln!("{what}: {} locks in {:.1} s", variants().len(), begin.elapsed().as_secs_f64());
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
}

fn shorten(text: &str) -> String {
    if text.len() < 2000 {
        return text.to_string();
    }
    let head: String = text.chars().take(1000).collect();
    format!("{head}... ({} bytes)", text.len())
}

/// Runs the program without lockswap and on every lock; the results must be the same.
pub fn compare(program: &Program) {
    let expected = program.plain().unwrap_or_else(|error| panic!("{} without lockswap: {error}", program.name));
    each_lock(program.name, 1, |variant| {
        let got = program.on(variant)?;
        if got == expected {
            return Ok(());
        }
        Err(format!("result differs from the plain run; expected\n{}\ngot\n{}", shorten(&expected), shorten(&got)))
    });
}
