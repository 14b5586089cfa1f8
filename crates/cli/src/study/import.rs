//! `lockswap study import`: data that others published becomes part of a database.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lockswap_study::survey::database::{Database, Source};
use lockswap_study::survey::litl;

use crate::error::{UserError, USAGE};
use crate::terminal;

const EXAMPLES: &str = "\
Formats: litl, the data that the authors of LiTL published: CSV files with the columns bench,
node, strategy, throughput and, in some, latency; a line is a run. Each file is a machine, called
after the file. A file is imported as a whole or, if a line of it cannot be read, not at all.

Examples:
  lockswap study import litl A64.csv I48.csv --db litl.db
  lockswap study import litl results.csv --machine opteron --db litl.db";

/// Reads data that others published into a database.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Form of the files
    #[arg(value_parser = ["litl"])]
    format: String,
    /// The files
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The database; it is made if there is none
    #[arg(long, value_name = "DB")]
    db: PathBuf,
    /// What the machine is called [default: the file's name without its ending]
    #[arg(long, value_name = "NAME")]
    machine: Option<String>,
}

/// Runs the command.
pub fn run(args: &ImportArgs) -> anyhow::Result<ExitCode> {
    if args.machine.is_some() && args.files.len() > 1 {
        let remedy = "import them one after the other, each with its --machine";
        return Err(UserError::new("--machine names one machine, and there are several files", remedy)
            .with_status(USAGE)
            .into());
    }
    // All are read and looked at before the first is added, so that a bad one leaves nothing half done.
    let read = args.files.iter().map(|path| Ok((path, read(path)?))).collect::<Result<Vec<_>, UserError>>()?;
    let mut database = Database::create(&args.db).map_err(UserError::from)?;
    let sources = database.sources().map_err(UserError::from)?;
    let mut known: Vec<String> = sources.into_iter().map(|(_, source)| source.machine).collect();
    let machine_of = |path: &Path| args.machine.clone().unwrap_or_else(|| stem(path));
    for machine in args.files.iter().map(|path| machine_of(path)) {
        if known.contains(&machine) {
            let what = format!("{} has runs of {machine} already, or two files have its name", args.db.display());
            let remedy = "import into a new database, or give it another name with --machine";
            return Err(UserError::new(what, remedy).into());
        }
        known.push(machine);
    }
    for (path, file) in read {
        let machine = machine_of(path);
        let name = path.display().to_string();
        let source = Source { kind: args.format.clone(), machine, name, details: "{}".into() };
        database.add(&source, &file.quantities, &file.runs).map_err(UserError::from)?;
        let mut line = format!("{}: {} runs of machine {}", path.display(), file.runs.len(), source.machine);
        if !file.left_out.is_empty() {
            line += &format!("; left out: {}", file.left_out.join(", "));
        }
        terminal::print(&format!("{line}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Of a file; LiTL's have 1.5 MB at most.
const MOST_BYTES: u64 = 256 << 20;

fn read(path: &Path) -> Result<litl::File, UserError> {
    let name = path.display().to_string();
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut text));
    read.map_err(|error| UserError::new(format!("cannot read {name}: {error}"), "name a CSV file that you can read"))?;
    if text.len() as u64 > MOST_BYTES {
        let what = format!("{name} is larger than {} MiB", MOST_BYTES >> 20);
        return Err(UserError::new(what, "divide it, and import each part"));
    }
    Ok(litl::read(&name, text.as_slice())?)
}

fn stem(path: &Path) -> String {
    path.file_stem().map_or_else(|| "machine".into(), |stem| stem.to_string_lossy().into_owned())
}
