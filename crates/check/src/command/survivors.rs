//! Why a mutant that survives is wrong nevertheless, where somebody has found out.

use lockswap_check::mutation::{Change, Wait};

/// What is known about one survivor.
pub struct Explained {
    /// Path from the workspace's root.
    pub file: &'static str,
    /// The source line, without what is around it.
    pub source: &'static str,
    /// What the mutant does.
    pub change: Change,
    /// Why no check catches it.
    pub why: &'static str,
}

/// See [`EXPLAINED`].
const REUSE: &str =
    "coherence of this one word is enough for a node that is used again as a node; the order is for memory \
                     that becomes something else then, which no scenario does";
/// See [`EXPLAINED`].
const STALE: &str =
    "only a third thread can read the grant of the node's earlier use, as the one that ended that use has \
                     seen the end: three threads and a node used twice, which loom does not finish";
/// See [`EXPLAINED`].
const BUFFERING: &str = "keeps a read before the node's next use; loom lets no read see a write that is made later";
/// See [`EXPLAINED`].
const DESTROYED: &str = "keeps the last access before the end of the lock's memory, which loom's machine does not know";
/// See [`EXPLAINED`].
const LAST_LOOK: &str =
    "keeps a waiter from being missed by the last look before the lock is free, which would let others pass it: \
                         loom sees no fairness and takes SeqCst for AcqRel, the explorer knows no weak orders";

/// All that is known.
pub const EXPLAINED: &[Explained] = &[
    Explained {
        file: "crates/locks/src/flat/twa.rs",
        source: "P::spin_map(|| {",
        change: Change::Skip(Wait::Spin),
        why: "the wait afar is about speed: the wait that follows it looks at the number served",
    },
    Explained {
        file: "crates/locks/src/load_control/gcr.rs",
        source: "if P::spin_map(|| self.try_activate()) {",
        change: Change::Skip(Wait::Spin),
        why: "who is active is about speed: the thread goes the passive way, and the inner lock excludes",
    },
    Explained {
        file: "crates/locks/src/rw/phase_fair.rs",
        source: "P::spin_map(|| (self.serving.load(Ordering::Relaxed) == mine).then_some(()));",
        change: Change::Skip(Wait::Spin),
        why: "the ticket gives writers their order; the announcement that follows excludes, and no scenario of a read-write lock checks the order",
    },
    Explained {
        file: "crates/locks/src/queue/clh.rs",
        source: "self.state.load(Ordering::Acquire) == FREE",
        change: Change::DropAcquire,
        why: REUSE,
    },
    Explained {
        file: "crates/locks/src/queue/clh.rs",
        source: "self.state.store(FREE, Ordering::Release);",
        change: Change::DropRelease,
        why: REUSE,
    },
    Explained {
        file: "crates/locks/src/queue/hemlock.rs",
        source: "self.word.load(Ordering::Acquire) == EMPTY",
        change: Change::DropAcquire,
        why: REUSE,
    },
    Explained {
        file: "crates/locks/src/queue/hemlock.rs",
        source: "self.word.compare_exchange(FULL, EMPTY, Ordering::AcqRel)",
        change: Change::DropRelease,
        why: REUSE,
    },
    Explained {
        file: "crates/locks/src/queue/clh.rs",
        source: "let predecessor = self.tail.swap(",
        change: Change::DropRelease,
        why: STALE,
    },
    Explained {
        file: "crates/locks/src/queue/clh.rs",
        source: "let acquired = self.tail.compare_exchange(null_mut(),",
        change: Change::DropRelease,
        why: STALE,
    },
    Explained {
        file: "crates/locks/src/queue/hemlock.rs",
        source: "let predecessor = self.tail.swap(",
        change: Change::DropRelease,
        why: STALE,
    },
    Explained {
        file: "crates/locks/src/queue/hemlock.rs",
        source: "&& self.tail.compare_exchange(null_mut(),",
        change: Change::DropRelease,
        why: STALE,
    },
    Explained {
        file: "crates/locks/src/load_control/mcs_timepub.rs",
        source: "self.status.load(Ordering::Acquire) == OUT",
        change: Change::DropAcquire,
        why: BUFFERING,
    },
    Explained {
        file: "crates/locks/src/load_control/mcs_timepub.rs",
        source: "status.store(OUT, Ordering::Release);",
        change: Change::DropRelease,
        why: BUFFERING,
    },
    Explained {
        file: "crates/locks/src/numa/hmcs.rs",
        source: "self.entries.iter().all(|entry| entry.0.tail.load(Ordering::Acquire).is_null())",
        change: Change::DropAcquire,
        why: DESTROYED,
    },
    Explained {
        file: "crates/locks/src/routed/ron.rs",
        source: "Ordering::SeqCst",
        change: Change::DropAcquire,
        why: LAST_LOOK,
    },
    Explained {
        file: "crates/locks/src/routed/ron.rs",
        source: "Ordering::SeqCst",
        change: Change::DropRelease,
        why: LAST_LOOK,
    },
    Explained {
        file: "crates/locks/src/routed/plock.rs",
        source: "Ordering::SeqCst",
        change: Change::DropAcquire,
        why: LAST_LOOK,
    },
    Explained {
        file: "crates/locks/src/routed/plock.rs",
        source: "Ordering::SeqCst",
        change: Change::DropRelease,
        why: LAST_LOOK,
    },
    Explained {
        file: "crates/locks/src/routed/shared.rs",
        source: "Ordering::SeqCst",
        change: Change::DropAcquire,
        why: LAST_LOOK,
    },
    Explained {
        file: "crates/locks/src/routed/shared.rs",
        source: "Ordering::SeqCst",
        change: Change::DropRelease,
        why: LAST_LOOK,
    },
    Explained {
        file: "crates/locks/src/routed/ron.rs",
        source: "if next().is_none() && self.state.compare_exchange(HELD, FREE, Ordering::Release).is_ok()",
        change: Change::DropRelease,
        why: DESTROYED,
    },
];

/// Why `change` survives in `source` in `file`.
pub fn why(file: &str, source: &str, change: Change) -> Option<&'static str> {
    let found =
        EXPLAINED.iter().find(|known| known.file == file && known.change == change && source.contains(known.source));
    found.map(|known| known.why)
}
