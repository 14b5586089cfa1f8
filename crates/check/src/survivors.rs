//! Why a mutant that no check catches is wrong nevertheless, or why it is none, where somebody has found out.

use crate::mutation::{Change, Mutant, Wait};
use crate::source;

/// What is known about one survivor. It is named by its place and its change, never by the text of its line: an order
/// that somebody adds to the same file is not explained by what was said about another one.
#[derive(Debug)]
pub struct Explained {
    /// Path from `crates/locks/src`.
    pub file: &'static str,
    /// The function, as [`source::item`] names it.
    pub item: &'static str,
    /// The name in the comment `// ORDER(name)` of the access; nothing for a wait, or for an access that several uses
    /// share, which give it its order.
    pub order: Option<&'static str>,
    /// What the mutant does.
    pub change: Change,
    /// Why no check catches it.
    pub why: &'static str,
}

/// Where the locks' own source lies.
pub const SOURCES: &str = "crates/locks/src/";

impl Explained {
    /// Whether this is about `mutant`.
    pub fn is_about(&self, mutant: &Mutant) -> bool {
        let Mutant { place, change } = mutant;
        *change == self.change
            && place.file.strip_prefix(SOURCES) == Some(self.file)
            && source::item(&place.file, place.line) == self.item
            && self.order.is_none_or(|order| source::orders(&place.file, place.line).iter().any(|name| name == order))
    }
}

impl std::fmt::Display for Explained {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.file, self.item)?;
        self.order.map_or(Ok(()), |order| write!(f, " ORDER({order})"))?;
        write!(f, " {}", self.change)
    }
}

/// Without this order the language lets a load see a store that is made later (load buffering), and so do Arm's
/// processors.
const BUFFERED_BELL: &str =
    "the top's load of `bell` comes before its exchange on `state`, the ringer's change of `bell` after its own: \
         without this order the load may see that change, and the top sleeps on the new value, after the wake-up; \
         loom lets no load see a later write";
/// As [`BUFFERED_BELL`].
const BUFFERED_TURN: &str =
    "the sleeper's load of `turn` comes before its exchange on `state`, the releaser's change of `turn` after its \
         own: without this order the load may see that change, and the sleeper sleeps on the new value, after the \
         wake-up; loom lets no load see a later write";
/// The look at WaitArray before RON's lock becomes free.
const LAST_LOOK: &str =
    "keeps a waiter from being missed by the last look before the lock is free, which would let others pass it: loom \
         sees no fairness, the explorer knows no weak orders";

/// The queue word of `auto`, as a holder finds it empty.
const LEFT_BY_HOLDERS: &str =
    "needless as long as only holders leave the queue empty: the caller holds the lock, so that the hand-offs since then \
         have ordered it behind that";

/// What the candidate of `auto` publishes as it sits down.
const NEIGHBOUR: &str =
    "publishes that the candidate has brought a neighbour forward, to a waiter that then takes itself out of the queue. \
         The last of the queue is not moved, so that this takes a holder, the candidate and three waiters on two nodes: \
         five threads, and loom searches three";

/// All that is known.
pub const EXPLAINED: &[Explained] = &[
    Explained {
        file: "auto/release.rs",
        item: "AutoLock::look",
        order: Some("seat"),
        change: Change::DropAcquire,
        why: LEFT_BY_HOLDERS,
    },
    Explained {
        file: "auto/release.rs",
        item: "AutoLock::calm_down_alone",
        order: Some("enqueue"),
        change: Change::DropAcquire,
        why: LEFT_BY_HOLDERS,
    },
    Explained {
        file: "auto/queue.rs",
        item: "Node::pass_on",
        order: Some("seat"),
        change: Change::DropRelease,
        why: "publishes what the first of the sleepers carries, the end of their list, to a newcomer that reads it before \
             it synchronizes with the seat: else those behind the first are lost. It takes a candidate that leaves the \
             queue to a sleeper, and a third thread that has released the lock before and finds it held now: three \
             threads, of which one acquires twice, and more preemptions than the one up to which loom searches those",
    },
    Explained {
        file: "auto/queue.rs",
        item: "Node::take_out",
        order: Some("enqueue"),
        change: Change::DropRelease,
        why: "orders two stores to the candidate's link, its own of null before that of a newcomer: else the newcomer is \
             lost. It must come right after a sleeper, the last of the queue, has been set aside: three threads, of \
             which one acquires twice, and more preemptions than the one up to which loom searches those",
    },
    Explained {
        file: "auto/route.rs",
        item: "AutoLock::wait_on_route",
        order: None,
        change: Change::Skip(Wait::Spin),
        why: "a waiter may leave its element at any time, and queues then",
    },
    Explained {
        file: "auto/seat.rs",
        item: "Seat::change",
        order: None,
        change: Change::DropRelease,
        why: "needless: the candidate answers, and waiters ask, with an exchange, which continues the release sequence of \
             the store that it finds, and neither has changed the queue since that store",
    },
    Explained {
        file: "auto/seat.rs",
        item: "Seat::sit_down",
        order: Some("seat"),
        change: Change::DropRelease,
        why: NEIGHBOUR,
    },
    Explained {
        file: "auto/seat.rs",
        item: "Seat::get_up",
        order: Some("seat"),
        change: Change::DropRelease,
        why: NEIGHBOUR,
    },
    Explained {
        file: "auto/seat.rs",
        item: "Seat::sleep",
        order: Some("called"),
        change: Change::DropAcquire,
        why: "saves looks: without it the candidate may see the lock held when it wakes up, and looks again; that it is \
             not it learns at the latest from the exchange before its next sleep, which fails",
    },
    Explained {
        file: "flat/mutexee.rs",
        item: "MutexeeLock::unlock_contended",
        order: Some("turn"),
        change: Change::DropAcquire,
        why: BUFFERED_TURN,
    },
    Explained {
        file: "flat/mutexee.rs",
        item: "MutexeeLock::acquire_or_become",
        order: Some("turn"),
        change: Change::DropRelease,
        why: BUFFERED_TURN,
    },
    Explained {
        file: "flat/twa.rs",
        item: "TwaLock::come_near",
        order: None,
        change: Change::Skip(Wait::Spin),
        why:
            "this wait is about speed: the thread then watches the lock although it is far from its turn, for which it \
             waits next",
    },
    Explained {
        file: "load_control/gcr.rs",
        item: "Gcr::lock_counted",
        order: None,
        change: Change::Skip(Wait::Spin),
        why: "who is active is about speed: the thread goes the passive way, and the inner lock excludes",
    },
    Explained {
        file: "load_control/gcr.rs",
        item: "Gcr::sleep_as_top",
        order: Some("bell"),
        change: Change::DropRelease,
        why: BUFFERED_BELL,
    },
    Explained {
        file: "load_control/gcr.rs",
        item: "Gcr::ring",
        order: Some("bell"),
        change: Change::DropAcquire,
        why: BUFFERED_BELL,
    },
    Explained {
        file: "routed/ron.rs",
        item: "Routed::take_free_or_tell",
        order: Some("last look"),
        change: Change::DropAcquire,
        why: LAST_LOOK,
    },
    Explained {
        file: "routed/ron.rs",
        item: "Routed::take_free_or_tell",
        order: Some("last look"),
        change: Change::DropRelease,
        why: LAST_LOOK,
    },
    Explained {
        file: "routed/ron.rs",
        item: "Routed::hand_over",
        order: Some("last look"),
        change: Change::DropAcquire,
        why: LAST_LOOK,
    },
    Explained {
        file: "routed/ron.rs",
        item: "Routed::hand_over",
        order: Some("last look"),
        change: Change::DropRelease,
        why: LAST_LOOK,
    },
    Explained {
        file: "shares/u_scl.rs",
        item: "Scl::wait_for_slice_end",
        order: Some("early-end"),
        change: Change::DropAcquire,
        why: "the head of the queue may then see the end of a slice that has been given up, and sleep until that \
             time: it goes on then, and no check under loom sees that it comes late",
    },
    Explained {
        file: "shuffle/blocking.rs",
        item: "turn_or_work",
        order: Some("head"),
        change: Change::DropAcquire,
        why: "a waiter that a shuffler has passed over, and whose link it has moved, becomes the head while the lock \
             is held, and looks at the waiter behind it: with this order it has acquired that node from the \
             shuffler, by way of the heads between; five threads, and loom does not come so far",
    },
    Explained {
        file: "shuffle/shfllock.rs",
        item: "Node::pass_batch_on",
        order: Some("role"),
        change: Change::DropRelease,
        why: "a shuffler moves the link of the waiter that it passes over; the waiter put before that one hands it \
             the role here, and if it takes it up before the grant it follows a link whose node it has not acquired; \
             for that two more must wait behind it: six threads, and loom has five",
    },
    Explained {
        file: "rw/phase_fair.rs",
        item: "PhaseFair::write_contended",
        order: None,
        change: Change::Skip(Wait::Spin),
        why: "the ticket gives writers their order; the announcement that follows excludes, and no scenario of a \
             read-write lock checks the order",
    },
    Explained {
        file: "rw/rw_futex.rs",
        item: "RwFutex::give_up",
        order: Some("gate"),
        change: Change::DropRelease,
        why: "who sees the new count must see that the flag was taken back, or may sleep on it for ever: a writer whose \
             deadline has come gives up here, and the scenarios in which loom looks for lost wake-ups have no deadlines",
    },
];

/// Compares what is known with what became of mutants, as (mutant, whether it was caught): one line for each survivor
/// that is not explained, and for each explanation that is about none or about several. Where not all mutants were
/// tried (`is_part`), an explanation that is about none of these is left alone.
pub fn disagreements<'a>(
    known: &[Explained],
    verdicts: impl Iterator<Item = (&'a Mutant, bool)> + Clone,
    is_part: bool,
) -> Vec<String> {
    let survivors = verdicts.clone().filter(|(_, caught)| !caught).map(|(mutant, _)| mutant);
    let place = |mutant: &Mutant| format!("{} {}", mutant.place, mutant.change);
    let unexplained = survivors.clone().filter(|mutant| explanation(known, mutant).is_none());
    let mut lines: Vec<_> = unexplained.map(|mutant| format!("not explained: {}", place(mutant))).collect();
    for explained in known {
        let about: Vec<_> = survivors.clone().filter(|mutant| explained.is_about(mutant)).map(place).collect();
        let was_tried = verdicts.clone().any(|(mutant, _)| explained.is_about(mutant));
        match about.len() {
            1 => {}
            0 if is_part && !was_tried => {}
            0 if was_tried => lines.push(format!("explained, but caught: {explained}")),
            0 => lines.push(format!("explained, but there is no such mutant: {explained}")),
            _ => lines.push(format!("one explanation for several survivors: {explained}: {}", about.join(", "))),
        }
    }
    lines
}

/// What is known about `mutant`.
pub fn explanation<'a>(known: &'a [Explained], mutant: &Mutant) -> Option<&'a Explained> {
    known.iter().find(|explained| explained.is_about(mutant))
}
