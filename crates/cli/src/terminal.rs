//! Tables and the width of the terminal they are shown on.

use std::io::{self, IsTerminal, Write};

use comfy_table::{presets, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table};

/// Width of the terminal, or `None` where standard output is not one.
pub fn width() -> Option<u16> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    rustix::termios::tcgetwinsize(&stdout).ok().map(|size| size.ws_col).filter(|columns| *columns >= 40)
}

/// A table with these headings; `numeric` columns are aligned to the right.
pub fn table(headings: &[&str], numeric: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(headings);
    // One blank at the left of the table, two between columns.
    for column in table.column_iter_mut() {
        column.set_padding((1, 1));
    }
    for &column in numeric {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// What a row says, which colours its last cell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Nothing special.
    Plain,
    /// Better.
    Good,
    /// Worse.
    Bad,
    /// Something went wrong.
    Warning,
}

/// Adds a row; colours go to a terminal only, and not if NO_COLOR is set (https://no-color.org).
pub fn add_row(table: &mut Table, cells: Vec<String>, tone: Tone) {
    let colour = match tone {
        _ if !has_colours() => None,
        Tone::Plain => None,
        Tone::Good => Some(Color::Green),
        Tone::Bad => Some(Color::Red),
        Tone::Warning => Some(Color::Yellow),
    };
    let last = cells.len().saturating_sub(1);
    let cell = |(index, text): (usize, String)| match colour {
        Some(colour) if index == last => Cell::new(text).fg(colour),
        _ => Cell::new(text),
    };
    table.add_row(cells.into_iter().enumerate().map(cell));
}

fn has_colours() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// The text in lines of at most so many characters.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Folds the last column of a table that is wider than the terminal.
pub fn fold_last_column(table: &mut Table) {
    fold_last_column_at(table, width());
}

/// Folds the last column of a table that is wider than so many columns of text.
pub fn fold_last_column_at(table: &mut Table, width: Option<u16>) {
    let Some(width) = width else { return };
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    let last = table.column_count().saturating_sub(1);
    for column in table.column_iter_mut().take(last) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
}

/// The text with lines folded between words so that they fit into so many columns.
pub fn fold(text: &str, columns: Option<u16>) -> String {
    let Some(columns) = columns else { return text.to_owned() };
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(columns);
    table.add_row([text.trim_end_matches('\n')]);
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 0));
    });
    lines(&table)
}

/// The lines of a table, without the blanks that padding leaves at the ends.
pub fn lines(table: &Table) -> String {
    table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// The text with what a terminal would obey instead of showing it written as an escape, such as `\u{1b}`: names in files of
/// others can hold anything.
pub fn visible(text: &str) -> String {
    let show = |c: char| if "\"'\\".contains(c) { c.to_string() } else { c.escape_debug().to_string() };
    text.chars().map(show).collect()
}

/// Whether the user's locale has more than ASCII; where none is set, nobody knows, and terminals of today do.
fn is_utf8() -> bool {
    let set = |name: &&str| std::env::var(name).is_ok_and(|locale| !locale.is_empty());
    let Some(name) = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(|name| set(name)) else { return true };
    let locale = std::env::var(name).unwrap_or_default().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// The text with ASCII in the place of the other signs that tables and pictures consist of. Names of others stay.
fn in_ascii(text: &str) -> String {
    let plain = |sign: char| match sign {
        '±' => "+-".to_owned(),
        'µ' => "u".to_owned(),
        '²' => "^2".to_owned(),
        '×' => "x".to_owned(),
        '–' => "-".to_owned(),
        '…' => "...".to_owned(),
        '─' => "-".to_owned(),
        '│' => "|".to_owned(),
        '\u{2500}'..='\u{257f}' => "+".to_owned(),
        '\u{2580}'..='\u{259f}' => "#".to_owned(),
        '\u{2800}'..='\u{28ff}' => "*".to_owned(),
        '·' => ".".to_owned(),
        '\u{25a0}'..='\u{25ff}' => "*".to_owned(),
        other => other.to_string(),
    };
    text.chars().map(plain).collect()
}

/// Writes to standard output, in ASCII where the locale has nothing else; a reader that went away is an error like any other, never a panic.
pub fn print(text: &str) -> io::Result<()> {
    let text = if is_utf8() || text.starts_with(['{', '[']) { text.to_owned() } else { in_ascii(text) };
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_have_names_in_ascii() {
        assert_eq!(in_ascii("├─ 1 µs ±5 │ käse\n"), "+- 1 us +-5 | käse\n");
    }

    #[test]
    fn only_what_can_be_seen_reaches_the_terminal() {
        assert_eq!(visible("lib'käse' \"1\".so\\"), "lib'käse' \"1\".so\\");
        assert_eq!(visible("\u{1b}[2J\n\u{9b}31m\u{202e}gpj"), "\\u{1b}[2J\\n\\u{9b}31m\\u{202e}gpj");
    }
}
