//! `lockswap bench simulator`: how fast the simulated machine is on this one; with `--targets`, next to what it is
//! meant to be.

use super::{session, Common};
use crate::outputs::{Outputs, Wanted, ALL_FORMS};
use crate::{picture, terminal};
use anyhow::Context;
use lockswap_experiment::hardware::simulator::{self, Speed};
use lockswap_experiment::results::Machine;
use lockswap_plot::{Row as Bar, Rows};
use lockswap_study::export::Format;
use lockswap_study::machine::Machine as Host;
use std::process::ExitCode;

/// Rounds where none are asked for.
const ROUNDS: u32 = 5;

/// Runs `lockswap bench simulator`.
pub fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let mut outputs = Outputs::prepare(&common.outputs, ALL_FORMS)?;
    let machine = Machine::here();
    let rounds = common.runs.unwrap_or(ROUNDS);
    let mut speeds = simulator::speeds();
    let bar = terminal::bar(u64::from(rounds) * speeds.len() as u64);
    let interrupt = session::interrupt()?;
    let page = |speeds: &[Speed]| {
        let mut page = simulator::page(speeds, common.targets);
        page.notes.push(machine.title.clone());
        page.notes.extend(machine.host.as_ref().and_then(Host::busy_note));
        page
    };
    let content = |speeds: &[Speed], wanted: Wanted| match wanted {
        Wanted::Data(Format::Json) => simulator::json(speeds, &machine),
        Wanted::Data(Format::Csv) => simulator::csv(speeds),
        Wanted::Data(Format::Markdown) => Ok(page(speeds).markdown().into_bytes()),
        Wanted::Data(Format::Html) => Ok(page(speeds).html().into_bytes()),
        Wanted::Picture(look) => {
            let bar = |speed: &Speed| {
                Bar::new(format!("{}, {} threads, {}", speed.lock, speed.threads, speed.machine), speed.rate())
            };
            let bars = simulator::measured(speeds).map(bar).collect();
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
        None => terminal::print_page(&page(&speeds))?,
        Some(format) => {
            terminal::print_data(&String::from_utf8_lossy(&content(&speeds, Wanted::Data(format))?))?;
        }
    }
    let status = if outputs.tell() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    Ok(interrupt.signal().map_or(status, session::interrupted))
}
