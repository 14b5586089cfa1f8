//! Where single runs move a mean.

use crate::descriptive;
use crate::survey::grid::Grid;
use crate::survey::sheet::{percent, Entry, Figure, Row, Sheet};

/// The cells in which few runs move the mean; nothing where there are none.
pub fn sheet(grid: &Grid, tie: f64) -> Option<Sheet> {
    let distance = |values: &[f64]| Some(descriptive::mean(values)? / descriptive::median(values)? - 1.0);
    let mut moved: Vec<(f64, Row)> = grid
        .cells()
        .filter(|(_, cell)| cell.is_measured())
        .filter_map(|(name, cell)| {
            let distance = distance(&cell.values).filter(|distance| distance.abs() > tie)?;
            let figure = Figure { value: distance, interval: None, nodes: None, is_open: false };
            let entries = vec![Entry::Share(figure), Entry::Count(cell.values.len() as u64)];
            Some((distance.abs(), Row { name, entries }))
        })
        .collect();
    moved.sort_by(|a, b| b.0.total_cmp(&a.0));
    (!moved.is_empty()).then(|| Sheet {
        id: "outliers".into(),
        machine: grid.machine.clone(),
        title: "Where single runs move the mean".into(),
        about: format!(
            "Cells whose mean lies more than {} away from their median, and their numbers of runs.",
            percent(tie)
        ),
        heading: "cell",
        columns: vec!["mean over median".into(), "runs".into()],
        rows: moved.into_iter().map(|(_, row)| row).collect(),
        colours: None,
    })
}
