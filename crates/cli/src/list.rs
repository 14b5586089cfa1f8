//! `lockswap list`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use lockswap_locks::info::Family;
use lockswap_locks::registry::{self, Entry, Role, ENTRIES};
use serde::Serialize;

use crate::checked::{AllChecks, Summary};
use crate::error::UserError;
use crate::selection::no_such_lock;
use crate::{lock_pages, terminal};

/// Lists every lock with its properties, or shows all that is known of one.
#[derive(clap::Args)]
#[command(after_help = "\
Columns:
  waiting   what a thread does while the lock is held
  fairness  fifo: first come, first served; long-term: all are served in the
            end; unfair: neither is promised
  bytes     used inside the pthread object
  +lock     bytes allocated beside it for each lock
  +thread   bytes a thread needs for each lock that it holds or waits for
  timed     native: the algorithm can give up waiting; poll: repeated attempts
            until the deadline
  oversub   whether it stays fast with more threads than CPUs
Every lock has trylock. The JSON and a lock's page also say how far it was
checked, and whether real-time waiters can be served by priority. A narrow
terminal gets fewer columns.

Examples:
  lockswap list
  lockswap list mcs_stp
  lockswap list --family numa
  lockswap list --json")]
pub struct ListArgs {
    /// Shows all that is known of this lock
    id: Option<String>,
    /// Shows the locks of one family
    #[arg(long, value_name = "FAMILY", ignore_case = true, value_parser = PossibleValuesParser::new(families()))]
    family: Option<String>,
    /// Prints a JSON array of objects
    #[arg(long)]
    json: bool,
    /// Writes one page per lock and an index into this folder
    #[arg(long, value_name = "DIR", hide = true, conflicts_with = "json")]
    write_docs: Option<PathBuf>,
}

#[derive(Serialize)]
struct Listed {
    id: &'static str,
    role: &'static str,
    default: bool,
    family: &'static str,
    waiting: &'static str,
    fairness: &'static str,
    in_place: bool,
    bytes_in_mutex: usize,
    extra_bytes_per_lock: usize,
    bytes_per_acquisition: usize,
    trylock: bool,
    timed: &'static str,
    oversubscribed: bool,
    by_priority: &'static str,
    preloaded: bool,
    checked: Option<Summary>,
    source: Option<String>,
    paper: &'static str,
    summary: &'static str,
}

impl Listed {
    fn new(entry: &Entry, checks: &AllChecks) -> Self {
        Self {
            id: entry.info.id,
            role: entry.role.name(),
            default: entry.info.id == entry.role.default_id(),
            family: entry.info.family.name(),
            waiting: entry.info.waiting.name(),
            fairness: entry.info.fairness.name(),
            in_place: entry.extra_bytes_per_lock == 0,
            bytes_in_mutex: entry.body_bytes,
            extra_bytes_per_lock: entry.extra_bytes_per_lock,
            bytes_per_acquisition: entry.bytes_per_acquisition,
            // The pthread interface has it for all of them, so every lock of the registry must.
            trylock: true,
            timed: entry.info.timed.name(),
            oversubscribed: entry.info.keeps_up(),
            by_priority: entry.info.by_priority().name(),
            preloaded: entry.preloaded,
            checked: checks.of(entry).map(Summary::new),
            source: lock_pages::source(entry),
            paper: entry.info.paper,
            summary: entry.info.summary,
        }
    }
}

/// What the columns say.
const LEGEND: [(&str, &str); 5] = [
    ("bytes", "bytes: inside the pthread object"),
    ("+lock", "+lock: allocated for each lock"),
    ("+thread", "+thread: for each lock that a thread holds or awaits"),
    ("timed", "timed: how timed acquisitions wait, 'poll' outside the queue"),
    ("oversub", "oversub: stays fast with more threads than CPUs"),
];

const ROLES: [Role; 3] = [Role::Mutex, Role::RwLock, Role::Spin];

/// Columns from which on there is room for numbers.
const NARROW: u16 = 78;

/// Columns of a terminal from which on the whole papers fit into the table.
const WIDE: u16 = 160;

/// Columns from which on there is room for where they were published.
const MEDIUM: u16 = 120;

/// Runs `lockswap list`.
pub fn run(args: ListArgs) -> anyhow::Result<ExitCode> {
    let checks = AllChecks::built_in()?;
    if let Some(folder) = args.write_docs {
        lock_pages::write(&folder, &checks)?;
        return Ok(ExitCode::SUCCESS);
    }
    let id = args.id.as_deref().map(published).transpose()?;
    let is_wanted = |entry: &Entry| {
        let is_in = |family: &String| entry.info.family.name().eq_ignore_ascii_case(family);
        id.is_none_or(|id| entry.info.id == id) && args.family.as_ref().is_none_or(is_in)
    };
    let text = match id {
        _ if args.json => {
            let wanted = ENTRIES.iter().filter(|entry| is_wanted(entry));
            serde_json::to_string_pretty(&wanted.map(|entry| Listed::new(entry, &checks)).collect::<Vec<_>>())? + "\n"
        }
        Some(_) => {
            let entries: Vec<&Entry> = ENTRIES.iter().filter(|entry| is_wanted(entry)).collect();
            lock_pages::in_words(&entries, &checks, terminal::width())
        }
        None => table(terminal::width(), is_wanted),
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// The names of the families of the locks, each once.
fn families() -> Vec<&'static str> {
    let mut families: Vec<&str> = ROLES.into_iter().flat_map(by_family).map(|entry| entry.info.family.name()).collect();
    let mut seen = Vec::new();
    families.retain(|family| {
        !seen.contains(family) && {
            seen.push(*family);
            true
        }
    });
    families
}

/// The published name of a lock of any role.
fn published(id: &str) -> Result<&'static str, UserError> {
    let found = ROLES.into_iter().find_map(|role| registry::find(role, id.trim()));
    found
        .map(|entry| entry.info.id)
        .ok_or_else(|| no_such_lock(format!("there is no lock '{id}'"), id, ENTRIES.iter().map(|entry| entry.info.id)))
}

/// The option of `lockswap run` that chooses a lock of this role.
pub fn option(role: Role) -> &'static str {
    match role {
        Role::Mutex => "--lock",
        Role::RwLock => "--rwlock",
        Role::Spin => "--spin",
    }
}

/// The locks of a role, family by family.
pub fn by_family(role: Role) -> Vec<&'static Entry> {
    let mut entries: Vec<_> = ENTRIES.iter().filter(|entry| entry.role == role).collect();
    entries.sort_by_key(|entry| entry.info.family as u8);
    entries
}

fn table(columns: Option<u16>, is_wanted: impl Fn(&Entry) -> bool) -> String {
    let groups = ROLES.into_iter().filter_map(|role| group(role, columns, &is_wanted));
    let text = groups.collect::<Vec<_>>().join("\n") + "\n";
    let narrow = columns.is_some_and(|columns| columns < MEDIUM);
    let hint = if narrow { "all of one lock: lockswap list ID\n" } else { "" };
    let is_shown = |heading: &str| headings(columns).contains(&heading);
    let legend = LEGEND.iter().filter(|(heading, _)| is_shown(heading)).map(|(_, line)| *line);
    text + &terminal::fold(&(legend.collect::<Vec<_>>().join("; ") + "\n" + hint), columns.or(Some(MEDIUM)))
}

fn headings(columns: Option<u16>) -> Vec<&'static str> {
    let columns = columns.unwrap_or(u16::MAX);
    let mut headings = vec!["id", "waiting", "fairness"];
    if columns >= NARROW {
        headings.extend(["bytes", "+lock", "+thread", "timed"]);
    }
    headings.push("oversub");
    if columns >= MEDIUM {
        headings.push(if columns >= WIDE { "paper" } else { "published" });
    }
    headings
}

/// Columns that [`MEDIUM`] leaves to [`venue`].
const VENUE: usize = 30;

/// Where a lock was published: what comes behind the authors, and as much of what follows the comma as there is room for.
fn venue(paper: &str) -> &str {
    let venue = paper.rsplit_once(": ").map_or(paper, |(_, venue)| venue);
    if venue.len() <= VENUE {
        return venue;
    }
    let ends = venue.match_indices(", ").map(|(end, _)| end).filter(|end| *end <= VENUE);
    &venue[..ends.last().unwrap_or(venue.len())]
}

fn group(role: Role, columns: Option<u16>, is_wanted: impl Fn(&Entry) -> bool) -> Option<String> {
    let headings = headings(columns);
    let numeric = headings.iter().enumerate().filter(|(_, heading)| ["bytes", "+lock", "+thread"].contains(heading));
    let mut table = terminal::table(&headings, &numeric.map(|(column, _)| column).collect::<Vec<_>>());
    if columns.is_some_and(|columns| columns < MEDIUM) {
        table.column_iter_mut().for_each(|c| {
            c.set_padding((0, 1));
        });
    }
    let entries: Vec<_> = by_family(role).into_iter().filter(|entry| is_wanted(entry)).collect();
    for entry in &entries {
        let info = &entry.info;
        let id = if info.id == role.default_id() { format!("{} *", info.id) } else { info.id.into() };
        let cell = |heading: &&str| match *heading {
            "id" => id.clone(),
            "waiting" => info.waiting.name().into(),
            "fairness" => info.fairness.name().into(),
            "bytes" => entry.body_bytes.to_string(),
            "+lock" => entry.extra_bytes_per_lock.to_string(),
            "+thread" => entry.bytes_per_acquisition.to_string(),
            "timed" => info.timed.name().into(),
            "oversub" => if info.keeps_up() { "yes" } else { "no" }.into(),
            "paper" => info.paper.into(),
            _ => venue(info.paper).into(),
        };
        table.add_row(headings.iter().map(cell));
    }
    if entries.is_empty() {
        return None;
    }
    let rendered = terminal::lines(&table);
    let (headings, rows) = rendered.split_once('\n').unwrap_or_default();
    let mut text = format!("{} locks ({} ID; * is the default)\n\n{headings}\n", role.name(), option(role));
    let mut family: Option<Family> = None;
    for (entry, row) in entries.iter().zip(rows.lines()) {
        if family != Some(entry.info.family) {
            family = Some(entry.info.family);
            let family = format!("\n{}: {}\n", entry.info.family.name(), entry.info.family.meaning());
            text += &terminal::fold(&family, columns);
        }
        text += &format!("{row}\n");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_and_names_every_lock_at_every_width() {
        for columns in [60, 77, 78, 80, 119, 120, 159, 160, 200] {
            let text = table(Some(columns), |_| true);
            let widest = text.lines().max_by_key(|line| line.chars().count());
            assert!(widest.is_some_and(|line| line.chars().count() <= usize::from(columns)), "{columns}: {widest:?}");
            for entry in ENTRIES {
                assert!(text.lines().any(|line| line.split_whitespace().next() == Some(entry.info.id)), "{text}");
            }
        }
        assert!(ENTRIES.iter().all(|entry| table(None, |_| true).contains(entry.info.paper)));
    }
}
