//! Hierarchical back-off lock (Radovic, Hagersten, HPCA 2003, sections 4 and 5).
//!
//!   holder: FREE | node of the holder        a waiter comes back soon if the holder is of its node, late if not
//!   next, serving: tickets of the impatient  while there is one, only the thread being served may acquire
//!
//! Fairness: long-term. Space: three words. Hand-off: whoever comes first; a waiter of the holder's node looks more
//! often.
//!
//! Deviations: the paper bounds starvation by node: a waiter that is angry makes the threads of other nodes hold off,
//! but nobody is served for sure. Here each waiter becomes impatient after a bounded time, and the impatient are
//! served in order, before everybody else but those few who have just looked. There is no throttling of a node's
//! traffic (its `GT` variant): the threads of one node watch one word.

use crate::info::{Asks, ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use lockswap_platform::{AtomicInt, Clock, Deadline, Ns, Ordering, Platform};

const FREE: u32 = 0;

/// First and longest back-off while a thread of the same node holds the lock, pauses.
const LOCAL: (u32, u32) = (8, 256);
/// First and longest back-off while a thread of another node holds the lock, pauses.
const REMOTE: (u32, u32) = (256, 1024);

/// One of the limits of the back-off.
const fn limit(key: &'static str, setting: Setting, default: u32, summary: &'static str) -> Parameter {
    Parameter {
        key,
        values: Values::Number(setting, 0, 100_000, "pauses"),
        default: Default::Number(default),
        summary,
        source: "tuned here, as the paper tunes its own to its machine",
    }
}

/// The lock. A waiter backs off `ROUNDS` times, then watches the lock for `PATIENCE` ns, then becomes impatient.
#[repr(C)]
pub struct HboLock<P: Platform, const ROUNDS: u32, const PATIENCE: Ns> {
    /// [`FREE`], or the node of the holder plus one.
    holder: P::U32,
    /// The next ticket of an impatient thread.
    next: P::U32,
    /// The ticket of the impatient thread that may acquire; `next` if there is none.
    serving: P::U32,
}

/// Up to 300 us of back-off as in the paper, then 100 ms: the impatient are served in order, which is slow where
/// threads outnumber CPUs, so nobody becomes impatient for a few lost time slices.
pub type Hbo<P> = HboLock<P, 16, 100_000_000>;

impl<P: Platform, const ROUNDS: u32, const PATIENCE: Ns> HboLock<P, ROUNDS, PATIENCE> {
    #[inline]
    fn acquire_free(&self) -> bool {
        // Relaxed: spares a look at the CPU and an exchange that would fail.
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        self.holder.load(Ordering::Relaxed) == FREE
            && self.holder.compare_exchange(FREE, P::node() + 1, Ordering::Acquire).is_ok()
    }

    #[inline]
    fn someone_is_impatient(&self) -> bool {
        // Relaxed: the answer delays a thread, no more; it is true soon after an impatient thread has come.
        self.next.load(Ordering::Relaxed) != self.serving.load(Ordering::Relaxed)
    }

    #[inline]
    fn attempt(&self) -> bool {
        !self.someone_is_impatient() && self.acquire_free()
    }

    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        let limits = |shortest: Setting, longest: Setting, default: (u32, u32)| {
            (shortest.number::<P>(default.0), longest.number::<P>(default.1))
        };
        let local = limits(Setting::Shortest, Setting::Longest, LOCAL);
        let remote = limits(Setting::RemoteShortest, Setting::RemoteLongest, REMOTE);
        let mut delay = 0;
        for _ in 0..ROUNDS {
            // Relaxed: decides how long to stay away.
            let is_local = self.holder.load(Ordering::Relaxed) == P::node() + 1;
            let (shortest, longest) = if is_local { local } else { remote };
            delay = (delay * 2).max(shortest).min(longest);
            P::relax(delay);
            if self.attempt() {
                return;
            }
        }
        let deadline =
            Deadline { clock: Clock::Monotonic, at: P::now(Clock::Monotonic) + Setting::Patience.time::<P>(PATIENCE) };
        if P::spin_map_until(deadline, || self.attempt().then_some(())).is_none() {
            self.lock_impatiently();
        }
    }

    fn lock_impatiently(&self) {
        // Relaxed, all three: tickets decide who tries; the exchange of `holder` acquires what the lock protects.
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        P::spin_map(|| (self.serving.load(Ordering::Relaxed) == mine).then_some(()));
        P::spin_map(|| self.acquire_free().then_some(()));
        self.serving.store(mine.wrapping_add(1), Ordering::Relaxed);
    }
}

// SAFETY: only one exchange of FREE succeeds until `unlock` writes FREE, its last access.
unsafe impl<P: Platform, const ROUNDS: u32, const PATIENCE: Ns> RawLock<P> for HboLock<P, ROUNDS, PATIENCE> {
    const INFO: LockInfo = LockInfo {
        id: "hbo",
        family: Family::Numa,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::LongTerm,
        timed: Timed::Poll,
        summary: "test-and-set with a longer back-off while the holder is of another NUMA node",
        paper: "Radovic, Hagersten: HPCA 2003, sections 4 and 5",
        asks: Asks::LOCALITY,
        by_priority: ByPriority::Barging,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = Parameters {
        own: &[
            limit(
                "shortest",
                Setting::Shortest,
                LOCAL.0,
                "first back-off while a thread of the same NUMA node holds the lock",
            ),
            limit("longest", Setting::Longest, LOCAL.1, "up to this it doubles"),
            limit(
                "remote-shortest",
                Setting::RemoteShortest,
                REMOTE.0,
                "first back-off while a thread of another NUMA node holds the lock",
            ),
            limit("remote-longest", Setting::RemoteLongest, REMOTE.1, "up to this that doubles"),
            Parameter {
                key: "patience",
                values: Values::Time(Setting::Patience),
                default: Default::Time(PATIENCE),
                summary: "how long a waiter watches the lock, after its back-off, before it is served in order",
                source: "chosen here: many time slices of the scheduler; the paper counts attempts",
            },
        ],
        inside: &[],
    };
    type Ctx = ();

    fn new() -> Self {
        HboLock { holder: P::U32::new(FREE), next: P::U32::new(0), serving: P::U32::new(0) }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        if !self.attempt() {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // ORDER(hand-off): Release pairs with the Acquire of the next exchange; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        self.holder.store(FREE, Ordering::Release);
    }
}

// SAFETY: acquires only from FREE. It fails on a free lock only while an impatient thread is acquiring it.
unsafe impl<P: Platform, const ROUNDS: u32, const PATIENCE: Ns> TryLock<P> for HboLock<P, ROUNDS, PATIENCE> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        self.attempt()
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const ROUNDS: u32, const PATIENCE: Ns> TimedLock<P> for HboLock<P, ROUNDS, PATIENCE> {}

impl<P: Platform, const ROUNDS: u32, const PATIENCE: Ns> IsHeld for HboLock<P, ROUNDS, PATIENCE> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.holder.load(Ordering::Relaxed) != FREE
    }
}
