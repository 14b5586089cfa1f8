//! What the runs prove of each lock.

use crate::survey::grid::{At, Numbers};
use crate::survey::sheet::{percent, Entry, Row, Sheet};
use crate::survey::verdict::{runs_at, verdict, Verdict};

/// What the runs say of each lock against all others, one program at a time.
pub fn sheet(numbers: &Numbers<'_>, programs: &[usize], tie: f64) -> Sheet {
    let grid = numbers.grid;
    let count = |lock: usize, at: At| {
        let mut counts = [0.0; 4];
        for program in programs {
            for other in (0..grid.locks.len()).filter(|other| *other != lock) {
                let runs = |lock| runs_at(grid, numbers, *program, lock, at);
                if let (Some(own), Some(other)) = (runs(lock), runs(other)) {
                    let place = match verdict(own, other, tie) {
                        Verdict::Better => 0,
                        Verdict::Worse => 1,
                        Verdict::Same => 2,
                        Verdict::Open => 3,
                    };
                    counts[place] += 1.0;
                }
            }
        }
        let all: f64 = counts.iter().sum();
        counts.map(|count| Entry::share((all > 0.0).then_some(count / all)))
    };
    let row = |(lock, name): (usize, &String)| Row {
        name: name.clone(),
        entries: [At::Most, At::Best].into_iter().flat_map(|at| count(lock, at)).collect(),
    };
    let columns = ["max nodes", "opt nodes"]
        .map(|at| ["better", "worse", "no difference", "open"].map(|verdict| format!("{verdict}, {at}")).to_vec());
    Sheet {
        id: "verdicts".into(),
        machine: grid.machine.clone(),
        title: "What the runs prove".into(),
        about: format!(
            "Share of all comparisons with another lock in one lock-sensitive program in which the lock is better or worse by \
             more than {} and the 95 % interval of the ratio does not hold 1; no difference is what lies within that, and \
             open is what the runs do not tell.",
            percent(tie)
        ),
        heading: "lock",
        columns: columns.concat(),
        rows: grid.locks.iter().enumerate().map(row).collect(),
        colours: None,
    }
}
