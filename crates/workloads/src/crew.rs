//! Who runs a workload: threads in places, and the signal that starts and ends what counts.

use crate::random::Random;
use lockswap_platform::{CoreKind, Ns};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::Mutex;

/// How long a run takes, ns of the platform's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Timing {
    /// Time before the measurement.
    pub warm_up: Ns,
    /// Length of the measurement.
    pub duration: Ns,
}

impl Timing {
    /// A measurement of `duration` ns after a warm-up of a tenth of it.
    pub const fn lasting(duration: Ns) -> Self {
        Self { warm_up: duration / 10, duration }
    }
}

/// What an operation that begins now is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is counted.
    WarmUp,
    /// It counts, if it also ends in this phase.
    Measure,
    /// No further operation begins.
    Stop,
}

/// Tells the threads of a run in which phase it is. It is written twice, so reading it costs nothing.
#[derive(Default)]
#[repr(align(128))]
pub struct Signal {
    phase: AtomicU32,
    /// When the measurement began, and when it ended.
    times: [AtomicU64; 2],
}

impl Signal {
    /// The phase.
    #[inline]
    pub fn phase(&self) -> Phase {
        Self::named(self.phase.load(Relaxed))
    }

    fn named(number: u32) -> Phase {
        match number {
            0 => Phase::WarmUp,
            1 => Phase::Measure,
            _ => Phase::Stop,
        }
    }

    /// Begins the next phase, at the time `now` of the platform's clock.
    pub fn advance(&self, now: Ns) {
        if let Some(time) = self.times.get(self.phase.load(Relaxed) as usize) {
            time.store(now, Relaxed);
        }
        // ORDER(phase): Release pairs with the Acquire in `measured`; publishes the time.
        self.phase.fetch_add(1, Release);
    }

    /// How much of the time from `asked` to `entered`, which is now, lies within the measurement.
    #[inline]
    pub fn measured(&self, asked: Ns, entered: Ns) -> Ns {
        // ORDER(phase): Acquire pairs with the Release in `advance`; the times of this phase are there.
        let phase = Self::named(self.phase.load(Acquire));
        if phase == Phase::WarmUp {
            return 0;
        }
        let [began, ended] = &self.times;
        let until = if phase == Phase::Stop { entered.min(ended.load(Relaxed)) } else { entered };
        until.saturating_sub(asked.max(began.load(Relaxed)))
    }
}

/// One thread of a run.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    /// From 0.
    pub number: usize,
    /// How many times the work a CPU of its kind does: 1, or more where a slower CPU is emulated.
    pub pace: f64,
    /// The kind of CPU that it runs on.
    pub kind: CoreKind,
    /// The phase of the run.
    pub signal: &'a Signal,
    /// What the chances of this run follow.
    pub seed: u64,
}

impl Member<'_> {
    /// Its own sequence of random numbers.
    pub(crate) fn random(&self) -> Random {
        Random::seeded(self.seed, self.number as u64)
    }

    /// `work` of any unit, as much of it as this thread does.
    #[inline]
    pub fn paced(&self, work: u64) -> u64 {
        if self.pace == 1.0 {
            work
        } else {
            (work as f64 * self.pace).round() as u64
        }
    }
}

/// Where a CPU lies: two CPUs share what has the same number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Place {
    /// Its core.
    pub core: u32,
    /// Its last-level cache.
    pub llc: u32,
    /// Its NUMA node.
    pub node: u32,
}

/// Threads, and the machine they run on.
pub trait Crew: Sync {
    /// Runs `body` on so many threads at once. The signal advances after the warm-up and again after the measurement,
    /// and the call returns when all have returned: the measured time, ns.
    fn run(&self, threads: usize, timing: Timing, body: &(dyn Fn(&Member<'_>) + Sync)) -> Ns;
    /// Where `cpu` lies.
    fn place(&self, cpu: u32) -> Place;
    /// Gives the calling thread, one of a run's, this nice value, not less than the one it has.
    fn be_nice(&self, nice: u32);
}

/// Runs `body` on `threads` threads; what each returned, in their order, and the measured time.
///
/// # Panics
/// If there are no threads.
pub fn gather<R: Send>(
    crew: &dyn Crew,
    threads: usize,
    timing: Timing,
    body: impl Fn(&Member<'_>) -> R + Sync,
) -> (Vec<R>, Ns) {
    gather_from(crew, threads, timing, &body)
}

/// [`gather`], compiled once for all bodies that return an `R`: there is one for each lock and workload.
fn gather_from<R: Send>(
    crew: &dyn Crew,
    threads: usize,
    timing: Timing,
    body: &(dyn Fn(&Member<'_>) -> R + Sync),
) -> (Vec<R>, Ns) {
    assert!(threads > 0, "a workload needs at least 1 thread");
    let results = Mutex::new((0..threads).map(|_| None).collect::<Vec<_>>());
    let elapsed = crew.run(threads, timing, &|member| {
        let result = body(member);
        results.lock().expect("no thread panicked")[member.number] = Some(result);
    });
    let results = results.into_inner().expect("no thread panicked");
    (results.into_iter().map(|result| result.expect("every thread has returned")).collect(), elapsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_counts_as_far_as_it_lies_within_the_measurement() {
        let signal = Signal::default();
        assert_eq!((signal.phase(), signal.measured(10, 90)), (Phase::WarmUp, 0));
        signal.advance(100);
        assert_eq!(signal.phase(), Phase::Measure);
        assert_eq!([signal.measured(10, 130), signal.measured(110, 130), signal.measured(90, 99)], [30, 20, 0]);
        signal.advance(200);
        assert_eq!(signal.phase(), Phase::Stop);
        let spans = [(10, 900), (150, 900), (150, 160), (210, 900)];
        assert_eq!(spans.map(|(asked, entered)| signal.measured(asked, entered)), [100, 50, 10, 0]);
    }
}
