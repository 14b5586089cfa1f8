//! Tables and the width of the terminal they are shown on.

use std::io::{self, IsTerminal, Write};

use comfy_table::{presets, CellAlignment, ColumnConstraint, ContentArrangement, Table};

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

/// Folds the last column of a table that is wider than the terminal.
pub fn fold_last_column(table: &mut Table) {
    let Some(width) = width() else { return };
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    let last = table.column_count().saturating_sub(1);
    for column in table.column_iter_mut().take(last) {
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
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

/// Writes to standard output; a reader that went away is an error like any other, never a panic.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_seen_reaches_the_terminal() {
        assert_eq!(visible("lib'käse' \"1\".so\\"), "lib'käse' \"1\".so\\");
        assert_eq!(visible("\u{1b}[2J\n\u{9b}31m\u{202e}gpj"), "\\u{1b}[2J\\n\\u{9b}31m\\u{202e}gpj");
    }
}
