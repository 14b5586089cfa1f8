//! What adds up of the events of an object.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::histogram::Lengths;
use crate::stacks::StackId;
use crate::threads::ThreadId;

/// Different stacks that are kept of an object's waiters, of its holders, and pairs of them.
const MOST_STACKS: usize = 2_000;

/// Different threads that are kept of those that used an object.
const MOST_USERS: usize = 2_000;

/// The sums of an object, or of several.
#[derive(Debug, Default)]
pub struct Sums {
    /// The threads that waited for it or held it.
    pub users: HashSet<ThreadId>,
    /// When the first event began and the last one ended, ns.
    pub span: Option<(u64, u64)>,
    /// All waits.
    pub waits: Lengths,
    /// How many waits ended without what they were for, estimated.
    pub failed: f64,
    /// How many waiters slept, estimated.
    pub slept: f64,
    /// All holds.
    pub holds: Lengths,
    /// During how many holds the holder gave up its CPU, estimated.
    pub holder_slept: f64,
    /// During how many it lost its CPU.
    pub holder_preempted: f64,
    /// What holders let others wait, estimated, ns.
    pub charged: f64,
    /// From a release until the waiter went on.
    pub handed: Lengths,
    /// How many waits ended by a release of another thread, estimated: of those in `handed`.
    pub changed_owner: f64,
    /// On another CPU.
    pub changed_cpu: f64,
    /// On another NUMA node.
    pub changed_node: f64,
    /// The most that waited at once, by their weights.
    pub weighted_queue: u32,
    /// By the waiters' stacks.
    pub waiters: HashMap<StackId, Sum>,
    /// By the holders' stacks.
    pub holders: HashMap<StackId, Sum>,
    /// What was charged, by the threads that waited and those that let them wait, ns.
    pub threads: HashMap<(ThreadId, ThreadId), f64>,
    /// The same by their stacks.
    pub pairs: HashMap<(StackId, StackId), f64>,
}

/// What was summed up of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sum {
    /// How often, estimated.
    pub count: f64,
    /// Time of waiters: of a waiter its own, of a holder that of those whom it let wait, ns.
    pub waited: f64,
    /// Of a holder: how long it held, ns.
    pub held: f64,
}

/// Nobody, at no place: what stands for those for whom there is no room.
pub const NOBODY: (ThreadId, StackId) = (ThreadId::UNKNOWN, StackId::NONE);

impl Sums {
    /// Whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty() && self.holders.is_empty()
    }

    /// A thread used it from then on for so long, ns.
    pub fn used(&mut self, thread: ThreadId, begin: u64, length: u64) {
        if self.users.len() < MOST_USERS {
            self.users.insert(thread);
        }
        self.widen((begin, begin + length));
    }

    fn widen(&mut self, (begin, end): (u64, u64)) {
        self.span = Some(self.span.map_or((begin, end), |(first, last)| (first.min(begin), last.max(end))));
    }

    /// The time of all threads that used it, from the first event to the last, ns.
    pub fn involved(&self) -> f64 {
        self.span.map_or(0.0, |(first, last)| (last - first) as f64 * self.users.len() as f64)
    }

    /// What was summed up of a waiter's stack.
    pub fn waiter(&mut self, stack: StackId) -> &mut Sum {
        entry(&mut self.waiters, stack, StackId::NONE)
    }

    /// What was summed up of a holder's stack.
    pub fn holder(&mut self, stack: StackId) -> &mut Sum {
        entry(&mut self.holders, stack, StackId::NONE)
    }

    /// Charges a holder with time that this waiter waited, ns.
    pub fn charge(&mut self, waiter: (ThreadId, StackId), holder: (ThreadId, StackId), waited: f64) {
        *entry(&mut self.threads, (waiter.0, holder.0), (NOBODY.0, NOBODY.0)) += waited;
        *entry(&mut self.pairs, (waiter.1, holder.1), (NOBODY.1, NOBODY.1)) += waited;
    }

    /// The most that waited at once: what the weights say, but not more than threads were seen waiting.
    pub fn longest_queue(&self) -> u32 {
        if self.weighted_queue <= 1 {
            return self.weighted_queue.min(self.threads.len() as u32);
        }
        let mut waiters: Vec<ThreadId> = self.threads.keys().map(|(waiter, _)| *waiter).collect();
        waiters.sort_unstable();
        waiters.dedup();
        self.weighted_queue.min(waiters.len() as u32)
    }

    /// Makes these sums ready to be added to others: the queue of an object is that of its own waiters.
    pub fn settle(&mut self) {
        self.weighted_queue = self.longest_queue();
    }

    /// Adds what another one has, after both were ready for that; of both together as many stacks are told apart as of
    /// one.
    pub fn merge(&mut self, other: &Self) {
        let room = MOST_USERS.saturating_sub(self.users.len());
        self.users.extend(other.users.iter().take(room));
        if let Some(span) = other.span {
            self.widen(span);
        }
        self.waits.merge(&other.waits);
        self.holds.merge(&other.holds);
        self.handed.merge(&other.handed);
        self.failed += other.failed;
        self.slept += other.slept;
        self.holder_slept += other.holder_slept;
        self.holder_preempted += other.holder_preempted;
        self.charged += other.charged;
        self.changed_owner += other.changed_owner;
        self.changed_cpu += other.changed_cpu;
        self.changed_node += other.changed_node;
        self.weighted_queue = self.weighted_queue.max(other.weighted_queue);
        other.waiters.iter().for_each(|(stack, sum)| self.waiter(*stack).add(sum));
        other.holders.iter().for_each(|(stack, sum)| self.holder(*stack).add(sum));
        for (threads, waited) in &other.threads {
            *entry(&mut self.threads, *threads, (NOBODY.0, NOBODY.0)) += waited;
        }
        for (stacks, waited) in &other.pairs {
            *entry(&mut self.pairs, *stacks, (NOBODY.1, NOBODY.1)) += waited;
        }
    }
}

impl Sum {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.waited += other.waited;
        self.held += other.held;
    }
}

/// The place for `key`, or that of `rest` where there are too many.
fn entry<K: Hash + Eq, V: Default>(map: &mut HashMap<K, V>, key: K, rest: K) -> &mut V {
    let is_full = map.len() >= MOST_STACKS && !map.contains_key(&key);
    map.entry(if is_full { rest } else { key }).or_default()
}
