//! The columns of a comparison's table.

use crate::model::{Measure, BASELINE};
use crate::numbers::{count, human};
use crate::summary::Row;

/// A column of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The lock.
    Lock,
    /// The median.
    Median,
    /// The median absolute deviation.
    Spread,
    /// CPU time.
    Cpu,
    /// Context switches.
    Switches,
    /// Lock calls.
    Calls,
    /// The ratio.
    Ratio,
    /// The verdict.
    Verdict,
}

impl Column {
    /// All of them, as they stand.
    pub const ALL: [Column; 8] = [
        Column::Lock,
        Column::Median,
        Column::Spread,
        Column::Cpu,
        Column::Switches,
        Column::Calls,
        Column::Ratio,
        Column::Verdict,
    ];

    /// Those that a line of so many characters has room for.
    pub fn for_width(width: usize) -> Vec<Column> {
        let keep = |column: &Column| match column {
            Column::Lock | Column::Ratio | Column::Verdict => true,
            Column::Median => width >= 72,
            Column::Cpu => width >= 84,
            Column::Calls => width >= 100,
            Column::Spread => width >= 108,
            Column::Switches => width >= 120,
        };
        Self::ALL.into_iter().filter(keep).collect()
    }

    /// The heading.
    pub fn heading(self) -> &'static str {
        match self {
            Column::Lock => "lock",
            Column::Median => "median",
            Column::Spread => "spread",
            Column::Cpu => "CPU time",
            Column::Switches => "switches",
            Column::Calls => "calls",
            Column::Ratio => "ratio [95% CI]",
            Column::Verdict => "verdict",
        }
    }

    /// Whether it holds numbers.
    pub fn is_numeric(self) -> bool {
        !matches!(self, Column::Lock | Column::Ratio | Column::Verdict)
    }

    /// The cell of a row as people read it.
    pub fn cell(self, row: &Row, measure: &Measure) -> String {
        let none = || "-".to_owned();
        match self {
            Column::Lock => row.lock.clone(),
            Column::Median => row.median.map_or_else(none, |m| human(m, &measure.unit)),
            Column::Spread => match (row.median, row.spread) {
                (Some(median), Some(spread)) if median != 0.0 => format!("±{:.1}%", 100.0 * spread / median.abs()),
                (Some(_), Some(spread)) => format!("±{}", human(spread, &measure.unit)),
                _ => none(),
            },
            Column::Cpu => row.cpu_s.map_or_else(none, |s| human(s, "s")),
            Column::Switches => row.switches.map_or_else(none, count),
            Column::Calls => match (row.calls_ours, row.calls_glibc) {
                (Some(ours), Some(0)) => count(ours as f64),
                (Some(ours), Some(glibc)) => {
                    format!("{} of {}", count(ours as f64), count(ours.saturating_add(glibc) as f64))
                }
                _ => none(),
            },
            Column::Ratio if row.lock == BASELINE && row.median.is_some() => "1".into(),
            Column::Ratio => row.ratio_in_words(),
            Column::Verdict => row.verdict.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_has_the_ratio_and_the_verdict() {
        for width in [40, 60, 80, 200] {
            let columns = Column::for_width(width);
            assert!(columns.contains(&Column::Ratio) && columns.contains(&Column::Verdict));
        }
        assert_eq!(Column::for_width(200).len(), 8);
    }
}
