//! Whether batches pay: whether acquisitions follow each other more quickly if candidates let others go first.
//!
//! A *window* is a time of [`WINDOW`] ticks or more. How long an acquisition takes in it is compared with the mean of
//! the windows before, in a trial: with batches if there were none, without if there were. A single window may be much
//! longer than the others because a thread has lost its CPU, so one that differs much counts only if the next one does,
//! too. All that is known of that are hints in the word about the candidate's place, beside its state
//! ([`super::seat`]):
//!
//! | bits   | what                                                                     |
//! |--------|--------------------------------------------------------------------------|
//! | 4..7   | whether candidates let others go first, and why not: NEVER to ALWAYS_DOUBTED |
//! | 7..15  | how long an acquisition takes, the mean of the windows but for failed trials |
//! | 15..21 | the parts of this window that have been noted                            |
//! | 21..23 | the last two bits of the number of all parts, by the count of acquisitions |
//! | 23     | WAITS: a thread has released the lock in this window to wait for others  |
//! | 24..32 | when this window began, in ticks                                         |

use lockswap_platform::Ns;

/// Where the word has whether candidates let others go first.
const HOW: u32 = 4;
const ALL: u32 = 7 << HOW;
/// They do not.
const NEVER: u32 = 0;
/// They do not, and a thread has released the lock in order to wait for others, in this window or the last one.
const WAITED: u32 = 1 << HOW;
/// They do not, and an acquisition took much longer in the last window, or less long.
const NEVER_DOUBTED: u32 = 2 << HOW;
/// They do not, which is being tried.
const NEVER_TRIED: u32 = 3 << HOW;
/// They do, for a batch of acquisitions, which is being tried.
const TRIED: u32 = 4 << HOW;
/// They do: it has been found to pay.
const ALWAYS: u32 = 5 << HOW;
/// They do, and nobody went first when the last one let others do so.
const IN_VAIN: u32 = 6 << HOW;
/// They do, and an acquisition took much longer in the last window, or less long.
const ALWAYS_DOUBTED: u32 = 7 << HOW;

/// A bit: a thread has released the lock in this window in order to wait for others.
pub const WAITS: u32 = 1 << 23;

/// Where the word has how long an acquisition takes as things are, which a trial that fails does not change
/// ([`eight_bits`]), how many parts of the present window have been noted, the last two digits of how many of all
/// windows, and when it began, in ticks.
const PACE: u32 = 7;
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

/// Another trial begins at once if an acquisition takes more than twice as long as before in two windows, or less than
/// half as long, by [`eight_bits`]: what has been learnt is about other circumstances.
const CHANGED: u32 = 16;

/// But only if a part takes fewer ticks than that, an acquisition 768 ns: where acquisitions are rare, they come at
/// random, and hand-overs matter less.
const QUICK: u32 = 48;

/// Batches that have been found to pay stay unless acquisitions follow each other more quickly without them by more
/// than that, 6 to 12 %, by [`eight_bits`]: a candidate that lets others go first looks at the lock less often.
const AS_GOOD: u32 = 2;

/// A number in eight bits, greater for a greater one: an exponent, and the four bits behind the first.
fn eight_bits(number: u32) -> u32 {
    let number = number.clamp(16, 0xf_ffff);
    let exponent = number.ilog2() - 4;
    exponent << 4 | number >> exponent & 15
}

/// Whether candidates let others go first.
pub fn are_on(word: u32) -> bool {
    word & ALL >= TRIED
}

/// Whether a thread has released the lock in order to wait for others, in this window or the last one.
pub fn have_waits(word: u32) -> bool {
    word & WAITS != 0 || word & ALL == WAITED
}

/// The word without batches, before it is known whether they pay.
pub fn end(word: u32) -> u32 {
    word & !ALL | NEVER
}

/// The word when a candidate has let others go first, which nobody may have done. Twice in a row in vain, or once in a
/// trial, is enough.
pub fn after_batch(word: u32, in_vain: bool) -> u32 {
    let how = match word & ALL {
        TRIED | IN_VAIN if in_vain => NEVER,
        ALWAYS | ALWAYS_DOUBTED if in_vain => IN_VAIN,
        IN_VAIN => ALWAYS,
        how => how,
    };
    word & !ALL | how
}

/// The word when a candidate has slept while others went on: a window begins, because the count of acquisitions may
/// have gone through several parts meanwhile.
pub fn after_nap(word: u32, turns: u8, now: Ns) -> u32 {
    window(word & !(3 << ALL_PARTS) | u32::from(turns / PART) << ALL_PARTS, now)
}

/// How long an acquisition takes, from what has been known of it and the last window. What is known of other
/// circumstances says nothing.
fn mean(known: u32, pace: u32) -> u32 {
    if pace.abs_diff(known) > CHANGED {
        pace
    } else {
        (3 * known + pace + 2) / 4
    }
}

/// The word with a window that begins now.
fn window(word: u32, now: Ns) -> u32 {
    let tick = (now / TICK) as u32;
    word & !(MOST_PARTS << PARTS | 0xff << BEGAN | WAITS) | tick << BEGAN
}

/// How many parts of a window are over that have not been noted, by the count of acquisitions.
pub fn new_parts(word: u32, turns: u8) -> u32 {
    u32::from(turns / PART).wrapping_sub(word >> ALL_PARTS) & 3
}

/// The word when they have been noted. If the window is over and was a trial, it shows whether there are batches from
/// now on; else a trial may begin. There are neither batches nor trials where threads wait for each other, or
/// acquisitions follow each other slowly.
pub fn after_parts(word: u32, turns: u8, now: Ns, may_try: bool) -> u32 {
    let new = new_parts(word, turns);
    let took = ((now / TICK) as u32).wrapping_sub(word >> BEGAN) & 0xff;
    let parts = ((word >> PARTS & MOST_PARTS) + new).max(1);
    let (pace, known) = (eight_bits(took * 256 / parts), word >> PACE & 0xff);
    let how = word & ALL;
    let is_trial = how == TRIED || how == NEVER_TRIED;
    let fails_early = is_trial && took >= WINDOW / 8 && pace > known + WORSE;
    let is_slow = took >= SLOW * parts;
    let mut next = word & !(3 << ALL_PARTS) | u32::from(turns / PART) << ALL_PARTS;
    if took < WINDOW && parts + 3 < MOST_PARTS && !fails_early {
        next += new << PARTS;
    } else {
        let has_changed = pace.abs_diff(known) > CHANGED && took < QUICK * parts;
        let (how, known) = match how {
            TRIED if pace < known => (ALWAYS, pace),
            TRIED => (NEVER, known),
            NEVER_TRIED if pace + AS_GOOD < known => (NEVER, pace),
            NEVER_TRIED => (ALWAYS, known),
            NEVER_DOUBTED if has_changed => (TRIED, pace),
            ALWAYS_DOUBTED if has_changed => (NEVER_TRIED, pace),
            NEVER | WAITED if has_changed => (NEVER_DOUBTED, known),
            _ if has_changed => (ALWAYS_DOUBTED, known),
            NEVER | WAITED | NEVER_DOUBTED => (if may_try { TRIED } else { NEVER }, mean(known, pace)),
            _ if may_try => (NEVER_TRIED, mean(known, pace)),
            IN_VAIN => (IN_VAIN, mean(known, pace)),
            _ => (ALWAYS, mean(known, pace)),
        };
        next = window(next & !(ALL | 0xff << PACE) | how | known << PACE, now);
    }
    if word & WAITS != 0 {
        next & !ALL | WAITED
    } else if is_slow {
        end(next)
    } else {
        next
    }
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
            are_on(self.word)
        }
    }

    /// What is known after windows of so many parts; a trial of batches begins.
    fn begin(parts: u8) -> Course {
        let mut course = Course::default();
        assert!(!course.window(parts, 40_000, false), "nothing is known yet, and one window says nothing");
        assert!(course.window(parts, 40_000, false), "a trial");
        course
    }

    #[test]
    fn what_brings_more_acquisitions_stays() {
        let mut course = begin(8);
        assert!(course.window(12, 40_000, false), "more of them");
        assert!(course.window(12, 40_000, false) && !course.window(12, 40_000, true));
        assert!(course.window(8, 40_000, false), "what was tried in vain");
        assert!(!course.window(8, 40_000, true) && !course.window(16, 40_000, false), "better without");
        assert!(!course.window(16, 40_000, false) && course.window(16, 40_000, true));
        assert!(!course.window(12, 40_000, false), "fewer of them");
    }

    #[test]
    fn batches_that_make_little_difference_stay_but_do_not_come() {
        let mut course = begin(15);
        assert!(course.window(16, 40_000, false), "better with them");
        assert!(!course.window(16, 40_000, true) && course.window(17, 40_000, false), "a little better without");
        assert!(!course.window(16, 40_000, true) && !course.window(20, 40_000, false), "much better");
        assert!(course.window(20, 40_000, true) && !course.window(20, 40_000, false), "no better with them");
    }

    #[test]
    fn a_trial_is_compared_with_more_than_the_last_window() {
        let mut course = begin(16);
        assert!(!course.window(12, 40_000, false), "worse with them");
        assert!(course.window(11, 40_000, true) && !course.window(13, 40_000, false), "worse than before that one");
        assert!(course.window(16, 40_000, true) && course.window(18, 40_000, false), "better");
    }

    #[test]
    fn another_pace_is_another_trial_if_it_lasts() {
        let mut course = begin(16);
        assert!(!course.window(8, 40_000, false), "worse with them");
        assert!(!course.window(7, 40_000, false) && !course.window(16, 40_000, false), "slow once");
        assert!(!course.window(36, 40_000, false) && !course.window(16, 40_000, false), "quick once");
        assert!(!course.window(31, 40_000, false) && !course.window(31, 40_000, false), "not twice as quick");
        let mut course = begin(16);
        assert!(!course.window(8, 40_000, false) && !course.window(36, 40_000, false));
        assert!(course.window(36, 40_000, false), "more than twice as quick");
        assert!(course.window(40, 40_000, false), "still better");
        assert!(course.window(16, 40_000, false) && course.window(40, 40_000, false), "slow once");
        assert!(course.window(16, 40_000, false) && !course.window(16, 40_000, false), "less than half as quick");
        let mut course = Course::default();
        assert!(!course.window(1, 52_000, false) && !course.window(1, 52_000, false), "slow");
        assert!(!course.window(3, 40_000, false) && course.window(3, 40_000, false));
    }

    #[test]
    fn a_batch_in_vain_ends_a_trial_and_two_in_a_row_end_what_has_been_found() {
        assert_eq!((after_batch(TRIED, true), after_batch(TRIED, false)), (NEVER, TRIED));
        assert_eq!((after_batch(ALWAYS, true), after_batch(ALWAYS, false)), (IN_VAIN, ALWAYS));
        assert_eq!((after_batch(IN_VAIN, true), after_batch(IN_VAIN, false)), (NEVER, ALWAYS));
        assert_eq!((after_batch(ALWAYS_DOUBTED, true), after_batch(ALWAYS_DOUBTED, false)), (IN_VAIN, ALWAYS_DOUBTED));
        assert_eq!((after_batch(NEVER_TRIED, true), after_batch(NEVER, true)), (NEVER_TRIED, NEVER));
        let mut course = begin(8);
        assert!(course.window(12, 40_000, false));
        course.word = after_batch(course.word, true);
        assert!(course.window(12, 40_000, false), "once in vain");
        assert!(!are_on(after_batch(course.word, true)), "twice, in two windows");
        assert!(are_on(ALWAYS_DOUBTED) && are_on(TRIED) && !are_on(NEVER_TRIED) && !are_on(end(IN_VAIN | 7)));
    }

    #[test]
    fn a_window_begins_where_a_candidate_has_slept() {
        let others = ALWAYS | 0xff << PACE | 7;
        let napped = after_nap(others | MOST_PARTS << PARTS | WAITS, 3 * PART, 5 * TICK + 1);
        assert_eq!(napped, others | 3 << ALL_PARTS | 5 << BEGAN);
        let mut course = Course { word: napped & !7, now: 5 * TICK, parts: 3 };
        assert!(course.window(12, 40_000, true) && !course.window(12, 40_000, true), "a trial");
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
        assert!(!course.window(32, 40_000, true) && course.window(32, 40_000, true));
        assert!(course.window(1, 1_500, false) && !course.window(1, 4_500, false));
    }

    #[test]
    fn nobody_goes_first_in_a_window_with_waits() {
        let mut course = Course::default();
        assert!(course.window(1, 50_000, true));
        course.word |= WAITS;
        assert!(!course.window(1, 50_000, true) && course.word & WAITS == 0);
        assert!(have_waits(course.word), "in the last one");
        assert!(!course.window(1, 50_000, false) && !have_waits(course.word));
        course.word |= WAITS;
        assert!(have_waits(course.word) && !course.window(1, 50_000, true));
        assert!(course.window(1, 50_000, true) && !have_waits(course.word), "a trial, once there are none");
    }

    #[test]
    fn greater_numbers_are_greater_in_eight_bits() {
        for number in 0..0x1f_ffff {
            assert!(eight_bits(number) <= eight_bits(number + 1), "{number}");
        }
        assert!(eight_bits(16) < eight_bits(17) && eight_bits(100) < eight_bits(107) && eight_bits(u32::MAX) < 256);
    }
}
