//! Input that cannot be used: what is wrong, and what to write instead.

use std::fmt;

use lockswap_locks::nearest::nearest;

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
    let nearest = nearest(word, known);
    (!nearest.is_empty()).then(|| nearest.to_string())
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
}
