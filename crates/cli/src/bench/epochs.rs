//! `lockswap bench epochs`: the micro-benchmarks of the LibASL paper (PPoPP 2022, section 4.1).

use super::workloads::Bench;
use super::{locks, misuse, percent, Common, Options};
use crate::duration::with_unit;
use lockswap_experiment::hardware::epochs::{page, Plan, NAMES};
use lockswap_experiment::hardware::series::Series;
use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_workloads::report::Report;
use lockswap_workloads::workload::Workload;
use std::process::ExitCode;

/// Arguments of `lockswap bench epochs`.
#[derive(clap::Args)]
#[command(after_help = "\
Threads are pinned. An epoch takes 4 locks in turn and increments 64 lines of memory. Locks of the
LibASL family (asl...) are measured once with their largest reorder window, without targets (SLO:
max), and once for each --slo, with epochs that are annotated through the Rust library; other locks
once. The first lock is the baseline.

On a machine whose CPUs are alike, --little says which ones do FACTOR times the work; LOCKSWAP_BIG
is set accordingly. Where fewer than 4 CPUs are big, fewer threads want the lock: then there is one
lock instead of 2 and no pause between epochs, so that contention is as heavy as in the paper.

--bench 1  epochs              the epochs as they are
        2  epochs-variable     lengths that change in the run
        3  epochs-mixed        short ones, and 100 times longer
        4  epochs-scalability  1, 2, ... threads; one lock, 64 lines, 33 steps between
        5  epochs-contention   several pauses; one lock, 2 lines
        6  epochs-oversub      two threads per CPU

Examples:
  lockswap bench epochs --little 1:3 --lock asl --slo 50us,100us,200us,500us
  lockswap bench epochs-mixed --little 1:3 --long 0,20,80 --export mixed.json
  lockswap bench epochs --little 2-3:2.5 --lock asl,shfl-pb10,pthread --slo 1ms")]
pub struct EpochsArgs {
    /// Benchmark of the paper, 1 to 6 [default: by the name: epochs is 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=6))]
    bench: Option<u8>,
    /// Latency targets [default: 20us,50us,100us,200us; bench 2 and 3: 100us; bench 4: 0,12us; bench 5: none;
    /// bench 6: 500us,1ms,5ms]
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = with_unit)]
    slo: Vec<Ns>,
    /// Fixed reorder windows to measure besides, without targets; the paper's LibASL-OPT has the best one
    #[arg(long, value_name = "TIME", value_delimiter = ',', value_parser = with_unit)]
    window: Vec<Ns>,
    /// Numbers of threads [default: one per CPU; bench 4: 1 and upwards; bench 6: two per CPU]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=10_000))]
    threads: Vec<u32>,
    /// How many locks the epochs take: section i takes lock i modulo their number [default: 2, or 1 with fewer than 4 big CPUs]
    #[arg(long, alias = "locks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    lock_count: Option<u32>,
    /// Lines that each critical section of an epoch increments [default: 8,12,20,24; bench 4: 64; bench 5: 2]
    #[arg(long, value_name = "LINES", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    sections: Vec<u32>,
    /// Steps computed inside for each line; a step is six instructions of one cycle [default: 0; with --little: 20,
    /// or 2 for bench 3]
    #[arg(long, value_name = "STEPS")]
    inside: Option<u64>,
    /// Steps computed between two epochs [default: 1600, bench 4: 33, or 0 with fewer than 4 big CPUs; bench 5:
    /// 0,10,100,1000,10000]
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    between: Vec<u64>,
    /// Shares of long epochs, percent, for bench 3 [default: 0,20,40,60,80,100]
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = percent)]
    long: Vec<u32>,
    #[command(flatten)]
    options: Options,
}

impl EpochsArgs {
    fn plan(&self, bench: u8) -> Plan {
        let whole = |numbers: &[u32]| numbers.iter().map(|&n| n as usize).collect();
        Plan {
            bench,
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

/// Runs the benchmark number `bench` of `lockswap bench epochs`, or the one that the arguments name.
pub fn run(args: &EpochsArgs, bench: u8, common: &Common) -> anyhow::Result<ExitCode> {
    if bench != 1 && args.bench.is_some_and(|given| given != bench) {
        let name = NAMES[usize::from(bench) - 1];
        return Err(misuse(format!("{name} is bench {bench}"), "leave --bench out"));
    }
    let bench = args.bench.unwrap_or(bench);
    if !args.long.is_empty() && bench != 3 {
        return Err(misuse("--long is for short and long epochs", "write epochs-mixed --long PERCENT"));
    }
    let plan = args.plan(bench);
    let (baselines, standard) = plan.locks();
    let locks = locks(Role::Mutex, &common.lock, baselines, if common.all { &[] } else { standard })?;
    let seats = args.options.seats(true)?;
    let is_alike = seats.iter().all(|seat| seat.pace == 1.0);
    let settings = args.options.settle(plan.configs(&seats).into_iter().map(Workload::Epochs))?;
    let series = Series::new(plan.groups(&settings, &locks), common.seed, seats);
    let page = |series: &Series<Report>| page::page(series, is_alike);
    let name = NAMES[usize::from(bench) - 1];
    Bench { name, rounds: 5, baseline: baselines[0], page: &page }.run(common, series, &args.options)
}
