//! A line chart in characters: lines in braille dots, points as the symbols that the legend names. Bands are left out.

use super::{fill, LEAST_COLUMNS};
use crate::chart::{Axis, Chart, Series, Shape};
use crate::scale::{label, time, Scale};

/// Lines of the chart itself, without title, labels and legend.
const ROWS: usize = 18;
const SYMBOLS: [char; 6] = ['●', '■', '▲', '◆', '▼', '○'];
const MARK: char = '◎';
const ACROSS: char = '┄';
const UP: char = '┆';
const ZONE: char = '░';
const FADED: char = '⠒';
/// A braille character is two dots wide and four high.
const BRAILLE: u32 = 0x2800;

struct Canvas {
    columns: usize,
    cells: Vec<char>,
}

impl Canvas {
    fn cell(&mut self, column: usize, row: usize) -> &mut char {
        &mut self.cells[row * self.columns + column]
    }

    /// The cell where a point lies, if it is on the canvas.
    fn find(&self, (across, up): (f64, f64)) -> Option<(usize, usize)> {
        let place = |position: f64, cells: usize| {
            (-1e-9..=1.0 + 1e-9)
                .contains(&position)
                .then(|| (position.max(0.0) * cells as f64) as usize)
                .map(|c| c.min(cells - 1))
        };
        Some((place(across, self.columns)?, ROWS - 1 - place(up, ROWS)?))
    }

    fn dot(&mut self, (across, up): (f64, f64)) {
        let Some((column, row)) = self.find((across, up)) else { return };
        let fine = |position: f64, count: usize| ((position.max(0.0) * count as f64) as usize).min(count - 1);
        let (x, y) = (fine(across, self.columns * 2) % 2, 3 - fine(up, ROWS * 4) % 4);
        let bit = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]][x][y];
        let cell = self.cell(column, row);
        let before = (*cell as u32).checked_sub(BRAILLE).filter(|dots| *dots < 256).unwrap_or(0);
        *cell = char::from_u32(BRAILLE + (before | bit)).unwrap_or(*cell);
    }

    fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let reach = |from: f64, to: f64, dots: usize| (to - from).abs() * dots as f64;
        let steps = reach(from.0, to.0, self.columns * 2).max(reach(from.1, to.1, ROWS * 4)).ceil();
        let steps = steps.clamp(1.0, 10_000.0);
        for step in 0..=steps as usize {
            let share = step as f64 / steps;
            self.dot((from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share));
        }
    }
}

/// The chart in at most `columns` columns.
pub fn chart(chart: &Chart, columns: usize) -> String {
    let columns = columns.max(LEAST_COLUMNS);
    let (x, y) = chart.scales();
    let y_ticks = y.ticks(6);
    let margin = y_ticks.iter().map(|tick| tick.1.chars().count()).max().unwrap_or(0);
    let mut canvas = Canvas { columns: columns - margin - 2, cells: Vec::new() };
    canvas.cells = vec![' '; canvas.columns * ROWS];
    draw(chart, &mut canvas, &x, &y);

    let mut text = String::new();
    for line in [&chart.title, &chart.y.title].into_iter().filter(|line| !line.is_empty()) {
        text += &format!("{line}\n");
    }
    let labelled = |row: usize| y_ticks.iter().find(|tick| canvas.find((0.0, y.position(tick.0))) == Some((0, row)));
    for (row, cells) in canvas.cells.chunks(canvas.columns).enumerate() {
        let (name, edge) = labelled(row).map_or(("", '│'), |tick| (tick.1.as_str(), '┤'));
        let line: String = cells.iter().collect();
        text += format!("{name:>margin$} {edge}{line}").trim_end();
        text.push('\n');
    }
    text += &below(&x, margin, canvas.columns);
    let centred = (canvas.columns + margin + 2).saturating_sub(chart.x.title.chars().count()) / 2;
    text += &format!("{:centred$}{}\n", "", chart.x.title);
    text + &fill(legend(chart), columns)
}

fn draw(chart: &Chart, canvas: &mut Canvas, x: &Scale, y: &Scale) {
    let shown = |series: &Series| -> Vec<(f64, f64)> {
        let points = series.points.iter().filter(|(x, y)| chart.x.shows(*x) && chart.y.shows(*y));
        points.map(|point| (x.position(point.0), y.position(point.1))).collect()
    };
    for zone in &chart.zones {
        let scale = if zone.vertical { x } else { y };
        let ends = [zone.from, zone.to].map(|value| scale.position(value).clamp(0.0, 1.0));
        if let (Some(low), Some(high)) = (canvas.find((ends[0], ends[0])), canvas.find((ends[1], ends[1]))) {
            let (columns, rows) =
                if zone.vertical { (low.0..=high.0, 0..=ROWS - 1) } else { (0..=canvas.columns - 1, high.1..=low.1) };
            rows.for_each(|row| columns.clone().for_each(|column| *canvas.cell(column, row) = ZONE));
        }
    }
    for reference in &chart.references {
        if let Some((_, row)) = reference.y().and_then(|value| canvas.find((0.0, y.position(value)))) {
            (0..canvas.columns).for_each(|column| *canvas.cell(column, row) = ACROSS);
        }
        if let Some((column, _)) = reference.x().and_then(|value| canvas.find((x.position(value), 0.0))) {
            (0..ROWS).for_each(|row| *canvas.cell(column, row) = UP);
        }
    }
    for series in chart.series.iter().filter(|series| series.shape != Shape::Points) {
        for pair in shown(series).windows(2) {
            let corner = if series.shape == Shape::Steps { (pair[1].0, pair[0].1) } else { pair[1] };
            canvas.line(pair[0], corner);
            canvas.line(corner, pair[1]);
        }
    }
    let numbered = chart.numbers().into_iter().zip(&chart.series).filter(|(_, series)| !series.faded);
    for (number, series) in numbered {
        let points = shown(series);
        let sparse = matches!(series.shape, Shape::Plain | Shape::Steps);
        // A line without symbols gets a few, so that the legend can name it.
        let chosen: Vec<(f64, f64)> = match points.len() {
            count if sparse && count > 4 => (1..=4).map(|fifth| points[(count - 1) * fifth / 5]).collect(),
            _ => points,
        };
        for point in chosen {
            if let Some((column, row)) = canvas.find(point) {
                *canvas.cell(column, row) = SYMBOLS[number % SYMBOLS.len()];
            }
        }
    }
    for mark in chart.marks.iter().filter(|mark| chart.x.shows(mark.x) && chart.y.shows(mark.y)) {
        if let Some((column, row)) = canvas.find((x.position(mark.x), y.position(mark.y))) {
            *canvas.cell(column, row) = MARK;
        }
    }
}

/// The horizontal axis and its labels.
fn below(x: &Scale, margin: usize, columns: usize) -> String {
    let mut axis = vec!['─'; columns];
    let mut labels = vec![' '; columns + margin + 2];
    let mut free = 0;
    for (value, name) in x.ticks((columns / 9).min(9)) {
        let column = ((x.position(value) * columns as f64) as usize).min(columns - 1);
        axis[column] = '┬';
        let width = name.chars().count();
        let start = (column + margin + 2).saturating_sub(width / 2).min(labels.len().saturating_sub(width));
        if start >= free {
            labels[start..].iter_mut().zip(name.chars()).for_each(|(cell, letter)| *cell = letter);
            free = start + width + 1;
        }
    }
    let (axis, labels): (String, String) = (axis.into_iter().collect(), labels.into_iter().collect());
    format!("{:margin$} └{axis}\n{}\n", "", labels.trim_end())
}

/// What the symbols stand for.
fn legend(chart: &Chart) -> Vec<String> {
    let named = chart.numbers().into_iter().zip(&chart.series).filter(|(_, series)| !series.name.is_empty());
    let symbol = |number: usize, faded| if faded { FADED } else { SYMBOLS[number % SYMBOLS.len()] };
    let series = named.map(|(number, series)| format!("{} {}", symbol(number, series.faded), series.name));
    let labelled = chart.zones.iter().filter(|zone| !zone.label.is_empty());
    let zones = labelled.map(|zone| format!("{ZONE} {}", zone.label));
    let references = chart.references.iter().map(|line| match (line.x(), line.y()) {
        (Some(x), _) => format!("{UP} {} at {}", line.label, shown(&chart.x, x)),
        (_, y) => format!("{ACROSS} {} at {}", line.label, shown(&chart.y, y.unwrap_or_default())),
    });
    let marks = chart
        .marks
        .iter()
        .map(|mark| format!("{MARK} {} ({}, {})", mark.label, shown(&chart.x, mark.x), shown(&chart.y, mark.y)));
    series.chain(zones).chain(references).chain(marks).collect()
}

/// A value of an axis to three digits.
fn shown(axis: &Axis, value: f64) -> String {
    if axis.is_time {
        time(value)
    } else {
        three_digits(value)
    }
}

/// A value to three digits.
fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return label(value, 1.0, 0.0);
    }
    let grain = 10f64.powi(value.abs().log10().floor() as i32 - 2);
    let rounded = (value / grain).round();
    // Trailing zeros say nothing.
    let trailing = [100.0, 10.0, 1.0].into_iter().find(|zeros| rounded % zeros == 0.0).unwrap_or(1.0);
    label(rounded * grain, grain * trailing, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mark, Reference, Zone};

    #[test]
    fn numbers_in_the_legend_have_three_digits_and_no_idle_zeros() {
        let numbers = [104_858.0, 0.99, 30.0, 1.35e6, 0.0, -2.5, 1000.0].map(three_digits);
        assert_eq!(numbers, ["105k", "0.99", "30", "1.35M", "0", "-2.5", "1000"]);
    }

    #[test]
    fn a_chart_is_as_wide_as_told_and_names_everything_it_shows() {
        let mut all = Chart::new("A title", Axis::log("threads"), Axis::linear("M ops/s").from_zero());
        all.series.push(Series::new("mcs", [(1.0, 9.0), (64.0, 4.0)]));
        all.series.push(Series::new("ticket", [(1.0, 9.5), (8.0, 1.0)]));
        all.references.push(Reference::horizontal(5.0, "goal"));
        all.references.push(Reference::vertical(4.0, "CPUs"));
        all.marks.push(Mark::new(8.0, 1.0, "collapse"));
        all.zones.push(Zone::horizontal(8.0, 9.0, "what is wanted"));
        all.series.push(Series::new("others", [(1.0, 3.0), (64.0, 2.0)]).faded());
        for columns in [40, 80, 200] {
            let text = chart(&all, columns);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{text}");
            for word in [
                "A title",
                "threads",
                "M ops/s",
                "● mcs",
                "■ ticket",
                "┄ goal at 5",
                "┆ CPUs at 4",
                "◎ collapse (8, 1)",
                "░ what is wanted",
                "⠒ others",
                "░░░░░",
            ] {
                assert!(text.contains(word), "{word}: {text}");
            }
        }
    }

    #[test]
    fn a_rising_line_rises() {
        let mut rising = Chart::new("", Axis::linear("x"), Axis::linear("y"));
        rising.series.push(Series::new("a", [(0.0, 0.0), (1.0, 1.0)]));
        let text = chart(&rising, 60);
        let column = |line: &str| line.chars().position(|c| c == '●');
        let symbols: Vec<usize> = text.lines().take(1 + ROWS).filter_map(column).collect();
        assert!(matches!(symbols[..], [right, left] if right > left + 40), "{text}");
    }

    #[test]
    fn nothing_to_show_is_no_reason_to_panic() {
        let empty = Chart::new("", Axis::log(""), Axis::linear(""));
        assert!(chart(&empty, 0).lines().count() > ROWS);
    }
}
