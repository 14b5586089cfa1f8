//! `lockswap bench epochs`: the micro-benchmarks of the LibASL paper (PPoPP 2022, section 4.1).

use super::workloads::Bench;
use super::{locks, misuse, percent, Common, Options};
use crate::duration::with_unit;
use lockswap_experiment::hardware::epochs::{page, Kind, Plan};
use lockswap_experiment::hardware::series::Series;
use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_workloads::report::Report;
use lockswap_workloads::workload::Workload;
use std::io::{self, Write};
use std::process::ExitCode;

/// Arguments of `lockswap bench epochs`.
#[derive(clap::Args)]
#[command(after_help = "\
Threads are pinned. An epoch takes 4 locks in turn and increments 64 lines of memory. Locks of the
LibASL family (asl...) are measured once with their largest reorder window, without targets (SLO:
max), and once for each --slo, with epochs that are annotated through the Rust library; auto the
same, where without targets nobody stands back; other locks once. The first lock is the baseline.

On a machine whose CPUs are alike, --little says which ones do FACTOR times the work; LOCKSWAP_BIG
is set accordingly. Where fewer than 4 CPUs are big, fewer threads want the lock: then there is one
lock instead of 2 and no pause between epochs, so that contention is as heavy as in the paper.

  epochs              the epochs as they are (bench 1 of the paper)
  epochs-variable     lengths that change in the run (bench 2)
  epochs-mixed        short ones, and 100 times longer (bench 3)
  epochs-scalability  1, 2, ... threads; one lock, 64 lines, 33 steps between (bench 4)
  epochs-contention   several pauses; one lock, 2 lines (bench 5)
  epochs-oversub      two threads per CPU (bench 6)

Examples:
  lockswap bench epochs --little 1:3 --lock asl --slo 50us,100us,200us,500us
  lockswap bench epochs-mixed --little 1:3 --long 0,20,80 --export mixed.json
  lockswap bench epochs --little 2-3:2.5 --lock asl,shfl-pb10,pthread --slo 1ms")]
pub struct EpochsArgs {
    /// Old spelling of the names epochs, epochs-variable and so on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6), hide = true)]
    bench: Option<u8>,
    /// Latency targets [default: 20us,50us,100us,200us; variable and mixed: 100us; scalability: 0,12us; contention:
    /// none; oversub: 500us,1ms,5ms]
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = with_unit)]
    slo: Vec<Ns>,
    /// Fixed reorder windows to measure besides, without targets; the paper's LibASL-OPT has the best one
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = with_unit)]
    window: Vec<Ns>,
    /// Numbers of threads [default: one per CPU; scalability: 1 and upwards; oversub: two per CPU]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: Vec<u32>,
    /// How many locks the epochs take: section i takes lock i modulo their number [default: 2, or 1 with fewer than 4
    /// big CPUs]
    #[arg(long, alias = "locks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    lock_count: Option<u32>,
    /// Lines that each critical section of an epoch increments [default: 4,10,20,30; scalability: 64; contention: 2]
    #[arg(long, value_name = "LINES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sections: Vec<u32>,
    /// Steps computed inside for each line; a step is six instructions of one cycle [default: 0; with --little: 20,
    /// or 2 for mixed]
    #[arg(long, value_name = "STEPS")]
    inside: Option<u64>,
    /// Steps computed between two epochs [default: 1600, scalability: 33, or 0 with fewer than 4 big CPUs;
    /// contention: 0,10,100,1000,10000]
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    between: Vec<u64>,
    /// Shares of long epochs, percent, for mixed [default: 0,20,40,60,80,100]
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = percent)]
    long: Vec<u32>,
    #[command(flatten)]
    options: Options,
}

impl EpochsArgs {
    fn plan(&self, kind: Kind) -> Plan {
        let whole = |numbers: &[u32]| numbers.iter().map(|&n| n as usize).collect();
        Plan {
            kind,
            slo: self.slo.clone(),
            window: self.window.clone(),
            threads: whole(&self.threads),
            locks: self.lock_count.map(|n| n as usize),
            sections: whole(&self.sections),
            inside: self.inside,
            between: self.between.clone(),
            long: self.long.clone(),
            has_little: self.options.little.is_some(),
            duration: self.options.duration,
        }
    }
}

/// Runs this benchmark, or the one that the arguments name.
pub fn run(args: &EpochsArgs, kind: Kind, common: &Common) -> anyhow::Result<ExitCode> {
    let named = args.bench.map(|number| Kind::ALL[usize::from(number) - 1]);
    if let Some(named) = named {
        if kind != Kind::Constant && kind != named {
            return Err(misuse(
                format!("--bench says {}, and the name {}", named.name(), kind.name()),
                "leave --bench out",
            ));
        }
        // Stderr may be closed.
        let _ = writeln!(io::stderr(), "note: --bench is now written bench {}", named.name());
    }
    let kind = named.unwrap_or(kind);
    if !args.long.is_empty() && kind != Kind::Mixed {
        return Err(misuse("--long is for short and long epochs", "write epochs-mixed --long PERCENT"));
    }
    let plan = args.plan(kind);
    let (baselines, standard) = plan.locks();
    let locks = locks(Role::Mutex, &common.lock, baselines, if common.all { &[] } else { standard })?;
    let seats = args.options.seats(true)?;
    let is_alike = seats.iter().all(|seat| seat.pace == 1.0);
    let settings = args.options.settle(plan.configs(&seats).into_iter().map(Workload::Epochs))?;
    let series = Series::new(plan.groups(&settings, &locks), common.seed, seats);
    let page = |series: &Series<Report>| page::page(series, is_alike);
    Bench { name: kind.name(), rounds: 5, baseline: baselines[0], page: &page }.run(common, series, &args.options)
}
