//! Our own drivers, which call every replaced function, on locks of every kind.

use lockswap_e2e::{
    driver, driver_cpp, each_lock, lockswap, run_with_timeout, scratch_dir, variants, Outcome, Variant, Which,
};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// For a whole driver: longer than a few sub-tests that hang take, so that they are noticed as failures.
const LIMIT: Duration = Duration::from_secs(400);

fn verdict(outcome: &Outcome) -> Result<(), String> {
    let failed: Vec<&str> = outcome.stdout.lines().filter(|line| line.starts_with("FAIL")).collect();
    if outcome.success() && failed.is_empty() {
        return Ok(());
    }
    Err(format!("{}\n{}\n{}", outcome.ending(), failed.join("\n"), outcome.stderr))
}

/// For one sub-test, s. Of the driver's own 20 s, locks that spin use half where several drivers share two CPUs, and
/// glibc's all where something else wants the CPUs, too: threads that meet 3,000 times wait each time for one of them.
/// On u-scl, where each of 20,000 threads owns the lock for 2 ms, a sub-test takes 50 s and the driver 180 s.
const SUB_TEST: (&str, &str) = ("DRIVER_TIMEOUT", "120");

fn plain(program: &Path) -> Outcome {
    run_with_timeout(Command::new(program).arg("all").env(SUB_TEST.0, SUB_TEST.1), LIMIT)
}

fn all_on_each_lock(name: &str, program: &Path) {
    let reference = plain(program);
    verdict(&reference).unwrap_or_else(|error| panic!("{name} without lockswap: {error}"));
    let finished = |outcome: &Outcome| {
        let done = |line: &&str| line.starts_with("ok ") || line.starts_with("skip ");
        outcome.stdout.lines().filter(done).count()
    };
    each_lock(name, Which::Representatives, 2, |variant| {
        let mut command = variant.command(&[], program, &["all".to_string()]);
        let outcome = run_with_timeout(command.env(SUB_TEST.0, SUB_TEST.1), LIMIT);
        verdict(&outcome)?;
        eprintln!("{name} on {variant}: {:.1} s", outcome.took.as_secs_f64());
        if finished(&outcome) != finished(&reference) {
            return Err(format!("{} of {} sub-tests reported", finished(&outcome), finished(&reference)));
        }
        Ok(())
    });
}

#[test]
fn c_driver_on_every_kind_of_lock() {
    let Some(driver) = driver() else { return };
    all_on_each_lock("C driver", &driver);
}

#[test]
fn cpp_driver_on_every_kind_of_lock() {
    let Some(driver) = driver_cpp() else { return };
    all_on_each_lock("C++ driver", &driver);
}

fn statistics(driver: &Path, variant: &Variant, arguments: &[&str]) -> Result<serde_json::Value, String> {
    let directory = scratch_dir();
    let file = directory.path().join("stats.json");
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let options = ["--stats-json", file.to_str().expect("plain name")];
    let outcome = run_with_timeout(&mut variant.command(&options, driver, &arguments), Duration::from_secs(60));
    if !outcome.success() {
        return Err(format!("{}\n{}", outcome.ending(), outcome.tail()));
    }
    let text = std::fs::read_to_string(&file).map_err(|error| format!("no statistics: {error}"))?;
    serde_json::from_str(&text).map_err(|error| format!("{error} in {text}"))
}

/// Checks one number of the statistics against what the sub-test `known_numbers` created.
fn expect(stats: &serde_json::Value, group: &str, name: &str, good: impl Fn(u64) -> bool) -> Result<(), String> {
    match stats[group][name].as_u64() {
        Some(number) if good(number) => Ok(()),
        _ => Err(format!("{group}.{name} is wrong in {stats}")),
    }
}

fn interception(driver: &Path, variant: &Variant) -> Result<(), String> {
    let stats = statistics(driver, variant, &["--here", "known_numbers"])?;
    if stats["schema"] != 1 || stats["lock"] != variant.lock.as_str() {
        return Err(format!("schema or lock is wrong in {stats}"));
    }
    if stats["threads_seen"] != 2 {
        return Err(format!("the constructor's thread is missing in {stats}"));
    }
    if variant.forwards() {
        return Ok(()); // forwards everything, and counts nothing
    }
    // A shared spinlock counts as replaced: it works across processes, for it keeps glibc's encoding.
    for (name, number) in [("robust", 3), ("pi", 2), ("protect", 1), ("pshared", 4)] {
        expect(&stats, "passed_through", name, |n| n == number)?;
    }
    // The driver's constructor adds 2 mutexes, a condition variable and an rwlock.
    for (name, number) in [("mutex", 7 + 2), ("cond", 5 + 1), ("rwlock", 4 + 1), ("spin", 3 + 1)] {
        expect(&stats, "replaced", name, |n| n == number)?;
    }
    Ok(())
}

#[test]
fn statistics_prove_interception() {
    let Some(driver) = driver() else { return };
    each_lock("known_numbers", Which::All, 1, |variant| interception(&driver, variant));
}

#[test]
fn statistics_count_children() {
    let Some(driver) = driver() else { return };
    let variant = variants(Which::Representatives).iter().find(|variant| !variant.forwards()).expect("some lock");
    let stats =
        statistics(&driver, variant, &["known_numbers", "known_numbers"]).unwrap_or_else(|error| panic!("{error}"));
    expect(&stats, "passed_through", "robust", |n| n == 6).unwrap_or_else(|error| panic!("{error}"));
    expect(&stats, "replaced", "mutex", |n| n >= 14).unwrap_or_else(|error| panic!("{error}"));
}

/// The objects of locks that are chosen by role really go to them, and `pthread` leaves a role alone.
#[test]
fn roles_are_chosen_apart() {
    let Some(driver) = driver() else { return };
    let sub_tests =
        ["rwlock_basic", "rwlock_readers_share", "spin_basic", "spin_exclusion", "mutex_basic", "known_numbers"];
    let sub_tests: Vec<String> = sub_tests.map(String::from).to_vec();
    for options in [["--rwlock", "pthread"], ["--rwlock", "rw-futex"], ["--spin", "pthread"], ["--spin", "backoff"]] {
        let variant = &variants(Which::Representatives)[0];
        let outcome = run_with_timeout(&mut variant.command(&options, &driver, &sub_tests), LIMIT);
        verdict(&outcome).unwrap_or_else(|error| panic!("{variant} {options:?}: {error}"));
    }
}

/// Real-time waiters are served by priority on the locks that say so.
#[test]
fn real_time_waiters_by_priority() {
    let Some(driver) = driver() else { return };
    let listed = run_with_timeout(Command::new(lockswap()).args(["list", "--json"]), LIMIT);
    let all: serde_json::Value = serde_json::from_str(&listed.stdout).expect("lockswap list --json prints JSON");
    let serves = |variant: &Variant| {
        let entry = all.as_array().expect("an array").iter().find(|lock| lock["id"] == variant.lock.as_str());
        entry.is_some_and(|lock| lock["by_priority"] == "kernel" || lock["by_priority"] == "barging")
    };
    each_lock("real-time waiters", Which::Representatives, 1, |variant| {
        let sub_tests = ["realtime_by_priority", "realtime_cond_by_priority"];
        let mut command = variant.command(&[], &driver, &sub_tests.map(String::from));
        if serves(variant) {
            command.env("DRIVER_BY_PRIORITY", "1");
        }
        let outcome = run_with_timeout(&mut command, LIMIT);
        verdict(&outcome)?;
        let said = outcome.stderr.contains("lockswap: real-time threads wait");
        let sub_test_ran = outcome.stdout.contains("ok realtime_cond_by_priority");
        if sub_test_ran && said == serves(variant) {
            return Err(format!("serves by priority: {}, but on stderr: {:?}", serves(variant), outcome.stderr));
        }
        Ok(())
    });
}

/// The shell and its other children pass everything through, and hand the choice on to the driver.
#[test]
fn the_locks_are_kept_to_one_executable() {
    let directory = scratch_dir();
    let file = directory.path().join("stats.json");
    let script = "\"$0\" --here known_numbers && sh -c true && true";
    let Some(driver) = driver() else { return };
    let driver = driver.to_str().expect("plain name");
    for only in [driver, "driver"] {
        let variant = Variant { lock: "mcs_spin".into(), topology: None };
        let options = ["--only", only, "--stats-json", file.to_str().expect("plain name")];
        let arguments = ["-c", script, driver].map(String::from);
        let mut command = variant.command(&options, Path::new("/bin/sh"), &arguments);
        let outcome = run_with_timeout(&mut command, Duration::from_secs(60));
        assert!(outcome.success(), "--only {only}: {}: {}", outcome.ending(), outcome.tail());
        let text = std::fs::read_to_string(&file).expect("statistics");
        let stats: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(stats["processes"], 1, "--only {only}: {stats}");
        expect(&stats, "replaced", "mutex", |n| n == 7 + 2).unwrap_or_else(|error| panic!("{error}"));
    }
    let variant = Variant { lock: "mcs_spin".into(), topology: None };
    let options = ["--only", "another", "--stats-json", file.to_str().expect("plain name")];
    let arguments = ["--here".to_string(), "mutex_basic".into()];
    let outcome =
        run_with_timeout(&mut variant.command(&options, Path::new(driver), &arguments), Duration::from_secs(60));
    assert!(outcome.success(), "{}: {}", outcome.ending(), outcome.tail());
    let stats = std::fs::read_to_string(&file).expect("statistics");
    assert!(stats.contains("\"processes\":0"), "{stats}");
}

/// Each acquisition and each wait is noted, with a copy of its stack, and all functions do what they should. Left out
/// are those that look at the memory of the process, of which what is noted takes some.
#[cfg(feature = "long")]
#[test]
fn c_driver_while_it_is_traced() {
    let Some(driver) = driver() else { return };
    let listed = run_with_timeout(Command::new(&driver).arg("--list"), LIMIT);
    let names = listed.stdout.split_whitespace().filter(|name| !name.starts_with("first_use_same_addresses"));
    let mut command = Command::new(lockswap());
    command.args(["trace", "--lock", "auto", "--spacing", "0ms", "--"]).arg(&driver).args(names);
    let outcome = run_with_timeout(command.env(SUB_TEST.0, SUB_TEST.1), LIMIT);
    verdict(&outcome).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.stderr.contains("Where to look first"), "{}", outcome.stderr);
}
