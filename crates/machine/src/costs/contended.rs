//! A line that two CPUs use at once.
//!
//! The first CPU exchanges a word, one time after the other; the second one looks at it again and again, with a pause
//! between two looks, as a waiter does. Each look takes the line away. How many exchanges there are to a look tells
//! how long the first CPU keeps the line once it has it back.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicU32, Ordering};

use super::{on_both, Samples, Turn};
use crate::probe::ProbeError;

/// Exchanges of a sample.
const EXCHANGES: u32 = 4_000;
/// Looks after which the second CPU says how many there were.
const LOOKS: u32 = 10;
/// Samples that one call adds.
const ROUNDS: u32 = 20;

/// A word with two neighbouring lines for itself.
#[repr(align(128))]
#[derive(Default)]
struct Alone(AtomicU32);

/// Adds samples of how many exchanges `first` makes from one look of `second` to the next.
pub fn measure(first: usize, second: usize, exchanges: &mut Samples) -> Result<(), ProbeError> {
    // ORDER: Relaxed at each access to both: they carry nothing, and the turns say when a round begins and ends.
    let (word, looks) = (Alone::default(), Alone::default());
    let exchange = |turn: &Turn| {
        let mut found = Samples::default();
        for round in 0..ROUNDS {
            if !turn.wait(2 * round + 1) {
                break;
            }
            let before = looks.0.load(Ordering::Relaxed);
            (0..EXCHANGES).for_each(|number| _ = black_box(word.0.swap(number, Ordering::Relaxed)));
            let made = looks.0.load(Ordering::Relaxed).wrapping_sub(before);
            if made > 0 {
                found.push(f64::from(EXCHANGES) / f64::from(made));
            }
            turn.pass(2 * round + 2);
        }
        found
    };
    let look = |turn: &Turn| {
        for round in 0..ROUNDS {
            turn.pass(2 * round + 1);
            while turn.0.load(Ordering::Relaxed) == 2 * round + 1 {
                for _ in 0..LOOKS {
                    black_box(word.0.load(Ordering::Relaxed));
                    spin_loop();
                }
                looks.0.fetch_add(LOOKS, Ordering::Relaxed);
            }
        }
    };
    let (found, ()) = on_both((first, exchange), (second, look))?;
    exchanges.extend(found);
    Ok(())
}
