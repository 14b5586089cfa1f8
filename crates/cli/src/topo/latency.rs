//! The latency between each two CPUs, from a file or measured, and the route through them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use lockswap_machine::contents;
use lockswap_machine::matrix::Matrix;
use lockswap_machine::route::Route;
use lockswap_machine::topology::Group;
use lockswap_plot::{Groups, HeatMap};
use lockswap_study::export::OutputFile;
use serde::Serialize;

use super::kept::Kept;
use super::Machine;
use crate::error::UserError;
use crate::picture::{self, LookArgs, Picture};
use crate::terminal;

/// Columns of the heat map where the output is no terminal.
const WIDTH: usize = 100;

/// Arguments of `lockswap topo` about latencies.
#[derive(clap::Args)]
pub struct LatencyArgs {
    /// Finds the route through the CPUs whose latencies a file holds: N x N or the lower triangle, ns, as CSV
    #[arg(long, value_name = "FILE", conflicts_with = "sysfs", group = "latencies")]
    pub latency: Option<PathBuf>,
    /// Measures the latency between each two CPUs that this process may use, finds the route and stores both
    #[arg(long, conflicts_with = "sysfs", group = "latencies")]
    pub measure: bool,
    /// Stores the route through the latencies of a file for this machine, as if they had been measured
    #[arg(long, requires = "latency")]
    store: bool,
    /// Writes the latencies as a heat map, .svg or .png
    #[arg(long, value_name = "FILE", requires = "latencies")]
    export: Option<PathBuf>,
    /// Writes the latencies as CSV, which --latency reads
    #[arg(long, value_name = "FILE", requires = "latencies")]
    export_csv: Option<PathBuf>,
    #[command(flatten)]
    look: LookArgs,
}

/// Files that the latencies go to.
pub struct Exports<'a> {
    picture: Option<Picture>,
    look: &'a LookArgs,
    csv: Option<OutputFile>,
}

impl LatencyArgs {
    /// Checks that the files can be written.
    pub fn exports(&self) -> Result<Exports<'_>, UserError> {
        let picture = self.export.as_deref().map(Picture::prepare).transpose()?;
        Ok(Exports { picture, look: &self.look, csv: self.export_csv.as_deref().map(picture::prepare).transpose()? })
    }
}

impl Exports<'_> {
    /// Writes them; `machine` is the one that the latencies are of, where that is known.
    pub fn write(&self, matrix: &Matrix, title: &str, route: &Route, machine: Option<&Machine>) -> anyhow::Result<()> {
        if let Some(picture) = &self.picture {
            let map = HeatMap {
                groups: machine.map_or(Vec::new(), |machine| groups(machine, matrix)),
                route: route.cpus.iter().filter_map(|cpu| matrix.cpus().iter().position(|of| of == cpu)).collect(),
                footer: picture::footer(&[]),
                ..heat_map(matrix, title)
            };
            picture.write(|format| map.render(self.look.of(format)))?;
        }
        self.csv.as_ref().map_or(Ok(()), |file| picture::replace(file, matrix.to_csv().as_bytes()))
    }
}

/// Reads the latencies in a file and shows the route through them.
pub fn from_file(path: &Path, args: &LatencyArgs, json: bool) -> anyhow::Result<()> {
    let matrix = read(path)?;
    let exports = args.exports()?;
    let storing = if args.store { Some(Storing::prepare(path, &matrix)?) } else { None };
    let machine = storing.as_ref().map(|storing| &storing.machine);
    let route = Route::through(&matrix);
    let name = path.file_name().unwrap_or(path.as_os_str());
    let title = format!("Core-to-core latency, {}", name.to_string_lossy());
    exports.write(&matrix, &title, &route, machine)?;
    let mut text = if json { Data::new(&route).line()? } else { draw(&matrix, &title) + &words(&route) };
    if let Some(storing) = storing {
        picture::replace(&storing.file, storing.kept.content(&storing.machine, &route, &matrix, None).as_bytes())?;
        let words = format!("stored in {}\n", storing.kept.path().display());
        text += if json { "" } else { &words };
    }
    Ok(terminal::print(&text)?)
}

/// Where the route is to be stored.
struct Storing {
    machine: Machine,
    kept: Kept,
    file: OutputFile,
}

impl Storing {
    /// Checks that the latencies fit this machine and that the file can be written.
    fn prepare(path: &Path, matrix: &Matrix) -> Result<Self, UserError> {
        let machine = Machine::here()?;
        let present = machine.topology.present();
        if let Some(cpu) = matrix.cpus().iter().find(|cpu| !present.contains(**cpu)) {
            let what = format!("{} describes another machine: there is no CPU {cpu} here ({present})", path.display());
            return Err(UserError::new(what, "leave out --store"));
        }
        let remedy = "set HOME, XDG_CACHE_HOME or LOCKSWAP_ROUTE_FILE";
        let kept = Kept::here().ok_or_else(|| UserError::new("no folder to store the route in", remedy))?;
        let file = kept.prepare()?;
        Ok(Self { machine, kept, file })
    }
}

fn read(path: &Path) -> Result<Matrix, UserError> {
    let wrong = |why: String| {
        let remedy = "it must hold a line per CPU with its latency to each CPU in ns, see 'lockswap topo --help'";
        UserError::new(format!("cannot read latencies from {}: {why}", path.display()), remedy)
    };
    let text = contents(path).map_err(|error| match error.kind() {
        ErrorKind::InvalidData => wrong("it is not text".into()),
        _ => wrong(error.to_string()),
    })?;
    Matrix::parse(&text).map_err(|error| wrong(error.to_string()))
}

/// The route as data.
#[derive(Serialize)]
pub struct Data<'a> {
    route: &'a [usize],
    round_trip_ns: f64,
}

impl<'a> Data<'a> {
    /// Of a route.
    pub fn new(route: &'a Route) -> Self {
        Self { route: &route.cpus, round_trip_ns: rounded(route.round_trip_ns) }
    }

    fn line(&self) -> serde_json::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }
}

/// Sums of decimal numbers, without the digits that binary ones leave behind.
fn rounded(ns: f64) -> f64 {
    (ns * 1000.0).round() / 1000.0
}

/// The heat map in characters.
pub fn draw(matrix: &Matrix, title: &str) -> String {
    heat_map(matrix, title).terminal(terminal::width().map_or(WIDTH, usize::from)) + "\n"
}

fn heat_map(matrix: &Matrix, title: &str) -> HeatMap {
    let side = matrix.side();
    let cell = |index: usize| (index / side, index % side);
    HeatMap {
        title: title.to_owned(),
        sides: "CPU".into(),
        unit: "one-way latency (ns)".into(),
        log: true,
        names: matrix.cpus().iter().map(usize::to_string).collect(),
        values: (0..side * side).map(cell).map(|(from, to)| (from != to).then(|| matrix.ns(from, to))).collect(),
        ..HeatMap::default()
    }
}

/// What the CPUs of the matrix belong to.
fn groups(machine: &Machine, matrix: &Matrix) -> Vec<Groups> {
    let groups = |name: &str, group| Groups {
        name: name.into(),
        of: matrix.cpus().iter().map(|cpu| machine.topology.group(group, *cpu)).collect(),
    };
    vec![groups("NUMA nodes", Group::Node), groups("last-level caches", Group::Llc)]
}

/// The route in words.
pub fn words(route: &Route) -> String {
    let cpus: Vec<String> = route.cpus.iter().map(usize::to_string).collect();
    let count = cpus.len();
    let hop = route.round_trip_ns / count as f64;
    let trip =
        format!("round trip {:.1} ns through {count} CPUs, {hop:.1} ns from one to the next\n", route.round_trip_ns);
    format!("route {}\n{}", cpus.join(","), if count == 1 { "" } else { &trip })
}
