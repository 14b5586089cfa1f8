//! Tables for people.

use std::fmt::Write as _;

use lockswap_locks::registry::{Entry, Role};

use crate::order::{by_family, option, ROLES};
use crate::pages::{cell, yes};

/// A column of a table of locks.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// What stands above it.
    pub heading: &'static str,
    /// What that means, in a line, if it has to be said.
    pub legend: Option<&'static str>,
    /// Whether it holds numbers.
    pub is_number: bool,
    /// What it holds for a lock.
    pub cell: fn(&Entry) -> String,
}

const fn words(heading: &'static str, cell: fn(&Entry) -> String) -> Column {
    Column { heading, legend: None, is_number: false, cell }
}

const fn number(heading: &'static str, legend: &'static str, cell: fn(&Entry) -> String) -> Column {
    Column { heading, legend: Some(legend), is_number: true, cell }
}

/// All columns; the last two say the same, shorter and longer.
pub const COLUMNS: [Column; 10] = [
    words("id", |entry| format!("{}{}", entry.info.id, if is_default(entry) { " *" } else { "" })),
    words("waiting", |entry| entry.info.waiting.name().into()),
    words("fairness", |entry| entry.info.fairness.name().into()),
    number("bytes", "bytes: inside the pthread object", |entry| entry.body_bytes.to_string()),
    number("+lock", "+lock: allocated for each lock", |entry| entry.extra_bytes_per_lock.to_string()),
    number("+thread", "+thread: for each lock that a thread holds or awaits", |entry| {
        entry.bytes_per_acquisition.to_string()
    }),
    Column {
        legend: Some("timed: how timed acquisitions wait, 'poll' outside the queue"),
        ..words("timed", |entry| entry.info.timed.name().into())
    },
    Column {
        legend: Some("oversub: stays fast with more threads than CPUs"),
        ..words("oversub", |entry| yes(entry.info.keeps_up).into())
    },
    words("published", |entry| venue(entry.info.paper).into()),
    words("paper", |entry| entry.info.paper.into()),
];

fn is_default(entry: &Entry) -> bool {
    entry.info.id == entry.role.default_id()
}

/// Where a lock was published: what comes behind the authors, and as much of what follows the comma as there is room
/// for.
fn venue(paper: &str) -> &str {
    const LONGEST: usize = 30;
    let venue = paper.rsplit_once(": ").map_or(paper, |(_, venue)| venue);
    if venue.len() <= LONGEST {
        return venue;
    }
    let ends = venue.match_indices(", ").map(|(end, _)| end).filter(|end| *end <= LONGEST);
    &venue[..ends.last().unwrap_or(venue.len())]
}

/// The name of a table of the locks of a role.
pub fn heading(role: Role) -> String {
    format!("{} locks ({} ID; * is the default)", role.name(), option(role))
}

/// A table for each role, in Markdown.
pub fn markdown(is_wanted: impl Fn(&Entry) -> bool) -> String {
    let columns: Vec<Column> = COLUMNS.into_iter().filter(|column| column.heading != "published").collect();
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = String::new();
    for role in ROLES {
        let entries: Vec<&Entry> = by_family(role).into_iter().filter(|entry| is_wanted(entry)).collect();
        if entries.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{}## {}\n", if text.is_empty() { "" } else { "\n" }, heading(role));
        let names = columns.iter().map(|column| column.heading.into());
        text += &line(names.chain(["family".into()]).collect());
        let rules = columns.iter().map(|column| if column.is_number { "---:" } else { "---" });
        text += &line(rules.chain(["---"]).map(str::to_owned).collect());
        for entry in entries {
            let cells = columns.iter().map(|column| cell(&(column.cell)(entry)));
            text += &line(cells.chain([entry.info.family.name().into()]).collect());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_locks::registry::ENTRIES;

    #[test]
    fn a_long_venue_ends_at_a_comma() {
        assert_eq!(venue("Some Author: Journal of Locks 1, 2"), "Journal of Locks 1, 2");
        assert_eq!(venue("A: The Symposium on Long Names, and more of them, 1999"), "The Symposium on Long Names");
    }

    #[test]
    fn every_wanted_lock_has_a_line_with_as_many_cells_as_the_heading() {
        let text = markdown(|_| true);
        let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("| ")).collect();
        let cells = |row: &str| row.replace("\\|", "").matches('|').count();
        assert!(rows.iter().all(|row| cells(row) == cells(rows[0])), "{text}");
        assert_eq!(rows.len(), ENTRIES.len() + 2 * ROLES.len());
        assert_eq!(markdown(|entry| entry.info.id == "ticket").matches("| ticket |").count(), 1);
    }
}
