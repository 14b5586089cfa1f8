//! `lockswap bench regret`: how far a lock stays behind the best one in each of many settings of this machine.

use super::session::{self, Part};
use super::{misuse, Common};
use crate::duration;
use crate::outputs::{Outputs, ALL_FORMS};
use crate::picture::footer;
use crate::regret::{read, Choice, MORE};
use crate::selection;
use crate::terminal::say;
use lockswap_experiment::hardware::series::Series;
use lockswap_experiment::regret::cells::{Cell, HARDWARE};
use lockswap_experiment::regret::finding::Finding;
use lockswap_experiment::regret::hardware::{estimate, findings, locks, possible, prepare, series};
use lockswap_experiment::regret::{output, Findings};
use lockswap_experiment::results::Machine;
use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_workloads::report::Report;
use std::collections::HashMap;
use std::process::ExitCode;

/// Arguments of `lockswap bench regret`.
#[derive(clap::Args)]
#[command(after_help = "\
Regret is throughput next to that of the best lock in the same cell, one of at most ten candidates
whose fairness factor is at most 0.8: docs/regret.md. --lock names the lock in question, --runs the
rounds [default: 12, and up to 48 in cells whose intervals are wide]. Either half of them measures
the lock that the other half has picked as the best.

Examples:
  lockswap bench regret
  lockswap bench regret --lock shfllock-b --only 1us,kv --runs 24
  lockswap bench regret --export regret.json --export regret.png
  lockswap bench regret --cells mine.toml")]
pub struct RegretArgs {
    #[command(flatten)]
    choice: Choice,
    /// Measured time of each run, but for programs [default: as long as the file says, 60ms and more]
    #[arg(long, value_name = "TIME", value_parser = duration::run)]
    duration: Option<Ns>,
}

/// Runs `lockswap bench regret`.
pub fn run(args: &RegretArgs, common: &Common) -> anyhow::Result<ExitCode> {
    if common.all || common.lock.len() > 1 {
        return Err(misuse("regret is that of one lock", "write --lock ID with one ID"));
    }
    let subject = common.lock.first().map_or(Role::Mutex.default_id(), String::as_str);
    let subject = selection::named(Role::Mutex, subject)?;
    let (cells, chosen) = read(&args.choice, "hardware.toml", HARDWARE)?;
    if chosen.iter().any(|cell| cell.machine.is_some()) {
        return Err(misuse("these cells are those of described machines", "lockswap sim regret simulates them"));
    }
    let rounds = common.runs.unwrap_or(cells.rounds);
    let most = common.runs.unwrap_or(cells.most_rounds) as usize;
    if rounds < 2 {
        return Err(misuse("one round picks the best lock, and none measures it", "write --runs 2 or more"));
    }
    // What is wrong with files shows before anything is prepared.
    Outputs::prepare(&common.outputs, ALL_FORMS)?;
    let (mut chosen, mut skipped) = possible(chosen);
    let folders = folders(&mut chosen, &mut skipped)?;
    for (cell, why) in &skipped {
        say(&format!("skipped: {}: {why}", cell.id));
    }
    let locks = locks(&subject, &cells);
    let time = estimate(&chosen, locks.len(), rounds, args.duration) / 1_000_000_000;
    say(&format!(
        "{} cells, {} locks, {rounds} rounds: about {} min {} s{}",
        chosen.len(),
        locks.len(),
        time / 60,
        time % 60,
        if most > rounds as usize { MORE } else { "" }
    ));
    let folder = |cell: &Cell| folders.get(&cell.id).map_or(String::new(), |dir| dir.path().display().to_string());
    let series = series(&chosen, &locks, args.duration, common.seed, folder);
    let found = |series: &Series<Report>| Findings {
        cells: &cells,
        subject: &subject,
        held_out: args.choice.held_out,
        simulated: false,
        found: findings(series, &chosen, cells.fairness_factor),
        skipped: &skipped,
        seed: series.seed,
        rounds,
    };
    let more = |series: &Series<Report>| {
        let found = findings(series, &chosen, cells.fairness_factor).into_iter().enumerate();
        let wide = |finding: &Finding| !finding.is_precise() && finding.subject.rounds.len() + rounds as usize <= most;
        found.filter(|(_, finding)| wide(finding)).map(|(group, _)| group).collect()
    };
    let part = Part {
        rounds,
        more: Some(&more),
        measures: Vec::new(),
        json: &|series, machine: &Machine| output::json(&found(series), Some(machine)),
        csv: &|series| output::csv(&found(series)),
        page: &|series| output::page(&found(series)),
        picture: &|series, look| output::draw(&found(series), footer(&[format!("seed {}", series.seed)])).render(look),
    };
    session::run(&Common { runs: Some(rounds), ..common.clone() }, series, &part)
}

/// A folder for each program that needs one, with what was prepared in it. A cell for which that fails is skipped.
fn folders(
    chosen: &mut Vec<Cell>,
    skipped: &mut Vec<(Cell, String)>,
) -> anyhow::Result<HashMap<String, tempfile::TempDir>> {
    let mut folders = HashMap::new();
    let mut left = Vec::new();
    for cell in chosen.drain(..) {
        let dir = tempfile::Builder::new().prefix("lockswap-").tempdir()?;
        match prepare(&cell, dir.path()) {
            Ok(()) => {
                folders.insert(cell.id.clone(), dir);
                left.push(cell);
            }
            Err(why) => skipped.push((cell, why)),
        }
    }
    *chosen = left;
    Ok(folders)
}
