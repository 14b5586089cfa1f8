//! `lockswap-check mutants`.

mod results;
mod worker;

use super::Outcome;
use lockswap_check::mutation::{self, Change, Mutant};
use lockswap_check::runner::{Budget, Engine};
use lockswap_check::source;
use lockswap_check::subjects::{self, Subject};
use lockswap_check::survivors::{disagreements, EXPLAINED, SOURCES};
use results::{line, table, Results, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use worker::{attempt, Answer, Order, Worker, GIVEN_UP};
pub use worker::{work, WORKER};

/// Weakens one memory order or leaves out one wait of a lock at a time, and looks whether a check fails then. Exit
/// status 1: a mutant survives for which crates/check/src/survivors.rs has no reason, or a reason there is about none
/// that does.
#[derive(clap::Args)]
pub struct MutantsArgs {
    /// Places that this lock passes only; may be repeated.
    #[arg(long = "lock", value_name = "ID")]
    locks: Vec<String>,
    /// Places that contain this text only: file:line:column.
    #[arg(long, value_name = "TEXT")]
    place: Option<String>,
    /// With --write: only mutants without a result in FILE.
    #[arg(long, requires = "write")]
    missing: bool,
    /// File for the table; the results lie beside it, as FILE with .json at its end. With --lock, --place or --missing
    /// the results of other mutants stay, as long as their lines do. What has caught a mutant before is tried first.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Mutants that are tried at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
}

/// Locks on which a mutant in shared source is tried.
const MOST_LOCKS: usize = 4;
/// No new scenario is tried on a mutant after this, CPU time.
const PER_MUTANT: Duration = Duration::from_secs(90);
/// The search for places.
const SEARCH: Budget = Budget {
    preemptions: 2,
    executions: 400_000,
    executions_without_bound: 10_000,
    weak_executions: 400,
    weak_executions_bounded: 400,
    weak_threads: 5,
    time: Duration::from_secs(8),
};

/// One scenario of one lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Target {
    threads: usize,
    /// Share of the lock's mutants that lie in other files, per mille: a lock shows most about its own file.
    apart: usize,
    /// Position in the list of subjects.
    subject: usize,
    engine: Engine,
    /// Position in the list of the subject's scenarios.
    scenario: usize,
}

pub fn run(args: MutantsArgs) -> Outcome {
    let subjects = super::wanted(&args.locks)?;
    let start = Instant::now();
    let beside = args.write.as_ref().map(|path| path.with_extension("json"));
    let is_part = !args.locks.is_empty() || args.place.is_some() || args.missing;
    let mut known = beside.as_ref().map_or_else(|| Ok(Results::default()), |path| Results::read(path))?;
    let caught_before = known.caught_by();
    if !is_part {
        known = Results::default();
    }
    let mut plan = search(&subjects, args.jobs);
    if args.locks.is_empty() {
        known.orders = unseen_orders(&plan);
        known.verdicts.retain(|verdict| plan.iter().any(|(mutant, _)| *mutant == verdict.mutant));
    }
    plan.retain(|(mutant, _)| {
        args.place.as_ref().is_none_or(|text| mutant.place.to_string().contains(text))
            && !(args.missing && known.verdicts.iter().any(|verdict| verdict.mutant == *mutant))
    });
    eprintln!("{} mutants, found in {:.0} s", plan.len(), start.elapsed().as_secs_f64());
    let queue = Mutex::new(plan.into_iter());
    let verdicts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                let mut worker = None;
                loop {
                    let next = queue.lock().expect("no job panics").next();
                    let Some((mutant, targets)) = next else { break };
                    let first = caught_before.get(&mutant).map(String::as_str);
                    let verdict = try_mutant(&subjects, mutant, &targets, first, &mut worker);
                    println!("{}", line(&verdict));
                    verdicts.lock().expect("no job panics").push(verdict);
                }
                if let Some(worker) = worker {
                    worker.end();
                }
            });
        }
    });
    let mut results = known;
    let verdicts = verdicts.into_inner().expect("no job panics");
    results.verdicts.retain(|old| verdicts.iter().all(|new| new.mutant != old.mutant));
    results.verdicts.extend(verdicts);
    results.verdicts.sort_by(|a, b| a.mutant.cmp(&b.mutant));
    let survivors = || results.verdicts.iter().filter(|verdict| verdict.caught.is_none());
    println!("{} mutants, {} survived", results.verdicts.len(), survivors().count());
    let verdicts = results.verdicts.iter().map(|verdict| (&verdict.mutant, verdict.caught.is_some()));
    let disagreements = disagreements(EXPLAINED, verdicts, is_part);
    disagreements.iter().for_each(|line| println!("{line}"));
    if let (Some(path), Some(beside)) = (&args.write, &beside) {
        super::write(beside, &results.text())?;
        super::write(path, &table(&results.verdicts, &results.orders, &subjects::all()))?;
    }
    eprintln!("{:.0} s", start.elapsed().as_secs_f64());
    Ok(if disagreements.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// All mutants, and the scenarios that pass their places, cheap ones first.
fn search(subjects: &[Subject], jobs: usize) -> Vec<(Mutant, Vec<Target>)> {
    let next = Mutex::new(subjects.iter().enumerate());
    let found = Mutex::new(BTreeMap::<Mutant, Vec<Target>>::new());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| loop {
                let next = next.lock().expect("no job panics").next();
                let Some((index, subject)) = next else { break };
                let passed = passed(index, subject);
                let mut found = found.lock().expect("no job panics");
                for (mutant, targets) in passed {
                    found.entry(mutant).or_default().extend(targets);
                }
            });
        }
    });
    let mut plan: Vec<_> = found.into_inner().expect("no job panics").into_iter().collect();
    for (_, targets) in &mut plan {
        targets.sort();
        let mut locks: Vec<_> = targets.iter().map(|target| (target.apart, target.subject)).collect();
        locks.sort();
        locks.dedup();
        locks.truncate(MOST_LOCKS);
        targets.retain(|target| locks.contains(&(target.apart, target.subject)));
    }
    plan
}

/// The mutants in what one lock passes.
fn passed(index: usize, subject: &Subject) -> BTreeMap<Mutant, Vec<Target>> {
    let mut found = BTreeMap::<Mutant, Vec<Target>>::new();
    let mut add = |engine, scenarios: &[lockswap_conformance::small::Scenario]| {
        for (position, scenario) in scenarios.iter().enumerate() {
            if engine == Engine::Loom && !(2..=SEARCH.weak_threads).contains(&scenario.threads) {
                continue;
            }
            let seen = mutation::record(|| drop(attempt(subject, engine, position, SEARCH)));
            let target = Target { threads: scenario.threads, apart: 0, subject: index, engine, scenario: position };
            for mutant in seen.into_iter().filter(|mutant| mutant.place.file.starts_with(SOURCES)) {
                found.entry(mutant).or_default().push(target.clone());
            }
        }
    };
    add(Engine::Explore, &subject.explore);
    add(Engine::Loom, &subject.weak);
    let all = found.len();
    let mut in_file = HashMap::<String, usize>::new();
    found.keys().for_each(|mutant| *in_file.entry(mutant.place.file.clone()).or_default() += 1);
    for (mutant, targets) in &mut found {
        let apart = 1000 - 1000 * in_file[&mutant.place.file] / all;
        targets.iter_mut().for_each(|target| target.apart = apart);
    }
    found
}

/// Tries the scenarios until one fails; `first` the one that has caught the mutant before, so that a machine that is
/// slower, or busy, finds the same.
fn try_mutant(
    subjects: &[Subject],
    mutant: Mutant,
    targets: &[Target],
    first: Option<&str>,
    worker: &mut Option<Worker>,
) -> Verdict {
    let everyone: HashMap<_, _> =
        subjects::all().iter().enumerate().map(|(index, subject)| (subject.name(), index)).collect();
    let mut spent = Duration::ZERO;
    let mut undecided = None;
    let by = |target: &Target| {
        let subject = &subjects[target.subject];
        let scenarios = match target.engine {
            Engine::Explore => &subject.explore,
            Engine::Loom => &subject.weak,
        };
        format!("{}, {}, {}", subject.name(), target.engine, scenarios[target.scenario].name)
    };
    let mut relevant: Vec<_> = targets
        .iter()
        // Orders mean nothing to the explorer.
        .filter(|target| target.engine == Engine::Loom || matches!(mutant.change, Change::Skip(_)))
        .collect();
    relevant.sort_by_key(|target| Some(by(target).as_str()) != first);
    let mut tried = 0;
    for target in &relevant {
        if spent > PER_MUTANT {
            break;
        }
        tried += 1;
        let subject = &subjects[target.subject];
        let there = Target { subject: everyone[&subject.name()], ..(*target).clone() };
        let order = Order { mutant: mutant.clone(), target: there };
        let (alive, answer, took) = worker.take().unwrap_or_else(Worker::start).ask(&order);
        *worker = alive;
        spent += took;
        match answer {
            Answer::Holds => {}
            Answer::Undecided(why) => undecided = Some((by(target), why)),
            Answer::Fails(failure) => {
                let source = source::line(&mutant.place.file, mutant.place.line);
                let caught = Some((by(target), failure));
                return Verdict { mutant, source, caught, undecided: None, tried: (tried, relevant.len()) };
            }
        }
    }
    let source = source::line(&mutant.place.file, mutant.place.line);
    Verdict { mutant, source, caught: None, undecided, tried: (tried, relevant.len()) }
}

/// Lines with a memory order that no scenario under loom has passed: these orders have no mutants.
fn unseen_orders(plan: &[(Mutant, Vec<Target>)]) -> Vec<(String, u32)> {
    let mut unseen = Vec::new();
    let seen: BTreeSet<_> = plan.iter().map(|(mutant, _)| (mutant.place.file.as_str(), mutant.place.line)).collect();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let mut folders = vec![PathBuf::from(format!("{root}{SOURCES}"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let file = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            for (line, text) in (1u32..).zip(text.lines()) {
                let orders = ["Ordering::Acquire", "Ordering::Release", "Ordering::AcqRel", "Ordering::SeqCst"];
                let is_code = !text.trim_start().starts_with("//");
                // A call may begin some lines above its order, or come after it.
                let last = if text.contains("let order") { line + 4 } else { line };
                let passed = (line.saturating_sub(4)..=last).any(|line| seen.contains(&(file.as_str(), line)));
                if is_code && orders.iter().any(|order| text.contains(order)) && !passed {
                    unseen.push((file.clone(), line));
                }
            }
        }
    }
    unseen.sort();
    unseen
}
