//! What a step touches, so that the order of steps that have nothing in common does not matter.
//!
//! A step is what a thread does from one switch to the next: an access, and what follows it up to the next one. It
//! touches places: words, queues of sleepers, and a few that stand for what else threads have in common.

use super::execution::Thread;

/// A place: the address of a word, or one of the following.
pub type Place = usize;
/// The clock: every look moves it on.
pub const CLOCK: Place = 1;
/// Who waits since when, and what scenarios note about each other's threads.
pub const ORDER: Place = 2;
/// The numbers of addresses.
pub const NUMBERS: Place = 3;
/// Whether conditional stores that have begun may still happen.
pub const SETTLING: Place = 4;
/// Nothing that others touch.
pub const NOWHERE: Place = 0;

const QUEUE: usize = 1 << 62;

/// The queue of those that sleep on the word at `address`.
pub const fn queue(address: usize) -> Place {
    address | QUEUE
}

/// A place that a step touches.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Touch {
    pub place: Place,
    pub writes: bool,
}

impl Touch {
    fn conflicts(self, other: Touch) -> bool {
        self.place == other.place && (self.writes || other.writes)
    }
}

/// A place under a name that holds in other executions, too, where the same word may have another address.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name {
    /// What the thread is about to access.
    Next,
    /// The queue of what the thread is about to access.
    NextQueue,
    /// What the condition has read that the thread waits for, by number.
    Watched(u8),
    /// A place that is the same in all executions.
    Fixed(Place),
}

/// Places that a [`Sleeper`] has room for.
const ROOM: usize = 6;

/// A thread that need not be chosen until a step depends on its next one: what follows that one was seen before, from
/// an earlier choice (sleep sets; Godefroid: 1996).
#[derive(Clone, Copy)]
pub struct Sleeper {
    pub thread: usize,
    names: [(Name, bool); ROOM],
    length: usize,
    /// Its step may touch anything.
    anything: bool,
}

impl Sleeper {
    pub fn new(thread: usize) -> Self {
        Sleeper { thread, names: [(Name::Next, false); ROOM], length: 0, anything: false }
    }

    /// Its step may touch what cannot be named.
    pub fn touches_anything(&mut self) {
        self.anything = true;
    }

    /// Its step touches this. `before` is the thread before the step; stack addresses up to `stack` last for all
    /// executions.
    pub fn add(&mut self, touch: Touch, before: &Before, stack: usize) {
        const STACK_BYTES: usize = 1 << 20;
        let place = touch.place;
        let watched = before.watched.iter().position(|watched| *watched == place);
        let is_fixed = place <= SETTLING || (stack - STACK_BYTES..stack).contains(&(place & !QUEUE));
        let name = match watched {
            _ if place == before.next => Name::Next,
            _ if place == queue(before.next) => Name::NextQueue,
            Some(number) if number < 256 => Name::Watched(number as u8),
            _ if is_fixed => Name::Fixed(place),
            _ => return self.touches_anything(),
        };
        if let Some((_, writes)) = self.names[..self.length].iter_mut().find(|(known, _)| *known == name) {
            *writes |= touch.writes;
        } else if self.length == ROOM {
            self.touches_anything();
        } else {
            self.names[self.length] = (name, touch.writes);
            self.length += 1;
        }
    }

    /// Whether its step and one that touches this may come in any order; `thread` is the sleeper as it is now.
    pub fn is_independent(&self, thread: &Thread, step: &[Touch], gone: &[(Place, Place)]) -> bool {
        !self.anything
            && self.names[..self.length].iter().all(|(name, writes)| {
                let place = match name {
                    Name::Next => thread.next,
                    Name::NextQueue => queue(thread.next),
                    Name::Watched(number) => thread.watched[usize::from(*number)],
                    Name::Fixed(place) => *place,
                };
                let mine = Touch { place, writes: *writes };
                !step.iter().any(|theirs| mine.conflicts(*theirs))
                    && !gone.iter().any(|(start, end)| (*start..*end).contains(&place))
            })
    }
}

/// What is known of a thread before its step.
#[derive(Default)]
pub struct Before {
    pub next: Place,
    pub watched: Vec<Place>,
}
