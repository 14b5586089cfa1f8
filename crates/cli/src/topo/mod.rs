//! `lockswap topo`

mod data;
mod kept;
mod latency;
pub mod machine;
mod measure;
mod tree;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

pub use machine::{judge, root, settings, Machine};

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

The latency between two CPUs is the time of one way of a cache line that two
threads pass to and fro, the median of many samples, ns. A FILE with latencies
has a line per CPU, with values for all CPUs or for those before it (a lower
triangle), separated by commas; it may describe any machine, in up to 4096 CPUs.

Environment, for this command and for the preload library:
  LOCKSWAP_LEVEL=LEVEL  what makes CPUs near each other for NUMA locks: node, llc
                        (last-level cache) or core-kind [default: the machine's]
  LOCKSWAP_TOPOLOGY=2x1 nodes x CPUs per node [default: the machine's]
  LOCKSWAP_BIG=0-3      the big CPUs, all others are little [default: as the
                        system says]
  LOCKSWAP_ROUTE=0,2,1  the order in which RON locks visit the CPUs [default: what
                        --measure stored, else along the topology]
  LOCKSWAP_ROUTE_FILE=FILE  where --measure stores, and programs look [default:
                        lockswap/machine-ID in the user's cache folder]
  LOCKSWAP_SYSFS=DIR    is read in the place of /sys; for tests

Examples:
  lockswap topo
  lockswap topo --json
  lockswap topo --sysfs machine-42/
  lockswap topo --measure --export latency.png
  lockswap topo --latency epyc.csv --export epyc.svg
  taskset -c 0-3 lockswap topo")]
pub struct TopoArgs {
    /// Prints everything as a JSON object
    #[arg(long)]
    json: bool,
    /// Shows the machine that a folder or a file describes
    #[arg(long, value_name = "DIR|FILE")]
    sysfs: Option<PathBuf>,
    #[command(flatten)]
    latency: latency::LatencyArgs,
}

/// Runs `lockswap topo`.
pub fn run(args: TopoArgs) -> anyhow::Result<ExitCode> {
    if let Some(path) = &args.latency.latency {
        latency::from_file(path, &args.latency, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.latency.measure {
        measure::run(&args.latency, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let machine = match &args.sysfs {
        Some(path) => Machine::described_in(path)?,
        None => Machine::here()?,
    };
    let route = kept::RouteHere::of(&machine)?;
    if let Some(ignored) = &route.ignored {
        say(ignored);
    }
    let text = if args.json {
        serde_json::to_string_pretty(&data::Data::new(&machine, route))? + "\n"
    } else {
        tree::draw(&machine, &route)
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line on stderr, which may be closed.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
