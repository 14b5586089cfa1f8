//! MUTEXEE, a futex lock that avoids sleeping (Falsafi, Guerraoui, Picorel, Trigonakis: Unlocking Energy, USENIX ATC
//! 2016, section 5).
//!
//!   state:  HELD | CALLED | WOKEN | number of spinners | number of sleepers
//!   turn:   what sleepers sleep on; changes before each wake-up
//!   record: how the last contended acquisitions went, and the mode that follows from it
//!
//!   unlock, with a spinner:            the lock becomes free, nobody is woken, the spinner takes it
//!   unlock, with sleepers only:        waits a moment for a spinner to come; if none does, wakes one sleeper
//!
//! Fairness: none; sleepers may starve while there are spinners. Space: three words. Hand-off: none, the lock becomes
//! free. Waiters spin for about 8000 cycles on `state`, then sleep on `turn`; if too many acquisitions needed a
//! wake-up all the same, they spin for 256 cycles only, and unlock does not wait (futex mode), until it is time to try
//! again.
//!
//! Deviations. The paper's unlock frees the lock and then looks at it for 384 cycles: whether somebody has taken it.
//! POSIX forbids that, because the memory may be gone. Here spinners sign up in the word, so that the exchange that
//! frees the lock tells whether one is there, and the moment of waiting comes *before* that exchange: it ends as soon
//! as a spinner signs up. It delays a newcomer by the time it takes to sign up, and only where a system call would
//! follow. A spinner never leaves a free lock, but one that has lost its CPU leaves it free for as long; spinning is
//! too short for that to be frequent. The acquirers count hand-overs, not the releasers, because only the holder may
//! touch the lock. The way back from futex mode is by time, which the paper leaves open. And a releaser wakes nobody
//! while a sleeper that has been woken is on its way: with more threads than CPUs each release would otherwise make a
//! system call.

use super::CYCLES_PER_PAUSE;
use crate::info::{ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Deadline, Ordering, Platform, Wake};

/// The state.
///
/// | bits     | meaning                          | set by             | cleared by                                   |
/// |----------|----------------------------------|--------------------|----------------------------------------------|
/// | 0        | HELD                             | who acquires       | the holder                                   |
/// | 1        | CALLED: the holder changes `turn` | the holder        | the holder, or whoever changes what it is    |
/// | 2        | WOKEN: a sleeper is being woken  | the holder         | the next sleeper that wakes up               |
/// | 3 to 9   | waiters that spin                | these              | these                                        |
/// | 10 to 31 | waiters that sleep, or are about to | these           | these                                        |
///
/// A waiter that finds the number of spinners full sleeps at once; Linux has fewer than 2^22 threads, which may sleep.
/// While the lock is free and somebody sleeps, a waiter spins or WOKEN is set: a sleeper has been woken, or will be by
/// who set it.
const HELD: u32 = 1;
/// See [`HELD`].
const CALLED: u32 = 1 << 1;
/// See [`HELD`].
const WOKEN: u32 = 1 << 2;
/// One that spins; see [`HELD`].
const SPINNER: u32 = 1 << 3;
const SPINNERS: u32 = SLEEPER - SPINNER;
/// One that sleeps; see [`HELD`].
const SLEEPER: u32 = 1 << 10;
/// A thread that is not counted.
const NOBODY: u32 = 0;

/// Looks of a spinning waiter in futex mode.
const FUTEX_MODE_LOOKS: u32 = 256 / CYCLES_PER_PAUSE;
/// Windows that futex mode lasts, before spinning is tried again.
const FUTEX_MODE_WINDOWS: u32 = 16;
/// One wake-up in this many hand-overs is too many.
const TOLERATED: u32 = 16;
/// The longest window: futex mode counts [`FUTEX_MODE_WINDOWS`] of them in the low half of the record.
const LONGEST_WINDOW: u32 = (AFTER_WAKE - 1) / FUTEX_MODE_WINDOWS;

/// The record, which belongs to the holder: the hand-overs of the window in the low half, in the 15 bits above those
/// that took a wake-up, and the mode.
const AFTER_WAKE: u32 = 1 << 16;
/// See [`AFTER_WAKE`].
const FUTEX_MODE: u32 = 1 << 31;

/// The lock. A waiter looks `LOOKS` times before it sleeps, a releaser `GRACE` times for a spinner, and the mode is
/// chosen anew after `WINDOW` contended acquisitions.
#[repr(C)]
pub struct MutexeeLock<P: Platform, const LOOKS: u32, const GRACE: u32, const WINDOW: u32> {
    state: P::U32,
    turn: P::U32,
    record: P::U32,
}

/// The published bounds: 8000 and 384 cycles, and 128 wake-ups in 2048.
pub type Mutexee<P> = MutexeeLock<P, { 8000 / CYCLES_PER_PAUSE }, { 384 / CYCLES_PER_PAUSE }, 2048>;

const PAPER: &str = "Falsafi, Guerraoui, Picorel, Trigonakis: USENIX ATC 2016, section 5";

// SAFETY: only an exchange that found HELD clear sets it; `unlock` clears it with its last access.
unsafe impl<P: Platform, const LOOKS: u32, const GRACE: u32, const WINDOW: u32> RawLock<P>
    for MutexeeLock<P, LOOKS, GRACE, WINDOW>
{
    const INFO: LockInfo = LockInfo {
        id: "mutexee",
        family: Family::Flat,
        waiting: WaitingPolicy::Adaptive,
        fairness: Fairness::Unfair,
        timed: Timed::Native,
        summary: "spins before it sleeps, and wakes nobody while a spinner is there to take over",
        paper: PAPER,
        by_priority: ByPriority::Kernel,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[
            Parameter {
                key: "longest",
                values: Values::Number(Setting::Longest, 0, 1_000_000, "looks"),
                default: Default::Number(LOOKS),
                summary: "looks at the lock before a waiter sleeps, outside futex mode",
                source: PAPER,
            },
            Parameter {
                key: "grace",
                values: Values::Number(Setting::Grace, 0, 1_000_000, "looks"),
                default: Default::Number(GRACE),
                summary: "looks for a spinner before a release wakes a sleeper, outside futex mode",
                source: PAPER,
            },
            Parameter {
                key: "window",
                values: Values::Number(Setting::Window, 1, LONGEST_WINDOW, "acquisitions"),
                default: Default::Number(WINDOW),
                summary: "contended acquisitions until the mode is chosen anew",
                source: PAPER,
            },
        ],
        inside: &[],
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

impl<P: Platform, const LOOKS: u32, const GRACE: u32, const WINDOW: u32> MutexeeLock<P, LOOKS, GRACE, WINDOW> {
    /// Waits for the lock: spins, sleeps until a release wakes this thread, spins again. Returns `false` at the
    /// deadline.
    #[cold]
    #[inline(never)]
    fn lock_contended(&self, deadline: Option<Deadline>) -> bool {
        let (mut counted_as, mut slept) = (NOBODY, false);
        loop {
            // A spinner that signs up keeps a release from waking somebody.
            let (mut part, mut turn) = self.acquire_or_become(counted_as, SPINNER);
            if part == SPINNER {
                if self.spin() {
                    break;
                }
                (part, turn) = self.acquire_or_become(SPINNER, SLEEPER);
            }
            if part == HELD {
                break;
            }
            // A sleeper now, also if there were too many spinners.
            slept = true;
            if P::park(&self.turn, turn, deadline) == Wake::TimedOut {
                // No wake-up is lost: a park that took one does not time out.
                return self.acquire_or_become(SLEEPER, NOBODY).0 == HELD;
            }
            counted_as = SLEEPER;
        }
        self.learn(slept);
        true
    }

    /// Releases a lock that has waiters, and wakes one if none of them spins.
    #[cold]
    #[inline(never)]
    fn unlock_contended(&self) {
        let turn: *const P::U32 = &self.turn;
        // A spinner that comes within this moment saves the system call, and the sleeper its wake-up.
        if !self.is_in_futex_mode() {
            // Relaxed: decides whether waiting pays.
            let is_waited_for = || (self.state.load(Ordering::Relaxed) & (SPINNERS | WOKEN) != 0).then_some(());
            P::spin_map_bounded(Setting::Grace.number::<P>(GRACE), is_waited_for);
        }
        let must_wake = P::spin_map(|| {
            // Relaxed: the exchanges decide.
            let mut state = self.state.load(Ordering::Relaxed);
            let must_wake = state >= SLEEPER && state & (SPINNERS | WOKEN) == 0;
            if must_wake {
                // The turn must change while the lock is held, since its memory may be gone afterwards.
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

    /// Acquires the lock if it is free; else this thread, which was counted as `from`, is counted as `to` from now on,
    /// or as a sleeper if there are as many spinners as can be counted. Returns what it is, HELD if it holds the lock,
    /// and the turn that a sleeper sleeps through.
    fn acquire_or_become(&self, from: u32, to: u32) -> (u32, u32) {
        P::spin_map(|| {
            // Relaxed: the Release of the exchange that makes a sleeper keeps this look before it.
            let turn = self.turn.load(Ordering::Relaxed);
            // Relaxed: the exchange decides.
            let state = self.state.load(Ordering::Relaxed);
            let part = match state {
                _ if state & HELD == 0 => HELD,
                _ if to == SPINNER && state & SPINNERS == SPINNERS => SLEEPER,
                _ => to,
            };
            // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
            // ORDER(turn): Release pairs with the Acquire in `unlock_contended`: who finds this thread a sleeper
            // changes `turn` after the look at it above, which could otherwise see that change: this thread would
            // sleep through it.
            let order = if part == HELD { Ordering::Acquire } else { Ordering::Release };
            // A sleeper that has woken up is not on its way any more.
            let rest = state & !if from == SLEEPER { CALLED | WOKEN } else { CALLED };
            self.state.compare_exchange(state, rest - from + part, order).is_ok().then_some((part, turn))
        })
    }

    /// Spins as a spinner. Returns whether it acquired the lock.
    fn spin(&self) -> bool {
        let looks = Setting::Longest.number::<P>(LOOKS);
        let looks = if self.is_in_futex_mode() { FUTEX_MODE_LOOKS.min(looks) } else { looks };
        P::spin_map_bounded(looks, || {
            // Relaxed: a look that saves an exchange which would fail.
            let state = self.state.load(Ordering::Relaxed);
            // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
            (state & HELD == 0 && self.state.compare_exchange(state, state - SPINNER + HELD, Ordering::Acquire).is_ok())
                .then_some(())
        })
        .is_some()
    }

    #[inline]
    fn is_in_futex_mode(&self) -> bool {
        // Relaxed: a hint.
        self.record.load(Ordering::Relaxed) & FUTEX_MODE != 0
    }

    /// Counts a contended acquisition of the holder, this thread, and chooses the mode at the end of a window.
    fn learn(&self, slept: bool) {
        let window = Setting::Window.number::<P>(WINDOW);
        // Relaxed: only the holder writes.
        let mut record = self.record.load(Ordering::Relaxed) + 1 + if slept { AFTER_WAKE } else { 0 };
        let hand_overs = record & (AFTER_WAKE - 1);
        let wakes = (record & !FUTEX_MODE) / AFTER_WAKE;
        if record & FUTEX_MODE != 0 {
            record = FUTEX_MODE | hand_overs;
            if hand_overs >= window * FUTEX_MODE_WINDOWS {
                record = 0;
            }
        } else if hand_overs >= window {
            record = if wakes > window / TOLERATED { FUTEX_MODE } else { 0 };
        }
        self.record.store(record, Ordering::Relaxed);
    }
}

// SAFETY: sets HELD only where it is clear.
unsafe impl<P: Platform, const LOOKS: u32, const GRACE: u32, const WINDOW: u32> TryLock<P>
    for MutexeeLock<P, LOOKS, GRACE, WINDOW>
{
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        // Relaxed: a look that saves an exchange which would fail.
        let state = self.state.load(Ordering::Relaxed);
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        state & HELD == 0 && self.state.compare_exchange(state, state | HELD, Ordering::Acquire).is_ok()
    }
}

// SAFETY: a waiter that gives up is not counted any more.
unsafe impl<P: Platform, const LOOKS: u32, const GRACE: u32, const WINDOW: u32> TimedLock<P>
    for MutexeeLock<P, LOOKS, GRACE, WINDOW>
{
    unsafe fn lock_until(&self, cx: &(), deadline: Deadline) -> bool {
        // SAFETY: the caller keeps the contract of the call.
        unsafe { self.try_lock(cx) || self.lock_contended(Some(deadline)) }
    }
}

impl<P: Platform, const LOOKS: u32, const GRACE: u32, const WINDOW: u32> IsHeld
    for MutexeeLock<P, LOOKS, GRACE, WINDOW>
{
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.state.load(Ordering::Relaxed) & HELD != 0
    }
}
