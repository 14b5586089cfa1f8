//! Rows of values on paper.

use super::canvas::{length, render, Anchor, Ink, Paper, Point, BLACK, COLOURS, FADED, GREY, PALE, TEXT, WHITE};
use super::page::{cut, Page};
use crate::look::Look;
use crate::rows::{Emphasis, Kind, Row, Rows};
use crate::scale::Scale;

const WIDTH: f64 = 720.0;
/// From one row to the next; less where there are many.
const PITCH: f64 = 24.0;
const DENSE_PITCH: f64 = 18.0;
const MANY: usize = 24;
/// Below the rows: the axis and its title.
const AXIS: f64 = 46.0;
const MARGIN: f64 = 12.0;
/// The largest share of the width for labels, and for notes.
const ASIDE: f64 = 0.3;

/// The bytes of a file with the picture.
pub fn rows(rows: &Rows, look: Look) -> Vec<u8> {
    let sorted = rows.sorted();
    let pitch = if sorted.len() > MANY { DENSE_PITCH } else { PITCH };
    let content = sorted.len().max(1) as f64 * pitch + AXIS;
    let page = Page::new(look.width_or(WIDTH), content, &rows.title, &rows.footer);
    render(page.size(), look, |paper| {
        page.draw(paper);
        draw(rows, &sorted, paper, &page, pitch);
    })
}

struct Plot<'a> {
    paper: &'a dyn Paper,
    scale: Scale,
    left: f64,
    right: f64,
}

impl Plot<'_> {
    fn at(&self, value: f64) -> f64 {
        self.left + self.scale.position(value) * (self.right - self.left)
    }
}

fn draw(rows: &Rows, sorted: &[&Row], paper: &dyn Paper, page: &Page, pitch: f64) {
    let axis = rows.axis();
    let size = if pitch < PITCH { TEXT - 1.0 } else { TEXT };
    let shows = |row: &Row| row.value.is_some_and(|value| axis.shows(value));
    let widest = |texts: &mut dyn Iterator<Item = &str>| {
        texts.map(|text| length(text, size)).fold(0.0, f64::max).min(ASIDE * page.width)
    };
    let labels = widest(&mut sorted.iter().map(|row| row.label.as_str()));
    let notes = widest(&mut sorted.iter().filter(|row| shows(row)).map(|row| row.note.as_str()));
    let right = page.width - MARGIN - if notes > 0.0 { notes + 12.0 } else { 6.0 };
    let plot = Plot { paper, scale: rows.scale(), left: MARGIN + labels + 12.0, right };
    let (top, bottom) = (page.top, page.bottom - AXIS);
    ruler(rows, &plot, page, (top, bottom));
    for (index, row) in sorted.iter().enumerate() {
        let at = top + (index as f64 + 0.5) * pitch;
        let emphasis = rows.emphasis(row);
        let ink = if emphasis == Emphasis::Quiet { GREY } else { BLACK };
        let label = cut(&row.label, size, labels + 1.0);
        paper.text(&label, (plot.left - 12.0, at), Anchor::Right, size, ink, false);
        // A row without a value needs the space of its value for the note.
        let room = if shows(row) { notes + 1.0 } else { page.width - plot.left - MARGIN };
        let (note, end) = (cut(&row.note, size, room), page.width - MARGIN);
        if !shows(row) && !note.is_empty() {
            paper.tile((end - length(&note, size) - 4.0, at - 8.0), (end, at + 8.0), WHITE);
        }
        paper.text(&note, (end, at), Anchor::Right, size, ink, false);
        if let Some(value) = row.value.filter(|value| axis.shows(*value)) {
            match rows.kind {
                Kind::Ratio => plot.point(value, row.interval, at, colour(emphasis)),
                Kind::Bar => plot.bar(value, row.interval, at, pitch, colour(emphasis)),
            }
        }
    }
}

/// The axis below the rows, lines upwards from its labels and a line at 1.
fn ruler(rows: &Rows, plot: &Plot<'_>, page: &Page, (top, bottom): (f64, f64)) {
    let paper = plot.paper;
    let count = (((plot.right - plot.left) / 60.0) as usize).clamp(2, 9);
    let mut free = f64::NEG_INFINITY;
    for (value, label) in plot.scale.ticks(count) {
        let (at, half) = (plot.at(value), length(&label, TEXT) / 2.0);
        paper.line(&[(at, top), (at, bottom)], PALE, 1.0);
        if at - half > free {
            paper.text(&label, (at, bottom + 13.0), Anchor::Middle, TEXT, BLACK, false);
            free = at + half + 6.0;
        }
    }
    let base = plot.at(if rows.kind == Kind::Ratio { 1.0 } else { 0.0 });
    paper.line(&[(base, top), (base, bottom)], GREY, 1.25);
    paper.line(&[(plot.left, bottom), (plot.right, bottom)], GREY, 1.0);
    let title = cut(&rows.axis, TEXT, page.width - 2.0 * MARGIN);
    let half = length(&title, TEXT) / 2.0;
    let middle = (plot.left + plot.right) / 2.0;
    let middle = middle.clamp(MARGIN + half, (page.width - MARGIN - half).max(MARGIN + half));
    paper.text(&title, (middle, bottom + 33.0), Anchor::Middle, TEXT, GREY, false);
}

impl Plot<'_> {
    fn point(&self, value: f64, interval: Option<(f64, f64)>, down: f64, ink: Ink) {
        if let Some((low, high)) = interval {
            self.whisker(low, high, down, ink, 2.5);
        }
        self.paper.circle((self.at(value), down), 4.75, ink, None);
    }

    fn bar(&self, value: f64, interval: Option<(f64, f64)>, down: f64, pitch: f64, ink: Ink) {
        let half = 0.34 * pitch;
        self.paper.tile((self.at(0.0), down - half), (self.at(value), down + half), ink);
        if let Some((low, high)) = interval {
            // On a bar of any colour it is seen by its edge.
            self.whisker(low, high, down, WHITE, 3.5);
            self.whisker(low, high, down, BLACK, 1.25);
        }
    }

    /// A bar between two values; an arrow where it goes beyond the scale.
    fn whisker(&self, low: f64, high: f64, down: f64, ink: Ink, width: f64) {
        let (from, to) = (self.at(low.max(self.scale.from)), self.at(high.min(self.scale.to)));
        self.paper.line(&[(from, down), (to, down)], ink, width);
        let ends = [(from, low < self.scale.from, 1.0), (to, high > self.scale.to, -1.0)];
        for (at, beyond, inwards) in ends {
            let arrow: [Point; 3] = [(at + 7.0 * inwards, down - 4.0), (at, down), (at + 7.0 * inwards, down + 4.0)];
            let end: &[Point] = if beyond { &arrow } else { &[(at, down - 4.0), (at, down + 4.0)] };
            self.paper.line(end, ink, if ink.0 == WHITE.0 { width } else { width.min(1.5) });
        }
    }
}

fn colour(emphasis: Emphasis) -> Ink {
    match emphasis {
        Emphasis::Good | Emphasis::ByValue => Ink(COLOURS[0], 1.0),
        Emphasis::Bad => Ink(COLOURS[1], 1.0),
        Emphasis::Quiet => FADED,
        Emphasis::Baseline => Ink(COLOURS[6], 1.0),
    }
}
