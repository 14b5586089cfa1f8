//! Phase-fair ticket lock (Brandenburg, Anderson: ECRTS 2009, PF-T), with a way out for waiters whose time is up.
//!
//!   state:    number of readers inside | number of readers that wait | phase | WRITER
//!   tickets:  next writer's number        serving: number of the writer that may announce itself
//!
//!   readers --> [R R R]  writer announced --> [R R R] drain, [w w] wait --> [W] --> [R R] the waiting ones, together
//!
//! Phases of reading and writing alternate while both kinds are there. A reader that comes while a writer is announced
//! waits for the end of that writer's phase, whoever comes after it; a writer waits for the writers before it and one
//! phase of readers before each. Fairness: that, with [`Preference::Writers`]. With [`Preference::Readers`] a waiting
//! reader still waits for one writer at most, but enters beside other readers although a writer waits (a thread that
//! reads must be able to read again), so that writers may starve. Space: 16 bytes. Hand-off: one exchange on `state`,
//! which the readers of the phase and the first writer watch; the other writers watch `serving`.
//!
//! Deviations: PF-T counts arrivals and departures of readers apart and a reader arrives by one fetch-and-add. Here
//! both are in one word, changed by compare-exchange. That makes every moment of the lock a consistent one: a waiter
//! can take itself back, a reader can enter beside others, a child of fork knows who was inside. Arrival is therefore
//! lock-free instead of wait-free. The writers' tickets order who announces itself next, not who is inside; a writer
//! with a deadline draws none and competes with the first in line.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::rw::wait;
use crate::{Preference, RawRwLock};
use lockswap_platform::{AtomicInt, Deadline, Ordering, Platform};

/// | WRITER | readers inside | meaning                                                            |
/// |--------|----------------|--------------------------------------------------------------------|
/// | 0      | 0              | free                                                               |
/// | 0      | n              | readers inside; none waits                                         |
/// | 1      | n              | a writer waits for n readers; new readers wait                     |
/// | 1      | 0              | a writer is inside                                                 |
///
/// The phase changes when WRITER is cleared; by that the waiting readers, who count as inside from then on, know it.
const WRITER: usize = 1;
/// How many announcements may be taken back while readers are inside. Waiting readers tell the phases apart by it: one
/// that is slow to notice its turn is inside all the while, so no writer gets in, and phases end only by taking back.
const TAKEN_BACK: usize = 0x7F << 1;
const ONE_TAKEN_BACK: usize = 1 << 1;
/// Flipped by each writer that was inside, which also forgets what was taken back.
const TURN: usize = 1 << 8;
const PHASE: usize = TURN | TAKEN_BACK;
const WAITING_READER: usize = 1 << 9;
const READER: usize = 1 << 36;
/// Most readers that enter and most that wait; the number inside has one bit more, since those that wait come on top.
const MOST_READERS: usize = (1 << 27) - 1;

const _: () = assert!(usize::BITS == 64);

fn waiting_readers(state: usize) -> usize {
    state / WAITING_READER % (MOST_READERS + 1)
}

fn readers_inside(state: usize) -> usize {
    state / READER
}

fn is_writer_inside(state: usize) -> bool {
    state & WRITER != 0 && readers_inside(state) == 0
}

/// Whether a reader may enter.
fn is_open(state: usize, preference: Preference) -> bool {
    let beside_others = preference == Preference::Readers && readers_inside(state) != 0;
    (state & WRITER == 0 || beside_others) && readers_inside(state) < MOST_READERS
}

/// The state after the announced writer has gone, `phase` being the next one: the readers that wait are inside.
fn open_up(state: usize, phase: usize) -> usize {
    (readers_inside(state) + waiting_readers(state)) * READER + phase
}

/// The lock.
#[repr(C)]
pub struct PhaseFair<P: Platform> {
    state: P::Usize,
    tickets: P::U32,
    serving: P::U32,
}

impl<P: Platform> PhaseFair<P> {
    /// Replaces the state by what `change` makes of it, until that gives nothing. Returns the state replaced.
    #[inline]
    #[track_caller]
    fn update(&self, order: Ordering, change: impl Fn(usize) -> Option<usize>) -> Option<usize> {
        // Relaxed: the exchange decides.
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            match self.state.compare_exchange(state, change(state)?, order) {
                Ok(_) => return Some(state),
                Err(found) => state = found,
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn read_contended(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        // Enters, or counts itself among those that wait; too many of them wait for a place there.
        let arrival = |state: usize| {
            if is_open(state, preference) {
                Some(state + READER)
            } else if state & WRITER != 0 && waiting_readers(state) < MOST_READERS {
                Some(state + WAITING_READER)
            } else {
                None
            }
        };
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`.
        let Some(arrived) = wait::<P, _>(deadline, || self.update(Ordering::Acquire, arrival)) else { return false };
        if is_open(arrived, preference) {
            return true;
        }
        let is_mine = |state: usize| state & PHASE == arrived & PHASE;
        let entered = wait::<P, _>(deadline, || {
            // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`.
            if !is_mine(self.state.load(Ordering::Acquire)) {
                return Some(());
            }
            let beside_others = |state: usize| {
                (is_mine(state) && is_open(state, preference)).then_some(state - WAITING_READER + READER)
            };
            // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`.
            self.update(Ordering::Acquire, beside_others).map(|_| ())
        });
        if entered.is_some() {
            return true;
        }
        // Relaxed: takes nothing; where the phase has ended, the load below acquires.
        let take_back = |state: usize| is_mine(state).then_some(state - WAITING_READER);
        if self.update(Ordering::Relaxed, take_back).is_some() {
            return false;
        }
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`.
        self.state.load(Ordering::Acquire);
        true
    }

    /// Announces a writer if there is none, and returns the state before.
    #[inline]
    fn announce(&self, may: impl Fn(usize) -> bool) -> Option<usize> {
        // ORDER(hand-off): Acquire pairs with the Releases of both unlocks, for a writer that is inside at once.
        self.update(Ordering::Acquire, |state| (state & WRITER == 0 && may(state)).then_some(state | WRITER))
    }

    #[cold]
    #[inline(never)]
    fn write_contended(&self, deadline: Option<Deadline>) -> bool {
        let announced = match deadline {
            None => {
                // Relaxed, like the accesses to `serving`: the tickets order writers and publish nothing; `state`
                // does.
                let mine = self.tickets.fetch_add(1, Ordering::Relaxed);
                P::spin_map(|| (self.serving.load(Ordering::Relaxed) == mine).then_some(()));
                P::spin_map(|| self.announce(|_| true));
                self.serving.store(mine.wrapping_add(1), Ordering::Relaxed);
                true
            }
            // Announcements that can be taken back are limited (see TAKEN_BACK), except where none will have to be.
            Some(deadline) => {
                let may = |state: usize| readers_inside(state) == 0 || state & TAKEN_BACK != TAKEN_BACK;
                P::spin_map_until(deadline, || self.announce(may)).is_some()
            }
        };
        // ORDER(drain): Acquire pairs with the Release in `unlock_read`.
        let drained = || is_writer_inside(self.state.load(Ordering::Acquire)).then_some(());
        announced && (wait::<P, _>(deadline, drained).is_some() || (!self.take_back() && drained().is_some()))
    }

    /// Takes the announcement back, unless this writer is inside by now. Returns whether it did.
    fn take_back(&self) -> bool {
        // Relaxed: readers that enter now synchronise with the last writer inside, because all changes of the state
        // are exchanges: they continue its release.
        let taken_back = self.update(Ordering::Relaxed, |state| {
            (!is_writer_inside(state)).then(|| open_up(state, (state & PHASE) + ONE_TAKEN_BACK))
        });
        taken_back.is_some()
    }
}

// SAFETY: a writer is inside while WRITER is set and the number of readers inside is 0; then no exchange lets anyone
// in.
unsafe impl<P: Platform> RawRwLock<P> for PhaseFair<P> {
    const INFO: LockInfo = LockInfo {
        id: "phase-fair",
        family: Family::ReadWrite,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Native,
        summary: "phases of readers and single writers alternate: a reader waits for one writer at most",
        paper: "Brandenburg, Anderson: ECRTS 2009, PF-T",
        ..LockInfo::PLAIN
    };

    fn new() -> Self {
        PhaseFair { state: P::Usize::new(0), tickets: P::U32::new(0), serving: P::U32::new(0) }
    }

    #[inline]
    fn read(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        self.try_read(preference) || self.read_contended(preference, deadline)
    }

    #[inline]
    fn try_read(&self, preference: Preference) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`.
        self.update(Ordering::Acquire, |state| is_open(state, preference).then_some(state + READER)).is_some()
    }

    #[inline]
    fn write(&self, deadline: Option<Deadline>) -> bool {
        // Relaxed: a hint for fairness only.
        let queue_is_empty = self.tickets.load(Ordering::Relaxed) == self.serving.load(Ordering::Relaxed);
        (queue_is_empty && self.try_write()) || self.write_contended(deadline)
    }

    #[inline]
    fn try_write(&self) -> bool {
        self.announce(|state| readers_inside(state) == 0).is_some()
    }

    #[inline]
    unsafe fn unlock_read(&self, _: Preference) {
        // ORDER(drain): Release pairs with the Acquires of the next writer; publishes that the reading is over.
        // LAST: the lock may be destroyed after this subtraction.
        self.state.fetch_sub(READER, Ordering::Release);
    }

    #[inline]
    unsafe fn unlock_write(&self, _: Preference) {
        // ORDER(hand-off): Release pairs with the Acquires of the next readers and the next writer; publishes the
        // critical section.
        // LAST: the lock may be destroyed after this exchange.
        self.update(Ordering::Release, |state| Some(open_up(state, state & TURN ^ TURN)));
    }

    fn is_write_locked(&self) -> bool {
        // Relaxed: as [`RawRwLock`] says.
        is_writer_inside(self.state.load(Ordering::Relaxed))
    }

    fn is_free(&self) -> bool {
        // Relaxed: as [`RawRwLock`] says.
        let state = self.state.load(Ordering::Relaxed);
        readers_inside(state) == 0 && state & WRITER == 0
    }

    fn forget_waiters(&self) {
        // Relaxed, like all accesses of this function: no other thread exists.
        let inside = |state: usize| {
            let writer = if is_writer_inside(state) { WRITER } else { 0 };
            readers_inside(state) * READER + (state & PHASE) + writer
        };
        self.update(Ordering::Relaxed, |state| Some(inside(state)));
        self.tickets.store(0, Ordering::Relaxed);
        self.serving.store(0, Ordering::Relaxed);
    }
}
