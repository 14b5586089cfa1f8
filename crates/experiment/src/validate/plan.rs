//! What is to be compared, checked before anything runs.

use lockswap_locks::named;
use lockswap_locks::registry::{Role, ENTRIES};
use lockswap_platform::Ns;
use lockswap_sim::host::Found;
use lockswap_sim::{Job, Machine};
use lockswap_workloads::invalid::Invalid;
use lockswap_workloads::record::Detail;
use lockswap_workloads::workload::Workload;

use crate::host::{Host, NAME};
use crate::simulated::plan::{doubling, Settings};

/// Locks of all families, the well-known ones.
const MUTEXES: [&str; 12] = [
    "ttas",
    "backoff",
    "ticket",
    "twa",
    "futex",
    "mcs_spin",
    "mcs_stp-barging",
    "clh_spin",
    "k42",
    "hemlock",
    "cna",
    "shfllock",
];

/// A workload with so many threads, on these locks.
pub struct Case {
    /// As it was given.
    pub name: String,
    /// What it does.
    pub workload: Workload,
    /// How many threads.
    pub threads: u32,
    /// The locks, perhaps with parameters.
    pub locks: Vec<String>,
}

impl Case {
    /// What a run of this length is: nothing is noted but counts, on hardware as in the simulation.
    pub fn run(&self, duration: Ns) -> Workload {
        self.workload.clone().noting(self.threads as usize, duration, Detail::Counts)
    }

    /// It in words.
    pub fn title(&self) -> String {
        format!("{}, {} thread{}", self.name, self.threads, if self.threads == 1 { "" } else { "s" })
    }
}

/// Where threads share CPUs, runs are no shorter than this: many slices, and waits that nap.
const SHARING: Ns = 200_000_000;

/// Everything that is to be compared.
pub struct Plan {
    /// The workloads, each with several numbers of threads.
    pub cases: Vec<Case>,
    /// What is simulated; `None` until it is measured.
    pub machine: Option<Machine>,
    /// The file of a machine that was measured meanwhile.
    pub probed: Option<String>,
    /// Where threads are pinned.
    pub seats: Vec<usize>,
    /// How many rounds on hardware are to count.
    pub rounds: u32,
    /// Measured time of a run on hardware.
    pub duration: Ns,
    /// Measured virtual time of a simulated run.
    pub simulated: Ns,
    /// The seed of the simulation.
    pub seed: u64,
    /// What is changed of the machine.
    pub settings: Settings,
}

/// What is wanted; what is empty or `None` is chosen to suit the rest.
pub struct Wanted {
    /// Workloads, see [`workload`], and how they were written.
    pub workloads: Vec<(String, Workload)>,
    /// Locks of any role, perhaps with parameters.
    pub locks: Vec<String>,
    /// All locks.
    pub all: bool,
    /// The numbers of threads.
    pub threads: Vec<u32>,
    /// How many rounds on hardware are to count.
    pub rounds: u32,
    /// Measured time of a run on hardware.
    pub duration: Ns,
    /// Measured virtual time of a simulated run.
    pub simulated: Ns,
    /// The seed of the simulation.
    pub seed: u64,
    /// What to simulate; `None` is the machine that this runs on, as it is then probed.
    pub machine: Option<Machine>,
    /// What to change of the machine.
    pub settings: Settings,
}

/// The ids of the locks that can be called directly: those of the catalogue, not glibc's.
pub fn callable(role: Role) -> impl Iterator<Item = &'static str> {
    ENTRIES.iter().filter(move |entry| entry.role == role && !entry.path.is_empty()).map(|entry| entry.info.id)
}

/// Whether `lock` names one of those, with parameters or without.
pub fn is_callable(role: Role, lock: &str) -> bool {
    named::read(role, lock).is_ok_and(|named| !named.entry.path.is_empty())
}

/// Reads `NAME:KEY=VALUE:KEY=VALUE`.
///
/// # Errors
/// There is no such workload, key or value.
pub fn workload(text: &str) -> Result<Workload, Invalid> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let takes_several = |name: &&str| matches!(Workload::named(name), Ok(Workload::Epochs(_) | Workload::Calls(_)));
    let known = || Workload::names().filter(|name| !takes_several(name));
    if !known().any(|known| known == name) {
        return Err(Invalid::unknown(format!("there is no workload '{name}' to validate"), name, known()));
    }
    let mut found = Workload::named(name)?;
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(|| {
            Invalid::new(
                format!("cannot read '{part}' in the workload '{text}'"),
                "write NAME:KEY=VALUE, as in ncs:ncs=1000",
            )
        })?;
        found.set(key, value)?;
    }
    Ok(found)
}

impl Plan {
    /// The plan for what is wanted on this machine.
    ///
    /// # Errors
    /// A workload would have fewer than two locks to compare.
    pub fn new(wanted: Wanted, host: &Host) -> Result<Self, Invalid> {
        let cpus = host.shape().cpus().len() as u32;
        let threads = if wanted.threads.is_empty() { doubling(cpus) } else { wanted.threads };
        let mut cases = Vec::new();
        for (text, workload) in wanted.workloads {
            let role = workload.role();
            let of_role = |lock: &&String| is_callable(role, lock);
            let locks: Vec<String> = match (wanted.all || role == Role::RwLock, wanted.locks.is_empty()) {
                (_, false) => wanted.locks.iter().filter(of_role).cloned().collect(),
                (true, _) => callable(role).map(str::to_owned).collect(),
                (false, _) => MUTEXES.map(str::to_owned).into(),
            };
            if locks.len() < 2 {
                let what = format!("the workload '{text}' has fewer than two {} locks to compare", role.name());
                let known: Vec<&str> = callable(role).collect();
                return Err(Invalid::new(what, format!("use some of: {}", known.join(", "))));
            }
            for &threads in &threads {
                let (name, locks) = (text.clone(), locks.clone());
                cases.push(Case { name, workload: workload.clone(), threads, locks });
            }
        }
        let Wanted { machine, rounds, duration, simulated, seed, settings, .. } = wanted;
        let seats = host.shape().cpus();
        let mut plan = Plan { cases, machine, probed: None, seats, rounds, duration, simulated, seed, settings };
        plan.place(host)?;
        Ok(plan)
    }

    /// How long a run of a case is where it would be `wanted` long.
    pub fn length(&self, case: &Case, wanted: Ns) -> Ns {
        if case.threads as usize > self.seats.len() {
            wanted.max(SHARING)
        } else {
            wanted
        }
    }

    /// A simulated run, of a map with `steps` inside.
    pub fn job<'a>(&self, machine: &'a Machine, case: &Case, lock: &'a str, steps: u64) -> Job<'a> {
        let mut workload = case.run(self.length(case, self.simulated));
        if let Workload::Kv(config) = &mut workload {
            config.inside += steps;
        }
        Job { machine, workload, lock, seed: self.seed }
    }

    /// Simulates the machine of this file.
    ///
    /// # Errors
    /// The settings do not fit it.
    pub fn simulate(&mut self, text: String) -> Result<(), Invalid> {
        self.machine = Some(Machine::parse(NAME, &text, &self.settings)?);
        self.probed = Some(text);
        Ok(())
    }

    /// Pins thread i where the simulated thread i starts, if the machines have equally many CPUs; else in their order.
    fn place(&mut self, host: &Host) -> Result<(), Invalid> {
        let cpus = host.shape().cpus();
        let own;
        let machine = match &self.machine {
            Some(machine) => machine,
            None => {
                // Nothing has been measured yet, but the CPUs lie as they lie.
                own = Machine::parse(NAME, &host.file(&Found::default())?, &self.settings)?;
                &own
            }
        };
        if machine.cpu_count() == cpus.len() {
            self.seats = machine.placement().iter().map(|cpu| cpus[*cpu as usize]).collect();
        }
        Ok(())
    }

    /// The latency between the nearest cores that the file of a machine that was measured meanwhile says, ns.
    pub fn nearest_told(&self) -> Option<f64> {
        let file: toml::Table = self.probed.as_ref()?.parse().ok()?;
        let cluster = file.get("latency")?.get("cluster")?.as_table()?.values().next()?;
        cluster.as_float().or_else(|| cluster.as_integer().map(|ns| ns as f64))
    }

    /// How long it takes, in words.
    pub fn estimate(&self) -> String {
        // Starting a process, and simulating on all CPUs: as seen here.
        const START_NS: f64 = 8e6;
        const SIMULATED_TO_VIRTUAL: f64 = 30.0;
        const PASS_NS: f64 = 0.5e9;
        let locks = |case: &Case| case.locks.len() as f64;
        let runs: f64 = self.cases.iter().map(locks).sum();
        let simulated = |case: &Case| locks(case) * f64::from(case.threads) * self.length(case, self.simulated) as f64;
        let measured = |case: &Case| locks(case) * (1.1 * self.length(case, self.duration) as f64 + START_NS);
        let simulated = self.cases.iter().map(simulated).sum::<f64>() * SIMULATED_TO_VIRTUAL / self.seats.len() as f64;
        let hardware = f64::from(self.rounds) * (self.cases.iter().map(measured).sum::<f64>() + PASS_NS);
        match (simulated + hardware) / 1e9 {
            s if s < 90.0 => {
                format!("{:.0} s: {runs} simulated runs, {} on hardware", s.max(1.0), runs * f64::from(self.rounds))
            }
            s => format!("{:.0} min: {runs} simulated runs, {} on hardware", s / 60.0, runs * f64::from(self.rounds)),
        }
    }
}
