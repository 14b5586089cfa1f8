//! What will happen: a heap ordered by time, then by the order of announcement.

use crate::machine::Ps;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A thread that has a CPU goes on.
    Thread,
    /// A line may serve its next request.
    Line,
    /// A slice ends.
    Cpu,
    /// A thread that sleeps becomes runnable.
    Wake,
    /// Somebody outside wants to know that the time has come.
    Alarm,
}

/// An event that has come.
pub struct Event {
    pub at: Ps,
    pub kind: Kind,
    pub id: u32,
    /// The event is void if the thread's or CPU's token is another one by then.
    pub token: u32,
}

/// An event as the heap orders it: one comparison.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    /// The time, then the number of the announcement.
    key: u128,
    kind: Kind,
    id: u32,
    token: u32,
}

#[derive(Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<Entry>>,
    number: u64,
    /// The time of the next event.
    pub next_at: Ps,
}

impl Events {
    pub fn new() -> Self {
        Events { next_at: Ps::MAX, ..Self::default() }
    }

    #[inline]
    pub fn push(&mut self, at: Ps, kind: Kind, id: u32, token: u32) {
        self.number += 1;
        self.next_at = self.next_at.min(at);
        self.heap.push(Reverse(Entry { key: u128::from(at) << 64 | u128::from(self.number), kind, id, token }));
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        let Reverse(Entry { key, kind, id, token }) = self.heap.pop()?;
        self.next_at = self.heap.peek().map_or(Ps::MAX, |next| (next.0.key >> 64) as Ps);
        Some(Event { at: (key >> 64) as Ps, kind, id, token })
    }
}
