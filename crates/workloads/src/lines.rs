//! Memory that critical sections touch: numbers in cache lines of their own.
//!
//! They are relaxed atomics of the platform: plain loads and stores on hardware, a cost on a simulated machine, and a
//! lock that does not exclude loses increments instead of being undefined behaviour.

use crate::record::Record;
use lockswap_platform::{AtomicInt, Ordering::Relaxed, Platform};

/// A number in a line of its own (two, because CPUs fetch them in pairs).
#[repr(align(128))]
pub struct Line<P: Platform>(P::Usize);

impl<P: Platform> Line<P> {
    /// The number.
    #[inline]
    pub fn get(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Reads the number and writes the next one.
    #[inline]
    pub fn increment(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }
}

/// Lines of zeros, side by side.
pub fn lines<P: Platform>(count: usize) -> Box<[Line<P>]> {
    (0..count).map(|_| Line(AtomicInt::new(0))).collect()
}

/// Increments the first `touches` of `lines`, and again from the first when there are more touches than lines.
#[inline]
pub fn touch<P: Platform>(lines: &[Line<P>], touches: u64) {
    P::increment_each(lines, touches, |line| &line.0);
}

/// Checks that `lines` hold the increments that all threads made.
///
/// # Panics
/// If they do not, which means that the lock did not exclude.
pub fn check<'a, P: Platform>(records: &[Record], lines: impl IntoIterator<Item = &'a Line<P>>) {
    let made: u64 = records.iter().map(|record| record.made).sum();
    let kept: u64 = lines.into_iter().map(|line| line.get() as u64).sum();
    assert!(made == kept, "the lock did not exclude: {made} increments left {kept}");
}
