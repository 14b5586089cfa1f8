//! A line chart on paper.

use super::canvas::{length, render, Anchor, Ink, Paper, Point, BLACK, COLOURS, FADED, GREY, PALE, TEXT, WHITE};
use super::names::Names;
use super::page::{cut, Page};
use crate::chart::{Chart, Series, Shape};
use crate::scale::Scale;
use crate::Look;

const WIDTH: f64 = 900.0;
/// The chart's height as a share of its width, and its limits.
const HEIGHT: f64 = 0.56;
const LEAST_HEIGHT: f64 = 260.0;
const MOST_HEIGHT: f64 = 800.0;
/// Right of the chart and left of everything.
const MARGIN: f64 = 12.0;
/// The labels and the title of the horizontal axis.
const AXIS: f64 = 50.0;
/// Different symbols.
pub const SYMBOLS: usize = 6;
/// From one symbol to the next along a line that has none at its points.
const SYMBOL_PITCH: f64 = 110.0;

/// The bytes of a file with the picture.
pub fn chart(chart: &Chart, look: Look) -> Vec<u8> {
    let width = look.width_or(WIDTH);
    let own = (HEIGHT * width).clamp(LEAST_HEIGHT, MOST_HEIGHT);
    let (x, y) = chart.scales();
    let names = Names::of(chart, (&x, &y), (width, own - AXIS));
    let page = Page::new(width, own + names.below(width), &chart.title, &chart.footer);
    render(page.size(), look, |paper| draw(chart, paper, &page, &names, (x.clone(), y.clone()), own))
}

/// A rectangle by two corners, the first above and to the left.
#[derive(Clone, Copy)]
pub struct Frame {
    pub from: Point,
    pub to: Point,
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

fn draw(chart: &Chart, paper: &dyn Paper, page: &Page, names: &Names, (x, y): (Scale, Scale), own: f64) {
    page.draw(paper);
    let y_ticks = y.ticks(((own - AXIS) / 60.0) as usize);
    let labels = y_ticks.iter().map(|tick| length(&tick.1, TEXT)).fold(0.0, f64::max);
    let aside = if chart.y.title.is_empty() { 0.0 } else { TEXT + 8.0 };
    let from = (MARGIN + aside + labels + 8.0, page.top + 6.0);
    let frame = Frame { from, to: (page.width - MARGIN - names.beside().max(10.0), page.top + own - AXIS) };
    let plot = Plot { paper, frame, x, y };
    plot.axes(chart, page, &y_ticks);

    let numbers = chart.numbers();
    let lines: Vec<Vec<Point>> = chart.series.iter().map(|series| plot.line(chart, series)).collect();
    plot.zones(chart);
    for (series, number) in chart.series.iter().zip(&numbers).filter(|(series, _)| !series.faded) {
        plot.band(chart, series, colour(*number));
    }
    let all = || chart.series.iter().zip(&lines).zip(&numbers);
    for ((series, line), _) in all().filter(|((series, _), _)| series.faded) {
        plot.strokes(series, line, FADED, 1.25);
    }
    for ((series, line), &number) in all().filter(|((series, _), _)| !series.faded) {
        plot.series(series, line, number);
        if !series.shape.has_symbols() && colours_repeat(&numbers) {
            plot.symbols_along(line, number);
        }
    }
    let seen: Vec<&[Point]> = all().filter(|((s, _), _)| !s.faded).map(|((_, line), _)| line.as_slice()).collect();
    plot.annotations(chart, &seen, names);
    names.draw(chart, paper, (&plot.frame, &plot.y), &lines, page);
}

impl Shape {
    pub(super) fn has_symbols(self) -> bool {
        matches!(self, Shape::Line | Shape::Points)
    }
}

/// Whether two series have one colour, so that symbols must tell them apart.
pub fn colours_repeat(numbers: &[usize]) -> bool {
    numbers.iter().any(|number| *number >= COLOURS.len())
}

/// The colour of this number.
pub fn colour(number: usize) -> Ink {
    Ink(COLOURS[number % COLOURS.len()], 1.0)
}

impl Plot<'_> {
    fn axes(&self, chart: &Chart, page: &Page, y_ticks: &[(f64, String)]) {
        let (Frame { from, to }, paper) = (self.frame, self.paper);
        let mut free = f64::NEG_INFINITY;
        for (value, label) in &self.x.ticks((((to.0 - from.0) / 75.0) as usize).clamp(3, 12)) {
            let at = self.at((*value, 0.0)).0;
            let half = length(label, TEXT) / 2.0;
            paper.line(&[(at, from.1), (at, to.1)], PALE, 1.0);
            if at - half > free {
                paper.text(label, (at, to.1 + 14.0), Anchor::Middle, TEXT, BLACK, false);
                free = at + half + 6.0;
            }
        }
        for (value, label) in y_ticks {
            let at = self.at((0.0, *value)).1;
            paper.line(&[(from.0, at), (to.0, at)], PALE, 1.0);
            paper.text(label, (from.0 - 8.0, at), Anchor::Right, TEXT, BLACK, false);
        }
        let title = cut(&chart.x.title, TEXT, page.width - 2.0 * MARGIN);
        let half = length(&title, TEXT) / 2.0;
        let middle = ((from.0 + to.0) / 2.0).min(page.width - MARGIN - half).max(MARGIN + half);
        paper.text(&title, (middle, to.1 + 36.0), Anchor::Middle, TEXT, GREY, false);
        // The title of the vertical axis may be longer than the axis, as long as it stays below the picture's title.
        let (room, middle) = (to.1 + AXIS - from.1, (from.1 + to.1) / 2.0);
        let title = cut(&chart.y.title, TEXT, room);
        let middle = middle.max(from.1 + length(&title, TEXT) / 2.0);
        paper.text(&title, (MARGIN + TEXT / 2.0, middle), Anchor::Middle, TEXT, GREY, true);
        paper.line(&[(from.0, from.1), (from.0, to.1), to], GREY, 1.0);
    }

    fn zones(&self, chart: &Chart) {
        let Frame { from, to } = self.frame;
        for zone in &chart.zones {
            let scale = if zone.vertical { &self.x } else { &self.y };
            let ends = [zone.from, zone.to].map(|value| scale.position(value).clamp(0.0, 1.0));
            let (across, up) = if zone.vertical { (ends, [0.0, 1.0]) } else { ([0.0, 1.0], ends) };
            let place = |across: f64, up: f64| (from.0 + across * (to.0 - from.0), to.1 + up * (from.1 - to.1));
            self.paper.tile(place(across[0], up[1]), place(across[1], up[0]), Ink(FADED.0, 0.3));
        }
    }
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
                self.paper.line(&piece, ink, 1.5);
                for (x, y) in piece {
                    self.paper.line(&[(x - 4.0, y), (x + 4.0, y)], ink, 1.5);
                }
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

    /// The line alone.
    fn strokes(&self, series: &Series, line: &[Point], ink: Ink, width: f64) {
        for piece in self.inside(line).iter().filter(|_| series.shape != Shape::Points) {
            stroke(self.paper, piece, series.dash, ink, width);
        }
    }

    fn series(&self, series: &Series, line: &[Point], number: usize) {
        self.strokes(series, line, colour(number), 2.0);
        for point in line.iter().filter(|point| series.shape.has_symbols() && self.frame.holds(**point)) {
            symbol(self.paper, *point, number);
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
    fn annotations(&self, chart: &Chart, lines: &[&[Point]], names: &Names) {
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
        for (ends, label) in rulers.iter().filter(|(ends, _)| ends[0].0 == ends[1].0 || !names.has_references()) {
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
        for zone in &chart.zones {
            let scale = if zone.vertical { &self.x } else { &self.y };
            let ends = [zone.from, zone.to].map(|value| scale.position(value).clamp(0.0, 1.0));
            let half = (length(&zone.label, TEXT) / 2.0 + 6.0, 8.5);
            // In the zone, as far as it is large enough, and in the frame.
            let place = |across: f64, up: f64| {
                let inner = |low: f64, high: f64, at: f64| at.min(high).max(low);
                let at = (from.0 + across * (to.0 - from.0), to.1 + up * (from.1 - to.1));
                (inner(from.0 + half.0, to.0 - half.0, at.0), inner(from.1 + half.1, to.1 - half.1, at.1))
            };
            let along = [0.98, 0.02, 0.75, 0.25, 0.5];
            let places: Vec<Point> = if zone.vertical {
                along.iter().map(|share| place((ends[0] + ends[1]) / 2.0, *share)).collect()
            } else {
                let inwards = half.1 / (to.1 - from.1);
                let levels = [(ends[0] + ends[1]) / 2.0, ends[1] - inwards, ends[0] + inwards];
                levels.iter().flat_map(|up| along.map(|share| place(share, *up))).collect()
            };
            self.label(&zone.label, places.into_iter(), lines, &obstacles, &mut taken, GREY);
        }
    }

    /// Writes a label at that of the places (of its middle) where it hides the least; earlier ones are preferred.
    fn label(
        &self,
        label: &str,
        places: impl Iterator<Item = Point>,
        lines: &[&[Point]],
        rulers: &[[Point; 2]],
        taken: &mut Vec<Frame>,
        ink: Ink,
    ) {
        if label.is_empty() {
            return;
        }
        let half = (length(label, TEXT) / 2.0 + 3.0, 8.0);
        let around = |at: Point| Frame { from: (at.0 - half.0, at.1 - half.1), to: (at.0 + half.0, at.1 + half.1) };
        let hidden = |place: &Frame| {
            let crossed = |a: Point, b: Point| usize::from(clip(a, b, place).is_some());
            let of_lines: usize = lines.iter().flat_map(|line| line.windows(2)).map(|p| crossed(p[0], p[1])).sum();
            let symbols = lines.iter().copied().flatten().filter(|point| place.holds(**point)).count();
            let of_rulers: usize = rulers.iter().map(|[a, b]| crossed(*a, *b)).sum();
            let of_labels = taken.iter().filter(|other| other.meets(place)).count();
            let outside = usize::from(!self.frame.holds(place.from) || !self.frame.holds(place.to));
            of_lines + symbols + 2 * of_rulers + 20 * of_labels + 40 * outside
        };
        let best =
            places.map(|at| (hidden(&around(at)), at)).reduce(|best, next| if next.0 < best.0 { next } else { best });
        if let Some((_, at)) = best {
            let place = around(at);
            if hidden(&place) > 0 {
                self.paper.tile(place.from, place.to, Ink(WHITE.0, 0.7));
            }
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

/// Dashes and the gaps after them, for each style of line.
const DASHES: [&[f64]; 4] = [&[], &[9.0, 4.0], &[2.5, 3.5], &[12.0, 3.5, 2.5, 3.5]];

/// A line of this style.
pub fn stroke(paper: &dyn Paper, line: &[Point], style: usize, ink: Ink, width: f64) {
    let pattern = DASHES[style % DASHES.len()];
    if pattern.is_empty() {
        paper.line(line, ink, width);
        return;
    }
    let (mut part, mut left) = (0, pattern[0]);
    let mut dash: Vec<Point> = line.first().copied().into_iter().collect();
    for pair in line.windows(2) {
        let (across, down) = (pair[1].0 - pair[0].0, pair[1].1 - pair[0].1);
        let length = across.hypot(down);
        let mut done = 0.0;
        while length - done > left {
            done += left;
            dash.push((pair[0].0 + across * done / length, pair[0].1 + down * done / length));
            if part % 2 == 0 {
                paper.line(&dash, ink, width);
            }
            dash.drain(..dash.len() - 1);
            part = (part + 1) % pattern.len();
            left = pattern[part];
        }
        left -= length - done;
        dash.push(pair[1]);
    }
    if part % 2 == 0 && dash.len() > 1 {
        paper.line(&dash, ink, width);
    }
}

/// The symbol of this number, in its colour.
pub fn symbol(paper: &dyn Paper, at: Point, number: usize) {
    let ink = colour(number);
    let corners = |offsets: &[Point]| {
        let points: Vec<Point> = offsets.iter().map(|(x, y)| (at.0 + x, at.1 + y)).collect();
        paper.area(&points, ink);
    };
    match number % SYMBOLS {
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
