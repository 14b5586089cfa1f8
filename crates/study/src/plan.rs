//! A measurement plan: which program, on which locks, how often.

use std::path::PathBuf;
use std::time::Duration;

use crate::metric::Metric;
use crate::model::Measure;
use crate::runner::Program;
use crate::service::Ready;
use crate::window::Window;

/// Longest run when the user names no limit.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// The program as it is run on one lock.
#[derive(Clone, Debug)]
pub struct Variant {
    /// Id of the lock.
    pub lock: String,
    /// Parameters of the sweep with their values.
    pub setting: Vec<(String, String)>,
    /// Whether the preload library is loaded.
    pub preloaded: bool,
    /// The program with the environment that selects the lock.
    pub program: Program,
    /// The load generator, where the program is a server.
    pub load: Option<Program>,
    /// Runs before each run, which does not count it.
    pub prepare: Option<Program>,
}

impl Variant {
    /// The program on a lock, and nothing else.
    pub fn new(lock: &str, preloaded: bool, program: Program) -> Self {
        let (setting, load, prepare) = (Vec::new(), None, None);
        Variant { lock: lock.into(), setting, preloaded, program, load, prepare }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What users call it.
    pub name: String,
    /// The command as shown to users.
    pub command: Vec<String>,
    /// The variants; for each setting the one of the [baseline](crate::model::BASELINE) comes first.
    pub variants: Vec<Variant>,
    /// What is compared.
    pub measures: Vec<Measure>,
    /// How the metrics are found.
    pub metrics: Vec<Metric>,
    /// Measured rounds.
    pub runs: u32,
    /// Rounds before them.
    pub warmup: u32,
    /// Whether lock calls are counted in the first round before them.
    pub counts: bool,
    /// Whether the best lock is measured once more, against the baseline.
    pub confirms: bool,
    /// Longest run, or `None` for [`DEFAULT_TIMEOUT`], raised to ten times the slowest plain run.
    pub timeout: Option<Duration>,
    /// Seed of the order of runs.
    pub seed: u64,
    /// Whether a plain program that exits with a status other than 0 is measured all the same.
    pub ignore_failure: bool,
    /// Differences below this share of the baseline are not worth a verdict.
    pub smallest_effect: f64,
    /// A short program without the library, and with it.
    pub loading: Option<[Program; 2]>,
    /// What the program reads from standard input.
    pub input: Option<PathBuf>,
    /// Whether the program's output is shown.
    pub shows_output: bool,
    /// Whether the end of standard output is kept of runs that failed, also where no metric is looked for in it.
    pub keeps_output: bool,
    /// What shows that a server is ready for its load.
    pub ready: Option<Ready>,
    /// The part of each run that counts; the whole run without one.
    pub window: Option<Window>,
    /// Runs once before everything.
    pub setup: Option<Program>,
    /// Runs once at the end, also after an interruption or a failure.
    pub cleanup: Option<Program>,
}

impl Plan {
    /// A plan that compares wall times, with nothing around the runs.
    pub fn new(command: Vec<String>, variants: Vec<Variant>) -> Self {
        Self {
            name: command.join(" "),
            command,
            variants,
            measures: vec![Measure::wall()],
            metrics: Vec::new(),
            runs: 10,
            warmup: 1,
            counts: false,
            confirms: false,
            timeout: None,
            seed: 1,
            ignore_failure: false,
            smallest_effect: 0.0,
            loading: None,
            input: None,
            shows_output: false,
            keeps_output: false,
            ready: None,
            window: None,
            setup: None,
            cleanup: None,
        }
    }
}
