//! ShflLock's read-write flavour (Kashyap, Calciu, Cheng, Min, Kim, SOSP 2019; the shape is that of Linux' qrwlock).
//!
//!   state:  WRITER | WAITING | ASLEEP | number of readers
//!   queue:  [head]->[W]->[W]->[R]->[R]     a mutex; whoever holds it is next to enter, and alone competes for `state`
//!
//! Readers share one counter. Who cannot enter at once queues in a ShflLock, readers and writers alike, whose waiters
//! bring the writers together ([`WritersFirst`]): at most `writers` of them pass before the reader that waits for
//! longest gets its turn, which it passes on to the readers behind it. A writer at the head of the queue closes the
//! lock to newcomers (WAITING) until the readers have left. A reader that waits at the head is counted already, so
//! that the next writer waits for it.
//!
//! Fairness: long-term with [`Preference::Writers`], since batches of writers are bounded and newcomers take the
//! queue's lock from its head [`STEAL`] times at most. With [`Preference::Readers`] a reader waits for nobody but a
//! writer inside, outside the queue: in it, it would stand behind a writer that waits for readers, which may depend on
//! this one; writers may starve. Space: a word and the queue's lock. Waiters of the queue wait as that lock does; its
//! head and the readers outside spin on `state`, then park there.
//!
//! Deviations: the preference above. The authors' slides say that writers are grouped, their programs (rwaqm.c) group
//! by NUMA node; this lock does what the slides say, and does not ask for the node. A waiter with a deadline polls for
//! the head of the queue, and gives up from there.

use crate::info::{Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Parameters, Setting, RW_SPIN};
use crate::rw::wait;
use crate::shuffle::policy::{Policy, WritersFirst, MAX_SHUFFLES, READER, WRITER as AS_WRITER};
use crate::shuffle::shfllock::Shfl;
use crate::waiting::SpinThenPark;
use crate::{Preference, RawLock, RawRwLock, TimedLock};
use lockswap_platform::{AtomicInt, Deadline, Ordering, Platform, Wake};

/// | WRITER | WAITING | readers | meaning                                                        |
/// |--------|---------|---------|----------------------------------------------------------------|
/// | 0      | 0       | 0       | free                                                           |
/// | 0      | 0       | n       | n readers inside                                               |
/// | 0      | 1       | n       | the head of the queue is a writer that waits for n readers     |
/// | 1      | 0 or 1  | n       | a writer inside; n readers wait for it alone                   |
///
/// ASLEEP: somebody is parked on the state, or about to; a writer that leaves wakes all, and so does a last reader.
const WRITER: u32 = 1 << 31;
const WAITING: u32 = 1 << 30;
const ASLEEP: u32 = 1 << 29;
const READERS: u32 = ASLEEP - 1;

/// How often newcomers may take the queue's lock from the head of the queue, which may be asleep: then the lock would
/// be idle until it has woken up.
pub const STEAL: u32 = 8;

/// The lock. `WRITERS` of those that wait are brought together at most.
#[repr(C)]
pub struct QueuedRw<P: Platform, const WRITERS: u32> {
    state: P::U32,
    queue: Shfl<P, WritersFirst<WRITERS>, SpinThenPark, STEAL>,
}

/// With the bound that the paper has for all batches.
pub type ShflLockRw<P> = QueuedRw<P, MAX_SHUFFLES>;

/// Whether a reader may enter without waiting.
fn is_open(state: u32, preference: Preference) -> bool {
    let closed = match preference {
        Preference::Readers => WRITER,
        Preference::Writers => WRITER | WAITING,
    };
    state & closed == 0 && state & READERS != READERS
}

impl<P: Platform, const WRITERS: u32> QueuedRw<P, WRITERS> {
    /// Waits until `attempt` succeeds; parks while the state has a bit of `blocked`. Returns `false` at the deadline.
    fn park_until(&self, deadline: Option<Deadline>, blocked: u32, attempt: impl Fn() -> bool) -> bool {
        // The accesses to the state in this function are Relaxed: what blocks is only waited for; `attempt` acquires.
        let is_blocked = |state: u32| state & blocked != 0;
        if P::spin_map_bounded(Setting::RwSpin.looks::<P>(), || attempt().then_some(())).is_some() {
            return true;
        }
        loop {
            // Either enters, or has a reason to park.
            let moved = || {
                if attempt() {
                    return Some(None);
                }
                let state = self.state.load(Ordering::Relaxed);
                is_blocked(state).then_some(Some(state))
            };
            let state = match wait::<P, _>(deadline, moved) {
                None => return false,
                Some(None) => return true,
                Some(Some(state)) => state,
            };
            let asleep = state | ASLEEP;
            if (state == asleep || self.state.compare_exchange(state, asleep, Ordering::Relaxed).is_ok())
                && P::park(&self.state, asleep, deadline) == Wake::TimedOut
            {
                return attempt();
            }
        }
    }

    /// Queues as a reader or as a writer, and runs `enter` at the head of the queue. Returns `false` at the deadline.
    fn at_head(&self, attribute: u32, deadline: Option<Deadline>, enter: impl FnOnce() -> bool) -> bool {
        // SAFETY: no context; released below.
        unsafe {
            match deadline {
                None => self.queue.lock_as(attribute),
                Some(deadline) if !self.queue.lock_until(&(), deadline) => return false,
                Some(_) => {}
            }
            let entered = enter();
            self.queue.unlock(&());
            entered
        }
    }

    /// Enters as a reader that waits for a writer inside only. It is counted from now on, so no writer gets in after
    /// that.
    fn read_next(&self, deadline: Option<Deadline>) -> bool {
        let may_count = |state: u32| state & READERS != READERS;
        let count = || {
            // Relaxed: the exchange decides.
            let state = self.state.load(Ordering::Relaxed);
            // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`, for a reader that is inside at once.
            (may_count(state) && self.state.compare_exchange(state, state + 1, Ordering::Acquire).is_ok())
                .then_some(state)
        };
        match wait::<P, _>(deadline, count) {
            None => return false,
            Some(state) if state & WRITER == 0 => return true,
            Some(_) => {}
        }
        // ORDER(hand-off): Acquire pairs with the Release in `unlock_write`.
        let entered = || self.state.load(Ordering::Acquire) & WRITER == 0;
        if self.park_until(deadline, WRITER, entered) {
            return true;
        }
        // Relaxed: the exchange decides.
        let mut state = self.state.load(Ordering::Relaxed);
        while state & WRITER != 0 {
            // Relaxed: takes nothing.
            match self.state.compare_exchange(state, state - 1, Ordering::Relaxed) {
                Ok(_) => return false,
                Err(found) => state = found,
            }
        }
        entered()
    }

    #[cold]
    #[inline(never)]
    fn read_contended(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        match preference {
            Preference::Readers => self.read_next(deadline),
            Preference::Writers => self.at_head(READER, deadline, || self.read_next(deadline)),
        }
    }

    #[cold]
    #[inline(never)]
    fn write_contended(&self, deadline: Option<Deadline>) -> bool {
        self.at_head(AS_WRITER, deadline, || {
            // Relaxed: closes the lock, publishes nothing.
            self.state.fetch_or(WAITING, Ordering::Relaxed);
            let attempt = || {
                // Relaxed: the exchange decides. At the head of the queue, outside a writer, nobody else is asleep.
                let state = self.state.load(Ordering::Relaxed);
                // ORDER(hand-off): Acquire pairs with the Releases of both unlocks.
                state & (WRITER | READERS) == 0 && self.state.compare_exchange(state, WRITER, Ordering::Acquire).is_ok()
            };
            let entered = self.park_until(deadline, WRITER | READERS, attempt);
            if !entered {
                // Relaxed: the bit publishes nothing. Nobody sleeps because of it.
                self.state.fetch_and(!WAITING, Ordering::Relaxed);
            }
            entered
        })
    }
}

// SAFETY: a writer enters only where no reader is counted and no writer is inside; a counted reader is inside once no
// writer is.
unsafe impl<P: Platform, const WRITERS: u32> RawRwLock<P> for QueuedRw<P, WRITERS> {
    const INFO: LockInfo = LockInfo {
        id: "shfllock-rw",
        family: Family::ReadWrite,
        waiting: WaitingPolicy::SpinThenPark,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "a central counter of readers; who must wait queues in a ShflLock that brings writers together",
        paper: "Kashyap, Calciu, Cheng, Min, Kim: SOSP 2019",
        asks: <WritersFirst<WRITERS> as Policy>::ASKS,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters =
        Parameters { own: &[RW_SPIN], inside: &[<WritersFirst<WRITERS> as Policy>::PARAMETERS] };

    fn new() -> Self {
        QueuedRw { state: P::U32::new(0), queue: Shfl::new() }
    }

    #[inline]
    fn read(&self, preference: Preference, deadline: Option<Deadline>) -> bool {
        self.try_read(preference) || self.read_contended(preference, deadline)
    }

    #[inline]
    fn try_read(&self, preference: Preference) -> bool {
        // Relaxed: the exchange decides.
        let mut state = self.state.load(Ordering::Relaxed);
        while is_open(state, preference) {
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
        self.try_write() || self.write_contended(deadline)
    }

    #[inline]
    fn try_write(&self) -> bool {
        // Relaxed: the exchange decides. ASLEEP may have outlived its sleeper.
        let mut state = self.state.load(Ordering::Relaxed);
        while state & !ASLEEP == 0 {
            // ORDER(hand-off): Acquire pairs with the Releases of both unlocks.
            match self.state.compare_exchange(state, state | WRITER, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => state = found,
            }
        }
        false
    }

    #[inline]
    unsafe fn unlock_read(&self, _: Preference) {
        let address: *const P::U32 = &self.state;
        // ORDER(hand-off): Release pairs with the Acquire of the next writer; publishes that the reading is over.
        // LAST: the lock may be destroyed after this subtraction; the wake-up uses the address only.
        if self.state.fetch_sub(1, Ordering::Release) & (ASLEEP | READERS) == ASLEEP | 1 {
            P::unpark(address, u32::MAX);
        }
    }

    #[inline]
    unsafe fn unlock_write(&self, _: Preference) {
        let address: *const P::U32 = &self.state;
        // ORDER(hand-off): Release pairs with the Acquires of all who enter next; publishes the critical section.
        // LAST: the lock may be destroyed after this operation; the wake-up uses the address only.
        if self.state.fetch_and(!(WRITER | ASLEEP), Ordering::Release) & ASLEEP != 0 {
            P::unpark(address, u32::MAX);
        }
    }

    fn is_write_locked(&self) -> bool {
        // Relaxed: as [`RawRwLock`] says.
        self.state.load(Ordering::Relaxed) & WRITER != 0
    }

    fn is_free(&self) -> bool {
        // Relaxed: as [`RawRwLock`] says.
        self.state.load(Ordering::Relaxed) & (WRITER | READERS) == 0
    }

    fn is_quiet(&self) -> bool {
        self.queue.is_quiet()
    }

    fn forget_waiters(&self) {
        // Relaxed, like all accesses of this function: no other thread exists.
        let state = self.state.load(Ordering::Relaxed);
        let inside = if state & WRITER != 0 { WRITER } else { state & READERS };
        self.state.store(inside, Ordering::Relaxed);
        // SAFETY: no other thread exists, and this one is not in the queue.
        unsafe { (&raw const self.queue).cast_mut().write(Shfl::new()) };
    }
}
