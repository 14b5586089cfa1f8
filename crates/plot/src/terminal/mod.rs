//! Charts and heat maps in characters.

mod chart;
mod heat_map;
mod rows;

pub use chart::chart;
pub use heat_map::heat_map;
pub use rows::rows;

/// Less than this holds no chart.
const LEAST_COLUMNS: usize = 40;

/// Joins words with two blanks between them, in lines of at most `columns` characters.
fn fill(words: impl IntoIterator<Item = String>, columns: usize) -> String {
    let (mut text, mut used) = (String::new(), 0);
    for word in words {
        let width = word.chars().count();
        let gap = if used == 0 { 0 } else { 3 };
        if used > 0 && used + gap + width > columns {
            text.push('\n');
            used = 0;
        } else {
            text.extend(std::iter::repeat_n(' ', gap));
            used += gap;
        }
        text.push_str(&word);
        used += width;
    }
    if used > 0 {
        text.push('\n');
    }
    text
}
