//! SHFL-PB: big cores a fixed number of times as often as little ones (Liu et al., PPoPP 2022, section 4: the static
//! policy that LibASL is compared with, there with 10).
//!
//!   queue before   [L]->[B]->[L]->[B]->[B]->[B]->...
//!   queue after    [L]->[B]->[B]->[L]->[B]->[B]->...             with 2 big ones for each little one
//!
//! The number of a batch is 1 more than the big cores served since the last little one, the ratio + 1 at most. Waiters
//! of one kind keep their order. Where no waiter of the wanted kind is known, the queue moves on as it is, and the
//! count with it; a count ends with the queue.
//!
//! Deviation: as under every policy the last waiter of the queue is not moved, so that a big core that has just come
//! may have to let a second little one pass.

use super::policy::{kind, Policy, BIG};
use crate::info::Asks;
use crate::parameters::{Default, Parameter, Parameters, Setting, Values};
use lockswap_platform::Platform;

/// The published ratio.
pub const PUBLISHED_RATIO: u32 = 10;

/// Lets exactly one little core pass after every `BIGS` big ones, as long as both wait.
pub struct Proportional<const BIGS: u32 = PUBLISHED_RATIO>;

impl<const BIGS: u32> Policy for Proportional<BIGS> {
    const IDS: [&'static str; 2] = ["shfl-pb10", "shfl-pb10-b"];
    const SUMMARY: &'static str = "a ShflLock that serves one little core after every 10 big ones";
    const PAPER: &'static str = "Liu, Gu, Tang, Li, Zang, Chen: PPoPP 2022, section 4 (SHFL-PB10)";
    const ASKS: Asks = Asks::KIND;
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "ratio",
            values: Values::Number(Setting::Ratio, 1, 1_000_000_000, "big cores"),
            default: Default::Number(BIGS),
            summary: "big cores that are served for each little one, while both wait",
            source: "Liu et al.: PPoPP 2022, sec. 4 (SHFL-PB10)",
        }],
        inside: &[],
    };
    const ALTERNATES: bool = true;

    fn mine<P: Platform>() -> u32 {
        kind::<P>()
    }
    fn first<P: Platform>(attribute: u32) -> u32 {
        Self::passed::<P>(1, attribute)
    }
    fn joined<P: Platform>(batch: u32, _: u32, candidate: u32) -> Option<u32> {
        let wants_big = batch <= Self::ratio::<P>();
        (wants_big == (candidate == BIG)).then(|| Self::passed::<P>(batch, candidate))
    }
    fn passed<P: Platform>(batch: u32, candidate: u32) -> u32 {
        if candidate == BIG {
            (batch + 1).min(Self::ratio::<P>() + 1)
        } else {
            1
        }
    }
    fn is_open<P: Platform>(_: u32) -> bool {
        true
    }
}

impl<const BIGS: u32> Proportional<BIGS> {
    /// Big cores for each little one.
    fn ratio<P: Platform>() -> u32 {
        Setting::Ratio.number::<P>(BIGS)
    }
}
