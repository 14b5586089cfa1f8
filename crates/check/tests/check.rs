//! Every lock, in the explorer and under loom, as far as seconds go; `lockswap-check check` goes further.

use lockswap_check::mutation::{self, Change, Mutant};
use lockswap_check::runner::{self, Budget, Checked, Engine};
use lockswap_check::subjects::{self, Subject};

/// The locks that `LOCKSWAP_TEST_LOCKS=a,b` names, or all.
fn wanted() -> Vec<Subject> {
    let wanted = std::env::var("LOCKSWAP_TEST_LOCKS").ok();
    let mut all = subjects::all();
    all.retain(|subject| wanted.as_ref().is_none_or(|list| list.split(',').any(|id| id == subject.id)));
    all
}

fn must_hold(subject: &Subject, checked: &[Checked]) {
    for check in checked {
        assert!(check.failure.is_none(), "{}: {check:?}", subject.name());
    }
}

#[test]
fn every_lock_holds_in_the_explorer() {
    for subject in wanted() {
        let checked: Vec<_> =
            subject.explore.iter().map(|scenario| runner::explore(&subject, scenario, Budget::SHORT)).collect();
        must_hold(&subject, &checked);
        let seen: u64 = checked.iter().map(|check| check.executions).sum();
        println!("{}: {seen} executions", subject.name());
        assert!(checked.iter().all(|check| check.engine == Engine::Explore && check.executions > 0));
    }
}

#[test]
fn every_lock_holds_under_loom() {
    for subject in wanted() {
        let checked: Vec<_> = runner::weak_scenarios(&subject, Budget::SHORT)
            .map(|scenario| runner::weak(scenario, Budget::SHORT))
            .collect();
        must_hold(&subject, &checked);
        assert!(subject.weak.is_empty() || checked.iter().any(|check| check.executions > 1), "{}", subject.name());
    }
}

/// The checkers see what they are there for: every mutant of the ticket lock fails, the lock itself does not.
#[test]
fn mutants_of_the_ticket_lock_are_caught() {
    let Some(ticket) = subjects::all().into_iter().find(|subject| subject.id == "ticket") else {
        panic!("the ticket lock is registered");
    };
    let fails = |mutant: Option<Mutant>| {
        mutation::set(mutant);
        let failed = runner::check(&ticket, Budget::SHORT).iter().any(|check| check.failure.is_some());
        mutation::set(None);
        failed
    };
    let mut mutants = mutation::record(|| assert!(!fails(None)));
    mutants.retain(|mutant| mutant.place.file.contains("ticket.rs"));
    let kinds = |change: Change| mutants.iter().filter(|mutant| mutant.change == change).count();
    assert!(kinds(Change::DropAcquire) >= 2 && kinds(Change::DropRelease) == 1, "{mutants:?}");
    for mutant in &mutants {
        assert!(fails(Some(mutant.clone())), "{mutant:?} survives");
    }
}
