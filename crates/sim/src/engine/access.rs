//! What a virtual thread does to memory. Each function may leave the thread's coroutine and come back later; no reference
//! to the engine is kept across that.

use super::memory::Sort;
use super::stores::Pending;
use super::{engine, settle, Doing, NOBODY};
use crate::coroutines::leave;
use crate::word::Place;

/// Waits until the current thread may take a line for itself, which is now.
fn wait_to_write(index: usize) {
    let engine = engine();
    if !engine.is_free(index) {
        engine.enqueue(index, engine.current, Sort::Write);
        engine.me().doing = Doing::Missing;
        leave();
    }
}

/// Brings the current thread a copy of a line; on return it has come.
fn fetch(index: usize) {
    let engine = engine();
    if engine.is_free(index) {
        engine.now = engine.serve_read(index, engine.core());
    } else {
        engine.enqueue(index, engine.current, Sort::Read);
        engine.me().doing = Doing::Missing;
        leave();
    }
}

/// Waits until the current thread's stores have been served.
fn wait_for_stores() {
    let thread = engine().me();
    if !thread.stores.is_empty() {
        thread.draining = true;
        thread.doing = Doing::Missing;
        leave();
    }
    let engine = engine();
    let done = engine.me().last_commit;
    if done > engine.now {
        engine.now = done;
        settle();
    }
}

/// Reads.
pub fn load(place: Place) -> u64 {
    settle();
    let engine = engine();
    engine.operations += 1;
    let index = engine.line_of(place.address);
    let (core, me) = (engine.core(), engine.current);
    let has_copy = engine.lines[index].copies.contains(core);
    let forwarded = |pending: &Pending| pending.thread == me && pending.address == place.address;
    if !has_copy && !engine.lines[index].pending.iter().any(forwarded) {
        let stream = engine.me().streams(index);
        let before = engine.now;
        let value = if engine.is_free(index) {
            // The value is that of the moment at which the request is served.
            let value = engine.value(index, place);
            engine.note(index);
            engine.now = engine.serve_read(index, core);
            value
        } else {
            fetch(index);
            let engine = self::engine();
            engine.note(index);
            engine.value(index, place)
        };
        let engine = self::engine();
        engine.shorten(before, stream);
        engine.now += engine.access(engine.machine.costs.hit);
        return value;
    }
    if engine.lines[index].owner == core {
        engine.now = engine.now.max(engine.lines[index].arrives);
    }
    engine.now = engine.usable(index, engine.threads[me as usize].cpu, engine.now);
    let value = engine.value(index, place);
    engine.note(index);
    engine.now += engine.access(engine.machine.costs.hit);
    value
}

/// Writes, through the store buffer.
pub fn store(place: Place, value: u64) {
    settle();
    let engine = engine();
    engine.operations += 1;
    let index = engine.line_of(place.address);
    let (core, me) = (engine.core(), engine.current);
    let owned = engine.may_use(index, core);
    let mut full = false;
    if engine.me().stores.is_empty() && (owned || engine.is_free_for(index, core)) {
        engine.set_value(index, place, value);
        if owned && engine.me().last_commit <= engine.now {
            let line = &mut engine.lines[index];
            line.version = line.version.wrapping_add(1);
            let at = line.arrives.max(engine.now);
            engine.note_write(index, engine.threads[me as usize].cpu, at);
            engine.notify(index, at);
        } else {
            engine.complete_store(index, me);
        }
    } else {
        let before = engine.value_for_others(index, place);
        let line = &mut engine.lines[index];
        line.pending.push(Pending { thread: me, address: place.address, value });
        if !line.committed.iter().any(|(address, _)| *address == place.address) {
            line.committed.push((place.address, before));
        }
        place.write(value);
        let stores = &mut engine.me().stores;
        stores.push_back((index as u32, place));
        let waiting = stores.len();
        if waiting == 1 {
            engine.drain(me);
        }
        full = waiting > engine.machine.costs.store_buffer;
    }
    engine.now += engine.access(engine.machine.costs.hit);
    if full {
        wait_for_stores();
    }
}

/// A read-modify-write: `f` gives the new value, if there is to be one. Returns the value before.
pub fn update(place: Place, f: impl FnOnce(u64) -> Option<u64>) -> u64 {
    settle();
    engine().operations += 1;
    wait_for_stores();
    let engine = engine();
    let index = engine.line_of(place.address);
    if engine.lines[index].owner == engine.core() && engine.lines[index].arrives > engine.now {
        // What others ask for meanwhile decides whether it may keep the line.
        engine.now = engine.lines[index].arrives;
        settle();
    }
    let engine = self::engine();
    let core = engine.core();
    let served = !engine.may_use(index, core);
    if served {
        wait_to_write(index);
    }
    let engine = self::engine();
    let done = if engine.lines[index].owner == core {
        engine.usable(index, engine.threads[engine.current as usize].cpu, engine.now.max(engine.lines[index].arrives))
    } else {
        engine.serve_write(index, core, engine.machine.costs.hold)
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
    engine.now = done + engine.access(engine.machine.costs.rmw);
    old
}

/// Plain accesses to all lines of a range that a lock protects.
pub fn touch(start: usize, bytes: usize, write: bool) {
    settle();
    let core = engine().core();
    for key in start >> 6..=(start + bytes.max(1) - 1) >> 6 {
        let engine = engine();
        engine.operations += 1;
        let index = engine.line_of(key << 6);
        if !engine.lines[index].copies.contains(core) {
            let before = engine.now;
            let stream = engine.me().streams(index);
            if write && engine.lines[index].owner != NOBODY && engine.is_free(index) {
                // A line that another core has modified comes with the right to write.
                let arrives = engine.serve_write(index, core, 0);
                engine.notify(index, arrives);
                engine.now = arrives;
            } else {
                fetch(index);
            }
            self::engine().shorten(before, stream);
        }
        let engine = self::engine();
        engine.now = engine.usable(index, engine.threads[engine.current as usize].cpu, engine.now);
        if write && engine.lines[index].owner != core && engine.is_free_for(index, core) {
            // The store waits in the buffer for its line.
            let me = engine.current;
            engine.complete_store(index, me);
        }
        engine.now += engine.access(engine.machine.costs.hit);
    }
}
