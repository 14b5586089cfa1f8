//! One run: a workload on a lock of the catalogue on a machine.

use crate::crew::{attempt, Simulated};
use crate::engine::{Stuck, Totals};
use crate::epochs::Epochs;
use crate::machine::{Invalid, Machine};
use crate::Sim;
use lockswap_locks::{for_each_lock, RawLock, RawRwLock};
use lockswap_platform::Ns;
use lockswap_workloads::crew::Timing;
use lockswap_workloads::direct::{Direct, DirectRw};
use lockswap_workloads::record::Detail;
use lockswap_workloads::report::Report;
use lockswap_workloads::{counter, epochs, kv, ncs, readers, Mutex, ReadWrite};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::any::Any;

/// What the threads do.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// Count under one lock; `oversub` is the same with computations inside and outside.
    Counter(counter::Config),
    /// Use a key-value map.
    Kv(kv::Config),
    /// Touch an array, then stay outside for a time.
    Ncs(ncs::Config),
    /// Run epochs of several critical sections; the window that does not change, if there is one.
    Epochs(epochs::Config, Option<Ns>),
    /// Read and write under a read-write lock.
    Readers(readers::Config),
}

/// Threads and length until somebody says.
const THREADS: usize = 1;

impl Workload {
    /// The names that [`Workload::named`] knows.
    pub const NAMES: &[&str] = &[
        "counter",
        "kv",
        "ncs",
        "epochs",
        "epochs-variable",
        "epochs-mixed",
        "epochs-contention",
        "oversub",
        "readers",
    ];

    /// The workload called `name`, as its paper has it.
    pub fn named(name: &str) -> Option<Self> {
        let ncs =
            ncs::Config { threads: THREADS, timing: Timing::lasting(0), lines: 2, ncs: 10_000, detail: Detail::Counts };
        Some(match name {
            "counter" => Workload::Counter(counter::Config::bare(THREADS)),
            "oversub" => Workload::Counter(counter::Config::oversubscribed(THREADS)),
            "kv" => Workload::Kv(kv::Config { external: 0, ..kv::Config::new(THREADS) }),
            "ncs" => Workload::Ncs(ncs),
            "epochs" => Workload::Epochs(epochs::Config::contended(THREADS), None),
            "epochs-variable" => Workload::Epochs(epochs::Config::variable(THREADS), None),
            "epochs-mixed" => Workload::Epochs(epochs::Config::mixed(THREADS, 50), None),
            "epochs-contention" => Workload::Epochs(epochs::Config::contention(THREADS, 0), None),
            "readers" => Workload::Readers(readers::Config::new(THREADS)),
            _ => return None,
        })
    }

    /// Whether its locks are read-write locks.
    pub fn wants_rwlocks(&self) -> bool {
        matches!(self, Workload::Readers(_))
    }

    /// How many threads.
    pub fn threads(&self) -> usize {
        match self {
            Workload::Counter(config) => config.threads,
            Workload::Kv(config) => config.threads,
            Workload::Ncs(config) => config.threads,
            Workload::Epochs(config, _) => config.threads,
            Workload::Readers(config) => config.threads,
        }
    }

    /// The same with so many threads, for so long, with hand-offs and waits noted where it can.
    pub fn with(self, threads: usize, duration: Ns) -> Self {
        self.noting(threads, duration, Detail::Handoffs)
    }

    /// The same with this detail noted where it can.
    pub fn noting(mut self, threads: usize, duration: Ns, noted: Detail) -> Self {
        let all = Timing::lasting(duration);
        match &mut self {
            Workload::Counter(counter::Config { threads: t, timing, detail, .. })
            | Workload::Kv(kv::Config { threads: t, timing, detail, .. })
            | Workload::Ncs(ncs::Config { threads: t, timing, detail, .. })
            | Workload::Epochs(epochs::Config { threads: t, timing, detail, .. }, _) => {
                (*t, *timing, *detail) = (threads, all, noted);
            }
            Workload::Readers(config) => (config.threads, config.timing) = (threads, all),
        }
        if let Workload::Epochs(epochs::Config { timing, length: epochs::Length::Phases, .. }, _) = &mut self {
            // Its phases are parts of the whole run.
            timing.warm_up = 0;
        }
        self
    }

    /// Sets one of the workload's own keys, which are those of its configuration in JSON.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), Invalid> {
        match self {
            Workload::Counter(config) => set(config, key, value),
            Workload::Kv(config) => set(config, key, value),
            Workload::Ncs(config) => set(config, key, value),
            Workload::Epochs(_, window) if key == "window" => {
                let read = value.parse().map_err(|_| Invalid {
                    what: format!("cannot read window={value}"),
                    remedy: "write whole nanoseconds, as in window=20000".into(),
                })?;
                *window = Some(read);
                Ok(())
            }
            Workload::Epochs(config, _) => set(config, key, value),
            Workload::Readers(config) => set(config, key, value),
        }
    }

    /// The configuration as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        let json = match self {
            Workload::Counter(config) => serde_json::to_value(config),
            Workload::Kv(config) => serde_json::to_value(config),
            Workload::Ncs(config) => serde_json::to_value(config),
            Workload::Epochs(config, _) => serde_json::to_value(config),
            Workload::Readers(config) => serde_json::to_value(config),
        };
        json.unwrap_or_default()
    }
}

fn set<C: Serialize + DeserializeOwned>(config: &mut C, key: &str, value: &str) -> Result<(), Invalid> {
    const OTHERS: [&str; 3] = ["threads", "timing", "detail"];
    let invalid = |what: String, remedy: String| Invalid { what, remedy };
    let mut json = serde_json::to_value(&*config).unwrap_or_default();
    let fields = json.as_object_mut().expect("a configuration is an object");
    if !fields.contains_key(key) || OTHERS.contains(&key) {
        let known: Vec<&str> = fields.keys().map(String::as_str).filter(|key| !OTHERS.contains(key)).collect();
        let remedy = format!("use one of: {}; or a machine's key as in latency.remote=130", known.join(", "));
        return Err(invalid(format!("the workload has no key '{key}'"), remedy));
    }
    let parsed = serde_json::from_str(value).unwrap_or_else(|_| serde_json::Value::String(value.to_owned()));
    fields.insert(key.to_owned(), parsed);
    *config = serde_json::from_value(json)
        .map_err(|error| invalid(format!("cannot use {key}={value}: {error}"), "write it as in JSON".to_owned()))?;
    Ok(())
}

/// A run to make.
#[derive(Clone, Debug)]
pub struct Job<'a> {
    /// Where.
    pub machine: &'a Machine,
    /// What.
    pub workload: Workload,
    /// The id of the lock.
    pub lock: &'a str,
    /// The seed of all chance.
    pub seed: u64,
}

/// What a run gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The workload's numbers.
    pub report: Report,
    /// What the simulation took.
    pub totals: Totals,
    /// CPU time of the host, ns.
    pub cpu_time: Ns,
}

/// Why a run gave nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The catalogue has no such lock.
    NoSuchLock,
    /// The lock stopped all threads.
    Stuck(Stuck),
}

/// A lock on lines of its own.
#[repr(align(128))]
struct Apart<T>(T);

/// A mutex of any type: the workloads are compiled once for all locks.
trait AnyMutex: Sync {
    fn thread(&self) -> Box<dyn Any>;
    fn lock(&self, me: &mut dyn Any);
    fn unlock(&self, me: &mut dyn Any);
}

impl<M: Mutex<Thread: 'static>> AnyMutex for Apart<M> {
    fn thread(&self) -> Box<dyn Any> {
        Box::new(self.0.thread())
    }
    fn lock(&self, me: &mut dyn Any) {
        self.0.lock(me.downcast_mut().expect("its own"));
    }
    fn unlock(&self, me: &mut dyn Any) {
        self.0.unlock(me.downcast_mut().expect("its own"));
    }
}

impl Mutex for Box<dyn AnyMutex> {
    type Thread = Box<dyn Any>;
    fn thread(&self) -> Box<dyn Any> {
        (**self).thread()
    }
    fn lock(&self, me: &mut Box<dyn Any>) {
        (**self).lock(&mut **me);
    }
    fn unlock(&self, me: &mut Box<dyn Any>) {
        (**self).unlock(&mut **me);
    }
}

/// A read-write lock of any type.
struct AnyRwLock(Box<dyn ReadWrite>);

impl<L: ReadWrite> ReadWrite for Apart<L> {
    fn read(&self) {
        self.0.read();
    }
    fn unlock_read(&self) {
        self.0.unlock_read();
    }
    fn write(&self) {
        self.0.write();
    }
    fn unlock_write(&self) {
        self.0.unlock_write();
    }
}

impl ReadWrite for AnyRwLock {
    fn read(&self) {
        self.0.read();
    }
    fn unlock_read(&self) {
        self.0.unlock_read();
    }
    fn write(&self) {
        self.0.write();
    }
    fn unlock_write(&self) {
        self.0.unlock_write();
    }
}

/// A new mutex of the catalogue.
fn mutex(id: &str) -> Option<Box<dyn AnyMutex>> {
    fn make<L: RawLock<Sim>>() -> Box<dyn AnyMutex> {
        Box::new(Apart(Direct::<Sim, L>::new()))
    }
    macro_rules! dispatch {
        (mutex { $($id:literal => $lock:path,)* } rwlock { $($rwlocks:tt)* } spin { $($spins:tt)* }) => {
            match id {
                $($id => {
                    use $lock as Lock;
                    Some(make::<Lock<Sim>>())
                })*
                _ => None,
            }
        };
    }
    for_each_lock!(dispatch)
}

/// A new read-write lock of the catalogue.
fn rwlock(id: &str) -> Option<AnyRwLock> {
    fn make<L: RawRwLock<Sim>>() -> AnyRwLock {
        AnyRwLock(Box::new(Apart(DirectRw::<Sim, L>::new())))
    }
    macro_rules! dispatch {
        (mutex { $($mutexes:tt)* } rwlock { $($id:literal => $lock:path,)* } spin { $($spins:tt)* }) => {
            match id {
                $($id => {
                    use $lock as Lock;
                    Some(make::<Lock<Sim>>())
                })*
                _ => None,
            }
        };
    }
    for_each_lock!(dispatch)
}

impl Job<'_> {
    /// Makes the run.
    pub fn run(&self) -> Result<Finished, Failure> {
        if let Workload::Readers(config) = &self.workload {
            let lock = rwlock(self.lock).ok_or(Failure::NoSuchLock)?;
            return self.measure(|crew| readers::run::<Sim, _>(config, crew, &lock));
        }
        let locks = match &self.workload {
            Workload::Epochs(config, _) => config.locks,
            _ => 1,
        };
        let mutexes = (0..locks).map(|_| mutex(self.lock)).collect::<Option<Vec<_>>>().ok_or(Failure::NoSuchLock)?;
        let mutex = &mutexes[0];
        self.measure(|crew| match &self.workload {
            Workload::Counter(config) => counter::run::<Sim, _>(config, crew, mutex),
            Workload::Kv(config) => kv::run::<Sim, _>(config, crew, mutex),
            Workload::Ncs(config) => ncs::run::<Sim, _>(config, crew, mutex),
            Workload::Epochs(config, window) => epochs::run::<Sim, _>(config, crew, &mutexes, &Epochs::new(*window)),
            Workload::Readers(_) => unreachable!("those have run"),
        })
    }

    fn measure(&self, run: impl FnOnce(&Simulated<'_>) -> Report) -> Result<Finished, Failure> {
        let crew = Simulated::new(self.machine, self.seed);
        let started = cpu_time();
        let report = attempt(|| run(&crew)).map_err(Failure::Stuck)?;
        Ok(Finished { report, totals: crew.totals(), cpu_time: cpu_time() - started })
    }
}

/// CPU time of the calling thread, ns.
pub fn cpu_time() -> Ns {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as Ns * 1_000_000_000 + time.tv_nsec as Ns
}
