//! What the operating system does: its calls as the locks make them, and how it shares a CPU out.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use lockswap_platform::{Native, Ns, Platform};

use super::{each, on, on_both, Samples, Turn};
use crate::probe::ProbeError;

/// Samples of each sort that one call adds.
const ROUNDS: u32 = 60;
/// Calls in a sample of a call that returns at once.
const CALLS: u32 = 20;
/// Round trips in a sample of two threads on one CPU.
const TRIPS: u32 = 10;
/// The sleep whose end is watched, ns.
const SLEEP: Ns = 50_000;
/// After so long the other thread sleeps for certain.
const ASLEEP: Duration = Duration::from_micros(100);
/// How long two threads compete for a CPU.
const RIVALRY: Duration = Duration::from_millis(120);
/// Shorter gaps are interrupts.
const SHORTEST_SLICE: Duration = Duration::from_micros(200);

/// Costs in ns.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// `sched_yield` with nobody else to run.
    pub yield_cpu: Samples,
    /// A futex wait that does not sleep, because the value has changed.
    pub park: Samples,
    /// How much later than asked a sleep ends.
    pub late: Samples,
    /// From one thread to another on the same CPU and vice versa, half of it: one wakes the other, then sleeps.
    pub hop: Samples,
    /// The futex call that wakes a thread of an idle CPU.
    pub unpark: Samples,
    /// From the begin of that call to the first instruction of the woken thread.
    pub wake: Samples,
    /// How long a thread is away from a CPU that it shares with another.
    pub slice: Samples,
}

impl Costs {
    /// Adds all samples of `others`.
    pub fn extend(&mut self, others: Self) {
        self.yield_cpu.extend(others.yield_cpu);
        self.park.extend(others.park);
        self.late.extend(others.late);
        self.hop.extend(others.hop);
        self.unpark.extend(others.unpark);
        self.wake.extend(others.wake);
        self.slice.extend(others.slice);
    }
}

/// Adds samples of what needs one CPU.
pub fn measure(cpu: usize, costs: &mut Costs) -> Result<(), ProbeError> {
    on(cpu, || {
        let word = AtomicU32::new(0);
        for _ in 0..ROUNDS {
            let start = Instant::now();
            (0..CALLS).for_each(|_| Native::yield_cpu());
            costs.yield_cpu.push(each(start, CALLS));
            let start = Instant::now();
            (0..CALLS).for_each(|_| _ = Native::park(&word, 1, None));
            costs.park.push(each(start, CALLS));
            let start = Instant::now();
            Native::sleep(SLEEP);
            costs.late.push((each(start, 1) - SLEEP as f64).max(0.0));
        }
    })?;
    let games = Games::default();
    let (found, ()) = on_both(
        (cpu, |turn: &Turn| games.hop(turn, TRIPS, |samples| samples < ROUNDS as usize)),
        (cpu, |turn: &Turn| games.hop_back(turn)),
    )?;
    costs.hop.extend(found);
    // Whoever is on the CPU counts until the other one's time is over, too.
    let end = Instant::now() + RIVALRY;
    let (gaps, more) = on_both((cpu, |_: &Turn| gaps(end)), (cpu, |_: &Turn| gaps(end)))?;
    costs.slice.extend(gaps);
    costs.slice.extend(more);
    Ok(())
}

/// Adds samples of a thread on `first` that wakes one on `second`.
pub fn measure_wake(first: usize, second: usize, costs: &mut Costs) -> Result<(), ProbeError> {
    let games = Games::default();
    let (unpark, wake) = on_both((first, |_: &Turn| games.wake()), (second, |_: &Turn| games.sleep()))?;
    let (calls, begins): (Vec<f64>, Vec<Instant>) = unpark.into_iter().unzip();
    costs.unpark.extend(calls.into_iter().collect());
    let latency = |(begin, end): (Instant, Instant)| end.saturating_duration_since(begin).as_secs_f64() * 1e9;
    costs.wake.extend(begins.into_iter().zip(wake).map(latency).collect());
    Ok(())
}

/// Words on which threads sleep.
#[derive(Default)]
pub(super) struct Games {
    word: AtomicU32,
    over: AtomicBool,
    /// How often nobody slept who was to be woken.
    awake: AtomicU32,
}

impl Games {
    /// Sleeps until the word is `value`; it may be more by the time that this thread gets a CPU to look at it.
    fn sleep_until(&self, value: u32) {
        loop {
            let now = self.word.load(Ordering::Acquire);
            if now >= value || self.over.load(Ordering::Acquire) {
                return;
            }
            let _ = Native::park(&self.word, now, None);
        }
    }

    fn set_and_wake(&self, value: u32) {
        self.word.store(value, Ordering::Release);
        if Native::unpark(&self.word, 1) == 0 {
            // Relaxed: a count.
            self.awake.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The thread that times both ways, in samples of so many round trips, while there is to be one more sample than
    /// so many; the word is odd while it is the other one's turn. A sample counts only if whoever was woken slept: on
    /// two CPUs each thread may find the other one still awake, trip after trip, and the kernel does nothing then.
    pub(super) fn hop(&self, turn: &Turn, trips: u32, goes_on: impl Fn(usize) -> bool) -> Samples {
        let mut found = Samples::default();
        if !turn.wait(1) {
            return found;
        }
        let end = Instant::now() + HOPPING;
        let mut number = 0;
        spin(ASLEEP);
        while goes_on(found.len()) && Instant::now() < end {
            // Relaxed, here and below: a count, to which nothing is added while the other thread sleeps.
            let awake = self.awake.load(Ordering::Relaxed);
            let start = Instant::now();
            for _ in 0..trips {
                self.set_and_wake(number + 1);
                number += 2;
                self.sleep_until(number);
            }
            let took = each(start, 2 * trips);
            spin(ASLEEP);
            if self.awake.load(Ordering::Relaxed) == awake {
                found.push(took);
            }
        }
        self.over.store(true, Ordering::Release);
        self.set_and_wake(number + 1);
        found
    }

    pub(super) fn hop_back(&self, turn: &Turn) {
        turn.pass(1);
        let mut number = 1;
        loop {
            self.sleep_until(number);
            if self.over.load(Ordering::Acquire) {
                return;
            }
            self.set_and_wake(number + 1);
            number += 2;
        }
    }

    /// Wakes the other thread again and again: how long each call took, and when it began.
    fn wake(&self) -> Vec<(f64, Instant)> {
        let mut found = Vec::new();
        for number in 1..=ROUNDS {
            let begin = Instant::now();
            spin(ASLEEP);
            // It sleeps a little later now and then; it is waited for.
            let start = loop {
                let start = Instant::now();
                self.word.store(number, Ordering::Release);
                if Native::unpark(&self.word, 1) == 1 {
                    break start;
                }
                self.word.store(number - 1, Ordering::Release);
                if begin.elapsed() > super::PATIENCE {
                    self.over.store(true, Ordering::Release);
                    self.set_and_wake(ROUNDS);
                    return found;
                }
                std::thread::sleep(ASLEEP);
            };
            found.push((each(start, 1), start));
        }
        found
    }

    /// When the thread came back from each of its sleeps.
    fn sleep(&self) -> Vec<Instant> {
        let mut found = Vec::new();
        for number in 1..=ROUNDS {
            self.sleep_until(number);
            found.push(Instant::now());
        }
        found
    }
}

/// Samples are taken for no longer than this, even if none counts: `lockswap run` waits for them at its start.
const HOPPING: Duration = Duration::from_secs(1);

/// Keeps the CPU for so long.
fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

/// Gaps in the time of this thread until `end`: it was not on its CPU.
fn gaps(end: Instant) -> Samples {
    let mut found = Samples::default();
    let mut last = Instant::now();
    while last < end {
        let now = Instant::now();
        if now - last > SHORTEST_SLICE {
            found.push((now - last).as_secs_f64() * 1e9);
        }
        last = now;
    }
    found
}
