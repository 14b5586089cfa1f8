//! What is to be run, checked before anything runs.

use std::fs;

use lockswap_locks::registry::{self, Role};
use lockswap_sim::{Invalid, Job, Machine, Workload};

use super::SimArgs;
use crate::error::{UserError, USAGE};

/// All runs of a sweep.
pub struct Plan {
    pub machine: Machine,
    pub name: String,
    pub workload: Workload,
    pub locks: Vec<String>,
    pub threads: Vec<u32>,
    pub duration: u64,
    pub seeds: Vec<u64>,
    pub settings: Vec<(String, String)>,
}

pub(super) fn user(invalid: Invalid) -> UserError {
    UserError::new(invalid.what, invalid.remedy).with_status(USAGE)
}

/// Keys that begin like this are the machine's.
fn is_the_machines(key: &str) -> bool {
    let section = key.split('.').next().unwrap_or_default();
    key.contains('.') && ["topology", "kind", "latency", "core", "fabric", "scheduler"].contains(&section)
}

/// The machine called `name`, or that of the file of that name; the one that this runs on may have to be probed.
pub fn machine(name: &str, changes: &[(String, String)]) -> Result<Machine, UserError> {
    if name == super::host::NAME {
        return super::host::machine(changes);
    }
    if !name.contains('/') && !name.ends_with(".toml") {
        return Machine::built_in(name, changes).map_err(user);
    }
    let text = fs::read_to_string(name)
        .map_err(|error| UserError::new(format!("cannot read the machine file {name}: {error}"), "check its path"))?;
    Machine::parse(name, &text, changes).map_err(user)
}

/// The ids of the locks that can be simulated: those of the catalogue, not glibc's.
pub(super) fn simulated(role: Role) -> impl Iterator<Item = &'static str> {
    registry::ENTRIES
        .iter()
        .filter(move |entry| entry.role == role && !entry.path.is_empty())
        .map(|entry| entry.info.id)
}

impl Plan {
    /// The plan that the arguments ask for.
    pub fn new(args: &SimArgs) -> Result<Self, UserError> {
        let (of_machine, own): (Vec<_>, Vec<_>) = args.set.iter().cloned().partition(|(key, _)| is_the_machines(key));
        let machine = machine(&args.machine, &of_machine)?;
        let Some(mut workload) = Workload::named(&args.workload) else {
            let remedy = format!("use one of: {}", Workload::NAMES.join(", "));
            return Err(UserError::new(format!("there is no workload '{}'", args.workload), remedy).with_status(USAGE));
        };
        for (key, value) in &own {
            workload.set(key, value).map_err(user)?;
        }
        let role = if workload.wants_rwlocks() { Role::RwLock } else { Role::Mutex };
        let mut locks = args.locks.clone();
        if role == Role::RwLock && args.locks == SimArgs::DEFAULT_LOCKS {
            locks = simulated(role).map(str::to_owned).collect();
        }
        for lock in &locks {
            if !simulated(role).any(|id| id == lock) {
                let what = format!("there is no {} lock '{lock}' to simulate", role.name());
                let remedy = format!("use one of: {}", simulated(role).collect::<Vec<_>>().join(", "));
                return Err(UserError::new(what, remedy).with_status(USAGE));
            }
        }
        let mut threads = args.threads.clone();
        if threads.is_empty() {
            let cpus = machine.cpu_count() as u32;
            threads = (0..12).map(|n| 1 << n).take_while(|n| *n < cpus).chain([cpus]).collect();
        }
        let seeds = (args.seed..).take(args.seeds as usize).collect();
        let (name, duration, settings) = (args.workload.clone(), args.duration, args.set.clone());
        Ok(Plan { machine, name, workload, locks, threads, duration, seeds, settings })
    }

    /// The runs, by lock, number of threads and seed.
    pub fn jobs(&self) -> Vec<Job<'_>> {
        let mut jobs = Vec::new();
        for lock in &self.locks {
            for threads in &self.threads {
                for seed in &self.seeds {
                    let workload = self.workload.clone().with(*threads as usize, self.duration);
                    jobs.push(Job { machine: &self.machine, workload, lock, seed: *seed });
                }
            }
        }
        jobs
    }
}
