//! Gathers what the records say, in bounded memory.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use lockswap_machine::topology::Group;
use lockswap_records::trace::{Event, Kind, Use, BEFORE_WAIT};

use crate::object::{Object, Waiting};
use crate::orders::{Order, Orders};
use crate::process::{Place, Processes};
use crate::stacks::{StackId, Stacks};
use crate::threads::{ThreadId, Threads};

/// Objects that are told apart; what comes after is summed up for each use.
const MOST_OBJECTS: usize = 100_000;

/// Stack records of a thread that wait for their event.
const MOST_PENDING: usize = 4;

/// Events that are kept for a time line.
const MOST_SPANS: usize = 200_000;

/// An object, told from others: its process, its address there, where it was initialised, and its use.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Key {
    process: u32,
    object: u64,
    birth: u64,
    /// How it is used.
    pub used: Use,
}

impl Key {
    /// The object at this address of a process, which was initialised there.
    #[cfg(test)]
    pub fn new(process: u32, object: u64, birth: u64, used: Use) -> Self {
        Self { process, object, birth, used }
    }

    /// Its address in its process.
    pub fn object(&self) -> u64 {
        self.object
    }

    /// The object as a whole: the same for both uses of a rwlock.
    pub fn whole(&self) -> Self {
        Self { used: if self.used == Use::Read { Use::Write } else { self.used }, ..*self }
    }

    /// All objects of this use for which there was no room.
    fn others(used: Use) -> Self {
        Self { process: 0, object: 0, birth: 0, used }
    }

    /// Whether it stands for objects that are not told apart.
    pub fn is_rest(&self) -> bool {
        self.process == 0
    }
}

/// A wait or a hold on a time line.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Whose.
    pub thread: ThreadId,
    /// Of what.
    pub key: Key,
    /// Whether the thread waited, or held.
    pub is_wait: bool,
    /// Since when, ns.
    pub begin: u64,
    /// How long, ns.
    pub length: u64,
    /// Where in the program.
    pub stack: StackId,
}

/// What is not in the objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Waits that were noted.
    pub waits: u64,
    /// Holds that were noted.
    pub holds: u64,
    /// Stacks that were noted.
    pub stacks: u64,
    /// Events of objects that were not told apart.
    pub rest: u64,
    /// Events that the time line has not.
    pub spans_left_out: u64,
    /// When the first event began and the last one ended, ns.
    pub first: Option<u64>,
    /// See above.
    pub last: u64,
}

/// A stack record whose event has not come yet.
struct Pending {
    number: u64,
    /// What its thread waits for, if it does.
    key: Option<Key>,
    stack: StackId,
}

/// Everything that was seen.
pub struct Gathered {
    /// The processes and the files in them.
    pub processes: Processes,
    /// The threads.
    pub threads: Threads,
    /// The stacks.
    pub stacks: Stacks,
    /// The objects.
    pub objects: HashMap<Key, Object>,
    /// In which order threads acquire them.
    pub orders: Orders,
    /// What is kept for a time line.
    pub spans: Vec<Span>,
    /// What is not in the objects.
    pub counts: Counts,
    keeps_spans: bool,
    /// Where the object that lies at an address of a process was initialised last, which the library forgets in time,
    /// and the stack of that.
    births: HashMap<(u32, u64), (u64, StackId)>,
    /// A stack for each place in the program at which objects were initialised; none where they had different callers.
    callers: HashMap<Place, StackId>,
    pending: HashMap<(u32, u32), VecDeque<Pending>>,
    /// The NUMA node of each CPU.
    nodes: Vec<Option<usize>>,
}

impl Gathered {
    /// Nothing yet. `keeps_spans`: events are kept for a time line.
    pub fn new(keeps_spans: bool) -> Self {
        Self {
            processes: Processes::default(),
            threads: Threads::default(),
            stacks: Stacks::default(),
            objects: HashMap::new(),
            orders: Orders::default(),
            spans: Vec::new(),
            counts: Counts::default(),
            keeps_spans,
            births: HashMap::new(),
            callers: HashMap::new(),
            pending: HashMap::new(),
            nodes: nodes(),
        }
    }

    /// Takes a record; `stack` is the copied stack of a [`Kind::Stack`].
    pub fn take(&mut self, kind: Kind, event: &Event, stack: &[u64]) {
        match kind {
            Kind::Padding => {}
            Kind::Stack => self.stack(event, stack),
            Kind::Wait => self.wait(event),
            Kind::Hold => self.hold(event),
            Kind::Order => self.order(event),
            Kind::Birth => self.birth(event),
        }
    }

    fn key(&mut self, event: &Event) -> Key {
        let used = use_of(event.used);
        let (place, mut birth) = ((event.process, event.object), event.birth);
        match birth {
            0 => birth = self.births.get(&place).map(|(birth, _)| *birth).unwrap_or_default(),
            _ if self.births.get(&place).is_none_or(|(known, _)| *known != birth) => {
                self.put_birth(place, birth, StackId::NONE);
            }
            _ => {}
        }
        Key { process: event.process, object: event.object, birth, used }
    }

    fn put_birth(&mut self, place: (u32, u64), birth: u64, stack: StackId) {
        if self.births.len() < MOST_OBJECTS || self.births.contains_key(&place) {
            self.births.insert(place, (birth, stack));
        }
    }

    fn birth(&mut self, event: &Event) {
        let thread = self.threads.number(event.process, event.thread);
        let stack = self.begun(event, thread).stack;
        self.put_birth((event.process, event.object), event.birth, stack);
        if let [site, caller, ..] = *self.stacks.frames(stack) {
            let known = *self.callers.entry(site).or_insert(stack);
            if self.stacks.frames(known).get(1).is_some_and(|other| *other != caller) {
                self.callers.insert(site, StackId::NONE);
            }
        }
    }

    /// The stack of the call that initialised an object there; where that was not noted, one like those that were, if
    /// they had the same caller.
    fn birth_stack(&self, key: &Key, site: Place) -> StackId {
        match self.births.get(&(key.process, key.object)) {
            Some((birth, stack)) if *birth == key.birth && *stack != StackId::NONE => *stack,
            _ => self.callers.get(&site).copied().unwrap_or_default(),
        }
    }

    fn stack(&mut self, event: &Event, copied: &[u64]) {
        self.counts.stacks += 1;
        let frames = self.processes.unwind(event, copied);
        let stack = self.stacks.number(frames);
        let thread = self.threads.number(event.process, event.thread);
        let number = event.stack;
        let mut key = None;
        if event.flags & BEFORE_WAIT != 0 {
            let Event { begin, weight, .. } = *event;
            let (of, object) = self.object(event);
            object.begin_wait(Waiting { number, thread, begin, weight, stack, seen: Instant::now() });
            key = Some(of);
        }
        let pending = self.pending.entry((event.process, event.thread)).or_default();
        pending.push_back(Pending { number, key, stack });
        if pending.len() > MOST_PENDING {
            self.drop_oldest(event);
        }
    }

    /// What no event referred to for so long was lost.
    fn drop_oldest(&mut self, event: &Event) {
        let pending = self.pending.get_mut(&(event.process, event.thread));
        if let Some(lost) = pending.and_then(VecDeque::pop_front) {
            self.end_wait(&lost);
        }
    }

    fn end_wait(&mut self, pending: &Pending) {
        let object = pending.key.as_ref().and_then(|key| self.objects.get_mut(key));
        object.and_then(|object| object.take_waiting(pending.number));
    }

    /// The stack of an event, and what is known of it since its stack was copied.
    fn begun(&mut self, event: &Event, thread: ThreadId) -> Waiting {
        let own = self.pending.get_mut(&(event.process, event.thread));
        let found = own.and_then(|pending| {
            let index = pending.iter().position(|pending| pending.number == event.stack)?;
            pending.remove(index)
        });
        let stack = found.as_ref().map_or(StackId::NONE, |found| found.stack);
        if let Some(found) = found {
            self.end_wait(&found);
        }
        let Event { stack: number, begin, weight, .. } = *event;
        Waiting { number, thread, begin, weight, stack, seen: Instant::now() }
    }

    fn wait(&mut self, event: &Event) {
        self.counts.waits += 1;
        let thread = self.threads.number(event.process, event.thread);
        let begun = self.begun(event, thread);
        let node = |cpu: u16| self.nodes.get(usize::from(cpu)).copied().flatten();
        let same_node = node(event.cpu) == node(event.other_cpu);
        let (key, object) = self.object(event);
        object.wait(event, begun, same_node);
        self.keep(
            event,
            Span { thread, key, is_wait: true, begin: event.begin, length: event.length, stack: begun.stack },
        );
    }

    fn hold(&mut self, event: &Event) {
        self.counts.holds += 1;
        let thread = self.threads.number(event.process, event.thread);
        let stack = self.begun(event, thread).stack;
        let (key, object) = self.object(event);
        object.hold(event, thread, stack);
        self.keep(event, Span { thread, key, is_wait: false, begin: event.begin, length: event.length, stack });
    }

    fn order(&mut self, event: &Event) {
        let thread = self.threads.number(event.process, event.thread);
        let stack = self.begun(event, thread).stack;
        let (wanted, _) = self.object(event);
        let held = Event { object: event.charged, birth: event.handed, used: event.held_used, ..*event };
        let (held, _) = self.object(&held);
        if !held.is_rest() && !wanted.is_rest() {
            self.orders.take(Order { held, wanted, thread, stack });
        }
    }

    fn keep(&mut self, event: &Event, span: Span) {
        let counts = &mut self.counts;
        counts.first = Some(counts.first.map_or(event.begin, |first| first.min(event.begin)));
        counts.last = counts.last.max(event.begin + event.length);
        self.threads.note(span.thread, event.begin, event.length);
        if !self.keeps_spans || span.length == 0 {
            return;
        }
        if self.spans.len() < MOST_SPANS {
            self.spans.push(span);
        } else {
            counts.spans_left_out += 1;
        }
    }

    /// The object of an event, or the one that stands for all that there is no room for.
    fn object(&mut self, event: &Event) -> (Key, &mut Object) {
        let key = self.key(event);
        let is_new = !self.objects.contains_key(&key);
        if is_new && self.objects.len() >= MOST_OBJECTS {
            self.counts.rest += 1;
            let key = Key::others(key.used);
            return (key, self.objects.entry(key).or_default());
        }
        if is_new {
            let place = self.processes.place(key.process, key.object);
            // It is where the call returned to: what counts is the call.
            let birth = (key.birth != 0).then(|| self.processes.place(key.process, key.birth - 1));
            let mut object = Object::new(place, birth);
            object.birth_stack = birth.map_or(StackId::NONE, |site| self.birth_stack(&key, site));
            self.objects.insert(key, object);
        }
        (key, self.objects.entry(key).or_default())
    }

    /// The waits that have not ended: the objects, and who waits for them.
    pub fn still_waiting(&self) -> impl Iterator<Item = (&Key, &Object, &Waiting)> {
        let all = self.objects.iter().flat_map(|(key, object)| object.waiting.iter().map(move |w| (key, object, w)));
        all.filter(|(_, _, waiting)| self.threads.still_does(waiting))
    }
}

/// The use with this number.
fn use_of(number: u8) -> Use {
    Use::ALL[usize::from(number).min(Use::ALL.len() - 1)]
}

/// The NUMA node of each CPU; none where the machine does not say.
fn nodes() -> Vec<Option<usize>> {
    let folder = lockswap_machine::open(&lockswap_machine::root());
    let topology = folder.map(|folder| lockswap_machine::read(&folder, None)).ok();
    let node = |cpu| topology.as_ref().and_then(|topology| topology.group(Group::Node, cpu));
    (0..lockswap_platform::MAX_CPUS).map(node).collect()
}
