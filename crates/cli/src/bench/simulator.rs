//! `lockswap bench simulator`: how fast the simulated machine is on this one; with `--targets`, next to what it is meant
//! to be.

use super::{session, Common};
use crate::outputs::{Outputs, Wanted, ALL_FORMS};
use crate::{picture, terminal};
use anyhow::Context;
use lockswap_experiment::hardware::simulator::{self, Speed, Target};
use lockswap_experiment::results::Machine;
use lockswap_plot::{Row as Bar, Rows};
use lockswap_study::export::Format;
use lockswap_study::page::{Page, Row, Table};
use lockswap_study::summary::Judgement;
use std::process::ExitCode;

/// Rounds where none are asked for.
const ROUNDS: u32 = 5;

/// Runs `lockswap bench simulator`.
pub fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let mut outputs = Outputs::prepare(&common.outputs, ALL_FORMS)?;
    let machine = Machine::here();
    let rounds = common.runs.unwrap_or(ROUNDS);
    let mut speeds = simulator::speeds();
    let bar = crate::compare::bar(u64::from(rounds) * speeds.len() as u64);
    let interrupt = session::interrupt()?;
    let content = |speeds: &[Speed], wanted: Wanted| match wanted {
        Wanted::Data(Format::Json) => simulator::json(speeds, &machine),
        Wanted::Data(Format::Csv) => simulator::csv(speeds),
        Wanted::Data(Format::Markdown) => Ok(page(speeds, common.targets, &machine).markdown().into_bytes()),
        Wanted::Data(Format::Html) => Ok(page(speeds, common.targets, &machine).html().into_bytes()),
        Wanted::Picture(look) => {
            let bar = |speed: &Speed| {
                Bar::new(format!("{}, {} threads, {}", speed.lock, speed.threads, speed.machine), speed.rate())
            };
            let bars = measured(speeds).map(bar).collect();
            let axis = "million simulated memory operations per second of CPU time";
            Ok(Rows::bars("lockswap bench simulator", axis, bars).footer(picture::footer(&[])).render(look))
        }
    };
    'rounds: for _ in 0..rounds {
        for index in 0..speeds.len() {
            let speed = &mut speeds[index];
            bar.set_message(format!("{}, {} threads", speed.lock, speed.threads));
            let lock = speed.lock;
            speed.measure()?.map_err(|failure| anyhow::anyhow!("{failure}")).context(lock)?;
            bar.inc(1);
            outputs.write(false, |wanted| content(&speeds, wanted));
            if interrupt.signal().is_some() {
                break 'rounds;
            }
        }
    }
    bar.finish_and_clear();
    outputs.write(true, |wanted| content(&speeds, wanted));
    match common.outputs.format.data() {
        None => terminal::print_page(&page(&speeds, common.targets, &machine))?,
        Some(format) => {
            terminal::print_data(&String::from_utf8_lossy(&content(&speeds, Wanted::Data(format))?))?;
        }
    }
    let status = if outputs.tell() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(interrupt.signal().map_or(status, session::interrupted))
}

fn measured(speeds: &[Speed]) -> impl Iterator<Item = &Speed> {
    speeds.iter().filter(|speed| !speed.cpu_seconds.is_empty())
}

/// The table, with `targets` and whether each is met where they are wanted.
fn page(speeds: &[Speed], targets: bool, machine: &Machine) -> Page {
    let mut columns = vec![("lock", false), ("threads", true), ("machine", false)];
    columns.extend([("memory operations", true), ("CPU time", true), ("per CPU-second", true)]);
    if targets {
        columns.extend([("target", true), ("", false)]);
    }
    let row = |speed: &Speed| {
        let mut cells = vec![
            speed.lock.to_owned(),
            speed.threads.to_string(),
            speed.machine.to_owned(),
            format!("{:.2} M", speed.memory_operations as f64 / 1e6),
            format!("{:.3} s", speed.median_cpu_seconds()),
            format!("{:.1} M", speed.rate()),
        ];
        if targets {
            cells.push(match speed.target {
                Target::MillionsPerCpuSecond(least) => format!(">= {least} M"),
                Target::CpuSeconds(most) => format!("<= {most} s"),
                Target::Ends => "ends".to_owned(),
            });
            cells.push(if speed.is_reached() { "ok" } else { "MISS" }.to_owned());
        }
        Row { cells, judgement: Judgement::Baseline }
    };
    let columns = columns.into_iter().map(|(heading, numeric)| (heading.to_owned(), numeric)).collect();
    let rounds = speeds.iter().map(|speed| speed.cpu_seconds.len()).max().unwrap_or_default();
    let virtual_time = "20 ms of virtual time of counter, and of oversub with 4095 threads";
    let mut notes = vec![format!("{virtual_time}; medians of {rounds} rounds on one CPU")];
    if targets {
        let reached = measured(speeds).filter(|speed| speed.is_reached()).count();
        notes.push(format!("{reached} of {} targets reached", measured(speeds).count()));
    }
    notes.push(machine.title.clone());
    notes.extend(session::busy(machine));
    let table = Table { title: None, columns, rows: measured(speeds).map(row).collect() };
    Page { title: "lockswap bench simulator".to_owned(), tables: vec![table], notes, ..Page::default() }
}
