//! `lockswap torture` on every lock, shortly: with a seed that stays the same, and with one that is new each time.

use lockswap_e2e::{each_lock, ids, lockswap, run_with_timeout, Variant, Which};
use std::hash::{BuildHasher, Hasher};
use std::process::Command;
use std::time::Duration;

/// Far more than its own watching thread needs to end a process that hangs.
const LIMIT: Duration = Duration::from_secs(120);

const FIXED_SEED: u64 = 7;

/// Half a second for each seed.
fn torture(variant: Option<&Variant>, options: &[&str], seed: u64) -> Result<(), String> {
    let mut command = Command::new(lockswap());
    command.args(["torture", "--seconds", "0.5", "--threads", "2,7,40", "--patience", "20"]);
    command.args(["--seed", &seed.to_string()]).args(options);
    if let Some(topology) = variant.and_then(|variant| variant.topology) {
        command.env("LOCKSWAP_TOPOLOGY", topology);
    }
    let outcome = run_with_timeout(&mut command, LIMIT);
    if outcome.success() {
        return Ok(());
    }
    Err(format!("{}\n{}\n{}", outcome.ending(), outcome.stdout, outcome.stderr))
}

fn new_seed() -> u64 {
    let seed = std::collections::hash_map::RandomState::new().build_hasher().finish() % 1_000_000_000;
    eprintln!("torture: seed {seed}");
    seed
}

#[test]
fn every_mutex_lock() {
    let seeds = [FIXED_SEED, new_seed()];
    each_lock("torture", Which::All, 2, |variant| {
        seeds.iter().try_for_each(|&seed| torture(Some(variant), &["--lock", &variant.lock], seed))
    });
}

#[test]
fn every_rwlock_and_spinlock() {
    let seeds = [FIXED_SEED, new_seed()];
    for (option, role) in [("--rwlock", "rwlock"), ("--spin", "spin")] {
        for id in ids(role) {
            for seed in seeds {
                torture(None, &[option, &id], seed).unwrap_or_else(|error| panic!("{id} ({role}): {error}"));
            }
        }
    }
}

/// The test itself is sound: glibc's own locks pass.
#[test]
fn glibc() {
    torture(None, &["--lock", "pthread"], new_seed()).unwrap_or_else(|error| panic!("{error}"));
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
    for options in
        [&["--lock", "nonsense"][..], &["--threads", "1"], &["--seconds", "0"], &["--all", "--lock", "futex"]]
    {
        let outcome = run_with_timeout(Command::new(lockswap()).arg("torture").args(options), LIMIT);
        assert_eq!(outcome.status.and_then(|status| status.code()), Some(2), "{options:?}: {}", outcome.tail());
    }
}
