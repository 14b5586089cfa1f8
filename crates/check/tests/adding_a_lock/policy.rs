//! A shuffling policy: waiters on big cores come first, `BATCH` at most before whoever is next in the queue.
//!
//!   queue before   [L]->[B]->[L]->[B]->[B]->...
//!   queue after    [L]->[B]->[B]->[L]->[B]->...             the last one in the queue is not moved

use lockswap_locks::info::Asks;
use lockswap_locks::parameters::{Default, Parameter, Parameters, Setting, Values};
use lockswap_locks::shuffle::policy::{kind, Policy, BIG, MAX_SHUFFLES};
use lockswap_locks::shuffle::shfllock::Shfl;
use lockswap_locks::waiting::Spin;
use lockswap_platform::Platform;

/// The policy.
pub struct BigFirst<const BATCH: u32>;

impl<const BATCH: u32> Policy for BigFirst<BATCH> {
    const IDS: [&'static str; 2] = ["shfl-big-first", "shfl-big-first-b"];
    const SUMMARY: &'static str = "a ShflLock whose waiters bring those on big cores to the front";
    const PAPER: &'static str = "none: an example";
    const ASKS: Asks = Asks::KIND;
    const PARAMETERS: Parameters = Parameters {
        own: &[Parameter {
            key: "batch",
            values: Values::Number(Setting::Batch, 1, 1_000_000, "waiters"),
            default: Default::Number(BATCH),
            summary: "waiters on big cores that go first before whoever is next in the queue gets its turn",
            source: "ours: an example",
        }],
        inside: &[],
    };

    fn mine<P: Platform>() -> u32 {
        kind::<P>()
    }
    fn joined<P: Platform>(batch: u32, _: u32, candidate: u32) -> Option<u32> {
        (candidate == BIG).then_some(batch + 1)
    }
    fn is_open<P: Platform>(batch: u32) -> bool {
        batch < Setting::Batch.number::<P>(BATCH)
    }
}

/// The lock: ShflLock with this policy, whose waiters spin.
pub type ShflBigFirst<P> = Shfl<P, BigFirst<MAX_SHUFFLES>, Spin>;
