//! The golden file: what each claim's number was when somebody last looked at it, seed by seed. A number that leaves
//! it has been changed by the model, a machine, a workload or a lock, and somebody should know.
//!
//! One seed gives the same number on every host, but a change that only draws other chances, and other numbers of
//! seeds, move it within what the seeds differ by. So the golden interval of a claim reaches from the least to the
//! most of its seeds, and [`TOLERANCE`] of the mean beyond; the mean of a later run must lie in it.

use std::io;

use lockswap_workloads::invalid::Invalid;
use serde::{Deserialize, Serialize};

use super::output::digits;
use super::Outcome;

/// The share of the mean by which the interval is wider than the seeds, at either end.
pub const TOLERANCE: f64 = 0.01;
/// The file that is part of the program.
const GOLDEN: &str = include_str!("golden.csv");

/// What a claim's number was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    claim: String,
    seeds: usize,
    mean: f64,
    least: f64,
    most: f64,
}

impl Line {
    /// `None` for a claim without a number.
    fn of(outcome: &Outcome<'_>) -> Option<Self> {
        let end = |pick: fn(f64, f64) -> f64| outcome.simulated.iter().copied().reduce(pick);
        let (claim, seeds) = (outcome.claim.id.clone(), outcome.simulated.len());
        let (least, most) = (end(f64::min)?, end(f64::max)?);
        // The mean of equal numbers may be rounded to another one.
        Some(Self { claim, seeds, mean: outcome.mean?.clamp(least, most), least, most })
    }

    /// Within which numbers a later mean may lie.
    fn interval(&self) -> [f64; 2] {
        let beyond = TOLERANCE * self.mean.abs();
        [self.least - beyond, self.most + beyond]
    }
}

/// The golden numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Golden(Vec<Line>);

impl Golden {
    /// Those that are part of the program.
    pub fn built_in() -> Self {
        Self::read("golden.csv", GOLDEN).expect("golden.csv is right")
    }

    /// Those of a file with this text; `name` stands for it in messages.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn read(name: &str, text: &str) -> Result<Self, Invalid> {
        let bad = |what: String| Invalid::new(format!("{name}: {what}"), "--write-golden FILE writes such a file");
        let mut lines: Vec<Line> = Vec::new();
        for line in csv::Reader::from_reader(text.as_bytes()).deserialize::<Line>() {
            let line = line.map_err(|error| bad(error.to_string()))?;
            let numbers = [line.least, line.mean, line.most];
            if line.seeds == 0 || !numbers.iter().all(|number| number.is_finite()) || !numbers.is_sorted() {
                return Err(bad(format!("{}: least, mean and most are not in this order", line.claim)));
            }
            if lines.iter().any(|known| known.claim == line.claim) {
                return Err(bad(format!("{} has two lines", line.claim)));
            }
            lines.push(line);
        }
        Ok(Self(lines))
    }

    /// What `outcomes` make of it: their numbers, and those of the claims in `all` that were not simulated now.
    pub fn updated<'a>(&self, outcomes: &[Outcome<'_>], all: impl Iterator<Item = &'a str>) -> Self {
        let line = |id: &str| match outcomes.iter().find(|outcome| outcome.claim.id == id) {
            Some(outcome) => Line::of(outcome),
            None => self.0.iter().find(|line| line.claim == id).cloned(),
        };
        Self(all.filter_map(line).collect())
    }

    /// It as a file.
    ///
    /// # Errors
    /// None that memory gives.
    pub fn write(&self) -> io::Result<Vec<u8>> {
        let mut file = csv::Writer::from_writer(Vec::new());
        self.0.iter().try_for_each(|line| file.serialize(line))?;
        file.into_inner().map_err(|error| error.into_error())
    }

    /// What has left it, a line for each claim.
    pub fn left_by(&self, outcomes: &[Outcome<'_>]) -> Vec<String> {
        let left = |outcome: &Outcome<'_>| {
            let id = &outcome.claim.id;
            let Some(golden) = self.0.iter().find(|line| line.claim == *id) else {
                return Some(format!("{id} has no golden value; it is {} now", now(outcome)));
            };
            let [least, most] = golden.interval();
            let is_in = outcome.mean.is_some_and(|mean| (least..=most).contains(&mean));
            (!is_in).then(|| {
                format!(
                    "{id}: the golden value is {} ({} to {}, {} seeds), it is {} now",
                    precise(golden.mean),
                    precise(least),
                    precise(most),
                    golden.seeds,
                    now(outcome)
                )
            })
        };
        outcomes.iter().filter_map(left).collect()
    }
}

/// Enough digits to show a change of a thousandth.
fn precise(number: f64) -> String {
    if number.abs() >= 100.0 {
        format!("{number:.1}")
    } else {
        format!("{number:.4}")
    }
}

/// The claim's number.
fn now(outcome: &Outcome<'_>) -> String {
    let Some(mean) = outcome.mean else { return "without a number".to_owned() };
    match outcome.agrees() {
        true => precise(mean),
        false => format!("{} (the paper: {})", precise(mean), digits(outcome.claim.value)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{claims, Claim};
    use super::*;

    fn outcome<'a>(claim: &'a Claim, simulated: &[f64]) -> Outcome<'a> {
        let mean = (!simulated.is_empty()).then(|| simulated.iter().sum::<f64>() / simulated.len() as f64);
        Outcome { claim, place: 0, simulated: simulated.to_vec(), mean, failures: Vec::new() }
    }

    #[test]
    fn every_claim_has_a_golden_value_and_nothing_else_has() {
        let golden = Golden::built_in();
        let ids: Vec<_> = golden.0.iter().map(|line| line.claim.clone()).collect();
        assert_eq!(ids, claims().into_iter().map(|claim| claim.id).collect::<Vec<_>>());
    }

    #[test]
    fn a_number_leaves_when_it_is_beyond_the_seeds_and_the_tolerance() {
        let claims = claims();
        let written = Golden::default().updated(&[outcome(&claims[0], &[0.9, 1.1])], [&*claims[0].id].into_iter());
        let golden = Golden::read("x", &String::from_utf8(written.write().unwrap()).unwrap()).unwrap();
        assert_eq!(golden, written);
        for (now, leaves) in [(0.88, true), (0.895, false), (1.0, false), (1.105, false), (1.12, true)] {
            let left = golden.left_by(&[outcome(&claims[0], &[now])]);
            assert_eq!(left.len(), usize::from(leaves), "{now}: {left:?}");
            assert!(left.iter().all(|line| line.contains("golden value is 1.0000 (0.8900 to 1.1100, 2 seeds)")));
        }
        let left = golden.left_by(&[outcome(&claims[0], &[]), outcome(&claims[1], &[1.0])]);
        assert!(left[0].contains("without a number now") && left[1].contains("has no golden value"), "{left:?}");
    }

    #[test]
    fn claims_that_were_not_simulated_keep_their_values() {
        let claims = claims();
        let all = || claims[..3].iter().map(|claim| &*claim.id);
        let first = Golden::default().updated(&[outcome(&claims[0], &[1.0]), outcome(&claims[2], &[3.0])], all());
        let second = first.updated(&[outcome(&claims[1], &[2.0]), outcome(&claims[2], &[4.0])], all());
        assert_eq!(second.0.iter().map(|line| line.mean).collect::<Vec<_>>(), [1.0, 2.0, 4.0]);
    }

    #[test]
    fn damaged_files_are_refused_with_the_place() {
        const HEAD: &str = "claim,seeds,mean,least,most\n";
        for (text, expected) in [
            ("x,5,1,2,3\n", "least, mean and most"),
            ("x,0,1,1,1\n", "least, mean and most"),
            ("x,5,1,NaN,1\n", "least, mean and most"),
            ("x,5,1,1,1\nx,5,1,1,1\n", "x has two lines"),
            ("x,5,one,1,1\n", "line: 2"),
            ("x,5\n", "line: 2"),
        ] {
            let error = Golden::read("my.csv", &format!("{HEAD}{text}")).expect_err(text);
            assert!(error.what.starts_with("my.csv: ") && error.what.contains(expected), "{}", error.what);
        }
    }
}
