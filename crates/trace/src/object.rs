//! What is known of one object: a mutex, one of the two uses of a rwlock, a condition variable.

use std::collections::VecDeque;
use std::time::Instant;

use lockswap_records::trace::{Event, ENDLESS, FAILED, SLEPT};

use crate::process::Place;
use crate::stacks::StackId;
use crate::sums::{Sums, NOBODY};
use crate::threads::ThreadId;

/// Waits that are remembered after their end: what the holder says that ended them can come later.
const MOST_ENDED: usize = 16;

/// Waits under way that are remembered.
const MOST_WAITING: usize = 4_096;

/// An object.
#[derive(Debug, Default)]
pub struct Object {
    /// Where it lies.
    pub place: Option<Place>,
    /// Where it was initialised, if somebody saw that.
    pub birth: Option<Place>,
    /// The stack of that.
    pub birth_stack: StackId,
    /// The stack of the first that waited for it.
    pub first_wait: StackId,
    /// The stack of the first that released it.
    pub first_release: StackId,
    /// What adds up of its events.
    pub sums: Box<Sums>,
    /// The last holder that was noted, and when it released, ns.
    pub last_holder: Option<(ThreadId, u64)>,
    /// Waits under way.
    pub waiting: Vec<Waiting>,
    ended: VecDeque<(Waiting, u64)>,
}

/// A wait, as its stack began it.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The number of its stack's record.
    pub number: u64,
    /// Who.
    pub thread: ThreadId,
    /// Since when, ns.
    pub begin: u64,
    /// How many waits it stands for.
    pub weight: u32,
    /// Where in the program.
    pub stack: StackId,
    /// When this process read of it.
    pub seen: Instant,
}

impl Object {
    /// An object of which nothing was noted yet.
    pub fn new(place: Place, birth: Option<Place>) -> Self {
        Self { place: Some(place), birth, ..Self::default() }
    }

    /// A thread begins to wait.
    pub fn begin_wait(&mut self, waiting: Waiting) {
        if waiting.weight > 0 && self.waiting.len() < MOST_WAITING {
            self.waiting.push(waiting);
        }
    }

    /// Takes out what began with this record, because an event refers to it, or because its thread does something
    /// else.
    pub fn take_waiting(&mut self, number: u64) -> Option<Waiting> {
        let index = self.waiting.iter().position(|waiting| waiting.number == number)?;
        Some(self.waiting.swap_remove(index))
    }

    /// A thread has waited; `same_node`: whether it went on where the object was released.
    pub fn wait(&mut self, event: &Event, waiting: Waiting, same_node: bool) {
        let weight = f64::from(event.weight);
        let sums = &mut *self.sums;
        sums.used(waiting.thread, event.begin, event.length);
        sums.waits.add(event.length, event.weight);
        sums.failed += if event.flags & FAILED != 0 { weight } else { 0.0 };
        sums.slept += if event.flags & SLEPT != 0 { weight } else { 0.0 };
        let sum = sums.waiter(waiting.stack);
        sum.count += weight;
        sum.waited += weight * event.length as f64;
        if event.other != 0 {
            sums.handed.add(event.handed, event.weight);
            sums.changed_owner += if event.other != event.thread { weight } else { 0.0 };
            sums.changed_cpu += if event.other_cpu != event.cpu { weight } else { 0.0 };
            sums.changed_node += if same_node { 0.0 } else { weight };
        }
        if self.first_wait == StackId::NONE {
            self.first_wait = waiting.stack;
        }
        if self.ended.len() == MOST_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back((waiting, event.begin + event.length));
    }

    /// A thread has released it.
    pub fn hold(&mut self, event: &Event, thread: ThreadId, stack: StackId) {
        let released = event.begin + event.length;
        let (weight, charged) = (f64::from(event.weight), event.charged as f64);
        if self.first_release == StackId::NONE {
            self.first_release = stack;
        }
        let sums = &mut *self.sums;
        sums.used(thread, event.begin, event.length);
        let sum = sums.holder(stack);
        sum.waited += charged;
        if event.weight > 0 && event.flags & ENDLESS == 0 {
            sum.count += weight;
            sum.held += weight * event.length as f64;
            sums.holds.add(event.length, event.weight);
            sums.holder_slept += if event.slept > 0 { weight } else { 0.0 };
            sums.holder_preempted += if event.preempted > 0 { weight } else { 0.0 };
        }
        sums.charged += charged;
        sums.weighted_queue = sums.weighted_queue.max(event.waiters);
        self.last_holder = Some((thread, released));
        if event.charged > 0 {
            self.charge(charged, released, (thread, stack));
        }
    }

    /// Divides what a holder is charged with among those who waited when it released.
    fn charge(&mut self, charged: f64, released: u64, holder: (ThreadId, StackId)) {
        let under_way = self.waiting.iter().filter(|waiting| waiting.begin <= released);
        let ended = self.ended.iter().filter(|(waiting, end)| waiting.begin <= released && released <= *end);
        let waited: Vec<Waiting> = under_way.chain(ended.map(|(waiting, _)| waiting)).copied().collect();
        let weights: f64 = waited.iter().map(|waiting| f64::from(waiting.weight)).sum();
        if weights == 0.0 {
            return self.sums.charge(NOBODY, holder, charged);
        }
        for waiting in waited {
            let share = charged * f64::from(waiting.weight) / weights;
            self.sums.charge((waiting.thread, waiting.stack), holder, share);
        }
    }
}
