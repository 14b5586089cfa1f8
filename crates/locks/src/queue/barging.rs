//! The `-barging` locks: a word in front of a queue lock that running threads may take while the head of the queue
//! sleeps.
//!
//!   word: FREE | HELD | HELD + ASLEEP | HELD + ASLEEP + CLAIMED | CLAIMED       the lock proper
//!   queue ------------------------+
//!   [A head]->[B]->[C]       a queue lock whose waiters spin, then park; its holder, the head, competes for the word
//!
//! A newcomer takes a free word at once. Else it acquires the queue lock, in the published order; then it spins for
//! the word, sleeps on it, and is woken by the next release, which frees the word all the same: whoever runs may take
//! it while the head wakes up. A head that has lost so often that its patience is over claims the word as it goes to
//! sleep: the next release then leaves it to the head and to nobody else. It releases the queue lock before its
//! critical section, so that its node lives on its stack. Fairness: long-term; heads are served in the order of the
//! queue, each after `PATIENCE + 1` sleeps at the latest. Space: a word beside the queue lock's. Hand-off: the head
//! sees the word free, or is woken for it. Waiters watch their own lines, the head the lock's.
//!
//! Not published. The `_stp` locks of the study (Guiroux, Lachaize, Quéma, ATC 2016) pass the lock itself along the
//! queue. With more threads than CPUs the next one sleeps, and the lock lies idle for a wake-up at each hand-over: at
//! 16 threads on 2 CPUs that was 1/35 of the throughput of this.

use crate::info::{ByPriority, Fairness, LockInfo, Timed};
use crate::line::Line;
use crate::parameters::{spins, Default, Parameter, Parameters, Setting, Values};
use crate::{Context, IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// | word                    | held | head of the queue                          | who may take it |
/// |-------------------------|------|--------------------------------------------|-----------------|
/// | FREE                    | no   | none, awake, or being woken                | everybody       |
/// | HELD                    | yes  | none, awake, or being woken                | nobody          |
/// | HELD + ASLEEP           | yes  | sleeps, or is about to                     | nobody          |
/// | HELD + ASLEEP + CLAIMED | yes  | sleeps, or is about to; its patience is over | nobody        |
/// | CLAIMED                 | no   | being woken                                | the head        |
const FREE: u32 = 0;
const HELD: u32 = 1;
const ASLEEP: u32 = 2;
const CLAIMED: u32 = 4;

/// Sleeps after which the head of a queue may still lose the lock to running threads. Each one lasts for a wake-up, in
/// which they acquire it some hundred times: a hand-over to a sleeper after so many costs little.
pub const PATIENCE: u32 = 4;

/// The lock over its queue lock; the head sleeps at most `PATIENCE` times without a claim.
#[repr(C)]
pub struct Barging<P: Platform, L, const PATIENCE: u32> {
    word: P::U32,
    queue: L,
}

impl<P: Platform, L: RawLock<P>, const PATIENCE: u32> Barging<P, L, PATIENCE> {
    #[inline]
    fn acquire_free(&self) -> bool {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock` and `unlock_contended`.
        self.word.try_change(FREE, HELD, Ordering::Acquire)
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        let node = Line(L::Ctx::new());
        // SAFETY: a fresh context that stays until nobody looks at it. The queue is released while this thread holds
        // the lock, whose memory therefore stays.
        unsafe {
            self.queue.lock(&node);
            self.compete();
            self.queue.unlock(&node);
        }
        // At once for the queues of the catalogue. A CLH lock's successor looks at this node a little longer, and this
        // thread would wait for it inside the critical section: there is no `clh_stp-barging`.
        P::spin_map(|| node.is_reusable().then_some(()));
    }

    /// Acquires the lock at the head of the queue.
    fn compete(&self) {
        let acquire = || {
            // Relaxed: the exchange decides.
            let word = self.word.load(Ordering::Relaxed);
            // ORDER(hand-off): as in `acquire_free`.
            (word & HELD == 0 && self.word.compare_exchange(word, HELD, Ordering::Acquire).is_ok()).then_some(())
        };
        let patience = Setting::Sleeps.number::<P>(PATIENCE);
        let mut sleeps = 0;
        while P::spin_map_bounded(spins::<P>(), acquire).is_none() {
            let asleep = if sleeps < patience { HELD | ASLEEP } else { HELD | ASLEEP | CLAIMED };
            sleeps += 1;
            // Relaxed, like the look at it: the bit tells only that somebody sleeps; `acquire` acquires.
            if self.word.compare_exchange(HELD, asleep, Ordering::Relaxed).is_ok() {
                while self.word.load(Ordering::Relaxed) == asleep {
                    P::park(&self.word, asleep, None);
                }
            }
        }
    }

    /// Releases a lock whose head of the queue sleeps.
    #[cold]
    #[inline(never)]
    fn unlock_contended(&self) {
        let address: *const P::U32 = &self.word;
        let word = P::spin_map(|| {
            // Relaxed: the exchange decides.
            let word = self.word.load(Ordering::Relaxed);
            // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
            // LAST: the lock may be destroyed after this exchange; the wake-up uses the address only.
            self.word.compare_exchange(word, word & CLAIMED, Ordering::Release).ok()
        });
        if word & ASLEEP != 0 {
            P::unpark(address, 1);
        }
    }
}

// SAFETY: only an exchange that finds a word without HELD acquires; only the holder removes HELD.
unsafe impl<P: Platform, L: RawLock<P>, const PATIENCE: u32> RawLock<P> for Barging<P, L, PATIENCE> {
    const INFO: LockInfo = LockInfo {
        fairness: match L::INFO.fairness {
            Fairness::Unfair => Fairness::Unfair,
            Fairness::Fifo | Fairness::Bounded(_) | Fairness::LongTerm => Fairness::LongTerm,
        },
        timed: Timed::Poll,
        summary: "a queue whose waiters spin, then park, below a word that running threads may take",
        paper: "none: ours",
        by_priority: ByPriority::Barging,
        keeps_up: true,
        ..L::INFO
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "sleeps",
            values: Values::Number(Setting::Sleeps, 0, 1_000_000, "sleeps"),
            default: Default::Number(PATIENCE),
            summary: "sleeps of the head of the queue after which it claims the lock",
            source: "bench oversub: one more hardly shows, see `PATIENCE` in the source",
        }],
        inside: &[L::PARAMETERS],
    };
    type Ctx = ();

    fn new() -> Self {
        Barging { word: P::U32::new(FREE), queue: L::new() }
    }

    fn is_quiet(&self) -> bool {
        self.queue.is_quiet()
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        if !self.acquire_free() {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // ORDER(hand-off): Release pairs with the Acquire of the next acquisition; publishes the critical section.
        // LAST: the lock may be destroyed after this exchange.
        if self.word.compare_exchange(HELD, FREE, Ordering::Release).is_err() {
            self.unlock_contended();
        }
    }
}

// SAFETY: acquires only from FREE. A claimed word is one that the head is acquiring.
unsafe impl<P: Platform, L: RawLock<P>, const PATIENCE: u32> TryLock<P> for Barging<P, L, PATIENCE> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.acquire_free()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, L: RawLock<P>, const PATIENCE: u32> TimedLock<P> for Barging<P, L, PATIENCE> {}

impl<P: Platform, L, const PATIENCE: u32> IsHeld for Barging<P, L, PATIENCE> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.word.load(Ordering::Relaxed) != FREE
    }
}
