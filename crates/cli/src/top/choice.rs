//! Which process is watched.

use std::fs;
use std::process::ExitCode;

use lockswap_trace::attach;

use crate::error::{UserError, USAGE};
use crate::terminal::{self, lines, table, visible};
use crate::trace::attached::command_of;

/// What came of it.
pub enum Choice {
    /// This one.
    Process(u32),
    /// There are several, which were listed.
    Listed(ExitCode),
}

/// The process that was named, or the only one that is ready.
pub fn choose(named: Option<u32>) -> anyhow::Result<Choice> {
    if let Some(process) = named {
        return Ok(Choice::Process(process));
    }
    let ready = attach::ready();
    match ready[..] {
        [] => {
            let remedy = "start one as lockswap run -- PROGRAM; lockswap top --pid PID tells why one is not";
            Err(UserError::new("no process of yours is ready to be traced", remedy).into())
        }
        [only] => {
            terminal::say(&format!("process {only} is the only one that is ready: {}", words(only)));
            Ok(Choice::Process(only))
        }
        [first, ..] => {
            let mut list = table(&["process", "threads", "command"], &[0, 1]);
            for process in &ready {
                list.add_row([process.to_string(), threads(*process).to_string(), words(*process)]);
            }
            terminal::print(&lines(&list))?;
            terminal::say(&format!("name one of them, as in lockswap top --pid {first}"));
            Ok(Choice::Listed(ExitCode::from(USAGE)))
        }
    }
}

/// The command of a process, as it may be printed.
pub fn words(process: u32) -> String {
    visible(&command_of(process).join(" "))
}

/// How many threads a process has.
pub fn threads(process: u32) -> usize {
    fs::read_dir(format!("/proc/{process}/task")).map_or(0, Iterator::count)
}
