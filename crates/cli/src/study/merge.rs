//! `lockswap study merge`: several databases become one.

use std::path::PathBuf;
use std::process::ExitCode;

use lockswap_study::survey::database::Database;

use crate::error::UserError;
use crate::terminal;

const EXAMPLES: &str = "\
The machines of a plan that was run in shards are one if the plan gives them one name,
machine = \"...\".

Examples:
  lockswap study merge shard1.db shard2.db --db all.db
  lockswap study merge here.db there.db --db both.db && lockswap study report both.db";

/// Joins databases of a plan that was run in shards, or of several machines.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct MergeArgs {
    /// The databases
    #[arg(required = true, value_name = "DB")]
    from: Vec<PathBuf>,
    /// The database that gets everything; it is made if there is none
    #[arg(long, value_name = "DB")]
    db: PathBuf,
}

/// Runs the command.
pub fn run(args: &MergeArgs) -> anyhow::Result<ExitCode> {
    let mut database = Database::create(&args.db).map_err(UserError::from)?;
    for other in &args.from {
        let runs = database.absorb(other).map_err(UserError::from)?;
        terminal::print(&format!("{}: {runs} runs\n", other.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
