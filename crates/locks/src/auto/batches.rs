//! Whether batches pay: whether acquisitions follow each other more quickly if candidates let others go first.
//!
//! A *window* is a time of [`WINDOW`] ticks or more. How long an acquisition took in it is compared with the window
//! before, in a trial: with batches if there were none, without if there were. All that is known of that are hints in
//! the word about the candidate's place, beside its state ([`super::seat`]):
//!
//! | bits   | what                                                                     |
//! |--------|--------------------------------------------------------------------------|
//! | 4      | BATCHES: candidates let others go first                                  |
//! | 5      | TRIAL: that, or the opposite, is being tried                             |
//! | 6      | WAITS: a thread has released the lock in this window to wait for others  |
//! | 7..15  | how long an acquisition took in the last window before a trial           |
//! | 15..21 | the parts of this window that have been noted                            |
//! | 21..23 | the last two bits of the number of all parts, by the count of acquisitions |
//! | 23     | IN_VAIN: nobody went first when the last candidate let others do so      |
//! | 24..32 | when this window began, in ticks                                         |

use lockswap_platform::Ns;

/// A bit: candidates let others go first, for a batch of acquisitions.
pub const BATCHES: u32 = 16;

/// Another one: that, or the opposite, is being tried.
pub const TRIAL: u32 = 32;

/// Another one: a thread has released the lock in order to wait for others.
pub const WAITS: u32 = 64;

/// Another one: the last candidate that let others go first found that nobody did.
pub const IN_VAIN: u32 = 1 << 23;

/// Where the word has how long an acquisition took in the last window before a trial ([`eight_bits`]), how many parts
/// of the present window have been noted, the last two digits of how many of all windows, and when it began, in ticks.
const PACE_BEFORE: u32 = 7;
const PARTS: u32 = 15;
const MOST_PARTS: u32 = 63;
const ALL_PARTS: u32 = 21;
const BEGAN: u32 = 24;

/// So many acquisitions are a part of a window. The count of acquisitions, which begins anew after 256, must be looked
/// at before it has gone through four parts.
const PART: u8 = 64;

/// A tick of the clock of windows, ns. After 256 of them, 262 us, it begins anew.
const TICK: Ns = 1_024;

/// How long a window lasts at least, in ticks: for several batches.
const WINDOW: u32 = 32;

/// Where a part takes so many ticks or more, an acquisition 2 us, batches make little difference, and there are none:
/// the clock would begin anew before a few parts are over.
const SLOW: u32 = 128;

/// A trial ends early if an acquisition takes 1.4 to 1.5 times as long as before, by [`eight_bits`].
const WORSE: u32 = 8;

/// Another trial begins at once if an acquisition takes more than twice as long as in the window before, or less than
/// half as long, by [`eight_bits`]: what has been learnt is about other circumstances.
const CHANGED: u32 = 16;

/// But only if a part takes fewer ticks than that, an acquisition 768 ns: where acquisitions are rare, they come at
/// random, and hand-overs matter less.
const QUICK: u32 = 48;

/// A number in eight bits, greater for a greater one: an exponent, and the four bits behind the first.
fn eight_bits(number: u32) -> u32 {
    let number = number.clamp(16, 0xf_ffff);
    let exponent = number.ilog2() - 4;
    exponent << 4 | number >> exponent & 15
}

/// How many parts of a window are over that have not been noted, by the count of acquisitions.
pub fn new_parts(word: u32, turns: u8) -> u32 {
    u32::from(turns / PART).wrapping_sub(word >> ALL_PARTS) & 3
}

/// The word when they have been noted. If the window is over and was a trial, what is tried goes on as the rule if
/// acquisitions followed each other more quickly than in the window before it; else a trial may begin. There are
/// neither batches nor trials where threads wait for each other, or acquisitions follow each other slowly.
pub fn after_parts(word: u32, turns: u8, now: Ns, may_try: bool) -> u32 {
    let new = new_parts(word, turns);
    let now = (now / TICK) as u32 & 0xff;
    let took = now.wrapping_sub(word >> BEGAN) & 0xff;
    let parts = ((word >> PARTS & MOST_PARTS) + new).max(1);
    let (pace, before) = (eight_bits(took * 256 / parts), word >> PACE_BEFORE & 0xff);
    let fails_early = word & TRIAL != 0 && took >= WINDOW / 8 && pace > before + WORSE;
    let is_slow = took >= SLOW * parts;
    let mut next = word & !(3 << ALL_PARTS) | u32::from(turns / PART) << ALL_PARTS;
    if took < WINDOW && parts + 3 < MOST_PARTS && !fails_early {
        next += new << PARTS;
    } else {
        next = next & !(MOST_PARTS << PARTS | 0xff << BEGAN | WAITS) | now << BEGAN;
        if word & TRIAL != 0 {
            next ^= if pace < before { TRIAL } else { BATCHES | TRIAL };
        } else {
            next = next & !(0xff << PACE_BEFORE) | pace << PACE_BEFORE;
            let has_changed = pace.abs_diff(before) > CHANGED && took < QUICK * parts;
            if may_try || has_changed {
                next = next & !IN_VAIN ^ (BATCHES | TRIAL);
            }
        }
    }
    if word & WAITS != 0 || is_slow {
        next &= !(BATCHES | TRIAL);
    }
    next
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Time goes by, and parts of windows.
    #[derive(Default)]
    struct Course {
        word: u32,
        now: Ns,
        parts: u8,
    }

    impl Course {
        /// Lets a window of so many parts end after so many ns; whether there are batches then.
        fn window(&mut self, parts: u8, took: Ns, may_try: bool) -> bool {
            for part in 1..=parts {
                self.parts = self.parts.wrapping_add(1);
                let turns = self.parts.wrapping_mul(PART);
                assert_eq!(new_parts(self.word, turns), 1);
                let (now, may_try) = if part == parts { (self.now + took, may_try) } else { (self.now, true) };
                self.word = after_parts(self.word, turns, now, may_try);
                assert_eq!((self.word & 15, new_parts(self.word, turns)), (0, 0));
            }
            self.now += took;
            self.word & BATCHES != 0
        }
    }

    #[test]
    fn what_brings_more_acquisitions_stays() {
        let mut course = Course::default();
        assert!(course.window(8, 40_000, false), "nothing is known yet");
        assert!(!course.window(8, 40_000, false), "batches that make no difference");
        assert!(!course.window(8, 40_000, false) && course.window(8, 40_000, true));
        assert!(!course.window(8, 40_000, false));
        assert!(course.window(8, 40_000, true) && course.window(12, 40_000, false));
        assert!(course.window(12, 40_000, false), "no more of them");
        assert!(!course.window(12, 40_000, true) && course.window(8, 40_000, false), "what was tried in vain");
        assert!(!course.window(12, 60_000, true) && !course.window(16, 40_000, false));
    }

    #[test]
    fn another_pace_is_another_trial() {
        let mut course = Course::default();
        course.window(8, 40_000, false);
        assert!(!course.window(8, 40_000, false) && !course.window(8, 40_000, false));
        assert!(!course.window(15, 40_000, false), "not twice as quickly");
        assert!(course.window(36, 40_000, false), "more than twice as quickly");
        assert!(course.window(40, 40_000, false), "still better");
        assert!(!course.window(16, 40_000, false), "less than half as quickly");
        let mut course = Course::default();
        assert!(!course.window(1, 52_000, false), "slowly");
        assert!(course.window(3, 40_000, false));
    }

    #[test]
    fn there_are_none_where_acquisitions_follow_each_other_slowly() {
        let mut course = Course::default();
        assert!(course.window(1, 130_000, true), "a trial");
        assert!(!course.window(1, 132_000, true) && !course.window(1, 200_000, true));
        assert!(course.window(2, 200_000, true));
    }

    #[test]
    fn a_trial_that_is_much_worse_ends_early() {
        let mut course = Course::default();
        assert!(course.window(32, 40_000, true) && course.window(1, 1_500, false));
        assert!(!course.window(1, 4_500, false));
    }

    #[test]
    fn nobody_goes_first_in_a_window_with_waits() {
        let mut course = Course::default();
        assert!(course.window(1, 50_000, true));
        course.word |= WAITS;
        assert!(!course.window(1, 50_000, true) && course.word & WAITS == 0);
        assert!(course.window(1, 50_000, true));
    }

    #[test]
    fn greater_numbers_are_greater_in_eight_bits() {
        for number in 0..0x1f_ffff {
            assert!(eight_bits(number) <= eight_bits(number + 1), "{number}");
        }
        assert!(eight_bits(16) < eight_bits(17) && eight_bits(100) < eight_bits(107) && eight_bits(u32::MAX) < 256);
    }
}
