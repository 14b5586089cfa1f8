//! What a virtual thread does to memory. Each function may leave the thread's coroutine and come back later; no
//! reference to the engine is kept across that.

use super::requests::Sort;
use super::stores::Pending;
use super::{engine, settle, Doing, Engine, NOBODY};
use crate::coroutines::leave;
use crate::machine::Ps;
use crate::word::{At, Place};

/// Waits until the current thread may take a line for itself, which is now; whether it had to wait.
fn wait_to_write(index: usize) -> bool {
    let engine = engine();
    if engine.is_free(index) {
        return false;
    }
    engine.enqueue(index, engine.current, Sort::Write);
    engine.me().doing = Doing::Missing;
    leave();
    true
}

/// Brings the current thread a copy of a line that it has sent for at `sent`; on return it has come.
fn fetch(index: usize, sent: Ps) {
    let engine = engine();
    if engine.is_free(index) {
        engine.now = engine.serve_read(index, engine.core(), sent);
    } else {
        engine.enqueue(index, engine.current, Sort::Read);
        engine.me().doing = Doing::Missing;
        leave();
    }
}

/// Waits until the current thread's stores have been served.
pub(super) fn wait_for_stores() {
    if engine().drains() {
        leave();
    }
    if engine().catches_up() {
        settle();
    }
}

/// A load that waits for its line, which has this number.
#[derive(Clone, Copy)]
pub(super) struct Fetch(pub usize);

impl Engine {
    /// Whether stores of the current thread wait for their lines; if so, it goes on when they have been served.
    pub(super) fn drains(&mut self) -> bool {
        let thread = self.me();
        let waits = !thread.stores.is_empty();
        if waits {
            thread.draining = true;
            thread.doing = Doing::Missing;
        }
        waits
    }

    /// Passes the time until the current thread's last store is visible; whether there was any.
    pub(super) fn catches_up(&mut self) -> bool {
        let done = self.me().last_commit;
        let passes = done > self.now;
        self.now = self.now.max(done);
        passes
    }

    /// Loads from a line, at a time before which nothing else happens. If the line must come first, the current thread
    /// goes on when it has come, and the load ends then.
    pub(super) fn begin_load(&mut self, index: usize, place: Place, at: Option<At>) -> Result<u64, Fetch> {
        self.operations += 1;
        let (core, me) = (self.core(), self.current);
        let line = &self.lines[index];
        let holds = |stored: Place| stored.address == place.address && stored.bytes >= place.bytes;
        let forwarded = |pending: &Pending| pending.thread == me && holds(pending.place);
        if line.copies.contains(core) || line.pending.iter().any(forwarded) {
            if line.owner == core {
                self.now = self.now.max(line.arrives);
            }
            self.now = self.usable(index, self.threads[me as usize].cpu, self.now);
            return Ok(self.loaded(index, place));
        }
        let sent = self.sent_for(place.address, at);
        if !self.is_free(index) {
            self.enqueue(index, me, Sort::Read);
            self.me().doing = Doing::Missing;
            return Err(Fetch(index));
        }
        // The value is that of the moment at which the request is served.
        self.now = self.serve_read(index, core, sent);
        Ok(self.end_load(place, Fetch(index)))
    }

    /// Ends a load whose line has come.
    #[inline]
    pub(super) fn end_load(&mut self, place: Place, Fetch(line): Fetch) -> u64 {
        self.come_to(line);
        self.has_come(place, self.value(line, place));
        self.loaded(line, place)
    }

    /// The value at `place`, whose line the core has; to load it takes time.
    #[inline]
    fn loaded(&mut self, line: usize, place: Place) -> u64 {
        self.note(line);
        self.now += self.access(self.machine.costs.hit);
        let value = self.value(line, place);
        self.loads(place, value);
        value
    }

    /// Stores to a line through the store buffer, at a time before which nothing else happens; whether that is too
    /// full to go on.
    pub(super) fn begin_store(&mut self, index: usize, place: Place, value: u64, at: Option<At>) -> bool {
        self.operations += 1;
        let (core, me) = (self.core(), self.current);
        let owned = self.may_use(index, core);
        let mut full = false;
        let sent = self.sent_to_write(place.address, at);
        if self.me().stores.is_empty() && (owned || self.is_free_for(index, core)) {
            self.set_value(index, place, value);
            if owned && self.me().last_commit <= self.now {
                let line = &mut self.lines[index];
                line.version = line.version.wrapping_add(1);
                let at = line.arrives.max(self.now);
                self.note_write(index, self.threads[me as usize].cpu, at);
                self.notify(index, at);
            } else {
                self.complete_store(index, me, sent);
            }
        } else {
            self.put_aside(index, me, place, value);
            let stores = &mut self.me().stores;
            stores.push_back((index as u32, place, sent));
            let waiting = stores.len();
            if waiting == 1 {
                self.drain(me);
            }
            full = waiting > self.machine.costs.store_buffer;
        }
        self.now += self.access(self.machine.costs.hit);
        full
    }
}

/// Reads.
pub fn load(place: Place, at: At) -> u64 {
    settle();
    let engine = engine();
    let line = engine.line_of(place.address);
    match engine.begin_load(line, place, Some(at)) {
        Ok(value) => value,
        Err(fetch) => {
            leave();
            self::engine().end_load(place, fetch)
        }
    }
}

/// Writes, through the store buffer.
pub fn store(place: Place, value: u64, at: At) {
    settle();
    begin_to_store(place, value, at);
}

/// The same at a time before which nothing else happens.
pub(super) fn begin_to_store(place: Place, value: u64, at: At) {
    let engine = engine();
    let line = engine.line_of(place.address);
    if engine.begin_store(line, place, value, Some(at)) {
        wait_for_stores();
    }
}

/// A read-modify-write: `f` gives the new value, if there is to be one. Returns the value before.
pub fn update(place: Place, at: At, f: impl FnOnce(u64) -> Option<u64>) -> u64 {
    settle();
    let engine = engine();
    engine.operations += 1;
    let sent = engine.sent_to_write(place.address, Some(at));
    wait_for_stores();
    let engine = self::engine();
    // Who does not look ahead sends for the line now that the stores are visible.
    let sent = if engine.machine.costs.writes_ahead { sent } else { engine.now };
    let index = engine.line_of(place.address);
    let cost = engine.access(engine.machine.costs.rmw);
    let there = engine.may_use(index, engine.core());
    if there {
        // It changes the word in the middle of its time, and may lose the line before.
        engine.now = engine.now.max(engine.lines[index].arrives) + cost / 2;
        settle();
    }
    let engine = self::engine();
    engine.come_to(index);
    let core = engine.core();
    let served = !engine.may_use(index, core);
    let waited = served && wait_to_write(index);
    let engine = self::engine();
    let done = if engine.lines[index].owner == core {
        engine.usable(index, engine.threads[engine.current as usize].cpu, engine.now.max(engine.lines[index].arrives))
    } else {
        let sent = if waited { engine.me().asked } else { sent };
        engine.serve_write(index, core, sent)
    };
    let old = engine.value(index, place);
    let new = f(old).filter(|new| *new != old);
    if let Some(new) = new {
        engine.set_value(index, place, new);
        let line = &mut engine.lines[index];
        line.version = line.version.wrapping_add(1);
        engine.note_write(index, engine.threads[engine.current as usize].cpu, done);
    }
    if served || new.is_some() {
        engine.notify(index, done);
    }
    if served {
        engine.announce_line(index);
    }
    engine.note(index);
    let thread = engine.me();
    thread.wrote |= thread.in_condition;
    engine.now = if there { done + cost - cost / 2 } else { done + cost };
    // Of a line that is there, the core that looks ahead has had the value as soon as it could.
    let known = if served { engine.now } else { sent.max(engine.lines[index].arrives) };
    engine.exchanged(place, old, known);
    old
}

/// Plain accesses to all lines of a range that a lock protects.
pub fn touch(start: usize, bytes: usize, write: bool) {
    settle();
    let core = engine().core();
    let line = engine().machine.costs.line;
    for key in start >> line..=(start + bytes.max(1) - 1) >> line {
        let engine = engine();
        engine.operations += 1;
        let index = engine.line_of(key << line);
        if !engine.lines[index].copies.contains(core) {
            let sent = engine.sent_for(key << line, None);
            if write && engine.lines[index].owner != NOBODY && engine.is_free(index) {
                // A line that another core has modified comes with the right to write.
                let arrives = engine.serve_write(index, core, sent);
                engine.notify(index, arrives);
                engine.now = arrives;
            } else {
                fetch(index, sent);
            }
        }
        let engine = self::engine();
        engine.come_to(index);
        engine.now = engine.usable(index, engine.threads[engine.current as usize].cpu, engine.now);
        if write && engine.lines[index].owner != core && engine.is_free_for(index, core) {
            // The store waits in the buffer for its line.
            let me = engine.current;
            engine.complete_store(index, me, engine.now);
        }
        engine.now += engine.access(engine.machine.costs.hit);
    }
}
