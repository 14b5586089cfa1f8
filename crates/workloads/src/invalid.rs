//! Input that cannot be used: what is wrong, and what to write instead.

use std::fmt;

/// What somebody asked for and cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invalid {
    /// What is wrong, and where.
    pub what: String,
    /// How to put it right.
    pub remedy: String,
}

impl Invalid {
    /// `what` is wrong; `remedy` puts it right.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Invalid { what: what.into(), remedy: remedy.into() }
    }

    /// `word` is none of those that are `known`; the remedy names the one that is spelt most alike, then all.
    pub fn unknown<'a>(what: impl Into<String>, word: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        Invalid::new(what, one_of(word, known))
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Invalid {}

/// What to write instead of `word`: the words of `known` that are nearest to it, if any are near, then all.
pub fn one_of<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let guess = did_you_mean(word, known.iter().copied()).map_or(String::new(), |guess| format!("{guess} "));
    format!("{guess}use one of: {}", known.join(", "))
}

/// Asks whether one of up to three words of `known` was meant; `None` where none is near.
pub fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let nearest: Vec<String> = nearest(word, known).iter().map(|word| format!("'{word}'")).collect();
    let (last, others) = nearest.split_last()?;
    let others = if others.is_empty() { String::new() } else { others.join(", ") + " or " };
    Some(format!("did you mean {others}{last}?"))
}

/// What tells how near a word is, the nearest first.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
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

/// Up to three words of `known` that are equally near to `word`, and nearer than all others. Capitals do not count, nor
/// whether `-` or `_` is written.
fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let plain = |word: &str| word.to_lowercase().replace('-', "_");
    let word = plain(word);
    let nearness = |other: &str| {
        let other = plain(other);
        let slips = strsim::osa_distance(&word, &other);
        match other {
            other if word.len() > 1 && other.starts_with(&word) && slips == 1 => Some(Nearness::Whole),
            other if word.len() > 1 && other.starts_with(&word) => Some(Nearness::Begins),
            other if slips <= (other.chars().count() / 3).max(1) => Some(Nearness::Alike(slips)),
            other if word.len() > 2 && other.contains(&word) => Some(Nearness::Part),
            _ => None,
        }
    };
    let mut near: Vec<_> = known.into_iter().filter_map(|other| Some((nearness(other)?, other))).collect();
    // Of equally near ones those come first that do in `known`.
    near.sort_by(|one, other| one.0.cmp(&other.0));
    let first = near.iter().take_while(|(nearness, _)| *nearness == near[0].0).take(3);
    first.map(|(_, other)| *other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_pen_is_recognised_and_nonsense_is_not() {
        let known = ["mcs_spin", "mcs_stp", "cna", "ticket"];
        assert!(one_of("mcs_spn", known).starts_with("did you mean 'mcs_spin'? use one of: mcs_spin, mcs_stp"));
        assert!(one_of("tiket", known).starts_with("did you mean 'ticket'?"));
        assert_eq!(one_of("xyz", known), "use one of: mcs_spin, mcs_stp, cna, ticket");
        assert_eq!(one_of("", known), "use one of: mcs_spin, mcs_stp, cna, ticket");
    }

    #[test]
    fn how_a_word_begins_counts_more_than_its_length() {
        let known = ["hmcs", "mcs_spin", "mcs_stp", "c-bo-mcs_spin", "mcs-ls", "pthreadadapt", "cna"];
        let meant = |word| did_you_mean(word, known);
        assert_eq!(meant("mcs").as_deref(), Some("did you mean 'mcs_spin', 'mcs_stp' or 'mcs-ls'?"));
        assert_eq!(meant("MCS-SPN").as_deref(), Some("did you mean 'mcs_spin'?"));
        assert_eq!(meant("adapt").as_deref(), Some("did you mean 'pthreadadapt'?"));
        assert_eq!(meant("mcs_sp").as_deref(), Some("did you mean 'mcs_spin'?"));
        assert_eq!(meant("mcs-l").as_deref(), Some("did you mean 'mcs-ls'?"));
        assert_eq!(meant("zzz"), None);
    }
}
