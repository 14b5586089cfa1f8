//! `lockswap topo`

mod data;
mod machine;
mod tree;

use std::path::PathBuf;
use std::process::ExitCode;

pub use machine::Machine;

use crate::terminal;

/// Shows how the machine is built, as far as locks care.
#[derive(clap::Args)]
#[command(after_help = "\
Which CPUs share a core, caches, a package and a NUMA node, which of them are
big or little, which ones a process started from here may use, and what NUMA
locks make of that.

DIR is a copy of /sys, or a folder that holds one as sys/. The folders
devices/system/cpu and devices/system/node in it suffice; this makes one:
  cp -r --parents /sys/devices/system/cpu /sys/devices/system/node DIR
A FILE has a line PATH<TAB>CONTENT for each file of such a folder.

Environment, for this command and for the preload library:
  LOCKSWAP_LEVEL=LEVEL  what makes CPUs near each other for NUMA locks: node, llc
                        (last-level cache) or core-kind [default: the machine's]
  LOCKSWAP_TOPOLOGY=2x1 nodes x CPUs per node [default: the machine's]
  LOCKSWAP_BIG=0-3      the big CPUs, all others are little [default: as the
                        system says]
  LOCKSWAP_SYSFS=DIR    is read in the place of /sys; for tests

Examples:
  lockswap topo
  lockswap topo --json
  lockswap topo --sysfs machine-42/
  taskset -c 0-3 lockswap topo")]
pub struct TopoArgs {
    /// Prints everything as a JSON object
    #[arg(long)]
    json: bool,
    /// Shows the machine that a folder or a file describes
    #[arg(long, value_name = "DIR|FILE")]
    sysfs: Option<PathBuf>,
}

/// Runs `lockswap topo`.
pub fn run(args: TopoArgs) -> anyhow::Result<ExitCode> {
    let machine = match &args.sysfs {
        Some(path) => Machine::described_in(path)?,
        None => Machine::here()?,
    };
    let text =
        if args.json { serde_json::to_string_pretty(&data::Data::new(&machine))? + "\n" } else { tree::draw(&machine) };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
