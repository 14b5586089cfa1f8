//! A heat map on paper.

use super::canvas::{length, render, Anchor, Ink, Paper, Point, BLACK, GREY, TEXT, WHITE};
use crate::heat_map::cell as text;
use crate::scale::Scale;
use crate::{HeatMap, Look};
use plotters::style::colors::colormaps::{ColorMap, ViridisRGB};
use plotters::style::RGBColor;

/// The side of the square.
const SIDE: f64 = 720.0;
/// Colours told apart; neighbours of one colour are drawn as one tile.
const COLOURS: f64 = 63.0;
/// A tile reaches this far under the next ones, so that no paper shines through between them.
const SEAM: f64 = 0.5;

/// The bytes of a file with the picture.
pub fn heat_map(map: &HeatMap, look: Look) -> Vec<u8> {
    let top = if map.title.is_empty() { 52.0 } else { 84.0 };
    let size = (SIDE + 180.0, top + SIDE + 24.0);
    render(size, look, |paper| draw(map, paper, size, (70.0, top)))
}

fn draw(map: &HeatMap, paper: &dyn Paper, size: Point, corner: Point) {
    paper.tile((0.0, 0.0), size, WHITE);
    paper.text(&map.title, (corner.0, 24.0), Anchor::Left, 16.0, BLACK, false);
    let side = map.side();
    let cell = SIDE / side.max(1) as f64;
    let scale = map.scale();
    let shade = |value: f64| (scale.position(value) * COLOURS).round();
    for row in 0..side {
        let shades: Vec<Option<f64>> = (0..side).map(|column| map.value(row, column).map(shade)).collect();
        let above = corner.1 + row as f64 * cell;
        let mut column = 0;
        for run in shades.chunk_by(|a, b| a == b) {
            let from = (corner.0 + column as f64 * cell, above);
            let to = (from.0 + run.len() as f64 * cell, above + cell);
            let ink = run[0].map_or(WHITE, |shade| colour(shade / COLOURS));
            paper.tile(from, (to.0 + SEAM, to.1 + SEAM), ink);
            column += run.len();
        }
    }
    paper.tile((corner.0 + SIDE, corner.1), (corner.0 + SIDE + SEAM, corner.1 + SIDE), WHITE);
    paper.tile((corner.0, corner.1 + SIDE), (corner.0 + SIDE, corner.1 + SIDE + SEAM), WHITE);
    if cell >= 26.0 {
        numbers(map, paper, corner, cell, shade);
    }
    names(map, paper, corner, cell);
    legend(map, &scale, paper, (corner.0 + SIDE + 24.0, corner.1));
}

fn colour(share: f64) -> Ink {
    let RGBColor(r, g, b) = ViridisRGB.get_color(share);
    Ink(RGBColor(r, g, b), 1.0)
}

/// The values in the cells, as large as they fit.
fn numbers(map: &HeatMap, paper: &dyn Paper, corner: Point, cell: f64, shade: impl Fn(f64) -> f64) {
    let widest = map.shown().map(|value| length(&text(value), TEXT)).fold(1.0, f64::max);
    let size = TEXT * ((cell - 6.0) / widest).min(1.0);
    if size < 7.0 {
        return;
    }
    for row in 0..map.side() {
        for column in 0..map.side() {
            if let Some(value) = map.value(row, column) {
                let middle = |index: usize| (index as f64 + 0.5) * cell;
                // Viridis is dark at its lower end.
                let ink = if shade(value) / COLOURS < 0.6 { WHITE } else { BLACK };
                let at = (corner.0 + middle(column), corner.1 + middle(row));
                paper.text(&text(value), at, Anchor::Middle, size, ink, false);
            }
        }
    }
}

/// The names of rows and columns, as many as fit.
fn names(map: &HeatMap, paper: &dyn Paper, corner: Point, cell: f64) {
    let widest = map.names.iter().map(|name| length(name, TEXT)).fold(1.0, f64::max);
    let every = |room: f64| [1, 2, 4, 8, 16, 32, 64, 128].into_iter().find(|n| *n as f64 * cell >= room).unwrap_or(256);
    let (in_rows, in_columns) = (every(16.0), every(widest + 8.0));
    for (index, name) in map.names.iter().enumerate() {
        let middle = (index as f64 + 0.5) * cell;
        if index % in_columns == 0 {
            paper.text(name, (corner.0 + middle, corner.1 - 12.0), Anchor::Middle, TEXT, BLACK, false);
        }
        if index % in_rows == 0 {
            paper.text(name, (corner.0 - 8.0, corner.1 + middle), Anchor::Right, TEXT, BLACK, false);
        }
    }
    paper.text(&map.sides, (corner.0 + SIDE / 2.0, corner.1 - 34.0), Anchor::Middle, TEXT, GREY, false);
    paper.text(&map.sides, (18.0, corner.1 + SIDE / 2.0), Anchor::Middle, TEXT, GREY, true);
}

/// The colours and what they stand for, downwards from `corner`.
fn legend(map: &HeatMap, scale: &Scale, paper: &dyn Paper, corner: Point) {
    let at = |share: f64| corner.1 + (1.0 - share) * SIDE;
    let step = 1.0 / (COLOURS + 1.0);
    for index in (0..=COLOURS as usize).rev() {
        let above = at((index + 1) as f64 * step);
        paper.tile((corner.0, above), (corner.0 + 18.0, corner.1 + SIDE), colour(index as f64 / COLOURS));
    }
    for (value, label) in scale.ticks(12) {
        let down = at(scale.position(value));
        paper.line(&[(corner.0 + 18.0, down), (corner.0 + 23.0, down)], GREY, 1.0);
        paper.text(&label, (corner.0 + 27.0, down), Anchor::Left, TEXT, BLACK, false);
    }
    paper.text(&map.unit, (corner.0 + 72.0, corner.1 + SIDE / 2.0), Anchor::Middle, TEXT, GREY, true);
}
