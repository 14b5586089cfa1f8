//! Which NUMA node a CPU belongs to, where the user declares it (`LOCKSWAP_TOPOLOGY=2x1`).

use core::sync::atomic::{AtomicU16, Ordering};

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
