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
const SLEEPER: &str =
    "without this order the `sleeper` that a waiter of clh_stp leaves in a node may come after that of the node's next \
     use, and the release then wakes the wrong thread: three threads and a node used twice, which loom does not finish; \
     for clh_spin coherence of the one word is enough";
/// See [`EXPLAINED`].
const STALE: &str =
    "only a third thread can read the grant of the node's earlier use, as the one that ended that use has \
                     seen the end: three threads and a node used twice, which loom does not finish";
/// See [`EXPLAINED`].
const DESTROYED: &str = "keeps the last access before the end of the lock's memory, which loom's machine does not know";
/// See [`EXPLAINED`].
const BELL: &str =
    "the top's load of `bell` comes before its exchange on `state`, the ringer's change of `bell` after its own: \
     without this order the load may see that change, and the top sleeps on the new value, after the wake-up; loom lets no \
     load see a later write";
/// See [`EXPLAINED`].
const TURN: &str =
    "the sleeper's load of `turn` comes before its exchange on `state`, the releaser's change of `turn` after its own: \
     without this order the load may see that change, and the sleeper sleeps on the new value, after the wake-up; loom lets \
     no load see a later write";
/// See [`EXPLAINED`].
const OUT: &str =
    "the release's load of `next` comes before the store of OUT, the owner's `next` = null of the next use after its load \
     of OUT: without this order the release may see that null, and waits for a link that it has missed; loom lets no load \
     see a later write";
/// See [`EXPLAINED`].
const GATE: &str =
    "who opens a gate first takes a flag out of `state`: without this order a sleeper may see the new count of the gate, but \
     the state with the flag, takes it for its own, and sleeps on the new count, after the wake-up; loom's sleepers wake by \
     themselves";
/// See [`EXPLAINED`].
const LAST_LOOK: &str =
    "keeps a waiter from being missed by the last look before the lock is free, which would let others pass it: \
                         loom sees no fairness, the explorer knows no weak orders";

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
        source: "let is_active = P::spin_map(|| {",
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
        file: "crates/locks/src/routed/ticket.rs",
        source: "if n_wait == ONE | ROUTED && self.n_wait.try_change(ROUTED, 0, Ordering::Release) {",
        change: Change::DropRelease,
        why: "the subtraction before publishes the critical section; this order is for the removed mark, which a later holder \
              would add to the element's grants: it would have to read the old value two acquisitions later",
    },
    Explained {
        file: "crates/locks/src/shares/u_scl.rs",
        source: "let word = self.word.fetch_or(WAKE_AT_END, Ordering::Acquire) | WAKE_AT_END;",
        change: Change::DropAcquire,
        why: "the head of the queue may then see the end of a slice that has been given up, and sleep until that time: loom's \
              sleepers wake by themselves",
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
        file: "crates/locks/src/load_control/mcs_timepub.rs",
        source: "self.status.load(Ordering::Acquire) == OUT",
        change: Change::DropAcquire,
        why: OUT,
    },
    Explained {
        file: "crates/locks/src/load_control/mcs_timepub.rs",
        source: "status.store(OUT, Ordering::Release);",
        change: Change::DropRelease,
        why: OUT,
    },
    Explained {
        file: "crates/locks/src/numa/level.rs",
        source: "self.tail.load(Ordering::Acquire).is_null()",
        change: Change::DropAcquire,
        why: DESTROYED,
    },
    Explained {
        file: "crates/locks/src/load_control/gcr.rs",
        source: "self.state.compare_exchange(state, state | ASLEEP, Ordering::Release)",
        change: Change::DropRelease,
        why: BELL,
    },
    Explained {
        file: "crates/locks/src/load_control/gcr.rs",
        source: "self.state.fetch_and(!ASLEEP, Ordering::Acquire)",
        change: Change::DropAcquire,
        why: BELL,
    },
    Explained {
        file: "crates/locks/src/flat/mutexee.rs",
        source: "self.state.compare_exchange(state, rest - from + part, order)",
        change: Change::DropRelease,
        why: TURN,
    },
    Explained {
        file: "crates/locks/src/flat/mutexee.rs",
        source: "self.state.compare_exchange(state, state | CALLED, Ordering::Acquire)",
        change: Change::DropAcquire,
        why: TURN,
    },
    Explained {
        file: "crates/locks/src/shuffle/shfllock.rs",
        source: "next.shuffles.store(1, Ordering::Release);",
        change: Change::DropRelease,
        why: "a shuffler moves the link of the waiter that it passes over; the waiter put before that one hands it the role \
              here, and if it takes it up before the grant it follows a link whose node it has not acquired; for that two \
              more must wait behind it: six threads, and loom has five",
    },
    Explained {
        file: "crates/locks/src/queue/clh.rs",
        source: "self.state.load(Ordering::Acquire) == FREE",
        change: Change::DropAcquire,
        why: SLEEPER,
    },
    Explained {
        file: "crates/locks/src/queue/clh.rs",
        source: "state.store(FREE, Ordering::Release);",
        change: Change::DropRelease,
        why: SLEEPER,
    },
    Explained {
        file: "crates/locks/src/queue/clh.rs",
        source: "let predecessor = self.tail.swap(",
        change: Change::DropRelease,
        why: STALE,
    },
    Explained {
        file: "crates/locks/src/queue/clh.rs",
        source: "let acquired = self.tail.try_change(null_mut(), from_ref(cx).cast_mut(), Ordering::AcqRel)",
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
        source: "self.tail.try_change(null_mut(), from_ref(cx).cast_mut(), Ordering::AcqRel)",
        change: Change::DropRelease,
        why: STALE,
    },
    Explained {
        file: "crates/locks/src/load_control/malthusian.rs",
        source: "if self.tail.compare_exchange(me, last, Ordering::Release).is_err() {",
        change: Change::DropRelease,
        why: "without it the null in the heir's link and the link of whoever joins behind it have no order: if the null comes last, \
              the link is lost and its owner waits for ever. Seen as an execution that does not end, and in the scenarios that \
              come so far loom has such ones for the lock as it is, too",
    },
    Explained {
        file: "crates/locks/src/numa/cna.rs",
        source: "if self.tail.compare_exchange(from_ref(cx).cast_mut(), last, Ordering::Release).is_ok() {",
        change: Change::DropRelease,
        why: "as in malthusian.rs, for the link of the secondary queue's last waiter: who made it null, that waiter, who ends the \
              main queue, and who joins then, not having acquired the lock since: four threads, which loom does not finish",
    },
    Explained {
        file: "crates/locks/src/shuffle/blocking.rs",
        source: "let granted = status.load(Ordering::Acquire) == GRANTED;",
        change: Change::DropAcquire,
        why: "a waiter that a shuffler has passed over, and whose link it has moved, becomes the head while the lock is held, \
              and looks at the waiter behind it: with this order it has acquired that node from the shuffler, by way of the \
              heads between; five threads, and loom does not come so far",
    },
    Explained {
        file: "crates/locks/src/rw/rw_futex.rs",
        source: "gate.fetch_add(1, Ordering::Release);",
        change: Change::DropRelease,
        why: GATE,
    },
    Explained {
        file: "crates/locks/src/rw/rw_futex.rs",
        source: "let count = gate.load(Ordering::Acquire);",
        change: Change::DropAcquire,
        why: GATE,
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
        source: "if in_use == IN_USE && self.in_use.compare_exchange(IN_USE, FREE, Ordering::Release).is_ok() {",
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
