//! What a comparison consists of. Serialised with serde it is the JSON of `lockswap compare --export-json`.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::summary::Row;

/// Version of the JSON shape; it grows when a key changes its meaning or goes away.
pub const SCHEMA: u32 = 1;

/// Id of the baseline that every ratio refers to: the program without the preload library.
pub const BASELINE: &str = "pthread";

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
    /// Seed of the bootstrap.
    pub seed: u64,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// What was measured.
    pub measure: Measure,
    /// Measured runs asked for, per lock.
    pub runs: u32,
    /// Warm-up runs asked for, per lock.
    pub warmup: u32,
    /// The time limit of a run in seconds; runs after the first of the baseline may be given more.
    pub timeout_s: f64,
    /// Whether all runs were made; false in a file that an interrupted comparison left behind.
    pub complete: bool,
    /// The raw samples, baseline first.
    pub locks: Vec<LockRuns>,
    /// What the samples say, computed from them.
    pub summary: Vec<Row>,
}

impl Comparison {
    /// The samples of the baseline.
    pub fn baseline(&self) -> Option<&LockRuns> {
        self.locks.iter().find(|l| l.lock == BASELINE)
    }

    /// The exit status that every run is held against: the one of the first run of the baseline.
    pub fn expected_exit(&self) -> Option<&Exit> {
        self.baseline()?.samples.first().map(|s| &s.exit)
    }

    /// Recomputes [`Comparison::summary`] from the samples.
    pub fn summarise(&mut self) {
        self.summary = crate::summary::rows(self);
    }
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measure {
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
        Self { source: Source::Wall, unit: "s".into(), lower_is_better: true }
    }

    /// A number in the program's output.
    pub fn metric(regex: &str, unit: &str, lower_is_better: bool) -> Self {
        Self { source: Source::Metric { regex: regex.into() }, unit: unit.into(), lower_is_better }
    }

    /// The number of one sample, if it has it.
    pub fn value(&self, sample: &Sample) -> Option<f64> {
        match self.source {
            Source::Wall => Some(sample.wall_s),
            Source::Metric { .. } => sample.metric,
        }
    }
}

/// Where the compared number comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Source {
    /// The time from the start of the program to its end.
    Wall,
    /// What the regular expression captures from the program's output.
    Metric {
        /// The expression.
        regex: String,
    },
}

/// All runs on one lock.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockRuns {
    /// Id of the lock.
    pub lock: String,
    /// Whether the preload library was loaded.
    pub preloaded: bool,
    /// Set when the rest of this lock's runs were left out, with the reason.
    pub left_out: Option<String>,
    /// The runs, in the order in which they were made.
    pub samples: Vec<Sample>,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Round of the interleaving, from 0; warm-up rounds come first.
    pub round: u32,
    /// Whether this run only warmed up caches and counts for nothing but its failures.
    pub warmup: bool,
    /// Seconds from start to end.
    pub wall_s: f64,
    /// The metric, where one was asked for and found.
    pub metric: Option<f64>,
    /// How the run ended.
    pub exit: Exit,
    /// The last lines that the program wrote to stderr, kept for runs that went wrong.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stderr_tail: Option<String>,
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
            Exit::TimedOut { after_s } => format!("timed out after {} s", crate::summary::short(*after_s)),
            Exit::NotStarted { error } => format!("not started: {error}"),
        }
    }
}

/// Name of a signal, as `kill -l` knows it.
pub fn signal_name(number: i32) -> String {
    let named = signal_hook::low_level::signal_name(number);
    named.map_or_else(|| format!("signal {number}"), str::to_owned)
}
