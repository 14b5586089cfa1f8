//! In which order threads acquire objects, and which of these orders contradict each other.
//!
//! An order is that a thread wants one object while it holds another. Orders that lead round in a circle are a
//! possible deadlock: if each of the threads has its first object at the same moment, all of them wait for good (E. G.
//! Coffman and others, "System deadlocks", ACM Computing Surveys 3(2), 1971, section 1: circular wait).

use std::collections::HashMap;

use lockswap_records::trace::Use;
use petgraph::algo::{astar, tarjan_scc};
use petgraph::graph::{DiGraph, NodeIndex};

use crate::gather::Key;
use crate::stacks::StackId;
use crate::threads::ThreadId;

/// Orders that are told apart.
const MOST_ORDERS: usize = 100_000;

/// Pairs of orders that are looked at.
const MOST_LINKS: usize = 1_000_000;

/// A thread wants an object while it holds another one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Order {
    /// What it holds.
    pub held: Key,
    /// What it wants.
    pub wanted: Key,
    /// The first thread that was seen doing so.
    pub thread: ThreadId,
    /// Where it was then.
    pub stack: StackId,
}

/// Orders each of which wants what the next one holds, and the last one what the first one holds.
#[derive(Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The orders, as few as lead round from the first.
    pub orders: Vec<Order>,
    /// How many other orders lead from one of them to one of them.
    pub others: usize,
}

/// All orders that were seen.
#[derive(Default)]
pub struct Orders {
    found: HashMap<(Key, Key), Order>,
    /// Orders for which there was no room.
    pub left_out: u64,
}

impl Orders {
    /// Takes one.
    pub fn take(&mut self, order: Order) {
        let pair = (order.held, order.wanted);
        if self.found.len() < MOST_ORDERS || self.found.contains_key(&pair) {
            self.found.entry(pair).or_insert(order);
        } else {
            self.left_out += 1;
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.found.len()
    }

    /// One cycle of each set of orders that lead to each other.
    pub fn cycles(&self) -> Vec<Cycle> {
        let orders = self.of_entangled_objects();
        // What follows an order is one by which a thread holds what the order wants, in a way that lets it wait.
        let mut follow: DiGraph<Order, (), usize> = DiGraph::default();
        let nodes: Vec<NodeIndex<usize>> = orders.iter().map(|order| follow.add_node(*order)).collect();
        let mut by_held: HashMap<Key, Vec<usize>> = HashMap::new();
        for (index, order) in orders.iter().enumerate() {
            by_held.entry(order.held.whole()).or_default().push(index);
        }
        'all: for (index, order) in orders.iter().enumerate() {
            for next in by_held.get(&order.wanted.whole()).into_iter().flatten() {
                if follow.edge_count() == MOST_LINKS {
                    break 'all;
                }
                if !(order.wanted.used == Use::Read && orders[*next].held.used == Use::Read) {
                    follow.add_edge(nodes[index], nodes[*next], ());
                }
            }
        }
        let mut cycles: Vec<Cycle> =
            tarjan_scc(&follow).into_iter().filter_map(|set| shortest(&follow, &set)).collect();
        cycles.sort_by(|a, b| a.orders.len().cmp(&b.orders.len()).then_with(|| a.orders.cmp(&b.orders)));
        cycles
    }

    /// The orders between objects that lead to each other; of most programs, none.
    fn of_entangled_objects(&self) -> Vec<Order> {
        let mut objects: DiGraph<(), (), usize> = DiGraph::default();
        let mut nodes: HashMap<Key, NodeIndex<usize>> = HashMap::new();
        for (held, wanted) in self.found.keys() {
            let [held, wanted] =
                [held, wanted].map(|key| *nodes.entry(key.whole()).or_insert_with(|| objects.add_node(())));
            objects.add_edge(held, wanted, ());
        }
        let mut set_of = vec![0; objects.node_count()];
        for (number, set) in tarjan_scc(&objects).into_iter().enumerate() {
            set.into_iter().for_each(|node| set_of[node.index()] = number);
        }
        let set = |key: &Key| set_of[nodes[&key.whole()].index()];
        let mut orders: Vec<Order> =
            self.found.values().filter(|order| set(&order.held) == set(&order.wanted)).copied().collect();
        orders.sort_unstable();
        orders
    }
}

/// The shortest cycle through the first order of a set that lead to each other; `None` where it is alone.
fn shortest(follow: &DiGraph<Order, (), usize>, set: &[NodeIndex<usize>]) -> Option<Cycle> {
    let first = *set.iter().min()?;
    let is_last = |node: NodeIndex<usize>| follow.contains_edge(node, first);
    let (_, path) = astar(follow, first, is_last, |_| 1, |_| 0)?;
    let others = set.len().checked_sub(path.len())?;
    Some(Cycle { orders: path.into_iter().map(|node| follow[node]).collect(), others })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(held: (u64, Use), wanted: (u64, Use)) -> Order {
        let key = |(object, used)| Key::new(1, object, 0, used);
        Order { held: key(held), wanted: key(wanted), thread: ThreadId::UNKNOWN, stack: StackId::NONE }
    }

    /// Whether the cycles of these orders lead through these objects.
    fn assert_cycles(orders: &[Order], expected: &[&[u64]]) {
        let mut all = Orders::default();
        orders.iter().for_each(|order| all.take(*order));
        let found: Vec<Vec<u64>> =
            all.cycles().iter().map(|cycle| cycle.orders.iter().map(|order| order.held.object()).collect()).collect();
        assert_eq!(found, expected, "{orders:?}");
    }

    const MUTEX: Use = Use::Mutex;

    fn mutexes(pairs: &[(u64, u64)]) -> Vec<Order> {
        pairs.iter().map(|(held, wanted)| order((*held, MUTEX), (*wanted, MUTEX))).collect()
    }

    #[test]
    fn only_orders_that_lead_round_are_cycles() {
        assert_cycles(&[], &[]);
        assert_cycles(&mutexes(&[(1, 2), (2, 3), (1, 3)]), &[]);
        assert_cycles(&mutexes(&[(1, 2), (2, 1)]), &[&[1, 2]]);
        assert_cycles(&mutexes(&[(1, 2), (2, 3), (3, 4), (4, 1), (4, 5)]), &[&[1, 2, 3, 4]]);
        // Of several that hang together, the shortest through the first order.
        assert_cycles(&mutexes(&[(1, 2), (2, 3), (3, 1), (2, 1)]), &[&[1, 2]]);
        assert_cycles(&mutexes(&[(8, 9), (9, 8), (1, 2), (2, 3), (3, 1)]), &[&[8, 9], &[1, 2, 3]]);
    }

    #[test]
    fn two_who_only_read_do_not_wait_for_each_other() {
        let (read, write) = (Use::Read, Use::Write);
        let half = order((1, MUTEX), (2, read));
        assert_cycles(&[half, order((2, read), (1, MUTEX))], &[]);
        assert_cycles(&[half, order((2, write), (1, MUTEX))], &[&[1, 2]]);
        assert_cycles(&[order((1, MUTEX), (2, write)), order((2, read), (1, MUTEX))], &[&[1, 2]]);
        // Both uses are of one object.
        assert_cycles(&[half, order((2, read), (1, MUTEX)), order((2, write), (1, MUTEX))], &[&[1, 2]]);
    }

    #[test]
    fn there_is_room_for_so_many_and_a_hub_of_all_of_them_does_not_take_for_ever() {
        let mut all = Orders::default();
        let pairs: Vec<(u64, u64)> = (2..MOST_ORDERS as u64).flat_map(|leaf| [(1, leaf), (leaf, 1)]).collect();
        mutexes(&pairs).into_iter().for_each(|order| all.take(order));
        assert_eq!((all.len(), all.left_out), (MOST_ORDERS, pairs.len() as u64 - MOST_ORDERS as u64));
        let cycles = all.cycles();
        assert!(!cycles.is_empty() && cycles.iter().all(|cycle| cycle.orders.len() == 2), "{}", cycles.len());
    }
}
