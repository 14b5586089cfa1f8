//! The search without a bound: one execution, at least, out of all those that differ in the order of independent steps
//! only.
//!
//! Source sets with sleep sets (Abdulla, Aronis, Jonsson, Sagonas: POPL 2014). After each step the search looks for
//! races: an earlier step of another thread that touches the same place, and that nothing between has put before this
//! one. Where the two might come the other way round, a thread that leads there is noted as another choice before the
//! earlier step.
//!
//! What that takes, in the words of the paper:
//! - *Happens-before.* Two steps are ordered if they are one thread's, if they touch a place that one of them writes,
//!   or if one wakes up the other's thread. A comparison that fails only reads.
//! - *Waiting.* A thread whose condition does not hold has read its words, and its next step reads all of them again:
//!   so that it is ordered with whoever changes one, and with whoever changes another one. It is enabled by the first
//!   change, and stays so; a race with a change that is the only one to enable it has no other way round.
//! - *Time-outs* and the like happen where no thread is enabled. All steps before are ordered before them.
//! - *Choices* other than that of a thread ([`decide`](Reduced::decide)) are part of the step: all are taken. That
//!   there is a bound on the rare ones for all threads together forbids a second rare one only, whatever the order.

use super::bounded::number_of_option;
use super::execution::Thread;
use super::footprint::{Before, Place, Sleeper, Touch};

const THREADS: usize = super::execution::MOST_THREADS;
const NOTHING: u32 = u32::MAX;

/// For each thread the number of its steps that are ordered before.
type Clock = [u16; THREADS];

/// A choice of a thread. What follows from here on depends on the choices up to here alone.
struct Node {
    /// The thread that has run before this.
    current: usize,
    enabled: u16,
    taken: usize,
    /// Threads to be chosen here: those that have been, and those that a race asks for.
    wanted: u16,
    done: u16,
    /// Threads that need not be chosen here.
    asleep: Vec<Sleeper>,
    /// The step of the thread that is taken, as far as seen.
    step: Sleeper,
    /// Other choices within the step: the one taken, out of how many.
    decisions: Vec<(u16, u16)>,
}

impl Node {
    fn sleepers(&self) -> u16 {
        self.asleep.iter().fold(0, |all, sleeper| all | 1 << sleeper.thread)
    }
}

/// A step of the present execution; the i-th one follows the i-th choice.
struct Step {
    thread: usize,
    /// Its number among its thread's, from 1.
    number: u16,
    clock: Clock,
    touches: usize,
    /// What enabled its thread, each one alone; nothing: it was enabled anyway.
    enabled_by: Option<Vec<u32>>,
    /// The step that woke up its thread.
    woken_by: Option<u32>,
    /// What it has taken away.
    gone: Vec<(Place, Place)>,
}

/// Who has touched a place last.
struct Log {
    place: Place,
    write: u32,
    /// Reads since then, by thread.
    reads: [u32; THREADS],
}

pub struct Reduced {
    nodes: Vec<Node>,
    /// Nodes for further use.
    spare: Vec<Node>,
    steps: Vec<Step>,
    touches: Vec<Touch>,
    logs: Vec<Log>,
    /// The last step of each thread.
    last: [u32; THREADS],
    counts: Clock,
    /// The thread of the step that goes on, before it.
    before: Before,
    is_open: bool,
    decision: usize,
    /// Steps before this one are those of the last execution.
    new_from: usize,
    stack: usize,
    /// Threads that take part.
    threads: usize,
    /// See [`order`](Reduced::order).
    rivals: Vec<u32>,
    others: Vec<u32>,
}

impl Reduced {
    /// A search of a scenario whose stack lies below `stack`.
    pub fn new(stack: usize) -> Self {
        Reduced {
            nodes: Vec::new(),
            spare: Vec::new(),
            steps: Vec::new(),
            touches: Vec::new(),
            logs: Vec::new(),
            last: [NOTHING; THREADS],
            counts: [0; THREADS],
            before: Before::default(),
            is_open: false,
            decision: 0,
            new_from: 0,
            stack,
            threads: 0,
            rivals: Vec::new(),
            others: Vec::new(),
        }
    }

    pub fn restart(&mut self) {
        self.steps.clear();
        self.touches.clear();
        self.counts = [0; THREADS];
        self.is_open = false;
        self.forget_order();
    }

    /// All that follows comes after all that was.
    fn forget_order(&mut self) {
        self.logs.clear();
        self.last = [NOTHING; THREADS];
    }

    /// The present step.
    pub fn now(&self) -> u32 {
        self.steps.len() as u32 - 1
    }

    /// The present step touches `place`.
    pub fn touch(&mut self, place: Place, writes: bool) {
        let first = self.steps.last().map_or(0, |step| step.touches);
        match self.touches[first..].iter_mut().find(|touch| touch.place == place) {
            Some(touch) => touch.writes |= writes,
            None => self.touches.push(Touch { place, writes }),
        }
    }

    /// The present step takes memory away: that touches every word in it.
    pub fn takes_away(&mut self, start: Place, end: Place) {
        let words: Vec<Place> =
            self.logs.iter().map(|log| log.place).filter(|place| (start..end).contains(place)).collect();
        words.into_iter().for_each(|word| self.touch(word, true));
        if let Some(step) = self.steps.last_mut() {
            step.gone.push((start, end));
        }
    }

    /// The thread of the present step waited until one of these steps came.
    pub fn enabled_by(&mut self, steps: Vec<u32>) {
        if let Some(step) = self.steps.last_mut() {
            step.enabled_by = Some(steps);
        }
    }

    /// The thread of the present step slept until this one.
    pub fn woken_by(&mut self, waker: u32) {
        if let Some(step) = self.steps.last_mut() {
            step.woken_by = Some(waker);
        }
    }

    /// One of `options` alternatives within the present step.
    pub fn decide(&mut self, options: usize) -> usize {
        let node = &mut self.nodes[self.steps.len() - 1];
        if self.decision == node.decisions.len() {
            node.decisions.push((0, options as u16));
        }
        let (taken, known) = node.decisions[self.decision];
        assert_eq!(known as usize, options, "the scenario is not deterministic");
        self.decision += 1;
        taken as usize
    }

    /// The thread that runs next, out of the set `enabled`; nothing if all that follows has been seen.
    pub fn choose(&mut self, enabled: u16, current: usize, threads: &[Thread]) -> Option<usize> {
        let index = self.steps.len();
        if index < self.nodes.len() {
            assert_eq!(self.nodes[index].enabled, enabled, "the scenario is not deterministic");
        } else {
            let mut node = self.new_node(enabled, current);
            if let Some(before) = index.checked_sub(1) {
                let step = &self.steps[before];
                let touches = &self.touches[step.touches..];
                let goes_on = |sleeper: &&Sleeper| {
                    enabled >> sleeper.thread & 1 == 1
                        && sleeper.is_independent(&threads[sleeper.thread], touches, &step.gone)
                };
                node.asleep.extend(self.nodes[before].asleep.iter().filter(goes_on));
            }
            let awake = enabled & !node.sleepers();
            if awake == 0 {
                self.spare.push(node);
                return None;
            }
            let goes_on = current < THREADS && awake >> current & 1 == 1;
            node.taken = if goes_on { current } else { awake.trailing_zeros() as usize };
            node.wanted = 1 << node.taken;
            node.step = Sleeper::new(node.taken);
            self.nodes.push(node);
        }
        let taken = self.nodes[index].taken;
        self.open(taken, &threads[taken]);
        Some(taken)
    }

    /// No thread is enabled, and `thread` goes on because of that.
    pub fn rouse(&mut self, thread: usize, current: usize, state: &Thread) {
        let index = self.steps.len();
        if index == self.nodes.len() {
            let mut node = self.new_node(0, current);
            node.taken = thread;
            node.step = Sleeper::new(thread);
            self.nodes.push(node);
        }
        self.forget_order();
        self.open(thread, state);
    }

    /// So many threads start, and all that has been comes before.
    pub fn start(&mut self, threads: usize) {
        self.threads = threads;
        self.forget_order();
    }

    fn new_node(&mut self, enabled: u16, current: usize) -> Node {
        let mut node = self.spare.pop().unwrap_or_else(|| Node {
            current: 0,
            enabled: 0,
            taken: 0,
            wanted: 0,
            done: 0,
            asleep: Vec::new(),
            step: Sleeper::new(0),
            decisions: Vec::new(),
        });
        (node.current, node.enabled, node.wanted, node.done) = (current, enabled, 0, 0);
        node.asleep.clear();
        node.decisions.clear();
        node
    }

    fn open(&mut self, thread: usize, state: &Thread) {
        self.counts[thread] += 1;
        self.steps.push(Step {
            thread,
            number: self.counts[thread],
            clock: [0; THREADS],
            touches: self.touches.len(),
            enabled_by: None,
            woken_by: None,
            gone: Vec::new(),
        });
        self.before.next = state.next;
        self.before.watched.clear();
        self.before.watched.extend(&state.watched);
        self.decision = 0;
        self.is_open = true;
    }

    /// The present step is over, if there is one.
    pub fn close(&mut self) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        let index = self.steps.len() - 1;
        self.order(index);
        if index >= self.new_from {
            let node = &mut self.nodes[index];
            let step = &self.steps[index];
            for touch in &self.touches[step.touches..] {
                node.step.add(*touch, &self.before, self.stack);
            }
            if !step.gone.is_empty() {
                node.step.touches_anything();
            }
            for number in 0..self.rivals.len() {
                let rival = self.rivals[number] as usize;
                if self.is_race(rival, index) {
                    self.reverse(rival, index);
                }
            }
        }
        self.log(index);
    }

    fn is_before(&self, first: usize, second: usize) -> bool {
        let Step { thread, number, .. } = self.steps[first];
        self.steps[second].clock[thread] >= number
    }

    /// Finds what the step is ordered after: `rivals` are steps of other threads that touch the same.
    fn order(&mut self, index: usize) {
        let Step { thread, touches, woken_by, number, .. } = self.steps[index];
        self.rivals.clear();
        for touch in &self.touches[touches..] {
            let Some(log) = self.logs.iter().find(|log| log.place == touch.place) else { continue };
            let reads = if touch.writes { &log.reads[..self.threads] } else { &[] };
            for other in std::iter::once(&log.write).chain(reads) {
                let is_rival = *other != NOTHING && self.steps[*other as usize].thread != thread;
                if is_rival && !self.rivals.contains(other) {
                    self.rivals.push(*other);
                }
            }
        }
        self.others.clear();
        self.others.extend(Some(self.last[thread]).filter(|last| *last != NOTHING));
        self.others.extend(woken_by);
        let mut clock = [0; THREADS];
        for before in self.others.iter().chain(&self.rivals) {
            let theirs = &self.steps[*before as usize].clock;
            clock.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine = u16::max(*mine, *theirs));
        }
        clock[thread] = number;
        self.steps[index].clock = clock;
    }

    /// Whether nothing else puts the rival before the present step.
    fn is_race(&self, rival: usize, index: usize) -> bool {
        debug_assert!(rival < index);
        let is_between = |other: &u32| *other as usize != rival && self.is_before(rival, *other as usize);
        !self.others.contains(&(rival as u32)) && !self.others.iter().chain(&self.rivals).any(is_between)
    }

    fn log(&mut self, index: usize) {
        let Step { thread, touches, .. } = self.steps[index];
        self.last[thread] = index as u32;
        for touch in &self.touches[touches..] {
            let found = self.logs.iter().position(|log| log.place == touch.place).unwrap_or_else(|| {
                self.logs.push(Log { place: touch.place, write: NOTHING, reads: [NOTHING; THREADS] });
                self.logs.len() - 1
            });
            let log = &mut self.logs[found];
            if touch.writes {
                log.write = index as u32;
                log.reads = [NOTHING; THREADS];
            } else {
                log.reads[thread] = index as u32;
            }
        }
    }

    /// Sees to it that step `second` is tried before step `first`, if that can be.
    fn reverse(&mut self, first: usize, second: usize) {
        if let Some(enablers) = &self.steps[second].enabled_by {
            let remains = |step: &u32| *step as usize != first && !self.is_before(first, *step as usize);
            if !enablers.iter().any(remains) {
                return;
            }
        }
        // The threads that can be the first to run of what lies between and is not ordered after `first`.
        let mut seen: Clock = [0; THREADS];
        let mut initials = 0u16;
        for index in first + 1..=second {
            if index < second && self.is_before(first, index) {
                continue;
            }
            let step = &self.steps[index];
            if seen[step.thread] != 0 {
                continue;
            }
            let follows = seen.iter().zip(&step.clock).any(|(first, before)| *first != 0 && before >= first);
            if !follows {
                initials |= 1 << step.thread;
            }
            seen[step.thread] = step.number;
        }
        let thread = self.steps[second].thread;
        let node = &mut self.nodes[first];
        if initials & (node.wanted | node.sleepers()) == 0 {
            debug_assert!(initials != 0 && initials & !node.enabled == 0, "only what is enabled can run first");
            node.wanted |= if initials >> thread & 1 == 1 { 1 << thread } else { initials & initials.wrapping_neg() };
        }
    }

    /// Moves on to the next execution; false if there is none.
    pub fn next_execution(&mut self) -> bool {
        while let Some(mut node) = self.nodes.pop() {
            while let Some((taken, options)) = node.decisions.pop() {
                if taken + 1 < options {
                    node.decisions.push((taken + 1, options));
                    self.new_from = self.nodes.len();
                    self.nodes.push(node);
                    return true;
                }
            }
            node.done |= 1 << node.taken;
            node.asleep.push(node.step);
            let left = node.wanted & !node.done & !node.sleepers();
            if left != 0 {
                node.taken = left.trailing_zeros() as usize;
                node.step = Sleeper::new(node.taken);
                self.new_from = self.nodes.len();
                self.nodes.push(node);
                return true;
            }
            self.spare.push(node);
        }
        false
    }

    /// The choices of the last execution, as the bounded search numbers them.
    pub fn choices(&self) -> Vec<u16> {
        let mut choices = Vec::new();
        for node in &self.nodes[..self.steps.len()] {
            choices.extend(number_of_option(node.enabled, node.current, node.taken));
            choices.extend(node.decisions.iter().map(|(taken, _)| *taken));
        }
        choices
    }
}
