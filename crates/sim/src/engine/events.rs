//! What will happen, ordered by time, then by the order of announcement.
//!
//! Most events come soon after they have been announced, so the next ones are kept sorted, where a new one moves few
//! others:
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
    /// A thread has waited for as long as it would.
    Deadline,
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

impl Event {
    /// What events are ordered by.
    #[inline]
    fn key(&self) -> (Ps, u64) {
        (self.at, self.number)
    }
}

/// A time that is put off again and again, such as the end of a slice: most of them never come. However often it is
/// put off, few of its events are announced: when one comes before its time, it is announced again for that.
#[derive(Clone, Copy)]
pub struct Timer {
    /// When it is over, as which announcement, and with which token; [`NEVER`] if it does not run.
    due: (Ps, u64),
    token: u32,
    /// Its next event.
    announced: (Ps, u64),
}

const NEVER: (Ps, u64) = (Ps::MAX, 0);

impl Default for Timer {
    fn default() -> Self {
        Timer { due: NEVER, token: 0, announced: NEVER }
    }
}

impl Timer {
    /// Whether it runs with `token` and is over at `at` or before.
    pub fn is_over_by(&self, at: Ps, token: u32) -> bool {
        self.due != NEVER && self.token == token && self.due.0 <= at
    }
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
        // It comes after all others of its time.
        self.insert(Event { at, number: self.number, kind, id, token }, |other| other.at > at);
    }

    /// Starts a timer: it is over at `at`, and no more at the time that it had before.
    pub fn start(&mut self, timer: &mut Timer, at: Ps, kind: Kind, id: u32, token: u32) {
        self.number += 1;
        timer.due = (at, self.number);
        timer.token = token;
        if timer.due < timer.announced {
            timer.announced = timer.due;
            self.announce(Event { at, number: self.number, kind, id, token });
        }
    }

    /// Whether a timer, whose event has come, is over; it counts only if its token is `token`.
    pub fn is_over(&mut self, timer: &mut Timer, event: &Event, token: u32) -> bool {
        if timer.announced != (event.at, event.number) {
            // There was an earlier one.
            return false;
        }
        timer.announced = NEVER;
        if timer.due == NEVER || timer.token != token {
            return false;
        }
        let (at, number) = timer.due;
        if at > event.at {
            timer.announced = timer.due;
            self.announce(Event { at, number, ..*event });
            return false;
        }
        timer.due = NEVER;
        true
    }

    /// Announces an event that may have an older number than others of its time.
    fn announce(&mut self, event: Event) {
        self.insert(event, |other| other.key() > event.key());
    }

    /// Puts an event before those that are later, as `is_later` says.
    #[inline]
    fn insert(&mut self, event: Event, is_later: impl Fn(&Event) -> bool) {
        if !self.far.is_empty() && !is_later(&self.near[0]) {
            self.far.push(Reverse(event));
            return;
        }
        let later = self.near.len().saturating_sub(SOON);
        let place = match self.near[later..].iter().rposition(&is_later) {
            Some(place) => later + place + 1,
            None => self.near[..later].partition_point(&is_later),
        };
        self.near.insert(place, event);
        self.next_at = self.next_at.min(event.at);
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

    #[test]
    fn a_timer_is_over_once_at_the_last_time_that_it_was_given() {
        let (mut events, mut timer, mut random) = (Events::new(), Timer::default(), Random::new(1));
        let (mut now, mut over, mut most) = (0, 0, 0);
        for token in 0..20_000 {
            // Put off, or advanced.
            let at = now + random.below(1000);
            events.start(&mut timer, at, Kind::Cpu, 0, token);
            let mut due = Some(at);
            most = most.max(events.near.len() + events.far.len());
            let until = now + random.below(300);
            while events.next_at <= until {
                let event = events.pop().unwrap();
                now = event.at;
                if events.is_over(&mut timer, &event, token) {
                    assert_eq!(due.take(), Some(now));
                    over += 1;
                }
            }
            assert!(due.is_none_or(|due| due > until), "it is late");
            now = until;
        }
        assert!(over > 1000 && most < 20, "{over} {most}");
        let at = now + 1;
        events.start(&mut timer, at, Kind::Cpu, 0, 7);
        assert!(timer.is_over_by(at, 7) && !timer.is_over_by(at, 8) && !timer.is_over_by(at - 1, 7));
        while let Some(event) = events.pop() {
            assert!(!events.is_over(&mut timer, &event, 8), "the token has changed");
        }
    }
}
