//! Where the names of a chart's series stand: at the ends of their lines, beside the chart or below it.

use super::canvas::{length, Anchor, Ink, Paper, Point, BLACK, FADED, GREY, TEXT};
use super::chart::{colour, colours_repeat, stroke, symbol, Frame};
use super::page::{cut, Page};
use crate::chart::{Chart, Reference, Shape};
use crate::scale::Scale;

/// From one name to the next.
const PITCH: f64 = 18.0;
/// Names at the ends of lines may stand closer.
const CLOSE_PITCH: f64 = 15.0;
/// The length of a line in a legend, and what is between it and the name.
const SAMPLE: f64 = 24.0;
const GAP: f64 = 7.0;
/// From the chart to the names beside it; leaders to the names at the ends of lines cross it.
const LEADER: f64 = 18.0;
/// The largest share of the width that names beside the chart take.
const ASIDE: f64 = 0.3;
/// Left and right of names below the chart.
const MARGIN: f64 = 12.0;

/// The names of a chart, with their place.
pub struct Names {
    entries: Vec<Entry>,
    place: Place,
}

#[derive(PartialEq)]
enum Place {
    Ends,
    Beside,
    Below,
}

/// What is named.
struct Entry {
    name: String,
    sign: Sign,
}

enum Sign {
    /// The series of this index.
    Series(usize),
    /// A style of lines, whatever their colour.
    Style(usize),
    /// The horizontal reference line at this value.
    Reference(f64),
}

impl Names {
    /// The best place in a picture of this width with a chart of this height.
    pub fn of(chart: &Chart, scales: (&Scale, &Scale), (width, height): Point) -> Self {
        let named = chart.series.iter().enumerate().filter(|(_, series)| !series.name.is_empty());
        let series = named.map(|(index, series)| Entry { name: series.name.clone(), sign: Sign::Series(index) });
        let styles = chart.styles.iter().enumerate();
        let styles = styles.map(|(style, name)| Entry { name: name.clone(), sign: Sign::Style(style) });
        let mut entries: Vec<Entry> = series.chain(styles).collect();
        let references = chart.references.iter().filter(|line| !line.label.is_empty());
        let of_reference = |line: &Reference| {
            let at = line.y().filter(|y| chart.y.shows(*y) && (0.0..=1.0).contains(&scales.1.position(*y)))?;
            Some(Entry { name: line.label.clone(), sign: Sign::Reference(at) })
        };
        let references: Vec<Entry> = references.filter_map(of_reference).collect();
        let fits = |entries: &[Entry], pitch: f64| {
            LEADER + SAMPLE + GAP + widest(entries) <= ASIDE * width && entries.len() as f64 * pitch <= height
        };
        let ends_right = chart.series.iter().filter(|series| !series.faded).all(|series| {
            let last = series.points.iter().rfind(|point| chart.x.shows(point.0) && chart.y.shows(point.1));
            matches!(series.shape, Shape::Line | Shape::Plain)
                && last.is_none_or(|point| scales.0.position(point.0) > 0.9)
        });
        let place = match () {
            () if ends_right && chart.styles.is_empty() && fits(&entries, CLOSE_PITCH) => Place::Ends,
            () if fits(&entries, PITCH) => Place::Beside,
            () => Place::Below,
        };
        if place == Place::Ends && !entries.is_empty() {
            entries.extend(references);
            if !fits(&entries, CLOSE_PITCH) {
                entries.retain(|entry| !matches!(entry.sign, Sign::Reference(_)));
            }
        }
        Self { entries, place }
    }

    /// Whether the names of horizontal reference lines stand at their ends, too.
    pub fn has_references(&self) -> bool {
        self.entries.iter().any(|entry| matches!(entry.sign, Sign::Reference(_)))
    }

    /// The width that they take beside the chart.
    pub fn beside(&self) -> f64 {
        let widest = widest(&self.entries);
        match self.place {
            _ if self.entries.is_empty() => 0.0,
            Place::Ends => LEADER + 2.0 * GAP + widest,
            Place::Beside => LEADER + SAMPLE + GAP + widest,
            Place::Below => 0.0,
        }
    }

    /// The height that they take below the chart.
    pub fn below(&self, width: f64) -> f64 {
        match self.place {
            Place::Below => self.cells(width).last().map_or(0.0, |cell| cell.1 + PITCH),
            _ => 0.0,
        }
    }

    /// Where each name stands below the chart, in columns, relative to the first.
    fn cells(&self, width: f64) -> Vec<Point> {
        let widest = widest(&self.entries);
        let room = width - 2.0 * MARGIN;
        let cell = (SAMPLE + GAP + widest + 16.0).min(room);
        let columns = ((room / cell) as usize).max(1);
        let at = |index: usize| ((index % columns) as f64 * cell, (index / columns) as f64 * PITCH);
        (0..self.entries.len()).map(at).collect()
    }

    /// Draws them; `lines` are the series as they were drawn.
    pub fn draw(
        &self,
        chart: &Chart,
        paper: &dyn Paper,
        (frame, y): (&Frame, &Scale),
        lines: &[Vec<Point>],
        page: &Page,
    ) {
        let numbers = chart.numbers();
        let signed = |entry: &Entry, at: Point| {
            let (line, middle) = ([at, (at.0 + SAMPLE, at.1)], (at.0 + SAMPLE / 2.0, at.1));
            match entry.sign {
                Sign::Series(index) if chart.series[index].faded => paper.line(&line, FADED, 2.0),
                Sign::Series(index) => {
                    let (series, number) = (&chart.series[index], numbers[index]);
                    if series.shape != Shape::Points {
                        let style = if chart.styles.is_empty() { series.dash } else { 0 };
                        stroke(paper, &line, style, colour(number), 2.0);
                    }
                    if series.shape.has_symbols() || colours_repeat(&numbers) {
                        symbol(paper, middle, number);
                    }
                }
                Sign::Style(style) => stroke(paper, &line, style, GREY, 2.0),
                Sign::Reference(_) => paper.dashes(line[0], line[1], GREY),
            }
            let start = at.0 + SAMPLE + GAP;
            let name = cut(&entry.name, TEXT, page.width - MARGIN - start);
            paper.text(&name, (start, at.1), Anchor::Left, TEXT, BLACK, false);
        };
        match self.place {
            Place::Ends => self.at_the_ends(chart, paper, frame, lines, y),
            Place::Beside => {
                for (row, entry) in self.entries.iter().enumerate() {
                    signed(entry, (frame.to.0 + LEADER, frame.from.1 + (row as f64 + 0.5) * PITCH));
                }
            }
            Place::Below => {
                let above = page.bottom - self.below(page.width) + PITCH / 2.0;
                for (entry, cell) in self.entries.iter().zip(self.cells(page.width)) {
                    signed(entry, (MARGIN + cell.0, above + cell.1));
                }
            }
        }
    }

    fn at_the_ends(&self, chart: &Chart, paper: &dyn Paper, frame: &Frame, lines: &[Vec<Point>], y: &Scale) {
        let numbers = chart.numbers();
        let is_faded = |entry: &Entry| matches!(entry.sign, Sign::Series(index) if chart.series[index].faded);
        let end = |entry: &Entry| match entry.sign {
            // Grey lines share a name, at the bottom: it belongs to none of their ends.
            Sign::Series(index) => lines[index].last().filter(|_| !is_faded(entry)).copied().unwrap_or(frame.to),
            Sign::Reference(at) => (frame.to.0, frame.to.1 + y.position(at) * (frame.from.1 - frame.to.1)),
            Sign::Style(_) => frame.to,
        };
        let mut ends: Vec<(Point, &Entry)> = self.entries.iter().map(|entry| (end(entry), entry)).collect();
        ends.iter_mut().for_each(|(at, _)| at.1 = at.1.clamp(frame.from.1, frame.to.1));
        ends.sort_by(|a, b| a.0 .1.total_cmp(&b.0 .1));
        let wanted: Vec<f64> = ends.iter().map(|end| end.0 .1).collect();
        let places = apart(&wanted, CLOSE_PITCH, frame.from.1 + 6.0, frame.to.1 - 2.0);
        let left = frame.to.0 + LEADER;
        for ((end, entry), at) in ends.into_iter().zip(places) {
            let leader = [(end.0 + 7.0, end.1), (frame.to.0 + 4.0, end.1), (left, at)];
            let sample = [(left, at), (left + GAP, at)];
            let ink = match entry.sign {
                Sign::Series(_) if is_faded(entry) => {
                    paper.line(&sample, FADED, 2.0);
                    GREY
                }
                Sign::Series(index) => {
                    let ink = colour(numbers[index]);
                    paper.line(&leader, Ink(ink.0, 0.6), 1.0);
                    match chart.series[index].shape.has_symbols() || colours_repeat(&numbers) {
                        true => symbol(paper, (left + 3.0, at), numbers[index]),
                        false => paper.line(&sample, ink, 2.0),
                    }
                    BLACK
                }
                Sign::Reference(_) | Sign::Style(_) => {
                    paper.line(&leader[1..], Ink(GREY.0, 0.6), 1.0);
                    paper.line(&sample, GREY, 1.25);
                    GREY
                }
            };
            paper.text(&entry.name, (left + 2.0 * GAP, at), Anchor::Left, TEXT, ink, false);
        }
    }
}

fn widest(entries: &[Entry]) -> f64 {
    entries.iter().map(|entry| length(&entry.name, TEXT)).fold(0.0, f64::max)
}

/// The ascending places moved so that each is `gap` from the next and all are between two limits, if they fit; each
/// moves as little as possible.
fn apart(wanted: &[f64], gap: f64, from: f64, to: f64) -> Vec<f64> {
    // Without the gaps before it each place only must not be before the one above: those that would be share their
    // mean.
    let mut groups: Vec<(f64, usize)> = Vec::new();
    for (index, place) in wanted.iter().enumerate() {
        let mut group = (place - index as f64 * gap, 1);
        while let Some((sum, count)) = groups.pop_if(|last| last.0 / last.1 as f64 > group.0 / group.1 as f64) {
            group = (sum + group.0, count + group.1);
        }
        groups.push(group);
    }
    let last = to - wanted.len().saturating_sub(1) as f64 * gap;
    let means = groups.iter().flat_map(|(sum, count)| std::iter::repeat_n(sum / *count as f64, *count));
    means.enumerate().map(|(index, mean)| mean.min(last).max(from) + index as f64 * gap).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_move_apart_as_little_as_possible() {
        assert_eq!(apart(&[10.0, 50.0, 90.0], 15.0, 0.0, 100.0), [10.0, 50.0, 90.0]);
        assert_eq!(apart(&[48.0, 50.0, 52.0], 15.0, 0.0, 100.0), [35.0, 50.0, 65.0]);
        assert_eq!(apart(&[98.0, 99.0], 15.0, 0.0, 100.0), [85.0, 100.0]);
        assert_eq!(apart(&[1.0, 1.0], 15.0, 0.0, 100.0), [0.0, 15.0]);
        assert!(apart(&[], 15.0, 0.0, 100.0).is_empty());
    }
}
