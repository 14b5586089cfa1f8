//! Cache lines: who has a copy, who waits for one, and how long it takes to come.
//!
//! A line is exclusive to one core, or shared by several, or in memory. A request for a line that is on its way waits
//! in the line's queue; when the line may go on, an arbiter chooses the next one. A value is read or written at the
//! moment the request is served; the thread goes on when the line has arrived.

use super::cores::CoreSet;
use super::requests::Request;
use super::stores::Pending;
use super::{Engine, NOBODY};
use crate::machine::{Migratory, Ps};
use crate::word::Place;

/// A cache line. What each access looks at stands first, and so together in the host's memory.
#[repr(C, align(64))]
pub struct Line {
    /// The one core that may write.
    pub owner: u32,
    /// The core that has been served last.
    pub served: u32,
    /// The CPU that has written last.
    writer: u32,
    /// The thread that is alone with it.
    pub(super) alone: u32,
    /// The node whose directory keeps the line.
    pub(super) home: u32,
    /// Others have to wait that long.
    pub busy_until: Ps,
    /// When the core that was served last has it; from then on it goes on, however long it keeps the line from others.
    pub arrives: Ps,
    /// When the other hardware threads of the writer's core can see what it has written.
    for_siblings: Ps,
    /// When it was written last.
    pub changed: Ps,
    /// Changes when copies are invalidated or the content may have changed.
    pub version: u32,
    /// Whether its owner has written to it.
    dirty: bool,
    pub copies: CoreSet,
    /// What addresses hold for others while stores to them are pending.
    pub committed: Vec<(Place, u64)>,
    pub queue: Vec<Request>,
    /// Clusters with a copy.
    clusters: u64,
    /// How long it took the line to come to the core that was served last, without the request for it.
    pub(super) way: Ps,
    pub pending: Vec<Pending>,
    pub watchers: Vec<(u32, u32)>,
    /// When the announced event comes at which the queue goes on; [`Ps::MAX`] if none is.
    pub(super) announced: Ps,
    /// The request that has been chosen to be served next, and is on its way to the owner.
    pub(super) chosen: Option<Request>,
}

impl Line {
    pub fn new(home: u32) -> Self {
        Line {
            owner: NOBODY,
            copies: CoreSet::default(),
            clusters: 0,
            alone: NOBODY,
            home,
            busy_until: 0,
            arrives: 0,
            served: NOBODY,
            writer: NOBODY,
            for_siblings: 0,
            way: 0,
            changed: 0,
            dirty: false,
            version: 0,
            queue: Vec::new(),
            chosen: None,
            announced: Ps::MAX,
            watchers: Vec::new(),
            pending: Vec::new(),
            committed: Vec::new(),
        }
    }
}

impl Line {
    /// Whether `core` has it for itself, and nobody waits for it, watches it, or is yet to store to it.
    #[inline]
    pub(super) fn is_undisturbed(&self, core: u32, now: Ps) -> bool {
        let nobody_waits = self.queue.is_empty() && self.watchers.is_empty();
        self.owner == core && self.arrives <= now && nobody_waits && self.committed.is_empty()
    }

    /// From now on `core`, of `cluster`, has it for itself.
    fn goes_to(&mut self, core: u32, cluster: u32) {
        self.owner = core;
        self.dirty = false;
        self.copies.keep_only(core);
        self.clusters = 1 << cluster;
        self.version = self.version.wrapping_add(1);
    }
}

impl Engine {
    /// The line of `address`, numbered in the order of first touches.
    #[inline]
    pub fn line_of(&mut self, address: usize) -> usize {
        let index = self.number_of_line(address);
        self.come_to(index);
        index
    }

    /// The same where nobody comes to the line.
    #[inline]
    pub(super) fn number_of_line(&mut self, address: usize) -> usize {
        let key = address >> self.machine.costs.line;
        let slot = self.recent[key % super::RECENT];
        if slot.0 == key {
            return slot.1 as usize;
        }
        self.find_line(key)
    }

    #[inline(never)]
    fn find_line(&mut self, key: usize) -> usize {
        let found = match self.numbers.get(&key) {
            Some(number) => *number,
            None => {
                let number = self.lines.len() as u32;
                self.lines.push(Line::new(self.here().node));
                self.numbers.insert(key, number);
                number
            }
        };
        self.recent[key % super::RECENT] = (key, found);
        found as usize
    }

    /// A miss's latency as it is this time: no two are alike, and without that threads can fall into step for ever.
    #[inline]
    fn this_time(&mut self, latency: Ps) -> Ps {
        let spread = (latency * self.machine.costs.jitter) >> 10;
        latency - spread + self.random.below(2 * spread + 1)
    }

    /// Delays from directories and links that are busy, when a line goes from `supplier` to `requester`, nodes.
    fn fabric(&mut self, home: u32, requester: u32, supplier: u32) -> Ps {
        let mut delay = 0;
        let costs = &self.machine.costs;
        if requester != supplier || home != requester {
            let free = &mut self.homes[home as usize];
            delay += free.saturating_sub(self.now);
            *free = self.now + delay + costs.home;
        }
        if requester != supplier {
            let free =
                &mut self.links[(requester.max(supplier) * self.machine.nodes + requester.min(supplier)) as usize];
            delay += free.saturating_sub(self.now + delay);
            *free = self.now + delay + costs.link;
            if home != requester && home != supplier {
                delay += costs.three_hops;
            }
        }
        delay
    }

    /// The distance of the nearest cluster with a copy, and its node.
    fn nearest_copy(&self, line: usize, cluster: u32) -> (Ps, u32) {
        let mut clusters = self.lines[line].clusters;
        if clusters & 1 << cluster != 0 {
            return (self.machine.costs.shared_cache, self.machine.node_of_cluster[cluster as usize]);
        }
        let mut best = (Ps::MAX, 0);
        while clusters != 0 {
            let other = clusters.trailing_zeros();
            clusters &= clusters - 1;
            let distance = self.machine.cluster_distance(other, cluster);
            if distance < best.0 {
                best = (distance, self.machine.node_of_cluster[other as usize]);
            }
        }
        best
    }

    /// Serves a read request of `core`, which has no copy and has sent for the line at `sent`. Returns when it
    /// arrives.
    pub(super) fn serve_read(&mut self, index: usize, core: u32, sent: Ps) -> Ps {
        self.misses += 1;
        let cluster = self.machine.cluster_of_core[core as usize];
        let node = self.machine.node_of_cluster[cluster as usize];
        let (owner, home, in_memory) = {
            let line = &self.lines[index];
            (line.owner, line.home, line.clusters == 0)
        };
        let (latency, supplier) = if owner != NOBODY {
            (self.machine.distance(owner, core), self.node_of_core(owner))
        } else if in_memory {
            (self.machine.costs.memory, home)
        } else {
            self.nearest_copy(index, cluster)
        };
        let latency = self.this_time(latency) + self.fabric(home, node, supplier);
        let there = self.there(index, core, latency, sent);
        let comes_along = owner != NOBODY && self.lines[index].dirty && self.is_migratory(supplier, node);
        let serve = self.machine.costs.serve;
        let line = &mut self.lines[index];
        line.busy_until = if owner != NOBODY { there } else { self.now + serve };
        line.arrives = there;
        line.served = core;
        if comes_along {
            line.goes_to(core, cluster);
            return there;
        }
        if in_memory {
            line.owner = core;
        } else {
            line.owner = NOBODY;
        }
        line.copies.insert(core);
        line.clusters |= 1 << cluster;
        there
    }

    /// Serves a request of `core` for the right to write, which has sent for the line at `sent`: no other core keeps a
    /// copy. Returns when it arrives.
    pub(super) fn serve_write(&mut self, index: usize, core: u32, sent: Ps) -> Ps {
        self.misses += 1;
        let cluster = self.machine.cluster_of_core[core as usize];
        let node = self.machine.node_of_cluster[cluster as usize];
        let costs = &self.machine.costs;
        let line = &self.lines[index];
        let home = line.home;
        let (latency, supplier) = if line.owner != NOBODY {
            (self.machine.distance(line.owner, core), self.node_of_core(line.owner))
        } else if line.clusters == 0 {
            (costs.memory, home)
        } else {
            // The farthest copy must be gone.
            let others = line.copies.len() - u32::from(line.copies.contains(core));
            let mut clusters = line.clusters;
            let mut farthest = (costs.shared_cache, node);
            while clusters != 0 {
                let other = clusters.trailing_zeros();
                clusters &= clusters - 1;
                // A copy next to it counts only if it is another core's.
                let distance =
                    if other == cluster && others == 0 { 0 } else { self.machine.cluster_distance(other, cluster) };
                if distance > farthest.0 {
                    farthest = (distance, self.machine.node_of_cluster[other as usize]);
                }
            }
            (farthest.0 + costs.invalidate * Ps::from(others.saturating_sub(1)), farthest.1)
        };
        let latency = self.this_time(latency) + self.fabric(home, node, supplier);
        let there = self.there(index, core, latency, sent);
        let way = self.machine.supply(latency);
        let line = &mut self.lines[index];
        line.way = way;
        line.busy_until = there;
        line.arrives = there;
        line.served = core;
        line.goes_to(core, cluster);
        there
    }

    /// Whether a core of the node `to` that reads a line which one of the node `from` has modified gets it for itself.
    fn is_migratory(&self, from: u32, to: u32) -> bool {
        match self.machine.costs.migratory {
            Migratory::Never => false,
            Migratory::BetweenNodes => from != to,
            Migratory::Always => true,
        }
    }

    /// Notes that `cpu` has written to a line that it has for itself at `at`.
    #[inline]
    pub(super) fn note_write(&mut self, index: usize, cpu: u32, at: Ps) {
        let line = &mut self.lines[index];
        line.writer = cpu;
        line.dirty = true;
        line.changed = at;
        line.for_siblings = at + self.machine.costs.sibling;
    }

    /// When `cpu`, whose core has a line, can use it from `now` on: what another hardware thread of the core has just
    /// written needs its time.
    #[inline]
    pub(super) fn usable(&self, index: usize, cpu: u32, now: Ps) -> Ps {
        let line = &self.lines[index];
        if line.for_siblings <= now || line.writer == cpu {
            return now;
        }
        let core = |cpu: u32| self.machine.cpus[cpu as usize].core;
        if core(line.writer) == core(cpu) {
            line.for_siblings
        } else {
            now
        }
    }
}
