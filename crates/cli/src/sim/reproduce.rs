//! `lockswap sim reproduce`: what the papers claim, next to what the simulated machines show.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lockswap_experiment::claims::golden::Golden;
use lockswap_experiment::claims::output::{csv, full_page, json, page};
use lockswap_experiment::claims::{claims, Claim, Examination, Outcome, Runs};
use lockswap_experiment::host::today;
use lockswap_experiment::simulated::{run_more, Row};
use lockswap_study::export::{Format, OutputFile};
use lockswap_study::runner::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{advance, bar, print_data, shown, starting, Interrupted};
use crate::error::{UserError, USAGE};
use crate::outputs::{OutputArgs, Outputs, Wanted};
use crate::picture::footer;
use crate::terminal;

/// Arguments of `lockswap sim reproduce`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lockswap sim reproduce
  lockswap sim reproduce --only cna --seeds 10
  lockswap sim reproduce --export claims.json
  lockswap sim reproduce --write-golden golden.csv --export reproduced.md

The last one accepts the numbers of this run. Otherwise they are compared with those of the golden
file that the program was built with. A claim leaves its golden value where the mean of the seeds
is below the least or above the most that the golden seeds had, by more than 1 % of the golden
mean.

Exit status: 0; 1 if a claim has left its golden value or a file cannot be written; 2 for wrong
usage; 130 after Ctrl-C. Whether claims agree with the papers does not change it.")]
pub struct ReproduceArgs {
    /// Claims whose names begin so: cna, ron, shfl, m1, cna-70
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Runs of each number at the most, with seeds from 1 on: 2, and half as many more until its interval is narrow
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
    /// Numbers that the claims had before, instead of those that this program was built with
    #[arg(long, value_name = "FILE")]
    golden: Option<PathBuf>,
    /// Accepts the numbers of this run: writes them to FILE.csv; claims that are not simulated now keep what it says
    #[arg(long, value_name = "FILE", conflicts_with = "golden")]
    write_golden: Option<PathBuf>,
}

/// Where the numbers lie that the program is built with.
const GOLDEN: &str = "crates/experiment/src/claims/golden.csv";

/// The claims that begin so; all if nothing is wanted.
pub(super) fn chosen(only: &[String]) -> Result<Vec<Claim>, UserError> {
    let mut chosen = claims();
    if !only.is_empty() {
        let ids: Vec<String> = chosen.iter().map(|claim| claim.id.clone()).collect();
        chosen.retain(|claim| only.iter().any(|only| claim.id.starts_with(only.as_str())));
        if chosen.is_empty() {
            let what = format!("there is no claim whose name begins with '{}'", only.join(","));
            return Err(UserError::new(what, format!("use one of: {}", ids.join(", "))).with_status(USAGE));
        }
    }
    Ok(chosen)
}

const CLAIMS: Interrupted =
    ("no claim had been simulated to its end", "the table shows the claims that were simulated until then");

/// The numbers in this file.
fn read_golden(file: &Path) -> Result<Golden, UserError> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        let what = format!("cannot read the golden file {}: {error}", file.display());
        UserError::new(what, "--write-golden FILE writes such a file")
    })?;
    Ok(Golden::read(&file.display().to_string(), &text)?)
}

/// The file to which numbers are accepted.
struct Accepting {
    file: OutputFile,
    before: Golden,
}

impl Accepting {
    /// Checks the file before anything is simulated.
    fn prepare(path: &Path) -> Result<Self, UserError> {
        let file = OutputFile::prepare(path).map_err(|error| {
            UserError::new(format!("cannot write {}: {error}", path.display()), "name a file that you can write to")
        })?;
        let before = if path.exists() { read_golden(path)? } else { Golden::default() };
        Ok(Self { file, before })
    }

    fn write(&self, outcomes: &[Outcome<'_>]) -> anyhow::Result<()> {
        let all = claims();
        let golden = self.before.updated(outcomes, all.iter().map(|claim| claim.id.as_str()));
        Ok(self.file.replace(&golden.write()?)?)
    }
}

/// Compares with what the numbers were.
fn compare(golden: &Golden, outcomes: &[Outcome<'_>]) -> Result<(), UserError> {
    let left = golden.left_by(outcomes);
    if left.is_empty() {
        return Ok(());
    }
    let claims =
        if left.len() == 1 { "1 claim has left its golden value" } else { "claims have left their golden values" };
    let count = if left.len() == 1 { String::new() } else { format!("{} ", left.len()) };
    Err(UserError::new(
        format!("{count}{claims}:\n  {}", left.join("\n  ")),
        format!(
            "find out which change did it. If it is meant to: \
             lockswap sim reproduce --write-golden {GOLDEN} --export docs/reproduced.md, and build again"
        ),
    ))
}

/// Runs the command.
pub fn run(args: &ReproduceArgs, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let chosen = chosen(&args.only)?;
    let golden = args.golden.as_deref().map_or_else(|| Ok(Golden::built_in()), read_golden)?;
    let accepting = args.write_golden.as_deref().map(Accepting::prepare).transpose()?;
    let mut files = Outputs::prepare(output, &["json", "csv", "md", "html"])?;
    let examination = Examination::of(chosen, args.seeds);
    let mut finish = |runs: &Runs<'_>, rows: &[Option<Row>]| -> anyhow::Result<bool> {
        let outcomes = examination.outcomes(runs, rows);
        match output.format.data() {
            None => terminal::print(&shown(&page(&outcomes, args.seeds)))?,
            Some(format) => print_data(&render(format, &outcomes, args.seeds)?)?,
        }
        files.write(true, |wanted| match wanted {
            Wanted::Data(format) => render(format, &outcomes, args.seeds),
            Wanted::Picture(_) => Err(io::ErrorKind::Unsupported.into()),
        });
        Ok(files.tell())
    };
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let mut runs = examination.first_runs();
    let bar = bar(runs.jobs.len() as u64);
    let mut rows = Vec::new();
    loop {
        rows = run_more(&runs.jobs, rows, starting(&bar), |rows| {
            advance(&bar, &interrupt, rows, CLAIMS, || {
                let is_any = !examination.outcomes(&runs, rows).is_empty();
                if is_any {
                    finish(&runs, rows)?;
                }
                Ok(is_any)
            })
        })?;
        if !examination.add_runs(&mut runs, &rows) {
            break;
        }
        bar.set_length(runs.jobs.len() as u64);
    }
    bar.finish_and_clear();
    let written = finish(&runs, &rows)?;
    let outcomes = examination.outcomes(&runs, &rows);
    match accepting {
        Some(accepting) => accepting.write(&outcomes)?,
        None => compare(&golden, &outcomes)?,
    }
    Ok(if written { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn render(format: Format, outcomes: &[Outcome<'_>], seeds: u32) -> io::Result<Vec<u8>> {
    let whole = || full_page(outcomes, seeds, &footer(&[today()]));
    match format {
        Format::Json => Ok(json(outcomes, seeds)?),
        Format::Csv => csv(outcomes),
        Format::Markdown => Ok(whole().markdown().into_bytes()),
        Format::Html => Ok(whole().html().into_bytes()),
    }
}
