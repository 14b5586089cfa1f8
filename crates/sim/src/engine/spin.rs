//! Waits that spin: the lines that a condition has read are watched, and the thread rests until one of them changes
//! hands.

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

/// Ends the evaluation of a condition that holds. If that was waited for, what follows has not begun before.
pub fn end_wait(waited: bool) {
    end_condition();
    if waited {
        look_ahead_anew();
    }
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
        let deadline = &mut engine.threads[current as usize].deadline;
        engine.events.start(deadline, at, Kind::Deadline, current, token);
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

    /// Tells those who watch a line that it has changed hands or content; the new state is there at `at`.
    #[inline]
    pub(super) fn notify(&mut self, index: usize, at: Ps) {
        if !self.lines[index].watchers.is_empty() {
            self.notify_watchers(index, at);
        }
    }

    fn notify_watchers(&mut self, index: usize, at: Ps) {
        let mut watchers = std::mem::take(&mut self.lines[index].watchers);
        let pause = self.machine.costs.pause;
        for (number, token) in watchers.drain(..) {
            let thread = &self.threads[number as usize];
            if thread.token != token {
                continue;
            }
            if thread.is_reader() {
                // All it will do is read this line again, at its next look: once per pause.
                let gone = at.saturating_sub(self.lines[index].way);
                let look = (gone + self.random.below(pause + 1)).saturating_sub(self.now);
                self.join(index, number, look);
            } else {
                let at = at.max(thread.not_before) + self.random.below(pause);
                self.wake_watcher(number, at);
            }
        }
        self.lines[index].watchers = watchers;
        self.sort(index);
    }

    /// Notes that the condition under evaluation depends on a line.
    #[inline]
    pub(super) fn note(&mut self, index: usize) {
        let thread = &mut self.threads[self.current as usize];
        if thread.in_condition && !thread.watched.iter().any(|(line, _)| *line == index as u32) {
            thread.watched.push((index as u32, self.lines[index].version));
        }
    }

    /// Makes the current thread a watcher of what its condition depends on; no if that has changed already.
    pub fn watch(&mut self) -> bool {
        let me = self.current as usize;
        let token = self.threads[me].token;
        let fresh = |engine: &Self, (line, version): &(u32, u32)| engine.lines[*line as usize].version == *version;
        if !self.threads[me].watched.iter().all(|watched| fresh(self, watched)) {
            return false;
        }
        let watched = std::mem::take(&mut self.threads[me].watched);
        let most = 2 * self.threads.len() + 16;
        for (line, _) in &watched {
            let watchers = &mut self.lines[*line as usize].watchers;
            if watchers.len() > most {
                watchers.retain(|(thread, token)| self.threads[*thread as usize].token == *token);
            }
            watchers.push((me as u32, token));
        }
        self.threads[me].watched = watched;
        true
    }

    /// The watched lines of a thread, for reports.
    pub fn lines_watched(&self, thread: usize) -> Vec<u32> {
        self.threads[thread].watched.iter().map(|(line, _)| *line).collect()
    }
}
