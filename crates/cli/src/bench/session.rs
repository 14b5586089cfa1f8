//! A series of measurements, from the first round to the files and the table.

use super::{environment, Common};
use crate::outputs::{Outputs, Wanted, ALL_FORMS};
use crate::{picture, terminal};
use lockswap_experiment::hardware::series::{Measure, Series};
use lockswap_experiment::results::Machine;
use lockswap_plot::Look;
use lockswap_study::draw::{ratios, About};
use lockswap_study::export::Format;
use lockswap_study::machine::Machine as Host;
use lockswap_study::page::Page;
use lockswap_study::runner::Interrupt;
use lockswap_study::stats;
use lockswap_study::summary::Row;
use lockswap_workloads::little;
use lockswap_workloads::workload::Workload;
use serde::de::DeserializeOwned;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::io::{self, Write};
use std::process::ExitCode;

/// Everything about a series on a machine, as JSON.
type Json<'a, T> = dyn Fn(&Series<T>, &Machine) -> io::Result<Vec<u8>> + 'a;

/// Groups that get more rounds.
type More<'a, T> = dyn Fn(&Series<T>) -> Vec<usize> + 'a;

/// What a part does with its results.
pub struct Part<'a, T> {
    /// Rounds where none are asked for and fewer would do for a verdict.
    pub rounds: u32,
    /// Which groups, by their places, get as many rounds again, where that depends on the rounds so far.
    pub more: Option<&'a More<'a, T>>,
    /// What locks are compared by.
    pub measures: Vec<Measure<T>>,
    /// Everything, as JSON.
    pub json: &'a Json<'a, T>,
    /// A line for each run.
    pub csv: &'a dyn Fn(&Series<T>) -> io::Result<Vec<u8>>,
    /// The tables, and how to read them.
    pub page: &'a dyn Fn(&Series<T>) -> Page,
    /// A picture.
    pub picture: &'a dyn Fn(&Series<T>, Look) -> Vec<u8>,
}

/// Measures, writes the files and prints the tables; the exit status.
pub fn run<T: DeserializeOwned>(
    common: &Common,
    mut series: Series<T>,
    part: &Part<'_, T>,
) -> anyhow::Result<ExitCode> {
    let mut outputs = Outputs::prepare(&common.outputs, ALL_FORMS)?;
    crate::library::unpack()?;
    let machine = Machine::here();
    let little = little::environment(&series.seats);
    series.settle(|point| {
        let mut environment = environment(point.role, &point.lock)?;
        environment.extend(little.iter().cloned());
        anyhow::Ok(environment)
    })?;
    let enough = stats::fewest_rounds(series.comparisons(part.measures.len()));
    let rounds = common.runs.unwrap_or_else(|| part.rounds.max(enough));
    let bar = terminal::bar(0);
    let interrupt = interrupt()?;
    let content = |series: &Series<T>, wanted: Wanted| match wanted {
        Wanted::Data(Format::Json) => (part.json)(series, &machine),
        Wanted::Data(Format::Csv) => (part.csv)(series),
        Wanted::Data(Format::Markdown) => Ok(page(series, part, &machine).markdown().into_bytes()),
        Wanted::Data(Format::Html) => Ok(page(series, part, &machine).html().into_bytes()),
        Wanted::Picture(look) => Ok((part.picture)(series, look)),
    };
    let begin = |point: &lockswap_experiment::hardware::series::Point| bar.set_message(point.name());
    let program = std::env::current_exe()?;
    let (mut groups, mut made): (Vec<usize>, u32) = ((0..series.groups.len()).collect(), 0);
    while !groups.is_empty() && series.signal.is_none() {
        let points: usize = groups.iter().map(|group| series.groups[*group].measured.len()).sum();
        bar.inc_length(u64::from(rounds) * points as u64);
        series.run(&program, (&groups, made..made + rounds), &interrupt, begin, |series| {
            bar.inc(1);
            if outputs.keeps_files() {
                series.judge(&part.measures);
                outputs.write(false, |wanted| content(series, wanted));
            }
        });
        made += rounds;
        groups = part.more.map(|more| more(&series)).unwrap_or_default();
    }
    bar.finish_and_clear();
    series.judge(&part.measures);
    outputs.write(true, |wanted| content(&series, wanted));
    match common.outputs.format.data() {
        None => terminal::print_page(&page(&series, part, &machine))?,
        Some(format) => {
            let data = content(&series, Wanted::Data(format))?;
            terminal::print_data(&String::from_utf8_lossy(&data))?;
        }
    }
    let written = outputs.tell();
    if let Some(signal) = series.signal {
        return Ok(interrupted(signal));
    }
    Ok(if written && series.problems().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The part's page, with what all pages say.
fn page<T>(series: &Series<T>, part: &Part<'_, T>, machine: &Machine) -> Page {
    let mut page = (part.page)(series);
    page.notes.push(machine.title.clone());
    let rounds = match series.rounds() {
        (fewest, most) if fewest < most => format!("{fewest} to {most}"),
        (_, most) => most.to_string(),
    };
    page.notes.push(format!("rounds of all locks in random order: {rounds}; seed {}", series.seed));
    let problems = series.problems();
    page.notes.extend(problems);
    page.notes.extend(machine.host.as_ref().and_then(Host::busy_note));
    page
}

/// Catches what ends a series early.
pub fn interrupt() -> io::Result<Interrupt> {
    Interrupt::on(&[SIGINT, SIGTERM, SIGHUP])
}

/// Says that there is less than was asked for; the exit status.
pub fn interrupted(signal: i32) -> ExitCode {
    // Stderr may be closed.
    let _ = writeln!(io::stderr(), "interrupted: the table shows what was measured until then");
    ExitCode::from(128u8.wrapping_add(signal as u8))
}

/// Ratios as a picture.
pub fn picture(rows: &[&Row], title: &str, baseline: &str, seed: u64, look: Look) -> Vec<u8> {
    let about = About {
        title: title.to_owned(),
        axis: format!("times as fast as {baseline} (above 1 is better)"),
        footer: picture::footer(&[format!("seed {seed}")]),
        baseline: baseline.to_owned(),
        is_time: Workload::is_time,
    };
    ratios(about, rows, look)
}
