//! `lockswap torture` on every lock, shortly: with a seed that is new each time, and in the long form (`--features
//! long`) also with one that stays the same.

use lockswap_e2e::{each_lock, ids, lockswap, run_with_timeout, say, Variant, Which};
use std::hash::{BuildHasher, Hasher};
use std::process::Command;
use std::time::Duration;

/// Far more than its own watching thread needs to end a process that hangs.
const LIMIT: Duration = Duration::from_secs(120);

const FIXED_SEED: u64 = 7;

/// What `lockswap torture` prints when a check fails on one of glibc's locks. That is reported, and no failure of
/// ours.
const GLIBC_FAILED: &str = "glibc's own lock failed:";

/// Half a second for each seed. Gives what the command printed.
fn torture(variant: Option<&Variant>, options: &[&str], seed: u64) -> Result<String, String> {
    let mut command = Command::new(lockswap());
    command.args(["torture", "--time", "0.5s", "--threads", "2,7,40", "--patience", "20"]);
    command.args(["--seed", &seed.to_string()]).args(options);
    if let Some(topology) = variant.and_then(|variant| variant.topology) {
        command.env("LOCKSWAP_TOPOLOGY", topology);
    }
    let outcome = run_with_timeout(&mut command, LIMIT);
    if !outcome.success() {
        return Err(format!("{}\n{}\n{}", outcome.ending(), outcome.stdout, outcome.stderr));
    }
    if let Some(at) = outcome.stdout.find(GLIBC_FAILED) {
        say(&outcome.stdout[at..]);
    }
    Ok(outcome.stdout)
}

fn new_seed() -> u64 {
    let seed = std::collections::hash_map::RandomState::new().build_hasher().finish() % 1_000_000_000;
    eprintln!("torture: seed {seed}");
    seed
}

fn seeds() -> Vec<u64> {
    let fixed = cfg!(feature = "long").then_some(FIXED_SEED);
    fixed.into_iter().chain([new_seed()]).collect()
}

#[test]
fn every_mutex_lock() {
    let seeds = seeds();
    each_lock("torture", Which::All, 2, |variant| {
        seeds.iter().try_for_each(|&seed| torture(Some(variant), &["--lock", &variant.lock], seed).map(drop))
    });
}

#[test]
fn every_rwlock_and_spinlock() {
    let seeds = seeds();
    for (option, role) in [("--rwlock", "rwlock"), ("--spin", "spin")] {
        for id in ids(role).iter().filter(|id| *id != "pthread") {
            for &seed in &seeds {
                torture(None, &[option, id], seed).unwrap_or_else(|error| panic!("{id} ({role}): {error}"));
            }
        }
    }
}

/// The test itself is sound: glibc's own locks pass. Its rwlock that prefers writers hangs now and then, but not with
/// each of three seeds.
#[test]
fn glibc() {
    for option in ["--lock", "--rwlock", "--spin"] {
        let passes = |seed| {
            let said = torture(None, &[option, "pthread"], seed).unwrap_or_else(|error| panic!("{option}: {error}"));
            !said.contains(GLIBC_FAILED)
        };
        assert!((0..3).any(|_| passes(new_seed())), "glibc's own lock failed with each seed: {option} pthread");
    }
}

#[test]
fn results_are_exported_and_wrong_usage_is_refused() {
    let directory = lockswap_e2e::scratch_dir();
    let file = directory.path().join("torture.json");
    let path = file.to_str().expect("plain name");
    torture(None, &["--lock", "futex", "--spin", "ttas", "--export-json", path], FIXED_SEED)
        .unwrap_or_else(|error| panic!("{error}"));
    let text = std::fs::read_to_string(&file).expect("the exported file");
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((json["schema"].as_u64(), json["seed"].as_u64()), (Some(1), Some(FIXED_SEED)), "{text}");
    let locks = json["locks"].as_array().expect("an array of locks");
    assert_eq!(locks.len(), 2, "{text}");
    for lock in locks {
        assert!(lock["operations"].as_u64().is_some_and(|n| n > 0) && lock["failure"].is_null(), "{text}");
    }
    for options in [&["--lock", "nonsense"][..], &["--threads", "1"], &["--time", "0"], &["--all", "--lock", "futex"]] {
        let outcome = run_with_timeout(Command::new(lockswap()).arg("torture").args(options), LIMIT);
        assert_eq!(outcome.status.and_then(|status| status.code()), Some(2), "{options:?}: {}", outcome.tail());
    }
}
