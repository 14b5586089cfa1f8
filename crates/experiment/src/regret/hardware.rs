//! Regret on this machine: a series in which each cell is a group of its own.

use super::cells::{Cell, Cells, Kind};
use super::finding::{Finding, Round, Runs};
use crate::hardware::series::{Group, Measured, Point, Series};
use lockswap_locks::registry::Role;
use lockswap_platform::Ns;
use lockswap_study::runner::find_in_path;
use lockswap_workloads::hardware::become_realtime;
use lockswap_workloads::report::Report;
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

/// What starting a measuring process takes, ns, about.
const STARTING: Ns = 25_000_000;

/// Those cells that can be measured here, and the others with what is missing.
pub fn possible(cells: Vec<Cell>) -> (Vec<Cell>, Vec<(Cell, String)>) {
    // In a thread of its own, so that this one stays an ordinary one.
    let may_be_realtime = std::thread::spawn(become_realtime).join().is_ok_and(|done| done.is_ok());
    let missing = |cell: &Cell| match &cell.kind {
        Kind::Workload(_, realtime) if *realtime > 0 && !may_be_realtime => {
            Some("SCHED_FIFO takes a privilege that this process has not".to_owned())
        }
        Kind::Program(real) => {
            let absent = real.needs.iter().find(|name| find_in_path(OsStr::new(name)).is_none());
            absent.map(|name| format!("{name} is not installed"))
        }
        _ => None,
    };
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    for cell in cells {
        match missing(&cell) {
            Some(why) => skipped.push((cell, why)),
            None => found.push(cell),
        }
    }
    (found, skipped)
}

/// Makes in `dir` what the program of a cell needs, without the preload library.
///
/// # Errors
/// Why it cannot be made.
pub fn prepare(cell: &Cell, dir: &Path) -> Result<(), String> {
    let Kind::Program(real) = &cell.kind else { return Ok(()) };
    let Some(script) = &real.prepare else { return Ok(()) };
    let mut command = Command::new("/bin/sh");
    command.args(["-e", "-c", &script.replace("{dir}", &dir.to_string_lossy())]).current_dir(dir);
    command.env_remove("LD_PRELOAD").stdin(Stdio::null());
    let ended = command.output().map_err(|error| format!("cannot prepare it: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(format!("cannot prepare it: {}: {last}", ended.status))
}

/// The locks to run: the subject, then the candidates. If it is one of them, it is measured twice, so that its ratio
/// where it is the best shows what noise does.
pub fn locks(subject: &str, cells: &Cells) -> Vec<String> {
    std::iter::once(subject.to_owned()).chain(cells.candidates.iter().cloned()).collect()
}

/// What is to be measured: all locks in each cell, where `dir` says in which folder a cell's program has its files.
pub fn series(
    cells: &[Cell],
    locks: &[String],
    duration: Option<Ns>,
    seed: u64,
    dir: impl Fn(&Cell) -> String,
) -> Series<Report> {
    let group = |cell: &Cell| {
        let work = cell.work(duration, &dir(cell));
        let points = locks.iter().map(|lock| Point::new(lock, Role::Mutex, work.clone()));
        Group { setting: vec![("cell".to_owned(), cell.id.clone())], ..Group::of(points).alone() }
    };
    Series::new(cells.iter().map(group).collect(), seed, Vec::new())
}

/// How long so many rounds take, ns, about.
pub fn estimate(cells: &[Cell], locks: usize, rounds: u32, duration: Option<Ns>) -> Ns {
    let all: Ns = cells.iter().map(|cell| cell.takes(duration) + STARTING).sum();
    all * locks as Ns * Ns::from(rounds)
}

/// What the rounds so far say. The first lock of each group is the subject, the others are the candidates.
pub fn findings(series: &Series<Report>, cells: &[Cell], fairness_factor: f64) -> Vec<Finding> {
    let of = |(group, cell): (&Group<Report>, &Cell)| {
        let runs = |measured: &Measured<Report>| {
            let rounds = measured.rounds.iter().map(|report| Some(Round::of(report))).collect();
            Runs { lock: measured.point.lock.clone(), rounds, failure: measured.failure.clone() }
        };
        let (subject, candidates) = group.measured.split_first()?;
        Some(Finding::of(cell.clone(), runs(subject), candidates.iter().map(runs).collect(), fairness_factor))
    };
    series.groups.iter().zip(cells).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::job::Work;

    const CELLS: &str = r#"
candidates = ["futex", "ttas"]
fairness_factor = 0.8
rounds = 4
targets = { worst = 0.8, mean = 0.95 }
[[body]]
name = "short"
workload = "counter"
threads = [2]
duration = "1ms"
[[body]]
name = "absent"
program = "no-such-program-anywhere --threads={threads}"
threads = [4]
duration = "1s"
[[body]]
name = "made"
program = "cat {dir}/file"
prepare = "echo 7 > {dir}/file"
threads = [1]
duration = "1s"
[[body]]
name = "broken"
program = "cat {dir}/file"
prepare = "echo it is broken >&2; false; true"
threads = [1]
duration = "1s"
[held_out]
seed = 1
cells = []
"#;

    #[test]
    fn what_is_not_installed_is_skipped_by_name() {
        let cells = Cells::read("a.toml", CELLS).expect("cells").cells;
        let (found, skipped) = possible(cells);
        assert_eq!(found.iter().map(|cell| cell.id.as_str()).collect::<Vec<_>>(), ["short/2", "made/1", "broken/1"]);
        let skipped: Vec<_> = skipped.iter().map(|(cell, why)| (cell.id.as_str(), why.as_str())).collect();
        assert_eq!(skipped, [("absent/4", "no-such-program-anywhere is not installed")]);
    }

    #[test]
    fn a_program_finds_what_was_prepared() {
        let cells = Cells::read("a.toml", CELLS).expect("cells").cells;
        let dir = std::env::temp_dir().join(format!("lockswap-regret-{}", std::process::id()));
        std::fs::create_dir(&dir).expect("a folder");
        assert_eq!(prepare(&cells[2], &dir), Ok(()));
        let Work::Program(program) = cells[2].work(None, &dir.to_string_lossy()) else { panic!("a program") };
        assert!(program.run().is_ok_and(|report| report.throughput > 0.0));
        let error = prepare(&cells[3], &dir).expect_err("broken");
        assert!(error.ends_with("it is broken"), "a step that fails ends it: {error}");
        std::fs::remove_dir_all(&dir).expect("a folder");
    }

    #[test]
    fn the_rounds_of_a_cell_are_those_of_its_group() {
        let cells = &Cells::read("a.toml", CELLS).expect("cells").cells[..1];
        let locks = ["gcr", "futex", "ttas"].map(str::to_owned);
        let mut series = series(cells, &locks, Some(5), 1, |_| String::new());
        for (measured, throughput) in series.groups[0].measured.iter_mut().zip([30.0, 60.0, 90.0]) {
            let report = Report { throughput, duration_ns: 1, fairness_factor: 0.7, ..Report::default() };
            measured.rounds = vec![report; 4];
        }
        series.groups[0].measured[2].failure = Some("signal: 11".into());
        let found = findings(&series, cells, 0.8);
        assert_eq!(
            (found[0].best.as_ref().map(ToString::to_string), found[0].ratio()),
            (Ok("futex".into()), Some(0.5))
        );
        assert_eq!((found[0].subject.lock.as_str(), found[0].problems().len()), ("gcr", 1));
        assert_eq!(estimate(cells, 3, 4, Some(100)), 12 * (110 + STARTING));
    }

    #[test]
    fn a_subject_that_is_a_candidate_is_measured_twice() {
        let file = Cells::read("a.toml", CELLS).expect("cells");
        let locks = locks("ttas", &file);
        assert_eq!(locks, ["ttas", "futex", "ttas"]);
        let mut series = series(&file.cells[..1], &locks, Some(5), 1, |_| String::new());
        for (measured, throughput) in series.groups[0].measured.iter_mut().zip([80.0, 60.0, 100.0]) {
            let report = Report { throughput, duration_ns: 1, fairness_factor: 0.5, ..Report::default() };
            measured.rounds = vec![report; 4];
        }
        let found = findings(&series, &file.cells[..1], 0.8);
        assert_eq!((found[0].best.as_ref().map(ToString::to_string), found[0].ratio()), (Ok("ttas".into()), Some(0.8)));
    }
}
