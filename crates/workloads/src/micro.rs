//! Micro measurements of the pthread functions, one number each.
//!
//! A number is the median over many short batches, so that a batch hit by an interrupt or by another program does not
//! count. All measurements except those on two threads run on the calling thread, which should be pinned.

use crate::crew::Timing;
use crate::hardware::{Hardware, Seat};
use crate::pthread::{self, Cond, Kind, Mutex, RwLock, Spin};
use crate::{affinity, counter};
use lockswap_platform::Native;
use std::hint::black_box;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Time for each measurement on one thread.
    pub single: Duration,
    /// Time for each measurement on two threads.
    pub pair: Duration,
    /// Number of mutexes in the memory measurement.
    pub many: usize,
}

impl Default for Effort {
    fn default() -> Self {
        Self { single: Duration::from_millis(15), pair: Duration::from_millis(60), many: 1_000_000 }
    }
}

/// The part of the measurements that a run makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// One thread operates: calls that nobody contests, and memory.
    Uncontended,
    /// Two threads compete for a mutex or hand over to each other.
    Contended,
}

/// What a number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds per operation.
    Nanoseconds,
    /// Bytes per mutex beyond `sizeof(pthread_mutex_t)`.
    Bytes,
    /// Share of all operations that the busier of two threads made: 0.5 is even.
    Share,
}

/// A measurement.
#[derive(Clone, Copy, Debug)]
pub struct Measurement {
    /// Its name in files.
    pub id: &'static str,
    /// Its name in tables.
    pub title: &'static str,
    /// The unit of its numbers.
    pub unit: Unit,
    /// The group that it belongs to.
    pub group: Group,
}

macro_rules! measurements {
    ($($constant:ident $id:literal $title:literal $unit:ident $group:ident)*) => {
        /// The ids of the measurements.
        pub mod id {
            $(#[doc = concat!("`", $id, "`: ", $title)] pub const $constant: &str = $id;)*
        }
        /// All measurements in the order of the table.
        pub const MEASUREMENTS: &[Measurement] =
            &[$(Measurement { id: $id, title: $title, unit: Unit::$unit, group: Group::$group }),*];
    };
}

measurements! {
    BARE             "bare_pair"        "bare pair"    Nanoseconds Uncontended
    CALLS            "two_calls"        "2 calls"      Nanoseconds Uncontended
    SINGLE_THREADED  "single_threaded"  "1 thread"     Nanoseconds Uncontended
    UNCONTENDED      "uncontended"      "mutex"        Nanoseconds Uncontended
    TRY_LOCK         "trylock"          "trylock"      Nanoseconds Uncontended
    ROUND_ROBIN      "round_robin"      "10k mutexes"  Nanoseconds Uncontended
    RECURSIVE        "recursive"        "recursive"    Nanoseconds Uncontended
    ERROR_CHECK      "errorcheck"       "errorcheck"   Nanoseconds Uncontended
    PROCESS_SHARED   "process_shared"   "passed on"    Nanoseconds Uncontended
    COND_SIGNAL      "cond_signal"      "signal"       Nanoseconds Uncontended
    RW_READ          "rwlock_read"      "rw read"      Nanoseconds Uncontended
    RW_WRITE         "rwlock_write"     "rw write"     Nanoseconds Uncontended
    SPIN             "spin"             "spinlock"     Nanoseconds Uncontended
    EXTRA_BYTES      "extra_bytes"      "extra bytes"  Bytes       Uncontended
    CONTENDED        "contended"        "2 threads"    Nanoseconds Contended
    CONTENDED_SHARE  "contended_share"  "busier share" Share       Contended
    HANDOFF_TWO_CPUS "handoff_two_cpus" "cond 2 CPUs"  Nanoseconds Contended
    HANDOFF_ONE_CPU  "handoff_one_cpu"  "cond 1 CPU"   Nanoseconds Contended
}

/// A measurement's id and number.
pub type Sample = (&'static str, f64);

/// Makes the measurements of `groups`. What cannot be measured here is left out: `single_threaded` in a process that
/// has started a thread before, two CPUs where one is granted, memory where `/proc` does not tell.
pub fn measure(groups: &[Group], effort: &Effort) -> Vec<Sample> {
    let mut samples = Vec::new();
    if groups.contains(&Group::Uncontended) {
        if pthread::single_threaded() {
            samples.push((id::SINGLE_THREADED, mutex(effort, Kind::Normal)));
        }
        with_second_thread(|| {
            samples.extend([
                (id::BARE, bare_pair(effort)),
                (id::CALLS, two_calls(effort)),
                (id::UNCONTENDED, mutex(effort, Kind::Normal)),
                (id::TRY_LOCK, try_lock(effort)),
                (id::ROUND_ROBIN, round_robin(effort, 10_000)),
                (id::RECURSIVE, mutex(effort, Kind::Recursive)),
                (id::ERROR_CHECK, mutex(effort, Kind::ErrorCheck)),
                (id::PROCESS_SHARED, mutex(effort, Kind::ProcessShared)),
                (id::COND_SIGNAL, cond_signal(effort)),
                (id::RW_READ, rwlock_read(effort)),
                (id::RW_WRITE, rwlock_write(effort)),
                (id::SPIN, spin(effort)),
            ]);
            samples.extend(extra_bytes(effort.many).map(|bytes| (id::EXTRA_BYTES, bytes)));
        });
    }
    if groups.contains(&Group::Contended) {
        let cpus = all_cpus();
        if let [first, .., last] = cpus[..] {
            let Contended { ns, share } = contended(effort, [first, last]);
            samples.extend([(id::CONTENDED, ns), (id::CONTENDED_SHARE, share)]);
            samples.push((id::HANDOFF_TWO_CPUS, handoff(effort, [first, last])));
        }
        if let Some(&cpu) = cpus.last() {
            samples.push((id::HANDOFF_ONE_CPU, handoff(effort, [cpu, cpu])));
        }
    }
    samples
}

/// The CPUs granted to the process, even if the calling thread is pinned.
fn all_cpus() -> Vec<usize> {
    let before = affinity::allowed();
    let everything: Vec<usize> = (0..1024).collect();
    // The kernel cuts the request down to what exists and the cgroup grants.
    if affinity::pin(&everything).is_err() {
        return before;
    }
    let all = affinity::allowed();
    match affinity::pin(&before) {
        Ok(()) => all,
        Err(_) => before,
    }
}

/// Runs `body` while the process has a second thread, which sleeps: the state in which glibc uses its atomics.
pub fn with_second_thread<R>(body: impl FnOnce() -> R) -> R {
    let (end, second) = sleeping_thread();
    let result = body();
    drop(end);
    second.join().expect("it only sleeps");
    result
}

/// A thread that sleeps until the sender is gone; compiled once, not for each lock.
fn sleeping_thread() -> (mpsc::Sender<()>, JoinHandle<()>) {
    let (end, wait_for_end) = mpsc::channel::<()>();
    let sleeps = move || {
        // An error, when nobody can send any more.
        let _ = wait_for_end.recv();
    };
    (end, std::thread::spawn(sleeps))
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let upper = numbers.len() / 2;
    if numbers.len().is_multiple_of(2) {
        (numbers[upper - 1] + numbers[upper]) / 2.0
    } else {
        numbers[upper]
    }
}

/// Nanoseconds per operation: the median over batches of `operations` operations each, at least 3 batches.
fn batches(time: Duration, operations: u32, mut batch: impl FnMut()) -> f64 {
    batch();
    let mut numbers = Vec::with_capacity(1 << 14);
    let began = Instant::now();
    while numbers.len() < 3 || began.elapsed() < time {
        let batch_began = Instant::now();
        batch();
        numbers.push(batch_began.elapsed().as_nanos() as f64 / f64::from(operations));
    }
    median(numbers)
}

/// Nanoseconds per call of `operation`. A batch of 1000 takes about 10 us: long against reading the clock, short
/// against the time between interrupts.
fn per_operation(effort: &Effort, mut operation: impl FnMut()) -> f64 {
    batches(effort.single, 1000, || {
        for _ in 0..1000 {
            operation();
        }
    })
}

/// A compare-exchange and a store, inlined: the least that a lock and an unlock can cost.
pub fn bare_pair(effort: &Effort) -> f64 {
    let word = Box::new(AtomicU32::new(0));
    per_operation(effort, || {
        let word = black_box(&*word);
        let exchanged = word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed);
        black_box(exchanged.is_ok());
        word.store(0, Ordering::Release);
    })
}

/// Two calls into the C library that do nothing there.
pub fn two_calls(effort: &Effort) -> f64 {
    per_operation(effort, pthread::two_calls)
}

/// Lock and unlock of one mutex.
pub fn mutex(effort: &Effort, kind: Kind) -> f64 {
    pair(effort, &*Mutex::new(kind))
}

/// Lock and unlock of one lock of any sort.
pub fn pair<M: crate::Mutex>(effort: &Effort, mutex: &M) -> f64 {
    let mut me = mutex.thread();
    per_operation(effort, || {
        mutex.lock(&mut me);
        mutex.unlock(&mut me);
    })
}

/// Trylock and unlock of one normal mutex.
pub fn try_lock(effort: &Effort) -> f64 {
    let mutex = Mutex::new(Kind::Normal);
    per_operation(effort, || {
        assert!(mutex.try_lock(), "nobody else holds the mutex");
        mutex.unlock();
    })
}

/// Lock and unlock of `count` mutexes, one after the other, again and again.
pub fn round_robin(effort: &Effort, count: u32) -> f64 {
    let mutexes = Mutex::array(count as usize);
    batches(effort.single, count, || {
        for mutex in &*mutexes {
            mutex.lock();
            mutex.unlock();
        }
    })
}

/// A signal that nobody waits for.
pub fn cond_signal(effort: &Effort) -> f64 {
    let cond = Cond::new();
    per_operation(effort, || cond.signal())
}

/// Shared acquisition and release of one read-write lock.
pub fn rwlock_read(effort: &Effort) -> f64 {
    let lock = RwLock::new();
    per_operation(effort, || {
        lock.read();
        lock.unlock();
    })
}

/// Exclusive acquisition and release of one read-write lock.
pub fn rwlock_write(effort: &Effort) -> f64 {
    let lock = RwLock::new();
    per_operation(effort, || {
        lock.write();
        lock.unlock();
    })
}

/// Lock and unlock of one spinlock.
pub fn spin(effort: &Effort) -> f64 {
    let spin = Spin::new();
    per_operation(effort, || {
        spin.lock();
        spin.unlock();
    })
}

/// Growth of the resident memory, in bytes per mutex, when each of `count` mutexes, whose own memory is resident
/// already, is initialised and locked and unlocked once.
pub fn extra_bytes(count: usize) -> Option<f64> {
    let mutexes = Mutex::array(count);
    // The first call has one-time costs of its own.
    mutexes[0].lock();
    mutexes[0].unlock();
    let before = resident_bytes()?;
    for index in 0..count {
        let mutex = Mutex::at(mutexes.as_ref(), index);
        mutex.init(Kind::Normal);
        mutex.lock();
        mutex.unlock();
    }
    let after = resident_bytes()?;
    Some(after.saturating_sub(before) as f64 / count as f64)
}

/// The exact resident size; `statm` is off by what each CPU has not yet added to the total.
fn resident_bytes() -> Option<u64> {
    let rollup = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// The outcome of [`contended`].
#[derive(Clone, Copy, Debug)]
pub struct Contended {
    /// Nanoseconds from one acquisition to the next, whichever thread makes it.
    pub ns: f64,
    /// Share of the acquisitions made by the busier thread.
    pub share: f64,
}

/// Two threads on the two `cpus` do nothing but lock, increment a shared number, and unlock.
///
/// # Panics
/// If an increment was lost, which means that the lock did not exclude.
pub fn contended(effort: &Effort, cpus: [usize; 2]) -> Contended {
    const PARTS: u32 = 8;
    let mutex = Mutex::new(Kind::Normal);
    let crew = Hardware { seats: cpus.map(|cpu| Seat { cpu, pace: 1.0 }).to_vec(), ..Hardware::default() };
    let duration = (effort.pair / PARTS).as_nanos() as u64;
    let config = counter::Config { timing: Timing::lasting(duration), ..counter::Config::bare(2) };
    let reports: Vec<_> = (0..PARTS).map(|_| counter::run::<Native, _>(&config, &crew, &*mutex)).collect();
    let all: u64 = reports.iter().map(|report| report.ops).sum();
    let of = |thread: usize| reports.iter().map(|report| report.per_thread[thread].ops).sum::<u64>();
    Contended {
        ns: median(reports.iter().map(|report| report.duration_ns as f64 / report.ops.max(1) as f64).collect()),
        share: of(0).max(of(1)) as f64 / all.max(1) as f64,
    }
}

const FIRST: u32 = 0;
const SECOND: u32 = 1;
const DONE: u32 = 2;

/// Two threads, pinned to `cpus`, wake each other in turn through condition variables, signalling while they hold the
/// mutex; nanoseconds for one hand-over.
pub fn handoff(effort: &Effort, cpus: [usize; 2]) -> f64 {
    const ROUND_TRIPS: u32 = 16;
    let mutex = Mutex::new(Kind::Normal);
    let conds = [Cond::new(), Cond::new()];
    let turn = AtomicU32::new(FIRST);
    let pass_on = |to: u32| {
        turn.store(to, Ordering::Relaxed);
        conds[(to % 2) as usize].signal();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // An unpinned partner still works; the numbers then describe a placement of the kernel's choice.
            let _ = affinity::pin(&[cpus[1]]);
            mutex.lock();
            loop {
                match turn.load(Ordering::Relaxed) {
                    SECOND => pass_on(FIRST),
                    DONE => break,
                    _ => conds[1].wait(&mutex),
                }
            }
            mutex.unlock();
        });
        let leader = scope.spawn(|| {
            let _ = affinity::pin(&[cpus[0]]);
            let ns = batches(effort.pair, 2 * ROUND_TRIPS, || {
                for _ in 0..ROUND_TRIPS {
                    mutex.lock();
                    pass_on(SECOND);
                    while turn.load(Ordering::Relaxed) != FIRST {
                        conds[0].wait(&mutex);
                    }
                    mutex.unlock();
                }
            });
            mutex.lock();
            turn.store(DONE, Ordering::Relaxed);
            conds[1].signal();
            mutex.unlock();
            ns
        });
        leader.join().expect("the measuring thread")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Effort = Effort { single: Duration::from_millis(1), pair: Duration::from_millis(8), many: 100_000 };

    /// Held by the tests that look at the size of the whole process.
    static MEMORY: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn every_measurement_gives_a_sensible_number() {
        let _alone = MEMORY.lock();
        let samples = measure(&[Group::Uncontended, Group::Contended], &SHORT);
        let two_cpus = all_cpus().len() > 1;
        for measurement in MEASUREMENTS {
            let found: Vec<f64> = samples.iter().filter(|s| s.0 == measurement.id).map(|s| s.1).collect();
            let expected = match measurement.id {
                id::SINGLE_THREADED => false, // the test harness has threads
                id::CONTENDED | id::CONTENDED_SHARE | id::HANDOFF_TWO_CPUS => two_cpus,
                _ => true,
            };
            assert_eq!(found.len(), usize::from(expected), "{}", measurement.id);
            for number in found {
                let range = match measurement.unit {
                    Unit::Nanoseconds => 0.1..1e7,
                    Unit::Bytes => 0.0..100.0,
                    Unit::Share => 0.5..1.000_1,
                };
                assert!(range.contains(&number), "{}: {number}", measurement.id);
            }
        }
    }

    #[test]
    fn groups_are_kept_apart() {
        let samples = measure(&[Group::Contended], &SHORT);
        let group_of = |id| MEASUREMENTS.iter().find(|m| m.id == id).map(|m| m.group);
        assert!(samples.iter().all(|s| group_of(s.0) == Some(Group::Contended)));
    }

    #[test]
    fn a_second_thread_ends_the_single_threaded_state() {
        with_second_thread(|| assert!(!pthread::single_threaded()));
    }

    #[test]
    fn extra_memory_is_seen() {
        let _alone = MEMORY.lock();
        let before = resident_bytes().expect("smaps_rollup");
        let kept = vec![1_u8; 64 << 20];
        let after = resident_bytes().expect("smaps_rollup");
        // Other tests may give back some of their own at the same time.
        assert!(after > before + (48 << 20), "{before} {after}");
        drop(black_box(kept));
    }

    #[test]
    fn the_median_ignores_outliers() {
        assert_eq!(median(vec![9e9, 2.0, 1.0]), 2.0);
        assert_eq!(median(vec![1.0, 9e9, 3.0, 2.0]), 2.5);
    }
}
