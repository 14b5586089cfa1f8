//! The scheduler of the explorer: virtual threads are coroutines, and a depth-first search goes through every schedule up
//! to a bound on preemptions (Musuvathi, Qadeer: PLDI 2007).
//!
//! A thread may be interrupted before each access to an atomic. Executions are sequentially consistent; weaker orders are
//! loom's part. A waiting thread is not enabled until a word that its condition has read changes its value, so that
//! spinning costs no step. A preemption is a switch away from a thread that could have gone on.

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use lockswap_platform::Ns;
use std::cell::{Cell, RefCell};
use std::fmt::Write;
use std::panic::{catch_unwind, AssertUnwindSafe, Location};

/// Virtual threads get this much stack, bytes.
const STACK_BYTES: usize = 64 * 1024;
/// Virtual threads at a time.
pub const MOST_THREADS: usize = 16;
/// The thread that runs a scenario, outside [`run`].
pub const ROOT: usize = usize::MAX;

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Preemptions in one execution.
    pub preemptions: u32,
    /// Choices in one execution that are unlikely on hardware: a time-out although the wait could end, a rare draw.
    pub rarities: u32,
    /// Steps of one execution: more count as a limit that was hit, not as an error.
    pub steps: u32,
    /// Executions.
    pub executions: u64,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every execution within the bounds was seen.
    Exhausted,
    /// The number of executions, or the length of one, was reached first.
    Limit(&'static str),
    /// An execution went wrong.
    Failed(Failure),
}

/// An execution that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub message: String,
    /// The choices that lead there, for [`replay`].
    pub choices: Vec<u16>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Executions seen.
    pub executions: u64,
    /// How it ended.
    pub end: End,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready,
    /// Until a watched word changes, or `until`.
    Watching,
    /// Until it is woken, or `until`.
    Parked(usize),
    /// Until nobody else can run.
    Settling,
    Done,
}

struct Thread {
    state: State,
    /// What the condition that is being evaluated, or waited for, has read.
    watched: Vec<usize>,
    in_condition: bool,
    changed: bool,
    until: Option<Ns>,
    timed_out: bool,
    /// When it parked, for the order of wake-ups.
    ticket: u64,
    yielder: *const Yielder<(), ()>,
    /// When it first came to rest since [`mark_start`]; 0 if it has not.
    waits_since: u64,
}

#[derive(Clone, Copy)]
struct Decision {
    taken: u16,
    options: u16,
}

/// Options of a decision that is replayed.
const UNKNOWN: u16 = u16::MAX;

struct Engine {
    threads: Vec<Thread>,
    running: bool,
    current: usize,
    decisions: Vec<Decision>,
    depth: usize,
    bounds: Bounds,
    preemptions: u32,
    rarities: u32,
    steps: u32,
    clock: Ns,
    tickets: u64,
    gone: Vec<(usize, usize)>,
    /// What has been asked for its address, in the order of the first question.
    places: Vec<usize>,
    stop: Option<Stop>,
    trace: Option<Trace>,
}

/// The steps of one execution, for people.
#[derive(Default)]
struct Trace {
    text: String,
    /// Addresses in the order of their first access; a word's number is its position.
    words: Vec<usize>,
}

impl Trace {
    fn access(&mut self, thread: usize, what: Access, address: usize, place: &Location<'_>) {
        let known = self.words.iter().position(|word| *word == address);
        let word = known.unwrap_or_else(|| {
            self.words.push(address);
            self.words.len() - 1
        });
        let what = match what {
            Access::Load => "reads",
            Access::Write => "writes",
        };
        let _ = writeln!(self.text, "  thread {thread}: {what} word {word} at {place}");
    }
}

enum Stop {
    Failed(String),
    Limit(&'static str),
}

thread_local! {
    static ENGINE: Cell<*mut Engine> = const { Cell::new(std::ptr::null_mut()) };
    static STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
}

fn engine() -> Option<&'static mut Engine> {
    let engine = ENGINE.get();
    // SAFETY: set for the time of one execution; virtual threads run one at a time on this thread, and no reference is
    // kept across a switch.
    unsafe { engine.as_mut() }
}

impl Engine {
    fn new(bounds: Bounds, trace: bool) -> Self {
        Engine {
            threads: Vec::new(),
            running: false,
            current: ROOT,
            decisions: Vec::new(),
            depth: 0,
            bounds,
            preemptions: 0,
            rarities: 0,
            steps: 0,
            clock: 1_000_000_000,
            tickets: 1,
            gone: Vec::new(),
            places: Vec::new(),
            stop: None,
            trace: trace.then(Trace::default),
        }
    }

    fn restart(&mut self) {
        self.threads.clear();
        self.running = false;
        self.current = ROOT;
        self.depth = 0;
        self.preemptions = 0;
        self.rarities = 0;
        self.steps = 0;
        self.clock = 1_000_000_000;
        self.tickets = 1;
        self.gone.clear();
        self.places.clear();
        self.stop = None;
    }

    /// One of `options` alternatives.
    fn decide(&mut self, options: usize) -> usize {
        if options == 1 {
            return 0;
        }
        if self.depth == self.decisions.len() {
            self.decisions.push(Decision { taken: 0, options: options as u16 });
        }
        let decision = &mut self.decisions[self.depth];
        if decision.options == UNKNOWN {
            decision.options = options as u16;
        }
        assert_eq!(decision.options as usize, options, "the scenario is not deterministic");
        let taken = decision.taken as usize;
        self.depth += 1;
        if taken >= options {
            self.fail(format!("choice {} of the replay does not exist", self.depth));
            return 0;
        }
        taken
    }

    /// Moves on to the next schedule; false if there is none.
    fn next_schedule(&mut self) -> bool {
        while let Some(last) = self.decisions.last_mut() {
            if last.taken + 1 < last.options {
                last.taken += 1;
                return true;
            }
            self.decisions.pop();
        }
        false
    }

    fn is_enabled(&self, index: usize) -> bool {
        let thread = &self.threads[index];
        match thread.state {
            State::Ready => true,
            State::Watching => thread.changed,
            State::Parked(_) | State::Settling | State::Done => false,
        }
    }

    /// The thread that runs next; nothing if none can.
    fn schedule(&mut self) -> Option<usize> {
        let count = self.threads.len();
        let current = self.current;
        let mut options = [0usize; MOST_THREADS];
        let mut length = 0;
        let goes_on = current < count && self.is_enabled(current);
        if goes_on {
            options[0] = current;
            length = 1;
        }
        if !goes_on || self.preemptions < self.bounds.preemptions {
            for index in 0..count {
                if index != current && self.is_enabled(index) {
                    options[length] = index;
                    length += 1;
                }
            }
        }
        if length == 0 {
            return self.rouse();
        }
        let taken = self.decide(length);
        if goes_on && taken != 0 {
            self.preemptions += 1;
        }
        Some(options[taken])
    }

    /// Nobody is enabled: those who wait for that go on, or else time passes.
    fn rouse(&mut self) -> Option<usize> {
        if let Some(index) = self.threads.iter().position(|thread| thread.state == State::Settling) {
            self.threads[index].state = State::Ready;
            return Some(index);
        }
        let waits = |thread: &Thread| matches!(thread.state, State::Watching | State::Parked(_));
        let (_, index) = self
            .threads
            .iter()
            .enumerate()
            .filter(|(_, thread)| waits(thread))
            .filter_map(|(index, thread)| Some((thread.until?, index)))
            .min()?;
        self.time_out(index);
        Some(index)
    }

    fn time_out(&mut self, index: usize) {
        let thread = &mut self.threads[index];
        self.clock = self.clock.max(thread.until.take().unwrap_or(0));
        thread.timed_out = true;
        thread.state = State::Ready;
    }

    fn fail(&mut self, message: String) {
        if self.stop.is_none() {
            self.stop = Some(Stop::Failed(message));
        }
    }
}

/// Leaves the current virtual thread; returns when the scheduler chooses it again.
fn switch_away() {
    let Some(engine) = engine() else { return };
    let yielder = engine.threads[engine.current].yielder;
    // SAFETY: the yielder of the running coroutine lives on its stack.
    unsafe { (*yielder).suspend(()) };
}

/// Ends the execution; the virtual thread does not come back.
fn give_up(message: impl FnOnce() -> String) {
    let Some(engine) = engine() else { return };
    engine.fail(message());
    if engine.running {
        switch_away();
    } else {
        panic!("outside virtual threads");
    }
}

/// What an access does, for traces.
#[derive(Clone, Copy)]
pub enum Access {
    /// Reads.
    Load,
    /// Writes, or reads and writes.
    Write,
}

/// Comes before an access to the atomic at `address`: another thread may run first.
pub fn point(address: usize, place: &'static Location<'static>, access: Access) {
    let Some(engine) = engine() else { return };
    if !engine.running {
        return;
    }
    step(engine);
    let Some(engine) = self::engine() else { return };
    if let Some(trace) = &mut engine.trace {
        trace.access(engine.current, access, address, place);
    }
    if engine.gone.iter().any(|(start, end)| (*start..*end).contains(&address)) {
        let thread = engine.current;
        give_up(|| format!("thread {thread} touches memory that is gone, at {place}"));
    }
    let thread = &mut engine.threads[engine.current];
    if thread.in_condition && !thread.watched.contains(&address) {
        thread.watched.push(address);
    }
}

/// A point at which another thread may run.
fn step(engine: &mut Engine) {
    engine.steps += 1;
    if engine.steps > engine.bounds.steps {
        engine.stop = Some(Stop::Limit("steps"));
        switch_away();
        return;
    }
    let here = engine.current;
    match engine.schedule() {
        Some(next) if next == here => {}
        Some(next) => {
            engine.current = next;
            // The scheduler resumes whom `current` names.
            let yielder = engine.threads[here].yielder;
            // SAFETY: as in `switch_away`.
            unsafe { (*yielder).suspend(()) };
        }
        None => unreachable!("the current thread is enabled"),
    }
}

/// Comes after the value at `address` has changed.
pub fn changed(address: usize) {
    let Some(engine) = engine() else { return };
    let current = engine.current;
    for (index, thread) in engine.threads.iter_mut().enumerate() {
        if index != current && thread.watched.contains(&address) {
            thread.changed = true;
        }
    }
}

/// The running virtual thread, or [`ROOT`].
pub fn current() -> usize {
    engine().map_or(ROOT, |engine| if engine.running { engine.current } else { ROOT })
}

/// The virtual time, ns: a little later at each look.
pub fn now() -> Ns {
    engine().map_or(0, |engine| {
        engine.clock += 1;
        engine.clock
    })
}

/// A number in `0..n`: the highest one, or as a rarity 0; all for two.
pub fn choose(n: u32) -> u32 {
    let Some(engine) = engine() else { return n - 1 };
    if !engine.running || n == 1 {
        return n - 1;
    }
    if rarity() {
        0
    } else {
        n - 1
    }
}

/// Whether something unlikely happens now.
fn rarity() -> bool {
    let Some(engine) = engine() else { return false };
    if engine.rarities >= engine.bounds.rarities {
        return false;
    }
    let happens = engine.decide(2) == 1;
    engine.rarities += u32::from(happens);
    happens
}

/// Starts the evaluation of a condition.
pub fn begin_condition() {
    if let Some(engine) = engine() {
        if engine.running {
            let thread = &mut engine.threads[engine.current];
            thread.watched.clear();
            thread.changed = false;
            thread.in_condition = true;
        }
    }
}

/// Ends the evaluation of a condition that holds.
pub fn end_condition() {
    if let Some(engine) = engine() {
        if engine.running {
            let thread = &mut engine.threads[engine.current];
            thread.watched.clear();
            thread.in_condition = false;
        }
    }
}

/// Waits after a condition that began with [`begin_condition`] did not hold; whether it timed out.
pub fn wait_for_change(until: Option<Ns>, place: &'static Location<'static>) -> bool {
    let Some(engine) = engine() else { panic!("a wait outside the explorer, at {place}") };
    if !engine.running {
        assert!(until.is_some(), "a wait that nobody can end, at {place}");
        engine.clock = engine.clock.max(until.unwrap_or(0));
        return true;
    }
    rest(State::Watching, until, place)
}

/// Lets every other thread run for as long as it can, or, as a rarity, none.
pub fn sleep(ns: Ns, place: &'static Location<'static>) {
    if current() != ROOT {
        end_condition();
        rest(State::Watching, Some(now() + ns), place);
    }
}

/// Waits until [`wake`] with the same address; whether it timed out.
pub fn park(address: usize, until: Option<Ns>, place: &'static Location<'static>) -> bool {
    rest(State::Parked(address), until, place)
}

fn rest(state: State, until: Option<Ns>, place: &'static Location<'static>) -> bool {
    let Some(engine) = engine() else { panic!("a wait outside the explorer, at {place}") };
    assert!(engine.running, "a wait that nobody can end, at {place}");
    let current = engine.current;
    if state == State::Watching && engine.threads[current].changed {
        return false;
    }
    if until.is_some() && rarity() {
        engine.threads[current].until = until;
        engine.time_out(current);
        engine.threads[current].timed_out = false;
        return true;
    }
    engine.tickets += 1;
    let ticket = engine.tickets;
    let thread = &mut engine.threads[current];
    thread.state = state;
    thread.until = until;
    thread.ticket = ticket;
    thread.timed_out = false;
    if thread.waits_since == 0 {
        thread.waits_since = ticket;
    }
    if let Some(trace) = &mut engine.trace {
        let _ = writeln!(trace.text, "  thread {current}: waits at {place}");
    }
    leave();
    let Some(engine) = self::engine() else { return false };
    let thread = &mut engine.threads[current];
    thread.state = State::Ready;
    thread.until = None;
    std::mem::take(&mut thread.timed_out)
}

/// Lets another thread run; the current one is not enabled.
fn leave() {
    let Some(engine) = engine() else { return };
    let here = engine.current;
    match engine.schedule() {
        Some(next) => engine.current = next,
        None => engine.fail("deadlock: every thread waits".into()),
    }
    if engine.stop.is_some() || engine.current != here {
        let yielder = engine.threads[here].yielder;
        // SAFETY: as in `switch_away`.
        unsafe { (*yielder).suspend(()) };
    }
}

/// Wakes up to `n` threads that are parked on `address`, the longest first; how many.
pub fn wake(address: usize, n: u32) -> u32 {
    let Some(engine) = engine() else { return 0 };
    let mut woken = 0;
    while woken < n {
        let sleepers = engine.threads.iter_mut().filter(|thread| thread.state == State::Parked(address));
        let Some(thread) = sleepers.min_by_key(|thread| thread.ticket) else { break };
        thread.state = State::Ready;
        woken += 1;
    }
    woken
}

/// Returns when every other virtual thread waits or has ended.
pub fn settle() {
    let Some(engine) = engine() else { return };
    if engine.running {
        engine.threads[engine.current].state = State::Settling;
        leave();
    }
}

/// The bytes must not be accessed any more.
pub fn gone(start: usize, bytes: usize) {
    if let Some(engine) = engine() {
        engine.gone.push((start, start + bytes));
    }
}

/// A number for what lies at `address`: the same one in each execution, unlike the address.
pub fn number_of(address: usize) -> usize {
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

/// A moment later than all before.
pub fn moment() -> u64 {
    engine().map_or(0, |engine| {
        engine.tickets += 1;
        engine.tickets
    })
}

/// From now on [`waits_since`] is about a new wait of the current thread.
pub fn forget_wait() {
    if let Some(engine) = engine() {
        if engine.running {
            engine.threads[engine.current].waits_since = 0;
        }
    }
}

/// The moment at which virtual thread `index` came to rest first since it called [`forget_wait`], if it has.
pub fn waits_since(index: usize) -> Option<u64> {
    let since = engine()?.threads.get(index)?.waits_since;
    (since != 0).then_some(since)
}

fn take_stack() -> DefaultStack {
    STACKS
        .with_borrow_mut(Vec::pop)
        .unwrap_or_else(|| DefaultStack::new(STACK_BYTES).expect("memory for a coroutine's stack"))
}

/// Runs the bodies as virtual threads, in an order that the search decides; returns when all have ended. Does not return
/// when the execution goes wrong.
pub fn run<'a>(bodies: Vec<Box<dyn FnOnce() + Send + 'a>>) {
    let engine = engine().expect("virtual threads run inside `explore`");
    assert!(!engine.running && bodies.len() <= MOST_THREADS);
    engine.threads.clear();
    let mut coroutines = Vec::new();
    for body in bodies {
        // SAFETY: the coroutine ends, or is reset without running any more, before this function returns.
        let body: Box<dyn FnOnce() + Send + 'static> = unsafe { std::mem::transmute(body) };
        let index = engine.threads.len();
        engine.threads.push(Thread {
            state: State::Ready,
            watched: Vec::new(),
            in_condition: false,
            changed: false,
            until: None,
            timed_out: false,
            ticket: 0,
            yielder: std::ptr::null(),
            waits_since: 0,
        });
        coroutines.push(Some(Coroutine::with_stack(take_stack(), move |yielder: &Yielder<(), ()>, ()| {
            if let Some(engine) = self::engine() {
                engine.threads[index].yielder = yielder;
            }
            body();
        })));
    }
    engine.running = true;
    engine.current = usize::MAX;
    let mut outcome = Ok(());
    if let Some(first) = engine.schedule() {
        engine.current = first;
        outcome = resume_all(&mut coroutines);
    }
    for coroutine in coroutines.iter_mut().filter_map(Option::take) {
        recycle(coroutine);
    }
    let engine = self::engine().expect("still inside `explore`");
    engine.running = false;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
    if engine.stop.is_some() {
        std::panic::resume_unwind(Box::new(Stopped));
    }
}

/// The payload of a panic that only leaves the scenario.
struct Stopped;

type Virtual = Coroutine<(), (), (), DefaultStack>;

fn recycle(mut coroutine: Virtual) {
    if !coroutine.done() {
        // SAFETY: a scenario's thread owns nothing that must be dropped: what it leaks is bounded by one execution.
        unsafe { coroutine.force_reset() };
    }
    STACKS.with_borrow_mut(|stacks| stacks.push(coroutine.into_stack()));
}

fn resume_all(coroutines: &mut [Option<Virtual>]) -> std::thread::Result<()> {
    loop {
        let Some(engine) = engine() else { return Ok(()) };
        if engine.stop.is_some() {
            return Ok(());
        }
        let index = engine.current;
        let Some(coroutine) = coroutines[index].as_mut() else {
            unreachable!("a thread that has ended is not enabled")
        };
        match catch_unwind(AssertUnwindSafe(|| coroutine.resume(())))? {
            CoroutineResult::Yield(()) => {}
            CoroutineResult::Return(()) => {
                let Some(engine) = self::engine() else { return Ok(()) };
                engine.threads[index].state = State::Done;
                if let Some(done) = coroutines[index].take() {
                    recycle(done);
                }
                if engine.threads.iter().all(|thread| thread.state == State::Done) {
                    return Ok(());
                }
                match engine.schedule() {
                    Some(next) => engine.current = next,
                    None => engine.fail("deadlock: every thread that has not ended waits".into()),
                }
            }
        }
    }
}

/// One execution; what went wrong.
fn execute(engine: &mut Engine, scenario: &dyn Fn()) -> Option<Stop> {
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

/// Runs `scenario` under every schedule within `bounds`.
pub fn explore(bounds: Bounds, scenario: &dyn Fn()) -> Report {
    let mut engine = Engine::new(bounds, false);
    let mut executions = 0;
    let mut limit = None;
    loop {
        executions += 1;
        match execute(&mut engine, scenario) {
            None => {}
            Some(Stop::Limit(what)) => limit = Some(what),
            Some(Stop::Failed(message)) => {
                let choices = engine.decisions[..engine.depth].iter().map(|decision| decision.taken).collect();
                return Report { executions, end: End::Failed(Failure { message, choices }) };
            }
        }
        if executions >= bounds.executions {
            return Report { executions, end: End::Limit("executions") };
        }
        if !engine.next_schedule() {
            return Report { executions, end: limit.map_or(End::Exhausted, End::Limit) };
        }
    }
}

/// Runs the one schedule that `choices` describes, and returns what went wrong and every step.
pub fn replay(bounds: Bounds, choices: &[u16], scenario: &dyn Fn()) -> (Option<String>, String) {
    let mut engine = Engine::new(bounds, true);
    // The number of options is learnt on the way.
    engine.decisions = choices.iter().map(|taken| Decision { taken: *taken, options: UNKNOWN }).collect();
    let stop = execute(&mut engine, scenario);
    let message = stop.map(|stop| match stop {
        Stop::Failed(message) => message,
        Stop::Limit(what) => format!("too many {what}"),
    });
    (message, engine.trace.take().unwrap_or_default().text)
}
