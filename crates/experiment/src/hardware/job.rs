//! What a measuring process does.

use super::child::{self, Environment};
use super::program::Program;
use lockswap_platform::{Native, Ns};
use lockswap_workloads::crew::{Place, Timing};
use lockswap_workloads::epochs::Annotate;
use lockswap_workloads::hardware::{Hardware, Seat};
use lockswap_workloads::micro::{self, Effort, Group as MicroGroup};
use lockswap_workloads::pthread::{Kind, Mutex, RwLock};
use lockswap_workloads::report::Report;
use lockswap_workloads::workload::Workload;
use lockswap_workloads::{affinity, bursts, calls, condvar, counter, epochs, kv, locktorture, ncs, phases, price};
use lockswap_workloads::{readers, shares};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

/// What to measure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Work {
    /// The pthread functions one by one.
    Micro {
        /// With one thread.
        uncontended: bool,
        /// With two.
        contended: bool,
    },
    /// The price of interposition.
    Price {
        /// The lock that is called directly; without one a pthread mutex is measured.
        directly: Option<String>,
    },
    /// A workload.
    Workload(Workload),
    /// The same, where the first `threads` have a real-time priority.
    Realtime {
        /// What they do.
        workload: Workload,
        /// How many.
        threads: usize,
    },
    /// Threads that wake each other.
    Condvar(condvar::Config),
    /// A real program.
    Program(Program),
}

impl Work {
    /// How long it takes, as far as it says so.
    fn timing(&self) -> Timing {
        match self {
            Work::Micro { .. } | Work::Price { .. } => Timing::lasting(0),
            Work::Workload(workload) | Work::Realtime { workload, .. } => workload.timing(),
            Work::Condvar(config) => config.timing,
            Work::Program(program) => Timing { warm_up: 0, duration: program.takes },
        }
    }
}

/// A measurement in a process of its own.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// What.
    pub work: Work,
    /// Where threads are pinned; nowhere if empty.
    pub seats: Vec<Seat>,
    /// What its chances follow.
    pub seed: u64,
}

impl Job {
    /// Measures in a child of `program` that runs in `environment`; what it measured.
    ///
    /// # Errors
    /// The child cannot be started, fails, hangs, or prints something else than its numbers.
    pub fn run<T: DeserializeOwned>(&self, program: &Path, environment: &Environment) -> io::Result<T> {
        let mut command = child::command(program, child::MEASURE, environment);
        command.arg(serde_json::to_string(self)?);
        let timing = self.work.timing();
        child::numbers(command, Duration::from_nanos(timing.warm_up + timing.duration))
    }
}

/// The measuring process: does the job that `text` describes; what it measured, as a line of JSON. `places`: where the
/// CPUs lie, by number; empty where nobody knows.
///
/// # Errors
/// The text is no job, or this process cannot do it.
pub fn perform(text: &str, places: Vec<Place>) -> io::Result<String> {
    let Job { work, seats, seed } = serde_json::from_str(text)?;
    let crew = Hardware { seats, places, seed, ..Hardware::default() };
    let line = match work {
        Work::Micro { uncontended, contended } => {
            // The last CPU: the first one serves most interrupts.
            if let Some(&cpu) = affinity::allowed().last() {
                let cannot = |error| io::Error::other(format!("cannot pin to CPU {cpu}: {error}"));
                affinity::pin(&[cpu]).map_err(cannot)?;
            }
            let groups = [(uncontended, MicroGroup::Uncontended), (contended, MicroGroup::Contended)];
            let groups: Vec<_> = groups.into_iter().filter(|group| group.0).map(|group| group.1).collect();
            let numbers: BTreeMap<_, _> = micro::measure(&groups, &Effort::default()).into_iter().collect();
            serde_json::to_string(&numbers)
        }
        Work::Price { directly } => {
            // The lock is always wanted, yet holder and waiters can run at once.
            let threads = std::thread::available_parallelism().map_or(2, |n| n.get().max(2));
            let kv = kv::Config { timing: Timing::lasting(250_000_000), ..kv::Config::new(threads) };
            let effort = Effort { single: Duration::from_millis(30), ..Effort::default() };
            let samples = match &directly {
                Some(id) => {
                    price::direct(id, &kv, &effort).ok_or_else(|| io::Error::other(format!("no mutex lock '{id}'")))?
                }
                None => price::interposed(&kv, &effort),
            };
            serde_json::to_string(&BTreeMap::from(samples))
        }
        Work::Workload(workload) => serde_json::to_string(&measured(&workload, &crew)),
        Work::Realtime { workload, threads } => {
            serde_json::to_string(&measured(&workload, &Hardware { realtime: threads, ..crew }))
        }
        Work::Condvar(config) => {
            let report = condvar::run(&config, &crew);
            serde_json::to_string(&Report { cpu_ns: crew.cpu_time.get().copied(), ..report })
        }
        Work::Program(program) => serde_json::to_string(&program.run()?),
    };
    Ok(line?)
}

/// What a workload gave on the pthread functions of this process.
fn measured(workload: &Workload, crew: &Hardware) -> Report {
    let mutex = || Mutex::new(Kind::Normal);
    let report = match workload {
        Workload::Counter(config) => counter::run::<Native, _>(config, crew, &*mutex()),
        Workload::Kv(config) => kv::run::<Native, _>(config, crew, &*mutex()),
        Workload::Ncs(config) => ncs::run::<Native, _>(config, crew, &*mutex()),
        Workload::Epochs(config) => epochs::run::<Native, Mutex>(config, crew, &Mutex::array(config.locks), &Preloaded),
        Workload::Shares(config) => shares::run::<Native, _>(config, crew, &*mutex()),
        Workload::Bursts(config) => bursts::run::<Native, _>(config, crew, &*mutex()),
        Workload::Phases(config) => phases::run::<Native, _>(config, crew, &*mutex()),
        Workload::Readers(config) => readers::run::<Native, _>(config, crew, &*RwLock::new()),
        Workload::Locktorture(config) => locktorture::run::<Native, _>(config, crew, &*mutex()),
        Workload::Calls(config) => calls::run::<Native, Mutex>(config, crew, &Mutex::array(config.lock_count())),
    };
    Report { cpu_ns: crew.cpu_time.get().copied(), ..report }
}

/// Tells epochs to the preload library.
struct Preloaded;

impl Annotate for Preloaded {
    #[inline]
    fn epoch<R>(&self, id: i32, slo: Ns, body: impl FnOnce() -> R) -> R {
        let _epoch = lockswap::epoch(id, Duration::from_nanos(slo));
        body()
    }
}
