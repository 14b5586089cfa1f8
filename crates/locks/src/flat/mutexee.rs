//! MUTEXEE, a futex lock that avoids sleeping (Falsafi, Guerraoui, Picorel, Trigonakis: Unlocking Energy, USENIX ATC
//! 2016, section 5).
//!
//!   state:  HELD | number of spinners | number of sleepers
//!   turn:   what sleepers sleep on; changes before each wake-up
//!   record: how the last contended acquisitions went, and the mode that follows from it
//!
//!   unlock, with a spinner:            lock becomes free, nobody is woken, the spinner takes over
//!   unlock, with sleepers only:        waits a moment for a spinner to come; if none does, wakes one sleeper
//!
//! Fairness: none; sleepers may starve while there are spinners. Space: three words. Hand-off: none, the lock becomes free.
//! Waiters spin for about 8000 cycles, then sleep; if too many acquisitions needed a wake-up all the same, they spin for
//! 256 cycles only, and unlock does not wait (futex mode), until it is time to try again.
//!
//! Deviations. The paper's unlock frees the lock and then looks at it for 384 cycles: whether somebody has taken it. POSIX
//! forbids that, because the memory may be gone. Here spinners sign up in the word, so that the exchange that frees the
//! lock tells whether one is there, and the moment of waiting comes *before* that exchange: it ends as soon as a spinner
//! signs up. It delays a newcomer by the time it takes to sign up, and only where a system call would follow. A spinner
//! never leaves a free lock, but one that has lost its CPU leaves it free for as long; spinning is too short for that to
//! be frequent. The acquirers count hand-overs, not the releasers, because only the holder may touch the lock. The way
//! back from futex mode is by time, which the paper leaves open. And a releaser wakes nobody while a sleeper that has been
//! woken is on its way: with more threads than CPUs each release would otherwise make a system call.

use super::CYCLES_PER_PAUSE;
use crate::info::{ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Deadline, Ordering, Platform, Wake};

/// | bits     | meaning                                                                  |
/// |----------|--------------------------------------------------------------------------|
/// | 0        | HELD                                                                     |
/// | 1        | CALLED: the holder changes `turn`; whoever becomes something removes it  |
/// | 2        | WOKEN: a sleeper is being woken; the next one that is no sleeper any more removes it |
/// | 3 to 9   | waiters that spin; one that finds this full sleeps at once               |
/// | 10 to 31 | waiters that sleep or are about to; Linux has fewer than 2^22 threads    |
///
/// While the lock is free and somebody sleeps, a waiter spins or WOKEN is set: a sleeper has been woken, or will be by who
/// set it.
const HELD: u32 = 1;
const CALLED: u32 = 1 << 1;
const WOKEN: u32 = 1 << 2;
const SPINNER: u32 = 1 << 3;
const SPINNERS: u32 = SLEEPER - SPINNER;
const SLEEPER: u32 = 1 << 10;
/// Not counted as a waiter.
const NOBODY: u32 = 0;

/// Rounds a waiter spins in futex mode.
const FUTEX_MODE_SPINS: u32 = 256 / CYCLES_PER_PAUSE;
/// Windows that futex mode lasts, before spinning is tried again.
const FUTEX_MODE_WINDOWS: u32 = 16;
/// One wake-up in this many hand-overs is too many.
const TOLERATED: u32 = 16;

/// The record: hand-overs of the window in the low half, those after a wake-up in the 15 bits above.
const AFTER_WAKE: u32 = 1 << 16;
const FUTEX_MODE: u32 = 1 << 31;

/// The lock. A waiter spins `SPINS` rounds, a releaser waits `GRACE` rounds for a spinner, and the mode is chosen anew
/// after `WINDOW` contended acquisitions (at most 4095).
#[repr(C)]
pub struct MutexeeLock<P: Platform, const SPINS: u32, const GRACE: u32, const WINDOW: u32> {
    state: P::U32,
    turn: P::U32,
    record: P::U32,
}

/// The published bounds: 8000 and 384 cycles, and 128 wake-ups in 2048.
pub type Mutexee<P> = MutexeeLock<P, { 8000 / CYCLES_PER_PAUSE }, { 384 / CYCLES_PER_PAUSE }, 2048>;

impl<P: Platform, const SPINS: u32, const GRACE: u32, const WINDOW: u32> MutexeeLock<P, SPINS, GRACE, WINDOW> {
    #[inline]
    fn is_in_futex_mode(&self) -> bool {
        // Relaxed: a hint.
        self.record.load(Ordering::Relaxed) & FUTEX_MODE != 0
    }

    /// Acquires the lock if it is free; else this thread, which was counted as `from`, is counted as `to` from now on.
    /// Returns what it is, HELD if it holds the lock, and the turn that a sleeper sleeps through.
    fn acquire_or_become(&self, from: u32, to: u32) -> (u32, u32) {
        P::spin_map(|| {
            // Relaxed: ordered before the exchange below, as that says.
            let turn = self.turn.load(Ordering::Relaxed);
            // Relaxed: the exchange decides.
            let state = self.state.load(Ordering::Relaxed);
            let part = match state {
                _ if state & HELD == 0 => HELD,
                _ if to == SPINNER && state & SPINNERS == SPINNERS => SLEEPER,
                _ => to,
            };
            // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
            // ORDER(turn): Release pairs with the Acquire in `unlock_contended`: who finds this thread a sleeper changes
            // `turn` after the look at it above, which could otherwise see that change: this thread would sleep through it.
            let order = if part == HELD { Ordering::Acquire } else { Ordering::Release };
            let rest = state & !if from == SLEEPER { CALLED | WOKEN } else { CALLED };
            self.state.compare_exchange(state, rest - from + part, order).is_ok().then_some((part, turn))
        })
    }

    /// Spins as a spinner. Returns whether it acquired the lock.
    fn spin(&self) -> bool {
        let rounds = if self.is_in_futex_mode() { FUTEX_MODE_SPINS.min(SPINS) } else { SPINS };
        P::spin_map_bounded(rounds, || {
            // Relaxed: only decides whether the exchange is worth its price.
            let state = self.state.load(Ordering::Relaxed);
            // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
            (state & HELD == 0 && self.state.compare_exchange(state, state - SPINNER + HELD, Ordering::Acquire).is_ok())
                .then_some(())
        })
        .is_some()
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self, deadline: Option<Deadline>) -> bool {
        let mut slept = false;
        let (mut part, mut turn) = self.acquire_or_become(NOBODY, SPINNER);
        loop {
            if part == SPINNER {
                if self.spin() {
                    part = HELD;
                } else {
                    (part, turn) = self.acquire_or_become(SPINNER, SLEEPER);
                }
            }
            if part == HELD {
                self.learn(slept);
                return true;
            }
            slept = true;
            if P::park(&self.turn, turn, deadline) == Wake::TimedOut {
                // No wake-up is lost: a park that took one does not time out.
                return self.acquire_or_become(SLEEPER, NOBODY).0 == HELD;
            }
            (part, turn) = self.acquire_or_become(SLEEPER, SPINNER);
        }
    }

    /// Counts a contended acquisition of the holder, this thread, and chooses the mode at the end of a window.
    fn learn(&self, slept: bool) {
        // Relaxed: only the holder writes.
        let mut record = self.record.load(Ordering::Relaxed) + 1 + if slept { AFTER_WAKE } else { 0 };
        let hand_overs = record & (AFTER_WAKE - 1);
        let wakes = (record & !FUTEX_MODE) / AFTER_WAKE;
        if record & FUTEX_MODE != 0 {
            record = FUTEX_MODE | hand_overs;
            if hand_overs >= WINDOW * FUTEX_MODE_WINDOWS {
                record = 0;
            }
        } else if hand_overs >= WINDOW {
            record = if wakes > WINDOW / TOLERATED { FUTEX_MODE } else { 0 };
        }
        self.record.store(record, Ordering::Relaxed);
    }

    /// Releases a lock that has waiters.
    #[cold]
    #[inline(never)]
    fn unlock_contended(&self) {
        let turn: *const P::U32 = &self.turn;
        // Relaxed: decides whether a moment of waiting pays.
        let is_waited_for = || (self.state.load(Ordering::Relaxed) & (SPINNERS | WOKEN) != 0).then_some(());
        if !self.is_in_futex_mode() {
            P::spin_map_bounded(GRACE, is_waited_for);
        }
        let must_wake = P::spin_map(|| {
            // Relaxed: the exchanges decide.
            let mut state = self.state.load(Ordering::Relaxed);
            let must_wake = state >= SLEEPER && state & (SPINNERS | WOKEN) == 0;
            if must_wake {
                // ORDER(turn): Acquire pairs with the Release in `acquire_or_become`: the sleepers in this state have
                // looked at `turn` before the change below. One that looks after it removes CALLED, and the exchange
                // that releases fails.
                self.state.compare_exchange(state, state | CALLED, Ordering::Acquire).ok()?;
                state |= CALLED;
                // Relaxed: `unpark` makes the sleepers look.
                self.turn.fetch_add(1, Ordering::Relaxed);
            }
            // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
            // LAST: the lock may be destroyed after this exchange; the wake-up below uses the address only.
            let free = state & !(HELD | CALLED) | if must_wake { WOKEN } else { 0 };
            self.state.compare_exchange(state, free, Ordering::Release).is_ok().then_some(must_wake)
        });
        if must_wake {
            P::unpark(turn, 1);
        }
    }
}

// SAFETY: only an exchange that found HELD clear sets it; `unlock` clears it with its last access.
unsafe impl<P: Platform, const SPINS: u32, const GRACE: u32, const WINDOW: u32> RawLock<P>
    for MutexeeLock<P, SPINS, GRACE, WINDOW>
{
    const INFO: LockInfo = LockInfo {
        id: "mutexee",
        family: Family::Flat,
        waiting: WaitingPolicy::Adaptive,
        fairness: Fairness::Unfair,
        timed: Timed::Native,
        summary: "spins before it sleeps, and wakes nobody while a spinner is there to take over",
        paper: "Falsafi, Guerraoui, Picorel, Trigonakis: USENIX ATC 2016, section 5",
        by_priority: ByPriority::Kernel,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    type Ctx = ();

    fn new() -> Self {
        MutexeeLock { state: P::U32::new(0), turn: P::U32::new(0), record: P::U32::new(0) }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        if self.state.compare_exchange(0, HELD, Ordering::Acquire).is_err() {
            self.lock_contended(None);
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this exchange.
        if self.state.compare_exchange(HELD, 0, Ordering::Release).is_err() {
            self.unlock_contended();
        }
    }
}

// SAFETY: sets HELD only where it is clear.
unsafe impl<P: Platform, const SPINS: u32, const GRACE: u32, const WINDOW: u32> TryLock<P>
    for MutexeeLock<P, SPINS, GRACE, WINDOW>
{
    #[inline]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // Relaxed: only decides whether the exchange is worth its price.
        let state = self.state.load(Ordering::Relaxed);
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        state & HELD == 0 && self.state.compare_exchange(state, state | HELD, Ordering::Acquire).is_ok()
    }
}

// SAFETY: a waiter that gives up is not counted any more.
unsafe impl<P: Platform, const SPINS: u32, const GRACE: u32, const WINDOW: u32> TimedLock<P>
    for MutexeeLock<P, SPINS, GRACE, WINDOW>
{
    unsafe fn lock_until(&self, cx: &(), deadline: Deadline) -> bool {
        // SAFETY: as for this call.
        unsafe { self.try_lock(cx) || self.lock_contended(Some(deadline)) }
    }
}

impl<P: Platform, const SPINS: u32, const GRACE: u32, const WINDOW: u32> IsHeld
    for MutexeeLock<P, SPINS, GRACE, WINDOW>
{
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: the answer says nothing about what the lock protects.
        self.state.load(Ordering::Relaxed) & HELD != 0
    }
}
