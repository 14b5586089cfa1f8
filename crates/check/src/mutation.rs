//! Mutants: the lock's own code, with one memory order weakened, or one wait, wake-up, call of `settle` or look of a
//! conditional store left out.
//!
//! No source is changed: the platforms that check locks see the place in the source of every access and of every wait,
//! and treat one of them differently.

use lockswap_platform::Ordering;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::panic::Location;

/// Where an access or a wait stands in the source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Place {
    /// Path from the workspace's root.
    pub file: String,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl Place {
    fn of(location: &'static Location<'static>) -> Place {
        Place { file: location.file().to_owned(), line: location.line(), column: location.column() }
    }

    fn is(&self, location: &Location<'_>) -> bool {
        self.line == location.line() && self.column == location.column() && self.file == location.file()
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// What is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Wait {
    /// A spin ends although its condition does not hold; a result is all zero.
    Spin,
    /// Sleepers are not woken.
    Unpark,
    /// Conditional stores that have begun are not settled.
    Settle,
    /// A conditional store does not look at its flag.
    Look,
}

/// What a mutant does differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum Change {
    /// Reads without Acquire.
    DropAcquire,
    /// Writes without Release.
    DropRelease,
    /// Does not wait, does not wake, does not settle, or does not look.
    Skip(Wait),
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Change::DropAcquire => "without Acquire",
            Change::DropRelease => "without Release",
            Change::Skip(Wait::Spin) => "does not wait",
            Change::Skip(Wait::Unpark) => "does not wake",
            Change::Skip(Wait::Settle) => "does not settle",
            Change::Skip(Wait::Look) => "does not look",
        })
    }
}

/// One mutant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct Mutant {
    /// Where.
    pub place: Place,
    /// What.
    pub change: Change,
}

thread_local! {
    static ACTIVE: RefCell<Option<Mutant>> = const { RefCell::new(None) };
    static RECORDING: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<HashSet<(*const Location<'static>, Change)>> = RefCell::default();
}

/// Makes `mutant` the code that is checked on this thread from now on; nothing: the code as it is.
pub fn set(mutant: Option<Mutant>) {
    ACTIVE.set(mutant);
}

/// The mutant that is checked on this thread.
pub fn active() -> Option<Mutant> {
    ACTIVE.with_borrow(Clone::clone)
}

/// All mutants whose place `f` passes.
pub fn record(f: impl FnOnce()) -> BTreeSet<Mutant> {
    SEEN.take();
    RECORDING.set(true);
    f();
    RECORDING.set(false);
    // SAFETY: the pointers were made from references to static locations.
    SEEN.take().into_iter().map(|(place, change)| Mutant { place: Place::of(unsafe { &*place }), change }).collect()
}

fn see(location: &'static Location<'static>, change: Change) -> bool {
    if RECORDING.get() {
        SEEN.with_borrow_mut(|seen| seen.insert((&raw const *location, change)));
    }
    ACTIVE.with_borrow(|active| {
        active.as_ref().is_some_and(|mutant| mutant.change == change && mutant.place.is(location))
    })
}

/// The order that an access at `location` has, where the source says `order`.
pub fn order(location: &'static Location<'static>, order: Ordering) -> Ordering {
    let acquires = matches!(order, Ordering::Acquire | Ordering::AcqRel | Ordering::SeqCst);
    let releases = matches!(order, Ordering::Release | Ordering::AcqRel | Ordering::SeqCst);
    let without_acquire = acquires && see(location, Change::DropAcquire);
    let without_release = releases && see(location, Change::DropRelease);
    if !without_acquire && !without_release {
        return order;
    }
    match (acquires && !without_acquire, releases && !without_release) {
        (true, _) => Ordering::Acquire,
        (_, true) => Ordering::Release,
        _ => Ordering::Relaxed,
    }
}

/// Whether the wait or wake-up at `location` is left out.
pub fn skips(wait: Wait, location: &'static Location<'static>) -> bool {
    see(location, Change::Skip(wait))
}

/// What a wait that is left out returns.
pub fn skipped_wait<R>(wait: Wait, location: &'static Location<'static>) -> Option<R> {
    // SAFETY: waits return nothing, numbers and pointers; a mutant that is to be caught may hold a wrong one.
    skips(wait, location).then(|| unsafe { std::mem::zeroed() })
}
