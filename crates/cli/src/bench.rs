//! `lockswap bench`: what locks do on this machine, each next to glibc's, in rounds of random order.
//!
//! Each number comes from a fresh process of this very program. What is measured and how it is compared is in
//! `lockswap_experiment::hardware`, and so are the tables; here are the arguments and the calls.

mod epochs;
mod kernel;
mod profile;
mod regret;
mod session;
mod simulator;
mod single;
mod trace;
mod workloads;

use crate::duration;
use crate::error::{UserError, USAGE};
use crate::outputs::OutputArgs;
use crate::selection::{self, Selection, INTERPOSED, PLAIN};
use crate::setting::pair;
use lockswap_experiment::hardware::child::Environment;
use lockswap_experiment::hardware::epochs::Kind;
use lockswap_experiment::hardware::single::Part;
use lockswap_locks::registry::{self, Role};
use lockswap_platform::Ns;
use lockswap_workloads::crew::Timing;
use lockswap_workloads::hardware::Seat;
use lockswap_workloads::little::Little;
use lockswap_workloads::shares as sharing;
use lockswap_workloads::sweep::sweep;
use lockswap_workloads::{affinity, workload::Workload};
use std::process::ExitCode;

/// Arguments of `lockswap bench`.
#[derive(clap::Args)]
#[command(after_help = "\
Without a part, uncontended and contended are measured. What each workload does, and what its
numbers mean, is in docs/workloads.md. A ratio says how many times as fast as glibc a lock is,
above 1 is better, with its 95 % interval over paired rounds; verdicts are those of `lockswap
compare`: docs/statistics.md.

Examples:
  lockswap bench
  lockswap bench contended --lock futex,mcs_stp --runs 21
  lockswap bench oversub --threads 32 --export oversub.svg
  lockswap bench direct --export direct.json --export direct.md
  lockswap bench kv --lock mcs_spin,cna --threads 1,2,4 --set keys=1024,65536
  lockswap bench ncs --ncs 1us,10us,100us --format csv
  lockswap bench epochs --little 1:3 --lock asl --slo 50us,100us,200us
  lockswap bench shares --lock u-scl,futex --set lengths=10us,1us
  lockswap bench readers --rwlock rw-futex,bravo --reads 50,99
  lockswap bench regret --lock shfllock-b --export regret.png
  lockswap run --lock mcs_stp -- lockswap bench kernel raytrace --threads 4")]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    common: Common,
}

/// Options of every part.
#[derive(clap::Args, Clone, Debug, Default)]
struct Common {
    /// Mutex locks to measure, besides the baselines
    #[arg(short = 'l', long, value_name = "ID,ID,...", value_delimiter = ',', conflicts_with = "all", global = true)]
    lock: Vec<String>,
    /// Measure every lock
    #[arg(long, global = true)]
    all: bool,
    /// Runs of each lock and setting, in rounds of random order [default: 5 to 7, more where it takes more for a
    /// verdict]
    #[arg(short = 'r', long, alias = "rounds", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), global = true)]
    runs: Option<u32>,
    /// Seed of the order, and of the threads' random numbers in the first round; the next rounds have the next seeds
    #[arg(long, value_name = "N", default_value_t = 1, global = true)]
    seed: u64,
    /// Show the project's own targets, too, and which are missed: for those who work on lockswap
    #[arg(long, hide = true, global = true)]
    targets: bool,
    #[command(flatten)]
    outputs: OutputArgs,
}

#[derive(clap::Subcommand)]
enum What {
    /// One thread: lock and unlock of each kind of object, memory per mutex
    Uncontended,
    /// Two threads: competing for a mutex, waking each other
    Contended,
    /// More threads than CPUs on one mutex or rwlock: speed, and the longest wait
    Oversub(workloads::OversubArgs),
    /// The pthread functions on a lock next to the same lock called directly: the price of interposition
    Direct,
    /// The pthread functions on a lock next to the same lock while it is traced: the price of lockswap trace
    Trace,
    /// One lock for all mutexes next to the same lock by a profile of two: the price of lockswap run --profile
    Profile,
    /// Threads that count under one lock
    Counter(workloads::CounterArgs),
    /// A key-value map, an AVL tree, under one lock (CNA paper, section 7.1.1)
    Kv(workloads::KvArgs),
    /// Hand-over and contention time over a timed non-critical section (RON paper, figures 5 to 8)
    Ncs(workloads::NcsArgs),
    /// Epochs of critical sections with latency targets, on big and little CPUs (LibASL paper, section 4.1)
    Epochs(epochs::EpochsArgs),
    /// Epochs whose lengths change in the run (bench 2 of the LibASL paper)
    EpochsVariable(epochs::EpochsArgs),
    /// Short epochs and long ones (bench 3)
    EpochsMixed(epochs::EpochsArgs),
    /// Epochs on 1, 2, ... threads (bench 4)
    EpochsScalability(epochs::EpochsArgs),
    /// Epochs with pauses of several lengths (bench 5)
    EpochsContention(epochs::EpochsArgs),
    /// Epochs of two threads per CPU (bench 6)
    EpochsOversub(epochs::EpochsArgs),
    /// Who gets how much of a lock's time if critical sections differ (u-SCL paper's toy example)
    Shares(workloads::SharesArgs),
    /// Writers with long critical sections and readers with short ones, as in a key-value store
    SharesStore(workloads::SharesArgs),
    /// Threads that take the lock some times in a row, then stay away for long
    Bursts(workloads::BurstsArgs),
    /// Threads whose critical sections change in length during the run
    Phases(workloads::PhasesArgs),
    /// Readers and writers of one read-write lock
    Readers(workloads::ReadersArgs),
    /// How far a lock stays behind the best one in each of many settings, with real programs among them
    Regret(regret::RegretArgs),
    /// A program in small on the mutexes that it finds: for studies, and for `lockswap compare`
    Kernel(kernel::KernelArgs),
    /// The speed of `lockswap sim` on this machine
    Simulator,
}

/// Runs `lockswap bench`.
pub fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    let common = &args.common;
    match args.what {
        None => single::run(common, Part::Both),
        Some(What::Uncontended) => single::run(common, Part::Uncontended),
        Some(What::Contended) => single::run(common, Part::Contended),
        Some(What::Direct) => single::run(common, Part::Direct),
        Some(What::Trace) => trace::run(common),
        Some(What::Profile) => profile::run(common),
        Some(What::Oversub(args)) => workloads::oversub(&args, common),
        Some(What::Counter(args)) => workloads::counter(&args, common),
        Some(What::Kv(args)) => workloads::kv(&args, common),
        Some(What::Ncs(args)) => workloads::ncs(&args, common),
        Some(What::Epochs(args)) => epochs::run(&args, Kind::Constant, common),
        Some(What::EpochsVariable(args)) => epochs::run(&args, Kind::Variable, common),
        Some(What::EpochsMixed(args)) => epochs::run(&args, Kind::Mixed, common),
        Some(What::EpochsScalability(args)) => epochs::run(&args, Kind::Scalability, common),
        Some(What::EpochsContention(args)) => epochs::run(&args, Kind::Contention, common),
        Some(What::EpochsOversub(args)) => epochs::run(&args, Kind::Oversub, common),
        Some(What::Shares(args)) => workloads::shares(&args, "shares", sharing::Config::toy, common),
        Some(What::SharesStore(args)) => workloads::shares(&args, "shares-store", sharing::Config::store, common),
        Some(What::Bursts(args)) => workloads::bursts(&args, common),
        Some(What::Phases(args)) => workloads::phases(&args, common),
        Some(What::Regret(args)) => regret::run(&args, common),
        Some(What::Readers(args)) => workloads::readers(&args, common),
        Some(What::Kernel(args)) => kernel::run_one(&args, common),
        Some(What::Simulator) if common.all || !common.lock.is_empty() => {
            Err(misuse("bench simulator has locks of its own", "leave --lock and --all out"))
        }
        Some(What::Simulator) => simulator::run(common),
    }
}

/// Options that all workloads have.
#[derive(clap::Args, Clone, Debug, Default)]
struct Options {
    /// Measured time of each run [default: 500ms]
    #[arg(long, value_name = "TIME", value_parser = duration::run)]
    duration: Option<Ns>,
    /// Pin thread i to the i-th CPU that this process may use, and again from the first
    #[arg(long)]
    pin: bool,
    /// Let the code on these CPUs do FACTOR times the work, with threads pinned, and call them little: 1:3, 2-3:2.5
    #[arg(long, value_name = "CPUS:FACTOR")]
    little: Option<Little>,
    /// Other values for a parameter of the workload (docs/workloads.md; an unknown KEY gets the list), each of which
    /// is measured; repeatable
    #[arg(long, value_name = "KEY=VALUE,...", value_parser = pair)]
    set: Vec<(String, String)>,
}

impl Options {
    /// The settings with all combinations of what `--set` changes, each once.
    ///
    /// # Errors
    /// A parameter is out of its range.
    fn settle(&self, settings: impl IntoIterator<Item = Workload>) -> Result<Vec<Workload>, UserError> {
        let mut settled: Vec<Workload> = Vec::new();
        for workload in settings {
            for (_, workload) in sweep(&workload, &self.set).map_err(UserError::from)?.1 {
                workload.check().map_err(UserError::from)?;
                if !settled.contains(&workload) {
                    settled.push(workload);
                }
            }
        }
        Ok(settled)
    }

    /// Where threads are pinned; `always`: also where nobody asked for it.
    fn seats(&self, always: bool) -> Result<Vec<Seat>, UserError> {
        match &self.little {
            Some(little) => Ok(little.seats()?),
            None if self.pin || always => {
                Ok(affinity::allowed().into_iter().map(|cpu| Seat { cpu, pace: 1.0 }).collect())
            }
            None => Ok(Vec::new()),
        }
    }

    /// How long a run is, where nothing else is said.
    fn timing(&self, standard: Timing) -> Timing {
        self.duration.map_or(standard, Timing::lasting)
    }
}

/// The numbers of threads that are asked for, or one per CPU that this process may use, at least 2.
fn threads(given: &[u32]) -> Vec<usize> {
    match given {
        [] => vec![affinity::allowed().len().max(2)],
        given => given.iter().map(|&n| n as usize).collect(),
    }
}

/// The locks to measure: the `baselines`, then those that are `wanted`, or else the `standard` ones; all where there
/// are none.
fn locks(role: Role, wanted: &[String], baselines: &[&str], standard: &[&str]) -> Result<Vec<String>, UserError> {
    let chosen: Vec<&str> = match (wanted.is_empty(), standard.is_empty()) {
        (false, _) => wanted.iter().map(String::as_str).collect(),
        (true, false) => standard.to_vec(),
        (true, true) => registry::ids(role).collect(),
    };
    let chosen = selection::all_named(role, chosen)?.into_iter().filter(|lock| !baselines.contains(&lock.as_str()));
    Ok(baselines.iter().copied().map(str::to_owned).chain(chosen).collect())
}

/// Variables of our own environment that must not change what is measured.
const STRAY: [&str; 7] = [
    "LOCKSWAP_STATS",
    "LOCKSWAP_LATENCIES",
    "LOCKSWAP_SLO",
    "LOCKSWAP_ONLY",
    "LOCKSWAP_TRACE",
    "LOCKSWAP_WHATIF",
    "LOCKSWAP_PROFILE",
];

/// What puts a process on `lock`; the interposed baseline, and what plays no role, stay glibc's.
fn environment(role: Role, lock: &str) -> Result<Environment, UserError> {
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

/// Refuses a percentage over 100.
fn percent(text: &str) -> Result<u32, String> {
    text.parse().ok().filter(|&n| n <= 100).ok_or_else(|| "give a percentage, 0 to 100".to_owned())
}

/// A wrong use of options, with its remedy.
fn misuse(what: impl Into<String>, remedy: &str) -> anyhow::Error {
    UserError::new(what, remedy).with_status(USAGE).into()
}
