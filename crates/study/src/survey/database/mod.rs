//! The runs of a survey in a SQLite file.
//!
//! The file's `application_id` says that it is ours, its `user_version` which [`SCHEMA`] it has. A *source* is a file
//! that was imported or a plan that was run; a *run* belongs to one, and has a *value* for each *quantity* that was
//! measured in it, the one that decides first.

mod merge;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction};

use crate::model::{Exit, Sample};
use crate::survey::grid::Observation;
use crate::survey::run::{Key, Made};
use crate::survey::Unusable;

/// Version of the tables; it grows when an older lockswap could misread them.
pub const SCHEMA: i32 = 1;

/// "lswp": what `file` and SQLite's own tools show of the file.
const APPLICATION: i32 = 0x6c73_7770;

const TABLES: &str = "
CREATE TABLE source (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,       -- 'litl' or 'plan'
    machine TEXT NOT NULL,
    name TEXT NOT NULL,       -- of the file or the plan
    details TEXT NOT NULL     -- JSON: of a plan, everything that was asked for
);
CREATE TABLE quantity (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    unit TEXT NOT NULL,
    lower_is_better INTEGER NOT NULL,
    UNIQUE (name, unit, lower_is_better)
);
CREATE TABLE run (
    id INTEGER PRIMARY KEY,
    source INTEGER NOT NULL REFERENCES source (id),
    program TEXT NOT NULL,
    nodes INTEGER NOT NULL,   -- level of contention
    lock TEXT NOT NULL,
    round INTEGER,            -- runs of one round are compared; unknown in imported files
    warm_up INTEGER NOT NULL, -- whether it does not count
    problem TEXT,             -- why it does not count, if it failed
    sample TEXT               -- JSON: the run with its exit, CPU time and last words
);
CREATE TABLE value (
    run INTEGER NOT NULL REFERENCES run (id),
    position INTEGER NOT NULL, -- 0 decides
    quantity INTEGER NOT NULL REFERENCES quantity (id),
    value REAL NOT NULL,
    PRIMARY KEY (run, position)
) WITHOUT ROWID;
CREATE INDEX run_of_source ON run (source);
";

/// What was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quantity {
    /// What users call it.
    pub name: String,
    /// Its unit; empty when unknown.
    pub unit: String,
    /// Whether less is better.
    pub lower_is_better: bool,
}

/// Where runs come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// `litl` or `plan`.
    pub kind: String,
    /// The machine's name.
    pub machine: String,
    /// The name of the file or the plan.
    pub name: String,
    /// JSON.
    pub details: String,
}

/// A run to be kept.
#[derive(Clone, Debug, PartialEq)]
pub struct NewRun {
    /// The program.
    pub program: String,
    /// Its level of contention.
    pub nodes: u32,
    /// The lock.
    pub lock: String,
    /// The round, where there are rounds.
    pub round: Option<u32>,
    /// Whether it does not count.
    pub warm_up: bool,
    /// Why it does not count, if it failed.
    pub problem: Option<String>,
    /// What was measured, in the order of the quantities; of a run that failed, what there is.
    pub values: Vec<f64>,
    /// The whole run as JSON.
    pub sample: Option<String>,
}

/// An open database.
#[derive(Debug)]
pub struct Database {
    connection: Connection,
    path: String,
}

impl Database {
    /// Opens a database to add to it; makes it where there is none.
    pub fn create(path: &Path) -> Result<Self, Unusable> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let mut database = Self::with(path, flags)?;
        let is_new = database.query("SELECT count(*) FROM sqlite_schema", |row| row.get::<_, i64>(0))? == 0;
        if is_new {
            let script = format!("PRAGMA application_id = {APPLICATION}; PRAGMA user_version = {SCHEMA}; {TABLES}");
            database.change(|change| change.execute_batch(&script))?;
        }
        database.checked()
    }

    /// Opens a database to read it.
    pub fn open(path: &Path) -> Result<Self, Unusable> {
        if !path.exists() {
            let what = format!("there is no database {}", path.display());
            return Err(Unusable::new(what, "make one with 'lockswap study run' or 'lockswap study import'"));
        }
        Self::with(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?.checked()
    }

    fn with(path: &Path, flags: OpenFlags) -> Result<Self, Unusable> {
        let name = path.display().to_string();
        let connection = Connection::open_with_flags(path, flags).map_err(|error| unusable(&name, &error))?;
        Ok(Self { connection, path: name })
    }

    /// Refuses files that are not ours, or newer than we are.
    fn checked(self) -> Result<Self, Unusable> {
        let application: i32 = self.query("PRAGMA application_id", |row| row.get(0))?;
        let schema: i32 = self.query("PRAGMA user_version", |row| row.get(0))?;
        if application != APPLICATION {
            let what = format!("{} is a SQLite database, but not one of lockswap's", self.path);
            return Err(Unusable::new(what, "name a database that 'lockswap study' made"));
        }
        if schema != SCHEMA {
            let what = format!("{} has schema {schema}, and this lockswap knows schema {SCHEMA}", self.path);
            return Err(Unusable::new(what, "use the lockswap that made it, or a newer one"));
        }
        Ok(self)
    }

    fn query<T>(&self, sql: &str, of: impl FnOnce(&rusqlite::Row<'_>) -> rusqlite::Result<T>) -> Result<T, Unusable> {
        self.connection.query_row(sql, [], of).map_err(|error| unusable(&self.path, &error))
    }

    /// Makes a change as a whole or not at all.
    fn change<T>(&mut self, make: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T, Unusable> {
        let path = &self.path;
        let made = self.connection.transaction().and_then(|change| {
            let result = make(&change)?;
            change.commit()?;
            Ok(result)
        });
        made.map_err(|error| unusable(path, &error))
    }

    /// The sources, with their numbers.
    pub fn sources(&self) -> Result<Vec<(i64, Source)>, Unusable> {
        let read = || {
            let mut statement =
                self.connection.prepare("SELECT id, kind, machine, name, details FROM source ORDER BY id")?;
            let rows = statement.query_map([], |row| {
                let source =
                    Source { kind: row.get(1)?, machine: row.get(2)?, name: row.get(3)?, details: row.get(4)? };
                Ok((row.get(0)?, source))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| unusable(&self.path, &error))
    }

    /// Adds a source and its runs, all of them or none.
    pub fn add(&mut self, source: &Source, quantities: &[Quantity], runs: &[NewRun]) -> Result<i64, Unusable> {
        self.change(|change| {
            change.execute(
                "INSERT INTO source (kind, machine, name, details) VALUES (?1, ?2, ?3, ?4)",
                (&source.kind, &source.machine, &source.name, &source.details),
            )?;
            let id = change.last_insert_rowid();
            runs.iter().try_for_each(|run| insert(change, id, quantities, run))?;
            Ok(id)
        })
    }

    /// Adds a run to a source, and sees to it that it is on the disk.
    pub fn append(&mut self, source: i64, quantities: &[Quantity], run: &NewRun) -> Result<(), Unusable> {
        self.change(|change| insert(change, source, quantities, run))
    }

    /// Removes a source with its runs.
    pub fn forget(&mut self, source: i64) -> Result<(), Unusable> {
        self.change(|change| {
            change.execute("DELETE FROM value WHERE run IN (SELECT id FROM run WHERE source = ?1)", [source])?;
            change.execute("DELETE FROM run WHERE source = ?1", [source])?;
            change.execute("DELETE FROM source WHERE id = ?1", [source])?;
            Ok(())
        })
    }

    /// The runs of a source that were made by a plan.
    pub fn made(&self, source: i64) -> Result<HashMap<Key, Made>, Unusable> {
        let read = || {
            let sql = "SELECT program, nodes, lock, round, sample FROM run WHERE source = ?1 AND sample IS NOT NULL";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([source], |row| {
                let key = Key { program: row.get(0)?, nodes: row.get(1)?, lock: row.get(2)?, round: row.get(3)? };
                Ok((key, row.get::<_, String>(4)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        let rows = read().map_err(|error| unusable(&self.path, &error))?;
        let made = |(key, sample): (Key, String)| {
            let sample: Sample = serde_json::from_str(&sample).map_err(|error| {
                Unusable::new(
                    format!("the database {}: a run of {}: {error}", self.path, key.program),
                    "begin a new one",
                )
            })?;
            let timed_out = matches!(sample.exit, Exit::TimedOut { .. });
            Ok((key, Made { wall_s: sample.wall_s, timed_out }))
        };
        rows.into_iter().map(made).collect()
    }

    /// What is measured, for each machine: all counted runs that have this quantity, or the one that decides if none
    /// is named.
    pub fn observations(&self, quantity: Option<&str>) -> Result<BTreeMap<String, Vec<Observation>>, Unusable> {
        if let Some(name) = quantity {
            self.check_quantity(name)?;
        }
        let read = || {
            // A failed run has no values: it counts if other runs of its program have the quantity.
            let sql = "
                SELECT machine, program, nodes, lock, round, problem, value, lower_is_better, quantity.name
                FROM run JOIN source ON source.id = run.source
                LEFT JOIN value ON value.run = run.id AND value.position = (
                    SELECT min(position) FROM value AS v JOIN quantity AS q ON q.id = v.quantity
                    WHERE v.run = run.id AND (?1 IS NULL OR q.name = ?1))
                LEFT JOIN quantity ON quantity.id = value.quantity
                WHERE NOT warm_up ORDER BY run.id";
            let mut statement = self.connection.prepare(sql)?;
            let rows = statement.query_map([quantity], |row| {
                let lower: Option<bool> = row.get(7)?;
                let value: Option<f64> = row.get(6)?;
                let problem: Option<String> = row.get(5)?;
                let rate = if lower == Some(true) { value.map(|value| 1.0 / value) } else { value };
                let observation = Observation {
                    program: row.get(1)?,
                    nodes: row.get(2)?,
                    lock: row.get(3)?,
                    round: row.get(4)?,
                    value: rate.filter(|value| problem.is_none() && value.is_finite() && *value > 0.0),
                };
                Ok((row.get::<_, String>(0)?, observation))
            })?;
            let mut all: BTreeMap<String, Vec<Observation>> = BTreeMap::new();
            for row in rows {
                let (machine, observation) = row?;
                all.entry(machine).or_default().push(observation);
            }
            Ok(all)
        };
        let mut all = read().map_err(|error| unusable(&self.path, &error))?;
        for runs in all.values_mut() {
            let with: std::collections::BTreeSet<String> =
                runs.iter().filter(|run| run.value.is_some()).map(|run| run.program.clone()).collect();
            runs.retain(|run| with.contains(&run.program));
        }
        all.retain(|_, runs| !runs.is_empty());
        match all.is_empty() {
            true => Err(Unusable::new(format!("{} has no run that counts", self.path), "run a plan, or import a file")),
            false => Ok(all),
        }
    }

    fn check_quantity(&self, name: &str) -> Result<(), Unusable> {
        let known = self.quantities()?;
        if known.iter().any(|quantity| quantity.name == name) {
            return Ok(());
        }
        let names: Vec<&str> = known.iter().map(|quantity| quantity.name.as_str()).collect();
        let remedy = match names.is_empty() {
            true => "nothing was measured".into(),
            false => format!("use one of: {}", names.join(", ")),
        };
        Err(Unusable::new(format!("{} has no measure '{name}'", self.path), remedy))
    }

    /// All that was measured.
    pub fn quantities(&self) -> Result<Vec<Quantity>, Unusable> {
        let read = || {
            let mut statement =
                self.connection.prepare("SELECT name, unit, lower_is_better FROM quantity ORDER BY id")?;
            let rows = statement.query_map([], |row| {
                Ok(Quantity { name: row.get(0)?, unit: row.get(1)?, lower_is_better: row.get(2)? })
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(|error| unusable(&self.path, &error))
    }
}

fn insert(change: &Connection, source: i64, quantities: &[Quantity], run: &NewRun) -> rusqlite::Result<()> {
    change
        .prepare_cached(
            "INSERT INTO run (source, program, nodes, lock, round, warm_up, problem, sample)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        )?
        .execute((source, &run.program, run.nodes, &run.lock, run.round, run.warm_up, &run.problem, &run.sample))?;
    let id = change.last_insert_rowid();
    for (position, (quantity, value)) in quantities.iter().zip(&run.values).enumerate() {
        let quantity = number_of(change, quantity)?;
        change
            .prepare_cached("INSERT INTO value (run, position, quantity, value) VALUES (?1, ?2, ?3, ?4)")?
            .execute((id, position as i64, quantity, value))?;
    }
    Ok(())
}

/// The number of a quantity, which gets one where it is new.
fn number_of(change: &Connection, quantity: &Quantity) -> rusqlite::Result<i64> {
    let Quantity { name, unit, lower_is_better } = quantity;
    let found = change
        .prepare_cached("SELECT id FROM quantity WHERE name = ?1 AND unit = ?2 AND lower_is_better = ?3")?
        .query_row((name, unit, lower_is_better), |row| row.get(0))
        .optional()?;
    if let Some(id) = found {
        return Ok(id);
    }
    let sql = "INSERT INTO quantity (name, unit, lower_is_better) VALUES (?1, ?2, ?3)";
    change.execute(sql, (name, unit, lower_is_better))?;
    Ok(change.last_insert_rowid())
}

/// The error in words for users.
fn unusable(path: &str, error: &rusqlite::Error) -> Unusable {
    let what = format!("the database {path}: {error}");
    let remedy = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            return Unusable::new(format!("{path} is not a SQLite database"), "name one that 'lockswap study' made")
        }
        Some(ErrorCode::DiskFull) => "make room on the disk; what was kept before is still there",
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => "another process writes to it: wait for its end",
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
            "name a file in a folder that you can write to"
        }
        _ => "look at it with sqlite3",
    };
    Unusable::new(what, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(program: &str, lock: &str, values: &[f64], problem: Option<&str>) -> NewRun {
        NewRun {
            program: program.into(),
            nodes: 2,
            lock: lock.into(),
            round: None,
            warm_up: false,
            problem: problem.map(str::to_owned),
            values: values.to_vec(),
            sample: None,
        }
    }

    fn source(machine: &str) -> Source {
        Source { kind: "litl".into(), machine: machine.into(), name: "f.csv".into(), details: "{}".into() }
    }

    fn quantities() -> Vec<Quantity> {
        let quantity =
            |name: &str, lower_is_better| Quantity { name: name.into(), unit: String::new(), lower_is_better };
        vec![quantity("throughput", false), quantity("latency", true)]
    }

    #[test]
    fn runs_come_back_as_what_they_reached() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.db");
        let runs = [
            run("p", "a", &[5.0, 0.25], None),
            run("p", "b", &[], Some("crashed: SIGSEGV")),
            run("q", "a", &[7.0], None),
            NewRun { warm_up: true, ..run("p", "a", &[1.0, 1.0], None) },
        ];
        Database::create(&path).unwrap().add(&source("m"), &quantities(), &runs).unwrap();
        let database = Database::open(&path).unwrap();
        let values = |quantity| {
            let all = database.observations(quantity).unwrap();
            all["m"].iter().map(|o| format!("{} {} {:?}", o.program, o.lock, o.value)).collect::<Vec<_>>()
        };
        assert_eq!(values(None), ["p a Some(5.0)", "p b None", "q a Some(7.0)"]);
        // The other program has no latency.
        assert_eq!(values(Some("latency")), ["p a Some(4.0)", "p b None"]);
        assert_eq!(database.quantities().unwrap(), quantities());
        assert_eq!(database.sources().unwrap(), [(1, source("m"))]);
        let error = database.observations(Some("speed")).unwrap_err();
        assert!(error.what.ends_with("has no measure 'speed'") && error.remedy == "use one of: throughput, latency");
    }

    #[test]
    fn a_source_is_added_as_a_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let mut database = Database::create(&dir.path().join("s.db")).unwrap();
        // No number: SQLite stores it as nothing, which the table refuses.
        let bad = [run("p", "a", &[1.0], None), run("p", "b", &[f64::NAN], None)];
        assert!(database.add(&source("m"), &quantities(), &bad).is_err());
        assert!(database.sources().unwrap().is_empty());
        assert!(database.observations(None).unwrap_err().what.ends_with("has no run that counts"));
    }

    #[test]
    fn databases_are_merged_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let add = |name: &str, machine: &str, quantities: &[Quantity], runs: &[NewRun]| {
            Database::create(&path(name)).unwrap().add(&source(machine), quantities, runs).unwrap()
        };
        add("a.db", "m", &quantities(), &[run("p", "a", &[5.0, 0.5], None), run("p", "b", &[6.0, 0.4], None)]);
        // The other one has its quantities in another order.
        let turned: Vec<Quantity> = quantities().into_iter().rev().collect();
        add("b.db", "n", &turned, &[run("q", "c", &[0.25, 7.0], None), run("q", "d", &[], Some("crashed"))]);
        let mut all = Database::create(&path("all.db")).unwrap();
        assert_eq!((all.absorb(&path("a.db")), all.absorb(&path("b.db"))), (Ok(2), Ok(2)));
        let seen = |quantity| {
            let runs = all.observations(quantity).unwrap();
            runs["n"].iter().map(|run| format!("{} {:?}", run.lock, run.value)).collect::<Vec<_>>()
        };
        assert_eq!(
            (seen(Some("throughput")), seen(None)),
            (vec!["c Some(7.0)".into(), "d None".into()], vec!["c Some(4.0)".into(), "d None".into()])
        );
        assert_eq!(all.observations(None).unwrap()["m"].len(), 2);
        let error = all.absorb(&path("b.db")).unwrap_err();
        assert!(
            error.what.starts_with("the runs of f.csv in ") && error.remedy == "merge each database once",
            "{error}"
        );
        assert!(all.absorb(&path("none.db")).is_err());
        assert_eq!(all.sources().unwrap().len(), 2);
    }

    #[test]
    fn runs_of_a_plan_are_kept_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut database = Database::create(&dir.path().join("s.db")).unwrap();
        let id = database.add(&source("m"), &[], &[]).unwrap();
        let sample = crate::model::Sample {
            round: 3,
            phase: crate::model::Phase::Measured,
            wall_s: 2.5,
            usage: Default::default(),
            metrics: Vec::new(),
            exit: Exit::TimedOut { after_s: 2.5 },
            failure: None,
            stdout_tail: None,
            stderr_tail: None,
        };
        let sample = Some(serde_json::to_string(&sample).unwrap());
        let made = NewRun { round: Some(3), sample, ..run("p", "a", &[1.0], Some("timed out")) };
        database.append(id, &quantities(), &made).unwrap();
        let key = Key { program: "p".into(), nodes: 2, lock: "a".into(), round: Some(3) };
        assert_eq!(database.made(id).unwrap(), HashMap::from([(key, Made { wall_s: 2.5, timed_out: true })]));
        assert!(database.made(id + 1).unwrap().is_empty());
        database.forget(id).unwrap();
        assert!(database.made(id).unwrap().is_empty() && database.sources().unwrap().is_empty());
    }

    #[test]
    fn files_of_others_and_of_newer_versions_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        assert!(Database::open(&path("none.db")).unwrap_err().what.starts_with("there is no database"));
        std::fs::write(path("text.db"), "not a database, but long enough to be one: ".repeat(50)).unwrap();
        assert!(Database::create(&path("text.db")).unwrap_err().what.ends_with("is not a SQLite database"));
        Connection::open(path("other.db")).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        assert!(Database::create(&path("other.db")).unwrap_err().what.ends_with("but not one of lockswap's"));
        Database::create(&path("new.db")).unwrap();
        Connection::open(path("new.db")).unwrap().execute_batch("PRAGMA user_version = 2").unwrap();
        let error = Database::open(&path("new.db")).unwrap_err();
        assert!(error.what.ends_with("has schema 2, and this lockswap knows schema 1"), "{error}");
        assert!(Database::create(&path("no/such/folder.db")).is_err());
    }
}
