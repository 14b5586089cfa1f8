//! The explorer: every interleaving of a few virtual threads, sequentially consistent.
//!
//! A thread may be interrupted before each access to an atomic and before each wake-up. A waiting thread is not
//! enabled until a word that its condition has read changes its value, so that spinning costs no step.
//!
//! There are two searches. The [`bounded`] one goes through all executions with at most so many preemptions, switches
//! away from a thread that could have gone on (Musuvathi, Qadeer: PLDI 2007). The [`reduced`] one has no such bound,
//! and leaves out executions that differ from one it has seen in the order of independent steps only.

mod bounded;
mod execution;
mod footprint;
mod platform;
mod reduced;
mod trace;

pub use execution::{forget_wait, gone, moment, number_in, order, run, settle, waits_since};
pub use platform::{clear_tables, move_to, Explore, Faithful, Faults, Omission};

use bounded::Bounded;
use execution::{execute, Engine, Stop};
use reduced::Reduced;
use std::time::{Duration, Instant};

/// How far a search goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Preemptions in one execution; nothing: as many as there are, and the search is the reduced one.
    pub preemptions: Option<u32>,
    /// Choices in one execution that are unlikely on hardware: a time-out although the wait could end, a rare draw.
    pub rarities: u32,
    /// Steps of one execution: more count as a limit that was hit, not as an error.
    pub steps: u32,
    /// Executions.
    pub executions: u64,
    /// Time for all of them.
    pub time: Duration,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every execution within the bounds was seen, or one that differs in the order of independent steps.
    Exhausted,
    /// The number of executions, their time, or the length of one, was reached first.
    Limit(&'static str),
    /// An execution went wrong.
    Failed(Failure),
}

/// An execution that went wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened.
    pub message: String,
    /// The choices that lead there, for [`replay`].
    pub choices: Vec<u16>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Executions seen to their ends.
    pub executions: u64,
    /// Those left because one that differs in nothing but the order of independent steps had been seen.
    pub redundant: u64,
    /// How it ended.
    pub end: End,
}

/// Who runs next, and what else is open.
enum Search {
    Bounded(Bounded),
    Reduced(Box<Reduced>),
}

/// Runs `scenario` in every way within `bounds`, up to the first failure.
pub fn explore(bounds: Bounds, scenario: &dyn Fn()) -> Report {
    search(bounds, scenario, &mut |failure| failure.is_none())
}

/// Runs `scenario` in every way within `bounds`, as long as `goes_on` says so, which is told after each execution what
/// went wrong. After a failure other than a deadlock the reduced search does not know what the other threads would
/// have done: executions may be missing.
pub fn search(bounds: Bounds, scenario: &dyn Fn(), goes_on: &mut dyn FnMut(Option<&str>) -> bool) -> Report {
    // Whatever the scenario keeps on this thread's stack lies below.
    let stack = 0u8;
    let search = match bounds.preemptions {
        Some(preemptions) => Search::Bounded(Bounded::new(preemptions)),
        None => Search::Reduced(Box::new(Reduced::new((&raw const stack).addr()))),
    };
    let mut engine = Engine::new(bounds, search, false);
    let mut report = Report { executions: 0, redundant: 0, end: End::Exhausted };
    let end = Instant::now().checked_add(bounds.time);
    loop {
        let stop = execute(&mut engine, scenario);
        report.executions += u64::from(!matches!(stop, Some(Stop::Redundant)));
        match stop {
            None => {
                goes_on(None);
            }
            Some(Stop::Redundant) => report.redundant += 1,
            Some(Stop::Limit(what)) => {
                report.end = End::Limit(what);
                // What a longer execution would have shown is not known, and without a bound all may be as long.
                if bounds.preemptions.is_none() {
                    return report;
                }
            }
            Some(Stop::Failed(message)) => {
                if !goes_on(Some(&message)) {
                    report.end = End::Failed(Failure { message, choices: engine.search.choices() });
                    return report;
                }
            }
        }
        if !engine.search.next_execution() {
            return report;
        }
        let executions = report.executions + report.redundant;
        if executions >= bounds.executions {
            report.end = End::Limit("executions");
            return report;
        }
        if executions.is_multiple_of(256) && end.is_some_and(|end| Instant::now() >= end) {
            report.end = End::Limit("time");
            return report;
        }
    }
}

/// Runs the one execution that `choices` describes, and returns what went wrong and every step, for people.
pub fn replay(bounds: Bounds, choices: &[u16], scenario: &dyn Fn()) -> (Option<String>, String) {
    let search = Bounded::replay(bounds.preemptions.unwrap_or(u32::MAX), choices);
    let mut engine = Engine::new(bounds, Search::Bounded(search), true);
    let message = execute(&mut engine, scenario).map(|stop| match stop {
        Stop::Failed(message) => message,
        Stop::Limit(what) => format!("too many {what}"),
        Stop::Redundant => unreachable!("the search of a replay leaves nothing out"),
    });
    (message, engine.take_trace())
}

impl Search {
    /// The choices of the last execution, as the bounded search numbers them.
    fn choices(&self) -> Vec<u16> {
        match self {
            Search::Bounded(search) => search.choices(),
            Search::Reduced(search) => search.choices(),
        }
    }

    /// Moves on to the next execution; false if there is none.
    fn next_execution(&mut self) -> bool {
        match self {
            Search::Bounded(search) => search.next_execution(),
            Search::Reduced(search) => search.next_execution(),
        }
    }
}
