//! `lockswap bench simulator`: how fast the simulated machine is on this one; with `--targets`, next to what it is meant
//! to be.

use super::{prepare, Common, Quartiles};
use crate::terminal;
use lockswap_experiment::results::Machine;
use lockswap_platform::Ns;
use lockswap_sim::{Job, Machine as Described, Workload};
use lockswap_study::export::OutputFile;
use lockswap_study::machine::Machine as Host;
use serde::Serialize;
use std::process::ExitCode;

/// Rounds where none are asked for.
const ROUNDS: u32 = 5;

/// Virtual time of each run: 20 ms after a warm-up of 2 ms.
const DURATION: Ns = 20_000_000;

/// What is meant to be reached.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Target {
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
#[derive(Serialize)]
struct Speed {
    machine: &'static str,
    workload: &'static str,
    threads: usize,
    lock: &'static str,
    target: Target,
    /// Memory operations of a run, which is the same in each round.
    memory_operations: u64,
    /// Round by round.
    cpu_seconds: Vec<f64>,
}

impl Speed {
    fn cpu_seconds(&self) -> f64 {
        Quartiles::of(self.cpu_seconds.clone()).map_or(f64::NAN, |of| of.median)
    }

    fn rate(&self) -> f64 {
        self.memory_operations as f64 / self.cpu_seconds() / 1e6
    }

    fn reached(&self) -> bool {
        match self.target {
            Target::MillionsPerCpuSecond(least) => self.rate() >= least,
            Target::CpuSeconds(most) => self.cpu_seconds() <= most,
            Target::Ends => !self.cpu_seconds.is_empty(),
        }
    }
}

/// Runs `lockswap bench simulator`.
pub fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let file = prepare(common)?;
    let before = Host::here();
    let rounds = common.runs.unwrap_or(ROUNDS);
    let mut speeds: Vec<Speed> = CASES.iter().flat_map(speeds_of).collect();
    let bar = crate::compare::bar(u64::from(rounds) * speeds.len() as u64);
    let interrupt = super::interrupt()?;
    'rounds: for _ in 0..rounds {
        for index in 0..speeds.len() {
            let speed = &mut speeds[index];
            bar.set_message(format!("{}, {} threads", speed.lock, speed.threads));
            measure(speed)?;
            bar.inc(1);
            if let Some(file) = file.as_ref().filter(|file| !file.is_stream()) {
                export(file, &speeds)?;
            }
            if interrupt.signal().is_some() {
                break 'rounds;
            }
        }
    }
    bar.finish_and_clear();
    if let Some(file) = file.filter(OutputFile::is_stream) {
        export(&file, &speeds)?;
    }
    let mut text = format!("{}\n\n{}", before.words(), table(&speeds, common.targets));
    if before.is_busy() {
        text += &super::busy(before.load_average);
    }
    terminal::print(&text)?;
    Ok(interrupt.signal().map_or(ExitCode::SUCCESS, super::interrupted))
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

/// Makes one run on this thread.
fn measure(speed: &mut Speed) -> anyhow::Result<()> {
    let machine = Described::built_in(speed.machine, &[])?;
    let workload = Workload::named(speed.workload)?.with(speed.threads, DURATION);
    let job = Job { machine: &machine, workload, lock: speed.lock, seed: 1 };
    let finished = job.run().map_err(|failure| anyhow::anyhow!("{}: {failure}", speed.lock))?;
    speed.memory_operations = finished.totals.operations;
    speed.cpu_seconds.push(finished.cpu_time as f64 / 1e9);
    Ok(())
}

/// The table, with `targets` and whether each is met where they are wanted.
fn table(speeds: &[Speed], targets: bool) -> String {
    let mut headings = vec!["lock", "threads", "machine", "memory operations", "CPU time", "per CPU-second"];
    if targets {
        headings.extend(["target", ""]);
    }
    let numeric: Vec<usize> = [1, 3, 4, 5, 6].into_iter().filter(|column| *column < headings.len()).collect();
    let mut table = terminal::table(&headings, &numeric);
    let measured = || speeds.iter().filter(|speed| !speed.cpu_seconds.is_empty());
    for speed in measured() {
        let mut row = vec![
            speed.lock.to_owned(),
            speed.threads.to_string(),
            speed.machine.to_owned(),
            format!("{:.2} M", speed.memory_operations as f64 / 1e6),
            format!("{:.3} s", speed.cpu_seconds()),
            format!("{:.1} M", speed.rate()),
        ];
        let target = [
            match speed.target {
                Target::MillionsPerCpuSecond(least) => format!(">= {least} M"),
                Target::CpuSeconds(most) => format!("<= {most} s"),
                Target::Ends => "ends".to_owned(),
            },
            if speed.reached() { "ok" } else { "MISS" }.to_owned(),
        ];
        row.extend(target.into_iter().filter(|_| targets));
        table.add_row(row);
    }
    let rounds = speeds.first().map_or(0, |speed| speed.cpu_seconds.len());
    let mut text = format!(
        "{}\n20 ms of virtual time of counter, and of oversub with 4095 threads; medians of {rounds} rounds on one CPU.\n",
        terminal::lines(&table),
    );
    if targets {
        let reached = measured().filter(|speed| speed.reached()).count();
        text += &format!("{reached} of {} targets reached.\n", measured().count());
    }
    text
}

fn export(file: &OutputFile, speeds: &[Speed]) -> anyhow::Result<()> {
    let document = serde_json::json!({
        "schema": 1,
        "tool": concat!("lockswap ", env!("CARGO_PKG_VERSION")),
        "part": "simulator",
        "machine": Machine::here(),
        "virtual_ns": DURATION,
        "runs": speeds,
    });
    crate::picture::replace(file, &serde_json::to_vec_pretty(&document)?)
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
        assert_eq!((fast.rate(), fast.reached(), slow.reached()), (10.0, true, false));
        assert!(!table(std::slice::from_ref(&fast), false).contains("10 M"));
        let text = table(&[fast, slow], true);
        assert!(text.contains(">= 10 M  ok") && text.contains("<= 1 s  MISS"), "{text}");
        assert!(text.contains("1 of 2 targets reached"), "{text}");
        assert!(!speed(Target::Ends, Vec::new()).reached());
    }
}
