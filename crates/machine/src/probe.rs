//! How long a cache line takes from one CPU to another.
//!
//! Two threads, each bound to a CPU, play ping-pong with a word: one writes a number and waits until the other one has
//! answered with the next. A sample is the time of [`ROUNDS`] round trips divided by twice their number: half a round
//! trip is the time of one way. The result for a pair is the median of its samples, which does not mind that now and
//! then somebody else takes a CPU. The threads wait without the pause instruction, which would add to the time and
//! which makes some virtual machines leave the CPU.
//!
//! The word lies in memory of the first CPU's NUMA node.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use syscalls::{syscall, Sysno};

use crate::cpuset::CpuSet;
use crate::matrix::Matrix;

/// Round trips of a sample: long enough that looking at the clock does not count.
pub const ROUNDS: u32 = 100;
/// Samples of a pair at least.
const LEAST_SAMPLES: usize = 15;
/// Time for all pairs, where that leaves each between the shortest and the longest time.
const ALL_PAIRS: Duration = Duration::from_secs(60);
const SHORTEST: Duration = Duration::from_millis(3);
const LONGEST: Duration = Duration::from_millis(200);
/// Starting two threads and moving them to their CPUs.
const OVERHEAD: Duration = Duration::from_micros(300);
/// A CPU that does not answer for so long is not ours to use.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why there are no latencies.
#[derive(Debug)]
pub enum ProbeError {
    /// No thread can be started, or get memory.
    NoThread(io::Error),
    /// A thread may not run on this CPU.
    Refused(usize, io::Error),
    /// The first CPU waited too long for the second.
    Silent(usize, usize),
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::NoThread(error) => write!(f, "cannot start a thread: {error}"),
            ProbeError::Refused(cpu, error) => write!(f, "cannot run on CPU {cpu}: {error}"),
            ProbeError::Silent(from, to) => {
                write!(f, "CPUs {from} and {to} do not run at the same time, not once in {} s", PATIENCE.as_secs())
            }
        }
    }
}

impl std::error::Error for ProbeError {}

/// Which CPUs to measure, and how long.
#[derive(Clone, Debug)]
pub struct Plan {
    cpus: Vec<usize>,
    pair: Duration,
}

impl Plan {
    /// Every pair of these CPUs, in a minute or so; longer where they are very many.
    pub fn new(cpus: &CpuSet) -> Self {
        let cpus: Vec<usize> = cpus.iter().collect();
        let pairs = (cpus.len() * cpus.len().saturating_sub(1) / 2).max(1);
        let pair = ALL_PAIRS.div_f64(pairs as f64).clamp(SHORTEST, LONGEST);
        Self { cpus, pair }
    }

    /// How many pairs there are.
    pub fn pairs(&self) -> usize {
        self.cpus.len() * self.cpus.len().saturating_sub(1) / 2
    }

    /// How long it takes where nobody else uses the CPUs.
    pub fn estimate(&self) -> Duration {
        (self.pair + OVERHEAD).mul_f64(self.pairs() as f64)
    }

    /// Measures one pair after the other; `done` is called after each.
    pub fn run(&self, mut done: impl FnMut()) -> Result<Matrix, ProbeError> {
        let side = self.cpus.len();
        let mut ns = vec![0.0; side * side];
        for first in 0..side {
            for second in first + 1..side {
                let median = pair(self.cpus[first], self.cpus[second], self.pair)?;
                ns[first * side + second] = median;
                ns[second * side + first] = median;
                done();
            }
        }
        Ok(Matrix::new(self.cpus.clone(), |from, to| ns[from * side + to]))
    }
}

/// A page of zero memory that nobody has touched: it comes to lie near the CPU that does first.
struct Page(*mut AtomicU32);

const PAGE_BYTES: usize = 4096;

// SAFETY: it is used through a shared reference to an atomic only.
unsafe impl Sync for Page {}

impl Page {
    fn new() -> Result<Self, ProbeError> {
        let (access, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping.
        match unsafe { syscall!(Sysno::mmap, 0, PAGE_BYTES, access, flags, usize::MAX, 0) } {
            Ok(address) => Ok(Page(address as *mut AtomicU32)),
            Err(error) => Err(ProbeError::NoThread(io::Error::from_raw_os_error(error.into_raw()))),
        }
    }

    fn word(&self) -> &AtomicU32 {
        // SAFETY: mapped until dropped, aligned, and all bytes are valid.
        unsafe { &*self.0 }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: ours, and borrowed no more.
        let _ = unsafe { syscall!(Sysno::munmap, self.0, PAGE_BYTES) };
    }
}

/// Tells the second thread that the game is over.
const OVER: u32 = u32::MAX;

/// The median time from one CPU to the other, ns.
fn pair(first: usize, second: usize, time: Duration) -> Result<f64, ProbeError> {
    let page = Page::new()?;
    // The word once the second thread is on its CPU: there it waits for numbers. Nothing if it cannot get there.
    let ready = OnceLock::new();
    let start = || thread::Builder::new().stack_size(64 * 1024);
    thread::scope(|scope| {
        let answerer = || {
            let bound = bind(second);
            ready.get_or_init(|| bound.is_ok().then(|| page.word()));
            bound.map(|()| answer(page.word()))
        };
        let asker = || {
            let bound = bind(first);
            let samples = bound.map(|()| ready.wait().and_then(|word| ask(word, time)));
            page.word().store(OVER, Ordering::Release);
            samples
        };
        let answerer = start().spawn_scoped(scope, answerer).map_err(ProbeError::NoThread)?;
        let asker = start().spawn_scoped(scope, asker).map_err(|error| {
            page.word().store(OVER, Ordering::Release);
            ProbeError::NoThread(error)
        })?;
        let samples = asker.join().unwrap_or(Ok(None));
        answerer.join().unwrap_or(Ok(()))?;
        samples?.map(median).ok_or(ProbeError::Silent(first, second))
    })
}

pub(crate) fn bind(cpu: usize) -> Result<(), ProbeError> {
    let alone: CpuSet = [cpu].into_iter().collect();
    alone.bind_this_thread().map_err(|error| ProbeError::Refused(cpu, io::Error::from_raw_os_error(error.into_raw())))
}

/// Adds one to each number that the other side writes.
fn answer(word: &AtomicU32) {
    let mut last = 0;
    loop {
        // ORDER: Acquire and Release, here and in `ask`, as in a lock that is handed over.
        let number = word.load(Ordering::Acquire);
        if number == OVER {
            return;
        }
        if number != last {
            last = number + 1;
            // The other side may have lost patience meanwhile.
            let _ = word.compare_exchange(number, last, Ordering::Release, Ordering::Relaxed);
        }
    }
}

/// Times of one way, ns; `None` if nobody answers.
fn ask(word: &AtomicU32, time: Duration) -> Option<Vec<f64>> {
    let begin = Instant::now();
    let mut samples = Vec::new();
    let mut number = 0;
    loop {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            word.store(number + 1, Ordering::Release);
            number += 2;
            let mut looks = 0u32;
            while word.load(Ordering::Acquire) != number {
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(1 << 16) && start.elapsed() > PATIENCE {
                    return None;
                }
            }
        }
        let taken = start.elapsed();
        // The first sample contains the beginning of the game.
        if number > 2 * ROUNDS {
            samples.push(taken.as_secs_f64() * 1e9 / f64::from(2 * ROUNDS));
        }
        if samples.len() >= LEAST_SAMPLES && begin.elapsed() >= time || number > OVER - 4 * ROUNDS {
            return Some(samples);
        }
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    let median = if samples.len() % 2 == 1 { samples[middle] } else { (samples[middle - 1] + samples[middle]) / 2.0 };
    (median * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_pairs_get_more_time_than_many() {
        let plan = |cpus: usize| Plan::new(&(0..cpus).collect());
        assert_eq!((plan(0).pairs(), plan(1).pairs(), plan(2).pairs(), plan(256).pairs()), (0, 0, 1, 32640));
        assert_eq!(plan(2).pair, LONGEST);
        assert!(plan(64).estimate() < Duration::from_secs(70));
        assert!(plan(256).estimate() < Duration::from_secs(180), "{:?}", plan(256).estimate());
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 900.0, 1.0]), 3.0);
        assert_eq!(median(vec![4.0, 3.0, 900.0, 1.0]), 3.5);
    }

    #[test]
    fn the_cpus_here_are_measured() {
        let here: CpuSet = CpuSet::of_this_thread().iter().take(3).collect();
        let plan = Plan::new(&here);
        let mut pairs = 0;
        let matrix = plan.run(|| pairs += 1).unwrap();
        assert_eq!((matrix.side(), pairs), (here.len(), plan.pairs()));
        for from in 0..matrix.side() {
            for to in (0..matrix.side()).filter(|to| *to != from) {
                let ns = matrix.ns(from, to);
                assert!((1.0..100_000.0).contains(&ns) && ns == matrix.ns(to, from), "{ns} ns");
            }
        }
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        let error = Plan::new(&[0, 4095].into_iter().collect()).run(|| ()).unwrap_err().to_string();
        assert!(error.contains("CPU 4095"), "{error}");
    }
}
