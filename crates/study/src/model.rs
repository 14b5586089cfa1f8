//! What a comparison consists of. Serialised with serde it is the JSON of `lockswap compare --export FILE.json`.

use serde::{Deserialize, Serialize};

use crate::calls::Counted;
use crate::machine::Machine;
use crate::summary::Row;

/// Version of the JSON shape; it grows when a key changes its meaning or goes away.
pub const SCHEMA: u32 = 2;

/// Id of the baseline that every ratio refers to: the program without the preload library.
pub const BASELINE: &str = lockswap_locks::registry::PTHREAD;

/// Id of the other baseline: the program with the preload library, on glibc's locks.
pub const INTERPOSED: &str = lockswap_locks::registry::INTERPOSED_PTHREAD;

/// One program measured on several locks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Comparison {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// Version of lockswap that measured.
    pub tool_version: String,
    /// When the first run began, in seconds since 1970-01-01 UTC.
    pub started_unix_s: u64,
    /// Where it was measured.
    pub machine: Machine,
    /// Seed of the order of runs.
    pub seed: u64,
    /// What users call it: `--name`, or the command.
    pub name: String,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What was measured, the one that decides first.
    pub measures: Vec<Measure>,
    /// Measured rounds asked for.
    pub runs: u32,
    /// Rounds asked for before them; lock calls are counted in the first.
    pub warmup: u32,
    /// The time limit of a run in seconds; runs after the first of the baseline may be given more.
    pub timeout_s: f64,
    /// Differences below this share of the baseline are not worth a verdict: 0.01 is 1 %.
    pub smallest_effect: f64,
    /// What loading the library into one process takes, in seconds, where it was measured.
    pub loading_s: Option<f64>,
    /// Whether all runs were made; false in a file that an interrupted comparison left behind.
    pub complete: bool,
    /// The raw samples, baseline first.
    pub locks: Vec<LockRuns>,
    /// What the samples say, computed from them: for each measure the rows of all locks.
    pub summary: Vec<Vec<Row>>,
    /// What the fresh runs at the end say of the best lock, one for each setting of the sweep.
    pub winners: Vec<Winner>,
}

impl Comparison {
    /// The runs of the baseline that those of `lock` are held against: the ones with the same setting.
    pub fn baseline_of(&self, lock: &LockRuns) -> Option<&LockRuns> {
        self.locks.iter().find(|l| l.lock == BASELINE && l.setting == lock.setting)
    }

    /// The exit status that every run of `lock` is held against: that of the first run of the baseline.
    pub fn expected_exit(&self, lock: &LockRuns) -> Option<&Exit> {
        self.baseline_of(lock)?.samples.first().map(|s| &s.exit)
    }

    /// The settings of the sweep, in their order; one empty one without a sweep.
    pub fn settings(&self) -> Vec<&[(String, String)]> {
        let mut settings: Vec<&[(String, String)]> = Vec::new();
        for lock in &self.locks {
            if !settings.contains(&lock.setting.as_slice()) {
                settings.push(&lock.setting);
            }
        }
        settings
    }

    /// Recomputes [`Comparison::summary`] and [`Comparison::winners`] from the samples.
    pub fn summarise(&mut self) {
        self.summary = crate::summary::all(self);
        self.winners = crate::summary::winners(self);
    }
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
    /// What users call it.
    pub name: String,
    /// Where the number comes from.
    pub source: Source,
    /// The unit shown to users; empty when unknown.
    pub unit: String,
    /// Whether smaller numbers are better.
    pub lower_is_better: bool,
}

impl Measure {
    /// Wall time in seconds.
    pub fn wall() -> Self {
        Self { name: "wall time".into(), source: Source::Wall, unit: "s".into(), lower_is_better: true }
    }

    /// A number in the program's output: the `index`-th of those asked for.
    pub fn metric(index: usize, name: &str, regex: &str, unit: &str, lower_is_better: bool) -> Self {
        let source = Source::Metric { regex: regex.into(), index };
        Self { name: name.into(), source, unit: unit.into(), lower_is_better }
    }

    /// The number of one sample, if it has it.
    pub fn value(&self, sample: &Sample) -> Option<f64> {
        match self.source {
            Source::Wall => Some(sample.wall_s),
            Source::Metric { index, .. } => sample.metrics.get(index).copied().flatten(),
        }
    }
}

/// Where the compared number comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
    /// The time from the start of the program to its end; of the load generator, where there is one.
    Wall,
    /// What the regular expression captures from the output.
    Metric {
        /// The expression.
        regex: String,
        /// Its place in [`Sample::metrics`].
        index: usize,
    },
}

/// All runs on one lock, with one setting of the sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockRuns {
    /// Id of the lock; with `+` and that of the rwlock, or that one alone, where several rwlocks are compared.
    pub lock: String,
    /// Parameters of the sweep with their values.
    pub setting: Vec<(String, String)>,
    /// Whether the preload library was loaded.
    pub preloaded: bool,
    /// The lock calls of one run, where they were counted.
    pub counted: Option<Counted>,
    /// Set when the rest of this lock's runs were left out, with the reason.
    pub left_out: Option<String>,
    /// The runs, in the order in which they were made.
    pub samples: Vec<Sample>,
}

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It warms up caches, and counts lock calls; only its failures count.
    WarmUp,
    /// It is compared.
    Measured,
    /// It was made after the winner was chosen, to confirm it.
    Confirmation,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Round, from 0; warm-up rounds come first, those of the confirmation last.
    pub round: u32,
    /// What the run is for.
    pub phase: Phase,
    /// Seconds from start to end.
    pub wall_s: f64,
    /// What the program and all processes that it waited for used of the CPUs.
    pub usage: Usage,
    /// The metrics, in the order of the measures; nothing where one was not found.
    pub metrics: Vec<Option<f64>>,
    /// How the run ended.
    pub exit: Exit,
    /// Why the run does not count although it ended well, such as a load generator that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The last lines that the program, or its load generator, wrote to stdout, kept for runs that went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdout_tail: Option<String>,
    /// The same of stderr.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
}

/// What a run used of the CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// CPU time in the program's own code, seconds.
    pub user_s: f64,
    /// CPU time in the kernel, seconds.
    pub system_s: f64,
    /// Times that a thread gave up its CPU, as one does that sleeps.
    pub voluntary_switches: u64,
    /// Times that the kernel took it away.
    pub involuntary_switches: u64,
}

impl Usage {
    /// CPU time, seconds.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }
}

/// What fresh runs say of the lock that was best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Winner {
    /// The lock.
    pub lock: String,
    /// Its setting of the sweep.
    pub setting: Vec<(String, String)>,
    /// How many times better than the baseline, in the fresh runs alone.
    pub ratio: Option<f64>,
    /// Lower end of the 95 % interval.
    pub ratio_low: Option<f64>,
    /// Upper end of the 95 % interval.
    pub ratio_high: Option<f64>,
    /// The p value of the fresh runs.
    pub p: Option<f64>,
    /// Fresh rounds.
    pub rounds: usize,
    /// Whether they confirm that it is better.
    pub confirmed: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Exit {
    /// It returned an exit status.
    Code {
        /// The status.
        code: i32,
    },
    /// A signal killed it.
    Signal {
        /// The signal's number.
        number: i32,
        /// The signal's name.
        name: String,
    },
    /// It ran past the limit and was killed.
    TimedOut {
        /// The limit in seconds.
        after_s: f64,
    },
    /// It could not be started.
    NotStarted {
        /// Why.
        error: String,
    },
}

impl Exit {
    /// In a few words, for tables.
    pub fn words(&self) -> String {
        match self {
            Exit::Code { code } => format!("exit status {code}"),
            Exit::Signal { name, .. } => format!("crashed: {name}"),
            Exit::TimedOut { after_s } => format!("timed out after {} s", crate::numbers::short(*after_s)),
            Exit::NotStarted { error } => format!("not started: {error}"),
        }
    }
}

/// Name of a signal, as `kill -l` knows it.
pub fn signal_name(number: i32) -> String {
    let named = signal_hook::low_level::signal_name(number);
    named.map_or_else(|| format!("signal {number}"), str::to_owned)
}
