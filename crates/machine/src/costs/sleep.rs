//! How long a thread may spin before it had better sleep: as long as a round trip through a sleep takes. Guiroux,
//! Lachaize and Quéma (USENIX ATC 2016, section 3.2) calibrate their spin-then-park locks so, on the machine itself.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lockswap_platform::{Native, Platform};

use super::system::Games;
use super::{each, on_both, Samples};
use crate::cpuset::CpuSet;
use crate::probe::ProbeError;

/// Time for all round trips.
const TIME: Duration = Duration::from_millis(6);
/// Round trips in a sample.
const TRIPS: u32 = 4;
/// Samples at least, where the machine is busy, and at most: some hundred round trips suffice.
const LEAST_SAMPLES: usize = 3;
const MOST_SAMPLES: usize = 100;
/// A longer round trip was disturbed: where all CPUs are busy it takes milliseconds, for which nobody should spin. ns.
const LONGEST: f64 = 100_000.0;
/// Looks in a sample, and samples of looks.
const LOOKS: u32 = 2_000;
const SAMPLES: u32 = 7;

/// What a sleep and a look of a spinning waiter take on this machine.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sleep {
    /// One thread wakes another and sleeps, the other one does the same, until the first one looks again, ns.
    pub round_trip: f64,
    /// A look of a waiter that spins, with the pause after it, ns.
    pub look: f64,
}

impl Sleep {
    /// Measures the round trip between the first and the last CPU of those that the calling thread may use, and a
    /// look; nothing where there is only one CPU: there nobody spins.
    ///
    /// # Errors
    /// As for [`Self::measure`].
    pub fn here() -> Result<Option<Self>, ProbeError> {
        let cpus = CpuSet::of_this_thread();
        match (cpus.first(), cpus.iter().last()) {
            (Some(first), Some(last)) if first != last => Self::measure(first, last).map(Some),
            _ => Ok(None),
        }
    }

    /// Measures the round trip on these two CPUs, and a look on the one of the calling thread, in about 10 ms.
    ///
    /// # Errors
    /// A thread cannot be started or may not run on its CPU.
    pub fn measure(first: usize, second: usize) -> Result<Self, ProbeError> {
        // First, and on this thread: whoever spins first decides for the process how many CPUs it may use, and a
        // thread that is bound to one sees no other.
        let word = AtomicU32::new(0);
        let sample = |_| {
            let start = Instant::now();
            let found = Native::spin_map_bounded(LOOKS, || (word.load(Ordering::Acquire) != 0).then_some(()));
            debug_assert_eq!(found, None);
            each(start, LOOKS)
        };
        let looks: Samples = (0..SAMPLES).map(sample).collect();
        let games = Games::default();
        let trips = |turn: &_| {
            let end = Instant::now() + TIME;
            games.hop(turn, TRIPS, |samples| samples < LEAST_SAMPLES || samples < MOST_SAMPLES && Instant::now() < end)
        };
        let (hops, ()) = on_both((first, trips), (second, |turn: &_| games.hop_back(turn)))?;
        let silent = || ProbeError::Silent(first, second);
        Ok(Self {
            // Other programs only ever make a round trip longer.
            round_trip: 2.0 * hops.quantile(0.25).ok_or_else(silent)?,
            look: looks.median().filter(|look| *look > 0.0).ok_or_else(silent)?,
        })
    }

    /// So many looks take as long as a round trip through a sleep: at least one, and at most as many as fit into
    /// [`LONGEST`].
    pub fn looks(&self) -> u32 {
        (self.round_trip.min(LONGEST) / self.look).round().max(1.0) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_trip_takes_many_looks() {
        let sleep = Sleep::here().unwrap();
        assert_eq!(sleep.is_some(), CpuSet::of_this_thread().len() > 1);
        let Some(sleep) = sleep else { return };
        // Each way is a system call, and a switch to another thread.
        assert!(sleep.round_trip > 400.0 && sleep.look > 0.0, "{sleep:?}");
        assert!((2..1_000_000).contains(&sleep.looks()), "{sleep:?}");
        assert_eq!(Sleep { round_trip: 10_000.0, look: 20.0 }.looks(), 500);
        assert_eq!(Sleep { round_trip: 1.0, look: 20.0 }.looks(), 1);
        assert_eq!(Sleep { round_trip: 3_000_000.0, look: 20.0 }.looks(), 5_000);
    }
}
