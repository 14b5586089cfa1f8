//! Words that may have been meant in the place of one that is not known, found without an allocation: the preload
//! library asks before the program's own code runs.

use core::fmt;
use core::ops::Deref;

/// The longest word that is compared, in characters; a longer one is near to none.
const LONGEST: usize = 64;

/// The most words that are named.
const MOST: usize = 3;

/// Up to three words that are equally near to a word, and nearer than all others. Shown as a question:
/// `did you mean 'ticket' or 'ticket-ls'?`; nothing where there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nearest<'a> {
    words: [&'a str; MOST],
    count: usize,
}

impl<'a> Deref for Nearest<'a> {
    type Target = [&'a str];

    fn deref(&self) -> &[&'a str] {
        &self.words[..self.count]
    }
}

impl fmt::Display for Nearest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, word) in self.iter().enumerate() {
            let before = match (index, self.count - index) {
                (0, _) => "did you mean ",
                (_, 1) => " or ",
                _ => ", ",
            };
            write!(f, "{before}'{word}'")?;
        }
        f.write_str(if self.is_empty() { "" } else { "?" })
    }
}

/// What tells how near a word is, the nearest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Nearness {
    /// Only the last character is missing.
    Whole,
    /// The word is how the other one begins.
    Begins,
    /// So many slips of the pen away.
    Alike(usize),
    /// The word is a part of the other one.
    Part,
}

/// The words of `known` that are nearest to `word`, if any are near; of equally near ones those that come first.
/// Capitals do not count, nor whether `-` or `_` is written.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Nearest<'a> {
    let mut found = Nearest::default();
    let mut least = None;
    let Some(word) = Plain::new(word) else { return found };
    for other in known {
        let Some(near) = Plain::new(other).and_then(|other| nearness(&word, &other)) else { continue };
        if least.is_none_or(|least| near < least) {
            (least, found.count) = (Some(near), 0);
        }
        if least == Some(near) && found.count < MOST {
            found.words[found.count] = other;
            found.count += 1;
        }
    }
    found
}

fn nearness(word: &[char], other: &[char]) -> Option<Nearness> {
    let slips = slips(word, other);
    if word.len() > 1 && other.starts_with(word) {
        return Some(if slips == 1 { Nearness::Whole } else { Nearness::Begins });
    }
    if slips <= (other.len() / 3).max(1) {
        return Some(Nearness::Alike(slips));
    }
    let is_part = word.len() > 2 && other.windows(word.len()).any(|part| part == word);
    is_part.then_some(Nearness::Part)
}

/// A word without what does not count.
struct Plain {
    characters: [char; LONGEST],
    length: usize,
}

impl Plain {
    fn new(word: &str) -> Option<Self> {
        let mut plain = Self { characters: ['\0'; LONGEST], length: 0 };
        for character in word.chars() {
            *plain.characters.get_mut(plain.length)? = match character {
                '-' => '_',
                other => other.to_ascii_lowercase(),
            };
            plain.length += 1;
        }
        Some(plain)
    }
}

impl Deref for Plain {
    type Target = [char];

    fn deref(&self) -> &[char] {
        &self.characters[..self.length]
    }
}

/// How many characters must be put in, left out, exchanged for another or swapped with their neighbour to make one
/// word of the other: the distance of Damerau (1964) and Levenshtein (1966), with each part changed at most once. Both
/// words have at most [`LONGEST`] characters.
fn slips(from: &[char], to: &[char]) -> usize {
    // Distances of all beginnings of `to` from a beginning of `from`: of this length, one shorter, two shorter.
    let mut rows = [[0; LONGEST + 1]; 3];
    for (length, distance) in rows[0].iter_mut().enumerate() {
        *distance = length;
    }
    for i in 1..=from.len() {
        rows.rotate_right(1);
        let [row, last, last_but_one] = &mut rows;
        row[0] = i;
        for j in 1..=to.len() {
            let exchanged = last[j - 1] + usize::from(from[i - 1] != to[j - 1]);
            row[j] = exchanged.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                row[j] = row[j].min(last_but_one[j - 2] + 1);
            }
        }
    }
    rows[0][to.len()]
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::{String, ToString};
    use std::vec::Vec;

    #[test]
    fn slips_are_counted() {
        let of = |from: &str, to: &str| {
            let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
            assert_eq!(slips(&from, &to), slips(&to, &from));
            slips(&from, &to)
        };
        for (from, to, count) in [
            ("", "", 0),
            ("", "abc", 3),
            ("ticket", "ticket", 0),
            ("tikcet", "ticket", 1),
            ("tiket", "ticket", 1),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
            ("käse", "kase", 1),
        ] {
            assert_eq!(of(from, to), count, "{from} {to}");
        }
    }

    #[test]
    fn how_a_word_begins_counts_more_than_its_length() {
        let known = ["hmcs", "mcs_spin", "mcs_stp", "c-bo-mcs_spin", "mcs-ls", "pthreadadapt", "cna"];
        let meant = |word| nearest(word, known).to_string();
        assert_eq!(meant("mcs"), "did you mean 'mcs_spin', 'mcs_stp' or 'mcs-ls'?");
        assert_eq!(meant("MCS-SPN"), "did you mean 'mcs_spin'?");
        assert_eq!(meant("adapt"), "did you mean 'pthreadadapt'?");
        assert_eq!(meant("mcs_sp"), "did you mean 'mcs_spin'?");
        assert_eq!(meant("mcs-l"), "did you mean 'mcs-ls'?");
        assert_eq!(meant("zzz"), "");
    }

    #[test]
    fn long_and_strange_words_are_near_to_none() {
        let long: String = "mcs_spin".chars().cycle().take(LONGEST + 1).collect();
        for word in ["", "\u{1F512}", &long, &long[..LONGEST]] {
            assert!(nearest(word, ["mcs_spin", "ticket"]).is_empty(), "{word}");
        }
        assert_eq!(&*nearest(&long, [long.as_str(), "ticket"]), &[] as &[&str]);
    }
}
