//! Requests that wait for a cache line, and which of them is served next.

use super::events::Kind;
use super::{Engine, Thread, NOBODY};
use crate::machine::Ps;

/// A request that waits for a line.
#[derive(Clone, Copy)]
pub struct Request {
    pub thread: u32,
    pub core: u32,
    pub sort: Sort,
    /// When it is made; nothing is served before.
    pub made: Ps,
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

impl Engine {
    /// Whether a core other than `core` has asked for a line.
    #[inline]
    pub(super) fn is_wanted(&self, index: usize, core: u32) -> bool {
        self.lines[index].queue.iter().any(|request| request.core != core && request.made <= self.now)
    }

    /// Whether a request that is made now is served now.
    #[inline]
    pub(super) fn is_free(&self, index: usize) -> bool {
        self.lines[index].busy_until <= self.now && !self.is_wanted(index, NOBODY)
    }

    /// Whether a store of `core` can be served: the line is free, or on its way to that very core.
    #[inline]
    pub(super) fn is_free_for(&self, index: usize, core: u32) -> bool {
        let line = &self.lines[index];
        !self.is_wanted(index, NOBODY) && (line.busy_until <= self.now || line.served == core)
    }

    /// Puts a request of a thread into the queue of a line.
    pub(super) fn enqueue(&mut self, index: usize, thread: u32, sort: Sort) {
        let request = self.request(index, thread, sort, 0);
        let queue = &mut self.lines[index].queue;
        queue.insert(queue.partition_point(|other| other.arrives <= request.arrives), request);
        self.announce_line(index);
    }

    /// A request that is made after `delay`; the home of the line is farther from some.
    fn request(&self, index: usize, thread: u32, sort: Sort, delay: Ps) -> Request {
        let Thread { core, token, .. } = self.threads[thread as usize];
        let made = self.now + delay;
        let arrives = made + self.machine.way_to_node(core, self.lines[index].home);
        Request { thread, core, sort, made, arrives, token }
    }

    /// Puts the request of a thread that watches a line, which it makes after `delay`, behind the queue;
    /// [`Self::sort`] puts it in its place.
    pub(super) fn join(&mut self, index: usize, thread: u32, delay: Ps) {
        let request = self.request(index, thread, Sort::Reread, delay);
        self.lines[index].queue.push(request);
    }

    /// Puts the queue of a line in order. Those that arrive at one time stay as they are.
    pub(super) fn sort(&mut self, index: usize) {
        self.lines[index].queue.sort_by_key(|request| request.arrives);
        self.announce_line(index);
    }

    /// If requests wait for a line, the next one is served when the line is free.
    pub(super) fn announce_line(&mut self, index: usize) {
        let line = &mut self.lines[index];
        let free = line.busy_until.max(self.now);
        let first = match line.chosen {
            Some(_) => Some(free),
            None => line.queue.iter().map(|request| request.made).min().map(|made| made.max(free)),
        };
        let Some(at) = first.filter(|at| *at < line.announced) else { return };
        line.announced = at;
        self.events.push(at, Kind::Line, index as u32, 0);
    }

    /// Whether `core` has a line for itself and may use it now. Once it is free, it goes on to other cores that want
    /// it, but not before its owner, which has waited for it, could use it.
    #[inline]
    pub(super) fn may_use(&self, index: usize, core: u32) -> bool {
        let line = &self.lines[index];
        let is_kept = line.busy_until > self.now || line.arrives >= self.now;
        line.owner == core && (is_kept || !self.is_wanted(index, core))
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
        let request = match self.lines[index].chosen.take() {
            Some(chosen) => chosen,
            None => {
                let Some(request) = self.arbitrate(index) else {
                    self.announce_line(index);
                    return None;
                };
                // The owner keeps the line until the request has come to it.
                let line = &mut self.lines[index];
                if line.owner != NOBODY && line.owner != request.core {
                    let way = self.machine.request(self.machine.distance(line.owner, request.core));
                    let sent = if self.machine.costs.outstanding { request.made } else { line.arrives };
                    let comes = line.arrives.max(sent + way);
                    if comes > self.now {
                        line.chosen = Some(request);
                        line.busy_until = comes;
                        self.announce_line(index);
                        return None;
                    }
                }
                request
            }
        };
        let mut itself = None;
        match request.sort {
            // It announces the line again.
            Sort::Write => {
                self.threads[request.thread as usize].asked = request.made;
                itself = Some(request.thread);
            }
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
            self.serve_read(index, request.core, request.made)
        };
        if request.sort == Sort::Reread {
            let done = done.max(self.threads[request.thread as usize].not_before);
            self.wake_watcher(request.thread, done);
        } else {
            self.wake(request.thread, done);
        }
    }
}
