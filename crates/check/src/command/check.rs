//! `lockswap-check check`.

use super::Outcome;
use lockswap_check::runner::{self, Budget, Checked};
use lockswap_check::subjects::Subject;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

/// Runs the scenarios of the locks as far as the time goes. Exit status 1: a lock failed.
#[derive(clap::Args)]
pub struct CheckArgs {
    /// This lock only; may be repeated.
    #[arg(long = "lock", value_name = "ID")]
    locks: Vec<String>,
    /// Highest bound on preemptions.
    #[arg(long, value_name = "N", default_value_t = Budget::LONG.preemptions)]
    preemptions: u32,
    /// Seconds for each scenario on each machine [default: a number of executions instead]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// Locks that are checked at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// File for the results, written after each lock. With --lock the other locks' results stay in it.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// What is published.
#[derive(Serialize, Deserialize)]
struct Results {
    schema: u32,
    locks: BTreeMap<String, Vec<Result>>,
}

/// One scenario.
#[derive(Serialize, Deserialize)]
struct Result {
    variant: String,
    #[serde(flatten)]
    checked: Checked,
}

const SCHEMA: u32 = 1;

pub fn run(args: CheckArgs) -> Outcome {
    let subjects = super::wanted(&args.locks)?;
    let mut budget = Budget { preemptions: args.preemptions, ..Budget::LONG };
    if let Some(seconds) = args.seconds {
        let time =
            Duration::try_from_secs_f64(seconds).map_err(|_| "--seconds must be a positive number".to_owned())?;
        budget = budget.with_time(time);
    }
    let mut results = Results { schema: SCHEMA, locks: BTreeMap::new() };
    if let Some(path) = args.write.as_ref().filter(|path| !args.locks.is_empty() && path.exists()) {
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        results = serde_json::from_str(&text)
            .map_err(|error| format!("{} is no file of results: {error}", path.display()))?;
    }
    let mut locks: BTreeMap<String, Vec<Subject>> = BTreeMap::new();
    for subject in subjects {
        locks.entry(subject.key()).or_default().push(subject);
    }
    let waiting = Mutex::new(locks.into_iter());
    let done = Mutex::new((results, Ok(true)));
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| loop {
                let next = waiting.lock().expect("no job panics").next();
                let Some((key, subjects)) = next else { break };
                let (lines, checks) = check(&subjects, budget);
                let failed = checks.iter().any(|check| check.checked.failure.is_some());
                print!("{lines}");
                let mut done = done.lock().expect("no job panics");
                done.0.locks.insert(key, checks);
                let written = args.write.as_ref().map_or(Ok(()), |path| super::write(path, &text(&done.0)));
                done.1 = std::mem::replace(&mut done.1, Ok(true)).and_then(|good| written.map(|()| good && !failed));
            });
        }
    });
    let (_, good) = done.into_inner().expect("no job panics");
    Ok(if good? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// One lock: lines for people, and the results.
fn check(subjects: &[Subject], budget: Budget) -> (String, Vec<Result>) {
    let mut lines = String::new();
    let mut results = Vec::new();
    for subject in subjects {
        for checked in runner::check(subject, budget) {
            lines += &format!(
                "{:<32} {:<8} {:<30} {:>9} executions, {}\n",
                subject.name(),
                checked.engine,
                checked.scenario,
                checked.executions,
                checked.reach()
            );
            if let Some(failure) = &checked.failure {
                lines += &format!("    {failure}\n");
            }
            results.push(Result { variant: subject.variant.to_owned(), checked });
        }
        if subject.weak.is_empty() {
            lines +=
                &format!("{:<32} {:<8} not checked: the lock is too large for loom's stacks\n", subject.name(), "loom");
        }
    }
    (lines, results)
}

/// The results with one scenario on a line, so that a difference can be read.
fn text(results: &Results) -> String {
    let json = |value: &Result| serde_json::to_string(value).expect("strings and numbers");
    let mut text = format!("{{\"schema\":{},\"locks\":{{\n", results.schema);
    for (index, (key, checks)) in results.locks.iter().enumerate() {
        let lines: Vec<_> = checks.iter().map(json).collect();
        let comma = if index + 1 < results.locks.len() { "," } else { "" };
        text += &format!("\"{key}\":[\n{}\n]{comma}\n", lines.join(",\n"));
    }
    text + "}}\n"
}
