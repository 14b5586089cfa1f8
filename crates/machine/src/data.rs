//! The machine, the latencies between its CPUs and the route through them as data; docs/topology.md says what each
//! field means.

use std::path::{Path, PathBuf};

use lockswap_platform::{CoreKind, Place};
use serde::Serialize;

use crate::cpuset::CpuSet;
use crate::kept::{Origin, RouteHere};
use crate::kinds::Source;
use crate::machine::Machine;
use crate::matrix::Matrix;
use crate::route::Route;
use crate::topology::Group;

/// The version of this form.
const SCHEMA: u32 = 2;

/// All that is known. The keys are always the same; what is not known, or was not asked for, is null.
#[derive(Serialize)]
pub struct Data {
    schema: u32,
    source: Option<String>,
    present: Option<String>,
    online: Option<String>,
    usable: Option<String>,
    cgroup: Option<String>,
    cpus: Option<Vec<Cpu>>,
    nodes: Option<Vec<Node>>,
    kinds: Option<Kinds>,
    level: Option<Level>,
    not_visible: Option<Vec<&'static str>>,
    route: Vec<usize>,
    round_trip_ns: Option<f64>,
    route_stored: Option<PathBuf>,
    latencies: Option<Latencies>,
}

/// The latencies between CPUs.
#[derive(Serialize)]
struct Latencies {
    source: Option<PathBuf>,
    cpus: Vec<usize>,
    ns: Vec<Vec<f64>>,
}

#[derive(Serialize)]
struct Cpu {
    cpu: usize,
    usable: bool,
    core: Option<usize>,
    module: Option<usize>,
    llc: Option<usize>,
    die: Option<usize>,
    package: Option<usize>,
    node: Option<usize>,
    kind: &'static str,
    class: usize,
    speed: Option<u32>,
    group: Option<u32>,
    llc_group: Option<u32>,
}

#[derive(Serialize)]
struct Node {
    node: usize,
    cpus: String,
    memory: bool,
    distances: Vec<Option<u8>>,
}

#[derive(Serialize)]
struct Kinds {
    source: Option<&'static str>,
    big: String,
    little: String,
    classes: Vec<String>,
}

#[derive(Serialize)]
struct Level {
    name: &'static str,
    reason: String,
    groups: Vec<LocalityGroup>,
    inner: Vec<LocalityGroup>,
    outer: Vec<LocalityGroup>,
}

#[derive(Serialize)]
struct LocalityGroup {
    group: usize,
    cpus: String,
}

impl Data {
    /// A machine, and the route that locks take there.
    pub fn of(machine: &Machine, route: &RouteHere) -> Self {
        let stored = match &route.origin {
            Origin::Stored(path) => Some(path.clone()),
            Origin::Declared | Origin::Topology => None,
        };
        Self { route_stored: stored, ..Self::with(Some(machine), route.cpus.clone()) }
    }

    /// Latencies and the route through them; `machine` is the one that they are of, where that is known, `source` the
    /// file that they come from, nothing if they were measured, and `stored` the file that keeps both.
    pub fn measured(
        machine: Option<&Machine>,
        matrix: &Matrix,
        route: &Route,
        source: Option<&Path>,
        stored: Option<&Path>,
    ) -> Self {
        let side = 0..matrix.side();
        let ns = side.clone().map(|from| side.clone().map(|to| matrix.ns(from, to)).collect()).collect();
        Self {
            round_trip_ns: Some(rounded(route.round_trip_ns)),
            route_stored: stored.map(Path::to_owned),
            latencies: Some(Latencies { source: source.map(Path::to_owned), cpus: matrix.cpus().to_vec(), ns }),
            ..Self::with(machine, route.cpus.clone())
        }
    }

    fn with(machine: Option<&Machine>, route: Vec<usize>) -> Self {
        let topology = machine.map(|machine| &machine.topology);
        Self {
            schema: SCHEMA,
            source: machine.map(|machine| machine.source.display().to_string()),
            present: topology.map(|topology| topology.present().to_string()),
            online: topology.map(|topology| topology.online().to_string()),
            usable: topology.map(|topology| topology.allowed().to_string()),
            cgroup: machine.and_then(|machine| machine.cgroup).map(|cpus| cpus.to_string()),
            cpus: machine.map(cpus),
            nodes: machine.map(nodes),
            kinds: machine.map(Kinds::of),
            level: machine.map(Level::of),
            not_visible: machine.map(Machine::not_visible),
            route,
            round_trip_ns: None,
            route_stored: None,
            latencies: None,
        }
    }

    /// The CPUs as CSV, a line each; nothing where no machine is described.
    pub fn cpus_as_csv(&self) -> String {
        let mut text = "cpu,usable,core,module,llc,die,package,node,kind,class,speed,group,llc_group\n".to_owned();
        for cpu in self.cpus.iter().flatten() {
            text += &cpu.line();
        }
        text
    }
}

/// Sums of decimal numbers, without the digits that binary ones leave behind.
fn rounded(ns: f64) -> f64 {
    (ns * 1000.0).round() / 1000.0
}

fn cpus(machine: &Machine) -> Vec<Cpu> {
    machine.places.iter().map(|(cpu, place)| Cpu::new(machine, *cpu, *place)).collect()
}

fn nodes(machine: &Machine) -> Vec<Node> {
    let topology = &machine.topology;
    let nodes: Vec<usize> = topology.nodes().collect();
    let node = |&node: &usize| Node {
        node,
        cpus: topology.members(Group::Node, node).to_string(),
        memory: topology.has_memory(node),
        distances: nodes.iter().map(|&other| topology.distance(node, other)).collect(),
    };
    nodes.iter().map(node).collect()
}

impl Kinds {
    fn of(machine: &Machine) -> Self {
        let topology = &machine.topology;
        let cpus = |which: &dyn Fn(usize) -> bool| -> String {
            topology.online().iter().filter(|&cpu| which(cpu)).collect::<CpuSet>().to_string()
        };
        Self {
            source: Some(topology.kinds_source()).filter(|source| *source != Source::None).map(Source::name),
            big: cpus(&|cpu| topology.kind(cpu) == CoreKind::Big),
            little: cpus(&|cpu| topology.kind(cpu) == CoreKind::Little),
            classes: (0..topology.classes()).map(|class| cpus(&|cpu| topology.class(cpu) == class)).collect(),
        }
    }
}

impl Level {
    fn of(machine: &Machine) -> Self {
        let group = |(group, cpus): (usize, CpuSet)| LocalityGroup { group, cpus: cpus.to_string() };
        let groups = |groups: Vec<_>| groups.into_iter().map(group).collect();
        let [inner, outer] = machine.hierarchy().map(groups);
        Self {
            name: machine.level.name(),
            reason: machine.reason.to_string(),
            groups: groups(machine.locality_groups()),
            inner,
            outer,
        }
    }
}

impl Cpu {
    fn new(machine: &Machine, cpu: usize, place: Place) -> Self {
        let topology = &machine.topology;
        Self {
            cpu,
            usable: topology.allowed().contains(cpu),
            core: topology.group(Group::Core, cpu),
            module: topology.group(Group::Module, cpu),
            llc: topology.group(Group::Llc, cpu),
            die: topology.group(Group::Die, cpu),
            package: topology.group(Group::Package, cpu),
            node: topology.group(Group::Node, cpu),
            kind: kind_name(topology.kind(cpu)),
            class: topology.class(cpu),
            speed: topology.speed(cpu),
            group: place.group(),
            llc_group: place.llc(),
        }
    }

    fn line(&self) -> String {
        fn shown<T: ToString>(value: Option<T>) -> String {
            value.map_or(String::new(), |value| value.to_string())
        }
        let cells = [
            self.cpu.to_string(),
            self.usable.to_string(),
            shown(self.core),
            shown(self.module),
            shown(self.llc),
            shown(self.die),
            shown(self.package),
            shown(self.node),
            self.kind.to_owned(),
            self.class.to_string(),
            shown(self.speed),
            shown(self.group),
            shown(self.llc_group),
        ];
        cells.join(",") + "\n"
    }
}

/// The name shown to users.
pub fn kind_name(kind: CoreKind) -> &'static str {
    match kind {
        CoreKind::Big => "big",
        CoreKind::Little => "little",
    }
}
