//! How fast the simulated machine is on this one, and how fast it is meant to be.

use crate::results::Machine;
use lockswap_platform::Ns;
use lockswap_sim::{Failure, Job, Machine as Described, Workload};
use lockswap_study::descriptive::Quartiles;
use lockswap_study::page::{Page, Row, Table};
use lockswap_study::summary::Judgement;
use lockswap_workloads::invalid::Invalid;
use serde::Serialize;
use std::io;

/// Virtual time of each run: 20 ms after a warm-up of 2 ms.
const DURATION: Ns = 20_000_000;

/// What is meant to be reached.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// So many simulated memory operations per second of CPU time, in millions.
    MillionsPerCpuSecond(f64),
    /// At most so many seconds of CPU time.
    CpuSeconds(f64),
    /// To come to an end.
    Ends,
}

struct Case {
    machine: &'static str,
    workload: &'static str,
    threads: usize,
    locks: &'static [&'static str],
    target: Target,
}

const CASES: [Case; 4] = [
    Case {
        machine: "xeon-e5-2699v3",
        workload: "counter",
        threads: 72,
        locks: &["mcs_spin", "clh_spin", "k42", "cna"],
        target: Target::MillionsPerCpuSecond(10.0),
    },
    Case {
        machine: "xeon-e5-2699v3",
        workload: "counter",
        threads: 72,
        locks: &["ticket"],
        target: Target::MillionsPerCpuSecond(4.0),
    },
    Case {
        machine: "xeon-8s192c",
        workload: "counter",
        threads: 192,
        locks: &["mcs_spin", "cna"],
        target: Target::CpuSeconds(1.0),
    },
    Case { machine: "epyc-7742-2s", workload: "oversub", threads: 4095, locks: &["futex"], target: Target::Ends },
];

/// What the runs of one lock took.
#[derive(Clone, Debug, Serialize)]
pub struct Speed {
    /// The described machine.
    pub machine: &'static str,
    /// What its threads do.
    pub workload: &'static str,
    /// How many threads.
    pub threads: usize,
    /// The lock.
    pub lock: &'static str,
    /// What is meant to be reached.
    pub target: Target,
    /// Memory operations of a run, which is the same in each round.
    pub memory_operations: u64,
    /// Round by round.
    pub cpu_seconds: Vec<f64>,
}

/// Everything that is measured, without results.
pub fn speeds() -> Vec<Speed> {
    CASES.iter().flat_map(speeds_of).collect()
}

impl Speed {
    /// The median of the rounds, seconds; not a number without any.
    pub fn median_cpu_seconds(&self) -> f64 {
        Quartiles::of(self.cpu_seconds.clone()).map_or(f64::NAN, |of| of.median)
    }

    /// Simulated memory operations per second of CPU time, in millions.
    pub fn rate(&self) -> f64 {
        self.memory_operations as f64 / self.median_cpu_seconds() / 1e6
    }

    /// Whether the target is reached.
    pub fn is_reached(&self) -> bool {
        match self.target {
            Target::MillionsPerCpuSecond(least) => self.rate() >= least,
            Target::CpuSeconds(most) => self.median_cpu_seconds() <= most,
            Target::Ends => !self.cpu_seconds.is_empty(),
        }
    }

    /// Makes one run on this thread.
    ///
    /// # Errors
    /// The case names a machine or a workload that is not there.
    pub fn measure(&mut self) -> Result<Result<(), Failure>, Invalid> {
        let machine = Described::built_in(self.machine, &[])?;
        let workload = Workload::named(self.workload)?.with(self.threads, DURATION);
        let job = Job { machine: &machine, workload, lock: self.lock, seed: 1 };
        Ok(job.run().map(|finished| {
            self.memory_operations = finished.totals.operations;
            self.cpu_seconds.push(finished.cpu_time as f64 / 1e9);
        }))
    }
}

fn speeds_of(case: &Case) -> impl Iterator<Item = Speed> + '_ {
    let &Case { machine, workload, threads, locks, target } = case;
    let speed = move |&lock: &&'static str| Speed {
        machine,
        workload,
        threads,
        lock,
        target,
        memory_operations: 0,
        cpu_seconds: Vec::new(),
    };
    locks.iter().map(speed)
}

/// Those that have been measured.
pub fn measured(speeds: &[Speed]) -> impl Iterator<Item = &Speed> {
    speeds.iter().filter(|speed| !speed.cpu_seconds.is_empty())
}

/// The table, with `targets` and whether each is met where they are wanted.
pub fn page(speeds: &[Speed], targets: bool) -> Page {
    let mut columns = vec![("lock", false), ("threads", true), ("machine", false)];
    columns.extend([("memory operations", true), ("CPU time", true), ("per CPU-second", true)]);
    if targets {
        columns.extend([("target", true), ("", false)]);
    }
    let row = |speed: &Speed| {
        let mut cells = vec![
            speed.lock.to_owned(),
            speed.threads.to_string(),
            speed.machine.to_owned(),
            format!("{:.2} M", speed.memory_operations as f64 / 1e6),
            format!("{:.3} s", speed.median_cpu_seconds()),
            format!("{:.1} M", speed.rate()),
        ];
        if targets {
            cells.push(match speed.target {
                Target::MillionsPerCpuSecond(least) => format!(">= {least} M"),
                Target::CpuSeconds(most) => format!("<= {most} s"),
                Target::Ends => "ends".to_owned(),
            });
            cells.push(if speed.is_reached() { "ok" } else { "MISS" }.to_owned());
        }
        Row { cells, judgement: Judgement::Baseline }
    };
    let columns = columns.into_iter().map(|(heading, numeric)| (heading.to_owned(), numeric)).collect();
    let rounds = speeds.iter().map(|speed| speed.cpu_seconds.len()).max().unwrap_or_default();
    let virtual_time = "20 ms of virtual time of counter, and of oversub with 4095 threads";
    let mut notes = vec![format!("{virtual_time}; medians of {rounds} rounds on one CPU")];
    if targets {
        let reached = measured(speeds).filter(|speed| speed.is_reached()).count();
        notes.push(format!("{reached} of {} targets reached", measured(speeds).count()));
    }
    let table = Table { columns, rows: measured(speeds).map(row).collect(), ..Table::default() };
    Page { title: "lockswap bench simulator".to_owned(), tables: vec![table], notes, ..Page::default() }
}

/// The results as JSON.
///
/// # Errors
/// A number that JSON has no form for.
pub fn json(speeds: &[Speed], machine: &Machine) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec_pretty(&serde_json::json!({
        "schema": 1,
        "tool": concat!("lockswap ", env!("CARGO_PKG_VERSION")),
        "part": "simulator",
        "machine": machine,
        "virtual_ns": DURATION,
        "runs": speeds,
    }))?;
    text.push(b'\n');
    Ok(text)
}

/// The runs, a line each.
///
/// # Errors
/// None that a CSV in memory can have.
pub fn csv(speeds: &[Speed]) -> io::Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(["lock", "threads", "machine", "workload", "round", "memory_operations", "cpu_s"])?;
    for speed in speeds {
        for (round, seconds) in speed.cpu_seconds.iter().enumerate() {
            let numbers = [round as u64 + 1, speed.memory_operations].map(|number| number.to_string());
            let [round, operations] = &numbers;
            let (threads, seconds) = (speed.threads.to_string(), seconds.to_string());
            let cells = [speed.lock, &threads, speed.machine, speed.workload, round, operations, &seconds];
            writer.write_record(cells)?;
        }
    }
    writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_compared_with_medians() {
        let speed = |target, cpu_seconds| Speed {
            machine: "m",
            workload: "counter",
            threads: 2,
            lock: "cna",
            target,
            memory_operations: 20_000_000,
            cpu_seconds,
        };
        let fast = speed(Target::MillionsPerCpuSecond(10.0), vec![9.0, 1.0, 2.0]);
        let slow = speed(Target::CpuSeconds(1.0), vec![1.5]);
        assert_eq!((fast.rate(), fast.is_reached(), slow.is_reached()), (10.0, true, false));
        assert!(!speed(Target::Ends, Vec::new()).is_reached());
        let text = String::from_utf8(csv(&[fast, slow]).unwrap()).unwrap();
        assert_eq!(text.lines().nth(1), Some("cna,2,m,counter,1,20000000,9"));
        assert_eq!(text.lines().count(), 5);
    }
}
