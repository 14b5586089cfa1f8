//! The cells on which regret is measured. Two files say which, one for hardware, one for simulated machines.
//!
//! A cell is a body (what the threads do) with a number of threads, and on a described machine, where it is
//! simulated. Its id is `BODY/THREADS`, or `MACHINE/BODY/THREADS`. The files are fixed before a lock is tuned; a
//! third of the cells was drawn at random and is listed apart: these are *held out*, and looked at once, at the end.

use crate::hardware::job::Work;
use crate::hardware::program::{Load, Program};
use lockswap_platform::Ns;
use lockswap_workloads::condvar;
use lockswap_workloads::crew::Timing;
use lockswap_workloads::invalid::Invalid;
use lockswap_workloads::record::Detail;
use lockswap_workloads::workload::Workload;
use serde::Deserialize;

/// The cells on this machine.
pub const HARDWARE: &str = include_str!("hardware.toml");

/// The cells on described machines.
pub const SIMULATED: &str = include_str!("simulated.toml");

/// What is meant to be reached.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct Targets {
    /// The least that the worst cell may have: the lower end of its interval on hardware, the ratio in simulation.
    pub worst: f64,
    /// The least that the geometric mean may be.
    pub mean: f64,
    /// The most CPU time next to the best eligible lock that blocks; not told in simulation.
    pub cpu: Option<f64>,
}

/// What a file says, checked: [`file`](super::file) reads it.
#[derive(Clone, Debug)]
pub struct Cells {
    /// The locks of which the best is looked for, at most ten.
    pub candidates: Vec<String>,
    /// A lock whose fairness factor is larger is not eligible.
    pub fairness_factor: f64,
    /// Rounds, or seeds, where nobody says how many.
    pub rounds: u32,
    /// As many at the most get cells whose intervals are wide, a multiple of `rounds`.
    pub most_rounds: u32,
    /// What is meant to be reached.
    pub targets: Targets,
    /// All cells, in the order of the file.
    pub cells: Vec<Cell>,
    /// The names of the bodies, in the order of the file.
    pub bodies: Vec<String>,
    /// The seed with which the held-out cells were drawn.
    pub seed: u64,
}

/// One setting in which locks are compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// Its name.
    pub id: String,
    /// The id of a described machine, or nothing for this one.
    pub machine: Option<String>,
    /// The name of what the threads do.
    pub body: String,
    /// How many threads.
    pub threads: usize,
    /// What they do.
    pub kind: Kind,
    /// How long it is measured, or a program takes, about.
    pub duration: Ns,
    /// Whether it is looked at only at the end.
    pub is_held_out: bool,
}

/// What the threads of a cell do.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A workload, with so many threads of real-time priority.
    Workload(Workload, usize),
    /// Condition variables.
    Condvar(condvar::Config),
    /// A real program, which needs these folders.
    Program(Real),
}

/// A real program, before the folder of its files is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Real {
    /// What is run, with `{dir}` for the folder.
    pub program: Program,
    /// What is run once before, in a shell.
    pub prepare: Option<String>,
    /// The programs that must be installed.
    pub needs: Vec<String>,
}

impl Cell {
    /// The workload with the cell's threads, for so long, with nothing noted but counts; `None` if the cell is none
    /// of these.
    pub fn workload(&self, duration: Option<Ns>) -> Option<Workload> {
        match &self.kind {
            Kind::Workload(workload, _) => {
                Some(workload.clone().noting(self.threads, duration.unwrap_or(self.duration), Detail::Counts))
            }
            _ => None,
        }
    }

    /// What a measuring process does; `dir` is the folder with what was prepared for a program.
    pub fn work(&self, duration: Option<Ns>, dir: &str) -> Work {
        match &self.kind {
            Kind::Workload(_, realtime) => {
                let workload = self.workload(duration).expect("it is one");
                match realtime {
                    0 => Work::Workload(workload),
                    &threads => Work::Realtime { workload, threads },
                }
            }
            Kind::Condvar(config) => {
                let timing = Timing::lasting(duration.unwrap_or(self.duration));
                Work::Condvar(condvar::Config { timing, ..config.clone() })
            }
            Kind::Program(real) => Work::Program(real.program.in_folder(dir)),
        }
    }

    /// How long a run takes that is measured for `duration`, about; a program's own time does not follow it.
    pub fn takes(&self, duration: Option<Ns>) -> Ns {
        match &self.kind {
            Kind::Program(real) => real.program.takes,
            _ => duration.unwrap_or(self.duration) / 10 * 11,
        }
    }
}

impl Program {
    /// The same with the folder's name where the command has `{dir}`.
    fn in_folder(&self, dir: &str) -> Self {
        let fill = |text: &String| text.replace("{dir}", dir);
        let all = |words: &[String]| words.iter().map(fill).collect();
        let load = self.load.as_ref().map(|load| Load { command: all(&load.command), ready: fill(&load.ready) });
        Self { command: all(&self.command), load, ..self.clone() }
    }
}

impl Cells {
    /// The cells to look at: the held-out ones or the others, and of these those whose ids begin with one of `only`.
    ///
    /// # Errors
    /// There are none.
    pub fn chosen(&self, held_out: bool, only: &[String]) -> Result<Vec<Cell>, Invalid> {
        let of_part: Vec<&Cell> = self.cells.iter().filter(|cell| cell.is_held_out == held_out).collect();
        let is_chosen = |cell: &&&Cell| only.is_empty() || only.iter().any(|begin| cell.id.starts_with(begin.as_str()));
        let chosen: Vec<Cell> = of_part.iter().filter(is_chosen).map(|cell| (*cell).clone()).collect();
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let part = if held_out { "held-out cell" } else { "cell" };
        let is_there = |cell: &Cell| only.iter().any(|begin| cell.id.starts_with(begin.as_str()));
        let hidden = self.cells.iter().filter(|cell| cell.is_held_out && !held_out && is_there(cell)).count();
        let what = match only.is_empty() {
            true => format!("there is no {part}"),
            false => format!("there is no {part} whose name begins with '{}'", only.join(",")),
        };
        let remedy = match hidden {
            0 => format!("use the beginning of one of: {}", ids(&of_part)),
            hidden => format!("{hidden} held-out cells begin so; others: {}", ids(&of_part)),
        };
        Err(Invalid::new(what, remedy))
    }
}

/// Some ids, as examples.
fn ids(cells: &[&Cell]) -> String {
    const SHOWN: usize = 12;
    let shown: Vec<&str> = cells.iter().take(SHOWN).map(|cell| cell.id.as_str()).collect();
    let more = cells.len().saturating_sub(SHOWN);
    shown.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
}
