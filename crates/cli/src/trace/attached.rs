//! `lockswap trace --pid`

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use lockswap_trace::attach::{Attached, Refused};
use lockswap_trace::Session;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::outputs::Outputs;
use super::{words, TraceArgs, INTERVAL};
use crate::error::UserError;

/// Traces the process with this number.
pub fn run(args: &TraceArgs, process: u32) -> anyhow::Result<ExitCode> {
    let mut outputs = Outputs::prepare(&args.export)?;
    let settings = args.sampling.settings();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let attached = Attached::new(process, settings).map_err(|refused| cannot(process, &refused))?;
    let mut session = Session::new(attached.shared(), outputs.want_spans());
    let limit = args.time.map(Duration::from_nanos);
    let begin = Instant::now();
    let mut is_there = true;
    // Any of the signals ends the trace only.
    while is_there && signals.pending().next().is_none() && limit.is_none_or(|limit| begin.elapsed() < limit) {
        std::thread::sleep(INTERVAL);
        is_there = runs(process);
        session.read(process, !is_there);
    }
    let command = command_of(process);
    // Switches tracing off; what was noted before is read still.
    let report = {
        session.stop();
        session.read(process, !is_there);
        session.report(command, Vec::new(), settings)
    };
    // A closed stderr changes nothing.
    let _ = io::stderr().write_all(words(&report, args.top as usize).as_bytes());
    outputs.write(args.side(), &report, &session.gathered);
    Ok(ExitCode::SUCCESS)
}

/// Whether the process has not ended.
pub fn runs(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state stands behind the name, which may hold anything.
    let state = status.rsplit(") ").next().and_then(|rest| rest.chars().next());
    !matches!(state, None | Some('Z' | 'X'))
}

/// What the process was started with.
pub fn command_of(process: u32) -> Vec<String> {
    let words = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    let words = words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
    words.filter(|word| !word.is_empty()).collect()
}

/// What to do about a process that cannot be traced.
pub fn cannot(process: u32, refused: &Refused) -> UserError {
    let remedy = match refused {
        Refused::NoProcess => "pgrep NAME finds the numbers of processes",
        Refused::NotYours => "trace it as its user, or as root",
        Refused::NotPrepared | Refused::OtherVersion => "start it again, as lockswap run -- PROGRAM",
        Refused::NotReady => "wait for its second thread, or start it as lockswap trace -- PROGRAM",
        Refused::Orphaned => "start it again in the foreground, so that it does not fork",
        Refused::Busy => "end that one first",
        Refused::NoRoom(_) => "make room in /dev/shm",
        Refused::Other(_) => "lockswap trace -- PROGRAM starts a program and traces it",
    };
    UserError::new(format!("process {process} cannot be traced: {refused}"), remedy)
}
