//! Regret: how far a lock stays behind the best lock for each of many settings, on hardware and on simulated machines.
//! `docs/regret.md` defines it.
//!
//! - [`cells`] are the settings; they are fixed in files, which [`file`] reads.
//! - [`hardware`] makes a series of measurements of them, [`simulated`] runs of the simulator. A seed is to a simulation
//!   what a round is to hardware.
//! - [`finding`] says what follows from the rounds in a cell, [`summary`] what all cells say together.
//! - [`output`] gives tables, JSON, CSV and the heat map.

pub mod cells;
pub mod file;
pub mod finding;
pub mod hardware;
pub mod output;
pub mod simulated;
pub mod summary;

use cells::{Cell, Cells};
use finding::Finding;
use summary::{reached, Reached, Summary};

/// Everything that a run of the command found.
pub struct Findings<'a> {
    /// What was to be measured.
    pub cells: &'a Cells,
    /// The lock in question.
    pub subject: &'a str,
    /// Whether the cells are the held-out ones.
    pub held_out: bool,
    /// Whether the machines are simulated.
    pub simulated: bool,
    /// Cell by cell.
    pub found: Vec<Finding>,
    /// Cells that cannot be measured here, and why.
    pub skipped: &'a [(Cell, String)],
    /// The seed of the first round.
    pub seed: u64,
    /// Rounds that each cell was to have. Those whose intervals are wide may have more.
    pub rounds: u32,
}

impl Findings<'_> {
    /// What all cells say together.
    pub fn summary(&self) -> Summary {
        Summary::of(&self.found, self.cells.fairness_factor)
    }

    /// What was reached of the targets.
    pub fn reached(&self) -> Vec<Reached> {
        reached(&self.summary(), &self.cells.targets, self.simulated)
    }
}
