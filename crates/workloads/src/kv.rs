//! The contended key-value map of the CNA paper (Dice & Kogan, EuroSys 2019, section 7.1.1): an AVL tree behind one
//! mutex, half full at the start; each operation draws a key and a kind (lookup, or insert and remove in equal parts)
//! and is followed by pseudo-random numbers computed outside the lock.
//!
//! Deviation from the paper: the nodes live in one array indexed by the key, so that no allocator lock is measured.

use crate::avl::Avl;
use crate::crew::{Crew, Timing};
use crate::random::Random;
use crate::record::Detail;
use crate::report::Report;
use crate::section::{self, On, Round, Rounds};
use crate::Mutex;
use lockswap_platform::Platform;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "KvConfig", deny_unknown_fields)]
pub struct Config {
    /// Threads that operate on the map.
    pub threads: usize,
    /// How long.
    pub timing: Timing,
    /// Keys are drawn from `0..keys`; less than 2^32.
    pub keys: u64,
    /// Share of inserts and removes among the operations, percent.
    pub updates: u32,
    /// Steps that the holder computes besides; for a simulated machine, which does not count instructions.
    pub inside: u64,
    /// External work: steps that a thread computes between two operations, outside the lock ([`Platform::compute`]).
    pub external: u64,
    /// What is noted.
    pub detail: Detail,
}

impl Config {
    /// The paper's map (1024 keys, 20 % updates), for half a second. The external work takes about as long as an
    /// operation does, so that a lock cannot win merely by letting one thread keep it; the paper has none.
    pub const fn new(threads: usize) -> Self {
        let timing = Timing::lasting(500_000_000);
        Self { threads, timing, keys: 1024, updates: 20, inside: 0, external: 32, detail: Detail::Counts }
    }
}

/// What one thread does, and what became of it.
struct Using<'a, P: Platform> {
    tree: &'a Avl<P>,
    keys: u32,
    updates: u32,
    /// The operation itself is the same on every CPU; a slower one repeats the lookup.
    lookups: u64,
    inside: u64,
    external: u64,
    random: Random,
    /// The next operation's key and kind.
    next: (u32, u32),
    inserted: u64,
    removed: u64,
}

impl<P: Platform> Using<'_, P> {
    fn draw(&mut self) {
        self.next = (self.random.below(self.keys), self.random.below(200));
    }
}

impl<P: Platform> Round for Using<'_, P> {
    #[inline]
    fn inside(&mut self) -> u64 {
        let (key, choice) = self.next;
        if choice < self.updates {
            self.inserted += u64::from(self.tree.insert(key, choice as usize));
        } else if choice < 2 * self.updates {
            self.removed += u64::from(self.tree.remove(key));
        } else {
            std::hint::black_box(self.tree.get(key));
        }
        for _ in 1..self.lookups {
            std::hint::black_box(self.tree.get(key));
        }
        P::compute(self.inside);
        0
    }

    #[inline]
    fn outside(&mut self) {
        P::compute(self.external);
        self.draw();
    }
}

/// Runs the workload on `mutex`. The times are waits for the lock.
///
/// # Panics
/// If the map's contents do not match the operations, which means that the lock did not exclude; if `keys` or
/// `updates` is out of range; if there are no threads.
pub fn run<P: Platform, M: Mutex>(config: &Config, crew: &dyn Crew, mutex: &M) -> Report {
    run_on::<P>(config, crew, &On::<P, M>::new(mutex))
}

/// [`run`], compiled once for all locks.
fn run_on<P: Platform>(config: &Config, crew: &dyn Crew, lock: &dyn for<'a> Rounds<Using<'a, P>>) -> Report {
    assert!(config.updates <= 100, "updates is {}, over 100", config.updates);
    assert!((1..u64::from(u32::MAX)).contains(&config.keys), "keys is {}, not in 1..2^32-1", config.keys);
    let keys = config.keys as u32;
    let tree = Avl::<P>::new(keys);
    for key in (0..keys).step_by(2) {
        tree.insert(key, 0);
    }
    let initial = tree.size();
    let plan = (config.threads, config.timing, config.detail);
    let (records, threads, elapsed) = section::rounds(lock, crew, plan, |member| {
        let mut using = Using {
            tree: &tree,
            keys,
            updates: config.updates,
            lookups: member.paced(1),
            inside: member.paced(config.inside),
            external: member.paced(config.external),
            random: member.random(),
            next: (0, 0),
            inserted: 0,
            removed: 0,
        };
        using.draw();
        using
    });

    let inserted = threads.iter().map(|thread| thread.inserted).sum();
    let removed = threads.iter().map(|thread| thread.removed).sum();
    if let Err(message) = check(initial, inserted, removed, tree.size(), tree.check()) {
        panic!("the lock did not exclude: {message}");
    }
    Report::new(&records, elapsed, section::about(config.detail))
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
    use crate::hardware::Hardware;
    use crate::pthread;
    use lockswap_platform::Native;

    fn short(threads: usize) -> Config {
        Config { timing: Timing::lasting(50_000_000), ..Config::new(threads) }
    }

    fn run_on<M: Mutex>(config: &Config, mutex: &M) -> Report {
        run::<Native, M>(config, &Hardware::default(), mutex)
    }

    #[test]
    fn four_threads_pass_the_check_and_all_work() {
        let mutex = pthread::Mutex::new(pthread::Kind::Normal);
        let report = run_on(&Config { updates: 100, external: 0, ..short(4) }, &*mutex);
        assert_eq!(report.per_thread.len(), 4);
        assert_eq!(report.per_thread.iter().map(|thread| thread.ops).sum::<u64>(), report.ops);
        assert!(report.ops > 1000, "{report:?}");
        assert!(report.duration_ns >= 50_000_000);
    }

    #[test]
    fn a_spinlock_and_odd_sizes_work_too() {
        run_on(&Config { keys: 1, updates: 50, ..short(2) }, &*pthread::Spin::new());
        run_on(&Config { keys: 7, updates: 0, detail: Detail::Handoffs, ..short(1) }, &*pthread::Spin::new());
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
        let config = Config { updates: 100, external: 0, ..short(4) };
        // One run is enough in practice; on a single CPU it takes a preemption within an update.
        let caught = (0..40).any(|_| {
            let config = config.clone();
            let outcome = std::thread::spawn(move || run_on(&config, &Broken)).join();
            outcome.is_err_and(|panic| panic.downcast_ref::<String>().is_some_and(|m| m.contains("did not exclude")))
        });
        assert!(caught);
    }
}
