//! `lockswap doctor`

use std::ffi::OsString;
use std::io;
use std::process::{Command, ExitCode};

use lockswap_experiment::hardware::child;
use lockswap_inspect::{examine, here, Error, Finding, Report, Status};
use lockswap_study::machine::Machine;

use crate::error::UserError;
use crate::outputs::JsonArgs;
use crate::terminal::{self, visible};
use crate::{library, selection};

/// Says whether lockswap can work here, and on a program, and if not, what to do about it.
#[derive(clap::Args)]
#[command(after_help = "\
The program is only read, never run. Of a script, the interpreter is examined.

Exit status: 0 if it can work, 1 if it cannot.

Examples:
  lockswap doctor                 this machine
  lockswap doctor ./server        this machine and a program
  lockswap doctor --format json python3")]
pub struct DoctorArgs {
    #[command(flatten)]
    printed: JsonArgs,
    /// Program to examine, searched in PATH if it has no slash
    #[arg(value_name = "PROGRAM")]
    program: Option<OsString>,
}

/// Runs `lockswap doctor`.
pub fn run(args: DoctorArgs) -> anyhow::Result<ExitCode> {
    let machine = Machine::here();
    let here = here(&machine, &library::EMBEDDED, attempt());
    let examine = |name| examine(name, &library::EMBEDDED.image).map_err(UserError::from);
    let program = args.program.as_deref().map(examine).transpose()?;
    let report = Report::new(machine, here, program);
    let text = if args.printed.is_json() { serde_json::to_string_pretty(&report)? + "\n" } else { words(&report) };
    terminal::print(&text)?;
    Ok(if report.works { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// This command, telling whether the preload library is in its process; the user's choice of locks is not tried.
fn attempt() -> io::Result<Command> {
    let mut attempt = Command::new(std::env::current_exe()?);
    attempt.arg(child::LOADED);
    selection::VARIABLES.iter().chain(&["LOCKSWAP_ONLY", "LOCKSWAP_PROFILE"]).for_each(|name| {
        attempt.env_remove(name);
    });
    Ok(attempt)
}

impl From<Error> for UserError {
    fn from(error: Error) -> Self {
        UserError::new(visible(&error.to_string()), error.remedy())
    }
}

fn words(report: &Report) -> String {
    let mut text = format!("this machine: {}\n", report.machine.words());
    text += &findings(&report.here);
    if let Some(examined) = &report.program {
        text += &format!("\n{}\n", visible(&examined.program.to_string_lossy()));
        text += &findings(&examined.checks);
    }
    text + &format!("\nverdict: {}\n", report.verdict)
}

fn findings(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let status = match finding.status {
            Status::Ok => "ok",
            Status::Note => "note",
            Status::Problem => "PROBLEM",
        };
        text += &format!("  {status:<8} {:<16} {}\n", finding.name, visible(&finding.found));
        if let Some(remedy) = &finding.remedy {
            text += &format!("  {:<8} {:<16} remedy: {}\n", "", "", visible(remedy));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use lockswap_inspect::{Image, Replaced};

    #[test]
    fn the_embedded_library_says_what_it_replaces() {
        let library = Image::parse(&crate::library::EMBEDDED.image).expect("an ELF file").unwrap();
        let replaced = Replaced::by(&library);
        for name in ["pthread_mutex_lock", "cnd_wait", "pthread_rwlock_clockrdlock", "pthread_spin_init", "mtx_lock"] {
            assert!(replaced.holds(name), "{name} is missing");
        }
        for name in ["pthread_mutexattr_init", "pthread_create", "lockswap_epoch_start"] {
            assert!(!replaced.holds(name), "{name} is no lock function");
        }
    }
}
