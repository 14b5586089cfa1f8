//! What one CPU does by itself: arithmetic, accesses that hit its own cache, read-modify-writes, pauses.

use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use lockswap_platform::{Native, Platform};

use super::{each, on, Samples};
use crate::probe::ProbeError;

/// Samples of each cost that one call adds.
const ROUNDS: usize = 60;
/// Steps in a sample: a few us, short enough to be left alone.
const STEPS: u32 = 1_000;
/// Pauses in a sample: they are longer, and hypervisors step in where they follow each other for long.
const PAUSES: u32 = 100;

/// Costs in ns.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// A step of [`Platform::compute`], which is a chain of dependent arithmetic.
    pub step: Samples,
    /// A load whose address comes from the load before it.
    pub load: Samples,
    /// A read-modify-write of an own line, one after the other.
    pub rmw: Samples,
    /// An acquisition, an increment of a number and a release: a read-modify-write, a load and two stores.
    pub section: Samples,
    /// A pause instruction.
    pub pause: Samples,
}

/// A word on lines of its own.
#[repr(align(128))]
struct Apart(AtomicUsize);

const CELLS: usize = 16;

/// Adds samples taken on `cpu`.
pub fn measure(cpu: usize, costs: &mut Costs) -> Result<(), ProbeError> {
    on(cpu, || {
        let (lock, number) = (Apart(AtomicUsize::new(0)), Apart(AtomicUsize::new(0)));
        // Each holds the address of another one: 5 and 16 have no common divisor.
        let cells: [Apart; CELLS] = std::array::from_fn(|_| Apart(AtomicUsize::new(0)));
        let address = |index: usize| std::ptr::from_ref(&cells[index % CELLS]).expose_provenance();
        (0..CELLS).for_each(|index| cells[index].0.store(address(index + 5), Ordering::Relaxed));
        for _ in 0..ROUNDS {
            costs.step.push(timed(STEPS, || Native::compute(u64::from(STEPS))));
            costs.load.push(timed(STEPS, || chase(address(0))));
            costs.rmw.push(timed(STEPS, || (0..STEPS).for_each(|_| _ = lock.0.fetch_add(1, Ordering::AcqRel))));
            costs.section.push(timed(STEPS, || {
                for _ in 0..STEPS {
                    let (lock, number) = (black_box(&lock), black_box(&number));
                    lock.0.swap(1, Ordering::Acquire);
                    number.0.store(number.0.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    lock.0.store(0, Ordering::Release);
                }
            }));
            costs.pause.push(timed(PAUSES, || Native::relax(PAUSES)));
        }
    })
}

/// Follows addresses from one cell to the next.
fn chase(first: usize) {
    let mut address = first;
    for _ in 0..STEPS {
        let cell = std::ptr::with_exposed_provenance::<AtomicUsize>(address);
        // SAFETY: the address of a cell's word, which lives while this runs.
        address = unsafe { &*cell }.load(Ordering::Relaxed);
    }
    black_box(address);
}

fn timed(steps: u32, body: impl FnOnce()) -> f64 {
    let start = Instant::now();
    body();
    each(start, steps)
}
