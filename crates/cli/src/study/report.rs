//! `lockswap study report`: the tables of a study.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use lockswap_study::export::Format;
use lockswap_study::survey::database::Database;
use lockswap_study::survey::grid::{Grid, Observation};
use lockswap_study::survey::report::{Curve, Report, Settings};
use lockswap_study::survey::Margins;
use lockswap_workloads::invalid::Invalid;

use crate::compare::percent;
use crate::error::{UserError, USAGE};
use crate::outputs::{OutputArgs, Outputs, Wanted};
use crate::picture::{footer, LookArgs};
use crate::terminal;

/// Tables with more columns are in files only.
const COLUMNS_SHOWN: usize = 8;

const EXAMPLES: &str = "\
Tables that have a column for each lock are in the files only. A folder, --export DIR/, gets each
table as a CSV file, the curves of each program as SVG and PNG, and the whole report as
report.html, .md, .json and .csv.

Examples:
  lockswap study report litl.db
  lockswap study report litl.db --export litl.html --export tables/
  lockswap study report litl.db --machine A64 --nodes 1,2,4,6,8 --tie 10 --harm 25
  lockswap study report latency.db --measure latency";

/// Says which locks to use, and prints the tables of the LiTL study with intervals.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ReportArgs {
    /// The database
    #[arg(value_name = "DB")]
    db: PathBuf,
    /// What is compared [default: of each program what decides, such as its throughput]
    #[arg(long, value_name = "NAME")]
    measure: Option<String>,
    /// A lock is better than another one if the other is by so many percent below it
    #[arg(long, value_name = "PERCENT", default_value = "5", value_parser = tie)]
    tie: f64,
    /// A lock harms a program for which the best lock is better by so many percent
    #[arg(long, value_name = "PERCENT", default_value = "15", value_parser = percent)]
    harm: f64,
    /// A program is lock-sensitive if all locks' relative standard deviation at its most nodes is above this
    #[arg(long, value_name = "PERCENT", default_value = "10", value_parser = percent)]
    sensitive: f64,
    /// These machines only
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    machine: Vec<String>,
    /// These programs only
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    program: Vec<String>,
    /// These locks only
    #[arg(short = 'l', long, value_name = "ID", value_delimiter = ',')]
    lock: Vec<String>,
    /// These numbers of nodes only
    #[arg(long, value_name = "N", value_delimiter = ',')]
    nodes: Vec<u32>,
    /// Draws of the runs, from which intervals come
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(40..=100_000))]
    draws: u32,
    /// Seed of the draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    output: OutputArgs,
}

fn tie(text: &str) -> Result<f64, String> {
    let share = percent(text)?;
    (share < 1.0).then_some(share).ok_or_else(|| "write a number of percents from 0 to 99".into())
}

/// Runs the command.
pub fn run(args: &ReportArgs) -> anyhow::Result<ExitCode> {
    let mut outputs = Outputs::prepare(&args.output, &["json", "csv", "md", "html", "/"])?;
    let database = Database::open(&args.db).map_err(UserError::from)?;
    let all = database.observations(args.measure.as_deref()).map_err(UserError::from)?;
    let chosen = chosen(args, all)?;
    let grids: Vec<Grid> = chosen.iter().map(|(machine, runs)| Grid::new(machine, runs)).collect();
    let measure = args.measure.as_deref().unwrap_or("what decides for each program");
    let margins = Margins { tie: args.tie, harm: args.harm, sensitive: args.sensitive };
    let mut report = Report::new(&grids, measure, Settings { margins, draws: args.draws, seed: args.seed });
    report.notes.push(footer(&[]));
    match args.output.format.data() {
        None => terminal::print_page(&report.page(COLUMNS_SHOWN))?,
        Some(format) => terminal::print_data(&render(format, &report)?)?,
    }
    outputs.write(true, |wanted| match wanted {
        Wanted::Data(format) => Ok(render(format, &report)?.into_bytes()),
        Wanted::Picture(_) => Err(io::ErrorKind::Unsupported.into()),
    });
    outputs.write_folders(|| files(&report, args.output.look));
    Ok(if outputs.tell() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn render(format: Format, report: &Report) -> io::Result<String> {
    match format {
        Format::Json => report.json(),
        Format::Csv => report.csv(),
        Format::Markdown => Ok(report.page(usize::MAX).markdown()),
        Format::Html => Ok(report.page(usize::MAX).html()),
    }
}

/// What a folder gets: names and contents.
fn files(report: &Report, look: LookArgs) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    let forms = [(Format::Html, "html"), (Format::Markdown, "md"), (Format::Json, "json"), (Format::Csv, "csv")];
    for (format, ending) in forms {
        files.push((format!("report.{ending}"), render(format, report)?.into_bytes()));
    }
    for sheet in &report.sheets {
        files.push((format!("{}-{}.csv", in_a_name(&sheet.machine), sheet.id), Report::csv_of(sheet)?.into_bytes()));
    }
    for Curve { machine, program, chart } in &report.curves {
        for (format, ending) in [(lockswap_plot::Format::Svg, "svg"), (lockswap_plot::Format::Png, "png")] {
            let name = format!("{}-{}.{ending}", in_a_name(machine), in_a_name(program));
            files.push((name, chart.render(look.of(format))));
        }
    }
    Ok(files)
}

/// A name of machines or a program as a part of a file's name.
fn in_a_name(text: &str) -> String {
    let plain = |sign: char| if sign.is_alphanumeric() || "-_.+".contains(sign) { sign } else { '_' };
    text.replace(", ", "+").chars().map(plain).collect()
}

/// The runs that the options leave, by machine; names that nothing has are refused.
fn chosen(
    args: &ReportArgs,
    mut all: BTreeMap<String, Vec<Observation>>,
) -> Result<BTreeMap<String, Vec<Observation>>, UserError> {
    let machines: Vec<String> = all.keys().cloned().collect();
    check("machine", &args.machine, machines.into_iter())?;
    all.retain(|machine, _| args.machine.is_empty() || args.machine.contains(machine));
    let runs = || all.values().flatten();
    check("program", &args.program, runs().map(|run| run.program.clone()))?;
    check("lock", &args.lock, runs().map(|run| run.lock.clone()))?;
    let nodes: Vec<String> = args.nodes.iter().map(u32::to_string).collect();
    check("number of nodes", &nodes, runs().map(|run| run.nodes.to_string()))?;
    let is_wanted = |run: &Observation| {
        (args.program.is_empty() || args.program.contains(&run.program))
            && (args.lock.is_empty() || args.lock.contains(&run.lock))
            && (args.nodes.is_empty() || args.nodes.contains(&run.nodes))
    };
    all.values_mut().for_each(|runs| runs.retain(is_wanted));
    all.retain(|_, runs| !runs.is_empty());
    match all.is_empty() {
        true => Err(UserError::new("no run is left", "choose less narrowly").with_status(USAGE)),
        false => Ok(all),
    }
}

fn check(what: &str, asked: &[String], known: impl Iterator<Item = String>) -> Result<(), UserError> {
    let known: std::collections::BTreeSet<String> = known.collect();
    let unknown = asked.iter().find(|name| !known.contains(*name));
    unknown.map_or(Ok(()), |name| {
        let what = format!("the database has no {what} '{name}'");
        let invalid = Invalid::unknown(what, name, known.iter().map(String::as_str));
        Err(UserError::from(invalid).with_status(USAGE))
    })
}
