//! What fits into the time that the user gives.

use std::time::Duration;

use lockswap_study::stats::fewest_rounds;
use serde::Serialize;

/// Rounds of an experiment where there is time for them.
const ROUNDS: u32 = 10;

/// Fewer locks than these are no choice: `pthread`, `auto`, and one more.
const FEWEST_CANDIDATES: usize = 3;

/// Locks that are compared in the end, besides `pthread`: the profile, and so many for all mutexes alike.
pub const CONFIRMED: usize = 3;

/// How much is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Budget {
    /// Mutexes that get a lock of their own.
    pub mutexes: usize,
    /// Locks that are tried for each, `pthread` included.
    pub candidates: usize,
    /// Rounds of each experiment; one more warms up.
    pub rounds: u32,
    /// Runs in all, at most.
    pub runs: u32,
}

/// There is no time for the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooShort {
    /// How long the least takes.
    pub needed: Duration,
}

impl Budget {
    fn new(mutexes: usize, candidates: usize, rounds: Option<u32>) -> Self {
        // All but `pthread` are compared with it.
        let fewest = fewest_rounds(candidates - 1).max(fewest_rounds(CONFIRMED));
        let rounds = rounds.map_or(fewest, |rounds| rounds.max(fewest));
        let with_warm_up = |rounds: u32, variants: usize| (rounds + 1) * variants as u32;
        let runs = with_warm_up(rounds, candidates) * mutexes as u32 + with_warm_up(rounds, CONFIRMED + 1);
        Self { mutexes, candidates, rounds, runs }
    }

    /// The most that fits into `time`, for so many mutexes with so many locks to try at most, if a run takes `run`.
    ///
    /// First rounds go, then mutexes, then locks: a choice between few locks for the worst mutex is worth more than
    /// one that rests on too few runs.
    ///
    /// # Errors
    /// Not even the least fits.
    pub fn within(time: Duration, run: Duration, mutexes: usize, candidates: usize) -> Result<Self, TooShort> {
        let least = candidates.clamp(2, FEWEST_CANDIDATES);
        let wishes = std::iter::once((mutexes, candidates, Some(ROUNDS)))
            .chain((1..=mutexes).rev().map(|mutexes| (mutexes, candidates, None)))
            .chain((least..candidates).rev().map(|candidates| (1, candidates, None)));
        let mut budgets = wishes.map(|(mutexes, candidates, rounds)| Self::new(mutexes, candidates.max(2), rounds));
        let fits = |budget: &Self| budget.takes(run) <= time;
        budgets.find(fits).ok_or(TooShort { needed: Self::new(1, least, None).takes(run) })
    }

    /// How long that takes, if a run takes `run`.
    pub fn takes(&self, run: Duration) -> Duration {
        run * self.runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn with_time_enough_everything_is_tried_in_ten_rounds() {
        let budget = Budget::within(600 * SECOND, SECOND, 3, 5).unwrap();
        assert_eq!(budget, Budget { mutexes: 3, candidates: 5, rounds: 10, runs: 11 * 5 * 3 + 11 * 4 });
        assert_eq!(budget.takes(SECOND), 209 * SECOND);
    }

    #[test]
    fn with_less_time_rounds_go_then_mutexes_then_locks() {
        let of =
            |seconds: u32| Budget::within(seconds * SECOND, SECOND, 3, 5).map(|b| (b.mutexes, b.candidates, b.rounds));
        // Four locks against pthread take eight rounds for a verdict.
        assert_eq!(of(208), Ok((3, 5, 8)));
        assert_eq!(of(170), Ok((2, 5, 8)));
        assert_eq!(of(125), Ok((1, 5, 8)));
        // Three and two take seven.
        assert_eq!(of(80), Ok((1, 4, 7)));
        assert_eq!(of(63), Ok((1, 3, 7)));
        assert_eq!(of(55), Err(TooShort { needed: 56 * SECOND }));
    }

    #[test]
    fn a_verdict_is_possible_with_every_budget() {
        for seconds in 1..400 {
            for candidates in 2..=5 {
                let Ok(budget) = Budget::within(seconds * SECOND, SECOND, 2, candidates) else { continue };
                assert!(budget.rounds >= fewest_rounds(budget.candidates - 1), "{budget:?}");
                assert!(budget.rounds >= fewest_rounds(CONFIRMED) && budget.takes(SECOND) <= seconds * SECOND);
            }
        }
    }
}
