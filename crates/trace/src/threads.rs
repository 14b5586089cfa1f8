//! The threads that were seen, and what they are called.

use std::collections::HashMap;

use crate::object::Waiting;

/// Threads that are told apart; what comes after is one.
const MOST_THREADS: usize = 100_000;

/// The number of a thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ThreadId(u32);

impl ThreadId {
    /// A thread that is not known.
    pub const UNKNOWN: Self = Self(0);
}

/// A thread.
#[derive(Debug, Default)]
pub struct Thread {
    /// Its process.
    pub process: u32,
    /// Its number in the system.
    pub thread: u32,
    /// The name that it gave itself or got.
    pub name: String,
    /// When its last event began, ns.
    pub last: u64,
    /// When its first event began and its last one ended, ns.
    pub span: Option<(u64, u64)>,
    seen: u64,
}

/// All threads.
pub struct Threads {
    all: Vec<Thread>,
    numbers: HashMap<(u32, u32), ThreadId>,
}

impl Default for Threads {
    fn default() -> Self {
        let unknown = Thread { name: "?".into(), ..Thread::default() };
        Self { all: vec![unknown], numbers: HashMap::new() }
    }
}

impl Threads {
    /// The number of a thread that does something now. Its name is read again when it was seen twice as often as the
    /// time before: threads often name themselves after they began.
    pub fn number(&mut self, process: u32, thread: u32) -> ThreadId {
        if thread == 0 {
            return ThreadId::UNKNOWN;
        }
        let full = self.all.len() > MOST_THREADS;
        let number = match self.numbers.get(&(process, thread)) {
            Some(number) => *number,
            None if full => return ThreadId::UNKNOWN,
            None => {
                let number = ThreadId(self.all.len() as u32);
                self.all.push(Thread { process, thread, name: thread.to_string(), ..Thread::default() });
                self.numbers.insert((process, thread), number);
                number
            }
        };
        let known = &mut self.all[number.0 as usize];
        known.seen += 1;
        if known.seen.is_power_of_two() {
            // That of a thread that ended stays as it was.
            if let Ok(name) = std::fs::read(format!("/proc/{process}/task/{thread}/comm")) {
                known.name = String::from_utf8_lossy(&name).trim_end_matches('\n').to_owned();
            }
        }
        number
    }

    /// Notes when an event of a thread began, and how long it took, ns.
    pub fn note(&mut self, number: ThreadId, begin: u64, length: u64) {
        if let Some(thread) = self.all.get_mut(number.0 as usize) {
            thread.last = thread.last.max(begin);
            let (first, end) = thread.span.unwrap_or((begin, begin));
            thread.span = Some((first.min(begin), end.max(begin + length)));
        }
    }

    /// The time of all threads, each from its first event to its last, ns.
    pub fn time(&self) -> u64 {
        self.all.iter().filter_map(|thread| thread.span).map(|(first, end)| end - first).sum()
    }

    /// Whether a wait that has not ended is under way: a thread that has done something since has lost its record.
    pub fn still_does(&self, waiting: &Waiting) -> bool {
        self.get(waiting.thread).last <= waiting.begin
    }

    /// A thread.
    pub fn get(&self, number: ThreadId) -> &Thread {
        self.all.get(number.0 as usize).unwrap_or(&self.all[0])
    }

    /// How many there were.
    pub fn count(&self) -> usize {
        self.all.len() - 1
    }
}
