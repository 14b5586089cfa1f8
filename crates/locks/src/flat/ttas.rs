//! Test-and-set locks (Rudolph, Segall, ISCA 1984; Anderson, TPDS 1(1), 1990) in four flavours of what a waiter does.
//!
//!   word: FREE | HELD
//!
//!   flavour        a waiter ...
//!   `ttas`         reads the word until it is free, then tries to exchange it
//!   `ttas-ls`      as `ttas`; after an exchange that another thread won, it stays away for a random, growing time
//!   `spinlock`     tries to exchange the word, again and again
//!   `spinlock-ls`  as `spinlock`, with an unconditional swap, which writes even while the lock is held
//!
//! Fairness: none. Space: one word. Hand-off: whoever exchanges first. Waiters spin on the lock's line: those that
//! read share it, those that only exchange take it from each other and from the holder.
//!
//! The `-ls` flavours are those of libslock (David, Guerraoui, Trigonakis, SOSP 2013). Deviations: back-off in pauses
//! instead of cycles; it starts anew with each acquisition instead of with each thread; waits yield and nap in the
//! end.

use super::CYCLES_PER_PAUSE;
use crate::info::{ByPriority, Fairness, Family, LockInfo, Timed, WaitingPolicy};
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::{IsHeld, RawLock, TimedLock, TryLock};
use core::marker::PhantomData;
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// What a waiter does until it has changed the word from free to held.
pub trait Contend: Send + Sync + 'static {
    /// The id of the lock.
    const ID: &'static str;
    /// One line on the lock.
    const SUMMARY: &'static str;
    /// Where the flavour comes from.
    const PAPER: &'static str;
    /// What users may choose.
    const PARAMETERS: Parameters = Parameters::NONE;
    /// Changes `word` from `FREE` to `HELD`, with Acquire order.
    fn acquire<P: Platform, const FREE: u32, const HELD: u32>(word: &P::U32);
}

/// ORDER(hand-off): Acquire pairs with the Release in `unlock`.
#[inline(always)]
fn exchange<P: Platform, const FREE: u32, const HELD: u32>(word: &P::U32) -> bool {
    word.compare_exchange(FREE, HELD, Ordering::Acquire).is_ok()
}

/// Relaxed: a look that saves an exchange which would fail.
#[inline(always)]
fn is_free<P: Platform, const FREE: u32>(word: &P::U32) -> bool {
    word.load(Ordering::Relaxed) == FREE
}

/// Reads before it exchanges.
pub struct Reads;

impl Contend for Reads {
    const ID: &'static str = "ttas";
    const SUMMARY: &'static str = "test-and-test-and-set: waiters read until the lock is free, then race for it";
    const PAPER: &'static str = "Rudolph, Segall: ISCA 1984";

    fn acquire<P: Platform, const FREE: u32, const HELD: u32>(word: &P::U32) {
        P::spin_map(|| (is_free::<P, FREE>(word) && exchange::<P, FREE, HELD>(word)).then_some(()));
    }
}

/// Reads before it exchanges; after a lost race it stays away for less than a limit, which doubles from `SHORTEST` to
/// `LONGEST` pauses.
pub struct ReadsAndBacksOff<const SHORTEST: u32, const LONGEST: u32>;

impl<const SHORTEST: u32, const LONGEST: u32> Contend for ReadsAndBacksOff<SHORTEST, LONGEST> {
    const ID: &'static str = "ttas-ls";
    const SUMMARY: &'static str = "test-and-test-and-set with a random back-off after each lost race";
    const PAPER: &'static str = "David, Guerraoui, Trigonakis: SOSP 2013";
    const PARAMETERS: Parameters = Parameters {
        own: &[
            Parameter {
                key: "shortest",
                values: Values::Number(Setting::Shortest, 1, 100_000, "pauses"),
                default: Default::Number(SHORTEST),
                summary: "limit of the first random back-off of an acquisition",
                source: "libslock: 100 cycles; a pause is taken for 40",
            },
            Parameter {
                key: "longest",
                values: Values::Number(Setting::Longest, 1, 100_000, "pauses"),
                default: Default::Number(LONGEST),
                summary: "up to this the limit doubles",
                source: "libslock: 1000 cycles; a pause is taken for 40",
            },
        ],
        inside: &[],
    };

    fn acquire<P: Platform, const FREE: u32, const HELD: u32>(word: &P::U32) {
        let longest = Setting::Longest.number::<P>(LONGEST);
        let mut limit = Setting::Shortest.number::<P>(SHORTEST);
        loop {
            P::spin_map(|| is_free::<P, FREE>(word).then_some(()));
            if exchange::<P, FREE, HELD>(word) {
                return;
            }
            P::relax(P::choose(limit));
            limit = (limit * 2).min(longest);
        }
    }
}

/// Exchanges without reading.
pub struct Exchanges;

impl Contend for Exchanges {
    const ID: &'static str = "spinlock";
    const SUMMARY: &'static str = "test-and-set: waiters race for the lock all the time";
    const PAPER: &'static str = "Anderson: TPDS 1(1), 1990";

    fn acquire<P: Platform, const FREE: u32, const HELD: u32>(word: &P::U32) {
        P::spin_map(|| exchange::<P, FREE, HELD>(word).then_some(()));
    }
}

/// Swaps without reading.
pub struct Swaps;

impl Contend for Swaps {
    const ID: &'static str = "spinlock-ls";
    const SUMMARY: &'static str = "test-and-set by unconditional swaps, a pause between two";
    const PAPER: &'static str = "David, Guerraoui, Trigonakis: SOSP 2013";

    fn acquire<P: Platform, const FREE: u32, const HELD: u32>(word: &P::U32) {
        // ORDER(hand-off): Acquire pairs with the Release in `unlock`.
        P::spin_map(|| (word.swap(HELD, Ordering::Acquire) == FREE).then_some(()));
    }
}

/// The lock over what its waiters do, with the encoding of its word as a parameter: glibc's spinlock has another one
/// than ours, and a lock that stands in for it must keep it.
#[repr(transparent)]
pub struct TtasWord<P: Platform, const FREE: u32, const HELD: u32, C = Reads> {
    word: P::U32,
    contend: PhantomData<C>,
}

/// Test-and-test-and-set in our own encoding.
pub type Ttas<P> = TtasWord<P, 0, 1>;
/// libslock's flavour: 100 to 1000 cycles of back-off.
pub type TtasLs<P> = TtasWord<P, 0, 1, ReadsAndBacksOff<{ 100 / CYCLES_PER_PAUSE }, { 1000 / CYCLES_PER_PAUSE }>>;
/// Test-and-set.
pub type Spinlock<P> = TtasWord<P, 0, 1, Exchanges>;
/// libslock's flavour.
pub type SpinlockLs<P> = TtasWord<P, 0, 1, Swaps>;

/// Test-and-test-and-set in the encoding of glibc's `pthread_spinlock_t`.
#[cfg(target_arch = "x86_64")]
pub type GlibcTtas<P> = TtasWord<P, 1, 0>;
/// Test-and-test-and-set in the encoding of glibc's `pthread_spinlock_t`.
#[cfg(not(target_arch = "x86_64"))]
pub type GlibcTtas<P> = TtasWord<P, 0, 1>;

impl<P: Platform, const FREE: u32, const HELD: u32, C: Contend> TtasWord<P, FREE, HELD, C> {
    #[cold]
    #[inline(never)]
    fn lock_contended(&self) {
        C::acquire::<P, FREE, HELD>(&self.word);
    }
}

// SAFETY: only one exchange of FREE for HELD succeeds until `unlock` writes FREE, its last access.
unsafe impl<P: Platform, const FREE: u32, const HELD: u32, C: Contend> RawLock<P> for TtasWord<P, FREE, HELD, C> {
    const INFO: LockInfo = LockInfo {
        id: C::ID,
        family: Family::Flat,
        waiting: WaitingPolicy::Spin,
        fairness: Fairness::Unfair,
        timed: Timed::Poll,
        summary: C::SUMMARY,
        paper: C::PAPER,
        by_priority: ByPriority::Barging,
        keeps_up: true,
        ..LockInfo::PLAIN
    };
    const PARAMETERS: Parameters = C::PARAMETERS;
    type Ctx = ();

    fn new() -> Self {
        TtasWord { word: P::U32::new(FREE), contend: PhantomData }
    }

    #[inline]
    unsafe fn lock(&self, (): &()) {
        if !exchange::<P, FREE, HELD>(&self.word) {
            self.lock_contended();
        }
    }

    #[inline]
    unsafe fn unlock(&self, (): &()) {
        // ORDER(hand-off): Release pairs with the Acquire of the next exchange; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        self.word.store(FREE, Ordering::Release);
    }
}

// SAFETY: the word is HELD exactly while the lock is held.
unsafe impl<P: Platform, const FREE: u32, const HELD: u32, C: Contend> TryLock<P> for TtasWord<P, FREE, HELD, C> {
    #[inline(always)]
    unsafe fn try_lock(&self, (): &()) -> bool {
        is_free::<P, FREE>(&self.word) && exchange::<P, FREE, HELD>(&self.word)
    }
}

// SAFETY: the provided method.
unsafe impl<P: Platform, const FREE: u32, const HELD: u32, C: Contend> TimedLock<P> for TtasWord<P, FREE, HELD, C> {}

impl<P: Platform, const FREE: u32, const HELD: u32, C> IsHeld for TtasWord<P, FREE, HELD, C> {
    #[inline]
    fn is_held(&self) -> bool {
        // Relaxed: as [`IsHeld`] says.
        self.word.load(Ordering::Relaxed) != FREE
    }
}
