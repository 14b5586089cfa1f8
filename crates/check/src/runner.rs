//! Runs the scenarios of a lock as far as a budget goes, and says how far that was.

use crate::explore::{self, clear_tables, Bounds, End};
use crate::subjects::Subject;
use crate::weak;
use lockswap_conformance::small::Scenario;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How much to do for each scenario.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The explorer raises its bound on preemptions up to this.
    pub preemptions: u32,
    /// Executions of the explorer under one bound.
    pub executions: u64,
    /// Time for the explorer after which the bound is not raised any more.
    pub explore_time: Duration,
    /// Time for loom with two threads.
    pub weak_time: Duration,
    /// Time for loom with three threads; none: not tried.
    pub weak_time_of_three: Duration,
}

impl Budget {
    /// Seconds for all locks together: for the tests.
    pub const SHORT: Budget = Budget {
        preemptions: 2,
        executions: 60_000,
        explore_time: Duration::from_millis(50),
        weak_time: Duration::from_millis(250),
        weak_time_of_three: Duration::ZERO,
    };
    /// For the published table.
    pub const LONG: Budget = Budget {
        preemptions: 5,
        executions: 3_000_000,
        explore_time: Duration::from_secs(2),
        weak_time: Duration::from_secs(10),
        weak_time_of_three: Duration::from_secs(5),
    };
}

/// The machine that a check ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Interleavings, sequentially consistent, bounded preemptions.
    Explore,
    /// Executions of the C11 memory model.
    Loom,
}

/// How far one check came.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// The machine.
    pub engine: Engine,
    /// The scenario.
    pub scenario: String,
    /// Threads.
    pub threads: usize,
    /// Executions seen in the last complete search, or in the one that was cut off.
    pub executions: u64,
    /// Preemptions up to which every execution was seen; nothing: not one bound was finished (explorer), or there was
    /// none (loom).
    pub preemptions: Option<u32>,
    /// Whether the search was finished, up to that bound.
    pub complete: bool,
    /// What went wrong, with what replays it.
    pub failure: Option<String>,
}

/// Raises the bound on preemptions as long as the budget allows.
pub fn explore(subject: &Subject, scenario: &Scenario, budget: Budget) -> Checked {
    let start = Instant::now();
    let run = || {
        clear_tables();
        (scenario.run)();
    };
    let mut checked = Checked {
        engine: Engine::Explore,
        scenario: scenario.name.to_owned(),
        threads: scenario.threads,
        executions: 0,
        preemptions: None,
        complete: false,
        failure: None,
    };
    let mut before = 0;
    for preemptions in 0..=budget.preemptions {
        let report = explore::explore(bounds(preemptions, budget.executions), &run);
        match report.end {
            End::Exhausted => {
                checked.executions = report.executions;
                checked.preemptions = Some(preemptions);
                checked.complete = true;
            }
            End::Limit(_) => {
                if !checked.complete {
                    checked.executions = report.executions;
                }
                break;
            }
            End::Failed(failure) => {
                let choices: Vec<_> = failure.choices.iter().map(u16::to_string).collect();
                let replay = format!("replay '{}' '{}' {}", subject.name(), scenario.name, choices.join("."));
                checked.failure = Some(format!("{}; to see the steps: {replay}", failure.message));
                return checked;
            }
        }
        // The number grows by a factor with each bound: the next one must still fit.
        let factor = report.executions / u64::max(before, 1);
        before = report.executions;
        let next = start.elapsed() * (factor as u32).max(2);
        if report.executions * factor > budget.executions || next > budget.explore_time {
            break;
        }
    }
    checked
}

/// The bounds of a search with so many preemptions.
pub fn bounds(preemptions: u32, executions: u64) -> Bounds {
    Bounds { preemptions, rarities: 1, steps: 3_000, executions }
}

/// Runs a scenario under loom.
pub fn weak(scenario: &Scenario, budget: Budget) -> Checked {
    let time = if scenario.threads > 2 { budget.weak_time_of_three } else { budget.weak_time };
    let report = weak::explore(None, time, scenario.run);
    Checked {
        engine: Engine::Loom,
        scenario: scenario.name.to_owned(),
        threads: scenario.threads,
        executions: report.executions,
        preemptions: None,
        complete: report.exhausted,
        failure: report.failure,
    }
}

/// The scenarios that loom runs within the budget.
pub fn weak_scenarios(subject: &Subject, budget: Budget) -> impl Iterator<Item = &Scenario> {
    let most = if budget.weak_time_of_three.is_zero() { 2 } else { 3 };
    subject.weak.iter().filter(move |scenario| (2..=most).contains(&scenario.threads))
}

/// Everything about one lock.
pub fn check(subject: &Subject, budget: Budget) -> Vec<Checked> {
    let explored = subject.explore.iter().map(|scenario| explore(subject, scenario, budget));
    let weakly = weak_scenarios(subject, budget).map(|scenario| weak(scenario, budget));
    explored.chain(weakly).collect()
}
