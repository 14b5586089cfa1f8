//! The files that a comparison is written to.

use std::path::{Path, PathBuf};

use lockswap_plot::{Axis, Chart, Emphasis, Look, Reference, Row as Bar, Rows, Series};
use lockswap_study::export::{render, Format, OutputFile};
use lockswap_study::model::Comparison;
use lockswap_study::summary::{self, Judgement, Row};

use super::CompareArgs;
use crate::error::{UserError, USAGE};
use crate::picture::{self, LookArgs};
use crate::selection::PLAIN;

/// A form of a file.
#[derive(Clone, Copy)]
enum Form {
    Data(Format),
    Picture(lockswap_plot::Format),
}

/// All files that the user wants.
pub struct Outputs {
    files: Vec<(Form, OutputFile)>,
    look: LookArgs,
    /// What could not be written.
    pub failed: Vec<String>,
}

impl Outputs {
    /// Checks names and places before anything is measured.
    pub fn prepare(args: &CompareArgs) -> Result<Self, UserError> {
        let mut wanted: Vec<(Form, &Path)> = Vec::new();
        for path in &args.export {
            wanted.push((form(path)?, path));
        }
        let old: [(&Option<PathBuf>, Format, &str); 3] = [
            (&args.export_json, Format::Json, "json"),
            (&args.export_csv, Format::Csv, "csv"),
            (&args.export_md, Format::Markdown, "md"),
        ];
        for (path, format, extension) in old {
            if let Some(path) = path {
                eprintln!("note: --export-{extension} FILE is now written --export FILE.{extension}");
                wanted.push((Form::Data(format), path));
            }
        }
        if args.lower_is_better {
            eprintln!("note: --lower-is-better is now written before the expression: --metric 'lower:REGEX'");
        }
        let mut files: Vec<(Form, OutputFile)> = Vec::new();
        for (form, path) in wanted {
            if path == Path::new("-") {
                let remedy = "--format json, csv or md prints it instead of the table";
                return Err(UserError::new("- is no file to export to", remedy).with_status(USAGE));
            }
            let file = OutputFile::prepare(path).map_err(|error| {
                let remedy = "name a file in a folder that you can write to; nothing was measured";
                UserError::new(format!("cannot write {}: {error}", path.display()), remedy)
            })?;
            if !file.is_stream() && files.iter().any(|(_, other)| other.path() == file.path()) {
                let what = format!("two exports go to {}", path.display());
                return Err(UserError::new(what, "give each a file of its own").with_status(USAGE));
            }
            files.push((form, file));
        }
        Ok(Self { files, look: args.look, failed: Vec::new() })
    }

    /// Whether there are files that keep what was measured so far.
    pub fn keeps_files(&self) -> bool {
        self.files.iter().any(|(form, file)| matches!(form, Form::Data(_)) && !file.is_stream())
    }

    /// Writes the comparison as it stands. Streams, which keep nothing, and pictures only when all is `done`.
    pub fn write(&mut self, comparison: &Comparison, done: bool) {
        for (form, file) in &self.files {
            let content = match form {
                Form::Data(_) if file.is_stream() && !done => continue,
                Form::Data(format) => render(*format, comparison).map(String::into_bytes),
                Form::Picture(_) if !done => continue,
                Form::Picture(format) => Ok(draw(comparison, self.look.of(*format))),
            };
            if let Err(error) = content.and_then(|content| file.replace(&content)) {
                let problem = format!("cannot write {}: {error}", file.path().display());
                if !self.failed.contains(&problem) {
                    self.failed.push(problem);
                }
            }
        }
    }
}

fn form(path: &Path) -> Result<Form, UserError> {
    let data = Format::of(path).map(Form::Data);
    let picture = || lockswap_plot::Format::of(path).ok().map(Form::Picture);
    data.or_else(picture).or_else(|| (path == Path::new("-")).then_some(Form::Data(Format::Json))).ok_or_else(|| {
        let what = format!("--export {}: the ending of the name does not say in which form", path.display());
        UserError::new(what, "end it in .json, .csv, .md, .html, .svg or .png").with_status(USAGE)
    })
}

/// The ratios: over the parameter of a sweep where there is one of numbers, else a row for each lock.
fn draw(comparison: &Comparison, look: Look) -> Vec<u8> {
    let Some(rows) = comparison.summary.first() else { return Vec::new() };
    let axis = match comparison.measures.first() {
        Some(measure) => format!("{}, times as good as {PLAIN}'s (above 1 is better)", measure.name),
        None => String::new(),
    };
    let footer = picture::footer(&[format!("seed {}", comparison.seed)]);
    match over_parameter(comparison, rows, &axis) {
        Some(chart) => Chart { footer, ..chart }.render(look),
        None => {
            let shown = summary::sorted(comparison, rows).into_iter().map(bar).collect();
            Rows::ratios(comparison.name.clone(), axis, shown).footer(footer).render(look)
        }
    }
}

fn bar(row: &Row) -> Bar {
    let label = match row.setting.is_empty() {
        true => row.lock.clone(),
        false => format!("{}, {}", row.lock, summary::in_words(&row.setting)),
    };
    if row.lock == PLAIN {
        return Bar::new(label, 1.0).emphasis(Emphasis::Baseline).note("the baseline");
    }
    let bar = match (row.ratio, row.ratio_low, row.ratio_high) {
        (Some(ratio), Some(low), Some(high)) => Bar::new(label, ratio).interval(low, high),
        (Some(ratio), _, _) if row.judgement != Judgement::Failed => Bar::new(label, ratio),
        _ => Bar::without_value(label),
    };
    bar.note(row.verdict.clone())
}

/// A line for each lock, where the setting is one number.
fn over_parameter(comparison: &Comparison, rows: &[Row], axis: &str) -> Option<Chart> {
    let number = |row: &Row| match &row.setting[..] {
        [(_, value)] => value.parse::<f64>().ok().filter(|number| number.is_finite()),
        _ => None,
    };
    let numbers: Vec<f64> = rows.iter().map(number).collect::<Option<_>>()?;
    let name = &rows.first()?.setting.first()?.0;
    let x = if numbers.iter().all(|number| *number > 0.0) { Axis::log(name) } else { Axis::linear(name) };
    let mut chart = Chart::new(comparison.name.clone(), x, Axis::log(axis));
    let mut drawn: Vec<&str> = vec![PLAIN];
    for lock in rows.iter().map(|row| row.lock.as_str()) {
        if drawn.contains(&lock) {
            continue;
        }
        drawn.push(lock);
        let own: Vec<(f64, &Row)> = numbers.iter().copied().zip(rows).filter(|(_, row)| row.lock == lock).collect();
        let points = own.iter().filter_map(|(number, row)| Some((*number, row.ratio?)));
        let band = own.iter().filter_map(|(number, row)| Some((*number, row.ratio_low?, row.ratio_high?)));
        chart.series.push(Series::new(lock, points).with_band(band));
    }
    chart.references.push(Reference::horizontal(1.0, PLAIN));
    Some(chart)
}
