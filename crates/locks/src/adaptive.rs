//! How long to spin before sleeping, learnt from how long it took when it was worth it.
//!
//! A budget is twice the running average of the successful attempts. A failed attempt counts as 0, so that a lock whose
//! waits are long soon is not spun on at all; now and then an attempt gets the whole budget, to find out whether that has
//! changed.

use lockswap_platform::Platform;

/// Weight of the history in the running average.
const SMOOTHING: i32 = 8;
/// One attempt in this many gets the whole budget.
const EXPLORE: u32 = 64;
/// Rounds that everybody may spin: a few cache misses.
const LEAST: u32 = 10;

/// Rounds to spin for, at most `most`, when the running average is `average`.
pub fn budget<P: Platform>(average: u32, most: u32) -> u32 {
    if P::choose(EXPLORE) == 0 {
        most
    } else {
        (average * 2 + LEAST).min(most)
    }
}

/// The running average after an attempt that succeeded after `Some(rounds)`, or failed.
pub fn learn(average: u32, outcome: Option<u32>) -> u32 {
    let difference = outcome.unwrap_or(0) as i32 - average as i32;
    // Rounded away from zero, so that the average reaches what it is told.
    let step = (difference + (SMOOTHING - 1) * difference.signum()) / SMOOTHING;
    average.saturating_add_signed(step)
}
