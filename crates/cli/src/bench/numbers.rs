//! Measurements that give plain numbers, by name: those of the pthread functions and of interposition.

use super::job::{environment, Environment, Job, Work};
use super::{Common, Quartiles};
use crate::error::UserError;
use crate::selection::{self, INTERPOSED, PLAIN as PTHREAD};
use crate::terminal;
use anyhow::Context;
use lockswap_locks::registry::{self, Role};
use lockswap_study::export::OutputFile;
use lockswap_study::machine::Machine;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

/// The numbers of one process, by measurement id.
pub type Numbers = BTreeMap<String, f64>;

/// The numbers of one lock.
pub struct LockResult {
    /// The lock.
    pub lock: String,
    /// Called through the Rust API, nothing preloaded.
    pub directly: bool,
    /// Round by round.
    pub rounds: Vec<Numbers>,
    /// Why it was not measured to the end.
    pub failure: Option<String>,
}

impl LockResult {
    /// Nothing yet.
    pub fn new(lock: String) -> Self {
        Self { lock, directly: false, rounds: Vec::new(), failure: None }
    }

    /// The same with a failure.
    #[cfg(test)]
    pub fn failed(self, failure: &str) -> Self {
        Self { failure: Some(failure.to_owned()), ..self }
    }

    fn environment(&self) -> Result<Environment, UserError> {
        environment(Role::Mutex, if self.directly { PTHREAD } else { &self.lock })
    }
}

/// The locks to measure: the two baselines, then `wanted`, or every mutex lock if that is empty.
pub fn selection(wanted: &[String]) -> Result<Vec<String>, UserError> {
    let wanted: Vec<&str> = wanted.iter().map(|lock| selection::known(Role::Mutex, lock)).collect::<Result<_, _>>()?;
    let mut locks = vec![PTHREAD.to_owned(), INTERPOSED.to_owned()];
    let chosen = if wanted.is_empty() { registry::ids(Role::Mutex).collect() } else { wanted };
    for lock in chosen {
        if !locks.iter().any(|present| present == lock) {
            locks.push(lock.to_owned());
        }
    }
    Ok(locks)
}

/// What is measured: its name in files, and ids and units of the numbers.
pub struct Measurements {
    /// The part's name; none for what is measured without one.
    pub part: Option<&'static str>,
    /// Ids and units.
    pub ids: Vec<(&'static str, &'static str)>,
}

/// Does a job for each of `results`, round by round, and prints what `render` makes of them.
pub fn run(
    mut results: Vec<LockResult>,
    common: &Common,
    measurements: &Measurements,
    work: impl Fn(&LockResult) -> Work,
    render: impl Fn(&[LockResult]) -> String,
) -> anyhow::Result<ExitCode> {
    let file = super::prepare(common)?;
    let before = Machine::here();
    let rounds = common.runs.unwrap_or(7);
    let bar = crate::compare::bar(u64::from(rounds) * results.len() as u64);
    let interrupt = super::interrupt()?;
    'rounds: for _ in 0..rounds {
        for result in results.iter_mut().filter(|result| result.failure.is_none()) {
            bar.set_message(result.lock.clone());
            let job = Job { work: work(result), seats: Vec::new(), seed: 0 };
            let numbers = result.environment().map_err(anyhow::Error::from).and_then(|mut environment| {
                if matches!(job.work, Work::Price { .. }) {
                    // Only the preload library reads these: a lock that is called directly has the kernel's nodes, and all
                    // CPUs are big.
                    environment.push(("LOCKSWAP_TOPOLOGY".into(), None));
                    environment.push(("LOCKSWAP_LEVEL".into(), Some("node".into())));
                    environment.push(("LOCKSWAP_BIG".into(), Some("0-4095".into())));
                }
                let text = job.run(&environment)?;
                serde_json::from_slice(&text).context("the measuring process printed something else than its numbers")
            });
            match numbers {
                Ok(numbers) => result.rounds.push(numbers),
                // A terminal interrupts the measuring process, too.
                Err(_) if interrupt.signal().is_some() => break 'rounds,
                Err(failure) => result.failure = Some(format!("{failure:#}")),
            }
            bar.inc(1);
            if interrupt.signal().is_some() {
                break 'rounds;
            }
        }
        if let Some(file) = file.as_ref().filter(|file| !file.is_stream()) {
            export(file, &results, measurements)?;
        }
    }
    if let Some(file) = file.filter(|file| file.is_stream() || interrupt.signal().is_some()) {
        export(&file, &results, measurements)?;
    }
    bar.finish_and_clear();
    let mut text = render(&results) + &failures(&results);
    if before.is_busy() {
        text += &super::busy(before.load_average);
    }
    terminal::print(&text)?;
    if let Some(signal) = interrupt.signal() {
        return Ok(super::interrupted(signal));
    }
    let failed = results.iter().any(|result| result.failure.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn export(file: &OutputFile, results: &[LockResult], measurements: &Measurements) -> anyhow::Result<()> {
    let locks: Vec<_> = results
        .iter()
        .map(|LockResult { lock, directly, rounds, failure }| {
            serde_json::json!({"id": lock, "directly": directly, "rounds": rounds, "failure": failure})
        })
        .collect();
    let ids: Vec<_> = measurements.ids.iter().map(|(id, unit)| serde_json::json!({"id": id, "unit": unit})).collect();
    let document = serde_json::json!({
        "schema": 1,
        "tool": concat!("lockswap ", env!("CARGO_PKG_VERSION")),
        "machine": Machine::here(),
        "part": measurements.part,
        "baseline": PTHREAD,
        "measurements": ids,
        "locks": locks,
    });
    let written = file.replace(&serde_json::to_vec_pretty(&document)?);
    written.with_context(|| format!("cannot write {}", file.path().display()))
}

/// The numbers of all rounds.
pub fn numbers_of(result: &LockResult, id: &str) -> Option<Quartiles> {
    Quartiles::of(result.rounds.iter().filter_map(|round| round.get(id).copied()).collect())
}

/// `result`'s number divided by `baseline`'s `base_id`, round by round.
pub fn ratio_to(result: &LockResult, id: &str, baseline: &LockResult, base_id: &str) -> Option<Quartiles> {
    let pairs = result.rounds.iter().zip(&baseline.rounds);
    Quartiles::of(pairs.filter_map(|(own, base)| Some(own.get(id)? / base.get(base_id)?)).collect())
}

/// One line per lock that could not be measured to the end.
pub fn failures(results: &[LockResult]) -> String {
    let mut text = String::new();
    for LockResult { lock, directly, rounds, failure } in results {
        if let Some(failure) = failure {
            let how = if *directly { ", called directly," } else { "" };
            let _ = writeln!(text, "{lock}{how} failed after {} rounds: {failure}", rounds.len());
        }
    }
    text
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use lockswap_workloads::micro::id;

    /// A lock with its numbers, round by round.
    pub fn result(lock: &str, rounds: &[&[(&str, f64)]]) -> LockResult {
        let rounds = rounds.iter().map(|round| round.iter().map(|&(id, n)| (id.to_owned(), n)).collect()).collect();
        LockResult { rounds, ..LockResult::new(lock.into()) }
    }

    #[test]
    fn ratios_pair_numbers_of_one_round() {
        // The machine is twice as slow in the second round; the ratio does not change.
        let base = result(PTHREAD, &[&[(id::UNCONTENDED, 10.0)], &[(id::UNCONTENDED, 20.0)]]);
        let own = result("ttas", &[&[(id::UNCONTENDED, 5.0)], &[(id::UNCONTENDED, 10.0)]]);
        let ratio = ratio_to(&own, id::UNCONTENDED, &base, id::UNCONTENDED).unwrap();
        assert_eq!((ratio.median, ratio.spread()), (0.5, 0.0));
        assert_eq!(ratio_to(&own, id::SPIN, &base, id::SPIN), None);
    }

    #[test]
    fn the_baselines_are_always_measured_and_unknown_locks_are_named() {
        let wanted = ["ticket".to_owned(), PTHREAD.to_owned()];
        assert_eq!(selection(&wanted).unwrap(), [PTHREAD, INTERPOSED, "ticket"]);
        assert!(selection(&[]).unwrap().len() > 6);
        let error = selection(&["nonsense".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("nonsense"), "{error}");
    }
}
