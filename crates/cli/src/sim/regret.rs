//! `lockswap sim regret`: how far a lock stays behind the best one in each of many settings of described machines.

use std::io;
use std::process::ExitCode;

use lockswap_experiment::regret::cells::SIMULATED;
use lockswap_experiment::regret::simulated::{locks, Plan};
use lockswap_experiment::regret::{output, Findings};
use lockswap_experiment::simulated::{run_more, Row};
use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_study::export::Format;
use lockswap_study::runner::Interrupt;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{advance, bar, print_data, say, shown, starting, Throttle, DURATIONS, RUNS};
use crate::duration::within;
use crate::error::{UserError, USAGE};
use crate::outputs::{OutputArgs, Outputs, Wanted, ALL_FORMS};
use crate::picture::footer;
use crate::regret::{read, Choice, MORE};
use crate::selection;
use crate::terminal;

const EXAMPLES: &str = "\
Regret is throughput next to that of the best lock in the same cell, one of at most ten candidates
whose fairness factor is at most 0.8: docs/regret.md.

Examples:
  lockswap sim regret
  lockswap sim regret --lock c-bo-mcs_stp --only xeon-e5-2699v3,apple-m1/short
  lockswap sim regret --seeds 2 --export regret.json --export regret.png
  lockswap sim regret --cells mine.toml --duration 1ms";

/// Measures how far a lock stays behind the best one of each setting, on many machines, and draws it
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RegretArgs {
    /// The lock in question
    #[arg(short = 'l', long, value_name = "ID", default_value = Role::Mutex.default_id())]
    lock: String,
    #[command(flatten)]
    choice: Choice,
    /// Measured virtual time of each run, after a warm-up of a tenth of it [default: as long as the file says]
    #[arg(long, value_name = "TIME", value_parser = within(DURATIONS))]
    duration: Option<Ns>,
    /// The first seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Runs of each lock in each cell, with seeds from --seed on: either half of them measures the lock that the other
    /// half has picked as the best; 6 or more give intervals [default: 12, and in cells whose intervals are wide up to
    /// 96]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=100))]
    seeds: Option<u32>,
}

/// Runs the command.
pub fn run(args: &RegretArgs, output: &OutputArgs) -> anyhow::Result<ExitCode> {
    selection::read_simulated(Role::Mutex, args.lock.trim())?;
    let subject = selection::named(Role::Mutex, &args.lock)?;
    let (cells, chosen) = read(&args.choice, "simulated.toml", SIMULATED)?;
    if chosen.iter().any(|cell| cell.machine.is_none()) {
        let remedy = "lockswap bench regret measures them";
        return Err(UserError::new("these cells are those of the real machine", remedy).with_status(USAGE).into());
    }
    cells.candidates.iter().try_for_each(|lock| selection::read_simulated(Role::Mutex, lock).map(drop))?;
    let mut files = Outputs::prepare(output, ALL_FORMS)?;
    let first = args.seeds.unwrap_or(cells.rounds);
    let most = args.seeds.unwrap_or(cells.most_rounds);
    let seeds = args.seed..args.seed.saturating_add(u64::from(first));
    let locks = locks(&subject, &cells);
    let mut plan = Plan::new(chosen, (locks, &cells.candidates), cells.fairness_factor, (seeds, args.duration))?;
    let minutes = plan.estimate() / 60.0;
    let runs = plan.jobs().len();
    say(&format!(
        "{} cells, {} locks, {runs} runs: about {minutes:.1} min{}",
        plan.cells.len(),
        plan.locks.len(),
        if most > first { MORE } else { "" }
    ));
    let found = |plan: &Plan, rows: &[Option<Row>]| Findings {
        cells: &cells,
        subject: &subject,
        held_out: args.choice.held_out,
        simulated: true,
        found: plan.findings(rows),
        skipped: &[],
        seed: args.seed,
        rounds: first,
    };
    let content = |found: &Findings<'_>, wanted: Wanted| match wanted {
        Wanted::Data(format) => render(format, found),
        Wanted::Picture(look) => Ok(output::draw(found, footer(&[])).render(look)),
    };
    let mut finish = |plan: &Plan, rows: &[Option<Row>], is_end: bool| -> anyhow::Result<bool> {
        let found = found(plan, rows);
        files.write(is_end, |wanted| content(&found, wanted));
        if is_end {
            match output.format.data() {
                None => terminal::print(&shown(&output::page(&found)))?,
                Some(format) => print_data(&render(format, &found)?)?,
            }
        }
        Ok(files.tell() || !is_end)
    };
    let interrupt = Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])?;
    let mut written = Throttle::default();
    let bar = bar(runs as u64);
    let mut rows = Vec::new();
    loop {
        let jobs = plan.jobs();
        bar.set_length(jobs.len() as u64);
        rows = run_more(&jobs, rows, starting(&bar), |rows| {
            advance(&bar, &interrupt, rows, RUNS, || {
                let is_any = rows.iter().any(Option::is_some);
                if is_any {
                    finish(&plan, rows, true)?;
                }
                Ok(is_any)
            })?;
            let mut kept = Ok(true);
            written.now_and_then(rows, || kept = finish(&plan, rows, false));
            kept.map(|_| ())
        })?;
        if !plan.extend(&rows, most) {
            break;
        }
    }
    bar.finish_and_clear();
    let written = finish(&plan, &rows, true)?;
    let has_failed = rows.iter().flatten().any(|row| row.outcome.is_err());
    Ok(if written && !has_failed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn render(format: Format, found: &Findings<'_>) -> io::Result<Vec<u8>> {
    let page = || {
        let mut page = output::page(found);
        page.notes.push(footer(&[]));
        page
    };
    match format {
        Format::Json => output::json(found, None),
        Format::Csv => output::csv(found),
        Format::Markdown => Ok(page().markdown().into_bytes()),
        Format::Html => Ok(page().html().into_bytes()),
    }
}
