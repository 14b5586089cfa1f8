//! A table of numbers that knows what each of them is, before it becomes text.

use serde::Serialize;

/// A table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sheet {
    /// Its name in files: the analysis, and at which nodes locks are compared where there are several.
    pub id: String,
    /// The machine, or machines.
    pub machine: String,
    /// Its title.
    pub title: String,
    /// How to read it.
    pub about: String,
    /// What its rows are.
    pub heading: &'static str,
    /// What its columns are.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Row>,
    /// How its numbers are coloured, where that helps.
    pub colours: Option<Colours>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What it is about.
    pub name: String,
    /// An entry for each column.
    pub entries: Vec<Entry>,
}

/// What a large number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Colours {
    /// It is good.
    MoreIsBetter,
    /// It is bad.
    MoreIsWorse,
}

/// What stands in a cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// Nothing was measured there.
    Untested,
    /// Nothing belongs there: a lock against itself.
    Empty,
    /// A share: 0.05 is 5 %.
    Share(Figure),
    /// A number of things.
    Count(u64),
}

/// A number with what belongs to it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The number.
    pub value: f64,
    /// The ends of its 95 % interval.
    pub interval: Option<(f64, f64)>,
    /// At how many nodes it was reached, where that varies from cell to cell.
    pub nodes: Option<u32>,
    /// Whether the runs do not tell it from nothing.
    pub is_open: bool,
}

impl Entry {
    /// A share; nothing was tested where it is nothing.
    pub fn share(value: Option<f64>) -> Self {
        let figure = |value| Figure { value, interval: None, nodes: None, is_open: false };
        value.map_or(Entry::Untested, |value| Entry::Share(figure(value)))
    }

    /// The entry for people.
    pub fn words(&self) -> String {
        match self {
            Entry::Untested => "-".into(),
            Entry::Empty => String::new(),
            Entry::Count(count) => count.to_string(),
            Entry::Share(figure) => {
                let mut text = percent(figure.value);
                if let Some(nodes) = figure.nodes {
                    text += &format!(" at {nodes}");
                }
                if let Some((low, high)) = figure.interval.filter(|(low, high)| round(*low) != round(*high)) {
                    text += &format!(" [{}, {}]", round(low), round(high));
                }
                text + if figure.is_open { " ?" } else { "" }
            }
        }
    }
}

impl Sheet {
    /// The row of that name.
    pub fn row(&self, name: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.name == name)
    }

    /// All its figures, row by row.
    pub fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.rows.iter().flat_map(|row| &row.entries).filter_map(|entry| match entry {
            Entry::Share(figure) => Some(figure),
            _ => None,
        })
    }

    /// The same, to be changed.
    pub fn figures_mut(&mut self) -> impl Iterator<Item = &mut Figure> {
        self.rows.iter_mut().flat_map(|row| &mut row.entries).filter_map(|entry| match entry {
            Entry::Share(figure) => Some(figure),
            _ => None,
        })
    }
}

/// A share in percent, without digits after the point, as in the paper.
pub fn percent(share: f64) -> String {
    format!("{} %", round(share))
}

fn round(share: f64) -> f64 {
    // Without the sign of a zero.
    (share * 100.0).round() + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_in_words() {
        let figure = Figure { value: 0.123, interval: Some((0.101, 0.15)), nodes: None, is_open: false };
        assert_eq!(Entry::Share(figure.clone()).words(), "12 % [10, 15]");
        let narrow = Figure { interval: Some((0.121, 0.124)), nodes: Some(8), is_open: true, ..figure };
        assert_eq!(Entry::Share(narrow).words(), "12 % at 8 ?");
        assert_eq!(Entry::share(Some(-0.001)).words(), "0 %");
        assert_eq!((Entry::share(None).words(), Entry::Empty.words()), ("-".into(), String::new()));
    }
}
