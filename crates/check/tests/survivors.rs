//! What is known about mutants that survive is about places that there are, and about nothing else.

use lockswap_check::mutation::{Change, Mutant, Place, Wait};
use lockswap_check::source;
use lockswap_check::survivors::{disagreements, explanation, Explained, EXPLAINED, SOURCES};
use std::path::Path;

fn mutant(file: &str, line: u32, change: Change) -> Mutant {
    Mutant { place: Place { file: file.to_owned(), line, column: 1 }, change }
}

/// The only line of `file` that contains `text`.
fn line_of(file: &str, text: &str) -> u32 {
    let lines: Vec<_> = (1..=source::length(file)).filter(|line| source::line(file, *line).contains(text)).collect();
    assert_eq!(lines.len(), 1, "{file}: {text}");
    lines[0]
}

/// Whether `explained` could be about this line, as far as the text shows.
fn is_place(explained: &Explained, file: &str, line: u32) -> bool {
    let text = source::line(file, line);
    let is_code = !text.starts_with("//");
    let has_it = match explained.change {
        Change::Skip(Wait::Spin) => text.contains("spin_map"),
        Change::Skip(Wait::Unpark) => text.contains("unpark"),
        Change::Skip(Wait::Settle) => text.contains("settle"),
        Change::Skip(Wait::Look) => text.contains("store_unless"),
        Change::DropAcquire | Change::DropRelease => text.contains("Ordering::") || text.contains("order)"),
    };
    is_code && has_it && explained.is_about(&mutant(file, line, explained.change))
}

#[test]
fn every_explanation_names_a_place_that_there_is() {
    for explained in EXPLAINED {
        let file = format!("{SOURCES}{}", explained.file);
        let places = (1..=source::length(&file)).filter(|line| is_place(explained, &file, *line)).count();
        assert!(places > 0, "{explained}: no such place");
        assert!(!explained.why.is_empty());
        let same = EXPLAINED.iter().filter(|other| other.to_string() == explained.to_string()).count();
        assert_eq!(same, 1, "{explained}: explained twice");
    }
}

#[test]
fn functions_and_orders_are_found_in_the_source() {
    let clh = "crates/locks/src/queue/clh.rs";
    let reuse = line_of(clh, "predecessor.state.store(FREE");
    assert_eq!(source::item(clh, reuse), "Node::wait_behind");
    assert_eq!(source::orders(clh, reuse), ["reuse"]);
    let both = line_of(clh, "self.tail.try_change(");
    assert_eq!(source::item(clh, both), "Clh::try_lock");
    assert_eq!(source::orders(clh, both), ["enqueue", "hand-off"]);
    // A function outside of all types, and one whose type stands on the line below the trait.
    let blocking = "crates/locks/src/shuffle/blocking.rs";
    assert_eq!(source::item(blocking, line_of(blocking, "let granted = status.load(")), "turn_or_work");
    let gcr = "crates/locks/src/load_control/gcr.rs";
    assert_eq!(source::item(gcr, line_of(gcr, "let is_active = P::spin_map(")), "Gcr::lock_counted");
    assert!(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join(gcr).exists());
    // The header of its impl takes three lines.
    let mutexee = "crates/locks/src/flat/mutexee.rs";
    let held = line_of(mutexee, "self.state.load(Ordering::Relaxed) & HELD != 0");
    assert_eq!(source::item(mutexee, held), "MutexeeLock::is_held");
    assert_eq!(source::item("no such file", 1), "");
}

/// One explanation of a place in `clh.rs`, and the mutants there.
#[test]
fn survivors_and_explanations_must_agree() {
    let clh = "crates/locks/src/queue/clh.rs";
    let known = [Explained {
        file: "queue/clh.rs",
        item: "Node::wait_behind",
        order: Some("reuse"),
        change: Change::DropRelease,
        why: "a test",
    }];
    let reuse = mutant(clh, line_of(clh, "predecessor.state.store(FREE"), Change::DropRelease);
    let sleeper = mutant(clh, line_of(clh, "compare_exchange(WAITING, PARKED"), Change::DropRelease);
    let check = |verdicts: &[(&Mutant, bool)], is_part| disagreements(&known, verdicts.iter().copied(), is_part);
    assert!(check(&[(&reuse, false), (&sleeper, true)], false).is_empty());
    // Another order in the same function, on a line with the same text, another change at the same place: none of
    // these is explained.
    let elsewhere = mutant("crates/locks/src/queue/mcs.rs", reuse.place.line, Change::DropRelease);
    let changed = Mutant { change: Change::DropAcquire, ..reuse.clone() };
    for other in [&sleeper, &elsewhere, &changed] {
        assert!(explanation(&known, other).is_none());
        let found = check(&[(&reuse, false), (other, false)], false);
        assert!(found.len() == 1 && found[0].starts_with("not explained: "), "{found:?}");
    }
    // An explanation of what is caught, of what is not there, and of two mutants.
    let found = check(&[(&reuse, true)], false);
    assert!(found.len() == 1 && found[0].starts_with("explained, but caught: "), "{found:?}");
    let found = check(&[(&sleeper, true)], false);
    assert!(found.len() == 1 && found[0].starts_with("explained, but there is no such mutant: "), "{found:?}");
    assert!(check(&[(&sleeper, true)], true).is_empty(), "not tried");
    let mut twice = reuse.clone();
    twice.place.column += 1;
    let found = check(&[(&reuse, false), (&twice, false)], true);
    assert!(found.len() == 1 && found[0].starts_with("one explanation for several survivors: "), "{found:?}");
}
