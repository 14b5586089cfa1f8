//! What a heat map shows.

use crate::scale::Scale;
use crate::{picture, terminal, Axis, Look};

/// A square of values, for instance the latency between each two CPUs, or a table of them, with columns of other
/// names.
#[derive(Clone, Debug, Default)]
pub struct HeatMap {
    /// One line above the picture; may be empty.
    pub title: String,
    /// What rows and columns are, for instance `CPU`.
    pub sides: String,
    /// What the values are and in which unit, for instance `one-way latency (ns)`.
    pub unit: String,
    /// Equal steps of colour multiply instead of add; values that are not above 0 are then left blank.
    pub log: bool,
    /// The names of the rows from above, which are those of the columns from the left unless those have their own.
    pub names: Vec<String>,
    /// The names of the columns from the left, where they are not those of the rows.
    pub columns: Vec<String>,
    /// What columns are, where they are not what rows are.
    pub across: String,
    /// The values, row by row; `None` is left blank. As many as rows times columns.
    pub values: Vec<Option<f64>>,
    /// The values at the ends of the scale of colours, which those beyond have too; the least and the greatest if not
    /// given.
    pub ends: Option<(f64, f64)>,
    /// What rows belong to, from the largest groups to the smallest, for instance NUMA nodes and then caches. A
    /// border lies between neighbours of different groups, the thicker the larger the groups are: between rows, and
    /// in a square between columns, too. Only in files.
    pub groups: Vec<Groups>,
    /// Rows in the order in which something visits them, and after the last the first: the cell of each step has a
    /// frame. Only in files, and in a square.
    pub route: Vec<usize>,
    /// What made the picture: a line below it; may be empty. Only in files.
    pub footer: String,
}

/// A way to put rows together.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// What the groups are, in the plural, for instance `NUMA nodes`.
    pub name: String,
    /// The group of each row; rows of no group are left out of borders.
    pub of: Vec<Option<usize>>,
}

impl Groups {
    /// The rows before which a border lies; none where the groups are all one, or each row is one, or where members of
    /// a group are so scattered that borders would only hide the values.
    pub(crate) fn borders(&self) -> Vec<usize> {
        let starts: Vec<usize> = (1..self.of.len()).filter(|row| self.of[*row] != self.of[row - 1]).collect();
        let mut groups: Vec<usize> = self.of.iter().flatten().copied().collect();
        groups.sort_unstable();
        groups.dedup();
        let is_useful = groups.len() > 1 && groups.len() < self.of.len() && starts.len() < 3 * groups.len();
        if is_useful && starts.len() + 1 < self.of.len() {
            starts
        } else {
            Vec::new()
        }
    }
}

impl HeatMap {
    /// The bytes of a file with the picture.
    pub fn render(&self, look: impl Into<Look>) -> Vec<u8> {
        picture::heat_map(self, look.into())
    }

    /// The map in characters, at most `columns` wide (40 at least), plain Unicode. Where the values do not fit, shades
    /// stand for them, and where even these do not, one shade stands for the mean of a block.
    pub fn terminal(&self, columns: usize) -> String {
        terminal::heat_map(self, columns)
    }

    /// Whether rows and columns are the same.
    pub(crate) fn is_square(&self) -> bool {
        self.columns.is_empty()
    }

    /// How many rows.
    pub(crate) fn height(&self) -> usize {
        self.names.len()
    }

    /// How many columns.
    pub(crate) fn width(&self) -> usize {
        self.column_names().len()
    }

    /// The names of the columns.
    pub(crate) fn column_names(&self) -> &[String] {
        if self.is_square() {
            &self.names
        } else {
            &self.columns
        }
    }

    /// What the columns are.
    pub(crate) fn columns_are(&self) -> &str {
        if self.across.is_empty() {
            &self.sides
        } else {
            &self.across
        }
    }

    /// The value in a row and a column, if it is one that can be shown.
    pub(crate) fn value(&self, row: usize, column: usize) -> Option<f64> {
        self.values.get(row * self.width() + column).copied().flatten().filter(|value| self.axis().shows(*value))
    }

    /// All values that can be shown.
    pub(crate) fn shown(&self) -> impl Iterator<Item = f64> + '_ {
        let axis = self.axis();
        self.values.iter().copied().flatten().filter(move |value| axis.shows(*value))
    }

    /// The least and the greatest value; in the wrong order where there is none.
    pub(crate) fn range(&self) -> (f64, f64) {
        self.shown().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(v), m.max(v)))
    }

    /// From the least value to the greatest, or between the ends that are given.
    pub(crate) fn scale(&self) -> Scale {
        let range = self.ends.unwrap_or_else(|| self.range());
        let axis = self.axis();
        let axis = if range.0 < range.1 { axis.range(range.0, range.1) } else { axis };
        Scale::new(&axis, &mut self.shown())
    }

    fn axis(&self) -> Axis {
        if self.log {
            Axis::log("")
        } else {
            Axis::linear("")
        }
    }
}

/// A value as a cell shows it: two digits at least.
pub(crate) fn cell(value: f64) -> String {
    if value.abs() < 0.995 && value != 0.0 {
        format!("{value:.2}")
    } else if value.abs() < 9.95 {
        format!("{value:.1}")
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_columns_of_its_own() {
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let values = (0..6).map(|n| Some(f64::from(n))).collect();
        let columns = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let map = HeatMap { names: names(["x", "y"]), columns, values, ..HeatMap::default() };
        assert_eq!((map.height(), map.width(), map.value(1, 0), map.range()), (2, 3, Some(3.0), (0.0, 5.0)));
        let scale = HeatMap { ends: Some((1.0, 3.0)), ..map }.scale();
        assert_eq!((scale.from, scale.to), (1.0, 3.0));
        assert_eq!(
            (cell(0.876), cell(1.04), cell(0.0), cell(120.4)),
            ("0.88".into(), "1.0".into(), "0.0".into(), "120".into())
        );
    }

    #[test]
    fn borders_lie_between_groups_that_are_some_and_hold_together() {
        let borders =
            |of: &[usize]| Groups { name: String::new(), of: of.iter().copied().map(Some).collect() }.borders();
        assert_eq!(borders(&[0, 0, 1, 1, 1, 2]), [2, 5]);
        assert_eq!(borders(&[0, 0, 1, 1, 0, 0, 1, 1]), [2, 4, 6], "hyperthreads come after the cores");
        assert!(borders(&[0, 0, 0]).is_empty() && borders(&[0, 1, 2]).is_empty() && borders(&[]).is_empty());
        assert!(borders(&[0, 1, 0, 1, 0, 1, 0, 1]).is_empty(), "each CPU has another neighbour");
    }
}
