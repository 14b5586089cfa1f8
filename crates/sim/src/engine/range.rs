//! Words that a thread increments one after the other, as critical sections do. The engine does it without the
//! thread's coroutine, which goes on when all have been incremented: what other threads do meanwhile costs no switch
//! between stacks. Each word is loaded and stored as by [`super::access`].

use super::access::Fetch;
use super::alone::Alone;
use super::{engine, Engine};
use crate::coroutines::leave;
use crate::word::Place;

/// The words that remain.
#[derive(Default)]
pub struct Range {
    /// The first word.
    first: Place,
    /// The distance of the words, bytes.
    stride: usize,
    /// How many words there are.
    pub words: usize,
    /// The number of the next one.
    next: usize,
    /// How many increments remain.
    pub left: u64,
    pub(super) step: Step,
    /// If one event stands for the next ones.
    pub alone: Option<Alone>,
}

/// With what a word goes on.
#[derive(Clone, Copy, Default)]
pub(super) enum Step {
    /// It is loaded.
    #[default]
    Load,
    /// Its line has come, and the load ends.
    Loaded(Fetch),
    /// What is one more than that is stored.
    Store(u64),
    /// The store buffer was full, and all stores have been served.
    Drained,
    /// They are visible, too.
    Visible,
}

impl Range {
    /// The word that comes after so many others.
    pub fn place(&self, others: usize) -> Place {
        let number = self.next + others;
        let number = if number < self.words { number } else { number - self.words };
        Place { address: self.first.address + number * self.stride, ..self.first }
    }

    /// How many words are left to increment; [`Self::place`] gives them.
    pub fn distinct(&self) -> usize {
        self.words.min(self.left as usize)
    }

    /// Goes on to the next word.
    fn advance(&mut self) {
        self.step = Step::Load;
        self.left -= 1;
        self.next += 1;
        if self.next == self.words {
            self.next = 0;
        }
    }

    /// So many words have been incremented.
    pub fn skip(&mut self, increments: u64) {
        self.left -= increments;
        self.next = (self.next + (increments % self.words as u64) as usize) % self.words;
    }
}

/// Increments `words` words, which are `stride` bytes from each other, one after the other and again from the first,
/// `times` in all.
pub fn increment(first: Place, (stride, words): (usize, usize), times: u64) {
    if words > 0 {
        let engine = engine();
        engine.me().range = Range { first, stride, words, left: times, ..Range::default() };
        if !engine.increments() {
            leave();
        }
    }
}

impl Engine {
    /// Goes on with the words that the current thread increments; whether none is left.
    pub(super) fn increments(&mut self) -> bool {
        self.ends_alone(self.current);
        while self.me().range.left > 0 {
            let place = self.me().range.place(0);
            if matches!(self.me().range.step, Step::Load) {
                if self.is_left_alone() {
                    return false;
                }
                if self.increments_own(place) {
                    self.me().range.advance();
                    continue;
                }
            }
            match self.step(place, self.threads[self.current as usize].range.step) {
                Ok(()) => self.me().range.advance(),
                Err(step) => {
                    self.me().range.step = step;
                    return false;
                }
            }
        }
        true
    }

    /// Increments a word at once if its line is here, nobody else wants to know of it, and nothing happens meanwhile;
    /// whether that is so. It is what a load and a store would do.
    #[inline]
    fn increments_own(&mut self, place: Place) -> bool {
        let hit = self.access(self.machine.costs.hit);
        let (loaded, me) = (self.now + hit, &self.threads[self.current as usize]);
        let (core, cpu) = (me.core, me.cpu);
        let is_free = me.on_cpu && !me.in_condition && me.stores.is_empty() && me.last_commit <= loaded;
        if !is_free || self.events.next_at < loaded {
            return false;
        }
        let index = self.line_of(place.address);
        if !self.lines[index].is_undisturbed(core, self.now) || self.usable(index, cpu, self.now) > self.now {
            return false;
        }
        self.operations += 2;
        self.now = loaded;
        self.sent_for(place.address, None);
        place.write(place.read().wrapping_add(1));
        let line = &mut self.lines[index];
        line.version = line.version.wrapping_add(1);
        self.note_write(index, cpu, loaded);
        self.now = loaded + hit;
        true
    }

    /// Increments a word from `step` on. If it has to wait: the step with which it goes on.
    #[inline]
    fn step(&mut self, place: Place, step: Step) -> Result<(), Step> {
        let (line, value) = match step {
            Step::Load => {
                if !self.settles() {
                    return Err(Step::Load);
                }
                let line = self.line_of(place.address);
                (line, self.begin_load(line, place, None).map_err(Step::Loaded)?)
            }
            Step::Loaded(fetch) => (fetch.0, self.end_load(place, fetch)),
            Step::Store(value) => (self.line_of(place.address), value),
            Step::Drained => return self.become_visible(),
            Step::Visible => return if self.settles() { Ok(()) } else { Err(Step::Visible) },
        };
        if !self.settles() {
            return Err(Step::Store(value));
        }
        let is_full = self.begin_store(line, place, value.wrapping_add(1), None);
        if is_full && self.drains() {
            return Err(Step::Drained);
        }
        if is_full {
            return self.become_visible();
        }
        Ok(())
    }

    /// Waits until the stores of the current thread, which have been served, are visible.
    fn become_visible(&mut self) -> Result<(), Step> {
        if self.catches_up() && !self.settles() {
            return Err(Step::Visible);
        }
        Ok(())
    }
}
