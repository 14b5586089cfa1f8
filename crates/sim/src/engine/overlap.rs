//! Misses that overlap: a core looks ahead, so that a miss has begun while it waited for the one before.
//!
//! A core that runs instructions out of order sends for a line as soon as the address is known. Here a thread does one
//! access after the other; so what has passed of a miss by the time the thread comes to it is counted afterwards.

use super::Engine;
use crate::machine::Ps;
use crate::word::{At, Place};
use rustc_hash::{FxHashMap, FxHashSet};
use std::mem::replace;

/// Accesses that a core looks ahead: a few hundred instructions.
const WINDOW: u32 = 40;
/// What lies in the same 128 bytes as that to which a pointer points is part of the same object; the binary logarithm.
const OBJECT: u32 = 7;
/// Pointers whose origin is remembered.
const POINTERS: usize = 4;
/// A pointer among so many values that a thread has loaded last may be where it has an address from.
const LOADED: usize = 16;

/// How far a thread looks ahead.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ahead {
    /// What comes next may have been sent for since then.
    since: Ps,
    /// Accesses since then.
    accesses: u32,
    /// Values that came with lines, which may be pointers, and when they came.
    pointers: [(u64, Ps); POINTERS],
    next: usize,
    /// When the last value came that may be an index.
    index: Ps,
}

impl Ahead {
    /// Nothing can have begun before `now`.
    pub fn begin(&mut self, now: Ps) {
        *self = Self { since: now, ..Self::default() };
    }

    /// Since when the line of `address`, which the thread comes to `now`, may have been sent for: if it has the address
    /// from a pointer that has come with a line, and if it has not.
    pub fn sent_for(&mut self, address: usize, now: Ps) -> (Ps, Ps) {
        self.accesses += 1;
        if self.accesses > WINDOW {
            self.begin(now);
        }
        let object = object(address as u64);
        // Without branches, which the host could not foresee.
        let came = |(pointer, came): &(u64, Ps)| Ps::from(object == self::object(*pointer)) * came;
        (self.pointers.iter().map(came).fold(self.since, Ps::max), self.since)
    }

    /// Comes to so many lines that are here, to the first at `first`, and to each further one `apart` later.
    pub fn come_to(&mut self, lines: u64, first: Ps, apart: Ps) {
        const ROUND: u64 = WINDOW as u64 + 1;
        let left = ROUND - u64::from(self.accesses);
        if lines < left {
            self.accesses += lines as u32;
            return;
        }
        let since_last = (lines - left) % ROUND;
        self.begin(first + (lines - since_last - 1) * apart);
        self.accesses = since_last as u32;
    }

    /// A line has come with `value`, from `place`: addresses may be computed from it.
    fn came(&mut self, place: Place, value: u64, now: Ps) {
        if place.bytes == 8 {
            self.pointers[self.next] = (value, now);
            self.next = (self.next + 1) % POINTERS;
        }
    }
}

/// The object that an address lies in.
fn object(address: u64) -> u64 {
    address >> OBJECT
}

/// Where the accesses of a thread go, by their place in the source.
#[derive(Debug, Default)]
pub struct Habits {
    places: FxHashMap<(&'static str, u32, u32), Habit>,
    loaded: [u64; LOADED],
    next: usize,
}

/// Where the accesses at one place go.
#[derive(Debug, Default)]
struct Habit {
    last: usize,
    /// Objects that it has gone to although no pointer to them had been loaded: the program knows them otherwise.
    known: FxHashSet<u64>,
}

impl Habits {
    /// The access at `at` goes to `address` now; whether it went there last time, and whether the program knows the
    /// object there without a pointer that has just been loaded.
    fn goes_to(&mut self, at: At, address: usize) -> (bool, bool) {
        let habit = self.places.entry((at.file(), at.line(), at.column())).or_default();
        let goes_on = replace(&mut habit.last, address) == address;
        let object = object(address as u64);
        let follows = self.loaded.iter().any(|pointer| self::object(*pointer) == object);
        if !follows {
            habit.known.insert(object);
        }
        (goes_on, habit.known.contains(&object))
    }

    /// The thread has loaded `value`, which may be a pointer.
    fn load(&mut self, value: u64) {
        self.loaded[self.next] = value;
        self.next = (self.next + 1) % LOADED;
    }
}

impl Engine {
    /// Since when the line of `address`, which the current thread comes to now, may have been sent for; `at` is the
    /// access's place in the source, unless its address is known to depend on nothing.
    pub(super) fn sent_for(&mut self, address: usize, at: Option<At>) -> Ps {
        let (now, looks_far) = (self.now, self.machine.costs.writes_ahead);
        let thread = self.me();
        let (sent, known) = thread.ahead.sent_for(address, now);
        let Some(at) = at.filter(|_| looks_far) else { return sent };
        let (goes_on, is_known) = thread.habits.goes_to(at, address);
        let sent = if is_known { known } else { sent };
        if goes_on {
            sent
        } else {
            sent.max(thread.ahead.index)
        }
    }

    /// The same for a line that is to be written.
    pub(super) fn sent_to_write(&mut self, address: usize, at: Option<At>) -> Ps {
        let sent = self.sent_for(address, at);
        if self.machine.costs.writes_ahead {
            sent
        } else {
            self.now
        }
    }

    /// The current thread loads `value`.
    #[inline]
    pub(super) fn loads(&mut self, place: Place, value: u64) {
        if place.bytes == 8 && self.machine.costs.writes_ahead {
            self.me().habits.load(value);
        }
    }

    /// A line has come to the current thread, which loads `value` from it.
    pub(super) fn has_come(&mut self, place: Place, value: u64) {
        let (now, looks_far) = (self.now, self.machine.costs.writes_ahead);
        let ahead = &mut self.me().ahead;
        match place.bytes {
            // It may be an index, and nobody can tell of what.
            4 if looks_far => ahead.index = now,
            4 => ahead.begin(now),
            _ => ahead.came(place, value, now),
        }
    }

    /// The current thread has exchanged `value`, which a core that looks ahead has known since `known`.
    pub(super) fn exchanged(&mut self, place: Place, value: u64, known: Ps) {
        let (now, ahead_of_it) = (self.now, self.machine.costs.writes_ahead);
        self.loads(place, value);
        let ahead = &mut self.me().ahead;
        if ahead_of_it {
            ahead.came(place, value, known);
        } else {
            ahead.begin(now);
        }
    }

    /// When a line is there that takes `latency`, if `core` has sent for it at `sent`: a part is the way of the request
    /// to where the line is, which gives it away when it can. Lines that overlap come one after the other.
    pub(super) fn there(&self, index: usize, core: u32, latency: Ps, sent: Ps) -> Ps {
        let line = &self.lines[index];
        let kind = self.kind_of_core[core as usize];
        let apart = (latency * self.machine.kinds[kind as usize].stream) >> 10;
        let free = line.changed.max(line.busy_until).min(self.now);
        let there = (sent + self.machine.request(latency)).max(free) + self.machine.supply(latency);
        there.max(self.now + apart)
    }
}
