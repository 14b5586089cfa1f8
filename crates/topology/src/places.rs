//! What locks ask of the machine: which CPUs count as near each other, and which are big.
//!
//! NUMA locks prefer waiters of the holder's *locality group*. The groups are those of a [`Level`], which the user
//! names or the machine decides: see [`choose`].

use core::fmt;

use lockswap_platform::{group_number, CoreKind, Place, TopologyOverride, FEWEST_ENTRIES, MAX_CPUS};

use crate::cpuset::CpuSet;
use crate::kinds::Source;
use crate::topology::{Group, Topology};

/// What makes CPUs near each other for NUMA locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Level {
    /// The same NUMA node.
    Node = 1,
    /// The same last-level cache.
    Llc,
    /// The same kind of core.
    CoreKind,
}

impl Level {
    /// All of them.
    pub const ALL: [Level; 3] = [Level::Node, Level::Llc, Level::CoreKind];

    /// The name in `LOCKSWAP_LEVEL`.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Node => "node",
            Level::Llc => "llc",
            Level::CoreKind => "core-kind",
        }
    }

    /// The level called `name`.
    pub fn parse(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name().as_bytes() == name)
    }
}

/// Times that a cache line takes between two CPUs, ns: medians over all pairs at that distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Steps {
    /// CPUs of different cores with the same last-level cache.
    pub same_llc: f64,
    /// CPUs of the same node with different last-level caches.
    pub same_node: f64,
    /// CPUs of different nodes; `None` if there is one node.
    pub far: Option<f64>,
}

impl Steps {
    /// Reads two or three positive numbers with blanks between them, as [`Steps`] writes them.
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers =
            text.split(' ').map(|number| number.parse().ok().filter(|ns: &f64| *ns > 0.0 && ns.is_finite()));
        let (same_llc, same_node, far) = (numbers.next()??, numbers.next()??, numbers.next());
        let far = if let Some(far) = far { Some(far?) } else { None };
        numbers.next().is_none().then_some(Steps { same_llc, same_node, far })
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} {:.1}", self.same_llc, self.same_node)?;
        self.far.map_or(Ok(()), |far| write!(f, " {far:.1}"))
    }
}

/// Why a level was chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// The user named it.
    Asked,
    /// The user named another one, of which the machine shows nothing.
    NotVisible(Level),
    /// The user declares nodes.
    Declared,
    /// The machine shows no last-level cache that cores share.
    NoCaches,
    /// No node has several last-level caches.
    OneCachePerNode,
    /// A node has several last-level caches.
    SeveralCachesPerNode,
    /// A node has several last-level caches, and these times were measured.
    Measured(Steps),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Asked => f.write_str("as LOCKSWAP_LEVEL says"),
            Reason::NotVisible(Level::CoreKind) => {
                f.write_str("LOCKSWAP_LEVEL=core-kind asks for core kinds, but the CPUs count as alike")
            }
            Reason::NotVisible(level) => {
                write!(f, "LOCKSWAP_LEVEL={} asks for caches, but no shared ones are visible", level.name())
            }
            Reason::Declared => f.write_str("LOCKSWAP_TOPOLOGY declares the nodes"),
            Reason::NoCaches => f.write_str("no last-level caches that cores share are visible"),
            Reason::OneCachePerNode => f.write_str("no node has several last-level caches"),
            Reason::SeveralCachesPerNode => {
                f.write_str("a node has several last-level caches, and leaving one's cache is the largest step")
            }
            Reason::Measured(steps) => {
                write!(
                    f,
                    "measured: {:.0} ns within a cache, {:.0} ns within a node",
                    steps.same_llc, steps.same_node
                )?;
                steps.far.map_or(Ok(()), |far| write!(f, ", {far:.0} ns between nodes"))
            }
        }
    }
}

/// A step must be at least this large to count: the times of pairs at the same distance differ as much.
const SMALLEST_STEP: f64 = 1.25;

/// The level for NUMA locks, and why.
///
/// Unless the user names one (`asked`): the node where the user declares nodes, and where no node has several
/// last-level caches. Where one has, the level beyond which the time grows by the larger factor, if times were
/// measured. Else the last-level cache: on all machines with several of them in a node of which measurements are
/// public (AMD's Zen, where a node is 2 to 16 of them, and Apple's M1), leaving the cache costs 3.6 to 5.3 times as
/// much, and leaving the node 1.7 to 2 times after that.
pub fn choose(topology: &Topology, asked: Option<Level>, steps: Option<Steps>) -> (Level, Reason) {
    match asked {
        Some(Level::Llc) if !topology.caches_are_shared() => return (Level::Node, Reason::NotVisible(Level::Llc)),
        Some(Level::CoreKind) if topology.classes() == 1 => return (Level::Node, Reason::NotVisible(Level::CoreKind)),
        Some(level) => return (level, Reason::Asked),
        None => {}
    }
    if let Some(reason) = reason_for_node(topology) {
        return (Level::Node, reason);
    }
    let Some(steps) = steps else { return (Level::Llc, Reason::SeveralCachesPerNode) };
    let leaving_cache = steps.same_node / steps.same_llc;
    let leaving_node = steps.far.map_or(1.0, |far| far / steps.same_node);
    let level = if leaving_cache >= leaving_node.max(SMALLEST_STEP) { Level::Llc } else { Level::Node };
    (level, Reason::Measured(steps))
}

/// Whether [`choose`] depends on the times between CPUs.
pub fn is_open(topology: &Topology, asked: Option<Level>) -> bool {
    asked.is_none() && reason_for_node(topology).is_none()
}

/// Why the level is the node, whatever the times are.
fn reason_for_node(topology: &Topology) -> Option<Reason> {
    if topology.nodes_are_declared() {
        Some(Reason::Declared)
    } else if !topology.caches_are_shared() {
        Some(Reason::NoCaches)
    } else if !several_caches_in_a_node(topology) {
        Some(Reason::OneCachePerNode)
    } else {
        None
    }
}

fn several_caches_in_a_node(topology: &Topology) -> bool {
    let place = |cpu| (topology.group(Group::Node, cpu), topology.group(Group::Llc, cpu));
    let allowed = topology.allowed();
    allowed.iter().any(|cpu| {
        let (node, llc) = place(cpu);
        // The first CPU of the node has another cache.
        allowed.iter().map(place).find(|other| other.0 == node).is_some_and(|other| other.1 != llc)
    })
}

/// What the user says about the machine, and which CPUs the process may use.
#[derive(Clone)]
pub struct Settings {
    /// `LOCKSWAP_LEVEL`.
    pub level: Option<Level>,
    /// `LOCKSWAP_TOPOLOGY`.
    pub nodes: Option<TopologyOverride>,
    /// `LOCKSWAP_BIG`.
    pub big: Option<CpuSet>,
    /// The CPUs that the process may use.
    pub allowed: CpuSet,
}

impl Settings {
    /// A number that differs for different settings, almost certainly.
    pub fn fingerprint(&self) -> u64 {
        let nodes = self.nodes.map_or(0, |nodes| u64::from(nodes.nodes) << 16 | u64::from(nodes.cpus_per_node));
        let level = self.level.map_or(0, |level| level as u64);
        let big = self.big.map_or(0, |big| big.fingerprint());
        [nodes, level, big].into_iter().fold(self.allowed.fingerprint(), |hash, word| {
            (hash.rotate_left(5) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        })
    }

    /// Puts what the user declares in the place of what was read.
    pub fn apply(&self, topology: &mut Topology) {
        if let Some(nodes) = self.nodes {
            topology.declare_nodes(nodes);
        }
        if let Some(big) = &self.big {
            topology.declare_big(big);
        }
    }
}

/// What [`find`] found, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// CPUs that the process may use.
    pub cpus: usize,
    /// Locality groups among them.
    pub groups: usize,
    /// Last-level-cache groups among them; nodes where no shared caches are visible.
    pub caches: usize,
    /// Groups of locality groups or of caches, for locks with three levels; 1 where the machine has none.
    pub outer: usize,
    /// Little CPUs among them.
    pub little: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = |n: usize| if n == 1 { "" } else { "s" };
        let Summary { cpus, groups, caches, outer, little } = *self;
        write!(f, "{cpus} CPU{} in {groups} group{}, {caches} cache{}", s(cpus), s(groups), s(caches))?;
        if outer > 1 {
            write!(f, ", {outer} outer groups")?;
        }
        write!(f, ", {little} little")
    }
}

/// Gives the place of each online CPU to `set`, and the kind of each that is offline: it may come online.
pub fn find(topology: &Topology, level: Level, mut set: impl FnMut(usize, Place)) -> Summary {
    let allowed = topology.allowed();
    let groups = Numbers::of(topology, u32::MAX, |cpu| group(topology, level, cpu));
    let cache_level = if topology.caches_are_shared() { Level::Llc } else { Level::Node };
    let caches = Numbers::of(topology, u32::MAX, |cpu| group(topology, cache_level, cpu));
    // The innermost groups are the caches, also where the locality groups are larger.
    let inner_is_cache = level == Level::Node && topology.caches_are_shared() && several_caches_in_a_node(topology);
    let inner = if inner_is_cache { &caches } else { &groups };
    let outer = if level == Level::CoreKind { None } else { Outer::of(topology, inner.count) };
    // A process that may use little CPUs only has none that is faster; what the user declares is as he says.
    let all_alike =
        topology.kinds_source() != Source::Declared && allowed.iter().all(|cpu| topology.kind(cpu) == CoreKind::Little);
    let mut little = 0;
    for cpu in topology.online().iter() {
        let kind = if all_alike { CoreKind::Big } else { topology.kind(cpu) };
        little += usize::from(kind == CoreKind::Little && allowed.contains(cpu));
        let number = |numbers: &Numbers, level| numbers.numbers[group(topology, level, cpu)];
        let place = Place::new(number(&groups, level), number(&caches, cache_level), kind);
        let place = if groups.count == 1 { place.with_only_group() } else { place };
        set(cpu, place.with_hierarchy(inner_is_cache, outer.as_ref().map(|outer| outer.number(topology, cpu))));
    }
    for cpu in topology.present().without(topology.online()).iter() {
        set(cpu, Place::default().with_kind(topology.kind(cpu)));
    }
    let outer = outer.map_or(1, |outer| outer.numbers.count);
    Summary { cpus: allowed.len(), groups: groups.count, caches: caches.count, outer, little }
}

/// The groups in which the innermost ones lie.
struct Outer {
    sort: Group,
    numbers: Numbers,
}

impl Outer {
    /// Locks that keep an entry for each have few, and a number has 5 bits in a [`Place`].
    const MOST: u32 = 16;

    /// The smallest groups that the process can use several of, and fewer than of the innermost ones.
    fn of(topology: &Topology, inner: usize) -> Option<Self> {
        [Group::Node, Group::Package].into_iter().find_map(|sort| {
            let numbers = Numbers::of(topology, Self::MOST, |cpu| topology.group(sort, cpu).unwrap_or(0));
            (1 < numbers.count && numbers.count < inner).then_some(Outer { sort, numbers })
        })
    }

    fn number(&self, topology: &Topology, cpu: usize) -> u32 {
        self.numbers.numbers[topology.group(self.sort, cpu).unwrap_or(0)].into()
    }
}

/// The group of `cpu` at a level, below [`MAX_CPUS`]; CPUs of which nothing is known are one group with those of node 0.
fn group(topology: &Topology, level: Level, cpu: usize) -> usize {
    match level {
        Level::Node => topology.group(Group::Node, cpu).unwrap_or(0),
        Level::Llc => topology.group(Group::Llc, cpu).unwrap_or(0),
        Level::CoreKind => topology.kind(cpu) as usize,
    }
}

/// The numbers of groups as locks are told them.
struct Numbers {
    /// By the number that the topology has.
    numbers: [u16; MAX_CPUS],
    /// How many of the groups the process can use.
    count: usize,
}

impl Numbers {
    /// The groups that the process can use come first, node by node, and are numbered by [`group_number`]. Where there
    /// are more than `most`, neighbours share a number.
    fn of(topology: &Topology, most: u32, group: impl Fn(usize) -> usize) -> Self {
        const NONE: u16 = u16::MAX;
        let mut numbers = [NONE; MAX_CPUS];
        let mut count = 0;
        let mut rank = |cpus: &CpuSet| {
            // By node, then by number: neighbours get neighbouring ranks.
            let node = |cpu| topology.group(Group::Node, cpu);
            let mut next = cpus.iter().map(node).min();
            while let Some(this) = next {
                for cpu in cpus.iter().filter(|&cpu| node(cpu) == this) {
                    let rank = &mut numbers[group(cpu)];
                    if *rank == NONE {
                        *rank = count;
                        count += 1;
                    }
                }
                next = cpus.iter().map(node).filter(|node| *node > this).min();
            }
            u32::from(count)
        };
        let usable = rank(topology.allowed());
        rank(&topology.online().without(topology.allowed()));
        let shown = usable.min(most);
        // Numbers from here on are free.
        let free = if shown > FEWEST_ENTRIES { shown.next_power_of_two() } else { shown };
        for number in numbers.iter_mut().filter(|number| **number != NONE) {
            *number = match u32::from(*number) {
                rank if rank < usable => group_number(rank * shown / usable, shown),
                rank => rank - usable + free,
            } as u16;
        }
        Numbers { numbers, count: usable as usize }
    }
}
