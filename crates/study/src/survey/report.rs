//! All that follows from a survey: sentences, tables, notes, and the files with them.

use std::io;

use lockswap_plot::{Axis, Chart, Format, Look, Series};
use serde::Serialize;

use super::answer;
use super::grid::{best, At, Grid, Numbers};
use super::resample::{add_intervals, interval};
use super::sheet::{percent, Colours, Entry, Row, Sheet};
use super::tables::{self, Wanted};
use super::Margins;
use crate::page::{self, Page};
use crate::summary::Judgement;

/// Version of the JSON shape.
pub const SCHEMA: u32 = 1;

/// Fewer runs than these give bootstrap intervals that are clearly too narrow.
const FEW_RUNS: usize = 5;

/// So many locks are drawn for each program: more lines cannot be told apart.
const CURVES: usize = 6;

/// Width of a picture on a page: two stand beside each other, and on a phone the text of one can still be read.
const PICTURE_WIDTH: f64 = 560.0;

/// How the report is computed.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// What counts as a difference.
    pub margins: Margins,
    /// Draws of the bootstrap.
    pub draws: u32,
    /// Seed of the draws.
    pub seed: u64,
}

/// A report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// [`SCHEMA`] of the writer.
    pub schema: u32,
    /// What was surveyed.
    pub title: String,
    /// What follows.
    pub answer: Vec<String>,
    /// The tables.
    pub sheets: Vec<Sheet>,
    /// What to mind.
    pub notes: Vec<String>,
    /// How each lock-sensitive program does on the best locks, over the numbers of nodes.
    #[serde(skip)]
    pub curves: Vec<Curve>,
}

/// The curves of a program on a machine.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The machine.
    pub machine: String,
    /// The program.
    pub program: String,
    /// What is drawn.
    pub chart: Chart,
}

impl Report {
    /// Computes everything. `measure` says what was measured.
    pub fn new(grids: &[Grid], measure: &str, settings: Settings) -> Self {
        let margins = settings.margins;
        let numbers: Vec<Numbers<'_>> = grids.iter().map(Grid::means).collect();
        let wanted = Wanted::new(&numbers, margins);
        let mut sheets = tables::all(&numbers, &wanted);
        add_intervals(&mut sheets, grids, &wanted, settings.draws, settings.seed);
        let mut answer = Vec::new();
        for (numbers, programs) in numbers.iter().zip(&wanted.programs) {
            let machine = &numbers.grid.machine;
            for (id, at) in [("gains-max", At::Most), ("gains-opt", At::Best)] {
                let of_machine = sheets.iter_mut().find(|sheet| sheet.id == id && sheet.machine == *machine);
                of_machine.into_iter().for_each(|sheet| mark_open(sheet, numbers, programs, at, margins.tie));
            }
            let typical = sheets.iter().find(|sheet| sheet.id == "typical" && sheet.machine == *machine);
            answer.extend(typical.into_iter().flat_map(|sheet| answer::sentences(numbers, programs, margins, sheet)));
        }
        for (numbers, programs) in numbers.iter().zip(&wanted.programs) {
            sheets.extend(tables::of_runs(numbers, programs, margins.tie));
        }
        let machines: Vec<&str> = grids.iter().map(|grid| grid.machine.as_str()).collect();
        let title = format!("Locks on {}", machines.join(", "));
        let of_machine = |(numbers, programs): (&Numbers<'_>, &Vec<usize>)| curves(numbers, programs, settings);
        let curves = numbers.iter().zip(&wanted.programs).flat_map(of_machine).collect();
        let notes = notes(grids, measure, settings);
        Self { schema: SCHEMA, title, answer, sheets, notes, curves }
    }

    /// Everything.
    pub fn json(&self) -> io::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// One line for each number: shares as fractions, with all digits.
    pub fn csv(&self) -> io::Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(["machine", "table", "row", "column", "value", "low", "high", "nodes", "open"])?;
        for sheet in &self.sheets {
            for row in &sheet.rows {
                for (column, entry) in sheet.columns.iter().zip(&row.entries) {
                    let about = [&sheet.machine, &sheet.id, &row.name, column].map(String::clone);
                    if let Some(numbers) = numbers_of(entry) {
                        writer.write_record(about.iter().chain(&numbers))?;
                    }
                }
            }
        }
        finished(writer)
    }

    /// A table as lines and columns.
    pub fn csv_of(sheet: &Sheet) -> io::Result<String> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        writer.write_record(std::iter::once(sheet.heading).chain(sheet.columns.iter().map(String::as_str)))?;
        for row in &sheet.rows {
            let value = |entry: &Entry| numbers_of(entry).map_or(String::new(), |[value, ..]| value);
            writer.write_record(std::iter::once(row.name.clone()).chain(row.entries.iter().map(value)))?;
        }
        finished(writer)
    }

    /// The tables with at most so many columns, and what is said about them.
    pub fn page(&self, columns: usize) -> Page {
        let several = self.sheets.iter().any(|sheet| sheet.machine != self.sheets[0].machine);
        let table = |sheet: &Sheet| {
            let place = if several { format!(" ({})", sheet.machine) } else { String::new() };
            let numeric = sheet.columns.iter().map(|column| (column.clone(), true));
            let row = |row: &Row| page::Row {
                cells: std::iter::once(row.name.clone()).chain(row.entries.iter().map(Entry::words)).collect(),
                judgement: Judgement::Baseline,
            };
            page::Table {
                title: Some(format!("{}{place}", sheet.title)),
                columns: std::iter::once((sheet.heading.to_owned(), false)).chain(numeric).collect(),
                rows: sheet.rows.iter().map(row).collect(),
                about: Some(sheet.about.clone()),
                colours: sheet.rows.iter().map(|row| colours(sheet, row)).collect(),
            }
        };
        Page {
            title: self.title.clone(),
            conclusion: self.answer.clone(),
            tables: self.sheets.iter().filter(|sheet| sheet.columns.len() <= columns).map(table).collect(),
            pictures: self.curves.iter().map(|curve| picture(&curve.chart)).collect(),
            notes: self.notes.clone(),
        }
    }
}

/// How strongly the cells of a row are coloured, its name among them.
fn colours(sheet: &Sheet, row: &Row) -> Vec<f64> {
    let strength = |entry: &Entry| match (entry, sheet.colours) {
        (Entry::Share(figure), Some(Colours::MoreIsBetter)) => figure.value,
        // Gains reach thousands of percent: ten times as good is the strongest colour.
        (Entry::Share(figure), Some(Colours::MoreIsWorse)) => -figure.value.max(0.0).ln_1p() / 10.0f64.ln(),
        _ => 0.0,
    };
    std::iter::once(0.0).chain(row.entries.iter().map(strength)).collect()
}

fn picture(chart: &Chart) -> page::Picture {
    // On the page its title stands above it.
    let untitled = Chart { title: String::new(), ..chart.clone() };
    let look = Look::new(Format::Svg).width(PICTURE_WIDTH);
    page::Picture { caption: chart.title.clone(), is_wide: false, svg: untitled.render(look) }
}

/// A chart for each lock-sensitive program that has several numbers of nodes.
fn curves(numbers: &Numbers<'_>, programs: &[usize], settings: Settings) -> Vec<Curve> {
    let shown = programs.iter().filter(|program| numbers.nodes(**program).len() > 1);
    let of = |program: &usize| Curve {
        machine: numbers.grid.machine.clone(),
        program: numbers.grid.programs[*program].clone(),
        chart: curve(numbers, *program, settings),
    };
    shown.map(of).collect()
}

/// The locks that are best at opt nodes, with intervals.
fn curve(numbers: &Numbers<'_>, program: usize, settings: Settings) -> Chart {
    let grid = numbers.grid;
    let nodes = numbers.nodes(program);
    let best_of = |lock: &usize| numbers.at(program, *lock, At::Best).map_or(0.0, |(_, value)| value);
    let mut locks: Vec<usize> = (0..grid.locks.len()).filter(|lock| best_of(lock) > 0.0).collect();
    locks.sort_by(|a, b| best_of(b).total_cmp(&best_of(a)));
    locks.truncate(CURVES);
    let most = locks.first().map_or(1.0, best_of);
    let title =
        format!("{} on {}: its {} best locks, relative to the best", grid.programs[program], grid.machine, locks.len());
    let ticks = nodes.iter().map(|place| f64::from(grid.nodes[*place]));
    let mut chart = Chart::new(title, Axis::linear("nodes").ticks(ticks), Axis::linear("performance").from_zero());
    let mut random = fastrand::Rng::with_seed(settings.seed);
    for lock in locks {
        let point = |place: &usize| Some((f64::from(grid.nodes[*place]), numbers.cell(program, *place, lock)? / most));
        let mut band = Vec::new();
        for place in &nodes {
            let values = &grid.cell(program, *place, lock).values;
            if let (Some(_), Some((low, high))) = (point(place), interval(values, settings.draws, &mut random)) {
                band.push((f64::from(grid.nodes[*place]), low / most, high / most));
            }
        }
        let points: Vec<(f64, f64)> = nodes.iter().filter_map(point).collect();
        chart.series.push(Series::new(grid.locks[lock].as_str(), points).with_band(band));
    }
    chart
}

fn finished(writer: csv::Writer<Vec<u8>>) -> io::Result<String> {
    let bytes = writer.into_inner().map_err(|error| io::Error::other(error.to_string()))?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// The value, the ends of the interval, the nodes and whether it is open; nothing where there is no number.
fn numbers_of(entry: &Entry) -> Option<[String; 5]> {
    match entry {
        Entry::Untested | Entry::Empty => None,
        Entry::Count(count) => Some([count.to_string(), String::new(), String::new(), String::new(), String::new()]),
        Entry::Share(figure) => {
            let end = |end: Option<f64>| end.map(|end| end.to_string()).unwrap_or_default();
            Some([
                figure.value.to_string(),
                end(figure.interval.map(|(low, _)| low)),
                end(figure.interval.map(|(_, high)| high)),
                figure.nodes.map(|nodes| nodes.to_string()).unwrap_or_default(),
                if figure.is_open { "open".into() } else { String::new() },
            ])
        }
    }
}

/// Marks the gains of the best lock over those that the runs do not tell from it.
fn mark_open(sheet: &mut Sheet, numbers: &Numbers<'_>, programs: &[usize], at: At, tie: f64) {
    for (row, program) in sheet.rows.iter_mut().zip(programs) {
        let line = numbers.line(*program, at);
        let Some(winner) = line.iter().position(|value| value.is_some() && *value == best(&line)) else { continue };
        for (lock, entry) in row.entries.iter_mut().enumerate() {
            if let Entry::Share(figure) = entry {
                let beyond = figure.value > tie;
                figure.is_open = beyond && !answer::differ(numbers.grid, numbers, *program, (winner, lock), at, tie);
            }
        }
    }
}

fn notes(grids: &[Grid], measure: &str, settings: Settings) -> Vec<String> {
    let counted = |grid: &Grid| {
        let measured: Vec<usize> = grid.cells().map(|(_, cell)| cell.values.len()).filter(|runs| *runs > 0).collect();
        let few = measured.iter().filter(|runs| **runs < FEW_RUNS).count();
        let rest = match few {
            0 => String::new(),
            few => format!("; {few} cells have fewer than {FEW_RUNS} runs, and intervals that are too narrow"),
        };
        format!(
            "{}: {} programs, {} locks, {} cells, {} runs; each number is the mean of a cell{rest}",
            grid.machine,
            grid.programs.len(),
            grid.locks.len(),
            measured.len(),
            measured.iter().sum::<usize>()
        )
    };
    let mut notes = vec![format!("measured: {measure}; higher is better in all tables (of a time, its inverse)")];
    notes.extend(grids.iter().map(counted));
    notes.push(format!(
        "in brackets: the middle 95 % of {} draws of the runs of each cell (bootstrap, seed {}); margins: tie {}, harm {}, \
         lock-sensitive {}",
        settings.draws,
        settings.seed,
        percent(settings.margins.tie),
        percent(settings.margins.harm),
        percent(settings.margins.sensitive)
    ));
    notes
}
