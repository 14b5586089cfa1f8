//! What every picture has: its size, a title above and what made it below.

use super::canvas::{length, Anchor, Paper, Point, BLACK, GREY, WHITE};

/// The size of the title and of the footer.
const TITLE: f64 = 16.0;
const FOOTER: f64 = 10.5;
/// From one line to the next, in heights of the text.
const LEADING: f64 = 1.35;
/// More lines than these are cut off.
const TITLE_LINES: usize = 3;
const FOOTER_LINES: usize = 6;
/// Left, right, above and below.
const MARGIN: f64 = 12.0;

/// A picture's place for content, between title and footer.
pub struct Page {
    pub width: f64,
    pub height: f64,
    /// Where the content begins.
    pub top: f64,
    /// Where it ends.
    pub bottom: f64,
    title: Vec<String>,
    footer: Vec<String>,
}

impl Page {
    /// A picture of this width, as high as title, footer and content need.
    pub fn new(width: f64, content: f64, title: &str, footer: &str) -> Self {
        let room = width - 2.0 * MARGIN;
        let (title, footer) = (wrap(title, TITLE, room, TITLE_LINES), wrap(footer, FOOTER, room, FOOTER_LINES));
        let block = |lines: &[String], size: f64| match lines.len() {
            0 => 0.0,
            count => count as f64 * size * LEADING + 8.0,
        };
        let top = MARGIN + block(&title, TITLE);
        let bottom = top + content;
        Self { width, height: (bottom + block(&footer, FOOTER) + MARGIN).ceil(), top, bottom, title, footer }
    }

    /// Width and height.
    pub fn size(&self) -> Point {
        (self.width, self.height)
    }

    /// The paper, the title and the footer.
    pub fn draw(&self, paper: &dyn Paper) {
        paper.tile((0.0, 0.0), self.size(), WHITE);
        let line = |above: f64, size: f64, index: usize| above + (index as f64 + 0.5) * size * LEADING;
        for (index, text) in self.title.iter().enumerate() {
            paper.text(text, (MARGIN, line(MARGIN, TITLE, index)), Anchor::Left, TITLE, BLACK, false);
        }
        for (index, text) in self.footer.iter().enumerate() {
            let at = (MARGIN, line(self.bottom + 8.0, FOOTER, index));
            paper.text(text, at, Anchor::Left, FOOTER, GREY, false);
        }
    }
}

/// The text in lines of at most this length, broken between words where that is possible; what would come after the
/// last line is cut off.
pub fn wrap(text: &str, size: f64, room: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match longer.filter(|line| length(line, size) <= room) {
            Some(longer) => *lines.last_mut().expect("there is one that became longer") = longer,
            None => lines.extend(pieces(word, size, room)),
        }
    }
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = cut(&format!("{last} \u{2026}"), size, room);
        }
    }
    lines
}

/// A word in pieces that are short enough.
fn pieces(word: &str, size: f64, room: f64) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for letter in word.chars() {
        let longer = pieces.last().map(|piece| format!("{piece}{letter}")).unwrap_or_default();
        match pieces.last_mut() {
            Some(piece) if piece.is_empty() || length(&longer, size) <= room => *piece = longer,
            _ => pieces.push(letter.into()),
        }
    }
    pieces
}

/// The text, without its end where it is too long.
pub fn cut(text: &str, size: f64, room: f64) -> String {
    if length(text, size) <= room {
        return text.into();
    }
    let letters: Vec<char> = text.trim_end_matches('\u{2026}').chars().collect();
    let shorter = |count: usize| letters[..count].iter().collect::<String>().trim_end().to_owned() + "\u{2026}";
    (0..letters.len()).rev().map(shorter).find(|text| length(text, size) <= room).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_broken_between_words_and_cut_off_after_the_last_line() {
        let lines = wrap("one two three four five six seven eight nine ten", 10.0, 90.0, 10);
        assert!(lines.len() > 2 && lines.iter().all(|line| length(line, 10.0) <= 90.0), "{lines:?}");
        assert_eq!(lines.join(" "), "one two three four five six seven eight nine ten");
        let lines = wrap(&"a-word-without-blanks".repeat(9), 10.0, 90.0, 2);
        assert!(lines.len() == 2 && lines[1].ends_with('\u{2026}'), "{lines:?}");
        assert!(lines.iter().all(|line| length(line, 10.0) <= 90.0), "{lines:?}");
        assert!(wrap("", 10.0, 90.0, 2).is_empty());
    }
}
