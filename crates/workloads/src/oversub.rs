//! More threads than CPUs compete for one mutex: how fast it goes round, and how long the unluckiest thread waits.
//!
//! Each operation computes a few numbers and counts inside, and computes more outside.

use crate::random::Random;
use crate::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug)]
pub struct OversubConfig {
    /// Threads that compete.
    pub threads: usize,
    /// Length of the measurement; a warm-up of a tenth of it goes before.
    pub duration: Duration,
    /// Pseudo-random numbers that the holder computes.
    pub inside: u32,
    /// Pseudo-random numbers that a thread computes between two acquisitions.
    pub outside: u32,
}

impl Default for OversubConfig {
    /// 16 threads; about 50 ns inside and 200 ns outside; long enough for a wait of over a second to show.
    fn default() -> Self {
        Self { threads: 16, duration: Duration::from_millis(1200), inside: 32, outside: 128 }
    }
}

/// What a run gave.
#[derive(Clone, Debug)]
pub struct OversubReport {
    /// Acquisitions within the measured time.
    pub acquisitions: u64,
    /// The measured time.
    pub elapsed: Duration,
    /// Longest wait of each thread for one acquisition, the end of the run included.
    pub longest_waits: Vec<Duration>,
}

const WARM_UP: u32 = 0;
const MEASURE: u32 = 1;
const STOP: u32 = 2;

/// Runs the workload on `mutex`.
///
/// # Panics
/// If an increment was lost, which means that the lock did not exclude; if there are no threads.
pub fn run_on<M: Mutex>(config: &OversubConfig, mutex: &M) -> OversubReport {
    assert!(config.threads > 0, "the workload needs at least 1 thread");
    let phase = AtomicU32::new(WARM_UP);
    let shared = AtomicU64::new(0);
    let start = Barrier::new(config.threads + 1);
    let operate = |number| {
        let mut me = mutex.thread();
        let mut random = Random::new(number);
        let (mut all, mut measured, mut longest) = (0, 0, Duration::ZERO);
        let mut compute = |count| {
            for _ in 0..count {
                std::hint::black_box(random.next());
            }
        };
        start.wait();
        loop {
            let seen = phase.load(Relaxed);
            if seen == STOP {
                return (all, measured, longest);
            }
            let began = Instant::now();
            mutex.lock(&mut me);
            let waited = began.elapsed();
            shared.store(shared.load(Relaxed) + 1, Relaxed);
            compute(config.inside);
            mutex.unlock(&mut me);
            all += 1;
            if seen == MEASURE {
                longest = longest.max(waited);
                measured += u64::from(phase.load(Relaxed) == MEASURE);
            }
            compute(config.outside);
        }
    };
    let (tallies, elapsed) = std::thread::scope(|scope| {
        let operate = &operate;
        let threads: Vec<_> = (0..config.threads).map(|number| scope.spawn(move || operate(number))).collect();
        start.wait();
        std::thread::sleep(config.duration / 10);
        let began = Instant::now();
        phase.store(MEASURE, Relaxed);
        std::thread::sleep(config.duration);
        phase.store(STOP, Relaxed);
        let elapsed = began.elapsed();
        let tallies: Vec<(u64, u64, Duration)> = threads.into_iter().map(|t| t.join().expect("a worker")).collect();
        (tallies, elapsed)
    });
    let made: u64 = tallies.iter().map(|tally| tally.0).sum();
    let kept = shared.load(Relaxed);
    assert!(made == kept, "the lock did not exclude: {made} increments left {kept}");
    OversubReport {
        acquisitions: tallies.iter().map(|tally| tally.1).sum(),
        elapsed,
        longest_waits: tallies.iter().map(|tally| tally.2).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pthread::{Kind, Mutex as PthreadMutex};

    #[test]
    fn the_longest_wait_is_as_long_as_the_mutex_was_taken() {
        let mutex = PthreadMutex::new(Kind::Normal);
        let config = OversubConfig { threads: 3, duration: Duration::from_millis(60), ..OversubConfig::default() };
        let report = std::thread::scope(|scope| {
            let run = scope.spawn(|| run_on(&config, &*mutex));
            std::thread::sleep(Duration::from_millis(30));
            mutex.lock();
            std::thread::sleep(Duration::from_millis(20));
            mutex.unlock();
            run.join().expect("the workload")
        });
        assert!(report.acquisitions > 10 && report.elapsed >= config.duration, "{report:?}");
        assert_eq!(report.longest_waits.len(), 3);
        assert!(report.longest_waits.iter().max() >= Some(&Duration::from_millis(10)), "{report:?}");
    }
}
