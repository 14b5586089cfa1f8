//! `lockswap advise` on programs of which it is known what would help.

use lockswap_e2e::{lockswap, program, run_with_timeout, scratch_dir, Outcome};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Runs `advise` with these options on a program; its files lie in the folder.
fn advise(options: &[&str], command: &[&str], folder: &Path) -> Outcome {
    let mut advise = Command::new(lockswap());
    advise.arg("advise").arg("-o").arg(folder.join("profile.toml")).arg("--export").arg(folder.join("advice.json"));
    advise.args(options).arg("--").args(command);
    // No simulation: this machine would have to be probed first.
    run_with_timeout(advise.env("XDG_CACHE_HOME", folder), Duration::from_secs(300))
}

/// What it found.
fn advice(outcome: &Outcome, folder: &Path) -> Value {
    assert!(outcome.success(), "{}", outcome.tail());
    let advice: Value = serde_json::from_slice(&fs::read(folder.join("advice.json")).unwrap()).unwrap();
    assert_eq!(advice["schema"], 1);
    advice
}

fn path(program: &Path) -> &str {
    program.to_str().unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("{value} is no list"))
}

fn texts<'a>(all: &'a Value, key: &str) -> Vec<&'a str> {
    list(all).iter().map(|one| one[key].as_str().unwrap()).collect()
}

/// Of 1,001 mutexes the one that threads wait for gets locks tried, and whatever comes out is told.
#[test]
fn one_hot_mutex_among_a_thousand_cold_ones() {
    let (Some(program), folder) = (program("hotcold"), scratch_dir()) else { return };
    let options = ["--time", "90s", "--no-simulation"];
    let outcome = advise(&options, &[path(&program), "400"], folder.path());
    let advice = advice(&outcome, folder.path());
    assert_eq!(advice["locks"][0]["name"], "hot", "{advice:#}");
    let trials = list(&advice["trials"]);
    assert_eq!(trials.len(), 1, "{advice:#}");
    let candidates = texts(&trials[0]["candidates"], "lock");
    assert!(candidates.starts_with(&["pthread", "auto"]) && (3..=5).contains(&candidates.len()), "{candidates:?}");
    assert_eq!(trials[0]["target"]["mutex"]["symbol"], "hot", "{trials:#?}");
    // Whether a lock helps is for the machine to say, but what is said has to fit.
    let answer = &advice["answer"];
    let profile = fs::read_to_string(folder.path().join("profile.toml")).ok();
    let is_profile =
        answer["helps"] == true && advice["run_with"].as_str().is_some_and(|run| run.contains("--profile"));
    assert_eq!(profile.is_some(), is_profile, "{answer:#}");
    if let Some(profile) = profile {
        assert!(profile.contains("symbol = \"hot\"") && !profile.contains("cold"), "{profile}");
    } else if answer["helps"] == false {
        assert!(outcome.stdout.contains("No lock "), "{}", outcome.stdout);
    }
}

/// Two mutexes that are better off with different locks: each gets its own, and no single lock does as well.
#[test]
fn each_of_two_mutexes_gets_the_lock_that_it_wants() {
    let (Some(program), folder) = (program("twowants"), scratch_dir()) else { return };
    let options = ["--time", "4m", "--no-simulation", "--metric", "rate: ([0-9]+)"];
    let outcome = advise(&options, &[path(&program)], folder.path());
    let advice = advice(&outcome, folder.path());
    assert_eq!(advice["answer"]["helps"], true, "{advice:#}");
    let mut chosen: Vec<(&str, &str)> = list(&advice["trials"])
        .iter()
        .map(|trial| (trial["target"]["mutex"]["symbol"].as_str().unwrap(), trial["chosen"].as_str().unwrap()))
        .collect();
    chosen.sort_unstable();
    assert_eq!(chosen, [("fast", "futex"), ("slow", "mcs_stp")], "{advice:#}");
    assert!(outcome.stdout.contains("No single lock does that"), "{}", outcome.stdout);
    let profile = fs::read_to_string(folder.path().join("profile.toml")).unwrap();
    assert!(profile.contains("symbol = \"slow\"") && profile.contains("symbol = \"fast\""), "{profile}");
    // The line that is recommended works.
    let run = advice["run_with"].as_str().unwrap();
    assert!(run.starts_with("lockswap run --lock pthread --profile ") && run.ends_with("twowants"), "{run}");
    let mut command = Command::new(lockswap());
    let outcome = run_with_timeout(command.args(run.split(' ').skip(1)), Duration::from_secs(60));
    assert!(outcome.success() && outcome.stdout == "rate: 900\n", "{}", outcome.tail());
}

/// A mutex that is always held by long sections: it is named with the code that holds it, and nothing is tried.
#[test]
fn a_section_that_is_too_long_is_no_case_for_a_lock() {
    let (Some(program), folder) = (program("shares"), scratch_dir()) else { return };
    let metric = ["--metric", "([0-9]+)"];
    let outcome = advise(&metric, &[path(&program), "1", "1000000", "1000"], folder.path());
    let advice = advice(&outcome, folder.path());
    assert_eq!(advice["answer"]["helps"], false, "{advice:#}");
    assert!(list(&advice["trials"]).is_empty(), "{advice:#}");
    let cause = &advice["causes"][0];
    assert_eq!(cause["cause"], "long_section", "{cause:#}");
    assert!(cause["holder"][0].as_str().unwrap().starts_with("work (shares.c:"), "{cause:#}");
    assert!(outcome.stdout.contains("what would help is a shorter section"), "{}", outcome.stdout);
    assert!(!folder.path().join("profile.toml").exists());
}

/// Threads that compute, and hardly ever meet at their mutex.
#[test]
fn a_program_that_hardly_waits_is_told_what_it_does_instead() {
    let (Some(program), folder) = (program("shares"), scratch_dir()) else { return };
    let outcome = advise(&["--metric", "([0-9]+)"], &[path(&program), "1", "100", "3000000"], folder.path());
    let advice = advice(&outcome, folder.path());
    assert_eq!((&advice["answer"]["helps"], list(&advice["trials"]).len()), (&false.into(), 0), "{advice:#}");
    assert_eq!(advice["causes"][0]["cause"], "light_locks", "{advice:#}");
}

#[test]
fn what_cannot_be_advised_on_is_refused_with_a_remedy() {
    let (Some(program), folder) = (program("shares"), scratch_dir()) else { return };
    let refused = |options: &[&str], command: &[&str], status: i32, words: &[&str]| {
        let outcome = advise(options, command, folder.path());
        assert_eq!(outcome.status.and_then(|status| status.code()), Some(status), "{}", outcome.tail());
        words.iter().for_each(|word| assert!(outcome.stderr.contains(word), "{word}: {}", outcome.tail()));
        assert!(outcome.stderr.contains("remedy") || status == 2, "{}", outcome.tail());
    };
    refused(&[], &[], 2, &["PROGRAM"]);
    refused(&[], &["no-such-program"], 127, &["no-such-program"]);
    refused(&[], &["false"], 1, &["fails without lockswap"]);
    refused(&[], &["true"], 1, &["too short for a trace"]);
    refused(&["--format", "csv"], &["true"], 2, &["no such form"]);
    refused(
        &["--time", "2s", "--no-simulation"],
        &[path(&program), "0.5", "2000", "2000"],
        1,
        &["--time 2 s is too short"],
    );
    fs::write(folder.path().join("profile.toml"), "mine").unwrap();
    refused(&[], &["true"], 2, &["is there already", "--force"]);
    assert_eq!(fs::read_to_string(folder.path().join("profile.toml")).unwrap(), "mine");
}
