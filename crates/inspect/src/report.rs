//! What was found, as data.

use lockswap_study::machine::Machine;
use serde::Serialize;

use super::{Examined, Prospect};

/// What a finding means for the preload library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing is in the way.
    Ok,
    /// It works, but there is something to know.
    Note,
    /// It cannot work.
    Problem,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was looked at, in a word or two.
    pub name: &'static str,
    /// What it means.
    pub status: Status,
    /// What was found. Names out of files are in it as they are, with all characters that they hold.
    pub found: String,
    /// What to do about it; nothing where all is well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, status: Status::Ok, found: found.into(), remedy: None }
    }

    /// It works, but `found` should be known.
    pub fn note(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, status: Status::Note, found: found.into(), remedy: Some(remedy.into()) }
    }

    /// It cannot work.
    pub fn problem(name: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { name, status: Status::Problem, found: found.into(), remedy: Some(remedy.into()) }
    }
}

/// Everything that was found about this machine, and about a program if one was examined.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Version of this form.
    pub schema: u32,
    /// This machine.
    pub machine: Machine,
    /// Findings about this machine.
    pub here: Vec<Finding>,
    /// Findings about a program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub program: Option<Examined>,
    /// Whether the preload library can work.
    pub works: bool,
    /// The same in words.
    pub verdict: &'static str,
}

impl Report {
    /// What these findings say together.
    pub fn new(machine: Machine, here: Vec<Finding>, program: Option<Examined>) -> Self {
        let mut all = here.iter().chain(program.iter().flat_map(|program| &program.checks));
        let works = !all.any(|finding| finding.status == Status::Problem);
        let verdict = match program.as_ref().map_or(Prospect::Replaces, |examined| examined.prospect) {
            _ if !works => "cannot work",
            Prospect::Replaces => "works",
            Prospect::Nothing => "works, but nothing to replace",
            Prospect::Unknown => {
                "works, but whether there is anything to replace shows in 'lockswap run --summary' only"
            }
            Prospect::StandsAside => "works, but lockswap stands aside: ThreadSanitizer must see the locks",
        };
        Self { schema: 1, machine, here, program, works, verdict }
    }
}
