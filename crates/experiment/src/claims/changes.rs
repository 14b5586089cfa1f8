//! What was chosen or changed when simulated numbers were at hand: `changes.toml`. It decides what kind of evidence a
//! claim is.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::Claim;

const CHANGES: &str = include_str!("changes.toml");

static FILE: LazyLock<File> = LazyLock::new(|| toml::from_str(CHANGES).expect("changes.toml is right"));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    held_out: Vec<String>,
    free_keys: Vec<String>,
    targets: BTreeMap<String, f64>,
    #[serde(rename = "change")]
    changes: Vec<Change>,
}

/// A parameter or a rule of the model that was chosen when results were at hand; `changes.toml` says what the fields
/// mean.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// The parameter, or the rule.
    pub what: String,
    /// What it belongs to.
    pub of: String,
    /// Its values.
    pub change: String,
    /// The commits that changed it.
    pub commits: Vec<String>,
    /// Why.
    pub why: String,
    /// Claims whose numbers it was chosen for.
    #[serde(default)]
    pub fitted: Vec<String>,
    /// Claims that it moves and whose numbers were known.
    #[serde(default)]
    pub seen: Vec<String>,
}

/// What kind of evidence a claim's number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// It is true by construction, and says nothing about the model.
    Structural,
    /// A parameter was chosen for it.
    Fitted,
    /// It was known, and looked at, when something that moves it was changed.
    Seen,
    /// Nothing was chosen for it.
    Predicted,
    /// Nothing was chosen for it, nor for any other number of its machine.
    HeldOut,
}

impl Basis {
    /// Of this claim.
    pub fn of(claim: &Claim) -> Self {
        let is_in = |list: fn(&Change) -> &[String]| changes().iter().any(|change| list(change).contains(&claim.id));
        match () {
            () if claim.structural.is_some() => Basis::Structural,
            () if is_in(|change| &change.fitted) => Basis::Fitted,
            () if is_in(|change| &change.seen) => Basis::Seen,
            () if is_held_out(&claim.machine) => Basis::HeldOut,
            () => Basis::Predicted,
        }
    }

    /// It in a word or two.
    pub fn name(self) -> &'static str {
        match self {
            Basis::Structural => "structural",
            Basis::Fitted => "fitted",
            Basis::Seen => "seen",
            Basis::Predicted => "predicted",
            Basis::HeldOut => "held out",
        }
    }

    /// Whether no number of the simulation can have been chosen to make it come out.
    pub fn is_blind(self) -> bool {
        matches!(self, Basis::Predicted | Basis::HeldOut)
    }
}

/// All changes, in the order of the file.
pub fn changes() -> &'static [Change] {
    &FILE.changes
}

/// What a claim's basis rests on: the changes that name it, or why it is structural.
pub fn reason(claim: &Claim) -> String {
    let named = changes().iter().filter(|change| change.fitted.contains(&claim.id) || change.seen.contains(&claim.id));
    let named = named.map(|change| format!("{} ({})", change.what, change.commits.join(", ")));
    claim.structural.clone().unwrap_or_else(|| named.collect::<Vec<_>>().join("; "))
}

/// Whether no parameter of the machine was chosen on any claim.
pub fn is_held_out(machine: &str) -> bool {
    FILE.held_out.iter().any(|held_out| held_out == machine)
}

/// Whether a key of a workload, as in `kv.inside`, is chosen by us and not by a paper.
pub fn is_free_key(name: &str) -> bool {
    FILE.free_keys.iter().any(|key| key == name)
}

/// The largest error factor that is aimed at on a machine.
pub fn target(machine: &str) -> Option<f64> {
    FILE.targets.get(machine).copied()
}

#[cfg(test)]
mod tests {
    use super::super::claims;
    use super::*;

    #[test]
    fn changes_name_claims_and_machines_that_there_are() {
        let claims = claims();
        for change in changes() {
            for id in change.fitted.iter().chain(&change.seen) {
                assert!(claims.iter().any(|claim| claim.id == *id), "{}: no claim '{id}'", change.what);
            }
            assert!(change.fitted.iter().all(|id| !change.seen.contains(id)), "{}: both", change.what);
            for commit in &change.commits {
                assert!(commit.len() == 7 && commit.bytes().all(|b| b.is_ascii_hexdigit()), "{commit}");
            }
        }
        for machine in FILE.held_out.iter().chain(FILE.targets.keys()) {
            assert!(claims.iter().any(|claim| claim.machine == *machine), "no claim about '{machine}'");
        }
    }

    /// Held out means that no parameter of the machine itself follows its claims.
    #[test]
    fn no_parameter_of_a_held_out_machine_was_chosen_on_a_claim() {
        assert!(changes().iter().all(|change| !is_held_out(&change.of)));
        let fitted = claims().into_iter().filter(|claim| Basis::of(claim) == Basis::Fitted);
        assert_eq!(fitted.filter(|claim| is_held_out(&claim.machine)).count(), 0);
    }

    #[test]
    fn the_strongest_reason_decides() {
        let claims = claims();
        let basis = |id: &str| Basis::of(claims.iter().find(|claim| claim.id == id).expect("a claim"));
        assert_eq!(basis("cna-mcs-1"), Basis::Fitted);
        assert_eq!(basis("cna-mcs-2"), Basis::Seen);
        assert_eq!(basis("m1-bench-4-tas-latency"), Basis::Predicted);
        assert_eq!(basis("ron-fair-shfllock"), Basis::HeldOut);
        // Its number is in the message of a commit that changed the model.
        assert_eq!(basis("ron-fair-plock"), Basis::Seen);
        // Parameters of the M1 move it, but it would be 1 with any.
        assert_eq!(basis("m1-slo-0"), Basis::Structural);
    }
}
