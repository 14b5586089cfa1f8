//! When a simulated number agrees with a paper's, and how far a machine is off.
//!
//! One rule holds for all claims. Where a paper has a number, the error is a factor, the larger of simulated / paper
//! and paper / simulated, and the claim agrees if that is at most [`NEAR`]: too high counts as much as too low. Where
//! a paper has only a bound, the simulated number must keep it, but for [`SLACK`]; nothing can be said about how far
//! off it is.

use crate::validate::judge::geometric_mean;

use super::changes::{self, Basis};
use super::{Claim, Outcome, Relation};

/// A claim agrees if it is at most so many times off: what a number that is read off a figure is good for.
pub const NEAR: f64 = 1.10;
/// A bound may be missed by this factor: papers have two digits or three.
pub const SLACK: f64 = 1.01;

impl Claim {
    /// Within which numbers the simulated one agrees. A bound has one end only.
    pub fn range(&self) -> [Option<f64>; 2] {
        match self.relation {
            Relation::About => [Some(self.value / NEAR), Some(self.value * NEAR)],
            Relation::AtLeast => [Some(self.value / SLACK), None],
            Relation::AtMost => [None, Some(self.value * SLACK)],
        }
    }

    /// Whether its error counts: the paper has a number, which is not true by construction.
    pub fn counts(&self) -> bool {
        self.relation == Relation::About && self.structural.is_none()
    }
}

impl Outcome<'_> {
    /// Simulated / paper.
    pub fn ratio(&self) -> Option<f64> {
        self.mean.map(|mean| mean / self.claim.value)
    }

    /// How many times the mean is off, if the paper has a number.
    pub fn error(&self) -> Option<f64> {
        let ratio = self.ratio().filter(|ratio| self.claim.relation == Relation::About && *ratio > 0.0)?;
        Some(ratio.max(1.0 / ratio))
    }

    /// Whether the mean lies in the claim's range.
    pub fn agrees(&self) -> bool {
        let [least, most] = self.claim.range();
        self.mean.is_some_and(|mean| least.is_none_or(|end| mean >= end) && most.is_none_or(|end| mean <= end))
    }
}

/// How far off a machine's claims are.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Errors {
    /// The machine.
    pub machine: String,
    /// Whether it is held out.
    pub is_held_out: bool,
    /// Claims whose error counts.
    pub claims: usize,
    /// The geometric mean of their errors.
    pub factor: f64,
    /// Of these, the claims for which nothing was chosen.
    pub blind_claims: usize,
    /// The geometric mean of the errors of those.
    pub blind_factor: Option<f64>,
    /// What is aimed at.
    pub target: Option<f64>,
    /// The claim that is farthest off, and its error.
    pub worst: (String, f64),
}

/// The errors of each machine, in the order of the claims; machines that are held out come last.
pub fn errors(outcomes: &[Outcome<'_>]) -> Vec<Errors> {
    let mut machines: Vec<&str> = Vec::new();
    for outcome in outcomes {
        if !machines.contains(&outcome.claim.machine.as_str()) {
            machines.push(&outcome.claim.machine);
        }
    }
    let of_machine = |machine: &str| {
        let counted = outcomes.iter().filter(|outcome| outcome.claim.machine == machine && outcome.claim.counts());
        let counted: Vec<(&Claim, f64)> =
            counted.filter_map(|outcome| Some((outcome.claim, outcome.error()?))).collect();
        let (worst, most) = counted.iter().max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let blind: Vec<f64> =
            counted.iter().filter(|(claim, _)| Basis::of(claim).is_blind()).map(|(_, error)| *error).collect();
        Some(Errors {
            machine: machine.to_owned(),
            is_held_out: changes::is_held_out(machine),
            claims: counted.len(),
            factor: geometric_mean(counted.iter().map(|(_, error)| *error)),
            blind_claims: blind.len(),
            blind_factor: (!blind.is_empty()).then(|| geometric_mean(blind.iter().copied())),
            target: changes::target(machine),
            worst: (worst.id.clone(), *most),
        })
    };
    let mut errors: Vec<Errors> = machines.into_iter().filter_map(of_machine).collect();
    errors.sort_by_key(|errors| errors.is_held_out);
    errors
}

#[cfg(test)]
mod tests {
    use super::super::claims;
    use super::*;

    fn outcome(claim: &Claim, mean: f64) -> Outcome<'_> {
        Outcome { claim, place: 0, simulated: vec![mean], mean: Some(mean), failures: Vec::new() }
    }

    #[test]
    fn a_number_can_fail_on_either_side_and_a_bound_on_one() {
        for claim in claims() {
            let agrees = |factor: f64| outcome(&claim, factor * claim.value).agrees();
            let expected = match claim.relation {
                Relation::About => [false, true, false],
                Relation::AtLeast => [false, true, true],
                Relation::AtMost => [true, true, false],
            };
            assert_eq!([0.9, 1.0, 1.11].map(agrees), expected, "{}", claim.id);
            assert!(!Outcome { mean: None, ..outcome(&claim, 1.0) }.agrees(), "{}", claim.id);
        }
    }

    #[test]
    fn too_high_is_as_wrong_as_too_low_and_bounds_and_what_is_structural_do_not_count() {
        let claims = claims();
        let find = |id: &str| claims.iter().find(|claim| claim.id == id).expect("a claim");
        let times = |id: &str, factor: f64| outcome(find(id), factor * find(id).value);
        let outcomes = [
            times("ron-waiters", 0.5),
            times("m1-max", 2.0),
            times("m1-bench-4-tas-latency", 0.5),
            times("m1-bench-6", 1.0),
            times("m1-slo-0", 9.0),
            times("m1-mcs-drop", 9.0),
        ];
        let errors = errors(&outcomes);
        let names: Vec<_> = errors.iter().map(|errors| (errors.machine.as_str(), errors.is_held_out)).collect();
        assert_eq!(names, [("apple-m1", false), ("amd-2990wx", true)]);
        assert_eq!((errors[0].claims, errors[0].blind_claims, errors[0].target), (3, 1, Some(1.25)));
        assert!((errors[0].factor - 2f64.powf(2.0 / 3.0)).abs() < 1e-9, "{errors:?}");
        assert!((errors[0].blind_factor.unwrap_or_default() - 2.0).abs() < 1e-9, "{errors:?}");
        assert_eq!((errors[1].factor, errors[1].target), (2.0, None));
    }
}
