//! The engine: virtual threads are coroutines on one thread of the host, under strict virtual time.
//!
//! A thread runs ahead of the others only as long as nothing else happens before: every access to shared memory first
//! lets all earlier events happen. So a run depends on the machine, the program and the seed alone.

pub mod access;
mod alone;
pub mod cores;
mod events;
pub mod memory;
mod overlap;
mod pace;
mod random;
pub mod range;
mod requests;
pub mod schedule;
pub mod settling;
pub mod spin;
mod stores;

use crate::coroutines::{leave, Coroutines};
use crate::machine::{Costs, Cpu, Machine, Ps};
use crate::word::Place;
use events::{Events, Kind, Timer};
use memory::Line;
use random::Random;
use range::Range;
use rustc_hash::FxHashMap;
use spin::Patience;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::Location;

/// No core, CPU or thread.
pub const NOBODY: u32 = u32::MAX;
/// Operations after the last alarm: a thread ends after a few, and it may have to wait for thousands of others.
const GRACE: u64 = 30_000_000;
/// The beginning and the end of the measurement.
const ALARMS: usize = 2;
/// Lines whose numbers are found without hashing.
const RECENT: usize = 1024;

/// What a thread is about, for reports and preemptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doing {
    /// Computes, or waits for an event of its own.
    Running,
    /// Waits for a line or for its stores.
    Missing,
    /// Waits until a line that its condition has read changes.
    Watching,
    /// Sleeps until it is woken by address.
    Parked(usize),
    /// Sleeps for a time.
    Sleeping,
    Done,
}

/// What a thread is to the other hardware threads of its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    None,
    Busy,
    Spinning,
}

pub struct Thread {
    pub doing: Doing,
    pub cpu: u32,
    pub core: u32,
    /// The kind of its core.
    kind: u32,
    /// Whether it has its CPU.
    on_cpu: bool,
    /// Changes whenever the thread goes on, which voids its events and watches.
    pub token: u32,
    /// When its own event comes.
    event_at: Option<Ps>,
    /// When it gives up watching.
    deadline: Timer,
    /// A watcher's own time: it sees nothing before.
    pub not_before: Ps,
    /// How much of its slice it has had; a yield does not begin a new one.
    used: Ps,
    /// What was left to compute when it lost its CPU.
    remaining: Option<Ps>,
    /// It looks at the clock until then, on a CPU or not.
    busy_until: Option<Ps>,
    /// It may go on when it gets a CPU.
    ready: bool,
    pub load: Load,
    /// Stores that have not been served, oldest first, and since when their lines may be on their way.
    pub stores: VecDeque<(u32, Place, Ps)>,
    /// When the last store that has been served is visible.
    pub last_commit: Ps,
    /// Waits until its stores have been served.
    pub draining: bool,
    pub in_condition: bool,
    /// The condition under evaluation has written.
    pub wrote: bool,
    /// The condition under evaluation has offered the CPU to others, which it does again and again.
    yielded: bool,
    pub watched: Vec<(u32, u32)>,
    timed_out: bool,
    /// How many of its stores have waited, and have been served.
    pub served: u64,
    /// How often it has lost its CPU, or has been interrupted.
    pub interruptions: u64,
    /// When it asked for the line that it has waited for.
    pub asked: Ps,
    /// How far it looks ahead.
    pub ahead: overlap::Ahead,
    /// Where its accesses go.
    pub habits: overlap::Habits,
    place: Option<&'static Location<'static>>,
    /// When its current wait began to spin.
    pub patience: Patience,
    /// The words that it increments.
    range: Range,
}

pub struct Engine {
    pub machine: Machine,
    pub now: Ps,
    pub current: u32,
    pub threads: Vec<Thread>,
    events: Events,
    random: Random,
    pub lines: Vec<Line>,
    numbers: FxHashMap<usize, u32>,
    recent: Box<[(usize, u32); RECENT]>,
    homes: Vec<Ps>,
    links: Vec<Ps>,
    /// Busy and spinning threads of each core.
    loads: Vec<(u32, u32)>,
    kind_of_core: Vec<u32>,
    strongest_favour: u32,
    cpus: Vec<schedule::CpuState>,
    queued: usize,
    sleepers: FxHashMap<usize, VecDeque<u32>>,
    limit: Ps,
    /// Operations after which there must be an end.
    most_operations: u64,
    pub operations: u64,
    pub misses: u64,
}

/// How a run ended, if not well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// Nothing will ever happen again; what each thread waits for.
    Deadlock(Vec<String>),
    /// The limit of virtual time was reached; what each thread does.
    Late(Vec<String>),
    /// So many memory operations after the end of the measurement that no thread can be on its way; what each does.
    Livelock(Vec<String>),
}

/// What a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Memory operations.
    pub operations: u64,
    /// Those that needed a line from elsewhere.
    pub misses: u64,
    /// Virtual time at the end, ps.
    pub end: Ps,
}

thread_local! {
    static ENGINE: Cell<*mut Engine> = const { Cell::new(std::ptr::null_mut()) };
}

/// The engine of the simulation that runs on this thread of the host.
#[inline]
fn engine() -> &'static mut Engine {
    // SAFETY: set for the time of one run; virtual threads run one at a time on this thread, and no reference is kept
    // across a switch.
    unsafe { ENGINE.get().as_mut() }.expect("a lock of the simulated machine waits only inside a simulation")
}

/// Whether a virtual thread runs.
#[inline]
pub fn is_running() -> bool {
    !ENGINE.get().is_null()
}

impl Engine {
    fn new(machine: Machine, seed: u64, limit: Ps) -> Self {
        let mut kind_of_core = vec![0; machine.cores as usize];
        for cpu in &machine.cpus {
            kind_of_core[cpu.core as usize] = cpu.kind;
        }
        Engine {
            now: 0,
            current: NOBODY,
            threads: Vec::new(),
            events: Events::new(),
            random: Random::new(seed),
            lines: Vec::new(),
            numbers: FxHashMap::default(),
            recent: Box::new([(usize::MAX, 0); RECENT]),
            homes: vec![0; machine.nodes as usize],
            links: vec![0; (machine.nodes * machine.nodes) as usize],
            loads: vec![(0, 0); machine.cores as usize],
            kind_of_core,
            strongest_favour: machine.kinds.iter().map(|kind| kind.favour.unsigned_abs()).max().unwrap_or(0),
            cpus: machine.cpus.iter().map(|_| schedule::CpuState::default()).collect(),
            queued: 0,
            sleepers: FxHashMap::default(),
            limit,
            most_operations: u64::MAX,
            operations: 0,
            misses: 0,
            machine,
        }
    }

    /// The CPU of the current thread.
    #[inline]
    pub fn here(&self) -> &Cpu {
        &self.machine.cpus[self.threads[self.current as usize].cpu as usize]
    }

    #[inline]
    pub fn core(&self) -> u32 {
        self.threads[self.current as usize].core
    }

    pub fn node_of_core(&self, core: u32) -> u32 {
        self.machine.node_of_cluster[self.machine.cluster_of_core[core as usize] as usize]
    }

    #[inline]
    pub fn me(&mut self) -> &mut Thread {
        &mut self.threads[self.current as usize]
    }

    /// Whether nothing happens before the current thread's time, and it has a CPU; if not, it goes on when that is so.
    #[inline]
    fn settles(&mut self) -> bool {
        if self.me().on_cpu && self.events.next_at >= self.now {
            return true;
        }
        self.wake(self.current, self.now);
        false
    }

    /// Lets a thread that waits go on at `at`, or as soon as it has a CPU.
    fn wake(&mut self, thread: u32, at: Ps) {
        let state = &mut self.threads[thread as usize];
        if state.on_cpu {
            state.event_at = Some(at);
            self.events.push(at, Kind::Thread, thread, state.token);
        } else {
            state.ready = true;
        }
    }

    /// The same for a thread that watches lines: it watches no longer.
    fn wake_watcher(&mut self, thread: u32, at: Ps) {
        let state = &mut self.threads[thread as usize];
        state.token = state.token.wrapping_add(1);
        state.doing = Doing::Running;
        if state.load == Load::Spinning {
            self.set_load(thread as usize, Load::Busy);
        }
        self.wake(thread, at);
    }

    fn report(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for (number, thread) in self.threads.iter().enumerate() {
            let at = thread.place.map(|place| format!(" at {}:{}", place.file(), place.line())).unwrap_or_default();
            let what = match thread.doing {
                Doing::Done => continue,
                Doing::Running if !thread.on_cpu => "waits for a CPU".to_owned(),
                Doing::Running => "runs".to_owned(),
                Doing::Missing => "waits for a cache line".to_owned(),
                Doing::Watching => format!("watches cache lines {:?}{at}", self.lines_watched(number)),
                Doing::Parked(_) => format!("is parked{at}"),
                Doing::Sleeping => format!("sleeps{at}"),
            };
            lines.push(format!("thread {number} on CPU {} {what}", thread.cpu));
        }
        lines
    }
}

/// Lets everything happen that comes before the current thread's time, and waits for a CPU if it has none.
#[inline]
fn settle() {
    while !engine().settles() {
        leave();
    }
}

/// Lets `time` pass on the current CPU.
fn pass(time: Ps) {
    let engine = engine();
    engine.now += time;
    settle();
    if time > 0 {
        look_ahead_anew();
    }
}

/// What the current thread does next cannot have begun before.
fn look_ahead_anew() {
    let engine = engine();
    let now = engine.now;
    engine.me().ahead.begin(now);
}

/// Looks at the clock until `time` has passed, however fast the CPU is, and whether the thread has it or not.
pub fn keep_busy(time: Ps) {
    let engine = engine();
    let until = engine.now + time;
    engine.me().busy_until = Some(until);
    pass(time);
    self::engine().me().busy_until = None;
}

/// Computes what takes `time` at speed 1.
pub fn compute(time: Ps) {
    let engine = engine();
    let time = engine.compute(time);
    pass(time);
}

/// The virtual time, ps. To look at it takes time, as on hardware.
pub fn now() -> Ps {
    look(|costs| costs.clock)
}

/// The same by the cycle counter.
pub fn instant() -> Ps {
    look(|costs| costs.counter)
}

fn look(cost: impl Fn(&Costs) -> Ps) -> Ps {
    if !is_running() {
        return 0;
    }
    let engine = engine();
    engine.now += engine.compute(cost(&engine.machine.costs));
    engine.now
}

/// Where the current thread runs.
pub fn cpu() -> (u32, Cpu) {
    let engine = engine();
    (engine.me().cpu, *engine.here())
}

/// The machine.
pub fn machine() -> &'static Machine {
    &engine().machine
}

/// The number of the current virtual thread.
pub fn current() -> u32 {
    engine().current
}

/// A random number below `n`.
pub fn choose(n: u32) -> u32 {
    engine().random.below(u64::from(n)) as u32
}

/// The number of the line of `address`, in the order of first touches.
pub fn line_number(address: usize) -> usize {
    engine().line_of(address)
}

/// The virtual time, ps, without looking at a clock; 0 outside a simulation.
pub fn time() -> Ps {
    if !is_running() {
        return 0;
    }
    engine().now
}

/// Runs the bodies as virtual threads of `machine`, the i-th one where the machine places it; returns when all have
/// ended, or when no progress is possible, or at `limit`. `alarm` is called at each of the times `alarms`.
pub fn run<'a>(
    machine: &Machine,
    seed: u64,
    (alarms, limit): ([Ps; ALARMS], Ps),
    alarm: &dyn Fn(),
    bodies: Vec<Box<dyn FnOnce() + 'a>>,
) -> Result<Totals, Stuck> {
    assert!(!is_running(), "a simulation inside a simulation");
    let mut engine = Box::new(Engine::new(machine.clone(), seed, limit));
    let left = bodies.len();
    for number in 0..left {
        engine.add_thread(number);
    }
    let mut coroutines = Coroutines::new(bodies);
    for at in alarms {
        engine.events.push(at, Kind::Alarm, NOBODY, 0);
    }
    ENGINE.set(&raw mut *engine);
    let outcome = resume_all(&mut coroutines, left, alarm);
    ENGINE.set(std::ptr::null_mut());
    outcome.map(|()| Totals { operations: engine.operations, misses: engine.misses, end: engine.now })
}

fn resume_all(coroutines: &mut Coroutines<'_>, mut left: usize, alarm: &dyn Fn()) -> Result<(), Stuck> {
    let mut alarms_left = ALARMS;
    while left > 0 {
        let engine = engine();
        let Some(event) = engine.events.pop() else { return Err(Stuck::Deadlock(engine.report())) };
        engine.now = event.at;
        if engine.now > engine.limit {
            return Err(Stuck::Late(engine.report()));
        }
        if engine.operations > engine.most_operations {
            return Err(Stuck::Livelock(engine.report()));
        }
        let next = match event.kind {
            Kind::Thread => engine.goes_on(event.id, event.token),
            Kind::Deadline => engine.deadline_comes(&event),
            Kind::Line => engine.line_is_free(event.id as usize),
            Kind::Cpu => {
                engine.slice_ends(&event);
                None
            }
            Kind::Wake => {
                engine.wakes_up(event.id, event.token);
                None
            }
            Kind::Alarm => {
                alarm();
                alarms_left -= 1;
                if alarms_left == 0 {
                    engine.most_operations = engine.operations + GRACE;
                }
                None
            }
        };
        let Some(thread) = next else { continue };
        engine.current = thread;
        let state = engine.me();
        state.token = state.token.wrapping_add(1);
        state.event_at = None;
        if state.doing == Doing::Missing {
            state.doing = Doing::Running;
        }
        if engine.increments() && coroutines.resume(thread as usize) {
            self::engine().ends(thread);
            left -= 1;
        }
    }
    Ok(())
}
