//! `lockswap list`

use std::path::PathBuf;
use std::process::ExitCode;

use lockswap_locks::info::Family;
use lockswap_locks::registry::{Entry, Role, ENTRIES};
use serde::Serialize;

use crate::checked::{AllChecks, Summary};
use crate::{lock_pages, terminal};

/// Lists every lock with its properties.
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
Every lock has trylock. The JSON also says how far each lock was checked, and
whether real-time waiters can be served by priority.

Examples:
  lockswap list
  lockswap list --json")]
pub struct ListArgs {
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

const LEGEND: &str = "
bytes: inside the pthread object; +lock: allocated for each lock; +thread: for each lock that a thread holds or
awaits; timed: how timed acquisitions wait, 'poll' outside the queue; oversub: stays fast with more threads than CPUs
";

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
    let text = if args.json {
        let listed: Vec<Listed> = ENTRIES.iter().map(|entry| Listed::new(entry, &checks)).collect();
        serde_json::to_string_pretty(&listed)? + "\n"
    } else {
        table(terminal::width())
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
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

fn table(columns: Option<u16>) -> String {
    let roles = [Role::Mutex, Role::RwLock, Role::Spin].map(|role| group(role, columns.unwrap_or(u16::MAX)));
    let hint = if columns.is_some_and(|columns| columns < MEDIUM) { "papers: lockswap list --json\n" } else { "" };
    roles.join("\n") + LEGEND + hint
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

fn group(role: Role, columns: u16) -> String {
    let mut headings = vec!["id", "waiting", "fairness", "bytes", "+lock", "+thread", "timed", "oversub"];
    if columns >= MEDIUM {
        headings.push(if columns >= WIDE { "paper" } else { "published" });
    }
    let mut table = terminal::table(&headings, &[3, 4, 5]);
    if columns < MEDIUM {
        table.column_iter_mut().for_each(|c| {
            c.set_padding((0, 1));
        });
    }
    let entries = by_family(role);
    for entry in &entries {
        let info = &entry.info;
        let id = if info.id == role.default_id() { format!("{} *", info.id) } else { info.id.into() };
        let bytes = [entry.body_bytes, entry.extra_bytes_per_lock, entry.bytes_per_acquisition].map(|b| b.to_string());
        let mut row = vec![id, info.waiting.name().into(), info.fairness.name().into()];
        row.extend(bytes);
        row.push(info.timed.name().into());
        row.push(if info.keeps_up() { "yes" } else { "no" }.into());
        if columns >= MEDIUM {
            row.push(if columns >= WIDE { info.paper } else { venue(info.paper) }.into());
        }
        table.add_row(row);
    }
    let rendered = terminal::lines(&table);
    let (headings, rows) = rendered.split_once('\n').unwrap_or_default();
    let mut text = format!("{} locks ({} ID; * is the default)\n\n{headings}\n", role.name(), option(role));
    let mut family: Option<Family> = None;
    for (entry, row) in entries.iter().zip(rows.lines()) {
        if family != Some(entry.info.family) {
            family = Some(entry.info.family);
            text += &format!("\n{}: {}\n", entry.info.family.name(), entry.info.family.meaning());
        }
        text += &format!("{row}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_and_names_every_lock_at_every_width() {
        for columns in [80, 119, 120, 159, 160] {
            let text = table(Some(columns));
            let widest = text.lines().filter(|line| !LEGEND.contains(line)).max_by_key(|line| line.chars().count());
            assert!(widest.is_some_and(|line| line.chars().count() <= usize::from(columns)), "{columns}: {widest:?}");
            for entry in ENTRIES {
                assert!(text.lines().any(|line| line.split_whitespace().next() == Some(entry.info.id)), "{text}");
            }
        }
        assert!(ENTRIES.iter().all(|entry| table(None).contains(entry.info.paper)));
    }
}
