//! `lockswap bench`: what the pthread functions cost on each lock, next to glibc's, in one interleaved run.
//!
//! Each number comes from a fresh process of this very program (`--measure-here`), started on one lock after the other,
//! round by round, so that a change of the machine's state hits all locks alike. A ratio is the median over the rounds
//! of the lock's number divided by glibc's number of the same round.

mod direct;
mod oversub;

use crate::error::{UserError, USAGE};
use crate::selection::{self, Selection, INTERPOSED, PLAIN as PTHREAD};
use crate::terminal;
use anyhow::Context;
use lockswap_locks::registry::{self, Role};
use lockswap_study::export::OutputFile;
use lockswap_study::machine::Machine;
use lockswap_workloads::micro::{self, id, Effort, Group, Measurement, Unit, MEASUREMENTS};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Far more than a measurement takes: a process still running then hangs.
const TIME_LIMIT: Duration = Duration::from_secs(30);

/// Arguments of `lockswap bench`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  lockswap bench
  lockswap bench contended --lock futex,mcs_stp --rounds 21
  lockswap bench oversub --threads 32
  lockswap bench direct --export-json direct.json")]
pub struct BenchArgs {
    /// Part to measure; if left out, the first two
    #[arg(value_enum)]
    what: Option<What>,
    /// Mutex locks to measure, next to the baselines pthread and interposed-pthread
    #[arg(long, value_name = "ID", value_delimiter = ',', conflicts_with = "all")]
    lock: Vec<String>,
    /// Measure every mutex lock (the default)
    #[arg(long)]
    all: bool,
    /// Rounds; each starts one process per lock, for about half a second, or over a second with oversub [default: 7]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: Option<u32>,
    /// Competing threads, with oversub [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    threads: Option<u32>,
    /// Write all samples to this file, after every round
    #[arg(long, value_name = "FILE")]
    export_json: Option<PathBuf>,
    /// Measure in this process and print one line of JSON
    #[arg(long, hide = true)]
    measure_here: bool,
    /// Measure this lock through the Rust API
    #[arg(long, hide = true, requires = "measure_here")]
    directly: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// One thread: lock and unlock of each kind of object, memory per mutex
    Uncontended,
    /// Two threads: competing for a mutex, waking each other
    Contended,
    /// More threads than CPUs on one mutex: speed, and the longest wait
    Oversub,
    /// The pthread functions on a lock next to the same lock called directly: the price of interposition
    Direct,
}

impl What {
    const fn name(self) -> &'static str {
        match self {
            What::Uncontended => "uncontended",
            What::Contended => "contended",
            What::Oversub => "oversub",
            What::Direct => "direct",
        }
    }
}

fn groups(what: Option<What>) -> &'static [Group] {
    match what {
        None => &[Group::Uncontended, Group::Contended],
        Some(What::Uncontended) => &[Group::Uncontended],
        Some(What::Contended) => &[Group::Contended],
        Some(What::Oversub | What::Direct) => &[],
    }
}

/// Runs `lockswap bench`.
pub fn run(args: BenchArgs) -> anyhow::Result<ExitCode> {
    if args.threads.is_some() && args.what != Some(What::Oversub) {
        let remedy = "write `lockswap bench oversub --threads N`";
        return Err(UserError::new("--threads is for oversub only", remedy).with_status(USAGE).into());
    }
    if args.measure_here {
        return measure_here(&args);
    }
    let locks = selection(&args.lock)?;
    let mut results = match args.what {
        Some(What::Direct) => direct::results(locks),
        _ => locks.into_iter().map(LockResult::new).collect(),
    };
    let file = match &args.export_json {
        Some(path) => Some(OutputFile::prepare(path).with_context(|| format!("cannot write {}", path.display()))?),
        None => None,
    };
    // A library that cannot be unpacked ends the run here, with its remedy, rather than once per lock.
    environment(INTERPOSED)?;
    let rounds = args.rounds.unwrap_or(7);
    let progress = indicatif::ProgressBar::new(u64::from(rounds) * results.len() as u64);
    for _ in 0..rounds {
        for result in &mut results {
            if result.failure.is_none() {
                match measure_in_child(result, &args) {
                    Ok(numbers) => result.rounds.push(numbers),
                    Err(failure) => result.failure = Some(format!("{failure:#}")),
                }
            }
            progress.inc(1);
        }
        if let Some(file) = file.as_ref().filter(|file| !file.is_stream()) {
            export(file, &results, &args)?;
        }
    }
    if let Some(file) = file.filter(OutputFile::is_stream) {
        export(&file, &results, &args)?;
    }
    progress.finish_and_clear();
    let text = match args.what {
        Some(What::Oversub) => oversub::render(&results, &args),
        Some(What::Direct) => direct::render(&results),
        what => render(&results, groups(what)),
    };
    terminal::print(&(text + &failures(&results)))?;
    let failed = results.iter().any(|result| result.failure.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The locks to measure: the two baselines, then `wanted`, or every mutex lock if that is empty.
fn selection(wanted: &[String]) -> anyhow::Result<Vec<String>> {
    wanted.iter().try_for_each(|lock| selection::known(Role::Mutex, lock))?;
    let mut locks = vec![PTHREAD.to_owned(), INTERPOSED.to_owned()];
    let chosen: Vec<&str> = if wanted.is_empty() {
        registry::ids(Role::Mutex).collect()
    } else {
        wanted.iter().map(String::as_str).collect()
    };
    for lock in chosen {
        if !locks.iter().any(|present| present == lock) {
            locks.push(lock.to_owned());
        }
    }
    Ok(locks)
}

/// The numbers of one process, by measurement id.
type Numbers = BTreeMap<String, f64>;

struct LockResult {
    lock: String,
    /// Called through the Rust API, nothing preloaded.
    directly: bool,
    rounds: Vec<Numbers>,
    failure: Option<String>,
}

impl LockResult {
    fn new(lock: String) -> Self {
        Self { lock, directly: false, rounds: Vec::new(), failure: None }
    }
}

fn measure_here(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    let numbers: BTreeMap<_, _> = match args.what {
        Some(What::Oversub) => oversub::measure(args).into(),
        Some(What::Direct) => direct::measure(args)?.into(),
        what => {
            // The last CPU: the first one serves most interrupts.
            if let Some(&cpu) = lockswap_workloads::affinity::allowed().last() {
                let pinned = lockswap_workloads::affinity::pin(&[cpu]);
                pinned.with_context(|| format!("cannot pin to CPU {cpu}"))?;
            }
            micro::measure(groups(what), &Effort::default()).into_iter().collect()
        }
    };
    terminal::print(&format!("{}\n", serde_json::to_string(&numbers)?))?;
    Ok(ExitCode::SUCCESS)
}

/// The environment that puts the measuring process on `lock`; the interposed baseline leaves all objects to glibc.
fn environment(lock: &str) -> Result<Vec<(OsString, Option<OsString>)>, UserError> {
    let others = (lock == INTERPOSED).then(|| PTHREAD.to_owned());
    Selection { lock: Some(lock.to_owned()), rwlock: others.clone(), spin: others }.environment()
}

fn measure_in_child(result: &LockResult, args: &BenchArgs) -> anyhow::Result<Numbers> {
    let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
    command.arg("bench").args(args.what.map(What::name)).arg("--measure-here");
    command.args(args.threads.map(|threads| format!("--threads={threads}")));
    command.args(result.directly.then(|| format!("--directly={}", result.lock)));
    if args.what == Some(What::Direct) {
        command.env_remove("LOCKSWAP_TOPOLOGY"); // only the preload library reads it
    }
    let lock = if result.directly { PTHREAD } else { &result.lock };
    command.env("RUST_BACKTRACE", "0"); // the message alone is reported
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for (name, value) in environment(lock)? {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let child = command.spawn().context("cannot start the measuring process")?;

    let process = rustix::process::Pid::from_child(&child);
    let (done, outcome) = mpsc::channel();
    let waiter = std::thread::spawn(move || done.send(child.wait_with_output()));
    let output = match outcome.recv_timeout(TIME_LIMIT) {
        Ok(output) => output.context("cannot read the measuring process"),
        Err(_) => {
            // Ends the waiter too; an error means that the process ended by itself just now.
            let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            Err(anyhow::anyhow!("still running after {} s, stopped", TIME_LIMIT.as_secs()))
        }
    };
    // The waiter's send fails only after a time-out, which is reported already.
    let _ = waiter.join();
    let output = output?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let said = |line: &&str| !line.trim().is_empty() && !line.starts_with("note: run with");
        let last = errors.lines().rfind(said).unwrap_or("no message");
        anyhow::bail!("{}: {last}", output.status);
    }
    serde_json::from_slice(&output.stdout).context("the measuring process printed something else than its numbers")
}

fn export(file: &OutputFile, results: &[LockResult], args: &BenchArgs) -> anyhow::Result<()> {
    let locks: Vec<_> = results
        .iter()
        .map(|LockResult { lock, directly, rounds, failure }| {
            serde_json::json!({"id": lock, "directly": directly, "rounds": rounds, "failure": failure})
        })
        .collect();
    let measurements: Vec<_> = match args.what {
        Some(What::Oversub) => oversub::MEASUREMENTS.to_vec(),
        Some(What::Direct) => direct::MEASUREMENTS.to_vec(),
        _ => MEASUREMENTS.iter().map(|measurement| (measurement.id, unit_name(measurement.unit))).collect(),
    };
    let measurements: Vec<_> =
        measurements.into_iter().map(|(id, unit)| serde_json::json!({"id": id, "unit": unit})).collect();
    let document = serde_json::json!({
        "schema": 1,
        "tool": concat!("lockswap ", env!("CARGO_PKG_VERSION")),
        "machine": Machine::here(),
        "part": args.what.map(What::name),
        "baseline": PTHREAD,
        "measurements": measurements,
        "locks": locks,
    });
    let written = file.replace(&serde_json::to_vec_pretty(&document)?);
    written.with_context(|| format!("cannot write {}", file.path().display()))
}

const fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "ns",
        Unit::Bytes => "bytes",
        Unit::Share => "share",
    }
}

/// The median and the quartiles of a list that is not empty.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Quartiles {
    lower: f64,
    median: f64,
    upper: f64,
}

impl Quartiles {
    fn of(mut numbers: Vec<f64>) -> Option<Self> {
        numbers.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = share * (numbers.len().checked_sub(1)?) as f64;
            let (low, high) = (numbers[place.floor() as usize], numbers[place.ceil() as usize]);
            Some(low + (high - low) * place.fract())
        };
        Some(Self { lower: at(0.25)?, median: at(0.5)?, upper: at(0.75)? })
    }

    /// Half the distance between the quartiles.
    fn spread(&self) -> f64 {
        (self.upper - self.lower) / 2.0
    }
}

fn numbers_of(result: &LockResult, id: &str) -> Option<Quartiles> {
    Quartiles::of(result.rounds.iter().filter_map(|round| round.get(id).copied()).collect())
}

/// `result`'s number divided by `baseline`'s `base_id`, round by round.
fn ratio_to(result: &LockResult, id: &str, baseline: &LockResult, base_id: &str) -> Option<Quartiles> {
    let pairs = result.rounds.iter().zip(&baseline.rounds);
    Quartiles::of(pairs.filter_map(|(own, base)| Some(own.get(id)? / base.get(base_id)?)).collect())
}

/// The highest ratio to glibc (for bytes: the highest number) that the project set itself as a target.
fn target(lock: &str, id: &str) -> Option<f64> {
    let replaced = !registry::is_glibcs(lock);
    match id {
        id::EXTRA_BYTES if replaced => {
            let entry = registry::find(Role::Mutex, lock)?;
            (entry.extra_bytes_per_lock == 0).then_some(0.0)
        }
        id::PROCESS_SHARED if lock != PTHREAD => Some(1.10),
        id::UNCONTENDED if lock == INTERPOSED => Some(1.10),
        id::UNCONTENDED if replaced => match lock {
            "ttas" | "ticket" => Some(0.50),
            "futex" | "mcs_spin" | "mcs_stp" | "k42" | "clh_spin" | "cna" | "shfllock" | "shfllock-b" => Some(0.90),
            _ => None,
        },
        id::SINGLE_THREADED | id::RECURSIVE | id::ERROR_CHECK if replaced => Some(1.00),
        id::HANDOFF_ONE_CPU | id::HANDOFF_TWO_CPUS if replaced => Some(1.00),
        _ => None,
    }
}

/// How a number stands to its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Met,
    /// The target lies between the quartiles.
    Close,
    /// Missed, and two empty calls into a library already take longer than the target allows.
    OutOfReach,
    Missed,
}

impl Mark {
    fn new(ratio: Quartiles, target: f64, floor: Option<f64>) -> Self {
        // Two decimals are shown, so 1.004 counts as the 1.00 that the reader sees.
        if ratio.median < target + 0.005 {
            Mark::Met
        } else if ratio.lower < target + 0.005 {
            Mark::Close
        } else if floor.is_some_and(|floor| floor > target) {
            Mark::OutOfReach
        } else {
            Mark::Missed
        }
    }

    const fn symbol(self) -> &'static str {
        match self {
            Mark::Met => "ok",
            Mark::Close => "~",
            Mark::OutOfReach => "floor",
            Mark::Missed => "MISS",
        }
    }
}

fn mark(result: &LockResult, baseline: &LockResult, measurement: &Measurement) -> Option<Mark> {
    let target = target(&result.lock, measurement.id)?;
    let two_calls = measurement.unit == Unit::Nanoseconds && measurement.group == Group::Uncontended;
    match measurement.unit {
        Unit::Bytes => Some(Mark::new(numbers_of(result, measurement.id)?, target, None)),
        _ => {
            let floor = two_calls.then(|| ratio_to(baseline, id::CALLS, baseline, measurement.id)).flatten();
            let ratio = ratio_to(result, measurement.id, baseline, measurement.id)?;
            Some(Mark::new(ratio, target, floor.map(|floor| floor.median)))
        }
    }
}

fn show(number: f64, unit: Unit) -> String {
    match unit {
        Unit::Nanoseconds if number >= 999_500.0 => format!("{:.1} ms", number / 1e6),
        Unit::Nanoseconds if number >= 999.5 => format!("{:.1} us", number / 1e3),
        Unit::Nanoseconds if number >= 99.95 => format!("{number:.0} ns"),
        Unit::Nanoseconds if number >= 9.995 => format!("{number:.1} ns"),
        Unit::Nanoseconds => format!("{number:.2} ns"),
        Unit::Bytes => format!("{number:.1} B"),
        Unit::Share => format!("{:.0} %", number * 100.0),
    }
}

fn cell(result: &LockResult, baseline: &LockResult, measurement: &Measurement) -> String {
    let Some(numbers) = numbers_of(result, measurement.id) else {
        return "-".into();
    };
    let mut text = show(numbers.median, measurement.unit);
    match measurement.unit {
        Unit::Nanoseconds if result.lock == PTHREAD => {
            let _ = write!(text, "\n±{:.0} %", 100.0 * numbers.spread() / numbers.median);
        }
        Unit::Nanoseconds => {
            if let Some(ratio) = ratio_to(result, measurement.id, baseline, measurement.id) {
                let digits = if ratio.median < 10.0 { 2 } else { 0 };
                let _ = write!(text, "\n{:.digits$} ±{:.digits$}", ratio.median, ratio.spread());
            }
        }
        Unit::Share => {
            let _ = write!(text, "\n±{:.0} %", 100.0 * numbers.spread());
        }
        Unit::Bytes => {}
    }
    if let Some(mark) = mark(result, baseline, measurement) {
        let _ = write!(text, " {}", mark.symbol());
    }
    text
}

/// Columns per table: this fits 120 characters.
const COLUMNS: usize = 6;

fn render(results: &[LockResult], groups: &[Group]) -> String {
    let mut text = format!("{}\n\n", Machine::here().words());
    let Some(baseline) = results.iter().find(|result| result.lock == PTHREAD && !result.rounds.is_empty()) else {
        return text;
    };
    let columns: Vec<&Measurement> = MEASUREMENTS
        .iter()
        .filter(|measurement| groups.contains(&measurement.group))
        .filter(|measurement| ![id::BARE, id::CALLS].contains(&measurement.id))
        .collect();
    for columns in columns.chunks(COLUMNS) {
        let titles = columns.iter().map(|measurement| measurement.title);
        let headings: Vec<&str> = std::iter::once("lock").chain(titles).collect();
        let numeric: Vec<usize> = (1..headings.len()).collect();
        let mut table = terminal::table(&headings, &numeric);
        for result in results.iter().filter(|result| !result.rounds.is_empty()) {
            let cells = columns.iter().map(|measurement| cell(result, baseline, measurement));
            table.add_row(std::iter::once(result.lock.clone()).chain(cells));
        }
        text += &terminal::lines(&table);
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "First line: median of {} rounds. Second line: ratio to {PTHREAD} in the same round, ± half the distance\n\
         between the quartiles. ok: target met. ~: target within the quartiles. floor: two empty calls alone exceed\n\
         the target. MISS: missed.",
        baseline.rounds.len()
    );
    text.push_str(&limits(results, baseline).unwrap_or_default());
    let marks: Vec<(&str, &str, Mark)> = results
        .iter()
        .flat_map(|result| columns.iter().map(move |measurement| (result, *measurement)))
        .filter_map(|(result, measurement)| {
            Some((&*result.lock, measurement.title, mark(result, baseline, measurement)?))
        })
        .collect();
    let count = |wanted| marks.iter().filter(|(_, _, mark)| *mark == wanted).count();
    let _ = writeln!(
        text,
        "Targets: {} met, {} within the quartiles, {} below the cost of the calls, {} missed.",
        count(Mark::Met),
        count(Mark::Close),
        count(Mark::OutOfReach),
        count(Mark::Missed)
    );
    text
}

/// One line per lock that could not be measured to the end.
fn failures(results: &[LockResult]) -> String {
    let mut text = String::new();
    for LockResult { lock, directly, rounds, failure } in results {
        if let Some(failure) = failure {
            let how = if *directly { ", called directly," } else { "" };
            let _ = writeln!(text, "{lock}{how} failed after {} rounds: {failure}", rounds.len());
        }
    }
    text
}

/// Where the time of an uncontended pair goes, and what the noise of this run was.
fn limits(results: &[LockResult], baseline: &LockResult) -> Option<String> {
    let glibc = numbers_of(baseline, id::UNCONTENDED)?.median;
    // Neither depends on the lock, so every process of the run counts.
    let of_all = |id: &str| {
        Quartiles::of(results.iter().flat_map(|result| &result.rounds).filter_map(|r| r.get(id).copied()).collect())
    };
    let (bare, calls) = (of_all(id::BARE)?, of_all(id::CALLS)?);
    Some(format!(
        "Limits: an inlined compare-exchange and store {:.2} ns ({:.2} of {PTHREAD}), two empty calls into a\n\
         library {:.2} ns ({:.2}).\n\
         Noise: the compare-exchange pair, the same code for every lock, varied by ±{:.0} %.\n",
        bare.median,
        bare.median / glibc,
        calls.median,
        calls.median / glibc,
        100.0 * bare.spread() / bare.median,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arguments that a command line gives.
    pub fn parse(words: &[&str]) -> BenchArgs {
        #[derive(clap::Parser)]
        struct Command {
            #[command(flatten)]
            args: BenchArgs,
        }
        let parsed: Result<Command, _> = clap::Parser::try_parse_from([&["bench"], words].concat());
        parsed.unwrap_or_else(|error| panic!("{error}")).args
    }

    /// A lock with its numbers, round by round.
    pub fn result(lock: &str, rounds: &[&[(&str, f64)]]) -> LockResult {
        let rounds = rounds.iter().map(|round| round.iter().map(|&(id, n)| (id.to_owned(), n)).collect()).collect();
        LockResult { rounds, ..LockResult::new(lock.into()) }
    }

    #[test]
    fn quartiles_interpolate() {
        assert_eq!(Quartiles::of(vec![]), None);
        assert_eq!(Quartiles::of(vec![3.0]), Some(Quartiles { lower: 3.0, median: 3.0, upper: 3.0 }));
        let five = Quartiles::of(vec![5.0, 1.0, 2.0, 4.0, 3.0]).unwrap();
        assert_eq!(five, Quartiles { lower: 2.0, median: 3.0, upper: 4.0 });
        assert_eq!(Quartiles::of(vec![1.0, 2.0]).unwrap().median, 1.5);
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
    fn marks_tell_a_miss_from_what_no_lock_can_reach() {
        let at = |n| Quartiles { lower: n - 0.05, median: n, upper: n + 0.05 };
        assert_eq!(Mark::new(at(0.49), 0.50, Some(0.79)), Mark::Met);
        assert_eq!(Mark::new(at(0.54), 0.50, Some(0.79)), Mark::Close);
        assert_eq!(Mark::new(at(0.82), 0.50, Some(0.79)), Mark::OutOfReach);
        assert_eq!(Mark::new(at(0.99), 0.90, Some(0.79)), Mark::Missed);
        assert_eq!(Mark::new(at(0.99), 0.90, None), Mark::Missed);
    }

    #[test]
    fn targets_are_those_of_the_issue() {
        assert_eq!(target("ttas", id::UNCONTENDED), Some(0.50));
        assert_eq!(target("mcs_stp", id::UNCONTENDED), Some(0.90));
        assert_eq!(target(INTERPOSED, id::PROCESS_SHARED), Some(1.10));
        assert_eq!(target("cna", id::SINGLE_THREADED), Some(1.00));
        assert!(MEASUREMENTS.iter().all(|measurement| target(PTHREAD, measurement.id).is_none()));
    }

    #[test]
    fn the_baselines_are_always_measured_and_unknown_locks_are_named() {
        let wanted = ["ticket".to_owned(), PTHREAD.to_owned()];
        assert_eq!(selection(&wanted).unwrap(), [PTHREAD, INTERPOSED, "ticket"]);
        assert!(selection(&[]).unwrap().len() > 6);
        let error = selection(&["nonsense".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("nonsense"), "{error}");
    }

    #[test]
    fn the_table_shows_ratio_mark_and_failures() {
        let round: &[(&str, f64)] = &[(id::UNCONTENDED, 10.0), (id::BARE, 2.0), (id::CALLS, 3.0)];
        let own: &[(&str, f64)] = &[(id::UNCONTENDED, 4.0), (id::BARE, 2.0), (id::CALLS, 3.0)];
        let mut broken = LockResult::new("cna".into());
        broken.failure = Some("signal: 6".into());
        let results = [result(PTHREAD, &[round]), result("ttas", &[own]), broken];
        let text = render(&results, &[Group::Uncontended]) + &failures(&results);
        assert!(text.contains("0.40 ±0.00 ok"), "{text}");
        assert!(text.contains("1 met"), "{text}");
        assert!(text.contains("(0.20 of pthread)") && text.contains("3.00 ns (0.30)"), "{text}");
        assert!(text.contains("cna failed after 0 rounds: signal: 6"), "{text}");
        assert!(!text.contains("cond 2 CPUs"), "{text}");
    }
}
