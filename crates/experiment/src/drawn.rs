//! Pictures of ratios to a baseline.

use lockswap_plot::{Axis, Chart, Emphasis, Look, Reference, Row as Bar, Rows, Series};
use lockswap_study::summary::{self, Judgement, Row};
use lockswap_workloads::workload::Workload;

/// What a picture says besides its rows.
pub struct About {
    /// A line above it.
    pub title: String,
    /// What the ratios are.
    pub axis: String,
    /// What made it.
    pub footer: String,
    /// What the line at 1 is.
    pub baseline: String,
}

/// The ratios: over the parameter that tells settings apart where that is one number, else a row for each lock.
pub fn ratios(about: About, rows: &[&Row], look: Look) -> Vec<u8> {
    match over_parameter(&about, rows) {
        Some(chart) => chart.render(look),
        None => {
            let bars = rows.iter().map(|row| bar(row)).collect();
            Rows::ratios(about.title, about.axis, bars).footer(about.footer).render(look)
        }
    }
}

fn bar(row: &Row) -> Bar {
    let label = match row.setting.is_empty() {
        true => row.lock.clone(),
        false => format!("{}, {}", row.lock, summary::in_words(&row.setting)),
    };
    if row.judgement == Judgement::Baseline {
        return Bar::new(label, 1.0).emphasis(Emphasis::Baseline).note("the baseline");
    }
    let bar = match (row.ratio, row.ratio_low, row.ratio_high) {
        (Some(ratio), Some(low), Some(high)) => Bar::new(label, ratio).interval(low, high),
        (Some(ratio), _, _) if row.judgement != Judgement::Failed => Bar::new(label, ratio),
        _ => Bar::without_value(label),
    };
    bar.note(row.verdict.clone())
}

/// A line for each lock, where the setting is one number that takes several values.
fn over_parameter(about: &About, rows: &[&Row]) -> Option<Chart> {
    // What all settings have alike is no axis.
    let differs = |key: &&String| {
        let value = |row: &&Row| row.setting.iter().find(|(other, _)| other == *key).map(|(_, value)| value.clone());
        rows.iter().any(|row| value(row) != value(&rows[0]))
    };
    let keys: Vec<&String> = rows.first()?.setting.iter().map(|(key, _)| key).filter(differs).collect();
    let [name] = keys[..] else { return None };
    let number = |row: &&Row| {
        let (_, value) = row.setting.iter().find(|(key, _)| key == name)?;
        value.parse::<f64>().ok().filter(|number| number.is_finite())
    };
    let numbers: Vec<f64> = rows.iter().map(number).collect::<Option<_>>()?;
    let x = if numbers.iter().all(|number| *number > 0.0) { Axis::log(name) } else { Axis::linear(name) };
    let x = if Workload::is_time(name) { x.time() } else { x };
    let mut chart = Chart::new(about.title.clone(), x, Axis::log(&about.axis));
    let mut drawn: Vec<&str> = Vec::new();
    for lock in rows.iter().filter(|row| row.judgement != Judgement::Baseline).map(|row| row.lock.as_str()) {
        if drawn.contains(&lock) {
            continue;
        }
        drawn.push(lock);
        let own: Vec<(f64, &&Row)> = numbers.iter().copied().zip(rows).filter(|(_, row)| row.lock == lock).collect();
        let points = own.iter().filter_map(|(number, row)| Some((*number, row.ratio?)));
        let band = own.iter().filter_map(|(number, row)| Some((*number, row.ratio_low?, row.ratio_high?)));
        chart.series.push(Series::new(lock, points).with_band(band));
    }
    chart.references.push(Reference::horizontal(1.0, about.baseline.clone()));
    Some(Chart { footer: about.footer.clone(), ..chart })
}
