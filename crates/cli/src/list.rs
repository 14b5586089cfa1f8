//! `lockswap list`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::builder::PossibleValuesParser;
use lockswap_catalogue::{
    about, by_family, families, heading, markdown, pages, to_csv, AllChecks, Column, Facts, Row, COLUMNS, ROLES,
};
use lockswap_locks::info::Family;
use lockswap_locks::registry::{self, Entry, Role, ENTRIES};

use crate::error::UserError;
use crate::outputs::Print;
use crate::selection::{no_such_lock, read};
use crate::terminal;

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
  lockswap list --format json")]
pub struct ListArgs {
    /// Shows all that is known of this lock
    id: Option<String>,
    /// Shows the locks of one family
    #[arg(long, value_name = "FAMILY", ignore_case = true, value_parser = PossibleValuesParser::new(families()))]
    family: Option<String>,
    /// What is printed: a table, a JSON array of objects, CSV with a line per lock, or the tables as Markdown
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    format: Print,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Writes one page per lock and an index into this folder
    #[arg(long, value_name = "DIR", hide = true, conflicts_with_all = ["json", "format"])]
    write_docs: Option<PathBuf>,
}

/// Columns from which on there is room for numbers.
const NARROW: u16 = 80;

/// Columns from which on there is room for where they were published.
const MEDIUM: u16 = 120;

/// Columns of a terminal from which on the whole papers fit into the table.
const WIDE: u16 = 160;

/// Runs `lockswap list`.
pub fn run(args: ListArgs) -> anyhow::Result<ExitCode> {
    let checks = AllChecks::built_in()?;
    if let Some(folder) = args.write_docs {
        pages::write(&folder, &checks)?;
        return Ok(ExitCode::SUCCESS);
    }
    let id = args.id.as_deref().map(published).transpose()?;
    let is_wanted = |entry: &Entry| {
        let is_in = |family: &String| entry.info.family.name().eq_ignore_ascii_case(family);
        id.is_none_or(|id| entry.info.id == id) && args.family.as_ref().is_none_or(is_in)
    };
    let wanted = || ENTRIES.iter().filter(|entry| is_wanted(entry));
    let rows = || wanted().map(|entry| Row::new(entry, &checks));
    match args.format {
        Print::Table if !args.json => terminal::print(&match id {
            Some(_) => page(wanted(), &checks, terminal::width()),
            None => table(terminal::width(), is_wanted),
        })?,
        Print::Csv => terminal::print_data(&String::from_utf8(to_csv(rows())?)?)?,
        Print::Md => terminal::print_data(&markdown(is_wanted))?,
        Print::Table | Print::Json => {
            terminal::print_data(&(serde_json::to_string_pretty(&rows().collect::<Vec<_>>())? + "\n"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The published name of the lock of any role that `text` names, with parameters or without.
fn published(text: &str) -> Result<&'static str, UserError> {
    let id = text.split(':').next().unwrap_or_default().trim();
    match ROLES.into_iter().find(|role| registry::find(*role, id).is_some()) {
        Some(role) => read(role, text.trim()).map(|named| named.entry.info.id),
        None => Err(no_such_lock(format!("there is no lock '{id}'"), id, ENTRIES.iter().map(|entry| entry.info.id))),
    }
}

/// What is known of these locks, which have one name.
fn page<'a>(entries: impl Iterator<Item = &'a Entry>, checks: &AllChecks, columns: Option<u16>) -> String {
    let one = |entry: &Entry| {
        let Facts { title, summary, rows } = Facts::of(entry);
        let mut table = terminal::table(&[], &[]);
        let source = pages::source(entry).unwrap_or("glibc's".into());
        for (name, fact) in rows.into_iter().chain([("source", source)]) {
            table.add_row([name, &fact]);
        }
        table.add_row(["checked", &pages::checked_in_words(entry, checks)]);
        terminal::fold_last_column_at(&mut table, columns);
        let more = format!("each check, and what is not checked: docs/locks/{} of the repository", pages::file(entry));
        let fold = |line: String| terminal::fold(&format!("{line}\n"), columns);
        let table = terminal::lines(&table);
        let deviations = about::deviations(entry).map(|text| terminal::fold(&format!("{text}\n\n"), columns));
        let deviations = deviations.unwrap_or_default();
        format!("{}{}\n{}\n{deviations}{}", fold(title), fold(summary), table.trim_matches('\n'), fold(more))
    };
    entries.map(one).collect::<Vec<_>>().join("\n\n")
}

fn table(width: Option<u16>, is_wanted: impl Fn(&Entry) -> bool) -> String {
    let columns = columns(width);
    let groups = ROLES.into_iter().filter_map(|role| group(role, width, &columns, &is_wanted));
    let text = groups.collect::<Vec<_>>().join("\n") + "\n";
    let legend = columns.iter().filter_map(|column| column.legend).collect::<Vec<_>>().join("; ");
    let hint = if is_narrow(width) { "all of one lock: lockswap list ID\n" } else { "" };
    text + &terminal::fold(&format!("{legend}\n{hint}"), width.or(Some(MEDIUM)))
}

fn is_narrow(width: Option<u16>) -> bool {
    width.is_some_and(|width| width < MEDIUM)
}

/// Those that there is room for.
fn columns(width: Option<u16>) -> Vec<Column> {
    let width = width.unwrap_or(u16::MAX);
    let fits = |column: &Column| match column.heading {
        "bytes" | "+lock" | "+thread" | "timed" => width >= NARROW,
        "published" => (MEDIUM..WIDE).contains(&width),
        "paper" => width >= WIDE,
        _ => true,
    };
    COLUMNS.into_iter().filter(fits).collect()
}

fn group(role: Role, width: Option<u16>, columns: &[Column], is_wanted: impl Fn(&Entry) -> bool) -> Option<String> {
    let headings: Vec<&str> = columns.iter().map(|column| column.heading).collect();
    let numeric: Vec<usize> = (0..columns.len()).filter(|index| columns[*index].is_number).collect();
    let mut table = terminal::table(&headings, &numeric);
    if is_narrow(width) {
        table.column_iter_mut().for_each(|c| {
            c.set_padding((0, 1));
        });
    }
    let entries: Vec<_> = by_family(role).into_iter().filter(|entry| is_wanted(entry)).collect();
    for entry in &entries {
        table.add_row(columns.iter().map(|column| (column.cell)(entry)));
    }
    if entries.is_empty() {
        return None;
    }
    let rendered = terminal::lines(&table);
    let (headings, rows) = rendered.split_once('\n').unwrap_or_default();
    let mut text = format!("{}\n\n{headings}\n", heading(role));
    let mut family: Option<Family> = None;
    for (entry, row) in entries.iter().zip(rows.lines()) {
        if family != Some(entry.info.family) {
            family = Some(entry.info.family);
            let family = format!("\n{}: {}\n", entry.info.family.name(), entry.info.family.meaning());
            text += &terminal::fold(&family, width);
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
        for columns in [60, 79, 80, 119, 120, 159, 160, 200] {
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
