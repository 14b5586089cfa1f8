//! What users have chosen for this process: values of parameters of locks, and how long a sleep takes.

use crate::SETTINGS;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Each value plus 1; 0 where none was chosen.
static VALUES: [AtomicU64; SETTINGS] = [const { AtomicU64::new(0) }; SETTINGS];

/// Rounds of spinning as long as a round trip through a sleep. At first what that was on the machines that this was
/// tuned on, about 10 us.
static SPINS_BEFORE_PARK: AtomicU32 = AtomicU32::new(500);

/// Chooses `value` for the parameter with this number.
pub fn set(number: usize, value: u64) {
    // Relaxed, here and below: set before a second thread uses locks.
    VALUES[number].store(value.saturating_add(1), Ordering::Relaxed);
}

/// Says that so many rounds last as long as a round trip through a sleep.
pub fn set_spins_before_park(rounds: u32) {
    SPINS_BEFORE_PARK.store(rounds, Ordering::Relaxed);
}

#[inline]
pub(super) fn get(number: usize) -> Option<u64> {
    VALUES[number].load(Ordering::Relaxed).checked_sub(1)
}

#[inline]
pub(super) fn spins_before_park() -> u32 {
    SPINS_BEFORE_PARK.load(Ordering::Relaxed)
}
