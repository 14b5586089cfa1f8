//! Joining databases: of shards of a plan, or of several machines.

use std::path::Path;

use rusqlite::OptionalExtension;

use super::{unusable, Database};
use crate::survey::Unusable;

impl Database {
    /// Adds everything from another database, as a whole or not at all.
    pub fn absorb(&mut self, other: &Path) -> Result<u64, Unusable> {
        // Refuses what is not a database of ours.
        Self::open(other)?;
        let name = other.display().to_string();
        let attached = self.connection.execute("ATTACH DATABASE ?1 AS other", [&name]);
        attached.map_err(|error| unusable(&name, &error))?;
        let result = self.absorb_attached(&name);
        self.connection.execute("DETACH DATABASE other", []).map_err(|error| unusable(&name, &error))?;
        result
    }

    fn absorb_attached(&mut self, name: &str) -> Result<u64, Unusable> {
        let twice = "SELECT name FROM other.source JOIN main.source USING (kind, machine, name, details) LIMIT 1";
        let known: Option<String> = self
            .connection
            .query_row(twice, [], |row| row.get(0))
            .optional()
            .map_err(|error| unusable(&self.path, &error))?;
        if let Some(source) = known {
            let what = format!("the runs of {source} in {name} are in {} already", self.path);
            return Err(Unusable::new(what, "merge each database once"));
        }
        self.change(|change| {
            let last = |table: &str| {
                change.query_row(&format!("SELECT coalesce(max(id), 0) FROM main.{table}"), [], |row| {
                    row.get::<_, i64>(0)
                })
            };
            let (source, run) = (last("source")?, last("run")?);
            change.execute(
                "INSERT OR IGNORE INTO main.quantity (name, unit, lower_is_better)
                 SELECT name, unit, lower_is_better FROM other.quantity ORDER BY id",
                [],
            )?;
            change.execute(
                "INSERT INTO main.source SELECT id + ?1, kind, machine, name, details FROM other.source",
                [source],
            )?;
            let runs = change.execute(
                "INSERT INTO main.run
                 SELECT id + ?1, source + ?2, program, nodes, lock, round, warm_up, problem, sample FROM other.run",
                [run, source],
            )?;
            change.execute(
                "INSERT INTO main.value SELECT run + ?1, position, own.id, value
                 FROM other.value JOIN other.quantity AS theirs ON theirs.id = other.value.quantity
                 JOIN main.quantity AS own USING (name, unit, lower_is_better)",
                [run],
            )?;
            Ok(runs as u64)
        })
    }
}
