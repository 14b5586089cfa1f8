//! glibc's mutexes, which programs have without lockswap: what simulated locks are compared with.
//!
//! After glibc 2.36 (`nptl/pthread_mutex_lock.c`, `nptl/lowlevellock.c`); the word is that of mutex 2 in Drepper,
//! "Futexes Are Tricky", 2011:
//!
//!   state:  FREE --lock--> HELD --a waiter sleeps--> CONTENDED --unlock wakes one--> FREE
//!
//! The holder also writes who it is and how many use the mutex, in the same cache line. The adaptive kind spins before
//! it sleeps; its pauses between two attempts do not grow here as they do in glibc. On hardware the real ones are
//! measured.

use lockswap_locks::info::{ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use lockswap_locks::registry::{PTHREAD, PTHREAD_ADAPTIVE};
use lockswap_locks::RawLock;
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// Nobody holds it.
const FREE: u32 = 0;
/// Held, and nobody sleeps.
const HELD: u32 = 1;
/// Held, and somebody may sleep.
const CONTENDED: u32 = 2;

/// Most attempts of the adaptive kind (`glibc.pthread.mutex_spin_count`).
const MOST_SPINS: u32 = 100;

/// A mutex of the normal or of the adaptive kind.
pub struct Mutex<P: Platform, const ADAPTIVE: bool> {
    state: P::U32,
    owner: P::U32,
    users: P::U32,
    /// How many attempts it took lately.
    spins: P::U32,
}

impl<P: Platform, const ADAPTIVE: bool> Mutex<P, ADAPTIVE> {
    fn acquire_free(&self) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.state.compare_exchange(FREE, HELD, Ordering::Acquire).is_ok()
    }

    fn sleep(&self) {
        // Relaxed: only decides whether the first exchange is left out; what follows decides who holds it.
        if self.state.load(Ordering::Relaxed) == CONTENDED {
            P::park(&self.state, CONTENDED, None);
        }
        // Others may sleep as well, and whoever wakes this thread has erased that from the state: assume it.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        while self.state.swap(CONTENDED, Ordering::Acquire) != FREE {
            P::park(&self.state, CONTENDED, None);
        }
    }

    /// Twice as many attempts as were needed lately, then sleeps.
    fn spin_then_sleep(&self) {
        // Relaxed: a hint.
        let lately = self.spins.load(Ordering::Relaxed);
        let mut attempts = 0;
        let acquired = P::spin_map_bounded(MOST_SPINS.min(2 * lately + 10), || {
            attempts += 1;
            // Relaxed: only decides whether the exchange is worth its price.
            (self.state.load(Ordering::Relaxed) == FREE && self.acquire_free()).then_some(())
        });
        if acquired.is_none() && !self.acquire_free() {
            self.sleep();
        }
        // Relaxed: written by holders only.
        let now = i64::from(lately) + (i64::from(attempts) - i64::from(lately)) / 8;
        self.spins.store(now as u32, Ordering::Relaxed);
    }
}

// SAFETY: only an exchange that found FREE acquires; `unlock` writes FREE, its last access.
unsafe impl<P: Platform, const ADAPTIVE: bool> RawLock<P> for Mutex<P, ADAPTIVE> {
    const INFO: LockInfo = LockInfo {
        id: if ADAPTIVE { PTHREAD_ADAPTIVE } else { PTHREAD },
        family: Family::Native,
        waiting: if ADAPTIVE { WaitingPolicy::Adaptive } else { WaitingPolicy::SpinThenPark },
        fairness: Fairness::Unfair,
        timed: Timed::Native,
        summary: "glibc's mutex as the simulation has it: the baseline",
        paper: "Drepper: Futexes Are Tricky, 2011",
        by_priority: ByPriority::Kernel,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    type Ctx = ();

    fn new() -> Self {
        let [state, owner, users, spins] = [FREE, 0, 0, 0].map(P::U32::new);
        Self { state, owner, users, spins }
    }

    unsafe fn lock(&self, (): &()) {
        if !self.acquire_free() {
            if ADAPTIVE {
                self.spin_then_sleep();
            } else {
                self.sleep();
            }
        }
        // Relaxed: only holders use both; the hand-off orders them.
        self.owner.store(1, Ordering::Relaxed);
        self.users.store(self.users.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    unsafe fn unlock(&self, (): &()) {
        // Relaxed: as in `lock`.
        self.owner.store(0, Ordering::Relaxed);
        self.users.store(self.users.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
        let address: *const P::U32 = &self.state;
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this swap; the wake-up uses the address only.
        if self.state.swap(FREE, Ordering::Release) == CONTENDED {
            P::unpark(address, 1);
        }
    }
}
