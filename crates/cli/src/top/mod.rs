//! `lockswap top`

mod batch;
mod choice;
mod columns;
mod draw;
mod pane;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod watched;

use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use lockswap_platform::{Ns, LONGEST_DURATION};
use lockswap_trace::attach::Attached;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::duration;
use crate::trace::attached::cannot;
use crate::trace::sampling::SamplingArgs;
use batch::Batch;
use choice::Choice;
use watched::Watched;

/// Shows live which locks the threads of a running program wait for.
#[derive(clap::Args)]
#[command(after_help = "\
The program must have been started by lockswap run, or with the library and
LOCKSWAP_TRACE=ready; it runs on as if nothing had been. Without --pid, the one
process of yours that is ready is watched; if there are several, they are listed.

Each row is a lock, or locks of the same name, with what happened in the last
interval: how many seconds threads waited for it in each second, how often it was
acquired, how long it was held, the longest queue, and the function that let
others wait longest. Numbers are estimated from a sample; docs/trace.md tells how.

Keys:
  up, down, j, k   choose a lock          Enter   its holders' and waiters' stacks
  s                other order            t       the last interval, or all of them
  space            pause                  r       forget what was until now
  ?, h             help                   q, Esc, Ctrl-C   quit

Where standard output or input is no terminal, and with --batch or --count, a
table is printed for each interval instead.

Examples:
  lockswap run -- ./server > server.log &   then
  lockswap top
  lockswap top --pid $(pidof server) --interval 5s
  lockswap top --pid $(pidof server) --count 3 > locks.txt")]
pub struct TopArgs {
    /// The process [default: the one that is ready, if it is the only one]
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Time between two pictures
    #[arg(long, value_name = "TIME", default_value = "1s",
        value_parser = duration::within(SHORTEST_INTERVAL..=LONGEST_DURATION))]
    interval: Ns,
    /// Prints a table for each interval
    #[arg(long)]
    batch: bool,
    /// Ends after so many intervals, for each of which it prints a table
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    count: Option<u32>,
    /// Number of locks in a printed table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    top: u32,
    #[command(flatten)]
    sampling: SamplingArgs,
}

/// There is nothing to be seen in less.
const SHORTEST_INTERVAL: Ns = 100_000_000;

/// Runs `lockswap top`.
pub fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let process = match choice::choose(args.pid)? {
        Choice::Process(process) => process,
        Choice::Listed(status) => return Ok(status),
    };
    // From here on any of them ends the command as a key does: the process is left as it was, and the terminal, too.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
    let attached = Attached::new(process, args.sampling.settings()).map_err(|refused| cannot(process, &refused))?;
    let watched = Watched::new(process, &attached);
    let interval = Duration::from_nanos(args.interval);
    thread::scope(|scope| {
        scope.spawn(|| watched.read());
        let result = match args.batch || args.count.is_some() || !has_terminal() {
            true => Batch { interval, count: args.count, top: args.top as usize }.run(&watched, &mut signals),
            false => screen::run(&watched, interval, &mut signals),
        };
        watched.stop();
        result
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Whether there is a terminal that can show a picture, and has keys.
fn has_terminal() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    io::stdout().is_terminal() && io::stdin().is_terminal() && !is_dumb
}
