//! What a line chart shows.

use crate::picture;
use crate::scale::Scale;
use crate::terminal;
use crate::Look;

/// A chart of named series over two axes.
///
/// Points that cannot be drawn are left out: those that are not finite, and on a logarithmic axis those not above 0.
#[derive(Clone, Debug)]
pub struct Chart {
    /// One line above the picture; may be empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// What made the picture: a line below it; may be empty. Only in files.
    pub footer: String,
    /// What is drawn; the legend lists the series in this order.
    pub series: Vec<Series>,
    /// What the styles of lines mean, in the order of their numbers ([`Series::dashed`]); empty where they mean
    /// nothing.
    pub styles: Vec<String>,
    /// Shaded parts of the chart, behind everything.
    pub zones: Vec<Zone>,
    /// Lines across the whole chart.
    pub references: Vec<Reference>,
    /// Points that deserve a ring and a label.
    pub marks: Vec<Mark>,
}

impl Chart {
    /// A chart without content.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Self {
        let (title, footer) = (title.into(), String::new());
        let (series, styles, zones, references, marks) = Default::default();
        Self { title, footer, x, y, series, styles, zones, references, marks }
    }

    /// The bytes of a file with the picture. Where the lines end at the right, their names stand at their ends;
    /// elsewhere there is a legend, beside the chart or, where names are long, below it.
    pub fn render(&self, look: impl Into<Look>) -> Vec<u8> {
        picture::chart(self, look.into())
    }

    /// The chart in characters: at most `columns` wide (40 at least), 24 lines high and a legend, plain Unicode.
    /// Bands are left out.
    pub fn terminal(&self, columns: usize) -> String {
        terminal::chart(self, columns)
    }

    /// The number that gives each series its colour and its symbol.
    pub(crate) fn numbers(&self) -> Vec<usize> {
        let mut next = 0;
        let mut number = |series: &Series| {
            let own = series.colour.unwrap_or(next);
            next += usize::from(!series.faded);
            own
        };
        self.series.iter().map(&mut number).collect()
    }

    /// Both scales, wide enough for everything drawn.
    pub(crate) fn scales(&self) -> (Scale, Scale) {
        let points = self.series.iter().flat_map(|series| &series.points).copied();
        let marks = self.marks.iter().map(|mark| (mark.x, mark.y));
        let bands = self.series.iter().flat_map(|series| &series.band);
        let edges = bands.flat_map(|&(x, low, high)| [(x, low), (x, high)]);
        let drawn: Vec<(f64, f64)> =
            points.chain(marks).chain(edges).filter(|(x, y)| self.x.shows(*x) && self.y.shows(*y)).collect();
        let of = |axis: &Axis, values: &mut dyn Iterator<Item = f64>, at: fn(&Reference) -> Option<f64>| {
            let lines = self.references.iter().filter_map(at).filter(|value| axis.shows(*value));
            Scale::new(axis, &mut values.chain(lines))
        };
        let x = of(&self.x, &mut drawn.iter().map(|point| point.0), |line| line.x());
        let y = of(&self.y, &mut drawn.iter().map(|point| point.1), |line| line.y());
        (x, y)
    }
}

/// One axis.
#[derive(Clone, Debug, Default)]
pub struct Axis {
    /// What it measures and in which unit, for instance `latency (ns)`.
    pub title: String,
    /// Equal steps multiply instead of add.
    pub log: bool,
    /// The smallest value shown; the smallest there is if `None`.
    pub from: Option<f64>,
    /// The largest value shown; the largest there is if `None`.
    pub to: Option<f64>,
    /// Where it is labelled; at round numbers if empty.
    pub ticks: Vec<f64>,
    /// Whether its values are ns, which labels then show as `500 ns`, `10 us` or `1 ms`.
    pub is_time: bool,
}

impl Axis {
    /// An axis on which equal steps add.
    pub fn linear(title: impl Into<String>) -> Self {
        Self { title: title.into(), ..Self::default() }
    }

    /// An axis on which equal steps multiply.
    pub fn log(title: impl Into<String>) -> Self {
        Self { log: true, ..Self::linear(title) }
    }

    /// The same, beginning at 0.
    pub fn from_zero(self) -> Self {
        Self { from: Some(0.0), ..self }
    }

    /// The same with these values as its ends.
    pub fn range(self, from: f64, to: f64) -> Self {
        Self { from: Some(from), to: Some(to), ..self }
    }

    /// The same, labelled at these values only (those that it shows).
    pub fn ticks(self, at: impl IntoIterator<Item = f64>) -> Self {
        Self { ticks: at.into_iter().collect(), ..self }
    }

    /// The same for values in ns, labelled with units.
    pub fn time(self) -> Self {
        Self { is_time: true, ..self }
    }

    pub(crate) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }
}

/// How the points of a series are joined.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shape {
    /// By straight lines, with a symbol at each point.
    #[default]
    Line,
    /// By straight lines alone: for many points.
    Plain,
    /// By steps, each level holding until the next point: for distributions.
    Steps,
    /// Not at all: a symbol at each point.
    Points,
}

/// Points with a name.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// Its name in the legend; a series without one is not in the legend.
    pub name: String,
    /// The points, in the order in which they are joined.
    pub points: Vec<(f64, f64)>,
    /// Its spread: x, lower and upper y, shown as a shade. One entry is drawn as a bar.
    pub band: Vec<(f64, f64, f64)>,
    /// How the points are joined.
    pub shape: Shape,
    /// The number of its colour and symbol; by its place among the series if `None`.
    pub colour: Option<usize>,
    /// The number of its line's style: 0 is solid, and there are three kinds of dashes.
    pub dash: usize,
    /// Whether it is drawn in grey, behind the others and without symbols.
    pub faded: bool,
}

impl Series {
    /// Points joined by straight lines.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect(), ..Self::default() }
    }

    /// The same, drawn in another way.
    pub fn with_shape(self, shape: Shape) -> Self {
        Self { shape, ..self }
    }

    /// The same in the colour and with the symbol of this number.
    pub fn coloured(self, number: usize) -> Self {
        Self { colour: Some(number), ..self }
    }

    /// The same with a line of the style of this number, 0 being solid.
    pub fn dashed(self, style: usize) -> Self {
        Self { dash: style, ..self }
    }

    /// The same in grey, behind the others.
    pub fn faded(self) -> Self {
        Self { faded: true, ..self }
    }

    /// The same with its spread: x, lower and upper y.
    pub fn with_band(self, band: impl IntoIterator<Item = (f64, f64, f64)>) -> Self {
        Self { band: band.into_iter().collect(), ..self }
    }
}

/// The share of the samples at or below each value: a series of steps for an axis from 0 to 1.
pub fn cdf(name: impl Into<String>, samples: &[f64]) -> Series {
    let mut sorted: Vec<f64> = samples.iter().copied().filter(|sample| sample.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len() as f64;
    let mut points: Vec<(f64, f64)> = sorted.first().map(|&lowest| (lowest, 0.0)).into_iter().collect();
    for (index, &value) in sorted.iter().enumerate() {
        if sorted.get(index + 1) != Some(&value) {
            points.push((value, (index + 1) as f64 / count));
        }
    }
    Series::new(name, points).with_shape(Shape::Steps)
}

/// The share of the samples above each value: a series of steps for a logarithmic axis, on which rare long ones show.
/// The last step, to a share of 0, is left out.
pub fn exceedance(name: impl Into<String>, samples: &[f64]) -> Series {
    let rising = cdf(name, samples);
    let points = rising.points.iter().map(|&(value, share)| (value, 1.0 - share)).filter(|point| point.1 > 1e-12);
    Series { points: points.collect(), ..rising }
}

/// A shaded part of a chart, from one side to the other.
#[derive(Clone, Debug)]
pub struct Zone {
    pub(crate) from: f64,
    pub(crate) to: f64,
    pub(crate) vertical: bool,
    pub(crate) label: String,
}

impl Zone {
    /// Between two values of the vertical axis; the label may be empty.
    pub fn horizontal(from: f64, to: f64, label: impl Into<String>) -> Self {
        Self { from, to, vertical: false, label: label.into() }
    }

    /// Between two values of the horizontal axis; the label may be empty.
    pub fn vertical(from: f64, to: f64, label: impl Into<String>) -> Self {
        Self { from, to, vertical: true, label: label.into() }
    }
}

/// A line across the whole chart.
#[derive(Clone, Debug)]
pub struct Reference {
    at: f64,
    vertical: bool,
    pub(crate) label: String,
}

impl Reference {
    /// A horizontal line at `y`; the label may be empty.
    pub fn horizontal(y: f64, label: impl Into<String>) -> Self {
        Self { at: y, vertical: false, label: label.into() }
    }

    /// A vertical line at `x`; the label may be empty.
    pub fn vertical(x: f64, label: impl Into<String>) -> Self {
        Self { at: x, vertical: true, label: label.into() }
    }

    pub(crate) fn x(&self) -> Option<f64> {
        self.vertical.then_some(self.at)
    }

    pub(crate) fn y(&self) -> Option<f64> {
        (!self.vertical).then_some(self.at)
    }
}

/// A point with a ring around it and a label beside it.
#[derive(Clone, Debug)]
pub struct Mark {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) label: String,
}

impl Mark {
    /// A marked point.
    pub fn new(x: f64, y: f64, label: impl Into<String>) -> Self {
        Self { x, y, label: label.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_rises_from_0_to_1_and_jumps_where_samples_are_equal() {
        let series = cdf("x", &[3.0, 1.0, f64::NAN, 1.0, 2.0]);
        assert_eq!(series.points, [(1.0, 0.0), (1.0, 0.5), (2.0, 0.75), (3.0, 1.0)]);
        assert_eq!(cdf("none", &[]).points, []);
        assert_eq!(exceedance("x", &[3.0, 1.0, 1.0, 2.0]).points, [(1.0, 1.0), (1.0, 0.5), (2.0, 0.25)]);
    }

    #[test]
    fn grey_series_take_no_colour_from_the_others() {
        let mut chart = Chart::new("", Axis::linear(""), Axis::linear(""));
        let series = || Series::new("", []);
        chart.series = vec![series(), series().faded(), series(), series().coloured(6), series()];
        assert_eq!(chart.numbers(), [0, 1, 1, 6, 3]);
    }

    #[test]
    fn scales_hold_series_bands_marks_and_references_and_nothing_else() {
        let mut chart = Chart::new("", Axis::log("x"), Axis::linear("y"));
        chart.series.push(Series::new("a", [(1.0, 5.0), (0.0, 900.0), (10.0, f64::NAN)]).with_band([(2.0, 3.0, 6.0)]));
        chart.marks.push(Mark::new(4.0, 7.0, ""));
        chart.references.push(Reference::horizontal(9.0, ""));
        let (x, y) = chart.scales();
        assert!(x.from <= 1.0 && x.from > 0.5 && x.to >= 4.0 && x.to < 8.0, "{x:?}");
        assert!(y.from <= 3.0 && y.from > 0.0 && y.to >= 9.0 && y.to < 12.0, "{y:?}");
    }
}
