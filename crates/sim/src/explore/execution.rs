//! One execution: virtual threads, what they wait for, and the machine that they share. The search says who runs next.

use super::footprint::{self, Place, CLOCK, NOWHERE, NUMBERS, ORDER};
use super::trace::{Deed, Trace};
use super::{Bounds, Search};
use crate::coroutines::{leave, Coroutines};
use crate::word::{At, Place as Word};
use lockswap_platform::Ns;
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};

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

/// Ends the execution; the virtual thread does not come back.
fn give_up(message: impl FnOnce() -> String) {
    if let Some(engine) = running() {
        engine.fail(message());
        leave();
    }
}

/// Comes before a step: another thread may run first. What the step may touch depends on the thread alone, not on what it
/// finds: here `place`, and what a condition that is being evaluated has read. The engine, when the step begins.
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
fn step(place: Place) -> Option<&'static mut Engine> {
    let engine = point(place)?;
    engine.touch(place, true);
    Some(engine)
}

/// Lets another thread run; the current one is not enabled.
fn hand_over() {
    let Some(engine) = engine() else { return };
    let here = engine.current;
    if engine.starting || !engine.next() || engine.current != here {
        leave();
    }
}

/// Before an access to the memory at `address`; the engine afterwards.
#[inline]
fn access(address: usize, at: At) -> Option<&'static mut Engine> {
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

/// Writes what `f` makes of the word's value, if anything; the value before. `reads`: whether the source asks for that.
#[inline]
pub fn update(word: Word, at: At, reads: bool, f: impl FnOnce(u64) -> Option<u64>) -> u64 {
    let engine = access(word.address, at);
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

/// The running virtual thread, or [`ROOT`].
pub fn current() -> usize {
    running().map_or(ROOT, |engine| engine.current)
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
    fn touch_watched(&mut self) {
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

/// What the current thread does up to its next access to an atomic comes in an order: all that says so before, or after.
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

/// From now on [`waits_since`] is about a new wait of the current thread.
pub fn forget_wait() {
    order();
    if let Some(engine) = running() {
        engine.me().waits_since = Some(0);
    }
}

/// The moment at which virtual thread `index` came to rest first since it called [`forget_wait`], if it has. No other thread
/// runs meanwhile: whoever asks has called [`order`].
pub fn waits_since(index: usize) -> Option<u64> {
    assert!(running()?.me().next == ORDER, "`order` comes before a look at others' waits");
    engine()?.threads.get(index)?.waits_since.filter(|since| *since != 0)
}

/// Runs the bodies as virtual threads, in an order that the search decides; returns when all have ended. Does not return
/// when the execution goes wrong.
pub fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
    let engine = engine().expect("virtual threads run inside `explore`");
    assert!(!engine.running && bodies.len() <= MOST_THREADS);
    engine.threads.clear();
    engine.threads.extend(bodies.iter().map(|_| Thread::NEW));
    engine.enabled = (1u32 << bodies.len()).wrapping_sub(1) as u16;
    if let Search::Reduced(search) = &mut engine.search {
        search.start(engine.threads.len());
    }
    engine.running = true;
    let mut coroutines = Coroutines::new(bodies.into_iter().map(|body| body as Box<dyn FnOnce() + 'a>));
    let outcome = catch_unwind(AssertUnwindSafe(|| resume_all(&mut coroutines)));
    drop(coroutines);
    let engine = self::engine().expect("still inside `explore`");
    engine.running = false;
    if let Search::Reduced(search) = &mut engine.search {
        search.close();
    }
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
    if engine.stop.is_some() {
        std::panic::resume_unwind(Box::new(Stopped));
    }
}

/// The payload of a panic that only leaves the scenario.
struct Stopped;

fn resume_all(coroutines: &mut Coroutines<'_>) {
    let Some(engine) = engine() else { return };
    let count = engine.threads.len();
    engine.starting = true;
    for index in 0..count {
        let Some(engine) = self::engine() else { return };
        engine.current = index;
        if coroutines.resume(index) {
            engine.set_state(index, State::Done);
        }
    }
    let Some(engine) = self::engine() else { return };
    engine.starting = false;
    engine.current = ROOT;
    loop {
        let Some(engine) = self::engine() else { return };
        if engine.current == ROOT {
            let all_ended = engine.threads.iter().all(|thread| thread.state == State::Done);
            if all_ended || !engine.next() {
                return;
            }
        }
        if engine.stop.is_some() {
            return;
        }
        let index = engine.current;
        if coroutines.resume(index) {
            let Some(engine) = self::engine() else { return };
            engine.set_state(index, State::Done);
            engine.current = ROOT;
        }
    }
}

/// One execution; what went wrong.
pub fn execute(engine: &mut Engine, scenario: &dyn Fn()) -> Option<Stop> {
    engine.restart();
    ENGINE.set(engine);
    let result = catch_unwind(AssertUnwindSafe(scenario));
    ENGINE.set(std::ptr::null_mut());
    match (engine.stop.take(), result) {
        (Some(stop), _) => Some(stop),
        (None, Ok(())) => None,
        (None, Err(panic)) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Some(Stop::Failed(text.unwrap_or_else(|| "panic".into())))
        }
    }
}
