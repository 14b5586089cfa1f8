//! How a virtual thread waits: for a condition, asleep, or for all others.

use super::step::{access, now, order, step};
use super::{current, engine, running, Engine, State, ROOT};
use crate::coroutines::leave;
use crate::explore::footprint::{self, CLOCK, ORDER};
use crate::explore::trace::Deed;
use crate::explore::Search;
use crate::word::{At, Place as Word};
use lockswap_platform::Ns;

/// Starts the evaluation of a condition.
pub fn begin_condition() {
    if let Some(engine) = running() {
        let thread = engine.me();
        thread.watched.clear();
        thread.changes.clear();
        thread.changed = false;
        thread.in_condition = true;
    }
}

/// Ends the evaluation of a condition that holds.
pub fn end_condition() {
    if let Some(engine) = running() {
        let thread = engine.me();
        thread.watched.clear();
        thread.in_condition = false;
    }
}

/// Waits after a condition that began with [`begin_condition`] did not hold; whether it timed out.
pub fn wait_for_change(until: Option<Ns>, at: At) -> bool {
    let Some(engine) = engine() else { panic!("a wait outside the explorer, at {at}") };
    if !engine.running {
        assert!(until.is_some(), "a wait that nobody can end, at {at}");
        engine.clock = engine.clock.max(until.unwrap_or(0));
        return true;
    }
    rest(State::Watching, until, at)
}

/// Lets every other thread run for as long as it can, or, as a rarity, none.
pub fn sleep(ns: Ns, at: At) {
    if current() != ROOT {
        end_condition();
        rest(State::Watching, Some(now() + ns), at);
    }
}

/// Sleeps until [`wake`] for the same word if it has the value `expected`; whether it timed out, if it did sleep.
pub fn park(word: Word, expected: u64, until: Option<Ns>, at: At) -> Option<bool> {
    let has_passed = until.is_some_and(|until| now() >= until);
    let engine = access(word.address, at);
    let value = word.read();
    let Some(engine) = engine else { panic!("a wait that nobody can end, at {at}") };
    engine.touch(word.address, false);
    engine.touch(footprint::queue(word.address), true);
    if until.is_some() {
        engine.touch(CLOCK, true);
    }
    if engine.me().waits_since == Some(0) {
        engine.touch(ORDER, true);
    }
    engine.note(Deed::Reads { word, value }, at);
    if value != expected {
        return None;
    }
    Some(has_passed || rest(State::Parked(word.address), until, at))
}

fn rest(state: State, until: Option<Ns>, at: At) -> bool {
    let Some(engine) = running() else { panic!("a wait that nobody can end, at {at}") };
    if state == State::Watching {
        if engine.me().waits_since == Some(0) {
            order();
            engine.touch(CLOCK, until.is_some());
        }
        if engine.me().changed {
            return false;
        }
    }
    let current = engine.current;
    if until.is_some() && engine.rarity() {
        engine.me().until = until;
        engine.time_out(current);
        engine.me().timed_out = false;
        return true;
    }
    engine.tickets += 1;
    let ticket = engine.tickets;
    engine.set_state(current, state);
    let thread = engine.me();
    thread.until = until;
    thread.ticket = ticket;
    thread.timed_out = false;
    thread.woken_by = None;
    if thread.waits_since == Some(0) {
        engine.moments += 1;
        engine.me().waits_since = Some(engine.moments);
    }
    engine.note(if matches!(state, State::Parked(_)) { Deed::Parks } else { Deed::Waits }, at);
    hand_over();
    let Some(engine) = self::engine() else { return false };
    engine.set_state(current, State::Ready);
    let thread = engine.me();
    thread.until = None;
    let timed_out = std::mem::take(&mut thread.timed_out);
    if !timed_out {
        engine.goes_on(state);
    }
    timed_out
}

impl Engine {
    /// The current thread looks at what it watches, all at once.
    pub(super) fn touch_watched(&mut self) {
        if let Search::Reduced(search) = &mut self.search {
            self.threads[self.current].watched.iter().for_each(|word| search.touch(*word, false));
        }
    }

    /// The current thread has waited, and does so no longer.
    fn goes_on(&mut self, state: State) {
        if state == State::Watching {
            self.touch_watched();
        }
        let thread = &mut self.threads[self.current];
        if let Search::Reduced(search) = &mut self.search {
            if state == State::Watching {
                search.enabled_by(std::mem::take(&mut thread.changes));
            } else if let Some(waker) = thread.woken_by {
                search.woken_by(waker);
            }
        }
    }
}

/// Wakes up to `n` threads that are parked on `address`, the longest first; how many.
pub fn wake(address: usize, n: u32, at: At) -> u32 {
    let Some(engine) = step(footprint::queue(address)) else { return 0 };
    let step = match &engine.search {
        Search::Bounded(_) => None,
        Search::Reduced(search) => Some(search.now()),
    };
    let mut woken = 0u16;
    while woken.count_ones() < n {
        let sleepers = engine.threads.iter_mut().enumerate();
        let sleepers = sleepers.filter(|(_, thread)| thread.state == State::Parked(address));
        let Some((index, thread)) = sleepers.min_by_key(|(_, thread)| thread.ticket) else { break };
        thread.state = State::Ready;
        thread.woken_by = step;
        woken |= 1 << index;
    }
    engine.enabled |= woken;
    engine.note(Deed::Wakes { address, woken }, at);
    woken.count_ones()
}

/// Returns when every other virtual thread waits or has ended.
pub fn settle() {
    if let Some(engine) = running() {
        engine.set_state(engine.current, State::Settling);
        hand_over();
    }
}

/// Lets another thread run; the current one is not enabled.
fn hand_over() {
    let Some(engine) = engine() else { return };
    let here = engine.current;
    if engine.starting || !engine.next() || engine.current != here {
        leave();
    }
}

/// From now on [`waits_since`] is about a new wait of the current thread.
pub fn forget_wait() {
    order();
    if let Some(engine) = running() {
        engine.me().waits_since = Some(0);
    }
}

/// The moment at which virtual thread `index` came to rest first since it called [`forget_wait`], if it has. No other
/// thread runs meanwhile: whoever asks has called [`order`].
pub fn waits_since(index: usize) -> Option<u64> {
    assert!(running()?.me().next == ORDER, "`order` comes before a look at others' waits");
    engine()?.threads.get(index)?.waits_since.filter(|since| *since != 0)
}
