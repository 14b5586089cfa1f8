//! How long a thread that waits for a condition spins before it sleeps, learnt from how long its waits have taken.
//!
//! Who has slept knows how long a spin would have had to be instead: until somebody woke the thread, without the time
//! that it then took to get a CPU. So where two threads wake each other, and each waits for as long as the other takes
//! to wake up, one sleep is enough to find out that neither need sleep. Spins would not show that unless they were as
//! long as a wake-up.
//!
//! A short wait says nothing against a longer spin, which would have ended as soon. So only sleeps make spins shorter.
//! If short waits did, two threads that hardly ever wait for long would both sleep whenever one of them has lost its
//! CPU for some microseconds.
//!
//! A spin does not pay if it takes longer than the wake-up that it saves, which is measured too; nor if another thread
//! waits for the CPU, perhaps the one that is to signal the condition. So a long spin gives way to other threads now
//! and then; if there are any it ends, and the thread learns nothing from its next sleeps.

use core::cell::Cell;
use lockswap_platform::Ns;

/// The longest spin, and the longest wake-up that counts, ns: what one takes on a virtual machine whose other CPU is
/// idle, or less.
const LONGEST: u32 = 50_000;
/// The shortest one, ns: a few cache misses.
const SHORTEST: u32 = 200;
/// How long waits are taken to be at first, ns.
const INITIAL: u32 = 1_000;
/// An average takes one part in this many of the difference to its next sample.
const SMOOTHING: u32 = 8;
/// A spin gives way to other threads whenever it has lasted for so long again, ns.
pub const UNASKED: Ns = 5_000;
/// So many sleeps teach nothing after a spin that has kept another thread from the CPU.
const DOUBTS: u32 = 64;

/// What a thread knows; all zero at its start.
pub struct Experience {
    /// The longest wait lately for which spinning would have paid, ns; less for each sleep since for which it would
    /// not have. As exclusive-or with [`INITIAL`].
    worth: Cell<u32>,
    /// How long it has taken lately from the wake-up of this thread until it ran, ns; 0: not known.
    wake_up: Cell<u32>,
    doubts: Cell<u32>,
}

/// An average that follows its samples slowly.
fn smoothed(average: u32, sample: u32) -> u32 {
    if sample >= average {
        average + (sample - average) / SMOOTHING
    } else {
        average - (average - sample).div_ceil(SMOOTHING)
    }
}

impl Experience {
    /// The longest spin that may pay, ns: what a wake-up takes, and a little more, because the one that is waited for
    /// may have to wake up first.
    fn longest(&self) -> u32 {
        match self.wake_up.get() {
            0 => LONGEST,
            wake_up => (wake_up + wake_up / 4).min(LONGEST),
        }
    }

    /// How long to spin, ns.
    pub fn budget(&self) -> Ns {
        let worth = self.worth.get() ^ INITIAL;
        Ns::from((worth.saturating_mul(2)).clamp(SHORTEST, self.longest().max(SHORTEST)))
    }

    /// A spin has ended with a wake-up after so many ns.
    pub fn was_woken(&self, after: Ns) {
        let (worth, after) = (self.worth.get() ^ INITIAL, after.min(Ns::from(LONGEST)) as u32);
        self.worth.set(after.max(worth) ^ INITIAL);
    }

    /// A spin has ended because another thread wanted the CPU.
    pub fn was_in_the_way(&self) {
        self.doubts.set(DOUBTS);
    }

    /// The thread has slept. If it has been woken: so many ns after the wait began, and it ran again so much later.
    pub fn has_slept(&self, woken: Option<(Ns, Ns)>) {
        let doubts = self.doubts.get();
        self.doubts.set(doubts.saturating_sub(1));
        if let Some((after, later)) = woken {
            let (later, known) = (later.clamp(1, Ns::from(LONGEST)) as u32, self.wake_up.get());
            self.wake_up.set(if known == 0 { later } else { smoothed(known, later).max(1) });
            if doubts == 0 && after <= Ns::from(self.longest()) {
                return self.was_woken(after);
            }
        }
        self.worth.set(smoothed(self.worth.get() ^ INITIAL, 0) ^ INITIAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a thread has it at its start.
    fn new() -> Experience {
        Experience { worth: Cell::new(0), wake_up: Cell::new(0), doubts: Cell::new(0) }
    }

    fn sleep(experience: &Experience, times: u32, woken: Option<(Ns, Ns)>) -> Ns {
        (0..times).for_each(|_| experience.has_slept(woken));
        experience.budget()
    }

    #[test]
    fn one_short_sleep_is_enough_to_spin_for_as_long() {
        let experience = new();
        assert_eq!(experience.budget(), 2_000);
        assert_eq!(sleep(&experience, 20, Some((1_000_000, 20_000))), 200);
        assert_eq!(sleep(&experience, 1, Some((12_000, 20_000))), 24_000);
        experience.was_woken(22_000);
        assert_eq!(experience.budget(), 25_000, "hardly longer than a wake-up");
    }

    #[test]
    fn short_waits_say_nothing_against_longer_spins() {
        let experience = new();
        experience.was_woken(5_000);
        (0..100_000).for_each(|_| experience.was_woken(100));
        assert_eq!(experience.budget(), 10_000);
        assert!(sleep(&experience, 8, Some((1_000_000, 20_000))) < 5_000, "sleeps do");
    }

    #[test]
    fn long_waits_and_those_that_time_out_end_it() {
        for woken in [Some((60_000, 20_000)), Some((25_001, 20_000)), None] {
            let experience = new();
            assert_eq!(sleep(&experience, 1, Some((12_000, 20_000))), 24_000);
            assert!(sleep(&experience, 1, woken) >= 20_000);
            assert_eq!(sleep(&experience, 100, woken), 200);
        }
    }

    #[test]
    fn a_spin_is_no_longer_than_a_wake_up() {
        let experience = new();
        assert_eq!(sleep(&experience, 1, Some((3_500, 3_000))), 3_750);
        assert_eq!(sleep(&experience, 100, Some((7_000, 3_000))), 200, "to sleep is as quick");
        assert!(sleep(&experience, 200, Some((7_000, 6_000))) > 7_000);
    }

    #[test]
    fn sleeps_teach_nothing_after_a_spin_in_the_way_of_others() {
        let experience = new();
        experience.was_in_the_way();
        assert_eq!(sleep(&experience, DOUBTS, Some((18_000, 20_000))), 200);
        assert_eq!(sleep(&experience, 1, Some((12_000, 20_000))), 24_000);
    }
}
