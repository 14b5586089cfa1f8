//! What is to be run, checked before anything runs.

use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_sim::{Invalid, Job, Machine, Workload};
use lockswap_workloads::sweep::{sweep, Variants};

/// `KEY=VALUE`, as they were given.
pub type Settings = Vec<(String, String)>;

/// All runs of a sweep.
pub struct Plan {
    /// Where.
    pub machine: Machine,
    /// The workload's name.
    pub name: String,
    /// One without a name if no setting has a list of values.
    pub workloads: Variants,
    /// The keys whose values are lists.
    pub swept: Vec<String>,
    /// The ids of the locks.
    pub locks: Vec<String>,
    /// The numbers of threads.
    pub threads: Vec<u32>,
    /// Virtual time that is measured.
    pub duration: Ns,
    /// The seeds of the runs of each lock, one after the other.
    pub seeds: Vec<u64>,
    /// What was changed of the workload and the machine.
    pub settings: Settings,
}

/// What is wanted; what is empty or `None` is chosen to suit the workload.
pub struct Wanted {
    /// The workload's name.
    pub workload: String,
    /// Where.
    pub machine: Machine,
    /// What to change of the workload and the machine, see [`settings`].
    pub settings: Settings,
    /// The ids of locks that can be simulated.
    pub locks: Vec<String>,
    /// The numbers of threads.
    pub threads: Vec<u32>,
    /// Virtual time to measure.
    pub duration: Option<Ns>,
    /// The first seed.
    pub seed: u64,
    /// How many seeds, at least 1.
    pub seeds: u32,
}

/// Workloads with more threads than CPUs. Waits that spin then end in naps, as those of the shipped library do on
/// hardware.
const CROWDED: [&str; 2] = ["oversub", "epochs-oversub"];

/// The key that says how waits that spin end.
const PATIENCE: &str = "scheduler.patience";

/// What is to be changed for a workload: what is `given`, and what suits the workload where that says nothing else.
pub fn settings(workload: &str, given: &[(String, String)]) -> Settings {
    let mut settings = given.to_vec();
    if CROWDED.contains(&workload) && !settings.iter().any(|(key, _)| key == PATIENCE) {
        settings.insert(0, (PATIENCE.into(), "true".into()));
    }
    settings
}

/// Those of the settings that change the machine, and those that change the workload: keys of the machine have a
/// section in front (`latency.remote`).
pub fn apart(settings: &[(String, String)]) -> (Settings, Settings) {
    settings.iter().cloned().partition(|(key, _)| key.contains('.'))
}

/// The locks that suit the workload of this name: the baseline and those that its paper is about.
fn standard(workload: &str) -> &'static [&'static str] {
    match workload {
        "ncs" => &["pthread", "ttas", "ticket", "mcs_spin", "c-bo-mcs_spin", "shfllock", "ron"],
        "epochs-oversub" => &["pthread", "mcs_stp", "asl-blocking"],
        "oversub" => &[
            "pthread",
            "auto",
            "futex",
            "ttas",
            "ticket",
            "mcs_spin",
            "mcs_stp",
            "mcs_stp-barging",
            "cna",
            "shfllock-b",
        ],
        "locktorture" | "lock1" | "lock2" | "open1" | "open2" => {
            &["qspinlock", "qspinlock-cna", "qspinlock-shfl", "qspinlock-ron"]
        }
        name if name.starts_with("epochs") => &["pthread", "mcs_spin", "asl"],
        _ => &["pthread", "auto", "mcs_spin", "cna", "ticket", "ttas"],
    }
}

/// 1, 2, 4 and so on, and the number of `cpus`.
pub fn doubling(cpus: u32) -> Vec<u32> {
    (0..12).map(|n| 1 << n).take_while(|n| *n < cpus).chain([cpus]).collect()
}

/// Each of them once, in the order in which they came first.
fn unique<T: PartialEq>(all: Vec<T>) -> Vec<T> {
    all.into_iter().fold(Vec::new(), |mut once, next| {
        if !once.contains(&next) {
            once.push(next);
        }
        once
    })
}

/// One measurement of a plan.
#[derive(Clone)]
pub struct Setting<'a> {
    /// The lock's id.
    pub lock: &'a str,
    /// The values of the keys that have several.
    pub name: &'a str,
    /// What is run.
    pub workload: Workload,
}

impl Plan {
    /// The plan for what is wanted.
    ///
    /// # Errors
    /// There is no such workload, or it has no such key, or no such value for it.
    pub fn new(wanted: Wanted) -> Result<Self, Invalid> {
        let workload = Workload::named(&wanted.workload)?;
        let is_crowded = CROWDED.contains(&wanted.workload.as_str());
        let (swept, workloads) = sweep(&workload, &apart(&wanted.settings).1).map_err(|mut invalid| {
            invalid.remedy += "; keys of the machine have a section, as in latency.remote=130";
            invalid
        })?;
        let mut locks = unique(wanted.locks);
        if locks.is_empty() {
            locks = match workload.role() {
                Role::Mutex => standard(&wanted.workload).iter().map(|id| (*id).to_owned()).collect(),
                role => lockswap_sim::locks(role).map(str::to_owned).collect(),
            };
        }
        let mut threads = unique(wanted.threads);
        if threads.is_empty() {
            let cpus = wanted.machine.cpu_count() as u32;
            threads = match is_crowded {
                true => vec![2 * cpus],
                false => doubling(cpus),
            };
        }
        let duration = wanted.duration.unwrap_or(match wanted.workload.as_str() {
            "epochs-variable" => 350_000_000,
            _ if is_crowded => 200_000_000,
            _ => 20_000_000,
        });
        let seeds = (wanted.seed..).take(wanted.seeds as usize).collect();
        let Wanted { workload: name, machine, settings, .. } = wanted;
        Ok(Plan { machine, name, workloads, swept, locks, threads, duration, seeds, settings })
    }

    /// All measurements, by lock, values of keys, and number of threads.
    pub fn all(&self) -> impl Iterator<Item = Setting<'_>> {
        let of = move |lock| {
            self.workloads.iter().flat_map(move |(name, workload)| {
                let with = move |threads: &u32| workload.clone().with(*threads as usize, self.duration);
                self.threads.iter().map(move |threads| Setting { lock, name, workload: with(threads) })
            })
        };
        self.locks.iter().map(String::as_str).flat_map(of)
    }

    /// The runs, seed by seed of each measurement.
    pub fn jobs(&self) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        for Setting { lock, workload, .. } in self.all() {
            for &seed in &self.seeds {
                jobs.push(Job { machine: &self.machine, workload: workload.clone(), lock, seed });
            }
        }
        jobs
    }
}
