//! `lockswap bench kernel`: a program in small, in this process and on the mutexes that it finds, as others run it.

use super::{misuse, Common};
use crate::selection::{self, INTERPOSED, PLAIN};
use crate::terminal::print;
use clap::builder::PossibleValuesParser;
use lockswap_locks::registry::Role;
use lockswap_workloads::affinity;
use lockswap_workloads::kernels::{run, run_directly, Config, Kernel};
use std::process::ExitCode;
use std::time::Instant;

/// Arguments of `lockswap bench kernel`.
#[derive(clap::Args)]
#[command(after_help = "\
It does its work once, checks the result, and says how long that took.

Examples:
  lockswap run --lock mcs_stp -- lockswap bench kernel raytrace --threads 4
  lockswap compare --metric 'lower:^time: ([0-9.]+)' -- lockswap bench kernel cluster
  lockswap study run studies/kernels.toml")]
pub struct KernelArgs {
    /// What runs
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(Kernel::ALL.map(Kernel::name)))]
    name: String,
    /// Threads that share the work [default: one per CPU, at least 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Option<u32>,
    /// How many times the work, which takes some tenths of a second
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    scale: u32,
    /// A lock of the catalogue that is called directly instead of pthread mutexes, as in a program that was changed by
    /// hand; "pthread" stands for these
    #[arg(long, value_name = "ID")]
    direct: Option<String>,
}

/// Runs a kernel.
pub fn run_one(args: &KernelArgs, common: &Common) -> anyhow::Result<ExitCode> {
    if common.all || !common.lock.is_empty() {
        let remedy =
            "put it on a lock with 'lockswap run --lock ID -- lockswap bench kernel NAME', or name one with --direct";
        return Err(misuse("bench kernel runs on the mutexes that it finds", remedy));
    }
    let wanted = |kernel: &Kernel| kernel.name() == args.name;
    let kernel = Kernel::ALL.into_iter().find(wanted).expect("clap knows the names");
    let threads = args.threads.map_or_else(|| affinity::allowed().len().max(2), |threads| threads as usize);
    let config = Config { threads, scale: args.scale };
    let direct = args.direct.as_deref().filter(|lock| ![PLAIN, INTERPOSED].contains(lock));
    if let Some(lock) = direct {
        selection::read(Role::Mutex, lock)?;
    }
    let begin = Instant::now();
    let done = match direct {
        None => run(kernel, config),
        Some(lock) => run_directly(kernel, lock, config).ok_or_else(|| {
            misuse(
                "cluster has no locks but those with condition variables",
                "leave --direct out, or choose another kernel",
            )
        })?,
    };
    let seconds = begin.elapsed().as_secs_f64();
    print(&format!("{}: {done}\ntime: {seconds:.6} s\n", args.name))?;
    Ok(ExitCode::SUCCESS)
}
