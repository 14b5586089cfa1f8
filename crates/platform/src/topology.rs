//! What the user declares about the machine: NUMA nodes (`LOCKSWAP_TOPOLOGY=2x1`), the route through the CPUs
//! (`LOCKSWAP_ROUTE=0,2,1,3`) and which CPUs are big (`LOCKSWAP_BIG=0-3`).

use crate::CoreKind;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};

/// CPUs with a higher number than this count as node 0 under a declared topology.
pub const MAX_CPUS: usize = 4096;

/// Node of each CPU plus one; 0 where nothing is declared.
static NODE_OF_CPU: [AtomicU16; MAX_CPUS] = [const { AtomicU16::new(0) }; MAX_CPUS];

/// A declared machine: `nodes` NUMA nodes of `cpus_per_node` CPUs, numbered node by node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopologyOverride {
    /// Number of NUMA nodes, at least 1.
    pub nodes: u16,
    /// CPUs in each node, at least 1.
    pub cpus_per_node: u16,
}

impl TopologyOverride {
    /// Reads `NODESxCPUS`, for instance `2x1`. `None` where the text has another form, a number is 0, or there are
    /// more than [`MAX_CPUS`] CPUs.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?;
        let (nodes, cpus) = text.split_once('x')?;
        let parsed = TopologyOverride { nodes: nodes.parse().ok()?, cpus_per_node: cpus.parse().ok()? };
        let total = parsed.nodes as usize * parsed.cpus_per_node as usize;
        (1..=MAX_CPUS).contains(&total).then_some(parsed)
    }
}

/// Makes [`crate::Native`] report the nodes of `topology` from now on.
pub fn set_override(topology: TopologyOverride) {
    let per_node = topology.cpus_per_node as usize;
    for node in 0..topology.nodes {
        let first = node as usize * per_node;
        for cpu in &NODE_OF_CPU[first..first + per_node] {
            // Relaxed: a hint; a reader that misses it sees the machine's own node.
            cpu.store(node + 1, Ordering::Relaxed);
        }
    }
}

/// The declared node of `cpu`, if there is one.
pub(crate) fn declared_node(cpu: u32) -> Option<u32> {
    let declared = NODE_OF_CPU.get(cpu as usize)?.load(Ordering::Relaxed);
    declared.checked_sub(1).map(u32::from)
}

/// Positions on a route at most; RON locks have a slot for each.
pub const MAX_RANKS: usize = 256;

/// A list of CPUs as Linux writes it, `0-3,8,10-11`, in the order written.
#[derive(Clone, Copy)]
pub struct CpuList<'a>(&'a str);

impl<'a> CpuList<'a> {
    /// Reads a list. `None` where the text has another form, is empty, or names a CPU of [`MAX_CPUS`] or above.
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        let text = core::str::from_utf8(text).ok()?.trim();
        text.split(',').all(|part| Self::range(part).is_some()).then_some(CpuList(text))
    }

    fn range(part: &str) -> Option<core::ops::RangeInclusive<usize>> {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = first.parse().ok()?..=last.parse().ok()?;
        (range.start() <= range.end() && *range.end() < MAX_CPUS).then_some(range)
    }

    /// The CPUs, in the order written.
    pub fn cpus(self) -> impl Iterator<Item = usize> + 'a {
        self.0.split(',').filter_map(Self::range).flatten()
    }
}

/// Rank of each CPU on the declared route plus one; 0 where nothing is declared.
static RANK_OF_CPU: [AtomicU16; MAX_CPUS] = [const { AtomicU16::new(0) }; MAX_CPUS];

/// Makes [`crate::Native`] follow `route`; CPUs that it does not name come after it, in their order. Called before locks
/// are used: a RON lock that is held meanwhile may lose its waiters.
pub fn set_route(route: CpuList<'_>) {
    // Relaxed throughout: set while the process has one thread.
    let unnamed = |cpu: &usize| RANK_OF_CPU[*cpu].load(Ordering::Relaxed) == 0;
    let mut rank = 0;
    for cpu in route.cpus().chain(0..MAX_CPUS) {
        if unnamed(&cpu) {
            rank += 1;
            RANK_OF_CPU[cpu].store(rank, Ordering::Relaxed);
        }
    }
}

/// The position of `cpu` on the route.
pub(crate) fn rank(cpu: u32) -> u32 {
    // Relaxed: set while the process has one thread.
    let declared = RANK_OF_CPU.get(cpu as usize).map_or(0, |rank| rank.load(Ordering::Relaxed));
    u32::from(declared).checked_sub(1).unwrap_or(cpu)
}

/// One bit for each CPU that is declared big; nothing is declared unless [`KINDS_DECLARED`].
static BIG: [AtomicU64; MAX_CPUS / 64] = [const { AtomicU64::new(0) }; MAX_CPUS / 64];
static KINDS_DECLARED: AtomicBool = AtomicBool::new(false);

/// Makes [`crate::Native`] count the CPUs in the list as big and all others as little, from now on.
pub fn set_big(cpus: CpuList<'_>) {
    // Relaxed throughout: a hint, as for the nodes.
    BIG.iter().for_each(|word| word.store(0, Ordering::Relaxed));
    for cpu in cpus.cpus() {
        BIG[cpu / 64].fetch_or(1 << (cpu % 64), Ordering::Relaxed);
    }
    KINDS_DECLARED.store(true, Ordering::Relaxed);
}

/// The kind of `cpu`: big where nothing is declared.
pub(crate) fn kind(cpu: u32) -> CoreKind {
    if !KINDS_DECLARED.load(Ordering::Relaxed) {
        return CoreKind::Big;
    }
    let word = BIG.get(cpu as usize / 64).map_or(0, |word| word.load(Ordering::Relaxed));
    if word & 1 << (cpu % 64) != 0 {
        CoreKind::Big
    } else {
        CoreKind::Little
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_read_in_order_and_nonsense_is_refused() {
        let cpus = |text: &str| CpuList::parse(text.as_bytes()).map(|list| list.cpus().collect::<std::vec::Vec<_>>());
        assert_eq!(cpus("0-2,8,5-6\n"), Some(std::vec![0, 1, 2, 8, 5, 6]));
        for nonsense in ["", "a", "3-1", "4096", "1,,2", "1-"] {
            assert_eq!(cpus(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_route_ranks_its_cpus_first() {
        set_route(CpuList::parse(b"2,0").unwrap());
        assert_eq!([0, 1, 2, 3, 5].map(rank), [1, 2, 0, 3, 5]);
        set_big(CpuList::parse(b"0-1,64").unwrap());
        assert_eq!([0, 2, 64].map(kind), [CoreKind::Big, CoreKind::Little, CoreKind::Big]);
    }
}
