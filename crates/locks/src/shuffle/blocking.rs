//! How the waiters of a ShflLock wait, and how its holder lets go: the spinning and the blocking flavour.

use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use crate::waiting::{Spin, SpinThenPark, Waiting, GRANTED};
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// The lock proper.
///
/// | held      | holder | head of the queue |
/// |-----------|--------|-------------------|
/// | FREE      | no     | awake             |
/// | HELD      | yes    | awake             |
/// | HEAD_ASLEEP | yes  | parked, or about to (blocking flavour) |
pub const FREE: u32 = 0;
/// See [`FREE`].
pub const HELD: u32 = 1;
/// See [`FREE`].
pub const HEAD_ASLEEP: u32 = 2;

/// How often the head of the queue may lose to newcomers before it stops sleeping.
pub const PATIENCE: u32 = 8;

/// How waiters wait, and how the lock is released. A waiter that sleeps does so after `looks` looks.
pub trait Blocking: Waiting {
    /// What users may choose of how the head waits.
    const OF_THE_HEAD: Parameters;
    /// Waits until `status` is granted, which it returns, or, as long as this thread is awake, until `has_work` says
    /// so.
    fn wait_turn<P: Platform>(status: &P::U32, looks: u32, has_work: impl Fn() -> bool) -> bool;
    /// Waits until the lock looks free, or, as long as this thread is awake, until `has_work` says so.
    fn wait_free<P: Platform>(held: &P::U32, looks: u32, has_work: impl Fn() -> bool);
    /// Marks the lock free; the lock's memory may be gone when this returns.
    fn release<P: Platform>(held: &P::U32);
}

/// Whether it is the waiter's turn, or else whether it has work; nothing if neither.
fn turn_or_work<P: Platform>(status: &P::U32, has_work: &impl Fn() -> bool) -> Option<bool> {
    // ORDER(head): Acquire pairs with the Release in `Waiting::grant`: a shuffler may have moved this waiter's link.
    let granted = status.load(Ordering::Acquire) == GRANTED;
    (granted || has_work()).then_some(granted)
}

impl Blocking for Spin {
    const OF_THE_HEAD: Parameters = Parameters::NONE;

    fn wait_turn<P: Platform>(status: &P::U32, _: u32, has_work: impl Fn() -> bool) -> bool {
        P::spin_map(|| turn_or_work::<P>(status, &has_work))
    }

    #[inline]
    fn wait_free<P: Platform>(held: &P::U32, _: u32, has_work: impl Fn() -> bool) {
        // Relaxed: the swap that follows acquires.
        P::spin_map(|| (held.load(Ordering::Relaxed) == FREE || has_work()).then_some(()));
    }

    #[inline]
    fn release<P: Platform>(held: &P::U32) {
        // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
        // LAST: the lock may be destroyed after this store.
        held.store(FREE, Ordering::Release);
    }
}

impl Blocking for SpinThenPark {
    const OF_THE_HEAD: Parameters = Parameters {
        own: &[Parameter {
            key: "patience",
            values: Values::Number(Setting::Patience, 0, 1_000_000_000, "losses"),
            default: Default::Number(PATIENCE),
            summary: "times that newcomers take the lock from the head of the queue before it stops sleeping",
            source: "ours: the published head never sleeps, which takes a CPU from the holder where there are too few",
        }],
        inside: &[],
    };

    fn wait_turn<P: Platform>(status: &P::U32, looks: u32, has_work: impl Fn() -> bool) -> bool {
        loop {
            if let Some(granted) = P::spin_map_bounded(looks, || turn_or_work::<P>(status, &has_work)) {
                return granted;
            }
            Self::sleep::<P>(status);
        }
    }

    fn wait_free<P: Platform>(held: &P::U32, looks: u32, has_work: impl Fn() -> bool) {
        // Relaxed, like all accesses of this function: the swap that follows acquires.
        let free = || held.load(Ordering::Relaxed) == FREE;
        if P::spin_map_bounded(looks, || (free() || has_work()).then_some(())).is_some() {
            return;
        }
        while !free() {
            let asleep = held.compare_exchange(HELD, HEAD_ASLEEP, Ordering::Relaxed);
            if asleep != Err(FREE) {
                P::park(held, HEAD_ASLEEP, None);
            }
        }
    }

    #[inline]
    fn release<P: Platform>(held: &P::U32) {
        let address: *const P::U32 = held;
        // ORDER(hand-off): Release pairs with the Acquire of the next swap; publishes the critical section.
        // LAST: the lock may be destroyed after this swap; the wake-up uses the address only.
        if held.swap(FREE, Ordering::Release) == HEAD_ASLEEP {
            P::unpark(address, 1);
        }
    }
}
