//! Adaptive spin-then-park lock with barging: the general default (three-state futex lock after Drepper, "Futexes Are
//! Tricky", 2011, mutex 2; spin time adapted as in glibc's adaptive mutex).
//!
//!   state:  FREE --lock--> HELD --a waiter parks--> CONTENDED --unlock wakes one--> FREE
//!   spins:  how long it was worth to spin (see `adaptive`)
//!
//! Fairness: none; a newcomer may take the lock before the thread that was woken for it. Space: two words. Hand-off:
//! none, the lock becomes free. Waiters spin on the lock's line for a bounded time, then sleep in the kernel.

use crate::info::{ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{adaptive, IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Deadline, Ordering, Platform, Wake};

/// | state     | holder | sleeping waiters |
/// |-----------|--------|------------------|
/// | FREE      | no     | only ones that have been woken, or will be by their waker |
/// | HELD      | yes    | none             |
/// | CONTENDED | yes    | perhaps          |
const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

/// Most rounds that a waiter spins: about 20 us on the machines this was tuned on, the price of a park and a wake-up.
const MOST_SPINS: u32 = 1_000;

/// The lock.
#[repr(C)]
pub struct Futex<P: Platform> {
    state: P::U32,
    spins: P::U32,
}

impl<P: Platform> Futex<P> {
    #[inline]
    fn acquire_free(&self, new: u32) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.state.try_change(FREE, new, Ordering::Acquire)
    }

    /// Spins for a time that has paid off before. Returns whether it acquired the lock.
    fn spin(&self) -> bool {
        // Relaxed: a hint; racing updates lose one sample.
        let experience = self.spins.load(Ordering::Relaxed);
        let mut rounds = 0;
        let most = Setting::Longest.number::<P>(MOST_SPINS);
        let outcome = P::spin_map_bounded(adaptive::budget::<P>(experience, most), || {
            rounds += 1;
            self.acquire_free(HELD).then_some(rounds)
        });
        self.spins.store(adaptive::learn(experience, outcome), Ordering::Relaxed);
        outcome.is_some()
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self, deadline: Option<Deadline>) -> bool {
        if self.spin() {
            return true;
        }
        // Others may sleep as well, and whoever wakes this thread has erased that from the state: assume it.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        while self.state.swap(CONTENDED, Ordering::Acquire) != FREE {
            if P::park(&self.state, CONTENDED, deadline) == Wake::TimedOut {
                // A wake-up is lost only if this thread consumed it, and then `park` did not time out.
                return self.acquire_free(CONTENDED);
            }
        }
        true
    }
}

// SAFETY: only an exchange that found FREE acquires; `unlock` writes FREE, its last access.
unsafe impl<P: Platform> RawLock<P> for Futex<P> {
    const INFO: LockInfo = LockInfo {
        id: "futex",
        family: Family::Flat,
        waiting: WaitingPolicy::Adaptive,
        fairness: Fairness::Unfair,
        timed: Timed::Native,
        summary: "the safe general default: spins as long as it pays off, then sleeps; newcomers may barge in",
        paper: "Drepper: Futexes Are Tricky, 2011",
        by_priority: ByPriority::Kernel,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "longest",
            values: Values::Number(Setting::Longest, 0, 1_000_000, "looks"),
            default: Default::Number(MOST_SPINS),
            summary: "most looks at the lock before a waiter sleeps; how many it takes is learnt",
            source: "about 20 us on the machines that this was tuned on, the price of a sleep and a wake-up",
        }],
        inside: &[],
    };
    type Ctx = ();

    fn new() -> Self {
        Futex { state: P::U32::new(FREE), spins: P::U32::new(0) }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        if self.state.compare_exchange(FREE, HELD, Ordering::Acquire).is_err() {
            self.lock_contended(None);
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        let address: *const P::U32 = &self.state;
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this swap; the wake-up uses the address only.
        if self.state.swap(FREE, Ordering::Release) == CONTENDED {
            P::unpark(address, 1);
        }
    }
}

// SAFETY: acquires only from FREE.
unsafe impl<P: Platform> TryLock<P> for Futex<P> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.acquire_free(HELD)
    }
}

// SAFETY: a waiter leaves nothing behind but CONTENDED, which costs one needless wake-up.
unsafe impl<P: Platform> TimedLock<P> for Futex<P> {
    unsafe fn lock_until(&self, (): &(), deadline: Deadline) -> bool {
        self.acquire_free(HELD) || self.lock_contended(Some(deadline))
    }
}

impl<P: Platform> IsHeld for Futex<P> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.state.load(Ordering::Relaxed) != FREE
    }
}
