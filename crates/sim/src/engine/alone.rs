//! A thread that is alone with the words that it increments: its core has their lines for itself, and nobody else
//! waits for them or watches them. Until another thread comes to one of these lines, or this one loses its CPU, nobody
//! can tell how far it has come. So one event stands for all increments but the last; they are made up for when it
//! comes, or as many of them as there would have been when somebody comes between.

use super::range::Step;
use super::{Engine, NOBODY};
use crate::machine::Ps;

/// Fewer increments than that are made one after the other: to begin and to end takes a look at each line.
const FEWEST: u64 = 32;

/// Since when a thread is alone, and how long each load and each store takes it.
#[derive(Clone, Copy)]
pub struct Alone {
    since: Ps,
    hit: Ps,
}

impl Engine {
    /// Leaves the current thread alone with the words that it increments, if it is alone with them; whether it is.
    pub(super) fn is_left_alone(&mut self) -> bool {
        let hit = self.access(self.machine.costs.hit);
        let me = &self.threads[self.current as usize];
        let (core, cpu, left) = (me.core, me.cpu, me.range.left);
        let is_ready = me.on_cpu && !me.in_condition && me.stores.is_empty() && me.last_commit <= self.now;
        // What another hardware thread of the core does would change how long an access takes.
        if left < FEWEST || hit == 0 || !is_ready || self.events.next_at < self.now || self.machine.has_siblings {
            return false;
        }
        let words = me.range.distinct();
        for number in 0..words {
            let address = self.threads[self.current as usize].range.place(number).address;
            let index = self.line_of(address);
            let line = &self.lines[index];
            if !line.is_undisturbed(core, self.now)
                || line.chosen.is_some()
                || self.usable(index, cpu, self.now) > self.now
            {
                return false;
            }
        }
        for number in 0..words {
            let address = self.threads[self.current as usize].range.place(number).address;
            let index = self.number_of_line(address);
            self.lines[index].alone = self.current;
        }
        self.me().range.alone = Some(Alone { since: self.now, hit });
        self.wake(self.current, self.now + 2 * (left - 1) * hit);
        true
    }

    /// The current thread comes to a line; who was alone with it is so no more.
    #[inline]
    pub(super) fn come_to(&mut self, index: usize) {
        let alone = self.lines[index].alone;
        if alone != NOBODY {
            self.comes_between(alone);
        }
    }

    #[cold]
    fn comes_between(&mut self, thread: u32) {
        if let Some(at) = self.ends_alone(thread) {
            let state = &mut self.threads[thread as usize];
            state.token = state.token.wrapping_add(1);
            self.wake(thread, at);
        }
    }

    /// Makes up for what a thread that is alone has done before now. It is alone no more; when it goes on.
    pub(super) fn ends_alone(&mut self, thread: u32) -> Option<Ps> {
        let state = &mut self.threads[thread as usize];
        let Alone { since, hit } = state.range.alone.take()?;
        // Who comes between may have looked ahead, beyond the event.
        let accesses = (self.now - since).div_ceil(hit).min(2 * (state.range.left - 1));
        let (made, has_loaded) = (accesses / 2, accesses % 2 == 1);
        let stores_at = |increment: u64| since + (2 * increment + 1) * hit;
        state.ahead.come_to(made, stores_at(0), 2 * hit);
        let (cpu, words) = (state.cpu, state.range.words as u64);
        self.operations += accesses;
        for number in 0..self.threads[thread as usize].range.distinct() {
            let place = self.threads[thread as usize].range.place(number);
            let index = self.number_of_line(place.address);
            self.lines[index].alone = NOBODY;
            let number = number as u64;
            let times = made.saturating_sub(number).div_ceil(words);
            if times == 0 {
                continue;
            }
            place.write(place.read().wrapping_add(times));
            let line = &mut self.lines[index];
            line.version = line.version.wrapping_add(times as u32);
            // Words may share a line.
            let last = line.changed.max(stores_at(number + (times - 1) * words));
            self.note_write(index, cpu, last);
        }
        let range = &mut self.threads[thread as usize].range;
        range.skip(made);
        range.step = if has_loaded { Step::Store(range.place(0).read()) } else { Step::Load };
        Some(since + accesses * hit)
    }
}
