//! A line chart on paper.

use super::canvas::{length, render, Anchor, Ink, Paper, Point, BLACK, COLOURS, GREY, PALE, TEXT, WHITE};
use crate::chart::{Chart, Series, Shape};
use crate::scale::Scale;
use crate::Look;

const SIZE: Point = (900.0, 540.0);
const SYMBOLS: usize = 6;
/// The title's size, where it fits.
const TITLE: f64 = 16.0;
/// From one row of the legend to the next, where there is room.
const LEGEND_PITCH: f64 = 21.0;
/// From one symbol to the next along a line that has none at its points.
const SYMBOL_PITCH: f64 = 110.0;

/// The bytes of a file with the picture.
pub fn chart(chart: &Chart, look: Look) -> Vec<u8> {
    render(SIZE, look, |paper| draw(chart, paper))
}

/// A rectangle by two corners, the first above and to the left.
#[derive(Clone, Copy)]
struct Frame {
    from: Point,
    to: Point,
}

impl Frame {
    fn holds(&self, point: Point) -> bool {
        (self.from.0..=self.to.0).contains(&point.0) && (self.from.1..=self.to.1).contains(&point.1)
    }

    fn meets(&self, other: &Frame) -> bool {
        self.from.0 < other.to.0 && other.from.0 < self.to.0 && self.from.1 < other.to.1 && other.from.1 < self.to.1
    }
}

struct Plot<'a> {
    paper: &'a dyn Paper,
    frame: Frame,
    x: Scale,
    y: Scale,
}

impl Plot<'_> {
    /// Where a value lies; outside the frame if the axes end before it.
    fn at(&self, (x, y): Point) -> Point {
        let Frame { from, to } = self.frame;
        let (across, up) = (self.x.position(x), self.y.position(y));
        (from.0 + across * (to.0 - from.0), to.1 + up * (from.1 - to.1))
    }
}

fn draw(chart: &Chart, paper: &dyn Paper) {
    paper.tile((0.0, 0.0), SIZE, WHITE);
    let (x, y) = chart.scales();
    let (x_ticks, y_ticks) = (x.ticks(9), y.ticks(7));
    let widest =
        |labels: &mut dyn Iterator<Item = &str>, size| labels.map(|label| length(label, size)).fold(0.0, f64::max);
    let names = widest(&mut chart.series.iter().map(|series| series.name.as_str()), TEXT);
    let aside = if names > 0.0 { names + 46.0 } else { 0.0 };
    let labels = widest(&mut y_ticks.iter().map(|tick| tick.1.as_str()), TEXT);
    let top = if chart.title.is_empty() { 18.0 } else { 48.0 };
    let frame = Frame { from: (labels + 46.0, top), to: (SIZE.0 - 22.0 - aside, SIZE.1 - 56.0) };
    let plot = Plot { paper, frame, x, y };

    let Frame { from, to } = frame;
    let room = SIZE.0 - from.0 - 12.0;
    let size = TITLE * (room / length(&chart.title, TITLE).max(1.0)).min(1.0);
    paper.text(&chart.title, (from.0, 24.0), Anchor::Left, size, BLACK, false);
    let mut free = f64::NEG_INFINITY;
    for (value, label) in &x_ticks {
        let at = plot.at((*value, 0.0)).0;
        let half = length(label, TEXT) / 2.0;
        paper.line(&[(at, from.1), (at, to.1)], PALE, 1.0);
        if at - half > free {
            paper.text(label, (at, to.1 + 14.0), Anchor::Middle, TEXT, BLACK, false);
            free = at + half + 6.0;
        }
    }
    for (value, label) in &y_ticks {
        let at = plot.at((0.0, *value)).1;
        paper.line(&[(from.0, at), (to.0, at)], PALE, 1.0);
        paper.text(label, (from.0 - 8.0, at), Anchor::Right, TEXT, BLACK, false);
    }
    paper.text(&chart.x.title, ((from.0 + to.0) / 2.0, to.1 + 38.0), Anchor::Middle, TEXT, GREY, false);
    paper.text(&chart.y.title, (18.0, (from.1 + to.1) / 2.0), Anchor::Middle, TEXT, GREY, true);
    paper.line(&[(from.0, from.1), (from.0, to.1), to], GREY, 1.0);

    let lines: Vec<Vec<Point>> = chart.series.iter().map(|series| plot.line(chart, series)).collect();
    for (index, series) in chart.series.iter().enumerate() {
        plot.band(chart, series, colour(index));
    }
    for (index, series) in chart.series.iter().enumerate() {
        plot.series(series, &lines[index], index);
        if !series.shape.has_symbols() && chart.colours_repeat() {
            plot.symbols_along(&lines[index], index);
        }
    }
    plot.annotations(chart, &lines);
    legend(chart, paper, (to.0 + 16.0, from.1));
}

/// Names and how they are drawn, downwards from `corner`; the more there are, the smaller.
fn legend(chart: &Chart, paper: &dyn Paper, corner: Point) {
    let named: Vec<_> = chart.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty()).collect();
    let pitch = ((SIZE.1 - corner.1 - 12.0) / named.len().max(1) as f64).min(LEGEND_PITCH);
    let size = TEXT * pitch / LEGEND_PITCH;
    for (row, (index, series)) in named.into_iter().enumerate() {
        let (left, at) = (corner.0, corner.1 + (row as f64 + 0.5) * pitch);
        if series.shape != Shape::Points {
            paper.line(&[(left, at), (left + 22.0, at)], colour(index), 2.0);
        }
        if series.shape.has_symbols() || chart.colours_repeat() {
            symbol(paper, (left + 11.0, at), index);
        }
        paper.text(&series.name, (left + 29.0, at), Anchor::Left, size, BLACK, false);
    }
}

impl Shape {
    fn has_symbols(self) -> bool {
        matches!(self, Shape::Line | Shape::Points)
    }
}

impl Chart {
    /// Whether two series have one colour, so that symbols must tell them apart.
    fn colours_repeat(&self) -> bool {
        self.series.len() > COLOURS.len()
    }
}

fn colour(index: usize) -> Ink {
    Ink(COLOURS[index % COLOURS.len()], 1.0)
}

impl Plot<'_> {
    /// A series as it is drawn: only what the axes can show, with the corners of its steps.
    fn line(&self, chart: &Chart, series: &Series) -> Vec<Point> {
        let shown = series.points.iter().filter(|(x, y)| chart.x.shows(*x) && chart.y.shows(*y));
        let points: Vec<Point> = shown.map(|point| self.at(*point)).collect();
        if series.shape != Shape::Steps {
            return points;
        }
        let corners = points.windows(2).flat_map(|pair| [pair[0], (pair[1].0, pair[0].1)]);
        corners.chain(points.last().copied()).collect()
    }

    fn band(&self, chart: &Chart, series: &Series, ink: Ink) {
        let shown = |&&(x, low, high): &&(f64, f64, f64)| chart.x.shows(x) && chart.y.shows(low) && chart.y.shows(high);
        let band: Vec<(f64, f64, f64)> = series.band.iter().filter(shown).copied().collect();
        if let [(x, low, high)] = band[..] {
            for piece in self.inside(&[self.at((x, low)), self.at((x, high))]) {
                self.paper.line(&piece, Ink(ink.0, 0.45), 2.0);
            }
        }
        for pair in band.windows(2) {
            let corners =
                [(pair[0].0, pair[0].1), (pair[1].0, pair[1].1), (pair[1].0, pair[1].2), (pair[0].0, pair[0].2)];
            let Frame { from, to } = self.frame;
            let corners = corners.map(|corner| self.at(corner));
            let corners = corners.map(|(x, y)| (x.clamp(from.0, to.0), y.clamp(from.1, to.1)));
            self.paper.area(&corners, Ink(ink.0, 0.18));
        }
    }

    fn series(&self, series: &Series, line: &[Point], index: usize) {
        if series.shape != Shape::Points {
            for piece in self.inside(line) {
                self.paper.line(&piece, colour(index), 2.0);
            }
        }
        for point in line.iter().filter(|point| series.shape.has_symbols() && self.frame.holds(**point)) {
            symbol(self.paper, *point, index);
        }
    }

    /// Symbols at equal distances along a line; those of neighbours do not lie side by side.
    fn symbols_along(&self, line: &[Point], index: usize) {
        let mut next = SYMBOL_PITCH * (0.3 + 0.35 * (index % 3) as f64);
        for pair in line.windows(2) {
            let (across, down) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
            let length = across.hypot(down);
            while next <= length && length > 0.0 {
                let share = next / length;
                let at = (pair[0].0 + share * across, pair[0].1 + share * down);
                if self.frame.holds(at) {
                    symbol(self.paper, at, index);
                }
                next += SYMBOL_PITCH;
            }
            next -= length;
        }
    }

    /// The parts of a line that lie in the frame.
    fn inside(&self, line: &[Point]) -> Vec<Vec<Point>> {
        let mut pieces: Vec<Vec<Point>> = Vec::new();
        for pair in line.windows(2) {
            let Some((from, to)) = clip(pair[0], pair[1], &self.frame) else { continue };
            match pieces.last_mut() {
                Some(piece) if piece.last() == Some(&from) => piece.push(to),
                _ => pieces.push(vec![from, to]),
            }
        }
        pieces
    }

    /// Reference lines and marks, their labels where they hide the least.
    fn annotations(&self, chart: &Chart, lines: &[Vec<Point>]) {
        let Frame { from, to } = self.frame;
        let mut taken: Vec<Frame> = Vec::new();
        let mut rulers = Vec::new();
        for reference in &chart.references {
            let ends = match (reference.x(), reference.y()) {
                (Some(x), _) if chart.x.shows(x) => {
                    let x = self.at((x, self.y.from)).0;
                    [(x, to.1), (x, from.1)]
                }
                (_, Some(y)) if chart.y.shows(y) => {
                    let y = self.at((self.x.from, y)).1;
                    [(from.0, y), (to.0, y)]
                }
                _ => continue,
            };
            if self.frame.holds(ends[0]) {
                self.paper.dashes(ends[0], ends[1], GREY);
                rulers.push((ends, &reference.label));
            }
        }
        for mark in chart.marks.iter().filter(|mark| chart.x.shows(mark.x) && chart.y.shows(mark.y)) {
            let at = self.at((mark.x, mark.y));
            if self.frame.holds(at) {
                self.paper.circle(at, 8.0, BLACK, Some(1.75));
                taken.push(Frame { from: (at.0 - 9.0, at.1 - 9.0), to: (at.0 + 9.0, at.1 + 9.0) });
            }
        }
        let obstacles: Vec<[Point; 2]> = rulers.iter().map(|(ends, _)| *ends).collect();
        for mark in chart.marks.iter().filter(|mark| chart.x.shows(mark.x) && chart.y.shows(mark.y)) {
            let at = self.at((mark.x, mark.y));
            if self.frame.holds(at) {
                let (w, d) = (length(&mark.label, TEXT) / 2.0, 15.0);
                let aside = w + d;
                let near = [(0.0, -22.0), (0.0, 22.0), (aside, 0.0), (-aside, 0.0)];
                let corners = [(w + 8.0, -18.0), (-w - 8.0, -18.0), (w + 8.0, 18.0), (-w - 8.0, 18.0)];
                let further = [(0.0, -40.0), (0.0, 40.0), (aside + 15.0, -40.0), (-aside - 15.0, -40.0)];
                let places = near.iter().chain(&corners).chain(&further).map(|(x, y)| (at.0 + x, at.1 + y));
                self.label(&mark.label, places, lines, &obstacles, &mut taken, BLACK);
            }
        }
        for (ends, label) in rulers {
            let w = length(label, TEXT) / 2.0 + 6.0;
            let places: Vec<Point> = if ends[0].0 == ends[1].0 {
                let heights = [0.0, 0.25, 0.5, 0.75, 1.0].map(|s| from.1 + 12.0 + s * (to.1 - from.1 - 24.0));
                heights.iter().flat_map(|y| [(ends[0].0 + w, *y), (ends[0].0 - w, *y)]).collect()
            } else {
                let across = [1.0, 0.0, 0.5, 0.75, 0.25].map(|s| from.0 + w + s * (to.0 - from.0 - 2.0 * w));
                across.iter().flat_map(|x| [(*x, ends[0].1 - 11.0), (*x, ends[0].1 + 11.0)]).collect()
            };
            self.label(label, places.into_iter(), lines, &obstacles, &mut taken, GREY);
        }
    }

    /// Writes a label at that of the places (of its middle) where it hides the least; earlier ones are preferred.
    fn label(
        &self,
        label: &str,
        places: impl Iterator<Item = Point>,
        lines: &[Vec<Point>],
        rulers: &[[Point; 2]],
        taken: &mut Vec<Frame>,
        ink: Ink,
    ) {
        if label.is_empty() {
            return;
        }
        let half = (length(label, TEXT) / 2.0 + 3.0, 10.0);
        let around = |at: Point| Frame { from: (at.0 - half.0, at.1 - half.1), to: (at.0 + half.0, at.1 + half.1) };
        let hidden = |place: &Frame| {
            let crossed = |a: Point, b: Point| usize::from(clip(a, b, place).is_some());
            let of_lines: usize = lines.iter().flat_map(|line| line.windows(2)).map(|p| crossed(p[0], p[1])).sum();
            let symbols = lines.iter().flatten().filter(|point| place.holds(**point)).count();
            let of_rulers: usize = rulers.iter().map(|[a, b]| crossed(*a, *b)).sum();
            let of_labels = taken.iter().filter(|other| other.meets(place)).count();
            let outside = usize::from(!self.frame.holds(place.from) || !self.frame.holds(place.to));
            of_lines + symbols + 2 * of_rulers + 20 * of_labels + 40 * outside
        };
        let best =
            places.map(|at| (hidden(&around(at)), at)).reduce(|best, next| if next.0 < best.0 { next } else { best });
        if let Some((_, at)) = best {
            let place = around(at);
            self.paper.tile(place.from, place.to, Ink(WHITE.0, 0.8));
            self.paper.text(label, at, Anchor::Middle, TEXT, ink, false);
            taken.push(place);
        }
    }
}

/// The part of a straight line that lies in the frame.
fn clip(a: Point, b: Point, frame: &Frame) -> Option<(Point, Point)> {
    let (mut enter, mut leave) = (0.0f64, 1.0f64);
    let sides = [(b.0 - a.0, frame.from.0 - a.0, frame.to.0 - a.0), (b.1 - a.1, frame.from.1 - a.1, frame.to.1 - a.1)];
    for (step, low, high) in sides {
        if step == 0.0 {
            if low > 0.0 || high < 0.0 {
                return None;
            }
            continue;
        }
        let (first, last) = if step > 0.0 { (low / step, high / step) } else { (high / step, low / step) };
        enter = enter.max(first);
        leave = leave.min(last);
    }
    let at = |share: f64| (a.0 + (b.0 - a.0) * share, a.1 + (b.1 - a.1) * share);
    (enter <= leave).then(|| (at(enter), at(leave)))
}

/// The symbol of the series with this index, in its colour.
fn symbol(paper: &dyn Paper, at: Point, index: usize) {
    let ink = colour(index);
    let corners = |offsets: &[Point]| {
        let points: Vec<Point> = offsets.iter().map(|(x, y)| (at.0 + x, at.1 + y)).collect();
        paper.area(&points, ink);
    };
    match index % SYMBOLS {
        0 => paper.circle(at, 4.25, ink, None),
        1 => corners(&[(-3.9, -3.9), (3.9, -3.9), (3.9, 3.9), (-3.9, 3.9)]),
        2 => corners(&[(0.0, -5.2), (4.8, 3.8), (-4.8, 3.8)]),
        3 => corners(&[(0.0, -5.6), (5.6, 0.0), (0.0, 5.6), (-5.6, 0.0)]),
        4 => corners(&[(0.0, 5.2), (4.8, -3.8), (-4.8, -3.8)]),
        _ => {
            paper.circle(at, 4.25, ink, None);
            paper.circle(at, 2.25, WHITE, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_the_frame() {
        let frame = Frame { from: (0.0, 0.0), to: (10.0, 10.0) };
        assert_eq!(clip((-5.0, 5.0), (15.0, 5.0), &frame), Some(((0.0, 5.0), (10.0, 5.0))));
        assert_eq!(clip((5.0, 5.0), (5.0, 20.0), &frame), Some(((5.0, 5.0), (5.0, 10.0))));
        assert_eq!(clip((-5.0, -5.0), (-1.0, 20.0), &frame), None);
        assert_eq!(clip((11.0, 0.0), (21.0, 30.0), &frame), None);
    }
}
