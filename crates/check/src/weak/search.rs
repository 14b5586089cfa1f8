//! The search: runs a scenario in every execution, within bounds.

use super::{awaits, memory, newest, platform, settling};
use crate::mutation;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Choices in one execution: more count as a limit that was hit, not as an error.
const MOST_BRANCHES: usize = 3_000;

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Executions seen.
    pub executions: u64,
    /// Whether these were all.
    pub exhausted: bool,
    /// Whether one of them was cut off because it was too long.
    pub endless: bool,
    /// What went wrong.
    pub failure: Option<String>,
}

/// Runs `scenario` in every way, at most about `most` times and for at most `time`, with at most `preemptions`
/// preemptions if that is given.
pub fn explore(preemptions: Option<usize>, most: u64, time: Duration, scenario: fn()) -> Report {
    let executions = Arc::new(AtomicU64::new(0));
    let counter = executions.clone();
    let mut model = loom::model::Builder::new();
    model.preemption_bound = preemptions;
    model.max_duration = Some(time);
    model.max_permutations = usize::try_from(most).ok();
    model.max_branches = MOST_BRANCHES;
    // Loom looks at the clock and at the number this often, executions; it ends before the one that it counts then.
    model.checkpoint_interval = 64;
    let start = Instant::now();
    let mutant = mutation::active();
    let result = std::panic::catch_unwind(AssertUnwindSafe(|| {
        model.check(move || {
            mutation::set(mutant.clone());
            counter.fetch_add(1, Relaxed);
            newest::forget();
            memory::forget();
            awaits::forget();
            platform::begin();
            settling::make();
            scenario();
        });
    }));
    let failure = result.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_else(|| "panic".into())
    });
    // Not the lock's fault: an execution that is too long, and an assertion of loom's own about the order of stores.
    let says = |text: &str| failure.as_ref().is_some_and(|message| message.contains(text));
    let endless = says("maximum number of branches");
    let is_limit = endless || says("VersionVec");
    Report {
        executions: executions.load(Relaxed),
        exhausted: failure.is_none() && start.elapsed() < time && executions.load(Relaxed) + 1 < most,
        endless,
        failure: failure.filter(|_| !is_limit),
    }
}
