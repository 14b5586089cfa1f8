//! A heat map on paper.

use super::canvas::{length, render, Anchor, Ink, Paper, Point, BLACK, COLOURS, GREY, TEXT, WHITE};
use super::page::{cut, wrap, Page};
use crate::heat_map::cell as text;
use crate::scale::Scale;
use crate::{HeatMap, Look};
use plotters::style::colors::colormaps::{ColorMap, ViridisRGB};
use plotters::style::RGBColor;

/// The side of the square where nobody asked for a width, and the side of a cell: few cells make a small picture.
const SIDE: f64 = 720.0;
const CELL: f64 = 64.0;
/// The height of a row of a table, where cells are no squares.
const ROW: f64 = 22.0;
/// So small that title and legend still have a place.
const LEAST_SIDE: f64 = 130.0;
const LEAST_WIDTH: f64 = 380.0;
/// Right of the square: colours and what they mean.
const LEGEND: f64 = 116.0;
/// Above the square: the title of the columns and their names.
const ABOVE: f64 = 44.0;
const MARGIN: f64 = 12.0;
/// Colours told apart; neighbours of one colour are drawn as one tile.
const SHADES: f64 = 63.0;
/// A tile reaches this far under the next ones, so that no paper shines through between them.
const SEAM: f64 = 0.5;
/// Borders between the largest groups and between smaller ones: how thick, and at most which share of a cell.
const BORDERS: [(f64, f64); 2] = [(3.5, 0.5), (1.5, 0.2)];
/// Numbers on dark and on bright cells, whatever the paper is.
const ON_DARK: Ink = Ink(RGBColor(254, 254, 254), 1.0);
const ON_BRIGHT: Ink = Ink(RGBColor(20, 20, 20), 1.0);
/// The frames of a route, on the colours of the map.
const ROUTE: Ink = Ink(COLOURS[1], 1.0);

/// The bytes of a file with the picture.
pub fn heat_map(map: &HeatMap, look: Look) -> Vec<u8> {
    let left = widest(&map.names).max(0.0) + MARGIN + TEXT + 16.0;
    let most = (map.width() as f64 * CELL).max(LEAST_SIDE);
    let width = look.width_or((left + most.min(SIDE) + LEGEND).max(LEAST_WIDTH));
    let side = most.min(width - left - LEGEND);
    let cell = side / map.width().max(1) as f64;
    let row = if map.is_square() { cell } else { ROW };
    let above = if are_upright(map, cell) { 30.0 + widest(map.column_names()) } else { ABOVE };
    let high = row * map.height().max(1) as f64;
    let notes = wrap(&notes(map, cell.min(row)), TEXT - 1.0, width - 2.0 * MARGIN, 6);
    let below = if notes.is_empty() { 0.0 } else { 12.0 + notes.len() as f64 * NOTE };
    let page = Page::new(width, above + high + below + 4.0, &map.title, &map.footer);
    let field = Field { corner: (left, page.top + above), size: (side, high), cell: (cell, row) };
    render(page.size(), look, |paper| {
        page.draw(paper);
        draw(map, paper, &field);
        for (line, note) in notes.iter().enumerate() {
            let down = field.corner.1 + high + 12.0 + (line as f64 + 0.5) * NOTE;
            paper.text(note, (MARGIN, down), Anchor::Left, TEXT - 1.0, GREY, false);
        }
    })
}

/// The length of the longest name.
fn widest(names: &[String]) -> f64 {
    names.iter().map(|name| length(name, TEXT)).fold(0.0, f64::max)
}

/// Whether the names of a table's columns stand upright, because none may be left out and they are wider than the
/// columns.
fn are_upright(map: &HeatMap, cell: f64) -> bool {
    !map.is_square() && widest(map.column_names()) + 8.0 > cell
}

/// A longer route is not listed.
const LISTED: usize = 32;
/// From one line of notes to the next.
const NOTE: f64 = 17.0;

/// Where the cells are.
#[derive(Clone, Copy)]
struct Field {
    corner: Point,
    /// Width and height of all cells.
    size: Point,
    /// Width and height of one.
    cell: Point,
}

impl Field {
    /// The corner of a cell.
    fn at(&self, row: usize, column: usize) -> Point {
        (self.corner.0 + column as f64 * self.cell.0, self.corner.1 + row as f64 * self.cell.1)
    }
}

/// The borders to draw, of the largest groups first: where each row begins, and how thick.
fn borders(map: &HeatMap, cell: f64) -> impl Iterator<Item = (&str, Vec<usize>, f64)> {
    let useful = map.groups.iter().map(|groups| (groups.name.as_str(), groups.borders()));
    // Borders must not hide the cells.
    let useful = useful.filter(move |(_, starts)| !starts.is_empty() && cell >= 1.0);
    let widths = BORDERS.into_iter().map(move |(width, share)| width.min(share * cell));
    useful.zip(widths).map(|((name, starts), width)| (name, starts, width))
}

/// What borders and frames mean, in words.
fn notes(map: &HeatMap, cell: f64) -> String {
    let kinds = ["Thick", "Thin"];
    let borders = borders(map, cell).zip(kinds).map(|((name, ..), kind)| format!("{kind} borders: {name}."));
    let route = (map.is_square() && map.route.len() > 1).then(|| {
        let names: Vec<&str> = map.route.iter().filter_map(|row| map.names.get(*row)).map(String::as_str).collect();
        let list = if names.len() <= LISTED { format!(" {}", names.join(", ")) } else { String::new() };
        format!("Orange: from one to the next on the route{list}.")
    });
    borders.chain(route).collect::<Vec<_>>().join(" ")
}

fn draw(map: &HeatMap, paper: &dyn Paper, field: &Field) {
    let Field { corner, cell, size } = *field;
    let scale = map.scale();
    let shade = |value: f64| (scale.position(value).clamp(0.0, 1.0) * SHADES).round();
    for row in 0..map.height() {
        let shades: Vec<Option<f64>> = (0..map.width()).map(|column| map.value(row, column).map(shade)).collect();
        let mut column = 0;
        for run in shades.chunk_by(|a, b| a == b) {
            let from = field.at(row, column);
            let to = (from.0 + run.len() as f64 * cell.0, from.1 + cell.1);
            let ink = run[0].map_or(WHITE, |shade| colour(shade / SHADES));
            paper.tile(from, (to.0 + SEAM, to.1 + SEAM), ink);
            column += run.len();
        }
    }
    let end = (corner.0 + size.0, corner.1 + size.1);
    paper.tile((end.0, corner.1), (end.0 + SEAM, end.1 + SEAM), WHITE);
    paper.tile((corner.0, end.1), (end.0 + SEAM, end.1 + SEAM), WHITE);
    for (_, starts, width) in borders(map, cell.0.min(cell.1)) {
        for start in starts {
            let (across, down) = field.at(start, start);
            if map.is_square() {
                paper.tile((across - width / 2.0, corner.1), (across + width / 2.0, end.1), WHITE);
            }
            paper.tile((corner.0, down - width / 2.0), (end.0, down + width / 2.0), WHITE);
        }
    }
    if map.is_square() {
        route(map, paper, field);
    }
    if cell.0 >= 26.0 {
        numbers(map, paper, field, shade);
    }
    names(map, paper, field);
    legend(map, &scale, paper, field);
}

fn colour(share: f64) -> Ink {
    let RGBColor(r, g, b) = ViridisRGB.get_color(share);
    Ink(RGBColor(r, g, b), 1.0)
}

/// A frame in each cell from one of the route to the next.
fn route(map: &HeatMap, paper: &dyn Paper, field: &Field) {
    let next = map.route.iter().cycle().skip(1);
    for (from, to) in map.route.iter().zip(next).filter(|(from, to)| from != to) {
        if *from.max(to) >= map.height() {
            continue;
        }
        let ((left, above), (cell, _)) = (field.at(*from, *to), field.cell);
        if cell < 7.0 {
            paper.tile((left, above), (left + cell.max(2.0), above + cell.max(2.0)), ROUTE);
            continue;
        }
        let width = (cell / 10.0).clamp(1.5, 3.0);
        let (near, far) = (1.0, cell - 1.0);
        let sides = [
            ((near, near), (far, near + width)),
            ((near, far - width), (far, far)),
            ((near, near), (near + width, far)),
            ((far - width, near), (far, far)),
        ];
        let place = |(across, down): Point| (left + across, above + down);
        sides.into_iter().for_each(|(from, to)| paper.tile(place(from), place(to), ROUTE));
    }
}

/// The values in the cells, as large as they fit.
fn numbers(map: &HeatMap, paper: &dyn Paper, field: &Field, shade: impl Fn(f64) -> f64) {
    let widest = map.shown().map(|value| length(&text(value), TEXT)).fold(1.0, f64::max);
    let room = field.cell.0 - if map.route.is_empty() { 6.0 } else { 12.0 };
    let size = TEXT * (room / widest).min(1.0);
    if size < 7.0 {
        return;
    }
    for row in 0..map.height() {
        for column in 0..map.width() {
            if let Some(value) = map.value(row, column) {
                // Viridis is dark at its lower end.
                let ink = if shade(value) / SHADES < 0.6 { ON_DARK } else { ON_BRIGHT };
                let (left, above) = field.at(row, column);
                let middle = (left + field.cell.0 / 2.0, above + field.cell.1 / 2.0);
                paper.text(&text(value), middle, Anchor::Middle, size, ink, false);
            }
        }
    }
}

/// The names of rows and columns, as many as fit; always the first and the last, and in a table all columns.
fn names(map: &HeatMap, paper: &dyn Paper, field: &Field) {
    let Field { corner, size, cell } = *field;
    let (rows, columns) = (&map.names, map.column_names());
    let every = |cell: f64, room: f64| {
        let steps = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
        steps.into_iter().find(|n| *n as f64 * cell >= room).unwrap_or(2048)
    };
    // The last one always, and of those before it the ones that leave it room.
    let is_named = |index: usize, every: usize, count: usize| {
        index + 1 == count || (index.is_multiple_of(every) && index + every < count)
    };
    let (in_rows, is_upright) = (every(cell.1, 16.0), are_upright(map, cell.0));
    let in_columns = every(cell.0, if is_upright { 16.0 } else { widest(columns) + 8.0 });
    for (index, name) in columns.iter().enumerate().filter(|(index, _)| is_named(*index, in_columns, columns.len())) {
        let across = corner.0 + (index as f64 + 0.5) * cell.0;
        let (down, anchor) = if is_upright { (8.0, Anchor::Left) } else { (12.0, Anchor::Middle) };
        paper.text(name, (across, corner.1 - down), anchor, TEXT, BLACK, is_upright);
    }
    for (index, name) in rows.iter().enumerate().filter(|(index, _)| is_named(*index, in_rows, rows.len())) {
        let down = corner.1 + (index as f64 + 0.5) * cell.1;
        paper.text(name, (corner.0 - 8.0, down), Anchor::Right, TEXT, BLACK, false);
    }
    let above = if is_upright { widest(columns) + 19.0 } else { 33.0 };
    paper.text(map.columns_are(), (corner.0 + size.0 / 2.0, corner.1 - above), Anchor::Middle, TEXT, GREY, false);
    paper.text(&map.sides, (MARGIN + TEXT / 2.0, corner.1 + size.1 / 2.0), Anchor::Middle, TEXT, GREY, true);
}

/// The colours and what they stand for, from the greatest value to the least.
fn legend(map: &HeatMap, scale: &Scale, paper: &dyn Paper, field: &Field) {
    let (left, top, side) = (field.corner.0 + field.size.0 + 20.0, field.corner.1, field.size.1);
    let at = |share: f64| top + (1.0 - share) * side;
    let step = 1.0 / (SHADES + 1.0);
    for index in (0..=SHADES as usize).rev() {
        let above = at((index + 1) as f64 * step);
        paper.tile((left, above), (left + 16.0, top + side), colour(index as f64 / SHADES));
    }
    let (least, most) = map.ends.unwrap_or_else(|| map.range());
    let ends: Vec<f64> = if least < most { vec![least, most] } else { vec![least] };
    let ends = ends.into_iter().filter(|end| end.is_finite()).map(|end| (end, text(end)));
    let ends: Vec<(f64, String)> = ends.collect();
    let count = ((side / 45.0) as usize).clamp(2, 12);
    let is_free =
        |value: f64| ends.iter().all(|(end, _)| (at(scale.position(*end)) - at(scale.position(value))).abs() > 15.0);
    // Where all values are one, the others on the scale would say nothing.
    let between = scale.ticks(count).into_iter().filter(|(value, _)| least < most && is_free(*value));
    let ticks: Vec<(f64, String)> = between.chain(ends.iter().cloned()).collect();
    for (value, label) in &ticks {
        let down = at(scale.position(*value));
        paper.line(&[(left + 16.0, down), (left + 21.0, down)], GREY, 1.0);
        paper.text(label, (left + 25.0, down), Anchor::Left, TEXT, BLACK, false);
    }
    let widest = ticks.iter().map(|tick| length(&tick.1, TEXT)).fold(0.0, f64::max);
    let unit = cut(&map.unit, TEXT, side + ABOVE);
    // What is longer than the cells are high begins at their end and reaches above them.
    let middle = (top + side / 2.0).min(top + side - length(&unit, TEXT) / 2.0);
    paper.text(&unit, (left + 25.0 + widest + 14.0, middle), Anchor::Middle, TEXT, GREY, true);
}
