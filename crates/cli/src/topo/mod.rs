//! `lockswap topo`

mod measure;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lockswap_machine::matrix::Matrix;
use lockswap_machine::route::Route;
use lockswap_machine::topology::Group;
use lockswap_machine::{tree, Data, Kept, Machine, RouteHere};
use lockswap_plot::{Groups, HeatMap};
use lockswap_study::export::{Format, OutputFile};

use crate::error::{UserError, USAGE};
use crate::outputs::{OutputArgs, Outputs, Print, Wanted};
use crate::{picture, terminal};

/// Shows how the machine is built, as far as locks care.
#[derive(clap::Args)]
#[command(after_help = "\
Which CPUs share a core, caches, a package and a NUMA node, which of them are
big or little, which ones a process started from here may use, and what NUMA
locks make of that.

DIR is a copy of /sys, or a folder that holds one as sys/. The folders
devices/system/cpu and devices/system/node in it suffice; this makes one:
  cp -r --parents /sys/devices/system/cpu /sys/devices/system/node DIR
A FILE has a line PATH<TAB>CONTENT for each file of such a folder.

The latency between two CPUs is the time of one way of a cache line that two
threads pass to and fro, the median of many samples, ns. A FILE with latencies
has a line per CPU, with values for all CPUs or for those before it (a lower
triangle), separated by commas; it may describe any machine, in up to 4096 CPUs.

--export and --format: JSON has everything. CSV has the latencies, as --latency
reads them, and without latencies a line per CPU. Pictures show latencies.

Environment, for this command and for the preload library:
  LOCKSWAP_LEVEL=LEVEL  what makes CPUs near each other for NUMA locks: node, llc
                        (last-level cache) or core-kind [default: the machine's]
  LOCKSWAP_TOPOLOGY=2x1 nodes x CPUs per node [default: the machine's]
  LOCKSWAP_BIG=0-3      the big CPUs, all others are little [default: as the
                        system says]
  LOCKSWAP_ROUTE=0,2,1  the order in which RON locks visit the CPUs [default: what
                        --measure stored, else along the topology]
  LOCKSWAP_ROUTE_FILE=FILE  where --measure stores, and programs look [default:
                        lockswap/machine-ID in the user's cache folder]
  LOCKSWAP_SYSFS=DIR    is read in the place of /sys; for tests

Examples:
  lockswap topo
  lockswap topo --format json
  lockswap topo --sysfs machine-42/
  lockswap topo --measure --export latency.png --export latency.csv
  lockswap topo --latency epyc.csv --export epyc.svg
  taskset -c 0-3 lockswap topo")]
pub struct TopoArgs {
    #[command(flatten)]
    outputs: OutputArgs,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Shows the machine that a folder or a file describes
    #[arg(long, value_name = "DIR|FILE")]
    sysfs: Option<PathBuf>,
    /// Finds the route through the CPUs whose latencies a file holds: N x N or the lower triangle, ns, as CSV
    #[arg(long, value_name = "FILE", conflicts_with = "sysfs", group = "latencies")]
    latency: Option<PathBuf>,
    /// Measures the latency between each two CPUs that this process may use, finds the route and stores both
    #[arg(long, conflicts_with = "sysfs", group = "latencies")]
    measure: bool,
    /// Stores the route through the latencies of a file for this machine, as if they had been measured
    #[arg(long, requires = "latency")]
    store: bool,
}

/// Columns where the output is no terminal.
const WIDTH: usize = 100;

/// Runs `lockswap topo`.
pub fn run(mut args: TopoArgs) -> anyhow::Result<ExitCode> {
    if args.json {
        args.outputs.format = Print::Json;
    }
    if args.outputs.format == Print::Md {
        let what = "--format md: a machine has no such form";
        return Err(UserError::new(what, "choose table, json or csv").with_status(USAGE).into());
    }
    match &args.latency {
        Some(path) => from_file(path, &args),
        None if args.measure => measure::run(&args),
        None => show(&args),
    }
}

/// Shows a machine without measuring anything.
fn show(args: &TopoArgs) -> anyhow::Result<ExitCode> {
    let mut outputs = Outputs::prepare(&args.outputs, &["json", "csv"])
        .map_err(|error| error.or_else("pictures show latencies: add --measure or --latency FILE"))?;
    let machine = match &args.sysfs {
        Some(path) => Machine::described_in(path)?,
        None => Machine::here()?,
    };
    let route = RouteHere::of(&machine)?;
    if let Some(ignored) = &route.ignored {
        say(ignored);
    }
    let data = Data::of(&machine, &route);
    outputs.write(true, |wanted| match wanted {
        Wanted::Data(Format::Json) => json(&data).map(String::into_bytes),
        _ => Ok(data.cpus_as_csv().into_bytes()),
    });
    match args.outputs.format {
        Print::Json => terminal::print_data(&json(&data)?)?,
        Print::Csv => terminal::print_data(&data.cpus_as_csv())?,
        Print::Table | Print::Md => terminal::print(&tree::draw(&machine, &route, width()))?,
    }
    Ok(status(&outputs))
}

/// Reads the latencies in a file and shows the route through them.
fn from_file(path: &Path, args: &TopoArgs) -> anyhow::Result<ExitCode> {
    let matrix = Matrix::read(path).map_err(|error| {
        let remedy = "it must hold a line per CPU with its latency to each CPU in ns, see 'lockswap topo --help'";
        UserError::new(format!("cannot read latencies from {}: {error}", path.display()), remedy)
    })?;
    let outputs = Outputs::prepare(&args.outputs, FORMS)?;
    let storing = if args.store { Some(Storing::prepare(path, &matrix)?) } else { None };
    let found = Latencies {
        title: format!("Core-to-core latency, {}", path.file_name().unwrap_or(path.as_os_str()).to_string_lossy()),
        route: Route::through(&matrix),
        matrix,
        machine: storing.as_ref().map(|storing| &storing.machine),
        source: Some(path),
        stored: storing.as_ref().map(|storing| storing.kept.path()),
    };
    if let Some(storing) = &storing {
        let processor = lockswap_study::machine::Machine::here().cpu_model;
        let content = storing.kept.content(&processor, &storing.machine, &found.route, &found.matrix, None);
        picture::replace(&storing.file, content.as_bytes())?;
    }
    let stored = found.stored.map_or(String::new(), |path| format!("stored in {}\n", path.display()));
    found.show(args, outputs, &stored)
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
        let file = prepare(&kept)?;
        Ok(Self { machine, kept, file })
    }
}

/// Checks that the file which keeps what was measured can be written.
fn prepare(kept: &Kept) -> Result<OutputFile, UserError> {
    kept.make_folder();
    picture::prepare(kept.path())
}

/// The forms of latencies.
const FORMS: &[&str] = &["svg", "png", "csv", "json"];

/// Latencies and the route through them.
struct Latencies<'a> {
    title: String,
    matrix: Matrix,
    route: Route,
    /// The machine that they are of, where that is known.
    machine: Option<&'a Machine>,
    /// The file that they come from; nothing if they were measured.
    source: Option<&'a Path>,
    /// The file that keeps them.
    stored: Option<&'a Path>,
}

impl Latencies<'_> {
    /// Writes the files and prints; `remarks` come last in what people read.
    fn show(&self, args: &TopoArgs, mut outputs: Outputs, remarks: &str) -> anyhow::Result<ExitCode> {
        let Self { matrix, route, .. } = self;
        let data = Data::measured(self.machine, matrix, route, self.source, self.stored);
        outputs.write(true, |wanted| match wanted {
            Wanted::Data(Format::Json) => json(&data).map(String::into_bytes),
            Wanted::Data(_) => Ok(matrix.to_csv().into_bytes()),
            Wanted::Picture(look) => Ok(self.picture().render(look)),
        });
        match args.outputs.format {
            Print::Json => terminal::print_data(&json(&data)?)?,
            Print::Csv => terminal::print_data(&matrix.to_csv())?,
            Print::Table | Print::Md => {
                let map = self.heat_map().terminal(width());
                terminal::print(&format!("{map}\n{}{remarks}", words(route)))?;
            }
        }
        Ok(status(&outputs))
    }

    fn heat_map(&self) -> HeatMap {
        let side = self.matrix.side();
        let cell = |index: usize| (index / side, index % side);
        let latency = |(from, to)| (from != to).then(|| self.matrix.ns(from, to));
        HeatMap {
            title: self.title.clone(),
            sides: "CPU".into(),
            unit: "one-way latency (ns)".into(),
            log: true,
            names: self.matrix.cpus().iter().map(usize::to_string).collect(),
            values: (0..side * side).map(cell).map(latency).collect(),
            ..HeatMap::default()
        }
    }

    /// The heat map with what the CPUs belong to, and with the route.
    fn picture(&self) -> HeatMap {
        let cpus = self.matrix.cpus();
        let groups = |machine: &Machine, name: &str, group| Groups {
            name: name.into(),
            of: cpus.iter().map(|cpu| machine.topology.group(group, *cpu)).collect(),
        };
        let of = |machine| {
            vec![groups(machine, "NUMA nodes", Group::Node), groups(machine, "last-level caches", Group::Llc)]
        };
        HeatMap {
            groups: self.machine.map_or(Vec::new(), of),
            route: self.route.cpus.iter().filter_map(|cpu| cpus.iter().position(|of| of == cpu)).collect(),
            footer: picture::footer(&[]),
            ..self.heat_map()
        }
    }
}

/// The route in words.
fn words(route: &Route) -> String {
    let cpus: Vec<String> = route.cpus.iter().map(usize::to_string).collect();
    let count = cpus.len();
    let hop = route.round_trip_ns / count as f64;
    let trip =
        format!("round trip {:.1} ns through {count} CPUs, {hop:.1} ns from one to the next\n", route.round_trip_ns);
    format!("route {}\n{}", cpus.join(","), if count == 1 { "" } else { &trip })
}

fn json(data: &Data) -> io::Result<String> {
    Ok(serde_json::to_string(data)? + "\n")
}

fn width() -> usize {
    terminal::width().map_or(WIDTH, usize::from)
}

fn status(outputs: &Outputs) -> ExitCode {
    match outputs.tell() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Prints a line on stderr, which may be closed.
fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}
