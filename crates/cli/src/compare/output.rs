//! The files that a comparison is written to.

use lockswap_experiment::drawn::{self, About};
use lockswap_plot::Look;
use lockswap_study::export::render;
use lockswap_study::model::Comparison;
use lockswap_study::summary;

use crate::outputs::{Outputs, Wanted};
use crate::picture;
use crate::selection::PLAIN;

/// Writes the comparison as it stands to all files; pictures only when all is `done`.
pub fn write(outputs: &mut Outputs, comparison: &Comparison, done: bool) {
    outputs.write(done, |wanted| match wanted {
        Wanted::Data(format) => render(format, comparison).map(String::into_bytes),
        Wanted::Picture(look) => Ok(draw(comparison, look)),
    });
}

/// The ratios: over the parameter of a sweep where there is one of numbers, else a row for each lock.
fn draw(comparison: &Comparison, look: Look) -> Vec<u8> {
    let Some(rows) = comparison.summary.first() else { return Vec::new() };
    let axis = match comparison.measures.first() {
        Some(measure) => format!("{}, times as good as {PLAIN}'s (above 1 is better)", measure.name),
        None => String::new(),
    };
    let footer = picture::footer(&[format!("seed {}", comparison.seed)]);
    let about = About { title: comparison.name.clone(), axis, footer, baseline: PLAIN.to_owned() };
    drawn::ratios(about, &summary::sorted(comparison, rows), look)
}
