//! A survey: many programs on many locks at several levels of contention, and the tables that say what follows.
//!
//! The tables are those of Guiroux, Lachaize and Quéma, "Multicore Locks: The Case Is Not Closed Yet" (USENIX ATC
//! 2016, section 5), with intervals. "Nodes" is the paper's word for the level of contention: how many NUMA nodes,
//! CPUs or threads a program has; here it is any number.
//!
//! - [`database`] keeps all runs in a SQLite file; [`litl`] reads the data that the paper's authors published.
//! - [`plan`] is what a user wants to be run, and [`run`] runs it.
//! - [`grid`] sorts the runs of one machine into cells: a program, a number of nodes, a lock.
//! - [`tables`] computes the tables, [`resample`] their intervals, [`verdict`] whether two locks differ at all.
//! - [`answer`] says in sentences what follows, and [`report`] puts all together and writes it.

pub mod answer;
pub mod database;
pub mod grid;
pub mod litl;
pub mod plan;
pub mod report;
pub mod resample;
pub mod run;
pub mod sheet;
pub mod tables;
pub mod verdict;

use std::fmt;

/// What cannot be used, and what to do instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unusable {
    /// What is wrong, and where.
    pub what: String,
    /// How to put it right.
    pub remedy: String,
}

impl Unusable {
    /// `what` is wrong; `remedy` puts it right.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Unusable {}

/// What counts as a difference, as shares: 0.05 is 5 %. The defaults are the paper's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Margins {
    /// A lock is better than another one if the other's performance is below this share less than its own (section 5).
    pub tie: f64,
    /// A lock harms a program where the best lock is better by more than this (section 5.2.4).
    pub harm: f64,
    /// A program is lock-sensitive if the relative standard deviation over all locks at its most nodes is above this
    /// (section 5.1.1).
    pub sensitive: f64,
}

impl Default for Margins {
    fn default() -> Self {
        Self { tie: 0.05, harm: 0.15, sensitive: 0.10 }
    }
}
