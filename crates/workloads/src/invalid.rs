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

/// Words at least this much alike (Jaro, 0 to 1) are taken for slips of the pen; `clap` has the same bound.
const ALIKE: f64 = 0.7;

/// What to write instead of `word`: the word of `known` that is spelt most alike, if one is, then all.
pub fn one_of<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let alike = known.iter().map(|other| (strsim::jaro(word, other), *other));
    let nearest = alike.filter(|(share, _)| *share > ALIKE).max_by(|a, b| a.0.total_cmp(&b.0));
    let guess = nearest.map_or(String::new(), |(_, other)| format!("did you mean '{other}'? "));
    format!("{guess}use one of: {}", known.join(", "))
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
    }
}
