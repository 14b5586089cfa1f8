//! How the CPUs of a machine lie, in the terms of a machine file: sockets, nodes, clusters of cores.
//!
//! A machine file says that all nodes are alike, that the cores of a cluster are of one kind, and that all cores of a
//! kind have the same number of hardware threads. CPUs that do not lie like that are refused; where something is left
//! out that a file cannot say, the shape notes it.

use std::collections::{BTreeMap, BTreeSet};

use lockswap_machine::cpuset::CpuSet;
use lockswap_machine::topology::{Group, Topology};
use lockswap_platform::CoreKind;

use crate::machine::Invalid;

/// A kind of core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub name: String,
    /// Its class of speed, 0 for the fastest.
    pub class: usize,
    pub threads: usize,
    pub little: bool,
}

/// A core, and what it is part of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Core {
    /// Its hardware threads that may be used.
    pub cpus: Vec<usize>,
    pub kind: usize,
    /// Numbers in the whole machine.
    pub cluster: usize,
    pub node: usize,
    pub socket: usize,
}

/// What two CPUs have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// A core.
    Core,
    /// A cluster of cores of this kind.
    Cluster(usize),
    /// A node.
    Node,
    /// A socket.
    Socket,
    /// The machine.
    Machine,
}

/// How the CPUs lie that a process may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    pub(super) sockets: usize,
    pub(super) nodes_per_socket: usize,
    /// Kind and cores of each cluster of one node.
    pub(super) clusters: Vec<(usize, usize)>,
    pub(super) llc_is_node: bool,
    pub(super) siblings_adjacent: bool,
    pub(super) kinds: Vec<Kind>,
    /// In the order of the simulated machine.
    pub(super) cores: Vec<Core>,
    pub(super) notes: Vec<String>,
}

/// Before it is known that all nodes are alike: for each node its socket and its clusters, which are lists of cores.
type Nodes = Vec<(usize, Vec<Vec<Found>>)>;

/// A core as it was found.
#[derive(Clone, Debug)]
struct Found {
    cpus: Vec<usize>,
    class: usize,
    llc: Option<usize>,
    module: Option<usize>,
}

impl Shape {
    /// The shape of the CPUs of `topology` that may be used; an error says what a machine file cannot.
    pub fn of(topology: &Topology) -> Result<Self, Invalid> {
        let allowed = *topology.allowed();
        let mut notes = Vec::new();
        let (nodes, nodes_per_socket) = nodes(topology, &allowed, &mut notes)?;
        let mut clustered: Nodes = Vec::new();
        let mut llc_is_node = false;
        for (socket, cpus) in &nodes {
            let (clusters, one_cache) = clusters(topology, cpus, &mut notes);
            llc_is_node |= one_cache && clusters.len() > 1;
            clustered.push((*socket, clusters));
        }
        let classes = topology.classes();
        let of_core = |core: &Found| (core.class, core.cpus.len());
        let all = || clustered.iter().flat_map(|(_, clusters)| clusters.iter().flatten());
        let distinct: BTreeSet<_> = all().map(of_core).collect();
        let kinds: Vec<Kind> = distinct
            .iter()
            .map(|&(class, threads)| {
                let little = all().any(|core| core.class == class && topology.kind(core.cpus[0]) == CoreKind::Little);
                let mut name = match (classes, little) {
                    (1, _) => "core".to_owned(),
                    (2, false) => "big".to_owned(),
                    (2, true) => "little".to_owned(),
                    _ => format!("class{class}"),
                };
                if distinct.iter().filter(|other| other.0 == class).count() > 1 {
                    name += &format!("-{threads}");
                }
                Kind { name, class, threads, little }
            })
            .collect();
        let kind_of = |core: &Found| distinct.iter().position(|kind| *kind == of_core(core)).unwrap_or(0);
        let plan = |clusters: &[Vec<Found>]| -> Vec<(usize, usize)> {
            clusters.iter().map(|cluster| (kind_of(&cluster[0]), cluster.len())).collect()
        };
        // In the order of the CPUs, unless the nodes are alike in another one only.
        let first = plan(&clustered[0].1);
        if clustered.iter().any(|(_, clusters)| plan(clusters) != first) {
            let order = |cluster: &Vec<Found>| (kind_of(&cluster[0]), usize::MAX - cluster.len());
            clustered.iter_mut().for_each(|(_, clusters)| clusters.sort_by_key(order));
        }
        let first = plan(&clustered[0].1);
        if let Some(odd) = clustered.iter().position(|(_, clusters)| plan(clusters) != first) {
            return Err(unlike(&nodes[0].1, &nodes[odd].1));
        }
        let mut cores = Vec::new();
        let mut cluster_number = 0;
        for (node, (socket, clusters)) in clustered.iter().enumerate() {
            for cluster in clusters {
                let core = |core: &Found| Core {
                    cpus: core.cpus.clone(),
                    kind: kind_of(core),
                    cluster: cluster_number,
                    node,
                    socket: *socket,
                };
                cores.extend(cluster.iter().map(core));
                cluster_number += 1;
            }
        }
        let mut shape = Shape {
            sockets: nodes.len() / nodes_per_socket,
            nodes_per_socket,
            clusters: first,
            llc_is_node,
            siblings_adjacent: true,
            kinds,
            cores,
            notes,
        };
        let is_ascending = |shape: &Shape| shape.cpus().is_sorted();
        shape.siblings_adjacent = is_ascending(&shape) && shape.cores.iter().any(|core| core.cpus.len() > 1);
        if !shape.siblings_adjacent && !is_ascending(&shape) {
            shape.notes.push("the simulated machine numbers its CPUs in another order than this one".into());
        }
        Ok(shape)
    }

    /// The CPUs of this machine in the order of the simulated ones.
    pub fn cpus(&self) -> Vec<usize> {
        if self.siblings_adjacent {
            return self.cores.iter().flat_map(|core| core.cpus.iter().copied()).collect();
        }
        let most = self.cores.iter().map(|core| core.cpus.len()).max().unwrap_or(0);
        let nth = |n: usize| self.cores.iter().filter_map(move |core| core.cpus.get(n).copied());
        (0..most).flat_map(nth).collect()
    }

    /// How many there are, for people.
    pub fn cpus_in_words(&self) -> String {
        match self.cpus().len() {
            1 => "1 CPU".into(),
            several => format!("{several} CPUs"),
        }
    }

    /// What two cores have in common.
    pub(super) fn level(&self, one: &Core, other: &Core) -> Level {
        match () {
            () if one.cpus == other.cpus => Level::Core,
            () if one.cluster == other.cluster => Level::Cluster(one.kind),
            () if one.node == other.node => Level::Node,
            () if one.socket == other.socket => Level::Socket,
            () => Level::Machine,
        }
    }
}

/// The CPUs of each node, with the socket's number, socket by socket; and the number of nodes in a socket.
#[allow(clippy::type_complexity)]
fn nodes(
    topology: &Topology,
    allowed: &CpuSet,
    notes: &mut Vec<String>,
) -> Result<(Vec<(usize, Vec<usize>)>, usize), Invalid> {
    let mut nodes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for cpu in allowed.iter() {
        nodes.entry(topology.group(Group::Node, cpu).unwrap_or(0)).or_default().push(cpu);
    }
    let packages =
        |cpus: &[usize]| -> BTreeSet<_> { cpus.iter().map(|&cpu| topology.group(Group::Package, cpu)).collect() };
    let spans = nodes.values().any(|cpus| packages(cpus).len() > 1);
    if spans {
        notes.push("a NUMA node spans several packages: each node counts as a socket".into());
    }
    let mut sockets: BTreeMap<_, Vec<Vec<usize>>> = BTreeMap::new();
    for (number, cpus) in nodes {
        let package = if spans { None } else { packages(&cpus).into_iter().next().flatten() };
        sockets.entry(package.map_or((1, number), |package| (0, package))).or_default().push(cpus);
    }
    let per_socket = sockets.values().next().map_or(1, Vec::len);
    if let (Some(one), Some(odd)) = (sockets.values().next(), sockets.values().find(|nodes| nodes.len() != per_socket))
    {
        return Err(unlike(&one.concat(), &odd.concat()));
    }
    let list = sockets.into_values().enumerate();
    Ok((list.flat_map(|(socket, nodes)| nodes.into_iter().map(move |cpus| (socket, cpus))).collect(), per_socket))
}

/// The clusters of a node, which has these CPUs; and whether they share one last-level cache.
fn clusters(topology: &Topology, cpus: &[usize], notes: &mut Vec<String>) -> (Vec<Vec<Found>>, bool) {
    let mut cores: BTreeMap<usize, Found> = BTreeMap::new();
    for &cpu in cpus {
        let number = topology.group(Group::Core, cpu).unwrap_or(cpu);
        let [llc, module] = [Group::Llc, Group::Module].map(|group| topology.group(group, cpu));
        let found = || Found { cpus: Vec::new(), class: topology.class(cpu), llc, module };
        cores.entry(number).or_insert_with(found).cpus.push(cpu);
    }
    let cores: Vec<Found> = cores.into_values().collect();
    let caches: BTreeSet<_> = cores.iter().map(|core| core.llc).collect();
    let one_cache = caches.len() == 1 || !topology.caches_are_shared();
    if one_cache && caches.len() > 1 {
        note(notes, "no cores share a cache, as far as the system shows: those of a node count as one cluster");
    }
    let several =
        |module: Option<usize>| module.filter(|_| cores.iter().filter(|core| core.module == module).count() > 1);
    let mut groups: BTreeMap<_, Vec<Found>> = BTreeMap::new();
    for core in &cores {
        let part = if one_cache { several(core.module) } else { core.llc };
        // The kind too: cores of different kinds never make a cluster.
        groups.entry((part, core.class, core.cpus.len())).or_default().push(core.clone());
    }
    if !one_cache && groups.len() > caches.len() {
        note(
            notes,
            "cores of different kinds share a last-level cache: those of each kind count as a cluster of their own",
        );
    }
    let mut groups: Vec<Vec<Found>> = groups.into_values().collect();
    groups.sort_by_key(|cluster| cluster[0].cpus[0]);
    (groups, one_cache)
}

fn note(notes: &mut Vec<String>, text: &str) {
    if !notes.iter().any(|known| known == text) {
        notes.push(text.to_owned());
    }
}

/// The error for nodes or sockets that differ.
fn unlike(one: &[usize], other: &[usize]) -> Invalid {
    let set = |cpus: &[usize]| cpus.iter().copied().collect::<CpuSet>();
    let larger = if other.len() > one.len() { other } else { one };
    Invalid {
        what: format!(
            "CPUs {} and CPUs {} differ: a machine file can only say that all nodes are alike",
            set(one),
            set(other)
        ),
        remedy: format!("start it on CPUs that make equal nodes, or on one of them: taskset -c {}", set(larger)),
    }
}
