//! `lockswap doctor`

mod here;
mod linking;
mod program;
mod replaced;
mod sanitizer;
mod script;

use std::ffi::OsString;
use std::process::ExitCode;

use lockswap_study::machine::Machine;
use serde::Serialize;

use crate::terminal::{self, visible};
use here::here;
use program::{examine, Examined, Prospect};

/// Says whether lockswap can work here, and on a program, and if not, what to do about it.
#[derive(clap::Args)]
#[command(after_help = "\
The program is only read, never run. Of a script, the interpreter is examined.

Exit status: 0 if it can work, 1 if it cannot.

Examples:
  lockswap doctor                 this machine
  lockswap doctor ./server        this machine and a program
  lockswap doctor --json python3")]
pub struct DoctorArgs {
    /// Prints a JSON object
    #[arg(long)]
    json: bool,
    /// Program to examine, searched in PATH if it has no slash
    #[arg(value_name = "PROGRAM")]
    program: Option<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Note,
    Problem,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), remedy: None }
    }

    fn note(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, status: Status::Note, found: found.into(), remedy: Some(remedy.into()) }
    }

    fn problem(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, status: Status::Problem, found: found.into(), remedy: Some(remedy.into()) }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    schema: u32,
    machine: Machine,
    here: Vec<Check>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<Examined>,
    works: bool,
    verdict: &'static str,
}

/// Runs `lockswap doctor`.
pub fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let machine = Machine::here();
    let here = here(&machine);
    let program = args.program.as_deref().map(examine).transpose()?;
    let all = || here.iter().chain(program.iter().flat_map(|p| &p.checks));
    let works = !all().any(|c| c.status == Status::Problem);
    let verdict = match program.as_ref().map_or(Prospect::Replaces, |examined| examined.prospect) {
        _ if !works => "cannot work",
        Prospect::Replaces => "works",
        Prospect::Nothing => "works, but nothing to replace",
        Prospect::Unknown => "works, but whether there is anything to replace shows in 'lockswap run --summary' only",
        Prospect::StandsAside => "works, but lockswap stands aside: ThreadSanitizer must see the locks",
    };
    let report = Report { schema: 1, machine, here, program, works, verdict };
    let text = if args.json { serde_json::to_string_pretty(&report)? + "\n" } else { words(&report) };
    terminal::print(&text)?;
    Ok(if works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn words(report: &Report) -> String {
    let mut text = format!("this machine: {}\n", report.machine.words());
    text += &checks_in_words(&report.here);
    if let Some(examined) = &report.program {
        text += &format!("\n{}\n", visible(&examined.program.to_string_lossy()));
        text += &checks_in_words(&examined.checks);
    }
    text + &format!("\nverdict: {}\n", report.verdict)
}

fn checks_in_words(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let status = match check.status {
            Status::Ok => "ok",
            Status::Note => "note",
            Status::Problem => "PROBLEM",
        };
        text += &format!("  {status:<8} {:<16} {}\n", check.name, visible(&check.found));
        if let Some(remedy) = &check.remedy {
            text += &format!("  {:<8} {:<16} remedy: {}\n", "", "", visible(remedy));
        }
    }
    text
}
