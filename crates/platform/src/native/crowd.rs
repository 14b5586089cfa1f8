//! How many threads of the process wait at the same time, beyond the first stage of a wait ([`crate::patience`]).
//!
//! Each yield and each nap takes CPU time, which thousands of waiters would take from those that they wait for. So
//! only some of them yield, and the more of them nap, the longer each nap is.

use super::wait;
use crate::Ns;
use core::sync::atomic::{AtomicI32, Ordering};

/// Threads that yield, for each CPU of the process: a yield takes about 1 us, so all of them look again within 32 us.
const MOST_YIELDING: i32 = 32;
/// The same where they take short naps instead, of which each takes about 5 us.
const MOST_YIELDING_ASLEEP: i32 = 8;
/// The least length of a nap is this much for each thread that naps, divided by the CPUs: a nap and the look behind it
/// take about 5 us of CPU time, so all naps together take a tenth of it.
const PER_NAP: Ns = 50_000;
/// The same for naps in place of yields, which have to be short, and may take half of the CPU time.
const PER_YIELD: Ns = 10_000;
/// The limit for that length.
const LONGEST_CROWDED: Ns = 100_000_000;

// Threads in either stage. Relaxed everywhere: the numbers decide how long a wait lasts, no more. They are signed,
// because a thread may end its wait after `forget`.
static YIELDING: AtomicI32 = AtomicI32::new(0);
static NAPPING: AtomicI32 = AtomicI32::new(0);

/// The stage that a waiting thread is counted in, until the value goes.
pub enum Stage {
    /// It spins, and is not counted.
    Spins,
    /// It yields.
    Yields,
    /// It naps.
    Naps,
}

impl Stage {
    /// The stage that follows spinning: yielding, where there is room.
    pub fn after_spinning() -> Self {
        let most = if wait::yields_are_allowed() { MOST_YIELDING } else { MOST_YIELDING_ASLEEP };
        if YIELDING.load(Ordering::Relaxed) < most.saturating_mul(cpus()) {
            YIELDING.fetch_add(1, Ordering::Relaxed);
            Stage::Yields
        } else {
            Stage::napping()
        }
    }

    /// The last stage.
    pub fn napping() -> Self {
        NAPPING.fetch_add(1, Ordering::Relaxed);
        Stage::Naps
    }
}

impl Drop for Stage {
    #[inline]
    fn drop(&mut self) {
        match self {
            Stage::Spins => {}
            Stage::Yields => _ = YIELDING.fetch_sub(1, Ordering::Relaxed),
            Stage::Naps => _ = NAPPING.fetch_sub(1, Ordering::Relaxed),
        }
    }
}

/// The least length of a nap at present.
pub fn shortest_nap() -> Ns {
    share(PER_NAP, &NAPPING)
}

/// The least length of a nap in place of a yield at present.
pub fn shortest_instead_of_yield() -> Ns {
    share(PER_YIELD, &YIELDING)
}

fn share(each: Ns, threads: &AtomicI32) -> Ns {
    let threads = threads.load(Ordering::Relaxed).max(0) as Ns;
    (threads * each / cpus() as Ns).min(LONGEST_CROWDED)
}

/// Nobody waits any more: in the child of a fork.
pub fn forget() {
    YIELDING.store(0, Ordering::Relaxed);
    NAPPING.store(0, Ordering::Relaxed);
}

fn cpus() -> i32 {
    wait::cpus().min(i32::MAX as u32) as i32
}
