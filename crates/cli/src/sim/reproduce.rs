//! `lockswap sim reproduce`: what the papers claim, next to what the simulated machines show.

use std::io;
use std::process::ExitCode;

use lockswap_experiment::claims::output::{csv, full_page, json, page};
use lockswap_experiment::claims::{claims, Examination, Outcome};
use lockswap_experiment::host::today;
use lockswap_experiment::simulated::{run_each, Row};
use lockswap_study::export::Format;
use lockswap_study::runner::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{bar, give_up, print_data, shown, starting};
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
  lockswap sim reproduce --export claims.json")]
pub struct ReproduceArgs {
    /// Claims whose names begin so: cna, ron, shfl, m1, cna-70
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Runs of each number, with seeds from 1 on
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    seeds: u32,
}

/// Runs the command.
pub fn run(args: &ReproduceArgs, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    let mut chosen = claims();
    if !args.only.is_empty() {
        let ids: Vec<String> = chosen.iter().map(|claim| claim.id.clone()).collect();
        chosen.retain(|claim| args.only.iter().any(|only| claim.id.starts_with(only.as_str())));
        if chosen.is_empty() {
            let what = format!("there is no claim whose name begins with '{}'", args.only.join(","));
            return Err(UserError::new(what, format!("use one of: {}", ids.join(", "))).with_status(USAGE).into());
        }
    }
    let mut files = Outputs::prepare(output, &["json", "csv", "md", "html"])?;
    let examination = Examination::of(chosen, args.seeds);
    let runs = examination.runs();
    let mut finish = |rows: &[Option<Row>]| -> anyhow::Result<bool> {
        let outcomes = examination.outcomes(&runs, rows);
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
    let bar = bar(runs.jobs.len() as u64);
    let rows = run_each(&runs.jobs, starting(&bar), |rows| {
        bar.set_position(rows.iter().flatten().count() as u64);
        if let Some(signal) = interrupt.signal() {
            bar.finish_and_clear();
            if examination.outcomes(&runs, rows).is_empty() {
                give_up(signal, "no claim had been simulated to its end");
            }
            finish(rows)?;
            give_up(signal, "the table shows the claims that were simulated until then");
        }
        anyhow::Ok(())
    })?;
    bar.finish_and_clear();
    Ok(if finish(&rows)? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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
