//! `lockswap study`: many programs on many locks, in a database, and what follows from it.

mod import;
mod merge;
mod report;
mod run;

use std::process::ExitCode;

use lockswap_study::survey::Unusable;

use crate::error::UserError;

const HELP: &str = "\
A study asks how locks do on many programs, at several levels of contention (\"nodes\"), and makes
the tables of Guiroux, Lachaize and Quéma's study (USENIX ATC 2016) of them, with intervals.
docs/study.md says how to make a fair one.

Examples:
  lockswap study run plan.toml
  lockswap study report plan.db --export plan.html
  lockswap study import litl A64.csv I48.csv --db litl.db
  lockswap study report litl.db --export litl.html --export tables/";

/// Compares locks on many programs at several levels of contention, as the LiTL study did.
#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct StudyArgs {
    #[command(subcommand)]
    command: StudyCommand,
}

#[derive(clap::Subcommand)]
enum StudyCommand {
    Import(import::ImportArgs),
    Merge(merge::MergeArgs),
    Report(report::ReportArgs),
    Run(run::RunArgs),
}

/// Runs `lockswap study`.
pub fn run(args: StudyArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        StudyCommand::Import(args) => import::run(&args),
        StudyCommand::Merge(args) => merge::run(&args),
        StudyCommand::Report(args) => report::run(&args),
        StudyCommand::Run(args) => run::run(&args),
    }
}

impl From<Unusable> for UserError {
    fn from(unusable: Unusable) -> Self {
        UserError::new(unusable.what, unusable.remedy)
    }
}
