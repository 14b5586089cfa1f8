//! Described machines: what the engine looks up in them. `file.rs` reads their files, `tables.rs` makes them from
//! those.

mod file;
mod tables;

use file::File;
pub(crate) use file::Migratory;
use lockswap_platform::Hierarchy;
use lockswap_toml::shortened;
pub use lockswap_workloads::invalid::Invalid;

/// A time or a duration in picoseconds.
pub type Ps = u64;

/// Machines that come with the simulator: id and file.
const BUILT_IN: &[(&str, &str)] = &[
    ("xeon-e5-2699v3", include_str!("../../machines/xeon-e5-2699v3.toml")),
    ("xeon-e7-8895v3", include_str!("../../machines/xeon-e7-8895v3.toml")),
    ("xeon-8s192c", include_str!("../../machines/xeon-8s192c.toml")),
    ("amd-2990wx", include_str!("../../machines/amd-2990wx.toml")),
    ("opteron-a64", include_str!("../../machines/opteron-a64.toml")),
    ("epyc-7742-2s", include_str!("../../machines/epyc-7742-2s.toml")),
    ("apple-m1", include_str!("../../machines/apple-m1.toml")),
    ("hikey970", include_str!("../../machines/hikey970.toml")),
    ("intel-hybrid", include_str!("../../machines/intel-hybrid.toml")),
];

/// A logical CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu {
    pub(crate) core: u32,
    pub(crate) cluster: u32,
    pub(crate) node: u32,
    pub(crate) kind: u32,
    /// Its position on the route.
    pub(crate) rank: u32,
    /// What locks are told of its groups.
    pub(crate) told: Told,
}

/// The groups of a CPU as locks are told them: numbered so that neighbours share an entry of an array that is too
/// short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) node: u32,
    pub(crate) is_only_node: bool,
    pub(crate) llc: u32,
    pub(crate) hierarchy: Hierarchy,
}

/// A kind of core, with its speeds as factors on durations, in 1/1024.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) little: bool,
    pub(crate) compute: u64,
    pub(crate) access: u64,
    /// What is left of a miss in a stream.
    pub(crate) stream: u64,
    /// In 1/1024.
    pub(crate) favour: i32,
}

/// A machine, ready to run on.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Its id, or the path of its file.
    pub id: String,
    /// One line for people.
    pub title: String,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) cores: u32,
    pub(crate) nodes: u32,
    pub(crate) clusters: u32,
    pub(crate) kinds: Vec<Kind>,
    /// Where threads start.
    pub(crate) order: Vec<u32>,
    pub(crate) llc_is_node: bool,
    pub(crate) has_siblings: bool,
    /// Ps between two clusters; within one on the diagonal.
    distances: Vec<Ps>,
    pub(crate) node_of_cluster: Vec<u32>,
    pub(crate) cluster_of_core: Vec<u32>,
    pub(crate) costs: Costs,
}

/// Durations in picoseconds; shares in 1/1024.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    /// The binary logarithm of the bytes of a line.
    pub(crate) line: u32,
    pub(crate) sibling: Ps,
    pub(crate) shared_cache: Ps,
    pub(crate) memory: Ps,
    pub(crate) hit: Ps,
    pub(crate) rmw: Ps,
    pub(crate) pause: Ps,
    pub(crate) clock: Ps,
    pub(crate) counter: Ps,
    pub(crate) cycle: Ps,
    pub(crate) store_buffer: usize,
    pub(crate) writes_ahead: bool,
    pub(crate) sibling_busy: u64,
    pub(crate) sibling_spinning: u64,
    pub(crate) migratory: Migratory,
    pub(crate) outstanding: bool,
    pub(crate) request: u64,
    pub(crate) serve: Ps,
    pub(crate) invalidate: Ps,
    pub(crate) home: Ps,
    pub(crate) link: Ps,
    pub(crate) three_hops: Ps,
    pub(crate) near: u32,
    pub(crate) jitter: u64,
    pub(crate) start: Ps,
    pub(crate) slice: Ps,
    pub(crate) wakeup_granularity: Ps,
    pub(crate) switch: Ps,
    pub(crate) yield_: Ps,
    pub(crate) park: Ps,
    pub(crate) unpark: Ps,
    pub(crate) wake: Ps,
    pub(crate) settle: Ps,
    pub(crate) interrupt: Ps,
    pub(crate) interrupt_each: Ps,
    pub(crate) interrupted: Ps,
    pub(crate) timer_slack: Ps,
    pub(crate) migrate: bool,
    pub(crate) patience: bool,
}

impl Machine {
    /// The ids of the machines that come with the simulator.
    pub fn ids() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(id, _)| *id)
    }

    /// The file of the machine called `id`.
    pub fn file(id: &str) -> Option<&'static str> {
        BUILT_IN.iter().find(|(known, _)| *known == id).map(|(_, text)| *text)
    }

    /// The machine called `id`, with some keys set to other values: `("latency.remote", "130")`.
    pub fn built_in(id: &str, changes: &[(String, String)]) -> Result<Self, Invalid> {
        let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == id) else {
            let mut unknown = Invalid::unknown(format!("there is no machine '{id}'"), id, Self::ids());
            unknown.remedy += "; or the path of a machine file (with a / or ending in .toml)";
            return Err(unknown);
        };
        Self::parse(id, text, changes)
    }

    /// The machine that `text` describes. `name` stands for it in messages.
    pub fn parse(name: &str, text: &str, changes: &[(String, String)]) -> Result<Self, Invalid> {
        let machine = File::read(name, text, changes).and_then(|file| Self::new(name, &file));
        machine.map_err(|error| Invalid { what: shortened(&error.what, name), ..error })
    }

    /// How many CPUs it has.
    pub fn cpu_count(&self) -> usize {
        self.cpus.len()
    }

    /// Time of one step of [`lockswap_platform::Platform::compute`] at speed 1, ns.
    pub fn step_ns(&self) -> f64 {
        (crate::platform::STEP_CYCLES * self.costs.cycle) as f64 / 1e3
    }

    /// The CPUs in the order in which threads start on them.
    pub fn placement(&self) -> &[u32] {
        &self.order
    }

    /// Ps that a modified line takes from core to core.
    #[inline]
    pub(crate) fn distance(&self, from: u32, to: u32) -> Ps {
        if from == to {
            return self.costs.sibling;
        }
        self.cluster_distance(self.cluster_of_core[from as usize], self.cluster_of_core[to as usize])
    }

    /// What a request takes of a latency.
    #[inline]
    pub(crate) fn request(&self, latency: Ps) -> Ps {
        (latency * self.costs.request) >> 10
    }

    /// What the line takes of it.
    #[inline]
    pub(crate) fn supply(&self, latency: Ps) -> Ps {
        (latency * (1024 - self.costs.request)) >> 10
    }

    /// How long a request takes from a core to the directory of a node; nothing within the node.
    pub(crate) fn way_to_node(&self, core: u32, node: u32) -> Ps {
        let cluster = self.cluster_of_core[core as usize];
        if self.node_of_cluster[cluster as usize] == node {
            return 0;
        }
        self.request(self.cluster_distance(cluster, node * (self.clusters / self.nodes)))
    }

    #[inline]
    pub(crate) fn cluster_distance(&self, from: u32, to: u32) -> Ps {
        self.distances[(from * self.clusters + to) as usize]
    }
}
