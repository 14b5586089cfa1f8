//! `lockswap-check mutants`.

use super::{survivors, Outcome};
use lockswap_check::mutation::{self, Change, Mutant};
use lockswap_check::runner::{self, Budget, Engine};
use lockswap_check::subjects::{self, Subject};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Weakens one memory order or leaves out one wait of a lock at a time, and looks whether a check fails then. Exit status
/// 1: a mutant survives for which crates/check/src/command/survivors.rs has no reason.
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
    /// File for the table; the results lie beside it, as FILE with .json at its end. With --lock, --place or --missing the
    /// results of other mutants stay, as long as their lines do.
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Mutants that are tried at the same time.
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
}

/// The hidden command that tries mutants.
pub const WORKER: &str = "mutants-worker";
/// What counts: the locks' own source.
const SOURCES: &str = "crates/locks/src/";
/// Locks on which a mutant in shared source is tried.
const MOST_LOCKS: usize = 4;
/// No new scenario is tried on a mutant after this.
const PER_MUTANT: Duration = Duration::from_secs(90);
/// A scenario that does not answer for so long hangs: several times what [`Budget::MUTANT`] allows.
const HANGS: Duration = Duration::from_secs(45);
/// The search for places.
const SEARCH: Budget = Budget {
    preemptions: 2,
    executions: 100_000,
    weak_executions: 400,
    weak_executions_bounded: 400,
    weak_threads: 5,
    time: Duration::from_secs(3),
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

#[derive(Serialize, Deserialize)]
struct Order {
    mutant: Mutant,
    target: Target,
}

#[derive(Serialize, Deserialize)]
struct Answer {
    failure: Option<String>,
}

/// What became of a mutant.
#[derive(Serialize, Deserialize)]
struct Verdict {
    mutant: Mutant,
    /// The line.
    source: String,
    /// How it was caught: by which lock, machine, scenario; what it said.
    caught: Option<(String, String)>,
    /// Scenarios tried, and how many there were.
    tried: (usize, usize),
}

/// All results of one kind of source.
#[derive(Default, Serialize, Deserialize)]
struct Results {
    verdicts: Vec<Verdict>,
    /// Lines whose orders have no mutants.
    orders: Vec<(String, u32)>,
}

impl Results {
    /// Those in the file at `path`, without the mutants whose lines have changed since; none if there is no file.
    fn read(path: &Path) -> std::result::Result<Results, String> {
        let Ok(text) = std::fs::read_to_string(path) else { return Ok(Results::default()) };
        let mut results: Results = serde_json::from_str(&text)
            .map_err(|error| format!("{} holds no results of mutants: {error}", path.display()))?;
        results.verdicts.retain_mut(|Verdict { mutant: Mutant { place, .. }, source: known, .. }| {
            if source(&place.file, place.line) != *known {
                let lines = (1..).take_while(|line| *line <= length(&place.file));
                let mut same = lines.filter(|line| source(&place.file, *line) == *known);
                match (same.next(), same.next()) {
                    (Some(line), None) => place.line = line,
                    _ => return false,
                }
            }
            true
        });
        Ok(results)
    }

    /// One mutant on a line, so that a difference can be read.
    fn text(&self) -> String {
        let json = |verdict| serde_json::to_string(verdict).expect("strings and numbers");
        let lines: Vec<_> = self.verdicts.iter().map(json).collect();
        let orders: Vec<_> = self.orders.iter().map(|order| serde_json::to_string(order).expect("as above")).collect();
        format!("{{\"verdicts\":[\n{}\n],\"orders\":[\n{}\n]}}\n", lines.join(",\n"), orders.join(",\n"))
    }
}

pub fn run(args: MutantsArgs) -> Outcome {
    let subjects = super::wanted(&args.locks)?;
    let start = Instant::now();
    let beside = args.write.as_ref().map(|path| path.with_extension("json"));
    let is_part = !args.locks.is_empty() || args.place.is_some() || args.missing;
    let mut known = match &beside {
        Some(path) if is_part => Results::read(path)?,
        _ => Results::default(),
    };
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
                    let verdict = try_mutant(&subjects, mutant, &targets, &mut worker);
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
    let unexplained = survivors().filter(|verdict| why(verdict).is_none()).count();
    println!(
        "{} mutants, {} survived, {unexplained} of them not explained",
        results.verdicts.len(),
        survivors().count()
    );
    if let (Some(path), Some(beside)) = (&args.write, &beside) {
        super::write(beside, &results.text())?;
        super::write(path, &table(&results.verdicts, &results.orders, &subjects::all()))?;
    }
    eprintln!("{:.0} s", start.elapsed().as_secs_f64());
    Ok(if unexplained == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
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

fn attempt(subject: &Subject, engine: Engine, scenario: usize, budget: Budget) -> runner::Checked {
    match engine {
        Engine::Explore => runner::explore(subject, &subject.explore[scenario], budget),
        Engine::Loom => runner::weak(&subject.weak[scenario], budget),
    }
}

/// A process that tries mutants, because one may crash or hang.
struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
}

impl Worker {
    fn start() -> Worker {
        let program = std::env::current_exe().expect("Linux knows");
        let mut command = Command::new(program);
        command.arg(WORKER).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("this program can be started");
        let orders = child.stdin.take().expect("piped");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Worker { child, orders, answers }
    }

    /// What fails; a worker that crashed or hangs is gone.
    fn ask(mut self, order: &Order) -> (Option<Worker>, Option<String>) {
        let line = serde_json::to_string(order).expect("strings and numbers");
        let _ = writeln!(self.orders, "{line}").and_then(|()| self.orders.flush());
        match self.answers.recv_timeout(HANGS) {
            Ok(line) => {
                let answer: Answer = serde_json::from_str(&line).expect("a worker writes nothing else");
                (Some(self), answer.failure)
            }
            Err(RecvTimeoutError::Timeout) => {
                let _ = self.child.kill();
                let _ = self.child.wait();
                (None, Some(format!("hang: no answer for {} s", HANGS.as_secs())))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                (None, Some(format!("crash: {status}")))
            }
        }
    }

    fn end(self) {
        let Worker { mut child, orders, .. } = self;
        drop(orders);
        let _ = child.wait();
    }
}

/// The worker's side.
pub fn work() -> Outcome {
    let subjects: Vec<Subject> = subjects::all();
    // Whether the lock as it is makes executions that are too long: then one of the mutant's says nothing.
    let mut endless = HashMap::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let order: Order = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let target = &order.target;
        let check = || attempt(&subjects[target.subject], target.engine, target.scenario, Budget::MUTANT);
        mutation::set(Some(order.mutant));
        let checked = check();
        mutation::set(None);
        let failure =
            checked.failure.map(|text| text.split("; to see the steps").next().unwrap_or_default().to_owned());
        let failure = failure.or_else(|| {
            let key = (target.subject, target.engine, target.scenario);
            let ends = checked.endless && !*endless.entry(key).or_insert_with(|| check().endless);
            ends.then(|| "an execution does not end".to_owned())
        });
        println!("{}", serde_json::to_string(&Answer { failure }).map_err(|error| error.to_string())?);
    }
    Ok(ExitCode::SUCCESS)
}

/// Tries the scenarios until one fails.
fn try_mutant(subjects: &[Subject], mutant: Mutant, targets: &[Target], worker: &mut Option<Worker>) -> Verdict {
    let everyone: HashMap<_, _> =
        subjects::all().iter().enumerate().map(|(index, subject)| (subject.name(), index)).collect();
    let start = Instant::now();
    let relevant: Vec<_> = targets
        .iter()
        // Orders mean nothing to the explorer.
        .filter(|target| target.engine == Engine::Loom || matches!(mutant.change, Change::Skip(_)))
        .collect();
    let mut tried = 0;
    for target in &relevant {
        if start.elapsed() > PER_MUTANT {
            break;
        }
        tried += 1;
        let subject = &subjects[target.subject];
        let there = Target { subject: everyone[&subject.name()], ..(*target).clone() };
        let order = Order { mutant: mutant.clone(), target: there };
        let (alive, failure) = worker.take().unwrap_or_else(Worker::start).ask(&order);
        *worker = alive;
        if let Some(failure) = failure {
            let scenario = match target.engine {
                Engine::Explore => subject.explore[target.scenario].name,
                Engine::Loom => subject.weak[target.scenario].name,
            };
            let by = format!("{}, {}, {scenario}", subject.name(), target.engine);
            let source = source(&mutant.place.file, mutant.place.line);
            return Verdict { mutant, source, caught: Some((by, failure)), tried: (tried, relevant.len()) };
        }
    }
    let source = source(&mutant.place.file, mutant.place.line);
    Verdict { mutant, source, caught: None, tried: (tried, relevant.len()) }
}

/// The lines of a file.
fn lines<R>(file: &str, f: impl FnOnce(&[String]) -> R) -> R {
    thread_local! {
        static FILES: std::cell::RefCell<HashMap<String, Vec<String>>> = std::cell::RefCell::default();
    }
    FILES.with_borrow_mut(|files| {
        let lines = files.entry(file.to_owned()).or_insert_with(|| {
            let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
            let text = std::fs::read_to_string(format!("{root}{file}")).unwrap_or_default();
            text.lines().map(|line| line.trim().to_owned()).collect()
        });
        f(lines)
    })
}

/// The line of the source at a place.
fn source(file: &str, line: u32) -> String {
    lines(file, |lines| lines.get(line as usize - 1).cloned().unwrap_or_default())
}

/// How many lines a file has.
fn length(file: &str) -> u32 {
    lines(file, |lines| lines.len() as u32)
}

fn why(verdict: &Verdict) -> Option<&'static str> {
    let Mutant { place, change } = &verdict.mutant;
    survivors::why(&place.file, &verdict.source, *change)
}

fn line(verdict: &Verdict) -> String {
    let Mutant { place, change } = &verdict.mutant;
    let source = source(&place.file, place.line);
    match &verdict.caught {
        Some((by, failure)) => {
            let failure = failure.lines().next().unwrap_or_default();
            format!("caught   {place} {change}: {source}\n         by {by}: {failure}")
        }
        None => {
            let (tried, all) = verdict.tried;
            format!(
                "SURVIVED {place} {change}: {source}\n         {tried} of {all} scenarios; {}",
                why(verdict).unwrap_or("not explained")
            )
        }
    }
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

fn cell(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut short: String = line.chars().take(110).collect();
    if short.len() < line.len() {
        short += " ...";
    }
    short.replace('|', "\\|")
}

/// The table that is published.
fn table(verdicts: &[Verdict], unseen: &[(String, u32)], subjects: &[Subject]) -> String {
    let mut text = String::from(
        "# Mutants\n\n\
         Made by `cargo run --profile prove -p lockswap-check -- mutants --jobs 2 --write docs/mutants.md`; do not edit.\n\n\
         Each line is the source of a lock with one thing changed: an access without Acquire or without Release, a spin \
         that does not wait, a wake-up that is left out. It is *caught* if a check of a lock that passes this place fails, \
         crashes or does not end. [proof.md](proof.md) says how, and what that means.\n\n",
    );
    let survivors: Vec<_> = verdicts.iter().filter(|verdict| verdict.caught.is_none()).collect();
    let explained = survivors.iter().filter(|verdict| why(verdict).is_some()).count();
    let _ = writeln!(
        text,
        "Budget: {} s for each mutant, on at most {MOST_LOCKS} locks that pass the place; a scenario that does not answer \
         for {} s hangs.\n\n\
         **{} mutants, {} caught, {} survived: {explained} explained, {} not explained.**\n",
        PER_MUTANT.as_secs(),
        HANGS.as_secs(),
        verdicts.len(),
        verdicts.len() - survivors.len(),
        survivors.len(),
        survivors.len() - explained
    );
    text += "## Survivors\n\n| place | change | source | scenarios tried | why |\n|---|---|---|---|---|\n";
    for verdict in survivors {
        let Mutant { place, change } = &verdict.mutant;
        let (tried, all) = verdict.tried;
        let _ = writeln!(
            text,
            "| {}:{} | {change} | `{}` | {tried} of {all} | {} |",
            place.file.trim_start_matches(SOURCES),
            place.line,
            cell(&source(&place.file, place.line)),
            why(verdict).unwrap_or("not explained")
        );
    }
    text +=
        "\n## Orders without mutants\n\nNo scenario passes these lines under loom within the time of the search.\n\n";
    for (file, line) in unseen {
        let _ = writeln!(text, "- {}:{line} `{}`", file.trim_start_matches(SOURCES), cell(&source(file, *line)));
    }
    let large: BTreeSet<_> = subjects.iter().filter(|subject| subject.weak.is_empty()).map(Subject::name).collect();
    let large: Vec<_> = large.into_iter().collect();
    let _ = writeln!(text, "\nToo large for loom as they are: {}.\n\n## Caught", large.join(", "));
    let mut file = "";
    for verdict in verdicts {
        let Mutant { place, change } = &verdict.mutant;
        let Some((by, failure)) = &verdict.caught else { continue };
        if file != place.file {
            file = &place.file;
            let _ = writeln!(
                text,
                "\n### {}\n\n| line | change | source | caught by | what it said |\n|---|---|---|---|---|",
                file.trim_start_matches(SOURCES)
            );
        }
        let _ = writeln!(
            text,
            "| {} | {change} | `{}` | {by} | {} |",
            place.line,
            cell(&source(file, place.line)),
            cell(failure)
        );
    }
    text
}
