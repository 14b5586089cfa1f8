//! Pictures of a comparison.

use lockswap_plot::{Axis, Chart, Emphasis, Look, Reference, Row as Bar, Rows, Series};

use crate::model::{Comparison, BASELINE};
use crate::summary::{self, Judgement, Row};

/// A picture of the ratios, with this last line: over the parameter of a sweep where there is one of numbers, else a row for each lock.
pub fn draw(comparison: &Comparison, footer: String, look: Look) -> Vec<u8> {
    let Some(rows) = comparison.summary.first() else { return Vec::new() };
    let axis = match comparison.measures.first() {
        Some(measure) => format!("{}, times as good as {BASELINE}'s (above 1 is better)", measure.name),
        None => String::new(),
    };
    match over_parameter(comparison, rows, &axis) {
        Some(chart) => Chart { footer, ..chart }.render(look),
        None => {
            let shown = summary::sorted(comparison, rows).into_iter().map(bar).collect();
            Rows::ratios(comparison.name.clone(), axis, shown).footer(footer).render(look)
        }
    }
}

fn bar(row: &Row) -> Bar {
    let label = match row.setting.is_empty() {
        true => row.lock.clone(),
        false => format!("{}, {}", row.lock, summary::in_words(&row.setting)),
    };
    if row.lock == BASELINE {
        return Bar::new(label, 1.0).emphasis(Emphasis::Baseline).note("the baseline");
    }
    let bar = match (row.ratio, row.ratio_low, row.ratio_high) {
        (Some(ratio), Some(low), Some(high)) => Bar::new(label, ratio).interval(low, high),
        (Some(ratio), _, _) if row.judgement != Judgement::Failed => Bar::new(label, ratio),
        _ => Bar::without_value(label),
    };
    bar.note(row.verdict.clone())
}

/// A line for each lock, where the setting is one number.
fn over_parameter(comparison: &Comparison, rows: &[Row], axis: &str) -> Option<Chart> {
    let number = |row: &Row| match &row.setting[..] {
        [(_, value)] => value.parse::<f64>().ok().filter(|number| number.is_finite()),
        _ => None,
    };
    let numbers: Vec<f64> = rows.iter().map(number).collect::<Option<_>>()?;
    let name = &rows.first()?.setting.first()?.0;
    let x = if numbers.iter().all(|number| *number > 0.0) { Axis::log(name) } else { Axis::linear(name) };
    let mut chart = Chart::new(comparison.name.clone(), x, Axis::log(axis));
    let mut drawn: Vec<&str> = vec![BASELINE];
    for lock in rows.iter().map(|row| row.lock.as_str()) {
        if drawn.contains(&lock) {
            continue;
        }
        drawn.push(lock);
        let own: Vec<(f64, &Row)> = numbers.iter().copied().zip(rows).filter(|(_, row)| row.lock == lock).collect();
        let points = own.iter().filter_map(|(number, row)| Some((*number, row.ratio?)));
        let band = own.iter().filter_map(|(number, row)| Some((*number, row.ratio_low?, row.ratio_high?)));
        chart.series.push(Series::new(lock, points).with_band(band));
    }
    chart.references.push(Reference::horizontal(1.0, BASELINE));
    Some(chart)
}
