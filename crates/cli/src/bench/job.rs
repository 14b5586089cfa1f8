//! What a measuring process does: a child of this very program, so that it can run on another lock.

use crate::error::UserError;
use crate::hidden;
use crate::selection::{Selection, INTERPOSED, PLAIN};
use crate::terminal;
use anyhow::Context;
use lockswap_locks::registry::Role;
use lockswap_machine as machine;
use lockswap_machine::places::find;
use lockswap_machine::topology::Group;
use lockswap_platform::{set_place, Native, Ns};
use lockswap_workloads::crew::{Place, Timing};
use lockswap_workloads::epochs::Annotate;
use lockswap_workloads::hardware::{Hardware, Seat};
use lockswap_workloads::micro::{self, Effort, Group as MicroGroup};
use lockswap_workloads::pthread::{Kind, Mutex, RwLock};
use lockswap_workloads::workload::Workload;
use lockswap_workloads::{affinity, counter, epochs, kv, ncs, price, readers};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Far more than a measurement takes beyond its own time: a process still running then hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A change of the environment; `None` removes a variable.
pub type Environment = Vec<(OsString, Option<OsString>)>;

/// What to measure.
#[derive(Clone, Debug, Serialize, Deserialize)]
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
}

impl Work {
    fn timing(&self) -> Timing {
        match self {
            Work::Micro { .. } | Work::Price { .. } => Timing::lasting(0),
            Work::Workload(workload) => workload.timing(),
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

/// Variables of our own environment that must not change what is measured.
const STRAY: [&str; 4] = ["LOCKSWAP_STATS", "LOCKSWAP_LATENCIES", "LOCKSWAP_SLO", "LOCKSWAP_ONLY"];

/// What puts a process on `lock`; the interposed baseline, and what plays no role, stay glibc's.
pub fn environment(role: Role, lock: &str) -> Result<Environment, UserError> {
    let own = |id: &str| Some(id.to_owned());
    let selection = match role {
        // Every baseline measures glibc's rwlock, with the library loaded or not.
        Role::RwLock if lock == INTERPOSED => Selection { lock: own(INTERPOSED), rwlock: own(PLAIN), spin: own(PLAIN) },
        Role::RwLock => Selection { lock: own(PLAIN), rwlock: own(lock), spin: own(PLAIN) },
        _ => {
            let others = (lock == INTERPOSED).then(|| PLAIN.to_owned());
            Selection { lock: own(lock), rwlock: others.clone(), spin: others }
        }
    };
    let mut environment = selection.environment()?;
    environment.extend(STRAY.map(|name| (name.into(), None)));
    Ok(environment)
}

impl Job {
    /// Measures in a child that runs in `environment`; what it printed, which is JSON.
    pub fn run(&self, environment: &Environment) -> anyhow::Result<Vec<u8>> {
        let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
        command.arg(hidden::BENCH).arg(serde_json::to_string(self)?);
        for (name, value) in environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let timing = self.work.timing();
        answer(command, Duration::from_nanos(timing.warm_up + timing.duration))
    }
}

/// Runs a measuring process that takes about `time`; what it printed. One that takes much longer is stopped.
pub fn answer(mut command: Command, time: Duration) -> anyhow::Result<Vec<u8>> {
    command.env("RUST_BACKTRACE", "0"); // the message alone is reported
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().context("cannot start the measuring process")?;
    let limit = PATIENCE + 2 * time;
    let process = rustix::process::Pid::from_child(&child);
    let (done, outcome) = mpsc::channel();
    let waiter = std::thread::spawn(move || done.send(child.wait_with_output()));
    let output = match outcome.recv_timeout(limit) {
        Ok(output) => output.context("cannot read the measuring process"),
        Err(_) => {
            // Ends the waiter too; an error means that the process ended by itself just now.
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            Err(anyhow::anyhow!("still running after {} s, stopped", limit.as_secs()))
        }
    };
    // The waiter's send fails only after a time-out, which is reported already.
    let _ = waiter.join();
    let output = output?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let said = |line: &&str| !line.trim().is_empty() && !line.starts_with("note: run with");
        let last = errors.lines().rfind(said).unwrap_or("no message");
        anyhow::bail!("{}: {last}", output.status);
    }
    Ok(output.stdout)
}

/// The measuring process: does the job that `text` describes and prints one line of JSON.
pub fn measure(text: &str) -> anyhow::Result<ExitCode> {
    let Job { work, seats, seed } = serde_json::from_str(text).context("no job")?;
    let mutex = || Mutex::new(Kind::Normal);
    let crew = Hardware { seats, places: look_around()?, seed };
    let line = match work {
        Work::Micro { uncontended, contended } => {
            // The last CPU: the first one serves most interrupts.
            if let Some(&cpu) = affinity::allowed().last() {
                affinity::pin(&[cpu]).with_context(|| format!("cannot pin to CPU {cpu}"))?;
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
                Some(id) => price::direct(id, &kv, &effort).with_context(|| format!("no mutex lock '{id}'"))?,
                None => price::interposed(&kv, &effort),
            };
            serde_json::to_string(&BTreeMap::from(samples))
        }
        Work::Workload(workload) => serde_json::to_string(&match workload {
            Workload::Counter(config) => counter::run::<Native, _>(&config, &crew, &*mutex()),
            Workload::Kv(config) => kv::run::<Native, _>(&config, &crew, &*mutex()),
            Workload::Ncs(config) => ncs::run::<Native, _>(&config, &crew, &*mutex()),
            Workload::Epochs(config) => {
                epochs::run::<Native, Mutex>(&config, &crew, &Mutex::array(config.locks), &Preloaded)
            }
            Workload::Readers(config) => readers::run::<Native, _>(&config, &crew, &*RwLock::new()),
        }),
    };
    terminal::print(&format!("{}\n", line?))?;
    Ok(ExitCode::SUCCESS)
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

/// Tells this process what the preload library finds out by itself, which CPUs are near each other and which are little;
/// where the CPUs lie, by number: nothing where the machine does not tell.
pub fn look_around() -> anyhow::Result<Vec<Place>> {
    let settings = machine::settings()?;
    let Ok(folder) = lockswap_machine::open(&machine::root()) else { return Ok(Vec::new()) };
    let mut topology = lockswap_machine::read(&folder, Some(&settings.allowed));
    settings.apply(&mut topology);
    let (level, _) = machine::judge(&folder, &mut topology, &settings);
    find(&topology, level, set_place);
    let Some(last) = topology.present().iter().last() else { return Ok(Vec::new()) };
    let of = |cpu: usize| {
        // A level that is not known has nobody else in it, but all CPUs are of one node then.
        let group = |group, unknown: usize| topology.group(group, cpu).unwrap_or(unknown) as u32;
        let apart = usize::MAX / 2 + cpu;
        Place { core: group(Group::Core, apart), llc: group(Group::Llc, apart), node: group(Group::Node, 0) }
    };
    Ok((0..=last).map(of).collect())
}
