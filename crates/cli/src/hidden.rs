//! Subcommands that lockswap starts itself as child processes; they show in no help page.

use std::process::ExitCode;

use anyhow::Context;
use lockswap_experiment::hardware::torture::Order;
use lockswap_experiment::hardware::{job, places};
use lockswap_experiment::validate::hardware::Run;
use lockswap_platform::{Native, Platform};
use lockswap_workloads::crew::Timing;
use lockswap_workloads::hardware::Hardware;
use lockswap_workloads::kv;
use lockswap_workloads::little::Little;
use lockswap_workloads::pthread::{Kind, Mutex};

use crate::terminal::print;

/// Arguments of the built-in workload.
#[derive(clap::Args)]
pub struct KeyValueArgs {
    #[arg(long)]
    threads: usize,
    #[arg(long)]
    millis: u64,
    #[arg(long)]
    little: Option<Little>,
}

/// The contended key-value workload.
pub fn key_value(args: KeyValueArgs) -> anyhow::Result<ExitCode> {
    let config = kv::Config { timing: Timing::lasting(args.millis * 1_000_000), ..kv::Config::new(args.threads) };
    let seats = args.little.map_or(Ok(Vec::new()), |little| little.seats())?;
    let crew = Hardware { seats, ..Hardware::default() };
    let report = kv::run::<Native, _>(&config, &crew, &*Mutex::new(Kind::Normal));
    print(&format!("throughput_ops_per_s={:.0}\n", report.throughput))?;
    Ok(ExitCode::SUCCESS)
}

/// Arguments of a process that measures or tortures: what to do, as JSON.
#[derive(clap::Args)]
pub struct JobArgs {
    job: String,
}

/// Makes one measurement and prints one line of JSON.
pub fn bench(args: &JobArgs) -> anyhow::Result<ExitCode> {
    let line = job::perform(&args.job, places::look_around()?)?;
    print(&format!("{line}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Makes one run of a workload on a lock that is called directly and prints one line of JSON.
pub fn validate(args: &JobArgs) -> anyhow::Result<ExitCode> {
    let run: Run = serde_json::from_str(&args.job).context("no run")?;
    let report = run.make(places::look_around()?).map_err(anyhow::Error::msg)?;
    print(&format!("{}\n", serde_json::to_string(&report)?))?;
    Ok(ExitCode::SUCCESS)
}

/// Status 0 when the preload library is mapped into this process.
pub fn loaded() -> anyhow::Result<ExitCode> {
    Ok(if is_loaded()? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn is_loaded() -> std::io::Result<bool> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    Ok(maps.lines().any(|line| line.contains(crate::library::FILE_PREFIX)))
}

/// Status 0 when `sched_yield` works. A system call filter may kill the process for the attempt.
pub fn try_yield() -> anyhow::Result<ExitCode> {
    leave_no_core();
    Ok(if nix::sched::sched_yield().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The same when the calls of `membarrier` work that the preload library makes, which it makes itself.
pub fn try_settle() -> anyhow::Result<ExitCode> {
    leave_no_core();
    Native::allow_settling(true);
    Ok(if Native::settle() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Nobody wants the core of a process that was made to be killed.
fn leave_no_core() {
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
}

/// Tortures the locks of this process and prints the counts as one line of JSON.
pub fn torture(args: &JobArgs) -> anyhow::Result<ExitCode> {
    let order: Order = serde_json::from_str(&args.job)?;
    anyhow::ensure!(is_loaded()? == order.preloaded, "the preload library is where it should not be, or is not");
    order.perform(|counts| {
        // Who started us notices when it gets no result.
        let _ = serde_json::to_string(&counts).map(|line| print(&format!("{line}\n")));
    });
    Ok(ExitCode::SUCCESS)
}
