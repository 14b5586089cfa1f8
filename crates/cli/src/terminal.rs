//! Tables and the width of the terminal they are shown on.

use std::io::{self, IsTerminal, Write};

use comfy_table::{presets, Cell, CellAlignment, Color, ColumnConstraint, ContentArrangement, Table};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lockswap_study::page::Page;
use lockswap_study::summary::Judgement;

/// Width of the terminal, or `None` where standard output is not one.
pub fn width() -> Option<u16> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    rustix::termios::tcgetwinsize(&stdout).ok().map(|size| size.ws_col).filter(|columns| *columns >= 40)
}

/// A bar for so many runs; hidden where nobody looks at it.
pub fn bar(runs: u64) -> ProgressBar {
    let bar = ProgressBar::new(runs);
    if !io::stderr().is_terminal() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
        return bar;
    }
    // The cursor goes back to the begin: behind a full line, the `^C` that a terminal shows would begin another one.
    let template = "{elapsed} [{bar:24}] {pos}/{len} runs, {eta} left  {wide_msg}\r";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
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

/// Prints a line on stderr, which may be closed, folded where the terminal is narrower.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", fold(line, width()).trim_end());
}

/// The lines of a table, without the blanks that padding leaves at the ends. A table that is wider than the terminal
/// becomes several, each with the columns that say what a row is about.
pub fn lines(table: &Table) -> String {
    lines_at(table, width())
}

fn lines_at(table: &Table, columns: Option<u16>) -> String {
    let trimmed =
        |table: &Table| table.to_string().lines().map(|line| format!("{}\n", line.trim_end())).collect::<String>();
    let whole = trimmed(table);
    let Some(columns) = columns.map(usize::from) else { return whole };
    if whole.lines().all(|line| line.chars().count() <= columns) {
        return whole;
    }
    // One blank of padding on each side.
    let widths: Vec<usize> = table.column_max_content_widths().iter().map(|width| usize::from(*width) + 2).collect();
    let headings: Vec<String> = table.header().into_iter().flat_map(|row| row.cell_iter().map(Cell::content)).collect();
    // Up to the lock, which stands behind what tells settings apart, and numbers of threads behind it.
    let is_lock = |heading: &String| ["lock", "rwlock"].contains(&heading.as_str());
    let lock = headings.iter().take(5).position(is_lock).map_or(1, |place| place + 1);
    let about =
        lock + headings.iter().skip(lock).take_while(|heading| ["with", "threads"].contains(&heading.as_str())).count();
    let about_width: usize = widths.iter().take(about).sum();
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut used = columns;
    for (column, width) in widths.iter().enumerate().skip(about) {
        used += width;
        if used > columns {
            parts.push(Vec::new());
            used = about_width + width;
        }
        parts.last_mut().into_iter().for_each(|part| part.push(column));
    }
    let part = |shown: Vec<usize>| {
        let mut table = table.clone();
        let hidden = (about..widths.len()).filter(|column| !shown.contains(column));
        for column in hidden {
            if let Some(column) = table.column_mut(column) {
                column.set_constraint(ColumnConstraint::Hidden);
            }
        }
        trimmed(&table)
    };
    parts.into_iter().map(part).collect::<Vec<_>>().join("\n")
}

/// The text with each line that is longer than the terminal is wide folded between words, the rest below the line's
/// last column of text.
fn folded(text: &str, columns: usize) -> String {
    let fold = |line: &str| {
        if line.chars().count() <= columns {
            return line.to_owned();
        }
        let body = line.trim_start();
        let indent = line.len() - body.len();
        // Labels stand in the first half, with at least two blanks behind them.
        let label = body.char_indices().take_while(|(at, _)| indent + at < columns / 2);
        let behind = label.filter(|(at, c)| *c != ' ' && body[..*at].ends_with("  ")).last().map_or(0, |(at, _)| at);
        let (label, words) = body.split_at(behind);
        let margin = indent + label.chars().count();
        let lines = wrapped(words, columns.saturating_sub(margin));
        let below = format!("\n{}", " ".repeat(margin));
        format!("{}{label}{}", " ".repeat(indent), lines.trim_end().replace('\n', &below))
    };
    text.split('\n').map(fold).collect::<Vec<_>>().join("\n")
}

/// The text with what a terminal would obey instead of showing it written as an escape, such as `\u{1b}`: names in
/// files of others can hold anything.
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

/// Writes to standard output, in lines that fit the terminal, and in ASCII where the locale has nothing else; a reader
/// that went away is an error like any other, never a panic.
pub fn print(text: &str) -> io::Result<()> {
    if text.starts_with(['{', '[']) {
        return print_data(text);
    }
    let text = width().map_or_else(|| text.to_owned(), |columns| folded(text, columns.into()));
    print_data(&if is_utf8() { text } else { in_ascii(&text) })
}

/// Prints a page for people.
pub fn print_page(page: &Page) -> io::Result<()> {
    print(&page_words(page))
}

/// A page for people as text.
pub fn page_words(page: &Page) -> String {
    let mut text = page.conclusion.iter().map(|line| format!("{line}\n")).collect::<String>();
    for shown in &page.tables {
        text.push('\n');
        text += &shown.title.as_ref().map(|title| format!("{title}\n")).unwrap_or_default();
        let headings: Vec<&str> = shown.columns.iter().map(|(heading, _)| heading.as_str()).collect();
        let numeric: Vec<usize> = (0..headings.len()).filter(|column| shown.columns[*column].1).collect();
        let mut rows = table(&headings, &numeric);
        for row in &shown.rows {
            let tone = match row.judgement {
                Judgement::Better => Tone::Good,
                Judgement::Worse => Tone::Bad,
                Judgement::Failed => Tone::Warning,
                _ => Tone::Plain,
            };
            add_row(&mut rows, row.cells.clone(), tone);
        }
        text += &lines(&rows);
    }
    text.push('\n');
    page.notes.iter().for_each(|note| text += &format!("{note}\n"));
    text
}

/// Writes to standard output as it is: what programs read.
pub fn print_data(text: &str) -> io::Result<()> {
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
    fn wide_tables_become_several_and_long_lines_are_folded() {
        let mut wide = table(&["lock", "threads", "first number", "second number"], &[1, 2, 3]);
        wide.add_row(["mcs", "4", "1", "2"]);
        let parts = " lock  threads  first number\n mcs         4             1\n\n \
                     lock  threads  second number\n mcs         4              2\n";
        assert_eq!(lines_at(&wide, Some(40)), parts);
        assert_eq!(lines_at(&wide, Some(80)).lines().count(), 2);
        assert_eq!(folded("  ok   what  it is so\nas it is\n", 16), "  ok   what  it\n       is so\nas it is\n");
        assert_eq!(folded("one two three", 8), "one two\nthree");
    }

    #[test]
    fn only_what_can_be_seen_reaches_the_terminal() {
        assert_eq!(visible("lib'käse' \"1\".so\\"), "lib'käse' \"1\".so\\");
        assert_eq!(visible("\u{1b}[2J\n\u{9b}31m\u{202e}gpj"), "\\u{1b}[2J\\n\\u{9b}31m\\u{202e}gpj");
    }
}
