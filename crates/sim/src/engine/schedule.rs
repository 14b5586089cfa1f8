//! The operating system's part: which thread has which CPU.
//!
//! A CPU that several threads want gives each a slice. A thread that sleeps leaves its CPU; a CPU without a thread
//! takes one that waits elsewhere, where the machine file allows that.

use super::events::{Event, Kind, Timer};
use super::range::Range;
use super::spin::Patience;
use super::{compute, engine, pass, settle, Doing, Engine, Load, Thread, NOBODY};
use crate::coroutines::leave;
use crate::machine::Ps;
use lockswap_platform::patience::{LONGEST_NAP, NAP_AFTER, SHORTEST_NAP, SPIN_ROUNDS};
use std::collections::VecDeque;
use std::panic::Location;

pub struct CpuState {
    current: u32,
    queue: VecDeque<u32>,
    /// Since when its thread has it.
    since: Ps,
    /// Changes with its thread.
    token: u32,
    /// The end of its thread's slice, while others wait.
    slice: Timer,
}

impl Default for CpuState {
    fn default() -> Self {
        CpuState { current: NOBODY, queue: VecDeque::new(), since: 0, token: 0, slice: Timer::default() }
    }
}

impl Engine {
    pub(super) fn add_thread(&mut self, number: usize) {
        let order = &self.machine.order;
        let cpu = order[number % order.len()];
        self.threads.push(Thread {
            doing: Doing::Running,
            cpu,
            core: self.machine.cpus[cpu as usize].core,
            kind: self.machine.cpus[cpu as usize].kind,
            on_cpu: false,
            token: 0,
            event_at: None,
            deadline: Timer::default(),
            not_before: 0,
            used: 0,
            remaining: None,
            busy_until: None,
            ready: true,
            load: Load::None,
            stores: VecDeque::new(),
            last_commit: 0,
            draining: false,
            in_condition: false,
            wrote: false,
            yielded: false,
            watched: Vec::new(),
            timed_out: false,
            served: 0,
            interruptions: 0,
            asked: 0,
            ahead: super::overlap::Ahead::default(),
            habits: super::overlap::Habits::default(),
            place: None,
            patience: Patience::default(),
            range: Range::default(),
        });
        self.give(number as u32, cpu, 0);
    }

    /// Gives `cpu` to the thread, or a place in its queue.
    fn give(&mut self, thread: u32, cpu: u32, switch: Ps) {
        let state = &mut self.threads[thread as usize];
        state.cpu = cpu;
        state.core = self.machine.cpus[cpu as usize].core;
        state.kind = self.machine.cpus[cpu as usize].kind;
        if self.cpus[cpu as usize].current == NOBODY {
            self.switch_in(thread, cpu, switch);
            return;
        }
        self.cpus[cpu as usize].queue.push_back(thread);
        self.queued += 1;
        if self.cpus[cpu as usize].queue.len() == 1 {
            self.announce_end_of_slice(cpu);
        }
    }

    /// The slice of the CPU's thread ends when it has had all of it.
    fn announce_end_of_slice(&mut self, cpu: u32) {
        let used = self.threads[self.cpus[cpu as usize].current as usize].used;
        self.announce_slice(cpu, self.machine.costs.slice.saturating_sub(used));
    }

    /// The slice of the CPU's thread ends when it has had the CPU for `length`.
    fn announce_slice(&mut self, cpu: u32, length: Ps) {
        let state = &mut self.cpus[cpu as usize];
        let at = (state.since + length).max(self.now);
        if !state.slice.is_over_by(at, state.token) {
            self.events.start(&mut state.slice, at, Kind::Cpu, cpu, state.token);
        }
    }

    fn switch_in(&mut self, thread: u32, cpu: u32, switch: Ps) {
        let at = self.now + switch;
        let state = &mut self.cpus[cpu as usize];
        state.current = thread;
        state.since = at;
        state.token = state.token.wrapping_add(1);
        let others = !state.queue.is_empty();
        let state = &mut self.threads[thread as usize];
        state.on_cpu = true;
        let spins = state.doing == Doing::Watching && !state.ready;
        let event = match state.remaining.take() {
            Some(remaining) => Some(state.busy_until.map_or(at + remaining, |until| until.max(at))),
            None => state.ready.then_some(at),
        };
        state.ready = false;
        if let Some(at) = event {
            self.wake(thread, at);
        }
        self.set_load(thread as usize, if spins { Load::Spinning } else { Load::Busy });
        if others {
            self.announce_end_of_slice(cpu);
        }
    }

    /// Takes the CPU from a thread.
    fn switch_out(&mut self, thread: u32) -> u32 {
        self.set_load(thread as usize, Load::None);
        if let Some(at) = self.ends_alone(thread) {
            self.threads[thread as usize].event_at = Some(at);
        }
        let now = self.now;
        let state = &mut self.threads[thread as usize];
        state.on_cpu = false;
        state.interruptions += 1;
        if let Some(at) = state.event_at.take() {
            state.remaining = Some(at.saturating_sub(now));
            state.token = state.token.wrapping_add(1);
        }
        let cpu = state.cpu;
        state.used += now.saturating_sub(self.cpus[cpu as usize].since);
        let state = &mut self.cpus[cpu as usize];
        state.current = NOBODY;
        state.token = state.token.wrapping_add(1);
        cpu
    }

    /// The thread that has `cpu`, or nobody.
    pub(super) fn thread_on(&self, cpu: u32) -> u32 {
        self.cpus[cpu as usize].current
    }

    /// Takes its CPU from a thread that has one, and gives it back after `time`.
    pub(super) fn interrupt(&mut self, thread: u32, time: Ps) {
        let cpu = self.switch_out(thread);
        self.switch_in(thread, cpu, time);
    }

    /// A CPU without a thread takes the next one.
    fn next_thread(&mut self, cpu: u32) {
        let switch = self.machine.costs.switch;
        if let Some(thread) = self.cpus[cpu as usize].queue.pop_front() {
            self.queued -= 1;
            self.switch_in(thread, cpu, switch);
        } else if self.queued > 0 && self.machine.costs.migrate {
            let longest = (0..self.cpus.len()).max_by_key(|other| (self.cpus[*other].queue.len(), usize::MAX - *other));
            let Some(longest) = longest else { return };
            let Some(thread) = self.cpus[longest].queue.pop_front() else { return };
            self.queued -= 1;
            self.give(thread, cpu, switch);
        }
    }

    /// An event of a thread has come: the thread, if it is to go on now.
    pub(super) fn goes_on(&mut self, thread: u32, token: u32) -> Option<u32> {
        let state = &mut self.threads[thread as usize];
        if state.token != token {
            return None;
        }
        if !state.on_cpu {
            state.ready = true;
            return None;
        }
        Some(thread)
    }

    /// The event of a watching thread's deadline has come: the thread, if it is to go on now.
    pub(super) fn deadline_comes(&mut self, event: &Event) -> Option<u32> {
        let state = &mut self.threads[event.id as usize];
        let token = state.token;
        if self.events.is_over(&mut state.deadline, event, token) {
            self.goes_on(event.id, token)
        } else {
            None
        }
    }

    /// The event of the end of a slice has come.
    pub(super) fn slice_ends(&mut self, event: &Event) {
        let cpu = event.id;
        let state = &mut self.cpus[cpu as usize];
        let is_over = self.events.is_over(&mut state.slice, event, state.token);
        if !is_over || state.queue.is_empty() || state.current == NOBODY {
            return;
        }
        let thread = state.current;
        self.switch_out(thread);
        self.threads[thread as usize].used = 0;
        self.cpus[cpu as usize].queue.push_back(thread);
        self.queued += 1;
        self.next_thread(cpu);
    }

    /// A thread has ended.
    pub(super) fn ends(&mut self, thread: u32) {
        self.threads[thread as usize].doing = Doing::Done;
        if self.threads[thread as usize].on_cpu {
            let cpu = self.switch_out(thread);
            self.next_thread(cpu);
        } else {
            self.leaves_queue(thread);
        }
        self.threads[thread as usize].event_at = None;
    }

    /// A thread that waits for a CPU needs none: its slice ended during its last access.
    fn leaves_queue(&mut self, thread: u32) {
        let queue = &mut self.cpus[self.threads[thread as usize].cpu as usize].queue;
        let before = queue.len();
        queue.retain(|queued| *queued != thread);
        self.queued -= before - queue.len();
    }

    /// A sleeping thread is to run again.
    pub(super) fn wakes_up(&mut self, thread: u32, token: u32) {
        let state = &mut self.threads[thread as usize];
        if state.token != token {
            return;
        }
        state.token = state.token.wrapping_add(1);
        if let Doing::Parked(address) = state.doing {
            // Nobody has woken it: its time is over.
            state.timed_out = true;
            if let Some(queue) = self.sleepers.get_mut(&address) {
                queue.retain(|sleeper| *sleeper != thread);
                if queue.is_empty() {
                    self.sleepers.remove(&address);
                }
            }
        }
        let state = &mut self.threads[thread as usize];
        state.doing = Doing::Running;
        state.ready = true;
        state.used = 0;
        let last = state.cpu;
        let cpu = self.choose_cpu(last);
        self.give(thread, cpu, self.machine.costs.switch);
        let state = &self.cpus[cpu as usize];
        if state.current != thread && state.current != NOBODY {
            // It goes before those that wait already, and preempts a thread that has run for long.
            let granularity = self.machine.costs.wakeup_granularity;
            let queue = &mut self.cpus[cpu as usize].queue;
            queue.pop_back();
            queue.push_front(thread);
            self.announce_slice(cpu, granularity);
        }
    }

    /// The CPU on which a thread wakes that ran on `last`: that one, or the nearest idle one.
    fn choose_cpu(&self, last: u32) -> u32 {
        if self.cpus[last as usize].current == NOBODY || !self.machine.costs.migrate {
            return last;
        }
        let here = self.machine.cpus[last as usize];
        let distance = |cpu: &u32| self.machine.distance(here.core, self.machine.cpus[*cpu as usize].core);
        let idle = (0..self.cpus.len() as u32).filter(|cpu| self.cpus[*cpu as usize].current == NOBODY);
        idle.min_by_key(distance).unwrap_or(last)
    }

    /// Takes the CPU from the current thread, which sleeps.
    fn falls_asleep(&mut self) {
        let thread = self.current;
        if self.threads[thread as usize].on_cpu {
            let cpu = self.switch_out(thread);
            self.next_thread(cpu);
        } else {
            self.leaves_queue(thread);
        }
    }
}

/// The wait goes on as [`lockswap_platform::Native`]'s do ([`lockswap_platform::patience`]). Returns the end of the
/// stage, or nothing if the thread has left its CPU and is back.
pub(super) fn patience(limit: Option<Ps>) -> Option<Ps> {
    let engine = engine();
    let costs = &engine.machine.costs;
    let (pause, now) = (costs.pause, engine.now);
    let patience = engine.me().patience;
    let spins_until = patience.since + Ps::from(SPIN_ROUNDS) * pause;
    let yields_until = spins_until + NAP_AFTER * 1000;
    if now < spins_until {
        return Some(spins_until);
    }
    if now < yields_until {
        let cpu = engine.me().cpu as usize;
        if engine.cpus[cpu].queue.is_empty() {
            return Some(yields_until);
        }
        yield_cpu();
        return None;
    }
    let nap = if patience.nap == 0 { SHORTEST_NAP * 1000 } else { (patience.nap * 2).min(LONGEST_NAP * 1000) };
    engine.me().patience.nap = nap;
    let end = limit.map_or(nap, |limit| nap.min(limit.saturating_sub(now)));
    sleep(end);
    None
}

/// Lets the next thread run on the current CPU, and returns whether there was one.
pub fn yield_cpu() -> bool {
    let engine = engine();
    engine.me().yielded = true;
    let cost = engine.machine.costs.yield_;
    pass(cost);
    let engine = self::engine();
    let thread = engine.current;
    let cpu = engine.me().cpu;
    if engine.cpus[cpu as usize].queue.is_empty() {
        return false;
    }
    engine.switch_out(thread);
    engine.threads[thread as usize].ready = true;
    engine.cpus[cpu as usize].queue.push_back(thread);
    engine.queued += 1;
    engine.next_thread(cpu);
    leave();
    true
}

/// Leaves the CPU for about `time`.
pub fn sleep(time: Ps) {
    settle();
    let engine = engine();
    let at = engine.now + time + engine.machine.costs.timer_slack;
    let thread = engine.current;
    let token = engine.me().token;
    engine.me().doing = Doing::Sleeping;
    engine.events.push(at, Kind::Wake, thread, token);
    engine.falls_asleep();
    leave();
}

/// Sleeps until [`unpark`] with the same address, or `until`; whether that came first. `may_sleep` is asked when all
/// that comes before has happened.
pub fn park(
    address: usize,
    until: Option<Ps>,
    place: &'static Location<'static>,
    may_sleep: impl FnOnce() -> bool,
) -> Option<bool> {
    // The kernel looks half-way through the call.
    let cost = engine().machine.costs.park / 2;
    compute(cost);
    if !may_sleep() {
        compute(cost);
        return None;
    }
    let engine = engine();
    let thread = engine.current;
    let now = engine.now;
    engine.sleepers.entry(address).or_default().push_back(thread);
    let slack = engine.machine.costs.timer_slack;
    let state = engine.me();
    state.doing = Doing::Parked(address);
    state.place = Some(place);
    state.timed_out = false;
    let token = state.token;
    if let Some(until) = until {
        engine.events.push(until.max(now) + slack, Kind::Wake, thread, token);
    }
    engine.falls_asleep();
    leave();
    compute(cost);
    Some(self::engine().me().timed_out)
}

/// Wakes up to `n` threads parked on `address`, the longest first; how many.
pub fn unpark(address: usize, n: u32) -> u32 {
    settle();
    let engine = engine();
    // Who finds nobody to wake only makes a system call, as one does who finds that it need not sleep.
    let costs = &engine.machine.costs;
    let cost = if engine.sleepers.contains_key(&address) { costs.unpark } else { costs.park };
    compute(cost);
    let engine = self::engine();
    let Some(queue) = engine.sleepers.get_mut(&address) else { return 0 };
    let woken: Vec<u32> = queue.drain(..(n as usize).min(queue.len())).collect();
    if queue.is_empty() {
        engine.sleepers.remove(&address);
    }
    let at = engine.now + engine.machine.costs.wake;
    for thread in &woken {
        let state = &mut engine.threads[*thread as usize];
        state.doing = Doing::Sleeping;
        state.token = state.token.wrapping_add(1);
        let token = state.token;
        engine.events.push(at, Kind::Wake, *thread, token);
    }
    woken.len() as u32
}
