//! Pictures of ratios to a baseline.

use lockswap_plot::{Axis, Chart, Emphasis, Look, Reference, Row as Bar, Rows, Series};

use crate::model::{Comparison, BASELINE};
use crate::summary::{self, Judgement, Row};

/// A picture of a comparison's ratios, with this last line.
pub fn draw(comparison: &Comparison, footer: String, look: Look) -> Vec<u8> {
    let Some(rows) = comparison.summary.first() else { return Vec::new() };
    let axis = match comparison.measures.first() {
        Some(measure) => format!("{}, times as good as {BASELINE}'s (above 1 is better)", measure.name),
        None => String::new(),
    };
    let (title, baseline) = (comparison.name.clone(), BASELINE.to_owned());
    let about = About { title, axis, footer, baseline, is_time: |_| false };
    ratios(about, &summary::sorted(comparison, rows), look)
}

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
    /// Whether the values of a key of the settings are times, ns.
    pub is_time: fn(&str) -> bool,
}

/// The ratios: over the parameter that tells settings apart where that is one number, else a row for each lock and
/// setting.
pub fn ratios(about: About, rows: &[&Row], look: Look) -> Vec<u8> {
    // What all settings have alike is said once.
    let (varied, common): (Vec<String>, Vec<String>) = keys(rows).into_iter().partition(|key| {
        let first = rows.first().and_then(|row| value(row, key));
        rows.iter().any(|row| value(row, key) != first)
    });
    let of = |row: &Row, keys: &[String]| -> Vec<(String, String)> {
        row.setting.iter().filter(|(key, _)| keys.contains(key)).cloned().collect()
    };
    let common = rows.first().map(|row| of(row, &common)).unwrap_or_default();
    let title = match common.is_empty() {
        true => about.title.clone(),
        false => format!("{}, {}", about.title, summary::in_words(&common)),
    };
    let about = About { title, ..about };
    match &varied[..] {
        [key] if rows.iter().all(|row| number(row, key).is_some()) => over_parameter(about, rows, key).render(look),
        _ => {
            let bars = rows.iter().map(|row| bar(row, &of(row, &varied))).collect();
            Rows::ratios(about.title, about.axis, bars).footer(about.footer).render(look)
        }
    }
}

/// The keys of all settings, each once.
fn keys(rows: &[&Row]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for (key, _) in rows.iter().flat_map(|row| &row.setting) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    keys
}

fn value<'a>(row: &'a Row, key: &str) -> Option<&'a str> {
    row.setting.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_str())
}

fn number(row: &Row, key: &str) -> Option<f64> {
    value(row, key)?.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn bar(row: &Row, setting: &[(String, String)]) -> Bar {
    let label = match setting.is_empty() {
        true => row.lock.clone(),
        false => format!("{}, {}", row.lock, summary::in_words(setting)),
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

/// A line for each lock.
fn over_parameter(about: About, rows: &[&Row], key: &str) -> Chart {
    let is_positive = rows.iter().all(|row| number(row, key).is_some_and(|number| number > 0.0));
    let x = if is_positive { Axis::log(key) } else { Axis::linear(key) };
    let x = if (about.is_time)(key) { x.time() } else { x };
    let mut chart = Chart::new(about.title, x, Axis::log(about.axis));
    let mut drawn: Vec<&str> = Vec::new();
    for lock in rows.iter().filter(|row| row.judgement != Judgement::Baseline).map(|row| row.lock.as_str()) {
        if drawn.contains(&lock) {
            continue;
        }
        drawn.push(lock);
        let own = || rows.iter().filter(|row| row.lock == lock);
        let points = own().filter_map(|row| Some((number(row, key)?, row.ratio?)));
        let band = own().filter_map(|row| Some((number(row, key)?, row.ratio_low?, row.ratio_high?)));
        chart.series.push(Series::new(lock, points).with_band(band));
    }
    chart.references.push(Reference::horizontal(1.0, about.baseline));
    Chart { footer: about.footer, ..chart }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockswap_plot::Format;

    fn picture(settings: [&[(&str, &str)]; 2]) -> String {
        let comparison = crate::export::tests::comparison();
        let rows = settings.map(|setting| {
            let row = comparison.summary[0][1].clone();
            let setting = setting.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
            Row { setting, ..row }
        });
        let texts = ["title", "axis", "footer", "the line"].map(str::to_owned);
        let [title, axis, footer, baseline] = texts;
        let about = About { title, axis, footer, baseline, is_time: |key| key == "ncs" };
        let rows: Vec<&Row> = rows.iter().collect();
        String::from_utf8(ratios(about, &rows, Look::new(Format::Svg))).unwrap()
    }

    #[test]
    fn one_number_that_differs_is_an_axis_and_what_is_alike_is_said_once() {
        let over = picture([&[("threads", "2"), ("ncs", "1000")], &[("threads", "2"), ("ncs", "3000")]]);
        assert!(over.contains("title, threads=2") && over.contains("the line") && over.contains("3 us"), "{over}");
        let rows = picture([&[("length", "mixed")], &[("length", "constant")]]);
        assert!(rows.contains("quick, length=mixed") && !rows.contains("the line"), "{rows}");
        let several = picture([&[("threads", "2"), ("keys", "8")], &[("threads", "4"), ("keys", "9")]]);
        assert!(several.contains("quick, threads=4, keys=9"), "{several}");
    }
}
