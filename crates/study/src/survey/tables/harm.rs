//! How far each lock stays behind the best one: Tables 11 and 12.

use super::{share, Of, BOTH};
use crate::survey::grid::{best, At};
use crate::survey::sheet::{percent, Colours, Entry, Row, Sheet};

pub(super) fn sheets(of: &Of<'_>) -> Vec<Sheet> {
    let gains = BOTH.map(|(at, ..)| gains(of, at));
    let mut sheets: Vec<Sheet> = BOTH.iter().zip(&gains).map(|(both, gains)| sheet(of, both, gains)).collect();
    let harmed = |lock: usize, gains: &Vec<Vec<Option<f64>>>| {
        share(gains.iter().filter_map(|line| Some(line[lock]? > of.margins.harm)))
    };
    let row = |(lock, name): (usize, &String)| Row {
        name: name.clone(),
        entries: gains.iter().map(|gains| Entry::share(harmed(lock, gains))).collect(),
    };
    sheets.push(Sheet {
        id: "harm".into(),
        machine: of.machine(),
        title: "How often a lock harms".into(),
        about: format!(
            "Share of the lock-sensitive programs that ran on the lock for which the best lock is better by more than {} \
             (Table 12).",
            percent(of.margins.harm)
        ),
        heading: "lock",
        columns: BOTH.map(|(.., at)| at.into()).to_vec(),
        rows: of.locks().iter().enumerate().map(row).collect(),
        colours: Some(Colours::MoreIsWorse),
    });
    sheets
}

/// For each program and lock, by how much the best lock is better.
fn gains(of: &Of<'_>, at: At) -> Vec<Vec<Option<f64>>> {
    let gain = |line: Vec<Option<f64>>| {
        let most = best(&line);
        line.iter().map(|value| Some(most? / (*value)? - 1.0)).collect()
    };
    of.lines(at).into_iter().map(gain).collect()
}

fn sheet(of: &Of<'_>, (_, id, at): &(At, &str, &str), gains: &[Vec<Option<f64>>]) -> Sheet {
    let row = |(program, line): (&usize, &Vec<Option<f64>>)| Row {
        name: of.program(*program).into(),
        entries: line.iter().map(|gain| Entry::share(*gain)).collect(),
    };
    Sheet {
        id: format!("gains-{id}"),
        machine: of.machine(),
        title: format!("Gain of the best lock over each, {at}"),
        about: "By how much the program's best lock is better than the lock of the column (Table 11). A question mark says \
                that the runs do not tell the two apart."
            .into(),
        heading: "program",
        columns: of.locks().to_vec(),
        rows: of.programs.iter().zip(gains).map(row).collect(),
        colours: Some(Colours::MoreIsWorse),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::survey::grid::tests::runs;
    use crate::survey::grid::Grid;

    #[test]
    fn harm_is_a_gain_of_the_best_lock_above_the_margin() {
        let mut all = runs("p", &[(1, "a", &[116.0]), (1, "b", &[100.0]), (1, "c", &[102.0])]);
        all.extend(runs("q", &[(1, "a", &[50.0]), (1, "b", &[100.0])]));
        let grid = Grid::new("m", &all);
        let numbers = grid.means();
        let sheets = sheets(&Of { numbers: &numbers, programs: &[0, 1], margins: Default::default() });
        let words = |sheet: &Sheet, row: &str| {
            sheet.row(row).unwrap().entries.iter().map(Entry::words).collect::<Vec<_>>().join("|")
        };
        assert_eq!(words(&sheets[1], "p"), "0 %|16 %|14 %");
        assert_eq!(words(&sheets[1], "q"), "100 %|0 %|-");
        assert_eq!(words(&sheets[2], "a"), "50 %|50 %");
        assert_eq!((words(&sheets[2], "b"), words(&sheets[2], "c")), ("50 %|50 %".into(), "0 %|0 %".into()));
    }
}
