//! Central read-write lock that parks: one state word, one gate to sleep at for readers and one for writers (the shape
//! of the futex read-write locks in glibc and in Rust's standard library; the preference is chosen at each call).
//!
//!   state:       WRITER | READERS_SLEEP | WRITERS_SLEEP | FRESH | number of readers inside
//!   read_gate:   number of times that readers who were about to sleep were told to look again
//!   write_gate:  the same for writers
//!
//! Fairness: none within a mode; between the modes by [`Preference`]. Space: three words. Readers share a counter.

use crate::info::{ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{Preference, RawRwLock, TryUnlockRead};
use lockswap_platform::{AtomicInt, Deadline, Ordering, Platform, Wake};

/// A writer is inside.
const WRITER: u32 = 1 << 31;
/// Readers sleep at their gate, or are about to.
const READERS_SLEEP: u32 = 1 << 30;
/// Writers sleep at their gate, or are about to; may outlive them.
const WRITERS_SLEEP: u32 = 1 << 29;
/// Somebody has gone to sleep since the gates were opened last.
const FRESH: u32 = 1 << 28;
/// Number of readers inside.
const READERS: u32 = FRESH - 1;

/// Rounds of spinning before parking: about 2 us on the machines this was tuned on. Shorter than for a mutex, since
/// every spinning reader disturbs the counter that the others need.
const SPINS: u32 = 100;
/// So many times as many at most, for who was told not to sleep several times.
const MOST_TIMES: u32 = 32;

/// The lock.
#[repr(C)]
pub struct RwFutex<P: Platform> {
    state: P::U32,
    read_gate: P::U32,
    write_gate: P::U32,
}

/// A flag, the gate where those that it speaks of sleep, and how many of them may be woken at once.
type Sleepers<'a, P> = (u32, &'a <P as Platform>::U32, u32);

fn is_free(state: u32) -> bool {
    state & (WRITER | READERS) == 0
}

impl<P: Platform> RwFutex<P> {
    #[cold]
    #[inline(never)]
    fn read_slowly(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        let closed = match preference {
            Preference::Readers => WRITER,
            Preference::Writers => WRITER | WRITERS_SLEEP,
        };
        let attempt = |_| self.try_read(preference);
        attempt(false) || self.acquire(&self.read_gate, READERS_SLEEP, deadline, attempt, |state| state & closed != 0)
    }

    #[cold]
    #[inline(never)]
    fn write_slowly(&self, deadline: Option<Deadline>) -> bool {
        // A writer that has slept cannot know whether others still do: its flag may have been theirs.
        let attempt = |has_slept: bool| {
            let flag = if has_slept { WRITERS_SLEEP } else { 0 };
            // Relaxed: the exchange decides.
            let state = self.state.load(Ordering::Relaxed);
            // ORDER(hand-off): Acquire pairs with the Releases of both unlocks.
            is_free(state) && self.state.compare_exchange(state, state | WRITER | flag, Ordering::Acquire).is_ok()
        };
        self.try_write() || self.acquire(&self.write_gate, WRITERS_SLEEP, deadline, attempt, |state| !is_free(state))
    }

    #[cold]
    #[inline(never)]
    fn unlock_read_slowly(&self, preference: Preference) {
        self.release(preference, |state| Some(state - 1));
    }

    #[cold]
    #[inline(never)]
    fn unlock_write_slowly(&self, preference: Preference) {
        self.release(preference, |state| Some(state & !WRITER));
    }

    /// Runs `attempt` until it succeeds, telling it whether this thread may have slept: spinning, then asleep at
    /// `gate` with `flag` set in the state while `blocked` holds. Returns `false` at the deadline.
    #[cold]
    #[inline(never)]
    fn acquire(
        &self,
        gate: &P::U32,
        flag: u32,
        deadline: Option<Deadline>,
        mut attempt: impl FnMut(bool) -> bool,
        blocked: impl Fn(u32) -> bool,
    ) -> bool {
        let first = Setting::RwSpin.number::<P>(SPINS);
        let (mut spins, mut has_slept) = (first, false);
        loop {
            if P::spin_map_bounded(spins, || attempt(has_slept).then_some(())).is_some() {
                return true;
            }
            // ORDER(gate): Acquire pairs with the Releases of those who open it: a thread that sees a new count also
            // sees the state that was there before. The count is read first, so that an opening in between is not
            // missed.
            let count = gate.load(Ordering::Acquire);
            if attempt(true) {
                return true;
            }
            // Relaxed: the exchange and the park decide.
            let state = self.state.load(Ordering::Relaxed);
            if is_free(state) && blocked(state) {
                // Nothing but sleeping writers keeps this reader out, of a lock that nobody will release: whoever did
                // that preferred readers, and this one prefers writers.
                self.wake(state, Preference::Writers);
                continue;
            }
            let asleep = state | flag | FRESH;
            if !blocked(state)
                || (state != asleep && self.state.compare_exchange(state, asleep, Ordering::Relaxed).is_err())
            {
                continue;
            }
            if P::park(gate, count, deadline) == Wake::TimedOut {
                if attempt(true) {
                    return true;
                }
                self.give_up(flag);
                return false;
            }
            // Relaxed: a hint. Where the gate has opened, somebody wants to release the lock, and cannot while others
            // come to sleep: so this thread waits longer and longer before it tries that again.
            spins =
                if gate.load(Ordering::Relaxed) == count { 1 } else { (2 * spins).clamp(first, MOST_TIMES * first) };
            has_slept = true;
        }
    }

    /// Leaves without the lock, `flag` being that of this thread's mode. Whoever depended on this thread looks again:
    /// a writer that its wake-up was meant for, readers that waited for it, or all sleepers of a lock that is free by
    /// now.
    #[cold]
    fn give_up(&self, flag: u32) {
        if flag == WRITERS_SLEEP {
            // Relaxed: the gates publish. Those that still have to wait set their flag again.
            self.state.fetch_and(!(READERS_SLEEP | WRITERS_SLEEP), Ordering::Relaxed);
            for gate in [&self.read_gate, &self.write_gate] {
                // ORDER(gate): Release pairs with the Acquire in `acquire`: who sees the new count does not sleep on
                // the flag that was taken back above.
                gate.fetch_add(1, Ordering::Release);
                P::unpark(gate, u32::MAX);
            }
        } else {
            // Relaxed: `wake` decides on what it finds.
            self.wake(self.state.load(Ordering::Relaxed), Preference::Readers);
        }
    }

    /// The sleepers that `flags` says there are, readers before writers: their flag, their gate, and how many to wake.
    fn sleepers(&self, flags: u32) -> Option<Sleepers<'_, P>> {
        if flags & READERS_SLEEP != 0 {
            Some((READERS_SLEEP, &self.read_gate, u32::MAX))
        } else if flags & WRITERS_SLEEP != 0 {
            Some((WRITERS_SLEEP, &self.write_gate, 1))
        } else {
            None
        }
    }

    /// Whom to wake when the lock becomes free in `state`.
    fn next_in(&self, state: u32, preference: Preference) -> Option<Sleepers<'_, P>> {
        let writers = match preference {
            Preference::Readers => None,
            Preference::Writers => self.sleepers(state & WRITERS_SLEEP),
        };
        writers.or_else(|| self.sleepers(state))
    }

    /// Wakes sleepers of a lock that was seen free in `state`.
    #[cold]
    fn wake(&self, mut state: u32, preference: Preference) {
        while is_free(state) {
            let Some((flag, gate, most)) = self.next_in(state, preference) else { return };
            // Relaxed: the gate publishes.
            if let Err(found) = self.state.compare_exchange(state, state & !flag, Ordering::Relaxed) {
                state = found;
                continue;
            }
            // ORDER(gate): Release pairs with the Acquire in `acquire`.
            gate.fetch_add(1, Ordering::Release);
            if P::unpark(gate, most) != 0 {
                return;
            }
            // Nobody slept there (any more): the others must not be forgotten.
            state = self.state.load(Ordering::Relaxed);
        }
    }

    /// Gives up one hold; `without` computes what is left of a state without it.
    ///
    /// The lock's memory may be gone as soon as the lock is free, so everything that sleepers need happens before.
    /// While the lock is held the gates open, which makes those look again who are about to sleep; whoever still goes
    /// to sleep after that says FRESH, which the release notices. The release takes back the flag of those who are to
    /// be woken, and wakes them by the address of their gate.
    ///
    /// Returns `false` if `without` finds no hold to give up.
    fn release(&self, preference: Preference, without: impl Fn(u32) -> Option<u32>) -> bool {
        // Relaxed: the exchanges decide.
        let mut state = self.state.load(Ordering::Relaxed);
        let (left, chosen) = loop {
            let Some(mut left) = without(state) else { return false };
            let mut chosen = None;
            if is_free(left) {
                if state & FRESH != 0 {
                    state = self.open_gates(state);
                    continue;
                }
                chosen = self.next_in(left, preference);
                left &= !chosen.map_or(0, |(flag, ..)| flag);
            }
            // ORDER(hand-off): Release pairs with the Acquires of `try_read` and `write`; publishes the critical
            // section.
            // LAST: the lock may be destroyed after this exchange.
            match self.state.compare_exchange(state, left, Ordering::Release) {
                Err(found) => state = found,
                Ok(_) => break (left, chosen),
            }
        };
        if let Some((_, gate, most)) = chosen {
            if P::unpark(gate, most) == 0 {
                // The flag was older than its sleepers: the others must not be forgotten.
                if let Some((_, gate, most)) = self.sleepers(left) {
                    P::unpark(gate, most);
                }
            }
        }
        true
    }

    /// Makes everybody look again who is about to sleep, while the lock is held in `state`; the state after that.
    #[cold]
    fn open_gates(&self, state: u32) -> u32 {
        // Relaxed: the gates publish.
        if let Err(found) = self.state.compare_exchange(state, state & !FRESH, Ordering::Relaxed) {
            return found;
        }
        for gate in [&self.read_gate, &self.write_gate] {
            // ORDER(gate): Release pairs with the Acquire in `acquire`.
            gate.fetch_add(1, Ordering::Release);
        }
        state & !FRESH
    }
}

// SAFETY: a writer enters only a state without holders, a reader only one without a writer, by an exchange.
unsafe impl<P: Platform> RawRwLock<P> for RwFutex<P> {
    const INFO: LockInfo = LockInfo {
        id: "rw-futex",
        family: Family::ReadWrite,
        waiting: WaitingPolicy::SpinThenPark,
        fairness: Fairness::Unfair,
        timed: Timed::Native,
        summary: "a central counter of readers; waiters spin briefly, then sleep; prefers whom the rwlock's kind says",
        paper: "none: the usual futex design",
        by_priority: ByPriority::Kernel,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "spin",
            values: Values::Number(Setting::RwSpin, 1, 1_000_000, "looks"),
            default: Default::Number(SPINS),
            summary: "looks at the lock before a waiter sleeps",
            source: "about 2 us on the machines that this was tuned on: each look disturbs the readers",
        }],
        inside: &[],
    };

    const ACTS_AT_ONCE: bool = true;

    fn new() -> Self {
        RwFutex { state: P::U32::new(0), read_gate: P::U32::new(0), write_gate: P::U32::new(0) }
    }

    #[inline]
    fn read(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        self.read_at_once() || self.read_slowly(preference, deadline)
    }

    #[inline(always)]
    fn read_at_once(&self) -> bool {
        // Relaxed: the exchange decides.
        let state = self.state.load(Ordering::Relaxed);
        // Below READERS it has no flag, so that no preference keeps readers out.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`.
        state < READERS && self.state.compare_exchange(state, state + 1, Ordering::Acquire).is_ok()
    }

    #[inline]
    fn try_read(&self, preference: Preference) -> bool {
        let closed = match preference {
            Preference::Readers => WRITER,
            Preference::Writers => WRITER | WRITERS_SLEEP,
        };
        // Relaxed: the exchange decides.
        let mut state = self.state.load(Ordering::Relaxed);
        // A full counter counts as closed: it needs 2^28 readers at once.
        while state & closed == 0 && state & READERS != READERS {
            // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`.
            match self.state.compare_exchange(state, state + 1, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    #[inline]
    fn write(&self, deadline: Option<Deadline>) -> bool {
        self.write_at_once() || self.write_slowly(deadline)
    }

    #[inline(always)]
    fn write_at_once(&self) -> bool {
        // ORDER(hand-off): Acquire pairs with the Releases of both unlocks.
        self.state.compare_exchange(0, WRITER, Ordering::Acquire).is_ok()
    }

    #[inline]
    fn try_write(&self) -> bool {
        // Relaxed: the exchange decides.
        let mut state = self.state.load(Ordering::Relaxed);
        while is_free(state) {
            // ORDER(hand-off): Acquire pairs with the Releases of both unlocks.
            match self.state.compare_exchange(state, state | WRITER, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    #[inline]
    unsafe fn unlock_read(&self, preference: Preference) {
        // SAFETY: as for this call.
        if !unsafe { self.unlock_read_at_once() } {
            self.unlock_read_slowly(preference);
        }
    }

    #[inline(always)]
    unsafe fn unlock_read_at_once(&self) -> bool {
        // Relaxed: the exchange decides.
        let state = self.state.load(Ordering::Relaxed);
        // Without a flag there is nobody to wake.
        // ORDER(hand-off): as in `release`. LAST: the lock may be destroyed after this exchange.
        (1..=READERS).contains(&state) && self.state.compare_exchange(state, state - 1, Ordering::Release).is_ok()
    }

    #[inline]
    unsafe fn unlock_write(&self, preference: Preference) {
        // SAFETY: as for this call.
        if !unsafe { self.unlock_write_at_once() } {
            self.unlock_write_slowly(preference);
        }
    }

    #[inline(always)]
    unsafe fn unlock_write_at_once(&self) -> bool {
        // ORDER(hand-off): as in `release`. LAST: the lock may be destroyed after this exchange.
        self.state.compare_exchange(WRITER, 0, Ordering::Release).is_ok()
    }

    fn is_write_locked(&self) -> bool {
        // Relaxed: as [`RawRwLock`] says.
        self.state.load(Ordering::Relaxed) & WRITER != 0
    }

    fn is_free(&self) -> bool {
        // Relaxed: as [`RawRwLock`] says.
        is_free(self.state.load(Ordering::Relaxed))
    }

    fn forget_waiters(&self) {
        // Relaxed: no other thread exists.
        self.state.fetch_and(!(READERS_SLEEP | WRITERS_SLEEP | FRESH), Ordering::Relaxed);
    }
}

// SAFETY: takes a reader away only where the state has one.
unsafe impl<P: Platform> TryUnlockRead<P> for RwFutex<P> {
    #[inline]
    unsafe fn try_unlock_read(&self, preference: Preference) -> bool {
        self.release(preference, |state| (state & READERS != 0).then(|| state - 1))
    }
}
