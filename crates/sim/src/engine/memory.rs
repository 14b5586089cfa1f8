//! Cache lines: who has a copy, who waits for one, and how long it takes to come.
//!
//! A line is exclusive to one core, or shared by several, or in memory. A request for a line that is on its way waits in
//! the line's queue; when the line may go on, an arbiter chooses the next one. A value is read or written at the moment
//! the request is served; the thread goes on when the line has arrived.

use super::cores::CoreSet;
use super::events::Kind;
use super::stores::Pending;
use super::{Engine, Thread, NOBODY};
use crate::machine::Ps;

/// A request that waits for a line.
#[derive(Clone, Copy)]
pub struct Request {
    pub thread: u32,
    pub core: u32,
    pub sort: Sort,
    /// When it is made; nothing is served before.
    made: Ps,
    /// When it is at the home of the line, which serves in that order.
    arrives: Ps,
    /// Void if the thread's token is another one by then.
    token: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// The thread waits for a copy.
    Read,
    /// The thread watches the line and has lost its copy.
    Reread,
    /// The thread waits for the right to write.
    Write,
    /// From the store buffer: the thread itself does not wait.
    Store,
}

pub struct Line {
    /// The one core that may write.
    pub owner: u32,
    pub copies: CoreSet,
    /// Clusters with a copy.
    clusters: u64,
    /// The node whose directory keeps the line.
    home: u32,
    /// Others have to wait that long.
    pub busy_until: Ps,
    /// When the core that was served last has it; from then on it goes on, however long it keeps the line from others.
    pub arrives: Ps,
    /// The core that has been served last.
    pub served: u32,
    /// The CPU that has written last.
    writer: u32,
    /// When the other hardware threads of its core can see that.
    for_siblings: Ps,
    /// Changes when copies are invalidated or the content may have changed.
    pub version: u32,
    pub queue: Vec<Request>,
    /// When the announced event comes at which the queue goes on; [`Ps::MAX`] if none is.
    announced: Ps,
    pub watchers: Vec<(u32, u32)>,
    pub pending: Vec<Pending>,
    /// What addresses hold for others while stores to them are pending.
    pub committed: Vec<(usize, u64)>,
}

impl Line {
    pub fn new(home: u32) -> Self {
        Line {
            owner: NOBODY,
            copies: CoreSet::default(),
            clusters: 0,
            home,
            busy_until: 0,
            arrives: 0,
            served: NOBODY,
            writer: NOBODY,
            for_siblings: 0,
            version: 0,
            queue: Vec::new(),
            announced: Ps::MAX,
            watchers: Vec::new(),
            pending: Vec::new(),
            committed: Vec::new(),
        }
    }
}

impl Engine {
    /// The line of `address`, numbered in the order of first touches.
    pub fn line_of(&mut self, address: usize) -> usize {
        let key = address >> 6;
        let slot = &mut self.recent[key % super::RECENT];
        if slot.0 == key {
            return slot.1 as usize;
        }
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

    /// Serves a read request of `core`, which has no copy, now. Returns when the line arrives.
    pub(super) fn serve_read(&mut self, index: usize, core: u32) -> Ps {
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
        let serve = self.machine.costs.serve;
        let line = &mut self.lines[index];
        line.busy_until = self.now + if owner != NOBODY { latency } else { serve };
        line.arrives = self.now + latency;
        if in_memory {
            line.owner = core;
        } else {
            line.owner = NOBODY;
        }
        line.served = core;
        line.copies.insert(core);
        line.clusters |= 1 << cluster;
        self.now + latency
    }

    /// Serves a request of `core` for the right to write, now: no other core keeps a copy. Once the line is there, the core
    /// keeps it from others for `hold`. Returns when it arrives.
    pub(super) fn serve_write(&mut self, index: usize, core: u32, hold: Ps) -> Ps {
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
        let line = &mut self.lines[index];
        line.busy_until = self.now + latency + hold;
        line.arrives = self.now + latency;
        line.owner = core;
        line.served = core;
        line.copies = CoreSet::only(core);
        line.clusters = 1 << cluster;
        line.version = line.version.wrapping_add(1);
        self.now + latency
    }

    /// Notes that `cpu` has written to a line that it has for itself at `at`.
    pub(super) fn note_write(&mut self, index: usize, cpu: u32, at: Ps) {
        let line = &mut self.lines[index];
        line.writer = cpu;
        line.for_siblings = at + self.machine.costs.sibling;
    }

    /// When `cpu`, whose core has a line, can use it from `now` on: what another hardware thread of the core has just
    /// written needs its time.
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

    /// Tells those who watch a line that it has changed hands or content; the new state is there at `at`.
    pub(super) fn notify(&mut self, index: usize, at: Ps) {
        if self.lines[index].watchers.is_empty() {
            return;
        }
        let mut watchers = std::mem::take(&mut self.lines[index].watchers);
        let pause = self.machine.costs.pause;
        for (number, token) in watchers.drain(..) {
            let thread = &self.threads[number as usize];
            if thread.token != token {
                continue;
            }
            if thread.is_reader() {
                // All it will do is read this line again, at its next look: once per pause.
                let (core, look) = (thread.core, self.random.below(pause + 1));
                self.join(index, number, core, Sort::Reread, token, look);
            } else {
                let at = at.max(thread.not_before) + self.random.below(pause);
                self.wake_watcher(number, at);
            }
        }
        self.lines[index].watchers = watchers;
        self.announce_line(index);
    }

    /// Whether a core other than `core` has asked for a line.
    fn is_wanted(&self, index: usize, core: u32) -> bool {
        self.lines[index].queue.iter().any(|request| request.core != core && request.made <= self.now)
    }

    /// Whether a request that is made now is served now.
    pub(super) fn is_free(&self, index: usize) -> bool {
        self.lines[index].busy_until <= self.now && !self.is_wanted(index, NOBODY)
    }

    /// Whether a store of `core` can be served: the line is free, or on its way to that very core.
    pub(super) fn is_free_for(&self, index: usize, core: u32) -> bool {
        let line = &self.lines[index];
        !self.is_wanted(index, NOBODY) && (line.busy_until <= self.now || line.served == core)
    }

    /// Puts a request of a thread into the queue of a line.
    pub(super) fn enqueue(&mut self, index: usize, thread: u32, sort: Sort) {
        let Thread { core, token, .. } = self.threads[thread as usize];
        self.join(index, thread, core, sort, token, 0);
        self.announce_line(index);
    }

    /// Puts a request that is made after `delay` in its place in the queue: the home of the line is farther from some.
    fn join(&mut self, index: usize, thread: u32, core: u32, sort: Sort, token: u32, delay: Ps) {
        let line = &mut self.lines[index];
        let made = self.now + delay;
        let arrives = made + self.machine.way_to_node(core, line.home);
        let place = line.queue.partition_point(|request| request.arrives <= arrives);
        line.queue.insert(place, Request { thread, core, sort, made, arrives, token });
    }

    /// If requests wait for a line, the next one is served when the line is free.
    pub(super) fn announce_line(&mut self, index: usize) {
        let line = &mut self.lines[index];
        let free = line.busy_until.max(self.now);
        let waits = line.queue.iter().any(|request| request.made <= free);
        let first = if waits { Some(free) } else { line.queue.iter().map(|request| request.made).min() };
        let Some(at) = first.filter(|at| *at < line.announced) else { return };
        line.announced = at;
        self.events.push(at, Kind::Line, index as u32, 0);
    }

    /// Whether `core` has a line for itself and may use it now: once it is free, it goes on to other cores that want it.
    pub(super) fn may_use(&self, index: usize, core: u32) -> bool {
        let line = &self.lines[index];
        line.owner == core && (line.busy_until > self.now || !self.is_wanted(index, core))
    }

    /// Chooses who is served next of those whose requests have been made.
    fn arbitrate(&mut self, index: usize) -> Option<Request> {
        let (line, now) = (&self.lines[index], self.now);
        let is_made = |request: &Request| request.made <= now;
        let first = line.queue.iter().position(is_made)?;
        let mut chosen = first;
        if line.queue.len() > 1 {
            let favours = self.machine.kinds.len() > 1;
            let holder = line.owner;
            let waiting = |queue: &[Request], score: &dyn Fn(&Request) -> i64| {
                let best = queue.iter().filter(|r| is_made(r)).map(score).max();
                queue.iter().position(|r| is_made(r) && Some(score(r)) == best).unwrap_or(first)
            };
            if favours && self.random.chance(self.strongest_favour) {
                let kinds = &self.machine.kinds;
                let favour = |r: &Request| i64::from(kinds[self.kind_of_core[r.core as usize] as usize].favour);
                chosen = waiting(&self.lines[index].queue, &favour);
            } else if holder != NOBODY && self.random.chance(self.machine.costs.near) {
                let nearness = |r: &Request| -(self.machine.distance(holder, r.core) as i64);
                chosen = waiting(&self.lines[index].queue, &nearness);
            }
        }
        Some(self.lines[index].queue.remove(chosen))
    }

    /// A line may go on: serves one request, or several reads. Returns the thread that serves itself, if any.
    pub fn line_is_free(&mut self, index: usize) -> Option<u32> {
        if self.lines[index].announced != self.now {
            // Another event has been announced since, which came or comes before.
            return None;
        }
        self.lines[index].announced = Ps::MAX;
        if self.lines[index].busy_until > self.now {
            self.announce_line(index);
            return None;
        }
        let Some(request) = self.arbitrate(index) else {
            self.announce_line(index);
            return None;
        };
        let mut itself = None;
        match request.sort {
            // It announces the line again.
            Sort::Write => itself = Some(request.thread),
            Sort::Store => {
                self.commit_first_store(request.thread);
                self.drain(request.thread);
            }
            Sort::Read | Sort::Reread => {
                let now = self.now;
                self.answer_reader(index, request);
                // Reads follow each other up to the next write, or until nobody waits.
                let mut reads = 0;
                while let Some(request) = self.lines[index].queue.get(reads).copied() {
                    let free = self.lines[index].busy_until.max(self.now);
                    if request.made > free || !matches!(request.sort, Sort::Read | Sort::Reread) {
                        break;
                    }
                    reads += 1;
                    self.now = free;
                    self.answer_reader(index, request);
                }
                self.lines[index].queue.drain(..reads);
                self.now = now;
            }
        }
        if itself.is_none() {
            self.announce_line(index);
        }
        itself
    }

    /// Serves a read request from the queue.
    fn answer_reader(&mut self, index: usize, request: Request) {
        if self.threads[request.thread as usize].token != request.token {
            return;
        }
        let has_copy = self.lines[index].copies.contains(request.core);
        let done = if has_copy {
            self.usable(index, self.threads[request.thread as usize].cpu, self.now)
        } else {
            self.serve_read(index, request.core)
        };
        if request.sort == Sort::Reread {
            let done = done.max(self.threads[request.thread as usize].not_before);
            self.wake_watcher(request.thread, done);
        } else {
            self.wake(request.thread, done);
        }
    }

    /// Notes that the condition under evaluation depends on a line.
    pub(super) fn note(&mut self, index: usize) {
        let thread = &mut self.threads[self.current as usize];
        if thread.in_condition && !thread.watched.iter().any(|(line, _)| *line == index as u32) {
            thread.watched.push((index as u32, self.lines[index].version));
        }
    }

    /// Makes the current thread a watcher of what its condition depends on; no if that has changed already.
    pub fn watch(&mut self) -> bool {
        let me = self.current as usize;
        let token = self.threads[me].token;
        let fresh = |engine: &Self, (line, version): &(u32, u32)| engine.lines[*line as usize].version == *version;
        if !self.threads[me].watched.iter().all(|watched| fresh(self, watched)) {
            return false;
        }
        let watched = std::mem::take(&mut self.threads[me].watched);
        let most = 2 * self.threads.len() + 16;
        for (line, _) in &watched {
            let watchers = &mut self.lines[*line as usize].watchers;
            if watchers.len() > most {
                watchers.retain(|(thread, token)| self.threads[*thread as usize].token == *token);
            }
            watchers.push((me as u32, token));
        }
        self.threads[me].watched = watched;
        true
    }

    /// The watched lines of a thread, for reports.
    pub fn lines_watched(&self, thread: usize) -> Vec<u32> {
        self.threads[thread].watched.iter().map(|(line, _)| *line).collect()
    }
}
