//! How much slower a hardware thread is beside another one of its core.

use std::time::{Duration, Instant};

use lockswap_platform::{Native, Platform};

use super::{on_both, Samples, Turn};
use crate::probe::ProbeError;

/// Steps of a sample.
const STEPS: u64 = 20_000;
/// Samples of each sort that one call adds.
const ROUNDS: u32 = 10;

/// How many times longer the same computation takes.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// Beside a sibling that computes.
    pub busy: Samples,
    /// Beside a sibling that waits in a loop of pauses.
    pub spinning: Samples,
}

impl Costs {
    /// Adds all samples of `others`.
    pub fn extend(&mut self, others: Self) {
        self.busy.extend(others.busy);
        self.spinning.extend(others.spinning);
    }
}

/// Adds samples of `first`, whose sibling is `second`.
pub fn measure(first: usize, second: usize, costs: &mut Costs) -> Result<(), ProbeError> {
    let timed = || {
        let start = Instant::now();
        Native::compute(STEPS);
        start.elapsed().as_secs_f64()
    };
    let one = |turn: &Turn| {
        let mut found = Costs::default();
        for round in 0..ROUNDS {
            if !turn.wait(3 * round) {
                break;
            }
            // The sibling sleeps, then computes, then spins while it waits for the next round.
            let alone = timed();
            turn.pass(3 * round + 1);
            std::thread::sleep(Duration::from_micros(300));
            found.busy.push(timed() / alone);
            if !turn.wait(3 * round + 2) {
                break;
            }
            found.spinning.push(timed() / alone);
            turn.pass(3 * round + 3);
        }
        found
    };
    let other = |turn: &Turn| {
        for round in 0..ROUNDS {
            while turn.0.load(std::sync::atomic::Ordering::Acquire) == 3 * round {
                std::thread::sleep(Duration::from_micros(50));
            }
            let start = Instant::now();
            while start.elapsed() < Duration::from_millis(1) {
                Native::compute(100);
            }
            turn.pass(3 * round + 2);
            if !turn.wait(3 * round + 3) {
                break;
            }
        }
    };
    let (found, ()) = on_both((first, one), (second, other))?;
    costs.extend(found);
    Ok(())
}
