//! A lock as data.

use lockswap_locks::parameters::{self, Values, LONGEST_TIME};
use lockswap_locks::registry::Entry;
use serde::Serialize;

use crate::checked::{AllChecks, Summary};
use crate::pages;

/// All that is known of a lock, as `lockswap list --format json` prints it.
#[derive(Serialize)]
pub struct Row {
    /// Its published name.
    pub id: &'static str,
    /// What it can stand for: `mutex`, `rwlock` or `spin`.
    pub role: &'static str,
    /// Whether it is the one that the preload library takes if it is told nothing.
    pub default: bool,
    /// The name of its family.
    pub family: &'static str,
    /// What a thread does while the lock is held.
    pub waiting: &'static str,
    /// Who is served next.
    pub fairness: &'static str,
    /// Whether it needs nothing beside the pthread object.
    pub in_place: bool,
    /// Bytes inside the pthread object, of a mutex or of another one.
    pub bytes_in_mutex: usize,
    /// Bytes allocated for each lock.
    pub extra_bytes_per_lock: usize,
    /// Bytes that a thread needs for each lock that it holds or waits for.
    pub bytes_per_acquisition: usize,
    /// Whether an attempt without waiting is possible.
    pub trylock: bool,
    /// How acquisitions with a deadline wait.
    pub timed: &'static str,
    /// Whether it stays fast with more threads than CPUs.
    pub oversubscribed: bool,
    /// Whether real-time waiters are served by priority.
    pub by_priority: &'static str,
    /// Whether the preload library is needed for it: false for glibc's own.
    pub preloaded: bool,
    /// What its users may choose, as in `ID:KEY=VALUE`.
    pub parameters: Vec<Parameter>,
    /// How far it was checked.
    pub checked: Option<Summary>,
    /// Its source file in the repository; nothing for glibc's.
    pub source: Option<String>,
    /// Where it was published.
    pub paper: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
}

/// What users may choose of a lock.
#[derive(Serialize)]
pub struct Parameter {
    /// Its name.
    pub key: &'static str,
    /// The values; null where it takes a number, or a time with its unit.
    pub values: Option<Vec<&'static str>>,
    /// The least and the largest number, or time in ns; null where it takes something else.
    pub range: Option<[u64; 2]>,
    /// What a number counts; `ns` for a time, which is written with any unit, as in `5us`.
    pub unit: Option<&'static str>,
    /// The value where none is given, as one would write it; "measured" where it depends on the machine.
    pub default: String,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Where the default comes from.
    pub source: &'static str,
}

impl Parameter {
    fn of(parameter: &parameters::Parameter) -> Self {
        let (values, range, unit) = match parameter.values {
            Values::Time(_) => (None, Some([0, LONGEST_TIME]), Some("ns")),
            Values::Number(_, least, most, unit) => (None, Some([least.into(), most.into()]), Some(unit)),
            Values::Locks(known) => (Some(known.iter().map(|(value, _)| *value).collect()), None, None),
        };
        let parameters::Parameter { key, default, summary, source, .. } = *parameter;
        Self { key, values, range, unit, default: default.to_string(), summary, source }
    }
}

impl Row {
    /// That of a lock.
    pub fn new(entry: &Entry, checks: &AllChecks) -> Self {
        Self {
            id: entry.info.id,
            role: entry.role.name(),
            default: entry.info.id == entry.role.default_id(),
            family: entry.info.family.name(),
            waiting: entry.info.waiting.name(),
            fairness: entry.info.fairness.name(),
            in_place: entry.extra_bytes_per_lock == 0,
            bytes_in_mutex: entry.body_bytes,
            extra_bytes_per_lock: entry.extra_bytes_per_lock,
            bytes_per_acquisition: entry.bytes_per_acquisition,
            // The pthread interface has it for all of them, so every lock of the registry must.
            trylock: true,
            timed: entry.info.timed.name(),
            oversubscribed: entry.info.keeps_up,
            by_priority: entry.info.by_priority.name(),
            preloaded: entry.preloaded,
            parameters: entry.parameters.iter().map(Parameter::of).collect(),
            checked: checks.of(entry).map(Summary::new),
            source: pages::source(entry),
            paper: entry.info.paper,
            summary: entry.info.summary,
        }
    }

    /// Names and values for a line of text; how far the lock was checked is said in words.
    fn fields(self) -> [(&'static str, String); 20] {
        [
            ("id", self.id.into()),
            ("role", self.role.into()),
            ("default", self.default.to_string()),
            ("family", self.family.into()),
            ("waiting", self.waiting.into()),
            ("fairness", self.fairness.into()),
            ("in_place", self.in_place.to_string()),
            ("bytes_in_mutex", self.bytes_in_mutex.to_string()),
            ("extra_bytes_per_lock", self.extra_bytes_per_lock.to_string()),
            ("bytes_per_acquisition", self.bytes_per_acquisition.to_string()),
            ("trylock", self.trylock.to_string()),
            ("timed", self.timed.into()),
            ("oversubscribed", self.oversubscribed.to_string()),
            ("by_priority", self.by_priority.into()),
            ("preloaded", self.preloaded.to_string()),
            ("parameters", self.parameters.iter().map(|known| known.key).collect::<Vec<_>>().join(" ")),
            ("checked", self.checked.map(|checked| checked.words()).unwrap_or_default()),
            ("source", self.source.unwrap_or_default()),
            ("paper", self.paper.into()),
            ("summary", self.summary.into()),
        ]
    }
}

/// A heading and a line for each row.
pub fn to_csv(rows: impl IntoIterator<Item = Row>) -> csv::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let mut has_heading = false;
    for row in rows {
        let fields = row.fields();
        if !has_heading {
            writer.write_record(fields.iter().map(|(name, _)| name))?;
            has_heading = true;
        }
        writer.write_record(fields.iter().map(|(_, value)| value))?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_locks::registry::ENTRIES;

    #[test]
    fn a_line_of_csv_has_the_keys_of_the_json_and_its_values() {
        let checks = AllChecks::built_in().unwrap();
        let rows = || ENTRIES.iter().map(|entry| Row::new(entry, &checks));
        let text = to_csv(rows()).unwrap();
        let mut lines = csv::Reader::from_reader(text.as_slice());
        let names = lines.headers().unwrap().clone();
        let mut count = 0;
        for (line, row) in lines.records().zip(rows()) {
            let (line, json) = (line.unwrap(), serde_json::to_value(row).unwrap());
            assert_eq!(json.as_object().unwrap().len(), line.len());
            for (name, value) in names.iter().zip(line.iter()) {
                let wanted = match &json[name] {
                    serde_json::Value::String(text) => text.clone(),
                    serde_json::Value::Null => String::new(),
                    _ if name == "checked" => continue,
                    serde_json::Value::Array(all) => {
                        let keys: Vec<&str> = all.iter().filter_map(|one| one["key"].as_str()).collect();
                        keys.join(" ")
                    }
                    other => other.to_string(),
                };
                assert_eq!(value, wanted, "{name}");
            }
            count += 1;
        }
        assert_eq!(count, ENTRIES.len());
    }
}
