//! `lockswap-check replay`.

use super::Outcome;
use lockswap_check::runner::{self, Schedule};
use lockswap_check::subjects;
use std::process::ExitCode;

/// Shows the steps of one execution of the explorer, as a failed check names it. Exit status 1: it fails.
#[derive(clap::Args)]
pub struct ReplayArgs {
    /// The lock, with its variant in parentheses if it has one.
    subject: String,
    /// The scenario.
    scenario: String,
    /// The bound on preemptions, a colon, and the choices with dots between them.
    schedule: Schedule,
}

pub fn run(args: ReplayArgs) -> Outcome {
    let subject = subjects::all().into_iter().find(|subject| subject.name() == args.subject);
    let subject = subject.ok_or_else(|| format!("there is no lock '{}'", args.subject))?;
    let scenario = subject.explore.iter().find(|scenario| scenario.name == args.scenario);
    let scenario = scenario.ok_or_else(|| {
        let names: Vec<_> = subject.explore.iter().map(|scenario| scenario.name).collect();
        format!("there is no scenario '{}'; there are: {}", args.scenario, names.join(", "))
    })?;
    let (failure, steps) = runner::replay(scenario, &args.schedule);
    print!("{} {}\n{steps}", subject.name(), scenario.name);
    println!("{}", failure.as_deref().unwrap_or("nothing went wrong"));
    Ok(if failure.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
