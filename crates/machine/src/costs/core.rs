//! What one CPU does by itself: arithmetic, accesses that hit its own cache, read-modify-writes, pauses, looks at
//! clocks.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use lockswap_platform::{Clock, Native, Ns, Platform};

use super::{each, on, Samples};
use crate::probe::ProbeError;

/// Samples of each cost that one call adds.
const ROUNDS: usize = 60;
/// Steps in a sample: a few us, short enough to be left alone.
const STEPS: u32 = 1_000;
/// Pauses in a sample: they are longer, and hypervisors step in where they follow each other for long.
const PAUSES: u32 = 100;
/// Looks at a clock in a sample.
const LOOKS: u32 = 100;

/// Costs in ns.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// A step of [`Platform::compute`], which is a chain of dependent arithmetic.
    pub step: Samples,
    /// A read-modify-write of an own line, one after the other.
    pub rmw: Samples,
    /// A load or store beside read-modify-writes: what an acquisition, an increment of a number and a release take,
    /// which are a read-modify-write, a load and two stores, less the read-modify-write alone, measured just before.
    pub access: Samples,
    /// A pause instruction.
    pub pause: Samples,
    /// A look at the system's clock, [`Platform::now`].
    pub clock: Samples,
    /// A look at the cycle counter, [`Platform::instant`].
    pub counter: Samples,
}

impl Costs {
    /// Adds all samples of `others`.
    pub fn extend(&mut self, others: Self) {
        self.step.extend(others.step);
        self.rmw.extend(others.rmw);
        self.access.extend(others.access);
        self.pause.extend(others.pause);
        self.clock.extend(others.clock);
        self.counter.extend(others.counter);
    }
}

/// A word on lines of its own.
#[repr(align(128))]
struct Apart(AtomicUsize);

/// Adds samples taken on `cpu`.
pub fn measure(cpu: usize, costs: &mut Costs) -> Result<(), ProbeError> {
    on(cpu, || {
        let (lock, number) = (Apart(AtomicUsize::new(0)), Apart(AtomicUsize::new(0)));
        for _ in 0..ROUNDS {
            costs.step.push(timed(STEPS, || Native::compute(u64::from(STEPS))));
            let rmw = timed(STEPS, || {
                for _ in 0..STEPS {
                    black_box(&lock).0.swap(1, Ordering::Acquire);
                }
            });
            let section = timed(STEPS, || {
                for _ in 0..STEPS {
                    let (lock, number) = (black_box(&lock), black_box(&number));
                    lock.0.swap(1, Ordering::Acquire);
                    number.0.store(number.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    lock.0.store(0, Ordering::Release);
                }
            });
            costs.rmw.push(rmw);
            costs.access.push((section - rmw) / 3.0);
            costs.pause.push(timed(PAUSES, || Native::relax(PAUSES)));
            costs.clock.push(timed(LOOKS, || looks(|| Native::now(Clock::Monotonic))));
            costs.counter.push(timed(LOOKS, || looks(Native::instant)));
        }
    })
}

fn looks(look: impl Fn() -> Ns) {
    for _ in 0..LOOKS {
        black_box(look());
    }
}

fn timed(steps: u32, body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    each(start, steps)
}
