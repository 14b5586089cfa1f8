//! The file that a workload's results go to: one form for hardware and simulation. `docs/results.schema.json` is its
//! JSON Schema, made of these types.

use lockswap_study::machine::Machine as Host;
use lockswap_study::summary::{Judgement, Row};
use lockswap_workloads::hardware::Seat;
use lockswap_workloads::report::{summary, Report};
use lockswap_workloads::workload::{Config, Workload};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// The version of the form.
const SCHEMA: u32 = 2;

/// What `lockswap bench WORKLOAD` and `lockswap sim` write: what was measured, where, and each result.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields, title = "Results of a lockswap workload")]
pub struct Document<'a> {
    /// The version of this form: 2.
    #[schemars(range(min = 2, max = 2))]
    schema: u32,
    /// What wrote it, with its version.
    tool: &'static str,
    /// Whether the machine was simulated; times are virtual then.
    simulated: bool,
    /// Where the threads ran.
    machine: &'a Machine,
    /// What they did.
    workload: Common,
    /// What `--set` changed, `KEY=VALUE` each.
    settings: &'a [String],
    /// The seed of the first round; the others have the numbers after it.
    seed: u64,
    /// What was measured: one for each lock and setting that ended a round.
    results: Vec<Outcome>,
    /// What was not measured to its end.
    failures: Vec<Failed>,
}

/// A machine, real or described.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Machine {
    /// The id of a described machine or the path of its file; `here` for the real one.
    pub id: String,
    /// The machine in words.
    pub title: String,
    /// Its logical CPUs.
    pub cpus: usize,
    /// The real machine in detail; null in simulation.
    pub host: Option<Host>,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let host = Host::here();
        Self { id: "here".into(), title: host.words(), cpus: host.cpus_online, host: Some(host) }
    }
}

/// What all results have in common.
#[derive(Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Common {
    /// Its name, the same for both commands.
    name: String,
    /// The parameters that are the same in all results.
    config: Map<String, Value>,
}

/// What one lock gave in one setting. All numbers are medians over the rounds, histograms are sums.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Outcome {
    /// The lock's id.
    lock: String,
    /// The workload's name.
    workload: String,
    /// `--little`: which CPUs played slower ones, and how many times slower; null where none did.
    little: Option<String>,
    #[serde(flatten)]
    numbers: Report,
    /// P99 on little CPUs divided by the target; null without a target or without little CPUs.
    little_p99_to_slo: Option<f64>,
    /// All parameters of the workload.
    config: Config,
    /// Where threads were pinned; empty in simulation, where the machine's file says it, and where they were not.
    seats: Vec<Seat>,
    /// How it compares with the baseline of its setting; null in simulation, and where nothing is compared.
    compared: Option<Compared>,
    /// Round by round.
    rounds: Vec<Round>,
}

/// How a lock compares with the baseline over the same rounds: `docs/statistics.md`.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Compared {
    /// How many times better it is: above 1 is better; null for the baseline, and where a number is not above 0.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's 95 % interval; null below 6 rounds.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
    /// Wilcoxon's p value after Holm's correction for all that the command compared.
    pub p: Option<f64>,
    /// What follows.
    pub judgement: Judgement,
    /// The same in words.
    pub verdict: String,
}

impl From<&Row> for Compared {
    fn from(row: &Row) -> Self {
        Self {
            ratio: row.ratio,
            low: row.ratio_low,
            high: row.ratio_high,
            p: row.p,
            judgement: row.judgement,
            verdict: row.verdict.clone(),
        }
    }
}

/// One round.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Round {
    /// What the round's chances followed.
    pub seed: u64,
    /// What the threads measured.
    #[serde(flatten)]
    pub report: Report,
    /// What simulating took; null on hardware.
    pub simulation: Option<Simulation>,
}

/// What simulating took.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Simulation {
    /// Simulated accesses to shared memory.
    pub memory_operations: u64,
    /// Those that needed a cache line from elsewhere.
    pub misses: u64,
    /// Virtual time from the start to the last thread's end, ns.
    pub virtual_ns: u64,
}

/// A measurement that did not come to its end.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub struct Failed {
    /// The lock's id.
    pub lock: String,
    /// How many threads.
    pub threads: usize,
    /// The seed of the round that failed.
    pub seed: u64,
    /// Why, for people.
    pub what: String,
    /// All parameters of the workload.
    pub config: Config,
}

/// One lock in one setting, with what its rounds gave.
pub struct Measurement<'a> {
    /// The lock's id.
    pub lock: &'a str,
    /// What the threads did.
    pub workload: &'a Workload,
    /// Which CPUs played slower ones, as `--little` says it.
    pub little: Option<String>,
    /// Where threads were pinned.
    pub seats: &'a [Seat],
    /// Round by round.
    pub rounds: Vec<Round>,
    /// How it compares with the baseline, where it is compared.
    pub compared: Option<Compared>,
}

impl Measurement<'_> {
    fn outcome(self, name: &str) -> Option<Outcome> {
        let reports: Vec<&Report> = self.rounds.iter().map(|round| &round.report).collect();
        let numbers = summary(&reports)?;
        let slo = match self.workload {
            Workload::Epochs(config) => config.slo.filter(|&slo| slo > 0),
            _ => None,
        };
        let little = numbers.latency.get("little");
        Some(Outcome {
            lock: self.lock.to_owned(),
            workload: name.to_owned(),
            little: self.little,
            little_p99_to_slo: little.zip(slo).map(|(times, slo)| times.p99_ns as f64 / slo as f64),
            numbers,
            config: self.workload.config(),
            seats: self.seats.to_vec(),
            compared: self.compared,
            rounds: self.rounds,
        })
    }
}

/// What is the same for all results.
pub struct About<'a> {
    /// Whether the machine was simulated.
    pub simulated: bool,
    /// Where the threads ran.
    pub machine: &'a Machine,
    /// The workload's name.
    pub workload: &'a str,
    /// What `--set` changed, `KEY=VALUE` each.
    pub settings: &'a [String],
    /// The seed of the first round.
    pub seed: u64,
}

/// The file's content.
///
/// # Errors
/// A number that JSON has no form for.
pub fn json<'a>(
    about: &About<'a>,
    measurements: impl IntoIterator<Item = Measurement<'a>>,
    failures: Vec<Failed>,
) -> serde_json::Result<Vec<u8>> {
    let results: Vec<Outcome> = measurements.into_iter().filter_map(|one| one.outcome(about.workload)).collect();
    let config = in_common(results.iter().map(|result| &result.config));
    let document = Document {
        schema: SCHEMA,
        tool: concat!("lockswap ", env!("CARGO_PKG_VERSION")),
        simulated: about.simulated,
        machine: about.machine,
        workload: Common { name: about.workload.to_owned(), config },
        settings: about.settings,
        seed: about.seed,
        results,
        failures,
    };
    let mut text = serde_json::to_vec_pretty(&document)?;
    text.push(b'\n');
    Ok(text)
}

/// The parameters that all of `configs` have alike.
fn in_common<'a>(configs: impl Iterator<Item = &'a Config>) -> Map<String, Value> {
    let mut objects = configs.filter_map(|config| match serde_json::to_value(config) {
        Ok(Value::Object(fields)) => Some(fields),
        _ => None,
    });
    let mut common = objects.next().unwrap_or_default();
    objects.for_each(|other| common.retain(|key, value| other.get(key) == Some(value)));
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published schema is that of the types; `LOCKSWAP_WRITE_DOCS=1 cargo test -p lockswap-experiment schema`
    /// writes it.
    #[test]
    fn the_published_schema_is_that_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results.schema.json");
        let schema = schemars::generate::SchemaSettings::draft2020_12().for_serialize().into_generator();
        let schema = schema.into_root_schema_for::<Document<'_>>();
        let text = serde_json::to_string_pretty(&schema).expect("JSON") + "\n";
        if std::env::var_os("LOCKSWAP_WRITE_DOCS").is_some() {
            std::fs::write(path, &text).expect("the file of the schema");
        }
        let published = std::fs::read_to_string(path).expect("the file of the schema");
        assert!(published == text, "docs/results.schema.json is out of date: LOCKSWAP_WRITE_DOCS=1 writes it");
    }

    #[test]
    fn the_workload_has_what_all_results_have_in_common() {
        let of = |threads: usize, keys: &str| {
            let mut workload = Workload::named("kv").expect("kv");
            workload.set("keys", keys).expect("keys");
            workload.with(threads, 1_000_000).config()
        };
        let common = in_common([of(1, "7"), of(2, "7")].iter());
        assert_eq!((common.get("keys"), common.get("threads")), (Some(&Value::from(7)), None));
        let common = in_common([of(2, "7"), of(2, "8")].iter());
        assert_eq!((common.get("keys"), common.get("threads")), (None, Some(&Value::from(2))));
    }
}
