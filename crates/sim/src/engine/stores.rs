//! Store buffers: stores that wait for their lines, and what others see meanwhile.
//!
//! A store that must wait is kept aside: the memory has its value at once, and other threads are shown the value
//! before it until it has been served. So no store is ever late in the memory itself, which may be a thread's stack. A
//! store may be to the lower part of a word that others access as a whole.

use super::requests::Sort;
use super::Engine;
use crate::machine::Ps;
use crate::word::Place;

/// A store that has not been served.
pub struct Pending {
    pub thread: u32,
    pub place: Place,
    pub value: u64,
}

/// The bits that so many bytes have.
fn bits_of(bytes: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(bytes))
}

/// `value` with `part` in its lowest `bytes`.
fn with_part(value: u64, bytes: u8, part: u64) -> u64 {
    value & !bits_of(bytes) | part & bits_of(bytes)
}

impl Engine {
    /// What the current thread sees at `place`.
    #[inline]
    pub(super) fn value(&self, line: usize, place: Place) -> u64 {
        if self.lines[line].committed.is_empty() {
            return place.read();
        }
        let own = self.lines[line].pending.iter();
        let own = own.filter(|p| p.thread == self.current && p.place.address == place.address);
        let seen = own.fold(self.value_for_others(line, place), |value, p| with_part(value, p.place.bytes, p.value));
        seen & bits_of(place.bytes)
    }

    /// Writes what everybody sees at `place`.
    #[inline]
    pub(super) fn set_value(&mut self, line: usize, place: Place, value: u64) {
        match self.lines[line].committed.iter_mut().find(|(of, _)| of.address == place.address) {
            Some((of, committed)) => {
                *committed = with_part(*committed, place.bytes, value) & bits_of(of.bytes);
                if of.bytes < place.bytes {
                    place.write(with_part(value, of.bytes, place.read()));
                }
            }
            None => place.write(value),
        }
    }

    pub(super) fn value_for_others(&self, index: usize, place: Place) -> u64 {
        let committed = self.lines[index].committed.iter().find(|(of, _)| of.address == place.address);
        let seen = committed.map_or_else(|| place.read(), |(of, value)| with_part(place.read(), of.bytes, *value));
        seen & bits_of(place.bytes)
    }

    /// Keeps a store of `thread` aside, whose line has to come first.
    pub(super) fn put_aside(&mut self, index: usize, thread: u32, place: Place, value: u64) {
        let before = self.value_for_others(index, place);
        let line = &mut self.lines[index];
        line.pending.push(Pending { thread, place, value });
        match line.committed.iter_mut().find(|(of, _)| of.address == place.address) {
            Some((of, _)) if of.bytes >= place.bytes => {}
            Some(smaller) => *smaller = (place, before),
            None => line.committed.push((place, before)),
        }
        place.write(value);
    }

    /// Serves the oldest store in the buffer of `thread`: its line is free.
    pub(super) fn commit_first_store(&mut self, thread: u32) {
        let Some((index, place, sent)) = self.threads[thread as usize].stores.pop_front() else { return };
        self.threads[thread as usize].served += 1;
        let line = &mut self.lines[index as usize];
        let found = line.pending.iter().position(|p| p.thread == thread && p.place.address == place.address);
        let Some(position) = found else { return };
        let value = line.pending.remove(position).value;
        if line.pending.iter().any(|p| p.place.address == place.address) {
            self.set_value(index as usize, place, value);
        } else {
            line.committed.retain(|(of, _)| of.address != place.address);
            // The memory has it, unless two threads stored to the same place at once.
            if place.read() != value {
                place.write(value);
            }
        }
        self.complete_store(index as usize, thread, sent);
    }

    /// Gives a free line to the core of `thread`, whose store has been served; it has sent for the line since `sent`.
    pub(super) fn complete_store(&mut self, index: usize, thread: u32, sent: Ps) {
        let core = self.threads[thread as usize].core;
        let done = if self.lines[index].owner == core {
            self.lines[index].version = self.lines[index].version.wrapping_add(1);
            self.now.max(self.lines[index].arrives)
        } else {
            let now = self.now;
            self.now = now.max(self.lines[index].busy_until);
            let done = self.serve_write(index, core, sent);
            self.now = now;
            done
        };
        // Stores become visible in program order.
        let thread = &mut self.threads[thread as usize];
        let done = done.max(thread.last_commit);
        thread.last_commit = done;
        let cpu = thread.cpu;
        self.note_write(index, cpu, done);
        let line = &mut self.lines[index];
        line.busy_until = line.busy_until.max(done);
        self.notify(index, done);
    }

    /// Serves stores of `thread` as long as their lines are free.
    pub(super) fn drain(&mut self, thread: u32) {
        while let Some((index, ..)) = self.threads[thread as usize].stores.front().copied() {
            let core = self.threads[thread as usize].core;
            if !self.may_use(index as usize, core) && !self.is_free_for(index as usize, core) {
                self.enqueue(index as usize, thread, Sort::Store);
                return;
            }
            self.commit_first_store(thread);
        }
        let thread_ = &self.threads[thread as usize];
        if thread_.draining {
            let at = thread_.last_commit.max(self.now);
            self.threads[thread as usize].draining = false;
            self.wake(thread, at);
        }
    }
}
