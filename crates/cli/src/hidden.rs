//! Subcommands that lockswap starts itself as child processes; they show in no help page.

use std::process::ExitCode;
use std::time::Duration;

use lockswap_workloads::kv::{self, KvConfig};

use crate::terminal::print;

/// Name of the built-in workload's subcommand.
pub const KEY_VALUE: &str = "__kv";

/// Name of the subcommand that tells whether the preload library is in its own process.
pub const LOADED: &str = "__loaded";

/// Captures the result that [`KEY_VALUE`] prints.
pub const KEY_VALUE_METRIC: &str = "throughput_ops_per_s=([0-9]+)";

/// Arguments of the built-in workload.
#[derive(clap::Args)]
pub struct KeyValueArgs {
    #[arg(long)]
    threads: usize,
    #[arg(long)]
    millis: u64,
}

/// The contended key-value workload.
pub fn key_value(args: KeyValueArgs) -> anyhow::Result<ExitCode> {
    let duration = Duration::from_millis(args.millis);
    let report = kv::run(&KvConfig { threads: args.threads, duration, ..KvConfig::default() });
    let throughput = report.ops as f64 / report.elapsed.as_secs_f64();
    print(&format!("throughput_ops_per_s={throughput:.0}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Status 0 when the preload library is mapped into this process.
pub fn loaded() -> anyhow::Result<ExitCode> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let found = maps.lines().any(|line| line.contains(crate::library::FILE_PREFIX));
    Ok(if found { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
