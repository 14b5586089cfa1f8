//! `lockswap bench`: what locks do on this machine, each next to glibc's, in one interleaved run.
//!
//! Each number comes from a fresh process of this very program (`job`), started on one lock after the other, round by
//! round, so that a change of the machine's state hits all locks alike. A ratio is the median over the rounds of the lock's
//! number divided by the baseline's number of the same round.

mod direct;
mod epochs;
pub mod job;
mod micro;
mod ncs;
mod numbers;
mod oversub;
mod readers;
mod series;
mod simulator;
mod throughput;

use lockswap_study::stats::Quartiles;

use crate::error::UserError;
use lockswap_study::export::OutputFile;
use lockswap_study::runner::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `lockswap bench`.
#[derive(clap::Args)]
#[command(after_help = "\
Without a part, uncontended and contended are measured. What each workload does, and what its
numbers mean, is in docs/workloads.md. A ratio is the median over the rounds of a lock's number
divided by the baseline's in the same round.

Examples:
  lockswap bench
  lockswap bench contended --lock futex,mcs_stp --runs 21
  lockswap bench oversub --threads 32
  lockswap bench direct --export-json direct.json
  lockswap bench kv --lock mcs_spin,cna --threads 1,2,4 --set keys=4096
  lockswap bench ncs --ncs 1us,10us,100us
  lockswap bench epochs --little 1:3 --lock asl --slo 50us,100us,200us
  lockswap bench readers --rwlock rw-futex,bravo --reads 50,99")]
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
    #[arg(long, value_name = "ID,ID,...", value_delimiter = ',', conflicts_with = "all", global = true)]
    lock: Vec<String>,
    /// Measure every lock
    #[arg(long, global = true)]
    all: bool,
    /// Runs of each lock and setting, interleaved [default: 7, or 5 for kv, counter, ncs, epochs and readers]
    #[arg(long, alias = "rounds", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), global = true)]
    runs: Option<u32>,
    /// Show the project's own targets, too, and which are missed: for those who work on lockswap
    #[arg(long, hide = true, global = true)]
    targets: bool,
    /// Write all results to this file as JSON, again after every measurement or round
    #[arg(long, value_name = "FILE", global = true)]
    export_json: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum What {
    /// One thread: lock and unlock of each kind of object, memory per mutex
    Uncontended,
    /// Two threads: competing for a mutex, waking each other
    Contended,
    /// More threads than CPUs on one mutex or rwlock: speed, and the longest wait
    Oversub(oversub::OversubArgs),
    /// The pthread functions on a lock next to the same lock called directly: the price of interposition
    Direct,
    /// Threads that count under one lock
    Counter(throughput::CounterArgs),
    /// A key-value map, an AVL tree, under one lock (CNA paper, section 7.1.1)
    Kv(throughput::KvArgs),
    /// Hand-over and contention time over a timed non-critical section (RON paper, figures 5 to 8)
    Ncs(ncs::NcsArgs),
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
    /// Readers and writers of one read-write lock
    Readers(readers::ReadersArgs),
    /// The speed of `lockswap sim` on this machine
    Simulator,
}

/// Runs `lockswap bench`.
pub fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    let common = args.common;
    match args.what {
        None => micro::run(&common, micro::Part::Both),
        Some(What::Uncontended) => micro::run(&common, micro::Part::Uncontended),
        Some(What::Contended) => micro::run(&common, micro::Part::Contended),
        Some(What::Direct) => direct::run(&common),
        Some(What::Oversub(args)) => oversub::run(&args, &common),
        Some(What::Counter(args)) => throughput::counter(&args, &common),
        Some(What::Kv(args)) => throughput::kv(&args, &common),
        Some(What::Ncs(args)) => ncs::run(&args, &common),
        Some(What::Epochs(args)) => epochs::run(args, 1, &common),
        Some(What::EpochsVariable(args)) => epochs::run(args, 2, &common),
        Some(What::EpochsMixed(args)) => epochs::run(args, 3, &common),
        Some(What::EpochsScalability(args)) => epochs::run(args, 4, &common),
        Some(What::EpochsContention(args)) => epochs::run(args, 5, &common),
        Some(What::EpochsOversub(args)) => epochs::run(args, 6, &common),
        Some(What::Readers(args)) => readers::run(&args, &common),
        Some(What::Simulator) if common.all || !common.lock.is_empty() => {
            Err(series::misuse("bench simulator has locks of its own", "leave --lock and --all out"))
        }
        Some(What::Simulator) => simulator::run(&common),
    }
}

/// The file to export to, checked before anything is measured; and the library, whose unpacking may fail.
fn prepare(common: &Common) -> anyhow::Result<Option<OutputFile>> {
    let prepare = |path: &PathBuf| {
        OutputFile::prepare(path).map_err(|error| {
            let what = format!("cannot write {}: {error}", path.display());
            UserError::new(what, "name a file in a folder that you can write to; nothing was measured")
        })
    };
    let file = common.export_json.as_ref().map(prepare).transpose()?;
    crate::library::unpack()?;
    Ok(file)
}

/// Catches what ends a series early.
fn interrupt() -> std::io::Result<Interrupt> {
    Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])
}

/// Says that there is less than was asked for; the exit status.
pub(crate) fn interrupted(signal: i32) -> ExitCode {
    // Stderr may be closed.
    let _ = writeln!(std::io::stderr(), "interrupted: the table shows what was measured until then");
    ExitCode::from(128u8.wrapping_add(signal as u8))
}

fn busy(load: f64) -> String {
    format!("note: the machine was busy before (load average {load:.1}); an idle one gives clearer results\n")
}
