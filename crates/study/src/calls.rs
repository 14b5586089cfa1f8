//! Lock calls of a program, as the preload library counts them: which of them were ours.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use lockswap_locks::registry::is_glibcs;
use lockswap_records::counters::{call, Called, Counter, Why, CALLS, CHILDREN, FILE_BYTES, SHARD_WORDS};
use serde::{Deserialize, Serialize};

/// What the library counted in one run, over all processes of the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counted {
    /// Calls by what they were made on.
    pub calls: Calls,
    /// Processes that loaded the library.
    pub processes: u64,
    /// Processes that loaded it and were left alone.
    pub left_alone: u64,
}

/// Calls of each role by who answered them: acquisitions, and for condition variables waits, signals and broadcasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// On mutexes.
    pub mutex: Answers,
    /// On condition variables.
    pub cond: Answers,
    /// On read-write locks.
    pub rwlock: Answers,
    /// On spinlocks.
    pub spin: Answers,
}

impl Calls {
    /// Those of the counters' file.
    pub fn of(words: &[u64]) -> Self {
        let of = |called| Answers::of(words, called);
        Self { mutex: of(Called::Mutex), cond: of(Called::Cond), rwlock: of(Called::RwLock), spin: of(Called::Spin) }
    }

    /// All roles together.
    pub fn all(&self) -> Answers {
        [self.mutex, self.cond, self.rwlock, self.spin].into_iter().fold(Answers::default(), Answers::and)
    }
}

/// Calls that lockswap answered, and those that went on to glibc by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// By a lock of lockswap's.
    pub ours: u64,
    /// By glibc: robust mutexes.
    pub robust: u64,
    /// By glibc: priority-inheriting mutexes.
    pub pi: u64,
    /// By glibc: priority-protected mutexes.
    pub protect: u64,
    /// By glibc: process-shared objects.
    pub pshared: u64,
    /// By glibc, since its own lock was chosen.
    pub chosen: u64,
}

impl Answers {
    fn of(words: &[u64], called: Called) -> Self {
        let shards = words[CALLS..CHILDREN].chunks_exact(SHARD_WORDS);
        let of = |why| shards.clone().map(|shard| shard[call(called, why)]).fold(0, u64::saturating_add);
        Self {
            ours: of(Why::Ours),
            robust: of(Why::Robust),
            pi: of(Why::Pi),
            protect: of(Why::Protect),
            pshared: of(Why::Pshared),
            chosen: of(Why::Chosen),
        }
    }

    fn and(self, other: Self) -> Self {
        Self {
            ours: self.ours.saturating_add(other.ours),
            robust: self.robust.saturating_add(other.robust),
            pi: self.pi.saturating_add(other.pi),
            protect: self.protect.saturating_add(other.protect),
            pshared: self.pshared.saturating_add(other.pshared),
            chosen: self.chosen.saturating_add(other.chosen),
        }
    }

    /// Those that went on to glibc, with the reason in words; only reasons that there were.
    pub fn passed(&self) -> Vec<(u64, &'static str)> {
        let reasons = [
            (self.robust, "robust"),
            (self.pi, "priority-inheriting"),
            (self.protect, "priority-protected"),
            (self.pshared, "process-shared"),
            (self.chosen, "as chosen"),
        ];
        reasons.into_iter().filter(|(count, _)| *count > 0).collect()
    }

    /// All calls.
    pub fn total(&self) -> u64 {
        self.passed().into_iter().fold(self.ours, |sum, (count, _)| sum.saturating_add(count))
    }
}

/// The words of a counters' file.
pub fn words(file: &File) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; FILE_BYTES];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes
        .chunks_exact(8)
        .map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        .collect())
}

impl Counted {
    /// What such a file says.
    pub fn read(file: &File) -> io::Result<Self> {
        let words = words(file)?;
        let of = |counter: Counter| words[counter as usize];
        Ok(Self { calls: Calls::of(&words), processes: of(Counter::Processes), left_alone: of(Counter::Aside) })
    }

    /// Whether `lock` answered at least one call: as one of lockswap's, or as the kind of glibc's own that was chosen.
    pub fn is_replaced(&self, lock: &str) -> bool {
        let calls = self.calls.all();
        calls.ours > 0 || (is_glibcs(lock) && calls.chosen > 0)
    }

    /// Processes that loaded the library, whatever it did there.
    pub fn all_processes(&self) -> u64 {
        self.processes.saturating_add(self.left_alone)
    }

    /// Why no call was ours, and what to do.
    pub fn why_nothing(&self) -> (&'static str, &'static str) {
        let calls = self.calls.all();
        match (self.processes, self.left_alone) {
            (0, 0) => (
                "the preload library was not loaded (a static program, another C library, or set-user-ID)",
                "'lockswap doctor PROGRAM' says which",
            ),
            (0, _) => ("the preload library left the program alone", "'lockswap run --summary -- PROGRAM' says why"),
            _ if calls.total() == 0 => (
                "the program called none of the pthread lock functions",
                "its locks are of another kind (futexes of its own, as in Rust's std and in Go, or semaphores); \
                 'lockswap doctor PROGRAM' says more",
            ),
            _ => (
                "all its lock calls were passed on to glibc (robust, process-shared or priority-inheriting mutexes)",
                "docs/limits.md says why these stay glibc's",
            ),
        }
    }
}
