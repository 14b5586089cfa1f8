//! `lockswap trace --delay` and `--shorten`

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use lockswap_platform::Ns;
use lockswap_study::export::OutputFile;
use lockswap_trace::whatif::{Change, Experiment, Name, Plan, SharedFile, WhatIf};
use signal_hook::consts::SIGINT;

use super::{check, follow, visible_lines, TraceArgs};
use crate::error::{UserError, USAGE};
use crate::run::{end_as, OWN_FAILURE};
use crate::{duration, terminal};

/// The longest delay: several sections have to fit into a phase.
const LONGEST_DELAY: Ns = 10_000_000;

/// What one of both options says: a lock, and how its sections are changed.
#[derive(Clone, Debug)]
pub struct Changed {
    lock: (String, Name),
    change: Change,
}

/// `MUTEX:100ns`
pub fn delay(text: &str) -> Result<Changed, String> {
    let (lock, time) = parts(text, "hot:100ns")?;
    let ns = duration::with_unit(time)?;
    if !(1..=LONGEST_DELAY).contains(&ns) {
        return Err(format!("write a time above 0, at most {}", duration::as_option(LONGEST_DELAY)));
    }
    Ok(Changed { lock, change: Change::DelayNs(ns) })
}

/// `MUTEX:50%`
pub fn shorten(text: &str) -> Result<Changed, String> {
    let (lock, share) = parts(text, "hot:50%")?;
    let percent = share.strip_suffix('%').and_then(|number| number.trim_end().parse().ok());
    let percent = percent.filter(|percent| (1.0..=100.0).contains(percent));
    let percent = percent.ok_or("write by how much of their length sections should be shorter, from 1% to 100%")?;
    Ok(Changed { lock, change: Change::ShortenPercent(percent) })
}

/// A lock's name with what stands behind the last colon.
fn parts<'a>(text: &'a str, example: &str) -> Result<((String, Name), &'a str), String> {
    let parts = text.rsplit_once(':').filter(|(lock, _)| !lock.ends_with(':'));
    let (lock, rest) = parts.ok_or_else(|| format!("write a lock's name, a colon and by how much, as in {example}"))?;
    Ok((named(lock)?, rest))
}

/// A lock's name.
pub fn named(text: &str) -> Result<(String, Name), String> {
    let name = Name::read(text).ok_or("write the name of a lock as 'lockswap trace' shows it")?;
    Ok((text.to_owned(), name))
}

/// Runs a program and experiments on it.
pub fn run(args: &TraceArgs, changed: Changed) -> anyhow::Result<ExitCode> {
    let outputs = args.export.iter().map(|path| prepare(path)).collect::<Result<Vec<_>, _>>()?;
    let selection = args.selection()?;
    check(&args.command)?;
    let file = SharedFile::create().map_err(|error| {
        let remedy = "make room in /dev/shm, or set TMPDIR to a folder with room";
        UserError::new(format!("the program was not started: no file for the experiment: {error}"), remedy)
            .with_status(OWN_FAILURE)
    })?;
    let plan = Plan { target: changed.lock, progress: args.progress.clone(), change: changed.change };
    let mut experiment = Experiment::new(&file, plan);
    let program = args.program(&selection, file.variable())?;
    let status = follow(&program, |_| experiment.step())?;
    experiment.stop();
    let command = program.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let result = experiment.result(command, selection.ids().to_vec());
    // A closed stderr must not change how the program's end is reported.
    let _ = io::stderr().write_all(visible_lines(&terminal::page_words(&result.page())).as_bytes());
    outputs.iter().for_each(|output| write(output, &result));
    match status {
        Some(status) => end_as(status),
        None => {
            terminal::say("interrupted: the program was left alone and may run on");
            Ok(ExitCode::from(128 + SIGINT as u8))
        }
    }
}

/// Checks the name of a file before the program starts.
fn prepare(path: &Path) -> Result<OutputFile, UserError> {
    if !path.to_string_lossy().ends_with(".json") {
        let what = format!("--export {}: --delay and --shorten write JSON only", path.display());
        return Err(UserError::new(what, "end the name in .json").with_status(USAGE));
    }
    OutputFile::prepare(path).map_err(|error| {
        let remedy = "name a file in a folder that you can write to; the program was not started";
        UserError::new(format!("cannot write {}: {error}", path.display()), remedy)
    })
}

fn write(output: &OutputFile, result: &WhatIf) {
    let text = serde_json::to_string_pretty(result).map(|text| text + "\n").map_err(io::Error::from);
    if let Err(error) = text.and_then(|text| output.replace(text.as_bytes())) {
        // Stderr may be closed.
        let _ = writeln!(io::stderr(), "error: cannot write {}: {error}", output.path().display());
    }
}
