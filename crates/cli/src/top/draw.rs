//! The picture on a terminal.

use std::time::Duration;

use lockswap_trace::live::Line;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::columns::{fitting, shortened, Column, COLUMNS, GAP};

/// What is drawn.
pub struct Picture<'a> {
    /// What stands above the table.
    pub above: [String; 3],
    /// The rows that can be seen.
    pub lines: &'a [Line],
    /// Which of them is chosen.
    pub chosen: usize,
    /// The time that they are about.
    pub length: Duration,
    /// What stands below the table, if anything.
    pub pane: Option<&'a [String]>,
}

/// Fewer columns and rows show nothing.
const LEAST: (u16, u16) = (40, 8);

/// Where the parts of the picture are.
pub struct Layout {
    /// The rows of the table, below their titles.
    pub rows: Rect,
    /// What stands below, if there is anything.
    pub pane: Rect,
    area: Rect,
}

impl Layout {
    /// The parts of so much room.
    pub fn new(area: Rect, has_pane: bool) -> Self {
        // Three lines above, the titles, and the keys.
        let room = area.height.saturating_sub(5);
        let pane_height = if has_pane { room - room / 3 } else { 0 };
        let rows = Rect { y: area.y + 4, height: room - pane_height, ..area };
        let pane = Rect { y: rows.bottom(), height: pane_height, ..area };
        Self { rows, pane, area }
    }

    /// Whether there is room for a picture at all.
    pub fn fits(&self) -> bool {
        self.area.width >= LEAST.0 && self.area.height >= LEAST.1
    }
}

const KEYS: &str = "q quit  j/k choose  Enter stacks  s order  t time  space pause  r reset  ? help";

/// Draws it.
pub fn draw(buffer: &mut Buffer, layout: &Layout, picture: &Picture<'_>) {
    let area = layout.area;
    if !layout.fits() {
        let (columns, rows) = LEAST;
        put(buffer, area, 0, &format!("needs {columns} columns and {rows} lines"), Style::new());
        return;
    }
    for (line, text) in (0..).zip(&picture.above) {
        put(buffer, area, line, text, if line == 0 { Modifier::BOLD.into() } else { Style::new() });
    }
    let longest = picture.lines.iter().map(|line| COLUMNS[0].cell(line, picture.length).chars().count()).max();
    let columns = fitting(area.width, longest.unwrap_or_default() as u16);
    let titles = columns.iter().map(|(column, _)| column.title.to_owned());
    row(buffer, Rect { y: layout.rows.y - 1, ..layout.rows }, 0, &columns, titles, Modifier::UNDERLINED.into());
    for (number, line) in (0..layout.rows.height).zip(picture.lines) {
        let cells = columns.iter().map(|(column, _)| column.cell(line, picture.length));
        let is_chosen = usize::from(number) == picture.chosen;
        let style = if is_chosen { Modifier::REVERSED.into() } else { Style::new() };
        row(buffer, layout.rows, number, &columns, cells, style);
    }
    if let Some(text) = picture.pane {
        let rule = "-".repeat(area.width.into());
        put(buffer, layout.pane, 0, &rule, Style::new());
        for (number, text) in (1..layout.pane.height).zip(text) {
            put(buffer, layout.pane, number, text, Style::new());
        }
    }
    put(buffer, area, area.height - 1, KEYS, Modifier::DIM.into());
}

/// Writes a line of an area, as much of it as there is room for.
fn put(buffer: &mut Buffer, area: Rect, line: u16, text: &str, style: Style) {
    if line < area.height {
        buffer.set_stringn(area.x, area.y + line, text, area.width.into(), style);
    }
}

/// Writes a row of the table.
fn row(
    buffer: &mut Buffer,
    area: Rect,
    line: u16,
    columns: &[(&Column, u16)],
    cells: impl Iterator<Item = String>,
    style: Style,
) {
    let (mut x, y) = (area.x, area.y + line);
    buffer.set_style(Rect { y, height: 1, ..area }, style);
    for ((column, width), cell) in columns.iter().zip(cells) {
        let cell = if column.is_wide { shortened(&cell, (*width).into()) } else { cell };
        let blanks = if column.is_number() { width.saturating_sub(cell.len() as u16) } else { 0 };
        buffer.set_stringn(x + blanks, y, cell, (width - blanks).into(), style);
        x += width + GAP;
    }
}
