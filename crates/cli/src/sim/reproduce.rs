//! `lockswap sim reproduce`: what the papers claim, next to what the simulated machines show.

use std::io;
use std::process::ExitCode;

use lockswap_experiment::claims::{claims, csv, json, Basis, Examination, Outcome, Relation};
use lockswap_experiment::simulated::output::page_table;
use lockswap_experiment::simulated::{run_each, Row};
use lockswap_study::export::Format;
use lockswap_study::runner::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{bar, give_up, paragraph, print_data, starting};
use crate::error::{UserError, USAGE};
use crate::outputs::{OutputArgs, Outputs, Wanted};
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
    let mut files = Outputs::prepare(output, &["json", "csv", "md"])?;
    let examination = Examination::of(chosen, args.seeds);
    let runs = examination.runs();
    let mut finish = |rows: &[Option<Row>]| -> anyhow::Result<bool> {
        let outcomes = examination.outcomes(&runs, rows);
        match output.format.data() {
            None => terminal::print(&text(&outcomes, args.seeds))?,
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
    match format {
        Format::Json => Ok(json(outcomes, seeds)?),
        Format::Csv => csv(outcomes),
        Format::Markdown => {
            let rows: Vec<Vec<String>> = outcomes.iter().map(|outcome| cells(outcome).to_vec()).collect();
            let rest = notes(outcomes, seeds).join("\n\n");
            Ok(format!("{}\n{rest}\n", page_table(&HEADINGS.map(str::to_owned), 1, &rows).markdown()).into_bytes())
        }
        Format::Html => Err(io::ErrorKind::Unsupported.into()),
    }
}

fn digits(number: f64) -> String {
    match number.abs() {
        n if n >= 100.0 => format!("{number:.0}"),
        n if n >= 10.0 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

const HEADINGS: [&str; 8] = ["claim", "paper", "simulated", "ratio", "", "basis", "min..max", "what"];

fn cells(outcome: &Outcome<'_>) -> [String; 8] {
    let claim = outcome.claim;
    let end = |pick: fn(f64, f64) -> f64| outcome.simulated.iter().copied().reduce(pick).map(digits);
    let range = end(f64::min).zip(end(f64::max)).map(|(least, most)| format!("{least}..{most}"));
    let paper = match claim.relation {
        Relation::About => digits(claim.value),
        Relation::AtLeast => format!(">= {}", digits(claim.value)),
        Relation::AtMost => format!("<= {}", digits(claim.value)),
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    [
        claim.id.clone(),
        paper,
        or_dash(outcome.mean.map(digits)),
        or_dash(outcome.mean.map(|mean| format!("{:.2}", mean / claim.value))),
        if outcome.agrees { "agrees" } else { "DISAGREES" }.to_owned(),
        claim.basis.name().to_owned(),
        or_dash(range),
        format!("{} ({}; {})", claim.says, claim.source, claim.machine),
    ]
}

fn text(outcomes: &[Outcome<'_>], seeds: u32) -> String {
    let mut table = terminal::table(&HEADINGS, &[1, 2, 3, 6]);
    outcomes.iter().for_each(|outcome| {
        table.add_row(cells(outcome));
    });
    let notes: String = notes(outcomes, seeds).iter().map(|note| paragraph(note)).collect();
    format!("{}\n{notes}", terminal::lines(&table))
}

/// What stands below the table, a paragraph each.
fn notes(outcomes: &[Outcome<'_>], seeds: u32) -> Vec<String> {
    let agree = outcomes.iter().filter(|outcome| outcome.agrees).count();
    let predicted = outcomes.iter().filter(|outcome| outcome.claim.basis == Basis::Predicted);
    let (right, all) = predicted.fold((0, 0), |(right, all), o| (right + usize::from(o.agrees), all + 1));
    let mut notes = vec![
        format!(
            "{agree} of {} claims agree, {right} of the {all} predicted ones; mean of {seeds} seeds. ratio: simulated / paper.",
            outcomes.len()
        ),
        "A claim agrees if the mean lies within the range that claims.toml states for it. amd-2990wx is held out of every \
         fit."
        .to_owned(),
    ];
    let failed = outcomes.iter().filter_map(|outcome| Some((outcome.claim, outcome.failures.first()?)));
    notes.extend(failed.map(|(claim, failure)| format!("{}: {failure}", claim.id)));
    notes
}
