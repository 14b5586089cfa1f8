//! Waits that spin: the lines that a condition has read are watched, and the thread rests until one of them changes hands.

use super::events::Kind;
use super::{engine, look_ahead_anew, pass, schedule, settle, Doing, Engine, Load, Thread};
use crate::coroutines::leave;
use crate::machine::Ps;
use std::panic::Location;

/// How far a spinning wait has gone.
#[derive(Clone, Copy, Debug, Default)]
pub struct Patience {
    pub(super) since: Ps,
    pub(super) nap: Ps,
}

/// Starts the evaluation of a condition.
pub fn begin_condition() {
    let thread = engine().me();
    thread.watched.clear();
    thread.in_condition = true;
    thread.wrote = false;
    thread.yielded = false;
}

/// Ends the evaluation of a condition.
pub fn end_condition() {
    engine().me().in_condition = false;
}

/// Starts a wait: its patience is new.
pub fn begin_wait(place: &'static Location<'static>) {
    let engine = engine();
    let now = engine.now;
    let thread = engine.me();
    thread.place = Some(place);
    thread.patience = Patience { since: now, nap: 0 };
}

/// Waits after a condition did not hold, until it may hold or `until` has come.
pub fn wait_for_change(until: Option<Ps>) {
    end_condition();
    let mut until = until;
    if engine().machine.costs.patience {
        settle();
        match schedule::patience(until) {
            Some(stage_ends) => until = Some(until.map_or(stage_ends, |until| until.min(stage_ends))),
            None => return,
        }
    }
    watch_until(until);
}

/// Watches what the condition has read, until that changes or `until` has come.
pub fn watch_until(until: Option<Ps>) {
    end_condition();
    let engine = engine();
    let Thread { wrote, yielded, .. } = *engine.me();
    // A condition that writes takes the line again and again; only while nobody else has it does that change nothing.
    let still_there = !wrote || engine.owns_watched();
    if yielded || !still_there || !engine.watch() {
        let pause = engine.access(engine.machine.costs.pause);
        pass(pause);
        return;
    }
    let (current, now) = (engine.current, engine.now);
    let thread = engine.me();
    thread.doing = Doing::Watching;
    thread.not_before = now;
    let (token, on_cpu) = (thread.token, thread.on_cpu);
    if on_cpu {
        engine.set_load(current as usize, Load::Spinning);
    }
    if let Some(until) = until {
        let at = until.max(engine.now);
        engine.events.push(at, Kind::Thread, current, token);
    }
    leave();
    look_ahead_anew();
    let engine = self::engine();
    if engine.me().doing == Doing::Watching {
        // The time is over.
        let current = engine.current as usize;
        engine.threads[current].doing = Doing::Running;
        engine.set_load(current, Load::Busy);
    }
}

impl Thread {
    /// Whether it watches one line, which it only reads, and has a CPU.
    pub(super) fn is_reader(&self) -> bool {
        self.on_cpu && self.watched.len() == 1 && !self.wrote
    }
}

impl Engine {
    fn owns_watched(&self) -> bool {
        let me = &self.threads[self.current as usize];
        me.watched.iter().all(|(line, _)| self.lines[*line as usize].owner == me.core)
    }
}
