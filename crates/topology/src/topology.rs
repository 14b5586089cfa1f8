//! The topology: which CPUs share a core, caches, a die, a package and a NUMA node.
//!
//!   package > NUMA node > die > last-level-cache group > module (shared L2) > core > CPU
//!
//! That is the usual order; a machine may leave levels out, and a last-level cache may span several nodes. Everything
//! is read from sysfs, by group: the file that lists a group's CPUs is read for one of them.

use lockswap_platform::{CpuList, TopologyOverride, MAX_CPUS};

use crate::cpuset::CpuSet;
use crate::files::{Files, Reader};
use crate::kinds::Kinds;

/// Nodes with this number or above have no distances here.
pub const MAX_NODES: usize = 64;

/// What CPUs can have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// SMT siblings: the threads of one core.
    Core,
    /// Cores that share a second-level cache, or that the firmware calls a cluster.
    Module,
    /// CPUs that share the cache of the highest level.
    Llc,
    /// CPUs on one die.
    Die,
    /// CPUs in one package (socket).
    Package,
    /// CPUs that are equally near to all memory.
    Node,
}

impl Group {
    /// All of them, the smallest first.
    pub const ALL: [Group; 6] = [Group::Core, Group::Module, Group::Llc, Group::Die, Group::Package, Group::Node];

    /// The name shown to users.
    pub const fn name(self) -> &'static str {
        match self {
            Group::Core => "core",
            Group::Module => "module",
            Group::Llc => "LLC",
            Group::Die => "die",
            Group::Package => "package",
            Group::Node => "node",
        }
    }
}

/// How much to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Cores, modules and dies, too; last-level caches, packages and nodes are always read.
    pub all_groups: bool,
    /// The kinds of the cores, which takes a file or more per CPU.
    pub kinds: bool,
}

impl Wanted {
    /// Everything.
    pub const ALL: Self = Wanted { all_groups: true, kinds: true };
}

/// One CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    /// Number of its group of each sort plus one; 0 where it is not known.
    groups: [u16; Group::ALL.len()],
    /// How fast it is, as the source of the kinds says; 0 where it says nothing.
    pub(crate) speed: u32,
    /// Its class of speed, 0 for the fastest.
    pub(crate) class: u8,
}

impl Cpu {
    const UNKNOWN: Self = Cpu { groups: [0; Group::ALL.len()], speed: 0, class: 0 };
}

/// A machine. All zero bytes are one of which nothing is known.
pub struct Topology {
    pub(crate) cpus: [Cpu; MAX_CPUS],
    present: CpuSet,
    online: CpuSet,
    allowed: CpuSet,
    nodes: u64,
    nodes_with_memory: u64,
    distances: [[u8; MAX_NODES]; MAX_NODES],
    pub(crate) kinds: Kinds,
    nodes_are_declared: bool,
}

impl Topology {
    /// A machine of which nothing is known.
    pub const UNKNOWN: Self = Topology {
        cpus: [Cpu::UNKNOWN; MAX_CPUS],
        present: CpuSet::EMPTY,
        online: CpuSet::EMPTY,
        allowed: CpuSet::EMPTY,
        nodes: 0,
        nodes_with_memory: 0,
        distances: [[0; MAX_NODES]; MAX_NODES],
        kinds: Kinds::UNKNOWN,
        nodes_are_declared: false,
    };

    /// Reads `files`, laid out like `/sys`, into a machine of which nothing was known. What they do not say stays
    /// unknown; `allowed` are the CPUs that the process may use, `None` if all.
    pub fn read(&mut self, files: &impl Files, allowed: Option<&CpuSet>, wanted: Wanted) {
        let mut reader = Reader::new(files);
        let list = |reader: &mut Reader<'_, _>, name: &str| {
            reader.list(format_args!("devices/system/cpu/{name}")).map(CpuSet::from)
        };
        self.online = list(&mut reader, "online").or(allowed.copied()).unwrap_or(CpuSet::EMPTY);
        self.present = list(&mut reader, "present").unwrap_or(self.online);
        self.allowed = allowed.map_or(self.online, |allowed| self.online.and(allowed));
        self.read_nodes(&mut reader);
        self.read_groups(&mut reader, wanted.all_groups);
        if wanted.kinds {
            self.read_kinds(&mut reader);
        }
    }

    fn read_nodes<F: Files>(&mut self, reader: &mut Reader<'_, F>) {
        let set = |list: CpuList<'_>| list.cpus().filter(|node| *node < MAX_NODES).fold(0, |set, node| set | 1 << node);
        let Some(online) = reader.list(format_args!("devices/system/node/online")) else { return };
        self.nodes = set(online);
        self.nodes_with_memory = reader.list(format_args!("devices/system/node/has_memory")).map_or(self.nodes, set);
        let nodes = self.nodes;
        for node in bits(nodes) {
            if let Some(cpus) = reader.list(format_args!("devices/system/node/node{node}/cpulist")) {
                cpus.cpus().for_each(|cpu| self.set_group(Group::Node, cpu, node));
            }
            if let Some(row) = reader.text(format_args!("devices/system/node/node{node}/distance")) {
                let row = row.split_ascii_whitespace().map(|distance| distance.parse().unwrap_or(0));
                bits(nodes).zip(row).for_each(|(other, distance)| self.distances[node][other] = distance);
            }
        }
    }

    fn read_groups<F: Files>(&mut self, reader: &mut Reader<'_, F>, all: bool) {
        // The second name is the one that older kernels have.
        let mut cores = GroupFile(&["topology/core_cpus_list", "topology/thread_siblings_list"]);
        let mut clusters = GroupFile(&["topology/cluster_cpus_list"]);
        let mut dies = GroupFile(&["topology/die_cpus_list"]);
        let mut packages = GroupFile(&["topology/package_cpus_list", "topology/core_siblings_list"]);
        let mut caches = Caches::default();
        let online = self.online;
        for cpu in online.iter() {
            if self.group(Group::Llc, cpu).is_none() {
                if let Some(cpus) = caches.last(reader, cpu) {
                    self.set_members(Group::Llc, cpu, cpus);
                    // Tells a cache that cores share from one that a core has for itself.
                    self.read_group(Group::Core, cpu, &mut cores, reader);
                }
            }
            self.read_group(Group::Package, cpu, &mut packages, reader);
            if !all {
                continue;
            }
            self.read_group(Group::Core, cpu, &mut cores, reader);
            self.read_group(Group::Die, cpu, &mut dies, reader);
            if self.group(Group::Module, cpu).is_none() {
                // A cluster may share no cache (Kunpeng 920), and firmware that knows no clusters puts each core into
                // one.
                let modules = [clusters.read(reader, cpu), caches.second(reader, cpu)];
                if let Some(largest) = modules.into_iter().flatten().max_by_key(CpuSet::len) {
                    self.set_members(Group::Module, cpu, largest);
                }
            }
        }
        if all {
            self.drop_useless_dies();
        }
    }

    /// Forgets the dies if each CPU is one of its own: so say kernels that know no dies.
    fn drop_useless_dies(&mut self) {
        let is_alone = |cpu| self.group(Group::Die, cpu) == Some(cpu);
        if self.online.iter().all(is_alone) {
            self.cpus.iter_mut().for_each(|cpu| cpu.groups[Group::Die as usize] = 0);
        }
    }

    /// Looks up the group of `cpu` if it is not known.
    fn read_group<F: Files>(&mut self, group: Group, cpu: usize, file: &mut GroupFile, reader: &mut Reader<'_, F>) {
        if self.group(group, cpu).is_none() {
            if let Some(members) = file.read(reader, cpu) {
                self.set_members(group, cpu, members);
            }
        }
    }

    /// Notes that `members` are the group of `cpu`; those that are offline or in another group already are left out.
    fn set_members(&mut self, group: Group, cpu: usize, members: CpuSet) {
        let mut members = members.and(&self.online);
        members.insert(cpu);
        let Some(lowest) = members.first() else { return };
        members.iter().for_each(|cpu| self.set_group(group, cpu, lowest));
    }

    fn set_group(&mut self, group: Group, cpu: usize, number: usize) {
        let entry = &mut self.cpus[cpu].groups[group as usize];
        if *entry == 0 {
            *entry = number as u16 + 1;
        }
    }

    /// The CPUs that are there, also those that are offline.
    pub fn present(&self) -> &CpuSet {
        &self.present
    }

    /// The CPUs that are online.
    pub fn online(&self) -> &CpuSet {
        &self.online
    }

    /// The online CPUs that the process may use.
    pub fn allowed(&self) -> &CpuSet {
        &self.allowed
    }

    /// The group of `cpu`: the number of a node, of any other group its lowest online CPU. `None` where it is not
    /// known.
    pub fn group(&self, group: Group, cpu: usize) -> Option<usize> {
        self.cpus.get(cpu)?.groups[group as usize].checked_sub(1).map(usize::from)
    }

    /// The online CPUs of a group.
    pub fn members(&self, group: Group, number: usize) -> CpuSet {
        self.online.iter().filter(|&cpu| self.group(group, cpu) == Some(number)).collect()
    }

    /// The NUMA nodes that are online, also those without CPUs.
    pub fn nodes(&self) -> impl Iterator<Item = usize> {
        bits(self.nodes)
    }

    /// Whether a node has memory of its own.
    pub fn has_memory(&self, node: usize) -> bool {
        self.nodes_with_memory.checked_shr(node as u32).is_some_and(|nodes| nodes & 1 != 0)
    }

    /// The distance between two nodes as the firmware gives it: 10 to itself, and relative to that.
    pub fn distance(&self, from: usize, to: usize) -> Option<u8> {
        self.distances.get(from)?.get(to).copied().filter(|distance| *distance != 0)
    }

    /// Puts the CPUs into the declared nodes, each with one last-level cache; others stay where they are.
    pub(crate) fn declare_nodes(&mut self, nodes: TopologyOverride) {
        self.nodes_are_declared = true;
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            if let Some(node) = nodes.node(number) {
                cpu.groups[Group::Node as usize] = node + 1;
                cpu.groups[Group::Llc as usize] = node * nodes.cpus_per_node + 1;
            }
        }
    }

    /// Whether the user has declared the nodes.
    pub(crate) fn nodes_are_declared(&self) -> bool {
        self.nodes_are_declared
    }

    /// Whether cores share a last-level cache: if each core has one of its own, that level says nothing about
    /// distance.
    pub fn caches_are_shared(&self) -> bool {
        let of_another_core = |cpu: usize, first: usize| cpu != first && self.group(Group::Core, cpu) != Some(first);
        self.online.iter().any(|cpu| self.group(Group::Llc, cpu).is_some_and(|first| of_another_core(cpu, first)))
    }
}

/// The numbers of the bits that are set.
fn bits(set: u64) -> impl Iterator<Item = usize> {
    (0..MAX_NODES).filter(move |bit| set >> bit & 1 != 0)
}

/// A file per CPU that lists the CPUs of its group; the names it may have.
struct GroupFile(&'static [&'static str]);

impl GroupFile {
    fn read<F: Files>(&mut self, reader: &mut Reader<'_, F>, cpu: usize) -> Option<CpuSet> {
        while let Some((name, others)) = self.0.split_first() {
            if let Some(list) = reader.list(format_args!("devices/system/cpu/cpu{cpu}/{name}")) {
                return Some(list.into());
            }
            // A kernel has the file for all CPUs or for none: the name is not tried again.
            self.0 = others;
        }
        None
    }
}

/// The caches of a CPU are numbered in `cache/index0`, `cache/index1` and so on; most CPUs of a machine have the same.
#[derive(Default)]
struct Caches {
    /// Index and level of the last cache that was found to be of the highest level.
    last: Option<(usize, u32)>,
    /// Index of the last cache that was found to be of the second level.
    second: Option<usize>,
    /// Set if the first CPU has no caches: then the others have none, either.
    none: bool,
}

impl Caches {
    /// Who shares the cache of the highest level.
    fn last<F: Files>(&mut self, reader: &mut Reader<'_, F>, cpu: usize) -> Option<CpuSet> {
        if self.none {
            return None;
        }
        if self.last.is_none_or(|(index, level)| Self::level(reader, cpu, index) != Some(level)) {
            let levels = (0..).map_while(|index| Some((index, Self::level(reader, cpu, index)?)));
            self.last = levels.max_by_key(|(_, level)| *level);
            self.none = self.last.is_none();
        }
        Self::shared(reader, cpu, self.last?.0)
    }

    /// Who shares the second-level cache.
    fn second<F: Files>(&mut self, reader: &mut Reader<'_, F>, cpu: usize) -> Option<CpuSet> {
        if self.none {
            return None;
        }
        if self.second.is_none_or(|index| Self::level(reader, cpu, index) != Some(2)) {
            let levels = (0..).map_while(|index| Some((index, Self::level(reader, cpu, index)?)));
            self.second = levels.filter(|(_, level)| *level == 2).map(|(index, _)| index).next();
        }
        Self::shared(reader, cpu, self.second?)
    }

    fn level<F: Files>(reader: &mut Reader<'_, F>, cpu: usize, index: usize) -> Option<u32> {
        reader.number(format_args!("devices/system/cpu/cpu{cpu}/cache/index{index}/level"))
    }

    fn shared<F: Files>(reader: &mut Reader<'_, F>, cpu: usize, index: usize) -> Option<CpuSet> {
        reader.list(format_args!("devices/system/cpu/cpu{cpu}/cache/index{index}/shared_cpu_list")).map(CpuSet::from)
    }
}
