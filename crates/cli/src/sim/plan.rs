//! What is to be run, checked before anything runs.

use lockswap_locks::registry::{self, Role};
use lockswap_machine::contents;
use lockswap_sim::{Job, Machine, Workload};
use lockswap_workloads::sweep::{sweep, Variants};

use super::SimArgs;
use crate::error::UserError;
use crate::selection::no_such_lock;

/// All runs of a sweep.
pub struct Plan {
    pub machine: Machine,
    pub name: String,
    /// One without a name if `--set` has no lists.
    pub workloads: Variants,
    /// The keys whose values are lists.
    pub swept: Vec<String>,
    pub locks: Vec<String>,
    pub threads: Vec<u32>,
    pub duration: u64,
    pub seeds: Vec<u64>,
    pub settings: Vec<(String, String)>,
}

/// Keys of the machine have a section in front, those of workloads have none.
fn is_the_machines(key: &str) -> bool {
    key.contains('.')
}

/// The machine called `name`, or that of the file of that name; the one that this runs on may have to be probed.
pub fn machine(name: &str, changes: &[(String, String)]) -> Result<Machine, UserError> {
    if name == super::host::NAME {
        return super::host::machine(changes);
    }
    if !name.contains('/') && !name.ends_with(".toml") {
        return Ok(Machine::built_in(name, changes)?);
    }
    let text = contents(name.as_ref())
        .map_err(|error| UserError::new(format!("cannot read the machine file {name}: {error}"), "check its path"))?;
    Ok(Machine::parse(name, &text, changes)?)
}

/// The published name of the lock that `id` names among those that can be simulated.
pub(super) fn find(role: Role, id: &str) -> Option<&'static str> {
    registry::find(role, id.trim()).filter(|entry| !entry.path.is_empty()).map(|entry| entry.info.id)
}

/// The ids of the locks that can be simulated: those of the catalogue, not glibc's.
pub(super) fn simulated(role: Role) -> impl Iterator<Item = &'static str> {
    registry::ENTRIES
        .iter()
        .filter(move |entry| entry.role == role && !entry.path.is_empty())
        .map(|entry| entry.info.id)
}

/// Workloads with more threads than CPUs. Waits that spin then end in naps, as those of the shipped library do on hardware.
const CROWDED: [&str; 2] = ["oversub", "epochs-oversub"];

/// The key that says how waits that spin end.
const PATIENCE: &str = "scheduler.patience";

/// The locks that are asked for, each once, or those that suit the workload.
fn locks(args: &SimArgs, role: Role) -> Result<Vec<String>, UserError> {
    let standard: &[&str] = match args.workload.as_str() {
        "ncs" => &["ttas", "ticket", "mcs_spin", "c-bo-mcs_spin", "shfllock", "ron"],
        "epochs-oversub" => &["mcs_stp", "asl-blocking"],
        "oversub" => &["futex", "ttas", "ticket", "mcs_spin", "mcs_stp", "cna", "shfllock-b"],
        name if name.starts_with("epochs") => &["mcs_spin", "asl"],
        _ => &["mcs_spin", "cna", "ticket", "ttas"],
    };
    let chosen: Vec<&str> = match (args.all, args.lock.is_empty()) {
        (false, true) if role == Role::Mutex => standard.to_vec(),
        (false, false) => args.lock.iter().map(String::as_str).collect(),
        _ => simulated(role).collect(),
    };
    let mut locks: Vec<String> = Vec::new();
    for lock in chosen {
        let lock = find(role, lock).ok_or_else(|| {
            let what = format!("there is no {} lock '{lock}' to simulate", role.name());
            no_such_lock(what, lock, simulated(role))
        })?;
        if !locks.iter().any(|known| known == lock) {
            locks.push(lock.to_owned());
        }
    }
    Ok(locks)
}

/// One measurement of a plan.
#[derive(Clone)]
pub struct Setting<'a> {
    pub lock: &'a str,
    /// What `--set` says, where that is several things.
    pub name: &'a str,
    pub workload: Workload,
}

impl Plan {
    /// The plan that the arguments ask for.
    pub fn new(args: &SimArgs) -> Result<Self, UserError> {
        let workload = Workload::named(&args.workload)?;
        let is_crowded = CROWDED.contains(&args.workload.as_str());
        let mut settings = args.set.clone();
        if is_crowded && !settings.iter().any(|(key, _)| key == PATIENCE) {
            settings.insert(0, (PATIENCE.into(), "true".into()));
        }
        let (of_machine, own): (Vec<_>, Vec<_>) = settings.iter().cloned().partition(|(key, _)| is_the_machines(key));
        let machine = machine(&args.machine, &of_machine)?;
        let (swept, workloads) = sweep(&workload, &own).map_err(|mut invalid| {
            invalid.remedy += "; keys of the machine have a section, as in latency.remote=130";
            invalid
        })?;
        let role = if workload.wants_rwlocks() { Role::RwLock } else { Role::Mutex };
        let locks = locks(args, role)?;
        let mut threads: Vec<u32> = Vec::new();
        for wanted in &args.threads {
            if !threads.contains(wanted) {
                threads.push(*wanted);
            }
        }
        if threads.is_empty() {
            let cpus = machine.cpu_count() as u32;
            threads = match is_crowded {
                true => vec![2 * cpus],
                false => (0..12).map(|n| 1 << n).take_while(|n| *n < cpus).chain([cpus]).collect(),
            };
        }
        let duration = args.duration.unwrap_or(match args.workload.as_str() {
            "epochs-variable" => 350_000_000,
            _ if is_crowded => 200_000_000,
            _ => 20_000_000,
        });
        let seeds = (args.seed..).take(args.seeds as usize).collect();
        let name = args.workload.clone();
        Ok(Plan { machine, name, workloads, swept, locks, threads, duration, seeds, settings })
    }

    /// All measurements, by lock, what `--set` says, and number of threads.
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
