//! `lockswap advise` on programs of which it is known what would help.

use lockswap_e2e::{lockswap, program, run_with_timeout, scratch_dir, Outcome};
use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// Held while `advise` runs, exclusively where other programs on the machine would change what comes out.
static MACHINE: RwLock<()> = RwLock::new(());

/// Runs `advise` with these options on a program; its files lie in the folder.
fn advise(options: &[&str], command: &[&str], folder: &Path) -> Outcome {
    let _shared = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
    advise_now(options, command, folder)
}

fn advise_now(options: &[&str], command: &[&str], folder: &Path) -> Outcome {
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
    let options = ["--time", "2m", "--no-simulation"];
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

/// Of two mutexes one wants a lock that serves waiters in order, and the other one wants anything but that: no lock
/// for everything does what the profile does. On one CPU, where a thread that wakes up waits for the end of a time
/// slice, the effect does not depend on how fast the machine wakes threads, and is many times as large as what noise
/// makes of it; but programs that run beside it and often wake up end those slices early.
#[test]
fn two_mutexes_that_want_different_locks_get_a_profile() {
    let (Some(program), folder) = (program("twowants"), scratch_dir()) else { return };
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    on_one_cpu();
    let options = ["--time", "1m", "--timeout", "5s", "--no-simulation"];
    let outcome = advise_now(&options, &[path(&program), "3"], folder.path());
    let advice = advice(&outcome, folder.path());
    assert_eq!(advice["locks"][0]["name"], "table", "{advice:#}");
    let trials = list(&advice["trials"]);
    let of_table = trials.iter().find(|trial| trial["target"]["mutex"]["symbol"] == "table");
    assert_eq!(of_table.map(|trial| &trial["chosen"]), Some(&"mcs_stp".into()), "{advice:#}");
    assert_eq!(advice["answer"]["helps"], true, "{advice:#}");
    assert!(outcome.stdout.contains("No lock for everything does that"), "{}", outcome.stdout);
    let profile = fs::read_to_string(folder.path().join("profile.toml")).unwrap();
    let table: toml::Table = profile.parse().unwrap();
    let rules = table["mutex"].as_array().unwrap();
    let lock_of = |symbol: &str| {
        let rule = rules.iter().find(|rule| rule.get("symbol").is_none_or(|name| name.as_str() == Some(symbol)));
        rule.and_then(|rule| rule["lock"].as_str()).unwrap().to_owned()
    };
    assert!(lock_of("table") == "mcs_stp" && lock_of("pool") != "mcs_stp", "{profile}");
    // The line that is recommended works, and gives the mutex its lock.
    let run = advice["run_with"].as_str().unwrap();
    assert!(run.starts_with("lockswap run --lock pthread --profile ") && run.ends_with("twowants 3"), "{run}");
    let mut command = Command::new(lockswap());
    command.args(["run", "--summary"]).args(run.split(' ').skip(2));
    let outcome = run_with_timeout(&mut command, Duration::from_secs(60));
    assert!(outcome.success() && outcome.stdout == "12 requests\n", "{}", outcome.tail());
    assert!(outcome.stderr.contains("1 mutex: symbol table, module twowants -> mcs_stp"), "{}", outcome.tail());
}

/// Lets the calling thread, and what it starts, use one CPU only.
fn on_one_cpu() {
    let allowed = sched_getaffinity(None).unwrap();
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu)).unwrap());
    sched_setaffinity(None, &one).unwrap();
}

/// A mutex that is always held by long sections: it is named with the code that holds it, and nothing is tried. Beside
/// other programs a thread that is handed the mutex may have to wait for a CPU, and nobody holds it meanwhile.
#[test]
fn a_section_that_is_too_long_is_no_case_for_a_lock() {
    let (Some(program), folder) = (program("shares"), scratch_dir()) else { return };
    let _alone = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
    let metric = ["--metric", "([0-9]+)"];
    let outcome = advise_now(&metric, &[path(&program), "1", "1000000", "1000"], folder.path());
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
        &[path(&program), "0.5", "2000", "2000", "8"],
        1,
        &["--time 2 s is too short"],
    );
    fs::write(folder.path().join("profile.toml"), "mine").unwrap();
    refused(&[], &["true"], 2, &["is there already", "--force"]);
    assert_eq!(fs::read_to_string(folder.path().join("profile.toml")).unwrap(), "mine");
}
