//! One execution: virtual threads, what they wait for, and the machine that they share. The search says who runs next.

mod run;
mod step;
mod wait;

use super::footprint::{Place, NOWHERE};
use super::trace::{Deed, Trace};
use super::{Bounds, Search};
use crate::word::At;
use lockswap_platform::Ns;
pub use run::{execute, run};
use std::cell::Cell;
pub use step::{
    choose, gone, guarded, interrupt_all, load, moment, now, number_in, number_of, order, store_unless, update,
};
pub use wait::{begin_condition, end_condition, forget_wait, park, settle, sleep, wait_for_change, waits_since, wake};

/// Virtual threads at a time.
pub const MOST_THREADS: usize = 16;
/// The thread that runs a scenario, outside [`run`].
pub const ROOT: usize = usize::MAX;
/// The time at which an execution begins, ns.
const START: Ns = 1_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    Ready,
    /// Until a watched word changes, or `until`.
    Watching,
    /// Until it is woken, or `until`.
    Parked(usize),
    /// Until nobody else can run.
    Settling,
    Done,
}

pub struct Thread {
    state: State,
    /// What it touches when it runs next, as far as that is known.
    pub next: Place,
    /// What the condition that is being evaluated, or waited for, has read.
    pub watched: Vec<usize>,
    in_condition: bool,
    changed: bool,
    /// The steps that have changed it.
    changes: Vec<u32>,
    until: Option<Ns>,
    timed_out: bool,
    /// The step that woke it up.
    woken_by: Option<u32>,
    /// When it parked, for the order of wake-ups.
    ticket: u64,
    /// When it first came to rest since [`forget_wait`]; 0 if it has not, nothing if nobody asks.
    waits_since: Option<u64>,
}

impl Thread {
    const NEW: Thread = Thread {
        state: State::Ready,
        next: NOWHERE,
        watched: Vec::new(),
        in_condition: false,
        changed: false,
        changes: Vec::new(),
        until: None,
        timed_out: false,
        woken_by: None,
        ticket: 0,
        waits_since: None,
    };
}

/// Why an execution has no end of its own.
pub enum Stop {
    Failed(String),
    Limit(&'static str),
    /// All that follows has been seen.
    Redundant,
}

pub struct Engine {
    threads: Vec<Thread>,
    running: bool,
    /// Each thread runs up to what the others can see first.
    starting: bool,
    current: usize,
    /// The set of threads that can run: those that are ready, and those that watch what has changed.
    enabled: u16,
    /// The current thread has touched nothing since it was chosen.
    fresh: bool,
    pub search: Search,
    bounds: Bounds,
    rarities: u32,
    steps: u32,
    clock: Ns,
    /// Threads that have come to rest.
    tickets: u64,
    moments: u64,
    /// How often all threads have been interrupted.
    interrupts: u32,
    /// Conditional stores do not happen any more.
    refuses: bool,
    gone: Vec<(usize, usize)>,
    /// What has been asked for its address, in the order of the first question.
    places: Vec<usize>,
    stop: Option<Stop>,
    trace: Option<Box<Trace>>,
}

thread_local! {
    static ENGINE: Cell<*mut Engine> = const { Cell::new(std::ptr::null_mut()) };
}

#[inline(always)]
fn engine() -> Option<&'static mut Engine> {
    let engine = ENGINE.get();
    // SAFETY: set for the time of one execution; virtual threads run one at a time on this thread, and no reference is
    // kept across a switch.
    unsafe { engine.as_mut() }
}

/// The engine, for a virtual thread.
#[inline(always)]
fn running() -> Option<&'static mut Engine> {
    engine().filter(|engine| engine.running)
}

impl Engine {
    pub fn new(bounds: Bounds, search: Search, traced: bool) -> Self {
        Engine {
            threads: Vec::new(),
            running: false,
            starting: false,
            current: ROOT,
            enabled: 0,
            fresh: false,
            search,
            bounds,
            rarities: 0,
            steps: 0,
            clock: START,
            tickets: 0,
            moments: 0,
            interrupts: 0,
            refuses: false,
            gone: Vec::new(),
            places: Vec::new(),
            stop: None,
            trace: traced.then(Box::default),
        }
    }

    fn restart(&mut self) {
        self.running = false;
        self.current = ROOT;
        self.rarities = 0;
        self.steps = 0;
        self.clock = START;
        self.tickets = 0;
        self.moments = 0;
        self.interrupts = 0;
        self.refuses = false;
        self.gone.clear();
        self.places.clear();
        self.stop = None;
        match &mut self.search {
            Search::Bounded(search) => search.restart(),
            Search::Reduced(search) => search.restart(),
        }
    }

    /// What has happened, for people.
    pub fn take_trace(&mut self) -> String {
        self.trace.take().map(|trace| trace.text()).unwrap_or_default()
    }

    #[inline]
    fn me(&mut self) -> &mut Thread {
        &mut self.threads[self.current]
    }

    #[inline]
    fn set_state(&mut self, thread: usize, state: State) {
        self.threads[thread].state = state;
        self.enabled &= !(1 << thread);
        self.enabled |= u16::from(state == State::Ready) << thread;
    }

    #[inline]
    fn note(&mut self, deed: Deed, at: At) {
        if let Some(trace) = &mut self.trace {
            trace.add(self.current, deed, at);
        }
    }

    /// The current thread touches `place`, which others might as well.
    #[inline]
    fn touch(&mut self, place: Place, writes: bool) {
        if let Search::Reduced(search) = &mut self.search {
            search.touch(place, writes);
        }
    }

    /// One of `options` alternatives.
    fn decide(&mut self, options: usize) -> usize {
        let decided = match &mut self.search {
            Search::Bounded(search) => search.decide(options),
            Search::Reduced(search) => Ok(search.decide(options)),
        };
        decided.unwrap_or_else(|stop| {
            self.stop = Some(stop);
            0
        })
    }

    /// Whether something unlikely happens now.
    fn rarity(&mut self) -> bool {
        if self.rarities >= self.bounds.rarities {
            return false;
        }
        let happens = self.decide(2) == 1;
        self.rarities += u32::from(happens);
        happens
    }

    /// Makes the thread that runs next the current one; false if the execution is over.
    fn next(&mut self) -> bool {
        self.steps += 1;
        if self.steps > self.bounds.steps {
            self.stop = Some(Stop::Limit("steps"));
            return false;
        }
        if let Search::Reduced(search) = &mut self.search {
            search.close();
        }
        let enabled = self.enabled;
        self.fresh = true;
        let chosen = if enabled == 0 {
            self.rouse().ok_or_else(|| {
                let some_ended = self.threads.iter().any(|thread| thread.state == State::Done);
                let who = if some_ended { "every thread that has not ended" } else { "every thread" };
                Stop::Failed(format!("deadlock: {who} waits"))
            })
        } else {
            match &mut self.search {
                Search::Bounded(search) => search.choose(enabled, self.current),
                Search::Reduced(search) => search.choose(enabled, self.current, &self.threads).ok_or(Stop::Redundant),
            }
        };
        match chosen {
            Ok(thread) => self.current = thread,
            Err(stop) => self.stop = Some(stop),
        }
        self.stop.is_none()
    }

    /// Nobody is enabled: those who wait for that go on, or else time passes.
    fn rouse(&mut self) -> Option<usize> {
        let settling = self.threads.iter().position(|thread| thread.state == State::Settling);
        let waits = |thread: &Thread| matches!(thread.state, State::Watching | State::Parked(_));
        let first = || {
            let waiting = self.threads.iter().enumerate().filter(|(_, thread)| waits(thread));
            waiting.filter_map(|(index, thread)| Some((thread.until?, index))).min().map(|(_, index)| index)
        };
        let index = settling.or_else(first)?;
        if let Search::Reduced(search) = &mut self.search {
            search.rouse(index, self.current, &self.threads[index]);
        }
        if settling.is_some() {
            self.set_state(index, State::Ready);
        } else {
            self.time_out(index);
        }
        Some(index)
    }

    fn time_out(&mut self, index: usize) {
        let thread = &mut self.threads[index];
        self.clock = self.clock.max(thread.until.take().unwrap_or(0));
        thread.timed_out = true;
        self.set_state(index, State::Ready);
        if let Some(trace) = &mut self.trace {
            trace.goes_on(index, Deed::TimesOut);
        }
    }

    fn fail(&mut self, message: String) {
        if self.stop.is_none() {
            self.stop = Some(Stop::Failed(message));
        }
    }
}

/// The running virtual thread, or [`ROOT`].
pub fn current() -> usize {
    running().map_or(ROOT, |engine| engine.current)
}
