//! The steps of a virtual thread: what it does to memory, and what it asks the machine.

use super::{current, engine, running, Engine, State};
use crate::coroutines::leave;
use crate::explore::footprint::{Place, CLOCK, NOWHERE, NUMBERS, ORDER, SETTLING};
use crate::explore::trace::Deed;
use crate::explore::Search;
use crate::word::{At, Place as Word};
use lockswap_platform::Ns;

/// Ends the execution; the virtual thread does not come back.
fn give_up(message: impl FnOnce() -> String) {
    if let Some(engine) = running() {
        engine.fail(message());
        leave();
    }
}

/// Comes before a step: another thread may run first. What the step may touch depends on the thread alone, not on what
/// it finds: here `place`, and what a condition that is being evaluated has read. The engine, when the step begins.
#[inline]
fn point(place: Place) -> Option<&'static mut Engine> {
    let engine = running()?;
    engine.me().next = place;
    if engine.starting {
        leave();
    } else if !engine.fresh {
        let here = engine.current;
        if !engine.next() || engine.current != here {
            leave();
        }
    }
    let engine = self::engine()?;
    engine.fresh = false;
    if engine.me().in_condition {
        engine.touch_watched();
    }
    Some(engine)
}

/// A step that touches `place`; the engine.
pub(super) fn step(place: Place) -> Option<&'static mut Engine> {
    let engine = point(place)?;
    engine.touch(place, true);
    Some(engine)
}

/// Before an access to the memory at `address`; the engine afterwards.
#[inline]
pub(super) fn access(address: usize, at: At) -> Option<&'static mut Engine> {
    let engine = point(address)?;
    if engine.gone.iter().any(|(start, end)| (*start..*end).contains(&address)) {
        let thread = engine.current;
        engine.note(Deed::TouchesGone(address), at);
        give_up(|| format!("thread {thread} touches memory that is gone, at {at}"));
    }
    let thread = engine.me();
    if thread.in_condition && !thread.watched.contains(&address) {
        thread.watched.push(address);
    }
    Some(engine)
}

/// Reads a word.
#[inline]
pub fn load(word: Word, at: At) -> u64 {
    let engine = access(word.address, at);
    let value = word.read();
    if let Some(engine) = engine {
        engine.touch(word.address, false);
        engine.note(Deed::Reads { word, value }, at);
    }
    value
}

/// Writes what `f` makes of the word's value, if anything; the value before. `reads`: whether the source asks for
/// that.
#[inline]
pub fn update(word: Word, at: At, reads: bool, f: impl FnOnce(u64) -> Option<u64>) -> u64 {
    change(access(word.address, at), word, at, reads, f)
}

/// The same within a step that has begun.
#[inline]
fn change(
    engine: Option<&'static mut Engine>,
    word: Word,
    at: At,
    reads: bool,
    f: impl FnOnce(u64) -> Option<u64>,
) -> u64 {
    let old = word.read();
    let new = f(old);
    if let Some(new) = new {
        word.write(new);
    }
    if let Some(engine) = engine {
        engine.touch(word.address, new.is_some());
        engine.note(Deed::Writes { word, old, new, reads }, at);
        if new.is_some_and(|new| new != old) {
            engine.changed(word.address);
        }
    }
    old
}

/// Looks at `flag`, and in a further step stores `value` in `word` if it was 0, unless all threads have been
/// interrupted in between; whether it has stored. As a rarity it refuses for no reason, as a thread does on hardware
/// that has lost its CPU.
#[inline]
pub fn store_unless(flag: Word, word: Word, value: u64, at: At) -> bool {
    let engine = access(flag.address, at);
    let seen = flag.read();
    let interrupts = engine.map(|engine| {
        engine.touch(flag.address, false);
        engine.touch(SETTLING, false);
        engine.note(Deed::Reads { word: flag, value: seen }, at);
        engine.interrupts
    });
    if seen != 0 {
        return false;
    }
    let mut engine = access(word.address, at);
    if let Some(engine) = &mut engine {
        // The word as well, although a thread that has been interrupted leaves it alone: else an interrupt would make
        // this step independent of others that it depends on, and executions would be lost.
        engine.touch(word.address, true);
        engine.touch(SETTLING, false);
        if Some(engine.interrupts) != interrupts || engine.refuses || engine.rarity() {
            engine.note(Deed::Refuses, at);
            return false;
        }
    }
    change(engine, word, at, false, |_| Some(value));
    true
}

/// Interrupts all threads, so that no [`store_unless`] stores any more that has looked. As a rarity that is forbidden
/// from now on, and no later one stores either; whether it is still allowed.
pub fn interrupt_all(at: At) -> bool {
    let Some(engine) = step(SETTLING) else { return true };
    engine.interrupts += 1;
    engine.refuses |= engine.rarity();
    engine.note(Deed::Interrupts { in_vain: engine.refuses }, at);
    !engine.refuses
}

/// Uses memory that a lock protects, which takes time: `check` looks for others at its beginning and at its end.
pub fn guarded(address: usize, writes: bool, at: At, mut check: impl FnMut(bool, usize)) {
    for begins in [true, false] {
        if let Some(engine) = access(address, at) {
            engine.touch(address, writes);
            engine.note(if begins { Deed::Uses { address, writes } } else { Deed::HasUsed }, at);
        }
        check(begins, current());
    }
}

impl Engine {
    /// The value at `address` has changed.
    fn changed(&mut self, address: usize) {
        let step = match &self.search {
            Search::Bounded(_) => None,
            Search::Reduced(search) => Some(search.now()),
        };
        for (index, thread) in self.threads.iter_mut().enumerate() {
            if index != self.current && thread.watched.contains(&address) {
                thread.changed = true;
                thread.changes.extend(step);
                self.enabled |= u16::from(thread.state == State::Watching) << index;
            }
        }
    }
}

/// The virtual time, ns: a little later at each look.
pub fn now() -> Ns {
    step(CLOCK).or_else(engine).map_or(0, |engine| {
        engine.clock += 1;
        engine.clock
    })
}

/// A number in `0..n`: the highest one, or as a rarity 0; all for two.
pub fn choose(n: u32) -> u32 {
    let Some(engine) = running() else { return n - 1 };
    if engine.starting {
        engine.me().next = NOWHERE;
        leave();
    }
    let happens = n > 1 && self::engine().is_some_and(Engine::rarity);
    if happens {
        0
    } else {
        n - 1
    }
}

/// The bytes must not be accessed any more.
pub fn gone(start: usize, bytes: usize) {
    if let Some(engine) = point(NOWHERE) {
        engine.gone.push((start, start + bytes));
        if let Search::Reduced(search) = &mut engine.search {
            search.takes_away(start, start + bytes);
        }
    }
}

/// A number for what lies at `address`: the same one in each execution, unlike the address.
pub fn number_of(address: usize) -> usize {
    if let Some(engine) = point(NUMBERS) {
        let is_known = engine.places.contains(&address);
        engine.touch(NUMBERS, !is_known);
    }
    engine().map_or(address, |engine| number_in(&mut engine.places, address) * 64)
}

/// The position of `address` in `places`, from 1; it is put there if need be.
pub fn number_in(places: &mut Vec<usize>, address: usize) -> usize {
    let position = places.iter().position(|place| *place == address).unwrap_or_else(|| {
        places.push(address);
        places.len() - 1
    });
    position + 1
}

/// What the current thread does up to its next access to an atomic comes in an order: all that says so before, or
/// after.
pub fn order() {
    step(ORDER);
}

/// A moment later than all before.
pub fn moment() -> u64 {
    order();
    engine().map_or(0, |engine| {
        engine.moments += 1;
        engine.moments
    })
}
