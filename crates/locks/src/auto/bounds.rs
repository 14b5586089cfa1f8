//! What limits the ideas of `auto`, and those of the limits that users may choose.

use super::looks::{LONGEST, SHORTEST};
use crate::parameters::{Default, Parameter, Setting, Values};
use lockswap_platform::Ns;

/// What limits the lock's ideas; the values are those of the lock as it is used.
pub trait Bounds: Send + Sync + 'static {
    /// A candidate brings a waiter of its own node forward if it is among so many next ones, and calls a sleeper of
    /// the place that [`super::sleepers::Sleepers`] says, if it is among so many first ones.
    const NEAR: u32 = 32;
    /// Least time between two sleepers that are called for fairness, ns.
    const TURN: Ns = 30_000;
    /// A candidate that has waited for so long insists, ns.
    const GRACE: Ns = 200_000;
    /// After so many careful releases in a row that found nobody asleep the next ones are plain stores.
    const CALM: u8 = 32;
    /// After so many candidates in a row that had to insist, the next ones sleep for as long.
    const RESIGN: u32 = 4;
    /// A waiter spins for so long before it asks whether another thread wants its CPU, ns.
    const SPIN: Ns = 4_000;
    /// So often a waiter spins once more before it sleeps, if no other thread makes use of its CPU.
    const AGAIN: u32 = 32;
    /// A candidate lets others have the lock for so long while they get it quickly after each other, ns.
    const BATCH: Ns = 20_000;
    /// Whether it does so from the beginning, and for ever; else where that has been found to pay.
    const ALWAYS: bool = false;
    /// After one of so many windows the other way is tried.
    const TRIES: u64 = 8;
    /// With one NUMA node, a candidate sleeps for a while if others have passed it so often as it looked at the lock:
    /// who needs that again at once gets it the next time, too.
    const PASSED: u32 = 32;
    /// For so long, ns.
    const NAP: Ns = 200_000;
    /// With several NUMA nodes a waiter asks the candidate for a sign one of so many times.
    const ASKS: u64 = 16;
    /// A waiter leaves the queue if it has seen the lock free so often while the candidate gave no sign.
    const FREE: u32 = 2;
    /// And if it has not tried to do without the queue so often.
    const BARGES: u32 = 2;
    /// Whether a candidate keeps its place as it calls a sleeper that has its turn; else where that pays.
    const KEEPS_SEAT: bool = false;
    /// Whether a release may be a plain store, where that is to be had.
    const STORES: bool = true;
    /// The lock travels along the route if that has so many CPUs.
    const ROUTE: u32 = 8;
    /// Whether it begins with that.
    const ROUTED: bool = false;
    /// A candidate lets it travel if it leaves so many waiters behind.
    const BEHIND: u32 = 2;
    /// A thread that is back so soon after it has handed the lock on ends that, ns.
    const BACK: Ns = 500;
    /// Who waits on the route stays there for so many times `SPIN`.
    const STAYS: u32 = 40;
    /// From an element of the tables for that to the next one, in words.
    const STRIDE: usize = 16;
}

/// Those of the lock as it is used.
pub struct Published;

impl Bounds for Published {}

/// What users may choose.
pub(super) const PARAMETERS: [Parameter; 11] = [
    Parameter {
        key: "spin",
        values: Values::Time(Setting::SpinTime),
        default: Default::Time(Published::SPIN),
        summary: "how long a waiter in the queue spins before it gives way; a candidate ten times as long, with fewer \
                  than 8 CPUs five times",
        source: "sim regret and bench regret, see docs/auto-measured.md",
    },
    Parameter {
        key: "shortest",
        values: Values::Number(Setting::Shortest, 1, 1_000_000, "pauses"),
        default: Default::Number(SHORTEST),
        summary: "first pause of the candidate between two looks at the lock; each is half as long again",
        source: "sim regret, see docs/auto-measured.md",
    },
    Parameter {
        key: "longest",
        values: Values::Number(Setting::Longest, 1, 1_000_000, "pauses"),
        default: Default::Number(LONGEST),
        summary: "longest pause of the candidate; with one NUMA node 128 at most",
        source: "sim regret, see docs/auto-measured.md",
    },
    Parameter {
        key: "grace",
        values: Values::Time(Setting::Grace),
        default: Default::Time(Published::GRACE),
        summary: "wait after which the candidate pauses no more, and claims the lock if it sleeps",
        source: "sim regret, see docs/auto-measured.md",
    },
    Parameter {
        key: "resign",
        values: Values::Number(Setting::Resign, 0, 1_000_000, "candidates"),
        default: Default::Number(Published::RESIGN),
        summary: "after so many candidates in a row that had to wait for grace, the next ones sleep that long",
        source: "bench regret, see docs/auto-measured.md",
    },
    Parameter {
        key: "promote",
        values: Values::Time(Setting::Promote),
        default: Default::Time(Published::TURN),
        summary: "least time between two sleepers that are called for fairness",
        source: "sim regret, see docs/auto-measured.md",
    },
    Parameter {
        key: "again",
        values: Values::Number(Setting::Again, 0, 1_000_000, "times"),
        default: Default::Number(Published::AGAIN),
        summary: "how often a waiter spins once more, if no other thread makes use of its CPU",
        source: "sim regret, see docs/auto-measured.md",
    },
    Parameter {
        key: "near",
        values: Values::Number(Setting::Near, 0, 1_000_000, "waiters"),
        default: Default::Number(Published::NEAR),
        summary: "waiters, and sleepers, among which one of the same node, or CPU, comes first; 0: all in order",
        source: "sim regret, see docs/auto-measured.md",
    },
    Parameter {
        key: "route",
        values: Values::Number(Setting::Route, 0, 1_000_000, "CPUs"),
        default: Default::Number(Published::ROUTE),
        summary: "fewest CPUs for which the lock travels along the route, where that pays; 0: never",
        source: "sim regret, see docs/auto-measured.md",
    },
    Parameter {
        key: "defer",
        values: Values::Time(Setting::Defer),
        default: Default::Time(Published::BATCH),
        summary: "longest time for which the candidate lets others go first that get the lock one after the other; \
             with one NUMA node 10us unless it is set",
        source: "sim regret, see docs/auto-measured.md",
    },
    Parameter {
        key: "nap",
        values: Values::Time(Setting::Nap),
        default: Default::Time(Published::NAP),
        summary: "how long a candidate sleeps that others pass again and again, with one NUMA node; 0: not at all",
        source: "bench regret, see docs/auto-measured.md",
    },
];
