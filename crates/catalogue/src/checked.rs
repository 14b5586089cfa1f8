//! How far each lock was checked: the results of `lockswap-check check --write docs/checked.json`.

use std::collections::BTreeMap;
use std::fmt;

use lockswap_locks::registry::Entry;
use serde::{Deserialize, Serialize};

const FILE: &str = include_str!("../../../docs/checked.json");

/// The form of the file that this program reads.
const SCHEMA: u32 = 1;

#[derive(Deserialize)]
struct File {
    schema: u32,
    locks: BTreeMap<String, Vec<Check>>,
}

/// A machine that goes through executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// Interleavings, sequentially consistent.
    Explore,
    /// The C11 memory model.
    Loom,
}

/// One scenario on one machine.
#[derive(Clone, Debug, Deserialize)]
pub struct Check {
    /// For a lock with other bounds than the published ones: which.
    pub variant: String,
    /// The machine.
    pub engine: Engine,
    /// What was checked.
    pub scenario: String,
    /// Threads that took part.
    pub threads: usize,
    /// Executions of the last complete search, or of the one that was cut off.
    pub executions: u64,
    /// Preemptions up to which every execution was seen; nothing where the search was finished: all of them.
    pub preemptions: Option<u32>,
    /// Whether the search was finished.
    pub complete: bool,
    /// What went wrong.
    pub failure: Option<String>,
}

impl Check {
    /// The scenario, with the variant behind it if there is one.
    pub fn title(&self) -> String {
        if self.variant.is_empty() {
            self.scenario.clone()
        } else {
            format!("{} ({})", self.scenario, self.variant)
        }
    }

    /// Whether a search was made, came to its end and found nothing.
    pub fn holds(&self) -> bool {
        self.complete && self.executions > 0 && self.failure.is_none()
    }
}

/// Why results of checks cannot be read.
#[derive(Debug)]
pub enum Unreadable {
    /// They have another form.
    Form(serde_json::Error),
    /// Their form has this version, which is not read.
    Schema(u32),
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreadable::Form(error) => write!(f, "docs/checked.json: {error}"),
            Unreadable::Schema(found) => write!(f, "docs/checked.json has schema {found}, not {SCHEMA}"),
        }
    }
}

impl std::error::Error for Unreadable {}

/// The checks of all locks.
#[derive(Debug)]
pub struct AllChecks(BTreeMap<String, Vec<Check>>);

impl AllChecks {
    /// Those that this program was built with.
    pub fn built_in() -> Result<Self, Unreadable> {
        Self::parse(FILE)
    }

    fn parse(text: &str) -> Result<Self, Unreadable> {
        let file: File = serde_json::from_str(text).map_err(Unreadable::Form)?;
        match file.schema {
            SCHEMA => Ok(Self(file.locks)),
            other => Err(Unreadable::Schema(other)),
        }
    }

    /// The checks of one lock; `None` if there were none.
    pub fn of(&self, entry: &Entry) -> Option<&[Check]> {
        let checks = self.0.get(&format!("{}/{}", entry.role.name(), entry.info.id))?;
        Some(checks.as_slice()).filter(|checks| !checks.is_empty())
    }
}

/// What `list --json` says about the checks of a lock.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Interleavings; nothing if none were explored.
    pub explore: Option<Explored>,
    /// Executions of the C11 memory model; nothing if there were none.
    pub loom: Option<Loomed>,
    /// What stays open, a line each.
    pub not_checked: Vec<String>,
    /// What went wrong, a line each.
    pub failures: Vec<String>,
}

/// What was seen of the interleavings of a lock's scenarios.
#[derive(Clone, Debug, Serialize)]
pub struct Explored {
    /// How many scenarios.
    pub scenarios: usize,
    /// Executions in all.
    pub executions: u64,
    /// Scenarios of which every interleaving was seen, with as many preemptions as there can be.
    pub without_bound: usize,
    /// The least bound on preemptions of the others.
    pub preemptions: Option<u32>,
    /// Whether each search came to its end and found nothing.
    pub complete: bool,
}

/// What was seen of the executions of a lock's scenarios in the C11 memory model.
#[derive(Clone, Debug, Serialize)]
pub struct Loomed {
    /// How many scenarios.
    pub scenarios: usize,
    /// Executions in all.
    pub executions: u64,
    /// Whether each search came to its end and found nothing.
    pub complete: bool,
}

impl Summary {
    /// Adds up `checks`.
    pub fn new(checks: &[Check]) -> Self {
        let by = |engine| checks.iter().filter(move |check| check.engine == engine);
        let sum = |engine| by(engine).map(|check| check.executions).sum();
        let explored = || Explored {
            scenarios: by(Engine::Explore).count(),
            executions: sum(Engine::Explore),
            without_bound: by(Engine::Explore).filter(|check| check.holds() && check.preemptions.is_none()).count(),
            preemptions: by(Engine::Explore).filter(|check| check.holds()).filter_map(|check| check.preemptions).min(),
            complete: by(Engine::Explore).all(Check::holds),
        };
        let loomed = || Loomed {
            scenarios: by(Engine::Loom).count(),
            executions: sum(Engine::Loom),
            complete: by(Engine::Loom).all(Check::holds),
        };
        let failure = |check: &Check| check.failure.as_ref().map(|failure| format!("{}: {failure}", check.title()));
        Self {
            explore: by(Engine::Explore).next().map(|_| explored()),
            loom: by(Engine::Loom).next().map(|_| loomed()),
            not_checked: not_checked(checks),
            failures: checks.iter().filter_map(failure).collect(),
        }
    }

    /// A few words for a table.
    pub fn words(&self) -> String {
        if !self.failures.is_empty() {
            return "**fails**".into();
        }
        let explored = self.explore.as_ref().map(|explore| match explore.preemptions {
            None if explore.complete => "all interleavings".into(),
            Some(bound) if explore.complete && explore.without_bound == 0 => {
                format!("interleavings, {bound} preemptions")
            }
            Some(bound) if explore.complete => {
                let (all, of) = (explore.without_bound, explore.scenarios);
                format!("all interleavings in {all} of {of}, else {bound} preemptions")
            }
            _ => "interleavings in part".into(),
        });
        let loomed = self.loom.as_ref().map(|loom| if loom.complete { "loom" } else { "loom in part" }.into());
        let open = self.not_checked.len();
        let open = (open > 0).then(|| format!("{open} open"));
        let words: Vec<String> = explored.into_iter().chain(loomed).chain(open).collect();
        words.join("; ")
    }
}

/// What stays open: searches that met a limit, and scenarios that ran on one of the two machines only.
pub fn not_checked(checks: &[Check]) -> Vec<String> {
    let same = |a: &Check, b: &Check| (&a.variant, &a.scenario) == (&b.variant, &b.scenario);
    let mut open = Vec::new();
    for check in checks {
        let title = check.title();
        let cut = check.failure.is_none() && !check.holds();
        match check.engine {
            Engine::Explore if cut => {
                open.push(format!("{title}: interleavings cut off after {}", count(check.executions)))
            }
            Engine::Loom if cut => open.push(format!("{title}: loom cut off after {}", count(check.executions))),
            _ => {}
        }
        let (other, lacking) = match check.engine {
            Engine::Explore => (Engine::Loom, "no loom run"),
            Engine::Loom => (Engine::Explore, "interleavings not explored"),
        };
        // One thread has no orders to get wrong.
        if check.threads > 1 && !checks.iter().any(|c| c.engine == other && same(c, check)) {
            open.push(format!("{title}: {lacking}"));
        }
    }
    open
}

fn count(executions: u64) -> String {
    format!("{executions} execution{}", if executions == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_locks::registry::{self, Role};

    /// Made up: not results.
    const SAMPLE: &str = r#"{"schema":1,"locks":{"mutex/ticket":[
        {"variant":"","engine":"explore","scenario":"a-2","threads":2,"executions":10,"preemptions":3,"complete":true,"failure":null},
        {"variant":"","engine":"explore","scenario":"b-3","threads":3,"executions":20,"preemptions":2,"complete":true,"failure":null},
        {"variant":"1 look","engine":"explore","scenario":"a-2","threads":2,"executions":5,"preemptions":null,"complete":false,"failure":null},
        {"variant":"","engine":"loom","scenario":"a-2","threads":2,"executions":7,"preemptions":null,"complete":true,"failure":null},
        {"variant":"1 look","engine":"loom","scenario":"a-2","threads":2,"executions":0,"preemptions":null,"complete":true,"failure":null}
    ],"mutex/ttas":[]}}"#;

    fn entry(role: Role, id: &str) -> &'static Entry {
        registry::find(role, id).unwrap()
    }

    #[test]
    fn the_built_in_results_can_be_read_and_name_known_locks_only() {
        let all = AllChecks::built_in().unwrap();
        for name in all.0.keys() {
            let known = |e: &Entry| format!("{}/{}", e.role.name(), e.info.id) == *name;
            assert!(registry::ENTRIES.iter().any(known), "{name} is no lock");
        }
    }

    #[test]
    fn what_is_absent_stays_absent() {
        let all = AllChecks::parse(SAMPLE).unwrap();
        assert!(all.of(entry(Role::Mutex, "futex")).is_none());
        assert!(all.of(entry(Role::Mutex, "ttas")).is_none());
        assert!(all.of(entry(Role::Mutex, "ticket")).is_some());
        assert!(AllChecks::parse(r#"{"schema":2,"locks":{}}"#).is_err());
    }

    #[test]
    fn the_summary_adds_up_and_lists_what_is_open() {
        let all = AllChecks::parse(SAMPLE).unwrap();
        let summary = serde_json::to_value(Summary::new(all.of(entry(Role::Mutex, "ticket")).unwrap())).unwrap();
        let explore = serde_json::json!({"scenarios": 3, "executions": 35, "without_bound": 0, "preemptions": 2, "complete": false});
        assert_eq!(summary["explore"], explore);
        // A search that saw nothing is not complete.
        assert_eq!(summary["loom"], serde_json::json!({"scenarios": 2, "executions": 7, "complete": false}));
        let open = [
            "b-3: no loom run",
            "a-2 (1 look): interleavings cut off after 5 executions",
            "a-2 (1 look): loom cut off after 0 executions",
        ];
        assert_eq!(summary["not_checked"], serde_json::json!(open));
        assert_eq!(summary["failures"], serde_json::json!([]));
    }

    #[test]
    fn a_search_without_a_bound_is_told_from_one_with_a_bound() {
        let all = AllChecks::parse(SAMPLE).unwrap();
        let mut checks = all.of(entry(Role::Mutex, "ticket")).unwrap()[..2].to_vec();
        let words = |checks: &[Check]| Summary::new(checks).words();
        assert!(words(&checks).starts_with("interleavings, 2 preemptions"));
        checks[1].preemptions = None;
        assert!(words(&checks).starts_with("all interleavings in 1 of 2, else 3 preemptions"));
        checks[0].preemptions = None;
        assert!(words(&checks).starts_with("all interleavings;"), "{}", words(&checks));
    }

    #[test]
    fn an_engine_that_never_ran_has_no_numbers() {
        let all = AllChecks::parse(SAMPLE).unwrap();
        let mut checks = all.of(entry(Role::Mutex, "ticket")).unwrap()[..1].to_vec();
        let summary = serde_json::to_value(Summary::new(&checks)).unwrap();
        assert!(summary["loom"].is_null() && summary["explore"]["complete"] == true);
        assert_eq!(summary["not_checked"], serde_json::json!(["a-2: no loom run"]));
        checks[0].failure = Some("lost an increment".into());
        let summary = Summary::new(&checks);
        assert_eq!(summary.words(), "**fails**");
        assert_eq!(summary.failures, ["a-2: lost an increment"]);
    }
}
