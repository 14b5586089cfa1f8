//! What became of mutants: kept in a file, and drawn as the table that is published.

use super::{GIVEN_UP, MOST_LOCKS, PER_MUTANT};
use lockswap_check::mutation::Mutant;
use lockswap_check::source;
use lockswap_check::subjects::Subject;
use lockswap_check::survivors::{self, EXPLAINED, SOURCES};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

/// What became of a mutant.
#[derive(Serialize, Deserialize)]
pub struct Verdict {
    pub mutant: Mutant,
    /// The line.
    pub source: String,
    /// How it was caught: by which lock, machine, scenario; what it said.
    pub caught: Option<(String, String)>,
    /// Where a check came to no result and no other one failed: which, and why. It is not caught.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undecided: Option<(String, String)>,
    /// Scenarios tried, and how many there were.
    pub tried: (usize, usize),
}

/// All results of one kind of source.
#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub verdicts: Vec<Verdict>,
    /// Lines whose orders have no mutants.
    pub orders: Vec<(String, u32)>,
}

impl Results {
    /// Those in the file at `path`, without the mutants whose lines have changed since; none if there is no file.
    pub fn read(path: &Path) -> std::result::Result<Results, String> {
        let Ok(text) = std::fs::read_to_string(path) else { return Ok(Results::default()) };
        let mut results: Results = serde_json::from_str(&text)
            .map_err(|error| format!("{} holds no results of mutants: {error}", path.display()))?;
        results.verdicts.retain_mut(|Verdict { mutant: Mutant { place, .. }, source: known, .. }| {
            if source::line(&place.file, place.line) != *known {
                let lines = (1..).take_while(|line| *line <= source::length(&place.file));
                let mut same = lines.filter(|line| source::line(&place.file, *line) == *known);
                match (same.next(), same.next()) {
                    (Some(line), None) => place.line = line,
                    _ => return false,
                }
            }
            true
        });
        Ok(results)
    }

    /// What has caught each mutant that was caught: lock, machine, scenario.
    pub fn caught_by(&self) -> BTreeMap<Mutant, String> {
        let caught = |verdict: &Verdict| Some((verdict.mutant.clone(), verdict.caught.clone()?.0));
        self.verdicts.iter().filter_map(caught).collect()
    }

    /// One mutant on a line, so that a difference can be read.
    pub fn text(&self) -> String {
        let json = |verdict| serde_json::to_string(verdict).expect("strings and numbers");
        let lines: Vec<_> = self.verdicts.iter().map(json).collect();
        let orders: Vec<_> = self.orders.iter().map(|order| serde_json::to_string(order).expect("as above")).collect();
        format!("{{\"verdicts\":[\n{}\n],\"orders\":[\n{}\n]}}\n", lines.join(",\n"), orders.join(",\n"))
    }
}

/// Why it survives, if that is known.
pub fn why(verdict: &Verdict) -> Option<&'static str> {
    survivors::explanation(EXPLAINED, &verdict.mutant).map(|known| known.why)
}

/// The check that came to no result, if one did, for a line that goes on.
fn undecided(verdict: &Verdict) -> String {
    verdict.undecided.as_ref().map_or_else(String::new, |(by, why)| format!("undecided in {by}: {why}; "))
}

/// A verdict for the terminal.
pub fn line(verdict: &Verdict) -> String {
    let Mutant { place, change } = &verdict.mutant;
    let source = source::line(&place.file, place.line);
    match &verdict.caught {
        Some((by, failure)) => {
            let failure = failure.lines().next().unwrap_or_default();
            format!("caught   {place} {change}: {source}\n         by {by}: {failure}")
        }
        None => {
            let (tried, all) = verdict.tried;
            let name = if verdict.undecided.is_some() { "UNDECIDED" } else { "SURVIVED" };
            format!(
                "{name} {place} {change}: {source}\n         {tried} of {all} scenarios; {}{}",
                undecided(verdict),
                why(verdict).unwrap_or("not explained")
            )
        }
    }
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
pub fn table(verdicts: &[Verdict], unseen: &[(String, u32)], subjects: &[Subject]) -> String {
    let mut text = String::from(
        "# Mutants\n\n\
         Made by `cargo run --profile prove -p lockswap-check -- mutants --jobs 2 --write docs/mutants.md`; do not edit.\n\n\
         Each line is the source of a lock with one thing changed: an access without Acquire or without Release, a spin \
         that does not wait, a wake-up, a call of `settle` or the look of a conditional store that is left out. It is *caught* if a check of a lock that \
         passes this place fails or crashes, or makes an execution without end that the lock as it is has not. A check \
         that comes to no result does not count: the mutant is *undecided*, and listed with the survivors. \
         [proof.md](proof.md) says how, and what that means.\n\n",
    );
    let survivors: Vec<_> = verdicts.iter().filter(|verdict| verdict.caught.is_none()).collect();
    let explained = survivors.iter().filter(|verdict| why(verdict).is_some()).count();
    let _ = writeln!(
        text,
        "Budget: {} s of CPU time for each mutant, on at most {MOST_LOCKS} locks that pass the place; a scenario that has \
         not been answered after {} s of CPU time is given up.\n\n\
         **{} mutants, {} caught, {} survived, {} of them undecided: {explained} explained, {} not explained.**\n",
        PER_MUTANT.as_secs(),
        GIVEN_UP.as_secs(),
        verdicts.len(),
        verdicts.len() - survivors.len(),
        survivors.len(),
        survivors.iter().filter(|verdict| verdict.undecided.is_some()).count(),
        survivors.len() - explained
    );
    text += "## Survivors\n\n| place | change | source | scenarios tried | why |\n|---|---|---|---|---|\n";
    for verdict in survivors {
        let Mutant { place, change } = &verdict.mutant;
        let (tried, all) = verdict.tried;
        let _ = writeln!(
            text,
            "| {}:{} | {change} | `{}` | {tried} of {all} | {}{} |",
            place.file.trim_start_matches(SOURCES),
            place.line,
            cell(&source::line(&place.file, place.line)),
            undecided(verdict),
            why(verdict).unwrap_or("not explained")
        );
    }
    text +=
        "\n## Orders without mutants\n\nNo scenario passes these lines under loom within the time of the search.\n\n";
    for (file, line) in unseen {
        let _ = writeln!(text, "- {}:{line} `{}`", file.trim_start_matches(SOURCES), cell(&source::line(file, *line)));
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
            cell(&source::line(file, place.line)),
            cell(failure)
        );
    }
    text
}
