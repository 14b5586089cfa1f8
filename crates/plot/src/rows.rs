//! Values with names, one below the other: ratios to a baseline, or plain numbers.

use crate::scale::Scale;
use crate::{picture, terminal, Axis, Look};

/// One row per name, best first: a point with its interval on an axis of ratios, or a bar from 0.
///
/// ```
/// use lockswap_plot::{Format, Row, Rows};
/// let rows = vec![
///     Row::new("mcs_spin", 1.32).interval(1.25, 1.39).note("+32 %"),
///     Row::new("ticket", 0.99).interval(0.95, 1.03).note("no difference"),
///     Row::without_value("ttas").note("crashed"),
/// ];
/// let chart = Rows::ratios("./server", "throughput, times pthread (above 1 is better)", rows);
/// print!("{}", chart.terminal(80));
/// assert!(chart.render(Format::Svg).starts_with(b"<svg"));
/// ```
#[derive(Clone, Debug)]
pub struct Rows {
    /// One line above the picture; may be empty.
    pub title: String,
    /// What the values are and in which unit.
    pub axis: String,
    /// What made the picture: a line below it; may be empty.
    pub footer: String,
    /// Whether small values are the better ones. The best is drawn first; rows without a value are last.
    pub lower_is_better: bool,
    pub(crate) kind: Kind,
    rows: Vec<Row>,
}

/// How a value is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A point on a logarithmic axis, with a line at 1.
    Ratio,
    /// A bar from 0.
    Bar,
}

/// One row.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// Its name, at the left.
    pub label: String,
    /// Its value; without one the row has a label and a note only.
    pub value: Option<f64>,
    /// The ends of the interval that holds the value, where it is known.
    pub interval: Option<(f64, f64)>,
    /// What is said about it at the right, for instance `+32 %` or `crashed`; may be empty.
    pub note: String,
    /// How much the row stands out.
    pub emphasis: Emphasis,
}

/// How much a row stands out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Emphasis {
    /// By its values: a ratio whose interval holds 1 is [`Quiet`](Self::Quiet), any other value is
    /// [`Good`](Self::Good) or [`Bad`](Self::Bad) by its side of 1. Bars are all the same.
    #[default]
    ByValue,
    /// In colour: better than the baseline.
    Good,
    /// In another colour: worse than the baseline.
    Bad,
    /// Grey: no difference that could be seen, or no value.
    Quiet,
    /// Black: the baseline itself.
    Baseline,
}

impl Row {
    /// A row with a value.
    pub fn new(label: impl Into<String>, value: f64) -> Self {
        Self { value: Some(value), ..Self::without_value(label) }
    }

    /// A row without a value.
    pub fn without_value(label: impl Into<String>) -> Self {
        Self { label: label.into(), ..Self::default() }
    }

    /// The same with the interval that holds its value.
    pub fn interval(self, low: f64, high: f64) -> Self {
        Self { interval: Some((low.min(high), low.max(high))), ..self }
    }

    /// The same with something said about it.
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }

    /// The same, standing out as told.
    pub fn emphasis(self, emphasis: Emphasis) -> Self {
        Self { emphasis, ..self }
    }
}

impl Rows {
    /// Ratios to a baseline: points on a logarithmic axis, with a line at 1 and a bar for each interval.
    pub fn ratios(title: impl Into<String>, axis: impl Into<String>, rows: Vec<Row>) -> Self {
        Self::of(Kind::Ratio, title.into(), axis.into(), rows)
    }

    /// Numbers: bars from 0.
    pub fn bars(title: impl Into<String>, axis: impl Into<String>, rows: Vec<Row>) -> Self {
        Self::of(Kind::Bar, title.into(), axis.into(), rows)
    }

    fn of(kind: Kind, title: String, axis: String, rows: Vec<Row>) -> Self {
        Self { title, axis, footer: String::new(), lower_is_better: false, kind, rows }
    }

    /// The same with small values as the better ones.
    pub fn lower_is_better(self) -> Self {
        Self { lower_is_better: true, ..self }
    }

    /// The same with a line below that says what made the picture.
    pub fn footer(self, footer: impl Into<String>) -> Self {
        Self { footer: footer.into(), ..self }
    }

    /// The bytes of a file with the picture.
    pub fn render(&self, look: impl Into<Look>) -> Vec<u8> {
        picture::rows(self, look.into())
    }

    /// The rows in characters: at most `columns` wide (40 at least), plain Unicode.
    pub fn terminal(&self, columns: usize) -> String {
        terminal::rows(self, columns)
    }

    /// The axis; what it cannot show is not drawn.
    pub(crate) fn axis(&self) -> Axis {
        match self.kind {
            Kind::Ratio => Axis::log(""),
            Kind::Bar => Axis::linear("").from_zero(),
        }
    }

    /// The rows, the best first; rows without a value that can be drawn last. Rows of equal value keep their order.
    pub(crate) fn sorted(&self) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        let (axis, sign) = (self.axis(), if self.lower_is_better { 1.0 } else { -1.0 });
        let place = |row: &&Row| row.value.filter(|value| axis.shows(*value)).map_or(f64::INFINITY, |v| sign * v);
        rows.sort_by(|a, b| place(a).total_cmp(&place(b)));
        rows
    }

    /// From the least value to the greatest, with 1 or 0. An interval much wider than all values does not press them
    /// together: it goes beyond the scale.
    pub(crate) fn scale(&self) -> Scale {
        let axis = self.axis();
        let own = self.rows.iter().filter_map(|row| row.value).filter(|value| axis.shows(*value));
        let base = if self.kind == Kind::Ratio { 1.0 } else { 0.0 };
        let values: Vec<f64> = own.chain([base]).collect();
        let (least, most) = values.iter().fold((f64::INFINITY, 0.0f64), |(l, m), v| (l.min(*v), m.max(*v)));
        let slack = if self.kind == Kind::Ratio { (most / least).sqrt().max(1.5) } else { 1.5 };
        let ends = self.rows.iter().filter(|row| row.value.is_some()).filter_map(|row| row.interval);
        let ends = ends.flat_map(|(low, high)| [low, high]).filter(|value| axis.shows(*value));
        let ends: Vec<f64> = ends.map(|value| value.clamp(least / slack, most * slack)).collect();
        Scale::new(&axis, &mut values.into_iter().chain(ends))
    }

    /// How a row stands out, without [`Emphasis::ByValue`].
    pub(crate) fn emphasis(&self, row: &Row) -> Emphasis {
        match (row.emphasis, row.value, row.interval) {
            (Emphasis::ByValue, None, _) => Emphasis::Quiet,
            (Emphasis::ByValue, Some(_), _) if self.kind == Kind::Bar => Emphasis::Good,
            (Emphasis::ByValue, _, Some((low, high))) if low <= 1.0 && high >= 1.0 => Emphasis::Quiet,
            (Emphasis::ByValue, Some(1.0), _) => Emphasis::Quiet,
            (Emphasis::ByValue, Some(value), _) if (value > 1.0) != self.lower_is_better => Emphasis::Good,
            (Emphasis::ByValue, ..) => Emphasis::Bad,
            (given, ..) => given,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(rows: &Rows) -> Vec<&str> {
        rows.sorted().into_iter().map(|row| row.label.as_str()).collect()
    }

    #[test]
    fn the_best_is_first_and_what_has_no_value_last() {
        let all = vec![
            Row::without_value("crashed"),
            Row::new("slow", 0.5),
            Row::new("fast", 2.0),
            Row::new("odd", f64::NAN),
            Row::new("same", 1.0),
        ];
        let rows = Rows::ratios("", "", all);
        assert_eq!(labels(&rows), ["fast", "same", "slow", "crashed", "odd"]);
        assert_eq!(labels(&rows.lower_is_better()), ["slow", "same", "fast", "crashed", "odd"]);
    }

    #[test]
    fn an_interval_that_holds_1_is_no_difference() {
        let rows = Rows::ratios("", "", Vec::new());
        let of = |low, high| rows.emphasis(&Row::new("", (low + high) / 2.0).interval(low, high));
        assert_eq!([of(1.1, 1.2), of(0.9, 1.2), of(0.8, 0.9)], [Emphasis::Good, Emphasis::Quiet, Emphasis::Bad]);
        let time = rows.clone().lower_is_better();
        assert_eq!(time.emphasis(&Row::new("", 0.8)), Emphasis::Good);
        assert_eq!(time.emphasis(&Row::new("", 1.0).emphasis(Emphasis::Baseline)), Emphasis::Baseline);
        assert_eq!(rows.emphasis(&Row::without_value("")), Emphasis::Quiet);
    }

    #[test]
    fn a_wide_interval_does_not_press_the_values_together() {
        let rows = vec![Row::new("a", 1.1).interval(1.0, 49.6), Row::new("b", 0.9).interval(0.85, 0.95)];
        let scale = Rows::ratios("", "", rows).scale();
        assert!(scale.to < 2.0 && scale.from > 0.7, "{scale:?}");
        assert!(Rows::bars("", "", vec![Row::new("a", 5.0).interval(4.0, 6.0)]).scale().to > 6.0);
    }
}
