//! How often threads wait for conditions: whether there are but few acquisitions from one such wait to the next one.
//!
//! A thread that puts items into a bounded queue may put in as many as that holds before it has to wait, and others had
//! better let it. Where threads wait for each other after each operation, nobody goes on like that.
//!
//! | bits | what                                                      |
//! |------|-----------------------------------------------------------|
//! | 0..2 | how many waits in a row have been frequent, 0 to [`SURE`] |
//! | 2..8 | a quarter of the count of acquisitions at the last one    |

use super::bounds::Bounds;
use super::lock::AutoLock;
use lockswap_platform::{AtomicInt, Ordering, Platform};

/// So many in a row, and more are expected.
const SURE: u8 = 3;
/// Where the byte has the count.
const COUNT: u8 = 2;
/// The count is in units of so many acquisitions.
const UNIT: u8 = 1 << COUNT;
/// So many units since the last wait, or fewer, are few: two threads that wake each other need two to four
/// acquisitions.
const FEW: u8 = 1;

/// The byte after a wait, by the count of acquisitions, modulo 256.
fn after_wait(byte: u8, turns: u8) -> u8 {
    let units = (turns / UNIT) << COUNT;
    let since = units.wrapping_sub(byte & !SURE) >> COUNT;
    let in_a_row = if since <= FEW { (byte & SURE) + 1 } else { 0 };
    units | in_a_row.min(SURE)
}

/// Whether waits are frequent.
fn are_frequent(byte: u8) -> bool {
    byte & SURE == SURE
}

impl<P: Platform, B: Bounds> AutoLock<P, B> {
    /// Whether threads wait for conditions so often that nobody gets the lock several times in a row.
    pub(super) fn has_frequent_waits(&self) -> bool {
        // Relaxed: a hint.
        !self.is_careful() && are_frequent(self.calm.load(Ordering::Relaxed))
    }

    /// Notes, as the holder, that it is about to wait for other threads.
    pub(super) fn note_wait(&self) {
        self.seat.note_wait();
        if !self.is_careful() {
            // Relaxed: the holder's own. If a candidate sets CAREFUL meanwhile, that is cleared sooner or later.
            let byte = after_wait(self.calm.load(Ordering::Relaxed), self.turns.load(Ordering::Relaxed));
            self.calm.store(byte, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether waits are frequent after so many, of which each comes so many acquisitions after the one before.
    fn after(byte: &mut u8, turns: &mut u8, waits: u32, gap: impl Fn(u32) -> u8) -> bool {
        for wait in 0..waits {
            *turns = turns.wrapping_add(gap(wait));
            *byte = after_wait(*byte, *turns);
        }
        are_frequent(*byte)
    }

    #[test]
    fn threads_that_wake_each_other_wait_often() {
        for gap in 1..=4 {
            let (mut byte, mut turns) = (0, 100);
            assert!(!after(&mut byte, &mut turns, 3, |_| gap), "not known yet");
            assert!((0..1_000).all(|_| after(&mut byte, &mut turns, 1, |_| gap)), "{gap}");
            assert!(!after(&mut byte, &mut turns, 1, |_| 20), "{gap}");
        }
    }

    #[test]
    fn threads_that_fill_a_queue_and_empty_it_do_not() {
        for gap in [8, 16, 33, 64, 128, 200] {
            let (mut byte, mut turns) = (0, 0);
            let two_of_three = |wait| if wait % 3 == 0 { gap } else { 2 };
            for _ in 0..1_000 {
                assert!(!after(&mut byte, &mut turns, 1, |_| gap), "{gap}");
                assert!(!after(&mut byte, &mut turns, 3, two_of_three), "some wait shortly after each other");
            }
        }
    }
}
