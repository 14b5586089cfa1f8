//! The command.

mod check;
mod mutants;
mod replay;

use clap::{Parser, Subcommand};
use lockswap_check::subjects::{self, Subject};
use std::path::Path;
use std::process::ExitCode;

/// Goes through all executions of small programs on the locks.
#[derive(Parser)]
#[command(name = "lockswap-check", version, after_help = EXAMPLES, max_term_width = 100)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  cargo run --profile prove -p lockswap-check -- check --lock mcs_spin
  cargo run --profile prove -p lockswap-check -- check --jobs 2 --write docs/checked.json
  cargo run --profile prove -p lockswap-check -- mutants --jobs 2 --write docs/mutants.md";

#[derive(Subcommand)]
enum Command {
    Check(check::CheckArgs),
    Replay(replay::ReplayArgs),
    Mutants(mutants::MutantsArgs),
    #[command(name = mutants::WORKER, hide = true)]
    MutantsWorker,
}

/// Runs the command.
pub fn main() -> ExitCode {
    let command = Args::parse().command;
    // A check that fails panics: that is its result, and told as such.
    std::panic::set_hook(Box::new(|_| {}));
    let result = std::panic::catch_unwind(|| match command {
        Command::Check(args) => check::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Mutants(args) => mutants::run(args),
        Command::MutantsWorker => mutants::work(),
    });
    match result {
        Ok(Ok(code)) => code,
        Ok(Err(message)) => {
            eprintln!("lockswap-check: {message}");
            ExitCode::from(2)
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            eprintln!("lockswap-check: bug: {}", text.unwrap_or_default());
            ExitCode::from(101)
        }
    }
}

type Outcome = Result<ExitCode, String>;

/// The subjects whose id is in `locks`; all if that is empty.
fn wanted(locks: &[String]) -> Result<Vec<Subject>, String> {
    let mut all = subjects::all();
    if let Some(unknown) = locks.iter().find(|lock| all.iter().all(|subject| subject.id != **lock)) {
        let mut ids: Vec<_> = all.iter().map(|subject| subject.id).collect();
        ids.dedup();
        return Err(format!("there is no lock '{unknown}'; there are: {}", ids.join(" ")));
    }
    all.retain(|subject| locks.is_empty() || locks.iter().any(|lock| lock == subject.id));
    Ok(all)
}

/// Replaces the file at `path` as a whole.
fn write(path: &Path, text: &str) -> Result<(), String> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    std::fs::write(&beside, text)
        .and_then(|()| std::fs::rename(&beside, path))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
