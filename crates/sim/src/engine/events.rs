//! What will happen, ordered by time, then by the order of announcement.
//!
//! Most events come soon after they have been announced, so the next ones are kept sorted, where a new one moves few others:
//!
//!   far: a heap of all later ones  >=  near: up to NEAR events, sorted

use crate::machine::Ps;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Events that are kept sorted, at the most; half of them when they have been taken from the heap.
const NEAR: usize = 64;
/// The soonest of them, among which most new ones have their place.
const SOON: usize = 8;

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

/// An event that has been announced; they are ordered by their first two fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    pub at: Ps,
    /// The number of the announcement.
    number: u64,
    pub kind: Kind,
    pub id: u32,
    /// The event is void if the thread's or CPU's token is another one by then.
    pub token: u32,
}

#[derive(Default)]
pub struct Events {
    /// The next one is the last here.
    near: Vec<Event>,
    far: BinaryHeap<Reverse<Event>>,
    number: u64,
    /// The time of the next event.
    pub next_at: Ps,
}

impl Events {
    pub fn new() -> Self {
        Events { near: Vec::with_capacity(NEAR + 1), next_at: Ps::MAX, ..Self::default() }
    }

    #[inline]
    pub fn push(&mut self, at: Ps, kind: Kind, id: u32, token: u32) {
        self.number += 1;
        let event = Event { at, number: self.number, kind, id, token };
        if !self.far.is_empty() && at >= self.near[0].at {
            self.far.push(Reverse(event));
            return;
        }
        let later = self.near.len().saturating_sub(SOON);
        let place = match self.near[later..].iter().rposition(|other| other.at > at) {
            Some(place) => later + place + 1,
            None => self.near[..later].partition_point(|other| other.at > at),
        };
        self.near.insert(place, event);
        self.next_at = self.next_at.min(at);
        if self.near.len() > NEAR {
            self.far.extend(self.near.drain(..NEAR / 2).map(Reverse));
        }
    }

    #[inline]
    pub fn pop(&mut self) -> Option<Event> {
        let event = self.near.pop()?;
        if self.near.is_empty() {
            self.refill();
        }
        self.next_at = self.near.last().map_or(Ps::MAX, |next| next.at);
        Some(event)
    }

    /// Sorts the next events of the heap.
    fn refill(&mut self) {
        let next = std::iter::from_fn(|| self.far.pop()).take(NEAR / 2);
        self.near.extend(next.map(|Reverse(event)| event));
        self.near.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::*;

    #[test]
    fn events_come_by_time_and_those_of_one_time_as_they_were_announced() {
        for (most, spread) in [(5, 10), (100, 10), (100, 1_000_000), (5_000, 100), (5_000, 1_000_000)] {
            let (mut events, mut random, mut now) = (Events::new(), Random::new(1), 0);
            let (mut expected, mut pushed) = (BinaryHeap::new(), 0);
            for round in 0..40_000 {
                // First more and more, then about as many all the time, then fewer and fewer.
                let wanted = if round < 30_000 { most } else { 0 };
                if expected.len() <= random.below(wanted + 1) as usize {
                    let at = now + random.below(spread);
                    events.push(at, Kind::Thread, pushed, 0);
                    expected.push(Reverse((at, pushed)));
                    pushed += 1;
                } else {
                    let Reverse((at, id)) = expected.pop().unwrap();
                    let event = events.pop().unwrap();
                    assert_eq!((event.at, event.id), (at, id));
                    now = at;
                }
                assert_eq!(events.next_at, expected.peek().map_or(Ps::MAX, |next| next.0 .0));
            }
            assert!(pushed > 10_000 && expected.is_empty() && events.pop().is_none());
        }
    }
}
