//! What is to be compared, checked before anything runs.

use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_sim::host::Found;
use lockswap_sim::{Job, Machine};
use lockswap_workloads::invalid::Invalid;
use lockswap_workloads::record::Detail;
use lockswap_workloads::workload::Workload;
use lockswap_workloads::{counter, kv, ncs};

use super::ValidateArgs;
use crate::error::{UserError, USAGE};
use crate::selection::no_such_lock;
use crate::sim::host::{Host, NAME};
use crate::sim::plan::{find, machine, simulated};

/// Locks of all families, the well-known ones.
const MUTEXES: [&str; 12] = [
    "ttas", "backoff", "ticket", "twa", "futex", "mcs_spin", "mcs_stp", "clh_spin", "k42", "hemlock", "cna", "shfllock",
];

/// A workload with so many threads, on these locks.
pub struct Case {
    /// As it was given.
    pub name: String,
    pub workload: Workload,
    pub threads: u32,
    pub locks: Vec<String>,
}

impl Case {
    /// What a run of this length is: nothing is noted but counts, on hardware as in the simulation.
    pub fn run(&self, duration: Ns) -> Workload {
        let mut workload = self.workload.clone().with(self.threads as usize, duration);
        if let Workload::Counter(counter::Config { detail, .. })
        | Workload::Kv(kv::Config { detail, .. })
        | Workload::Ncs(ncs::Config { detail, .. }) = &mut workload
        {
            *detail = Detail::Counts;
        }
        workload
    }

    pub fn title(&self) -> String {
        format!("{}, {} thread{}", self.name, self.threads, if self.threads == 1 { "" } else { "s" })
    }
}

/// Where threads share CPUs, runs are no shorter than this: many slices, and waits that nap.
const SHARING: Ns = 200_000_000;

/// Everything that is to be compared.
pub struct Plan {
    pub cases: Vec<Case>,
    /// `None` until it is measured.
    pub machine: Option<Machine>,
    /// The file of a machine that was measured meanwhile.
    pub probed: Option<String>,
    /// Where threads are pinned.
    pub seats: Vec<usize>,
    pub rounds: u32,
    pub duration: Ns,
    pub simulated: Ns,
    pub seed: u64,
    pub settings: Vec<(String, String)>,
}

fn misuse(what: impl Into<String>, remedy: impl Into<String>) -> UserError {
    UserError::new(what, remedy).with_status(USAGE)
}

/// Reads `NAME:KEY=VALUE:KEY=VALUE`.
fn workload(text: &str) -> Result<Workload, UserError> {
    let mut parts = text.split(':');
    let name = parts.next().unwrap_or_default();
    let callable = || Workload::names().filter(|name| !name.starts_with("epochs"));
    if !callable().any(|known| known == name) {
        return Err(Invalid::unknown(format!("there is no workload '{name}' to validate"), name, callable()).into());
    }
    let mut found = Workload::named(name)?;
    for part in parts {
        let (key, value) = part.split_once('=').ok_or_else(|| {
            misuse(format!("cannot read '{part}' in the workload '{text}'"), "write NAME:KEY=VALUE, as in ncs:ncs=1000")
        })?;
        found.set(key, value)?;
    }
    Ok(found)
}

impl Plan {
    /// The plan that the arguments ask for.
    pub fn new(args: &ValidateArgs, host: &Host) -> Result<Self, UserError> {
        let cpus = host.shape().cpus().len() as u32;
        let mut threads = args.threads.clone();
        if threads.is_empty() {
            threads = (0..12).map(|n| 1 << n).take_while(|n| *n < cpus).chain([cpus]).collect();
        }
        let workloads = args.workloads.iter().map(|text| Ok((text, workload(text)?)));
        let workloads = workloads.collect::<Result<Vec<_>, UserError>>()?;
        let role_of = |workload: &Workload| if workload.wants_rwlocks() { Role::RwLock } else { Role::Mutex };
        let known: Vec<&str> = workloads.iter().flat_map(|(_, workload)| simulated(role_of(workload))).collect();
        let named = |lock: &String| {
            let mut roles = workloads.iter().map(|(_, workload)| role_of(workload));
            roles.find_map(|role| find(role, lock)).ok_or_else(|| {
                let what = format!("there is no lock '{lock}' for these workloads to simulate");
                no_such_lock(what, lock, known.iter().copied())
            })
        };
        let wanted = args.lock.iter().map(named).collect::<Result<Vec<&str>, _>>()?;
        let mut cases = Vec::new();
        for (text, workload) in workloads {
            let role = role_of(&workload);
            let all = || simulated(role).map(str::to_owned);
            let of_role = |lock: &&&str| simulated(role).any(|id| id == **lock);
            let locks: Vec<String> = match (args.all || role == Role::RwLock, wanted.is_empty()) {
                (_, false) => wanted.iter().filter(of_role).map(|lock| (*lock).to_owned()).collect(),
                (true, _) => all().collect(),
                (false, _) => MUTEXES.map(str::to_owned).into(),
            };
            if locks.len() < 2 {
                let what = format!("the workload '{text}' has fewer than two {} locks to compare", role.name());
                return Err(misuse(what, format!("use some of: {}", simulated(role).collect::<Vec<_>>().join(", "))));
            }
            for &threads in &threads {
                let (name, locks) = (text.clone(), locks.clone());
                cases.push(Case { name, workload: workload.clone(), threads, locks });
            }
        }
        let machine = args.machine.as_ref().map(|name| machine(name, &args.set)).transpose()?;
        let mut plan = Plan {
            cases,
            machine,
            probed: None,
            seats: host.shape().cpus(),
            rounds: args.runs,
            duration: args.duration,
            simulated: args.simulated,
            seed: args.seed,
            settings: args.set.clone(),
        };
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
    pub fn simulate(&mut self, text: String) -> Result<(), UserError> {
        self.machine = Some(Machine::parse(NAME, &text, &self.settings)?);
        self.probed = Some(text);
        Ok(())
    }

    /// Pins thread i where the simulated thread i starts, if the machines have equally many CPUs; else in their order.
    fn place(&mut self, host: &Host) -> Result<(), UserError> {
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
