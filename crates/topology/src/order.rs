//! A route without any measurement: along the topology, so that CPUs that have much in common follow each other.

use lockswap_platform::MAX_CPUS;

use crate::cpuset::CpuSet;
use crate::topology::{Group, Topology, MAX_NODES};

/// CPUs in the order of a route.
pub struct Order {
    cpus: [u16; MAX_CPUS],
    count: usize,
}

impl Order {
    /// The online CPUs that are in `cpus`: node by node, nodes as near to each other as their distances allow, and in
    /// a node by package, die, last-level cache, module and core.
    pub fn along(topology: &Topology, cpus: &CpuSet) -> Self {
        let mut order = Order { cpus: [0; MAX_CPUS], count: 0 };
        for cpu in cpus.and(topology.online()).iter() {
            order.cpus[order.count] = cpu as u16;
            order.count += 1;
        }
        let node_rank = rank_nodes(topology, cpus);
        let key = |cpu: &u16| {
            let cpu = usize::from(*cpu);
            let group = |group| topology.group(group, cpu);
            let node = group(Group::Node).and_then(|node| node_rank.get(node));
            let inner = [Group::Package, Group::Die, Group::Llc, Group::Module, Group::Core].map(group);
            (node, inner, cpu)
        };
        order.cpus[..order.count].sort_unstable_by_key(key);
        order
    }

    /// The CPUs, in order.
    pub fn iter(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.cpus[..self.count].iter().map(|cpu| usize::from(*cpu))
    }
}

/// The places of the nodes that hold some of the CPUs along a short round trip: to the nearest next, then improved by
/// reversing stretches. Of equal distances the lower number is the nearer.
fn rank_nodes(topology: &Topology, cpus: &CpuSet) -> [u8; MAX_NODES] {
    let mut rest = 0u64;
    for node in cpus.iter().filter_map(|cpu| topology.group(Group::Node, cpu)).filter(|node| *node < MAX_NODES) {
        rest |= 1 << node;
    }
    let distance = |from: u8, to: u8| {
        // A distance that the firmware does not tell is a long one.
        u32::from(topology.distance(from.into(), to.into()).unwrap_or(u8::MAX))
    };
    let mut trip = [0u8; MAX_NODES];
    let mut count = 0;
    let mut here = rest.trailing_zeros() as u8;
    while rest != 0 {
        trip[count] = here;
        count += 1;
        rest &= !(1 << here);
        let left = (0..MAX_NODES as u8).filter(|node| rest >> node & 1 != 0);
        here = left.min_by_key(|node| distance(here, *node)).unwrap_or(0);
    }
    let trip = &mut trip[..count];
    while improve(trip, distance) {}
    let mut ranks = [u8::MAX; MAX_NODES];
    trip.iter().enumerate().for_each(|(rank, node)| ranks[usize::from(*node)] = rank as u8);
    ranks
}

/// Reverses a stretch of the trip if that shortens it, in both directions together.
fn improve(trip: &mut [u8], distance: impl Fn(u8, u8) -> u32) -> bool {
    let both = |a, b| distance(a, b) + distance(b, a);
    for first in 1..trip.len() {
        for last in first + 1..trip.len() {
            let (before, behind) = (trip[first - 1], trip[(last + 1) % trip.len()]);
            let now = both(before, trip[first]) + both(trip[last], behind);
            if both(before, trip[last]) + both(trip[first], behind) < now {
                trip[first..=last].reverse();
                return true;
            }
        }
    }
    false
}
