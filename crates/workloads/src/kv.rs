//! The contended key-value map of the CNA paper (Dice & Kogan, EuroSys 2019, section 7.1.1): an AVL tree behind one
//! mutex, half full at the start; each operation draws a key and a kind (lookup, or insert and remove in equal parts)
//! and is followed by pseudo-random numbers computed outside the lock.
//!
//! Deviation from the paper: the nodes live in one array indexed by the key, so that no allocator lock is measured.

use crate::avl::Avl;
use crate::random::Random;
use crate::{pthread, Mutex};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Debug)]
pub struct KvConfig {
    /// Threads that operate on the map.
    pub threads: usize,
    /// Length of the measurement; a warm-up of a tenth of it goes before.
    pub duration: Duration,
    /// Keys are drawn from `0..keys`; less than 2^32.
    pub keys: u64,
    /// Share of inserts and removes among the operations.
    pub update_percent: u32,
    /// Pseudo-random numbers that a thread computes between two operations, outside the lock.
    pub external_work: u32,
}

impl Default for KvConfig {
    /// The paper's map (1024 keys, 20 % updates) under as many threads as there are CPUs, at least 2: the lock is
    /// always wanted, yet holder and waiters can run at once. The external work takes about as long as an operation
    /// does, so that a lock cannot win merely by letting one thread keep it.
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(2, |n| n.get().max(2)),
            duration: Duration::from_millis(500),
            keys: 1024,
            update_percent: 20,
            external_work: 32,
        }
    }
}

/// What a run did.
#[derive(Clone, Debug)]
pub struct KvReport {
    /// Operations within the measured time.
    pub ops: u64,
    /// The measured time.
    pub elapsed: Duration,
    /// Operations within the measured time, thread by thread.
    pub per_thread: Vec<u64>,
}

const WARM_UP: u32 = 0;
const MEASURE: u32 = 1;
const STOP: u32 = 2;

#[derive(Default)]
struct Tally {
    measured: u64,
    inserted: u64,
    removed: u64,
}

/// Runs the workload on a pthread mutex.
///
/// # Panics
/// If the map's contents do not match the operations, which means that the lock did not exclude; if `keys` or
/// `update_percent` is out of range; if there are no threads.
pub fn run(config: &KvConfig) -> KvReport {
    run_on(config, &*pthread::Mutex::new(pthread::Kind::Normal))
}

/// Runs the workload on `mutex`.
///
/// # Panics
/// As [`run`].
pub fn run_on<M: Mutex>(config: &KvConfig, mutex: &M) -> KvReport {
    assert!(config.threads > 0, "the key-value workload needs at least 1 thread");
    assert!(config.update_percent <= 100, "update_percent is {}, over 100", config.update_percent);
    assert!((1..u64::from(u32::MAX)).contains(&config.keys), "keys is {}, not in 1..2^32-1", config.keys);

    let tree = Avl::new(config.keys as u32);
    for key in (0..config.keys as u32).step_by(2) {
        tree.insert(key, 0);
    }
    let initial = tree.size();

    let phase = AtomicU32::new(WARM_UP);
    let start = Barrier::new(config.threads + 1);
    let (tallies, elapsed) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..config.threads)
            .map(|number| {
                let (tree, phase, start) = (&tree, &phase, &start);
                scope.spawn(move || {
                    start.wait();
                    operate(config, mutex, tree, phase, number)
                })
            })
            .collect();
        start.wait();
        std::thread::sleep(config.duration / 10);
        let began = Instant::now();
        phase.store(MEASURE, Relaxed);
        std::thread::sleep(config.duration);
        phase.store(STOP, Relaxed);
        let elapsed = began.elapsed();
        let tallies: Vec<Tally> = threads.into_iter().map(|thread| thread.join().expect("a worker")).collect();
        (tallies, elapsed)
    });

    let inserted = tallies.iter().map(|tally| tally.inserted).sum();
    let removed = tallies.iter().map(|tally| tally.removed).sum();
    if let Err(message) = check(initial, inserted, removed, tree.size(), tree.check()) {
        panic!("the lock did not exclude: {message}");
    }
    let per_thread: Vec<u64> = tallies.iter().map(|tally| tally.measured).collect();
    KvReport { ops: per_thread.iter().sum(), elapsed, per_thread }
}

fn operate<M: Mutex>(config: &KvConfig, mutex: &M, tree: &Avl, phase: &AtomicU32, number: usize) -> Tally {
    let mut random = Random::new(number);
    let mut tally = Tally::default();
    let mut me = mutex.thread();
    loop {
        let key = random.below(config.keys as u32);
        let choice = random.below(200);
        mutex.lock(&mut me);
        if choice < config.update_percent {
            tally.inserted += u64::from(tree.insert(key, u64::from(choice)));
        } else if choice < 2 * config.update_percent {
            tally.removed += u64::from(tree.remove(key));
        } else {
            std::hint::black_box(tree.get(key));
        }
        mutex.unlock(&mut me);
        match phase.load(Relaxed) {
            WARM_UP => {}
            MEASURE => tally.measured += 1,
            _ => return tally,
        }
        for _ in 0..config.external_work {
            std::hint::black_box(random.next());
        }
    }
}

/// Compares what the threads did with the size that the tree counted and with the keys found in it.
fn check(initial: u64, inserted: u64, removed: u64, size: u64, found: Result<u64, String>) -> Result<(), String> {
    let found = found?;
    let expected = (initial + inserted).checked_sub(removed);
    if expected == Some(size) && size == found {
        return Ok(());
    }
    Err(format!("{initial} keys, {inserted} inserted and {removed} removed left {found} keys and a size of {size}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(threads: usize) -> KvConfig {
        KvConfig { threads, duration: Duration::from_millis(50), ..KvConfig::default() }
    }

    #[test]
    fn four_threads_pass_the_check_and_all_work() {
        let report = run(&KvConfig { update_percent: 100, external_work: 0, ..short(4) });
        assert_eq!(report.per_thread.len(), 4);
        assert_eq!(report.per_thread.iter().sum::<u64>(), report.ops);
        assert!(report.ops > 1000, "{report:?}");
        assert!(report.elapsed >= Duration::from_millis(50));
    }

    #[test]
    fn a_spinlock_and_odd_sizes_work_too() {
        run_on(&KvConfig { keys: 1, update_percent: 50, ..short(2) }, &*pthread::Spin::new());
        run_on(&KvConfig { keys: 7, update_percent: 0, ..short(1) }, &*pthread::Spin::new());
    }

    #[test]
    fn the_check_compares_all_counts() {
        assert_eq!(check(512, 10, 5, 517, Ok(517)), Ok(()));
        assert!(check(512, 10, 5, 516, Ok(517)).is_err());
        assert!(check(512, 10, 5, 517, Ok(516)).is_err());
        assert!(check(512, 11, 5, 517, Ok(517)).is_err());
        assert!(check(1, 0, 2, u64::MAX, Ok(0)).is_err());
        assert_eq!(check(512, 0, 0, 512, Err("cycle".into())), Err("cycle".into()));
    }

    #[test]
    fn a_lock_that_does_not_exclude_is_found() {
        struct Broken;
        impl Mutex for Broken {
            type Thread = ();
            fn thread(&self) {}
            fn lock(&self, (): &mut ()) {}
            fn unlock(&self, (): &mut ()) {}
        }
        let config = KvConfig { update_percent: 100, external_work: 0, ..short(4) };
        // One run is enough in practice; on a single CPU it takes a preemption within an update.
        let caught = (0..40).any(|_| {
            let config = config.clone();
            let outcome = std::thread::spawn(move || run_on(&config, &Broken)).join();
            outcome.is_err_and(|panic| panic.downcast_ref::<String>().is_some_and(|m| m.contains("did not exclude")))
        });
        assert!(caught);
    }
}
