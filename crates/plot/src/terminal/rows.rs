//! Rows of values in characters.

use super::LEAST_COLUMNS;
use crate::rows::{Kind, Row, Rows};
use crate::scale::Scale;

/// Parts of a bar, in eighths of a character.
const BAR: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// The rows in at most `columns` columns.
pub fn rows(rows: &Rows, columns: usize) -> String {
    let columns = columns.max(LEAST_COLUMNS);
    let (sorted, axis, scale) = (rows.sorted(), rows.axis(), rows.scale());
    let shown = |row: &Row| row.value.filter(|value| axis.shows(*value));
    let widest = |texts: &mut dyn Iterator<Item = &str>, most: usize| {
        texts.map(|text| text.chars().count()).max().unwrap_or(0).min(most)
    };
    let labels = widest(&mut sorted.iter().map(|row| row.label.as_str()), columns / 3);
    let notes = widest(&mut sorted.iter().filter(|r| shown(r).is_some()).map(|r| r.note.as_str()), columns / 3);
    let width = columns - labels - notes - 2;

    let mut text = if rows.title.is_empty() { String::new() } else { format!("{}\n", cut(&rows.title, columns)) };
    for row in &sorted {
        let label = cut(&row.label, labels);
        let line = match shown(row) {
            Some(value) => {
                let cells: String = cells(rows, &scale, width, value, row.interval).into_iter().collect();
                format!("{label:>labels$} {cells} {}", cut(&row.note, notes))
            }
            None => format!("{label:>labels$} {:>1$}", cut(&row.note, width + 1 + notes), width + 1 + notes),
        };
        text += line.trim_end();
        text.push('\n');
    }
    let indent = " ".repeat(labels + 1);
    let (ruler, names) = ruler(&scale, width);
    text += &format!("{indent}{ruler}\n{}\n", format!("{indent}{names}").trim_end());
    if !rows.axis.is_empty() {
        let title = cut(&rows.axis, columns);
        let middle = (labels + 1 + width / 2).saturating_sub(title.chars().count() / 2);
        let start = middle.min(columns - title.chars().count());
        text += &format!("{:start$}{title}\n", "");
    }
    text
}

/// Where a value is drawn.
fn column(scale: &Scale, value: f64, width: usize) -> usize {
    ((scale.position(value).clamp(0.0, 1.0) * width as f64) as usize).min(width - 1)
}

/// A value, its interval and the line at 1.
fn cells(rows: &Rows, scale: &Scale, width: usize, value: f64, interval: Option<(f64, f64)>) -> Vec<char> {
    let mut cells = vec![' '; width];
    let at = |value: f64| column(scale, value, width);
    if rows.kind == Kind::Bar {
        let eighths = (scale.position(value).clamp(0.0, 1.0) * width as f64 * 8.0).round() as usize;
        cells[..eighths / 8].fill(BAR[7]);
        if let Some(part) = (eighths % 8).checked_sub(1) {
            cells[eighths / 8] = BAR[part];
        }
        return cells;
    }
    cells[at(1.0)] = '┆';
    if let Some((low, high)) = interval {
        cells[at(low)..=at(high)].fill('─');
        cells[at(low)] = if low < scale.from { '←' } else { '├' };
        cells[at(high)] = if high > scale.to { '→' } else { '┤' };
    }
    cells[at(value)] = '●';
    cells
}

/// The axis, and its labels.
fn ruler(scale: &Scale, width: usize) -> (String, String) {
    let (mut line, mut names) = (vec!['─'; width], vec![' '; width]);
    let mut free = 0;
    for (value, name) in scale.ticks((width / 8).clamp(2, 9)) {
        let (at, length) = (column(scale, value, width), name.chars().count());
        line[at] = '┴';
        let start = at.saturating_sub(length / 2).min(width.saturating_sub(length));
        if start >= free {
            names[start..].iter_mut().zip(name.chars()).for_each(|(cell, letter)| *cell = letter);
            free = start + length + 1;
        }
    }
    (line.into_iter().collect(), names.into_iter().collect())
}

/// The text, without its end where it is too long.
fn cut(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.into();
    }
    text.chars().take(most.saturating_sub(1)).chain(['\u{2026}']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratios() -> Rows {
        let all = vec![
            Row::new("ticket", 0.99).interval(0.9, 1.1).note("no difference"),
            Row::without_value("ttas")
                .note("killed by signal 11 (SIGSEGV) in all of its ten runs, one after the other"),
            Row::new("mcs_spin", 2.0).interval(1.8, 2.2).note("2.0x"),
            Row::new("a-name-that-is-longer-than-many-terminals-are-wide", 0.5).interval(0.4, 50.0).note("0.5x"),
        ];
        Rows::ratios("./server", "times pthread", all)
    }

    #[test]
    fn rows_are_as_wide_as_told_and_say_everything() {
        for columns in [40, 60, 100, 200] {
            let text = rows(&ratios(), columns);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
            for word in ["./server", "mcs_spin", "2.0x", "no differ", "killed by", "times pthread", "→"] {
                assert!(text.contains(word), "{columns} {word}: {text}");
            }
        }
    }

    #[test]
    fn a_ratio_above_1_lies_right_of_the_line_at_1() {
        let text = rows(&ratios(), 100);
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap();
        let find = |line: &str, wanted: char| line.chars().position(|letter| letter == wanted).unwrap();
        assert!(find(line("mcs_spin"), '●') > find(line("mcs_spin"), '┆') + 5, "{text}");
        assert!(find(line("mcs_spin"), '├') < find(line("mcs_spin"), '●'), "{text}");
        assert!(find(line("mcs_spin"), '●') > find(line("ticket"), '●') + 5, "{text}");
        assert!(text.find("mcs_spin") < text.find("ticket") && text.find("ticket") < text.find("ttas"), "{text}");
    }

    #[test]
    fn bars_are_as_long_as_their_values() {
        let bars = Rows::bars("", "M ops/s", vec![Row::new("a", 4.0), Row::new("b", 2.0), Row::new("c", 0.0)]);
        let text = rows(&bars, 80);
        let full = |name: &str| text.lines().find(|l| l.trim_start().starts_with(name)).unwrap().matches('█').count();
        assert!(full("a") > 60 && full("b").abs_diff(full("a") / 2) <= 1 && full("c") == 0, "{text}");
    }

    #[test]
    fn nothing_to_show_is_no_reason_to_panic() {
        assert!(!rows(&Rows::ratios("", "", Vec::new()), 0).is_empty());
        assert!(!rows(&Rows::bars("", "", vec![Row::new("", f64::INFINITY)]), 0).is_empty());
    }
}
