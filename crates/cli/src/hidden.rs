//! Subcommands that lockswap starts itself as child processes; they show in no help page.

use std::process::ExitCode;
use std::time::Duration;

use lockswap_locks::registry::Role;
use lockswap_platform::Native;
use lockswap_workloads::crew::Timing;
use lockswap_workloads::hardware::Hardware;
use lockswap_workloads::kv;
use lockswap_workloads::pthread::{Kind, Mutex};
use lockswap_workloads::torture::{self, Config, Focus};

use crate::terminal::print;
use crate::torture::Counts;
use lockswap_workloads::little::Little;

/// Name of the built-in workload's subcommand.
pub const KEY_VALUE: &str = "__kv";

/// Name of the subcommand that makes one measurement for `lockswap bench`.
pub const BENCH: &str = "__bench";

/// Name of the subcommand that makes one run of `lockswap sim validate` on hardware.
pub const VALIDATE: &str = "__validate";

/// Name of the subcommand that tells whether the preload library is in its own process.
pub const LOADED: &str = "__loaded";

/// Name of the subcommand that tortures the locks of its own process.
pub const TORTURE: &str = "__torture";

/// Name of the subcommand that tells whether it may yield.
pub const YIELD: &str = "__yield";

/// Captures the result that [`KEY_VALUE`] prints.
pub const KEY_VALUE_METRIC: &str = "throughput_ops_per_s=([0-9]+)";
/// Its unit.
pub const KEY_VALUE_UNIT: &str = "ops/s";

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

/// Arguments of one measurement.
#[derive(clap::Args)]
pub struct BenchArgs {
    job: String,
}

/// Makes one measurement and prints one line of JSON.
pub fn bench(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    crate::bench::job::measure(&args.job)
}

/// Makes one run of a workload on a lock that is called directly and prints one line of JSON.
pub fn validate(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    crate::sim::validate::hardware::measure(&args.job)
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
    // Nobody wants the core of a process that was made to be killed.
    let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
    Ok(if nix::sched::sched_yield().is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Arguments of the torture of one lock.
#[derive(clap::Args)]
pub struct TortureArgs {
    #[arg(long)]
    focus: String,
    #[arg(long)]
    seed: u64,
    #[arg(long, value_delimiter = ',')]
    threads: Vec<usize>,
    #[arg(long)]
    seconds: f64,
    #[arg(long)]
    patience: f64,
    #[arg(long)]
    glibc: bool,
    #[arg(long)]
    preloaded: bool,
}

/// Tortures the locks of this process and prints the counts as one line of JSON.
pub fn torture(args: TortureArgs) -> anyhow::Result<ExitCode> {
    anyhow::ensure!(is_loaded()? == args.preloaded, "the preload library is where it should not be, or is not");
    let focus = match args.focus {
        focus if focus == Role::RwLock.name() => Focus::RwLock,
        focus if focus == Role::Spin.name() => Focus::Spin,
        _ => Focus::Mutex,
    };
    let (threads, patience) = (args.threads, Duration::from_secs_f64(args.patience));
    let standard = Config::new(args.seed, Duration::from_secs_f64(args.seconds));
    torture::run(&Config { threads, patience, focus, glibc: args.glibc, ..standard }, |report| {
        let counts = Counts {
            operations: report.operations,
            acquisitions: report.acquisitions,
            forks: report.forks,
            threads_ended: report.threads_ended,
            longest_wait_ms: report.longest_wait.as_secs_f64() * 1e3,
        };
        // Who started us notices when it gets no result.
        let _ = serde_json::to_string(&counts).map(|line| print(&format!("{line}\n")));
    });
    Ok(ExitCode::SUCCESS)
}
