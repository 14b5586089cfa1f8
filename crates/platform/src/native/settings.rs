//! What users have chosen for this process: values of parameters of locks, and how long a sleep takes; and how long a
//! round of spinning does.

use super::instant;
use crate::{Ns, SETTINGS};
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

/// How long [`ROUNDS`] rounds of spinning take, ns; 0 until that has been measured.
static TRIAL: AtomicU32 = AtomicU32::new(0);

/// Rounds of spinning in a trial. The least of some trials counts: other programs only ever make one longer.
const ROUNDS: u32 = 64;
const TRIALS: u32 = 4;

/// Rounds of spinning that last so long, at least one. Measured once, which takes some us.
pub(super) fn rounds(ns: Ns) -> u32 {
    // Relaxed, both: a number that stands for itself; two threads may measure it.
    let mut took = TRIAL.load(Ordering::Relaxed);
    if took == 0 {
        took = (0..TRIALS).map(|_| trial()).min().unwrap_or(0).clamp(1, u32::MAX.into()) as u32;
        TRIAL.store(took, Ordering::Relaxed);
    }
    (ns.saturating_mul(ROUNDS.into()) / Ns::from(took)).clamp(1, u32::MAX.into()) as u32
}

/// How long a trial takes, ns.
fn trial() -> Ns {
    let begin = instant::now();
    (0..ROUNDS).for_each(|_| core::hint::spin_loop());
    instant::now().saturating_sub(begin)
}
