//! Files that users write for the command: profiles, plans of studies, cells of a regret.

use std::mem::MaybeUninit;

use lockswap_experiment::regret::cells::Cells;
use lockswap_fuzz::{reading, text, MIB};
use lockswap_locks::named;
use lockswap_locks::registry::Role;
use lockswap_profile::MOST_RULES;
use lockswap_study::survey::plan::Plan;

fn can_be_read(message: &str) {
    assert!(!message.is_empty() && message.chars().count() < 3000, "{}", message.len());
    assert!(!message.chars().any(|character| character.is_control() && character != '\n'), "{message:?}");
}

/// The preload library reads profiles, too: in the user's process, where it may not allocate.
fn profile(input: &[u8]) {
    let text = text(input);
    let mut room = vec![MaybeUninit::uninit(); text.len() + 1];
    let mut rules = vec![MaybeUninit::uninit(); MOST_RULES];
    let tokens = lockswap_profile::tokens(&text, &mut room).expect("there is room");
    match reading(&[], 0, || lockswap_profile::read(&text, tokens, &mut rules)) {
        Ok(rules) => assert!(rules.iter().all(|rule| text.lines().count() >= rule.line)),
        Err(problem) => can_be_read(&problem.to_string()),
    }
}

fn plan(input: &[u8]) {
    let text = text(input);
    let lock = |id: &str| match named::read(Role::Mutex, id) {
        Ok(lock) => Ok(lock.to_string()),
        Err(_) => Err((format!("no lock '{id}'"), String::new())),
    };
    match reading(input, 4 * MIB, || Plan::read("file", &text, lock)) {
        Ok(plan) => assert!(!plan.programs.is_empty() && plan.repetitions > 0),
        Err(error) => {
            assert!(error.what.starts_with("file"), "{}", error.what);
            can_be_read(&error.what);
        }
    }
}

fn cells(input: &[u8]) {
    let text = text(input);
    match reading(input, 4 * MIB, || Cells::read("file", &text)) {
        Ok(cells) => assert!(!cells.cells.is_empty() && cells.rounds >= 2),
        Err(error) => {
            assert!(error.what.starts_with("file"), "{}", error.what);
            can_be_read(&error.what);
        }
    }
}

lockswap_fuzz::tests!(profile, 8, super::profile);
lockswap_fuzz::tests!(plan, 4, super::plan);
lockswap_fuzz::tests!(cells, 4, super::cells);
