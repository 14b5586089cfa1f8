//! Runs the scenarios of a lock as far as a budget goes, and says how far that was.

use crate::subjects::Subject;
use crate::weak;
use lockswap_conformance::small::Scenario;
use lockswap_sim::explore::{self, clear_tables, Bounds, End};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// How much to do for each scenario. Executions are counted, not time, so that a busy machine finds the same.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// The bound on preemptions is raised up to this.
    pub preemptions: u32,
    /// Executions of the explorer under one bound.
    pub executions: u64,
    /// Executions of the explorer without a bound.
    pub executions_without_bound: u64,
    /// Executions of loom without a bound on preemptions; with two threads only.
    pub weak_executions: u64,
    /// Executions of loom with bounds, where there was no end without one; 0: not tried.
    pub weak_executions_bounded: u64,
    /// Most threads under loom.
    pub weak_threads: usize,
    /// Time after which a search under loom ends, and after which the explorer's bound is not raised any more.
    pub time: Duration,
}

impl Budget {
    /// A minute for all locks together on two CPUs: for the tests.
    pub const SHORT: Budget = Budget {
        preemptions: 2,
        executions: 15_000,
        executions_without_bound: 3_000,
        weak_executions: 1_000,
        weak_executions_bounded: 0,
        weak_threads: 2,
        time: Duration::from_secs(2),
    };
    /// A quarter of an hour for all locks together on one CPU: for the published table.
    pub const LONG: Budget = Budget {
        preemptions: 5,
        executions: 80_000,
        executions_without_bound: 50_000,
        weak_executions: 5_000,
        weak_executions_bounded: 10_000,
        weak_threads: 5,
        time: Duration::from_secs(20),
    };
    /// For one mutant in one scenario.
    pub const MUTANT: Budget = Budget {
        preemptions: 3,
        executions: 1_500_000,
        executions_without_bound: 10_000,
        weak_executions: 6_000,
        weak_executions_bounded: 12_000,
        weak_threads: 5,
        time: Duration::from_secs(20),
    };

    /// So much time for each scenario on each machine, however many executions.
    pub fn with_time(self, time: Duration) -> Budget {
        let most = u64::MAX / 2;
        Budget {
            executions: most,
            executions_without_bound: most,
            weak_executions: most,
            weak_executions_bounded: most,
            time,
            ..self
        }
    }
}

/// The machine that a check ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Interleavings, sequentially consistent, bounded preemptions.
    Explore,
    /// Executions of the C11 memory model.
    Loom,
}

impl std::fmt::Display for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Engine::Explore => "explorer",
            Engine::Loom => "loom",
        })
    }
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
    /// Preemptions up to which every execution was seen; nothing: not one bound was finished, or there was none
    /// (loom).
    pub preemptions: Option<u32>,
    /// Whether a search was finished, up to that bound.
    pub complete: bool,
    /// An execution was longer than the machine allows: it may be one without end.
    #[serde(skip)]
    pub endless: bool,
    /// What went wrong, with what replays it.
    pub failure: Option<String>,
}

impl Checked {
    fn new(engine: Engine, scenario: &Scenario) -> Checked {
        Checked {
            engine,
            scenario: scenario.name.to_owned(),
            threads: scenario.threads,
            executions: 0,
            preemptions: None,
            complete: false,
            endless: false,
            failure: None,
        }
    }

    /// How far the search came, in words.
    pub fn reach(&self) -> String {
        match (self.complete, self.preemptions) {
            _ if self.failure.is_some() => "FAILED".into(),
            (true, Some(bound)) => format!("complete up to {bound} preemptions"),
            (true, None) => "complete".into(),
            (false, _) => "limit reached, not complete".into(),
        }
    }
}

/// One execution of the explorer.
fn execution(scenario: &Scenario) -> impl Fn() {
    let run = scenario.run;
    move || {
        clear_tables();
        run();
    }
}

/// Runs a scenario in the explorer: without a bound on preemptions, and if that has no end within the budget, or if
/// something goes wrong, with one that is raised as long as the budget allows.
pub fn explore(subject: &Subject, scenario: &Scenario, budget: Budget) -> Checked {
    let run = execution(scenario);
    let mut checked = Checked::new(Engine::Explore, scenario);
    let report = explore::explore(bounds(None, budget), &run);
    checked.executions = report.executions;
    let failed = match report.end {
        End::Exhausted => {
            checked.complete = true;
            return checked;
        }
        End::Limit(what) => {
            checked.endless = what == "steps";
            None
        }
        End::Failed(failure) => {
            Some(Schedule { preemptions: None, choices: failure.choices }).zip(Some(failure.message))
        }
    };
    raise_bound(&mut checked, subject, scenario, budget, &run);
    if checked.failure.is_none() {
        checked.failure = failed.map(|(schedule, message)| describe(subject, scenario, &schedule, &message));
    }
    checked
}

/// Raises the bound on preemptions as long as the budget allows: what goes wrong then has as few of them as there can
/// be.
fn raise_bound(checked: &mut Checked, subject: &Subject, scenario: &Scenario, budget: Budget, run: &dyn Fn()) {
    let start = Instant::now();
    let mut before = 0;
    for preemptions in 0..=budget.preemptions {
        let report = explore::explore(bounds(Some(preemptions), budget), run);
        match report.end {
            End::Exhausted => {
                checked.executions = report.executions;
                checked.preemptions = Some(preemptions);
                checked.complete = true;
            }
            End::Limit(what) => {
                if !checked.complete {
                    checked.executions = report.executions;
                }
                checked.endless = what == "steps";
                break;
            }
            End::Failed(failure) => {
                let schedule = Schedule { preemptions: Some(preemptions), choices: failure.choices };
                checked.executions = report.executions;
                checked.failure = Some(describe(subject, scenario, &schedule, &failure.message));
                break;
            }
        }
        // The number grows by a factor with each bound: the next one must still fit.
        let factor = report.executions / u64::max(before, 1);
        before = report.executions;
        let next = start.elapsed() * (factor as u32).max(2);
        if report.executions.saturating_mul(factor) > budget.executions || next > budget.time {
            break;
        }
    }
}

/// What has gone wrong, how to see that again, and step by step how it came about.
fn describe(subject: &Subject, scenario: &Scenario, schedule: &Schedule, message: &str) -> String {
    let (_, steps) = replay(scenario, schedule);
    format!(
        "{message}; to see the steps again: cargo run --profile prove -p lockswap-check -- replay '{}' '{}' {schedule}\n{steps}",
        subject.name(),
        scenario.name,
    )
}

/// The bounds of a search with so many preemptions.
pub fn bounds(preemptions: Option<u32>, budget: Budget) -> Bounds {
    // Without a bound threads may get in each other's way again and again: better seen soon.
    let (steps, executions) = match preemptions {
        Some(_) => (3_000, budget.executions),
        None => (400, budget.executions_without_bound),
    };
    Bounds { preemptions, rarities: 1, steps, executions, time: budget.time }
}

/// One execution of the explorer: the bound under which it was found decides where there is a choice at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// The bound on preemptions, if there was one.
    pub preemptions: Option<u32>,
    /// The choices.
    pub choices: Vec<u16>,
}

/// Stands before a schedule's colon where there was no bound.
const UNBOUNDED: &str = "any";

impl std::fmt::Display for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let choices: Vec<_> = self.choices.iter().map(u16::to_string).collect();
        match self.preemptions {
            Some(bound) => write!(f, "{bound}:{}", choices.join(".")),
            None => write!(f, "{UNBOUNDED}:{}", choices.join(".")),
        }
    }
}

impl std::str::FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedule, String> {
        let wrong = || format!("'{text}' is no schedule: it looks like 2:0.1.0.3, as a failed check prints it");
        let (preemptions, choices) = text.split_once(':').ok_or_else(wrong)?;
        let choices: Result<_, _> = choices
            .split('.')
            .filter(|choice| !choice.is_empty())
            .map(|choice| choice.parse().map_err(|_| wrong()))
            .collect();
        let preemptions = match preemptions {
            UNBOUNDED => None,
            bound => Some(bound.parse().map_err(|_| wrong())?),
        };
        Ok(Schedule { preemptions, choices: choices? })
    }
}

/// Runs one execution again: what went wrong in it, and every step.
pub fn replay(scenario: &Scenario, schedule: &Schedule) -> (Option<String>, String) {
    explore::replay(bounds(schedule.preemptions, Budget::LONG), &schedule.choices, &execution(scenario))
}

/// Runs a scenario under loom: two threads without a bound on preemptions, and all with one that is raised. Loom
/// leaves out executions that differ in the order of independent steps only; where loads see older stores it leaves
/// out others, too, but fewer with a bound: so a search with one follows even where the one without has ended.
pub fn weak(scenario: &Scenario, budget: Budget) -> Checked {
    let mut checked = Checked::new(Engine::Loom, scenario);
    if scenario.threads <= 2 {
        // The other half of the time is for the bounds.
        let report = weak::explore(None, budget.weak_executions, budget.time / 2, scenario.run);
        checked.executions = report.executions;
        checked.complete = report.exhausted;
        // Without a bound two threads may get in each other's way for ever, which says nothing against the lock.
        checked.endless = report.endless && budget.weak_executions_bounded == 0;
        checked.failure = report.failure;
        if checked.failure.is_some() {
            return checked;
        }
    }
    let all = checked.complete;
    let start = Instant::now();
    let mut executions = budget.weak_executions_bounded;
    for preemptions in 1..=budget.preemptions {
        let time = budget.time.saturating_sub(start.elapsed());
        if executions == 0 || time.is_zero() {
            break;
        }
        let report = weak::explore(Some(preemptions as usize), executions, time, scenario.run);
        executions = executions.saturating_sub(report.executions);
        checked.endless |= report.endless;
        checked.failure = report.failure;
        if report.exhausted && !all {
            checked.complete = true;
            checked.preemptions = Some(preemptions);
            checked.executions = report.executions;
        } else if !checked.complete {
            checked.executions = u64::max(checked.executions, report.executions);
        }
        if !report.exhausted {
            break;
        }
    }
    checked
}

/// The scenarios that loom runs within the budget.
pub fn weak_scenarios(subject: &Subject, budget: Budget) -> impl Iterator<Item = &Scenario> {
    subject.weak.iter().filter(move |scenario| (2..=budget.weak_threads).contains(&scenario.threads))
}

/// Everything about one lock.
pub fn check(subject: &Subject, budget: Budget) -> Vec<Checked> {
    let explored = subject.explore.iter().map(|scenario| explore(subject, scenario, budget));
    let weakly = weak_scenarios(subject, budget).map(|scenario| weak(scenario, budget));
    explored.chain(weakly).collect()
}
