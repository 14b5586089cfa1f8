//! The machine as data; docs/topology.md says what each field means.

use std::path::PathBuf;

use lockswap_machine::cpuset::CpuSet;
use lockswap_machine::kinds::Source;
use lockswap_machine::topology::Group;
use lockswap_platform::CoreKind;
use serde::Serialize;

use super::kept::{Origin, RouteHere};
use super::Machine;

#[derive(Serialize)]
pub struct Data {
    schema: u32,
    source: String,
    present: String,
    online: String,
    usable: String,
    cgroup: Option<String>,
    cpus: Vec<Cpu>,
    nodes: Vec<Node>,
    kinds: Kinds,
    level: Level,
    not_visible: Vec<&'static str>,
    route: Vec<usize>,
    route_stored: Option<PathBuf>,
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
}

#[derive(Serialize)]
struct LocalityGroup {
    group: usize,
    cpus: String,
}

impl Data {
    pub fn new(machine: &Machine, route: RouteHere) -> Self {
        let topology = &machine.topology;
        let cpus = |which: &dyn Fn(usize) -> bool| -> String {
            topology.online().iter().filter(|&cpu| which(cpu)).collect::<CpuSet>().to_string()
        };
        let nodes: Vec<usize> = topology.nodes().collect();
        Self {
            schema: 1,
            source: machine.source.display().to_string(),
            present: topology.present().to_string(),
            online: topology.online().to_string(),
            usable: topology.allowed().to_string(),
            cgroup: machine.cgroup.map(|cpus| cpus.to_string()),
            cpus: machine.places.iter().map(|(cpu, place)| Cpu::new(machine, *cpu, *place)).collect(),
            nodes: nodes
                .iter()
                .map(|&node| Node {
                    node,
                    cpus: topology.members(Group::Node, node).to_string(),
                    memory: topology.has_memory(node),
                    distances: nodes.iter().map(|&other| topology.distance(node, other)).collect(),
                })
                .collect(),
            kinds: Kinds {
                source: Some(topology.kinds_source()).filter(|source| *source != Source::None).map(Source::name),
                big: cpus(&|cpu| topology.kind(cpu) == CoreKind::Big),
                little: cpus(&|cpu| topology.kind(cpu) == CoreKind::Little),
                classes: (0..topology.classes()).map(|class| cpus(&|cpu| topology.class(cpu) == class)).collect(),
            },
            level: Level {
                name: machine.level.name(),
                reason: machine.reason.to_string(),
                groups: machine
                    .locality_groups()
                    .into_iter()
                    .map(|(group, cpus)| LocalityGroup { group, cpus: cpus.to_string() })
                    .collect(),
            },
            not_visible: machine.not_visible(),
            route: route.cpus,
            route_stored: match route.origin {
                Origin::Stored(path) => Some(path),
                Origin::Declared | Origin::Topology => None,
            },
        }
    }
}

impl Cpu {
    fn new(machine: &Machine, cpu: usize, place: lockswap_platform::Place) -> Self {
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
}

/// The name shown to users.
pub fn kind_name(kind: CoreKind) -> &'static str {
    match kind {
        CoreKind::Big => "big",
        CoreKind::Little => "little",
    }
}
