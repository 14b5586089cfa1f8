//! `lockswap sim probe`: measures this machine for the machine `host`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::host;
use crate::error::UserError;
use crate::{picture, terminal};

const EXAMPLES: &str = "\
Measured: a cycle, accesses, atomic operations and pauses of one CPU; lines between CPUs; shared
cache and memory; the system calls of locks, waking, changing threads, slices. Each number in the
file says whether it was measured, told by the system or assumed. Only CPUs that this process may
use count.

Examples:
  lockswap sim probe
  lockswap sim probe --out server.toml && lockswap sim --machine ./server.toml
  taskset -c 0-3 lockswap sim probe --print";

/// Measures this machine and stores it as the simulated machine `host`
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ProbeArgs {
    /// Write to this file instead, for use on any machine: lockswap sim --machine ./FILE.toml
    #[arg(long, value_name = "FILE.toml")]
    out: Option<PathBuf>,
    /// Print the file, too
    #[arg(long)]
    print: bool,
}

pub fn run(args: &ProbeArgs) -> anyhow::Result<ExitCode> {
    let here = host::here()?;
    let file = match (&args.out, here.path()) {
        (Some(path), _) => Some(picture::prepare(path)?),
        (None, Some(path)) => Some(host::prepare(path)?),
        (None, None) if args.print => None,
        (None, None) => {
            let remedy = "name a file with --out FILE.toml, or set HOME or XDG_CACHE_HOME";
            return Err(UserError::new("there is no folder to store what is measured in", remedy).into());
        }
    };
    let text = host::measure(&here)?;
    if let Some(file) = &file {
        picture::replace(file, text.as_bytes())?;
    }
    if args.print {
        terminal::print(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let measured = text.lines().filter_map(|line| line.split_once("# measured: "));
    let mut table = terminal::table(&["key", "value", ""], &[1]);
    for (value, origin) in measured {
        let (key, number) = value.split_once('=').unwrap_or((value, ""));
        table.add_row([key.trim(), number.trim(), origin]);
    }
    terminal::fold_last_column(&mut table);
    let mut shown = terminal::lines(&table);
    if let Some(file) = file {
        shown += &format!("\nns, or shares. With all other keys in {}\n", file.path().display());
    }
    terminal::print(&shown)?;
    Ok(ExitCode::SUCCESS)
}
