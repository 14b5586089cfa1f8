//! What failed.

use crate::survey::grid::Grid;
use crate::survey::sheet::{Entry, Row, Sheet};

/// The cells with runs that failed; nothing where there are none.
pub fn sheet(grid: &Grid) -> Option<Sheet> {
    let rows: Vec<Row> = grid
        .cells()
        .filter(|(_, cell)| cell.failed > 0)
        .map(|(name, cell)| {
            let counts = [u64::from(cell.failed), cell.values.len() as u64 + u64::from(cell.failed)];
            Row { name, entries: counts.map(Entry::Count).to_vec() }
        })
        .collect();
    (!rows.is_empty()).then(|| Sheet {
        id: "failures".into(),
        machine: grid.machine.clone(),
        title: "Runs that failed".into(),
        about:
            "Their cells are in no other table: a lock on which a program fails now and then does not win by its other \
                runs."
                .into(),
        heading: "cell",
        columns: vec!["failed".into(), "runs".into()],
        rows,
        colours: None,
    })
}
