//! What single steps cost on this machine: arithmetic and accesses of one CPU ([`core`]), a line that comes from
//! another CPU ([`lines`]), one that two use at once ([`contended`]), memory ([`memory`]), hardware threads that share
//! a core ([`siblings`]), what the operating system does ([`system`]), and how long a waiter may spin before it sleeps
//! ([`sleep`]).
//!
//! Every function takes some samples and adds them to those of earlier calls. A caller goes through all of them
//! several times, so that a moment in which other programs take a CPU spoils a few samples of each cost and not all of
//! one. Such moments only ever make a cost longer: [`Samples::typical`] is the lower quartile where they are common,
//! and [`Samples::median`] where they are rare.

pub mod contended;
pub mod core;
pub mod lines;
pub mod memory;
pub mod siblings;
pub mod sleep;
pub mod system;

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::probe::{bind, ProbeError};

/// Samples of one cost.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds one.
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// Adds all of `others`.
    pub fn extend(&mut self, others: Self) {
        self.0.extend(others.0);
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Half of the samples are smaller.
    pub fn median(&self) -> Option<f64> {
        self.quantile(0.5)
    }

    /// A quarter of the samples are smaller.
    pub fn typical(&self) -> Option<f64> {
        self.quantile(0.25)
    }

    /// The value below which this share of the samples lies, to the nearest sample.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get((share * sorted.len().saturating_sub(1) as f64).round() as usize).copied()
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(samples: I) -> Self {
        Samples(samples.into_iter().collect())
    }
}

/// Nanoseconds that each of `steps` took since `start`.
fn each(start: Instant, steps: u32) -> f64 {
    start.elapsed().as_secs_f64() * 1e9 / f64::from(steps)
}

/// Runs `body` on a thread of its own that is bound to `cpu`.
fn on<R: Send>(cpu: usize, body: impl FnOnce() -> R + Send) -> Result<R, ProbeError> {
    thread::scope(|scope| {
        let bound = || bind(cpu).map(|()| body());
        let thread = thread::Builder::new().spawn_scoped(scope, bound).map_err(ProbeError::NoThread)?;
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs two bodies at once, each bound to its CPU. One that cannot be bound makes the other's waits for `turn` end.
fn on_both<A: Send, B: Send>(
    (first, one): (usize, impl FnOnce(&Turn) -> A + Send),
    (second, other): (usize, impl FnOnce(&Turn) -> B + Send),
) -> Result<(A, B), ProbeError> {
    let turn = Turn::default();
    let bound = |cpu| bind(cpu).inspect_err(|_| turn.give_up());
    thread::scope(|scope| {
        let start = thread::Builder::new;
        let other = || bound(second).map(|()| other(&turn));
        let other = start().spawn_scoped(scope, other).map_err(ProbeError::NoThread)?;
        let one = || bound(first).map(|()| one(&turn));
        let one = start().spawn_scoped(scope, one).map_err(|error| {
            turn.give_up();
            ProbeError::NoThread(error)
        })?;
        let one = one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let (one, other) = (one?, other?);
        if turn.0.load(Ordering::Relaxed) == GIVEN_UP {
            return Err(ProbeError::Silent(first, second));
        }
        Ok((one, other))
    })
}

/// Whose turn it is in a game of two threads: a number that they count up.
#[derive(Default)]
#[repr(align(128))]
struct Turn(AtomicU32);

const GIVEN_UP: u32 = u32::MAX;
/// A thread that does not move for so long has no CPU.
const PATIENCE: Duration = Duration::from_secs(10);

impl Turn {
    /// Waits for a turn, spinning; whether it has come.
    fn wait(&self, turn: u32) -> bool {
        let begin = Instant::now();
        for look in 1u32.. {
            // ORDER: Acquire pairs with the Release of `pass`: what the other thread has written.
            match self.0.load(Ordering::Acquire) {
                now if now == turn => return true,
                GIVEN_UP => return false,
                _ if look.is_multiple_of(1 << 12) && begin.elapsed() > PATIENCE => {
                    self.give_up();
                    return false;
                }
                // The other thread may need this very CPU.
                _ if look.is_multiple_of(1 << 10) => thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        false
    }

    /// Makes it the turn of the thread that waits for this number.
    fn pass(&self, turn: u32) {
        // The other thread may have given up.
        let _ = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, |now| (now != GIVEN_UP).then_some(turn));
    }

    /// Ends the game.
    fn give_up(&self) {
        self.0.store(GIVEN_UP, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_samples() {
        let samples: Samples = [4.0, 1.0, 3.0, 2.0, 900.0].into_iter().collect();
        assert_eq!((samples.typical(), samples.median(), samples.len()), (Some(2.0), Some(3.0), 5));
        assert_eq!(Samples::default().median(), None);
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_and_nobody_hangs() {
        let error = on(4095, || ()).unwrap_err().to_string();
        assert!(error.contains("CPU 4095"), "{error}");
        let here = crate::cpuset::CpuSet::of_this_thread().first().unwrap();
        let error = on_both((here, |turn: &Turn| turn.wait(1)), (4095, |_: &Turn| ())).unwrap_err().to_string();
        assert!(error.contains("CPU 4095"), "{error}");
    }
}
