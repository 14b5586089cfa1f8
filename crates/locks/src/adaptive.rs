//! How long to spin before sleeping, learnt from how long it took when it was worth it.
//!
//! The experience of a lock is one number. A success raises it at once to the rounds that were needed, and lowers it
//! slowly; a failure lowers it slowly, so that where waits are long nobody spins soon. A spin lasts twice the
//! experience. Now and then one lasts as long as allowed, to find out whether that has changed: where both sides of a
//! hand-off sleep, the wake-up of the other makes every shorter spin fail.

use lockswap_platform::Platform;

/// One attempt in this many lasts as long as allowed: about 50 ns on average for a spin of 50 us.
const EXPLORE: u32 = 1024;
/// A change for the lower takes one part in this many of the difference.
const SMOOTHING: u32 = 8;
/// Rounds that everybody may spin: a few cache misses.
const LEAST: u32 = 10;
/// What is assumed at first, rounds: about 2 us on the machines this was tuned on.
const INITIAL: u32 = 100;

/// Experience as it is stored: zero, the content of fresh memory, stands for [`INITIAL`].
fn decode(stored: u32) -> u32 {
    stored ^ INITIAL
}

/// Rounds to spin for, at most `most`, with the experience `stored`.
pub fn budget<P: Platform>(stored: u32, most: u32) -> u32 {
    if P::choose(EXPLORE) == 0 {
        most
    } else {
        (decode(stored) * 2 + LEAST).min(most)
    }
}

/// The experience after an attempt that succeeded after `Some(rounds)`, or failed.
pub fn learn(stored: u32, outcome: Option<u32>) -> u32 {
    let before = decode(stored);
    let sample = outcome.unwrap_or(0);
    let after = if sample >= before { sample } else { before - (before - sample).div_ceil(SMOOTHING) };
    after ^ INITIAL
}
