//! `lockswap list`

use std::process::ExitCode;

use lockswap_locks::registry::{Entry, Role, ENTRIES};
use serde::Serialize;

use crate::terminal;

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
Every lock has trylock.

Examples:
  lockswap list
  lockswap list --json")]
pub struct ListArgs {
    /// Prints a JSON array of objects
    #[arg(long)]
    json: bool,
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
    preloaded: bool,
    paper: &'static str,
    summary: &'static str,
}

impl From<&Entry> for Listed {
    fn from(entry: &Entry) -> Self {
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
            preloaded: entry.preloaded,
            paper: entry.info.paper,
            summary: entry.info.summary,
        }
    }
}

const LEGEND: &str = "
bytes: inside the pthread object; +lock: allocated for each lock; +thread: for each lock that a thread holds or
awaits; timed: how timed acquisitions wait, 'poll' outside the queue
";

/// Columns of a terminal from which on the papers fit into the table.
const WIDE: u16 = 130;

/// Runs `lockswap list`.
pub fn run(args: ListArgs) -> anyhow::Result<ExitCode> {
    let text = if args.json {
        let listed: Vec<Listed> = ENTRIES.iter().map(Listed::from).collect();
        serde_json::to_string_pretty(&listed)? + "\n"
    } else {
        [Role::Mutex, Role::RwLock, Role::Spin].map(group).join("\n") + LEGEND
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn group(role: Role) -> String {
    let option = match role {
        Role::Mutex => "--lock",
        Role::RwLock => "--rwlock",
        Role::Spin => "--spin",
    };
    // The papers take a list of their own where they would not fit into the table.
    let narrow = terminal::width().is_some_and(|columns| columns < WIDE);
    let mut headings = vec!["id", "family", "waiting", "fairness", "bytes", "+lock", "+thread", "try", "timed"];
    if !narrow {
        headings.push("paper");
    }
    let mut table = terminal::table(&headings, &[4, 5, 6]);
    if narrow {
        table.column_iter_mut().for_each(|c| {
            c.set_padding((0, 1));
        });
    }
    let mut papers = String::new();
    for entry in ENTRIES.iter().filter(|e| e.role == role) {
        let l = Listed::from(entry);
        let bytes = [l.bytes_in_mutex, l.extra_bytes_per_lock, l.bytes_per_acquisition].map(|b| b.to_string());
        let id = if l.default { format!("{} *", l.id) } else { l.id.into() };
        let mut row = vec![id, l.family.into(), l.waiting.into(), l.fairness.into()];
        row.extend(bytes);
        row.push(if l.trylock { "yes" } else { "no" }.into());
        row.push(l.timed.into());
        if narrow {
            papers += &format!(" {:<18}  {}\n", l.id, l.paper);
        } else {
            row.push(l.paper.into());
        }
        table.add_row(row);
    }
    let papers = if narrow { format!("\n papers\n{papers}") } else { papers };
    format!("{} locks ({option} ID; * is the default)\n\n{}{papers}", role.name(), terminal::lines(&table))
}
