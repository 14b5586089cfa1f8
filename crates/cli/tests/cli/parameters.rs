//! `ID:KEY=VALUE` is a lock wherever a lock is named.

use crate::{text, Place};
use serde_json::Value;
use std::fs;

/// What `lockswap` prints for these arguments, which it must accept.
fn printed(place: &Place, args: &[&str]) -> String {
    let output = place.output(args);
    assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

fn json(place: &Place, file: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(file)).unwrap()).unwrap()
}

#[test]
fn a_program_runs_with_them() {
    let place = Place::new();
    let in_force = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = place.lockswap(&[&["run"], args, &["--", "true"]].concat());
        let output = command.env("LOCKSWAP_VERBOSE", "1").envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let said = in_force(&["--lock", "CNA-opt:Threshold=255:shuffle=3"], &[]);
    assert!(said.contains("mutex cna-opt:threshold=255:shuffle=3,"), "{said}");
    for written in ["cna:threshold=255", "cna:threshold=0255", "CNA:threshold=+255"] {
        let said = in_force(&[], &[("LOCKSWAP_LOCK", written)]);
        assert!(said.contains("mutex cna:threshold=255,"), "{written}: {said}");
    }
    let said = in_force(&["--lock", "cna"], &[("LOCKSWAP_LOCK", "cna:threshold=255")]);
    assert!(said.contains("mutex cna,"), "the command line counts: {said}");
    assert!(in_force(&["--lock", "cna:threshold=255", "--summary"], &[]).contains("cna:threshold=255"));
}

/// Spin-then-park waits as long as a round trip through a sleep takes, which is measured for those locks only.
#[test]
fn how_long_to_spin_before_a_sleep_is_measured_where_a_lock_asks() {
    let place = Place::new();
    let script = "echo \"$LOCKSWAP_SPINS_BEFORE_PARK\"";
    let given = |lock: &str, own: &str| {
        let (lock, rwlock) = lock.split_once('+').unwrap_or((lock, "rw-futex"));
        let mut command = place.lockswap(&["run", "--lock", lock, "--rwlock", rwlock, "--", "/bin/sh", "-c", script]);
        let output = command.env("LOCKSWAP_SPINS_BEFORE_PARK", own).env("LOCKSWAP_VERBOSE", "1").output().unwrap();
        (text(&output.stdout).trim().to_owned(), text(&output.stderr))
    };
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        for locks in ["mcs_stp", "futex+cohort-rw", "mcs_stp:spin=40+shfllock-rw"] {
            let (measured, said) = given(locks, "");
            assert!(measured.parse::<u32>().is_ok_and(|looks| (2..1_000_000).contains(&looks)), "{locks}: {measured}");
            let expected =
                format!("look {measured} times before they sleep: a round trip through a sleep (LOCKSWAP_SPINS");
            assert!(said.contains(&expected), "{said}");
        }
    }
    let (given_by_user, said) = given("mcs_stp", "77");
    assert!(given_by_user == "77" && said.contains("look 77 times before they sleep"), "{said}");
    for lock in ["mcs_spin", "futex", "mcs_stp:spin=40", "futex+cohort-rw:spin=40"] {
        let (nothing, said) = given(lock, "");
        assert!(nothing.is_empty() && !said.contains("before they sleep"), "{lock}: {nothing} {said}");
    }
    let library = printed(&place, &["preload-path"]);
    let bare = |own: &str| {
        let mut command = std::process::Command::new("true");
        command.env("LD_PRELOAD", library.trim()).env("LOCKSWAP_LOCK", "mcs_stp").env("LOCKSWAP_VERBOSE", "1");
        let output = command.env("LOCKSWAP_SPINS_BEFORE_PARK", own).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (status, said) = bare("");
    assert!(status == Some(0) && said.contains("look 500 times") && said.contains("default, not measured"), "{said}");
    for wrong in ["0", "-1", "many", "1000001"] {
        let (status, said) = bare(wrong);
        assert!(status == Some(127) && said.contains("is not a number from 1 to 1000000"), "{wrong}: {said}");
    }
}

#[test]
fn two_settings_are_two_rows_of_a_comparison() {
    let place = Place::new();
    let script = place.locking_script("note", "echo \"$LOCKSWAP_LOCK\" >> seen");
    // The others are the same two, and what stands first of them is shown.
    let locks = "cna:threshold=1,cna:threshold=2,CNA:THRESHOLD=1,cna:threshold=+02,cna:threshold=01";
    let args = ["compare", "--lock", locks, "--runs", "1", "--no-confirm", "--export", "c.json", "--export", "c.svg"];
    place.output(&[&args[..], &["--", &script]].concat());
    let compared = json(&place, "c.json");
    let rows: Vec<&str> = compared["locks"].as_array().unwrap().iter().filter_map(|row| row["lock"].as_str()).collect();
    assert_eq!(rows[2..], ["cna:threshold=1", "cna:threshold=2"]);
    let seen = fs::read_to_string(place.path("seen")).unwrap();
    assert!(rows[2..].iter().all(|lock| seen.lines().any(|line| line == *lock)), "{seen}");
    let picture = fs::read_to_string(place.path("c.svg")).unwrap();
    assert!(rows[2..].iter().all(|lock| picture.contains(lock)), "{picture}");
}

#[test]
fn benchmarks_measure_each_setting_behind_the_pthread_functions_and_directly() {
    let place = Place::new();
    let of = |args: &[&str]| {
        printed(&place, &[&["bench", "--runs", "1", "--export", "b.json"], args].concat());
        json(&place, "b.json")
    };
    let measured = of(&["counter", "--lock", "cna,cna:threshold=255", "--duration", "250ms"]);
    let locks: Vec<&Value> = measured["results"].as_array().unwrap().iter().map(|result| &result["lock"]).collect();
    assert_eq!(locks[2..], ["cna", "cna:threshold=255"]);
    let measured = of(&["direct", "--lock", "cna:threshold=255,cna:threshold=1"]);
    let forms = measured["locks"].as_array().unwrap().iter().map(|lock| (&lock["id"], lock["directly"] == true));
    let (first, second) = (&Value::from("cna:threshold=255"), &Value::from("cna:threshold=1"));
    assert_eq!(forms.collect::<Vec<_>>(), [(first, true), (first, false), (second, true), (second, false)]);
}

/// One lock is one row, by one name: however its values are written, and if one of them is the default.
#[test]
fn one_lock_is_one_row() {
    let place = Place::new();
    let asl = "asl:max-window=1000us,asl:max-window=1ms,asl,asl:max-window=100ms,asl:max-window=0.1s";
    let args = ["bench", "counter", "--runs", "1", "--duration", "250ms", "--export", "b.json", "--lock", asl];
    printed(&place, &args);
    let measured = json(&place, "b.json");
    let rows: Vec<&Value> = measured["results"].as_array().unwrap().iter().map(|result| &result["lock"]).collect();
    assert_eq!(rows[2..], ["asl:max-window=1ms", "asl"]);
    let rows = |args: &[&str], column: usize| -> Vec<String> {
        let shown = printed(&place, &[args, &["--format", "csv"]].concat());
        shown.lines().skip(1).map(|line| line.split(',').nth(column).unwrap().to_owned()).collect()
    };
    let cna = ["--lock", "cna:threshold=65535,cna,cna:threshold=065535"];
    let short = ["torture", "--time", "0.1s", "--threads", "2"];
    assert_eq!(rows(&[&short[..], &cna].concat(), 1), ["cna:threshold=65535"]);
    let short = ["sim", "--machine", "amd-2990wx", "--threads", "2", "--duration", "20us"];
    let mut simulated = rows(&[&short[..], &cna].concat(), 2);
    simulated.dedup();
    simulated.retain(|lock| lock.starts_with("cna"));
    assert_eq!(simulated, ["cna:threshold=65535"]);
}

#[test]
fn torture_tests_each_setting() {
    let place = Place::new();
    let args = [
        "--lock",
        "cna:threshold=1,cna,auto:spin=0",
        "--time",
        "0.2s",
        "--threads",
        "2",
        "--seed",
        "3",
        "--format",
        "csv",
    ];
    let shown = printed(&place, &[&["torture"], &args[..]].concat());
    let rows: Vec<&str> = shown.lines().skip(1).map(|line| line.split(",3,").next().unwrap()).collect();
    assert_eq!(rows, ["mutex,cna:threshold=1", "mutex,cna", "mutex,auto:spin=0"]);
}

/// The smaller the threshold of CNA, the more often the lock changes NUMA nodes: fairer, and slower.
#[test]
fn a_setting_acts_in_the_simulator() {
    let place = Place::new();
    let locks = ["--locks", "cna,cna:threshold=1,cna:threshold=1000000", "--format", "csv", "--export", "s.svg"];
    let args = ["--machine", "xeon-e5-2699v3", "--threads", "16,32", "--duration", "5ms"];
    let shown = printed(&place, &[&["sim"], &locks[..], &args[..]].concat());
    let of = |lock: &str, column: &str| -> f64 {
        let cells = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        let mut lines = shown.lines().map(cells);
        let column = lines.next().unwrap().iter().position(|name| name == column).unwrap();
        let row = lines.find(|row| row[2] == lock && row[3] == "32").unwrap_or_else(|| panic!("{lock}: {shown}"));
        row[column].parse().unwrap()
    };
    let (fair, fast) = ("cna:threshold=1", "cna:threshold=1000000");
    assert!(of(fair, "fairness_factor") + 0.1 < of(fast, "fairness_factor"), "{shown}");
    assert!(of(fair, "throughput") * 1.1 < of(fast, "throughput"), "{shown}");
    let picture = fs::read_to_string(place.path("s.svg")).unwrap();
    assert!([fair, fast].iter().all(|lock| picture.contains(lock)), "{picture}");
    let what = ["--workloads", "counter", "--lock", "cna:threshold=1,ttas", "--machine", "amd-2990wx"];
    let short = ["--threads", "1", "--runs", "1", "--duration", "30ms", "--simulated", "100us", "--export", "v.csv"];
    printed(&place, &[&["sim", "validate"], &what[..], &short[..]].concat());
    assert!(fs::read_to_string(place.path("v.csv")).unwrap().contains("cna:threshold=1,"));
}

#[test]
fn they_are_listed_with_default_range_unit_and_source() {
    let place = Place::new();
    let page = printed(&place, &["list", "cna"]).split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["threshold=1..1000000000 hand-offs [default: 65535]", "EuroSys 2019"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(printed(&place, &["list", "cna:threshold=9"]), printed(&place, &["list", "cna"]));
    let listed: Value = serde_json::from_str(&printed(&place, &["list", "--format", "json"])).unwrap();
    let known = listed.as_array().unwrap().iter().flat_map(|lock| lock["parameters"].as_array().unwrap());
    let mut count = 0;
    for known in known {
        assert!(["key", "default", "summary", "source"].iter().all(|key| known[key].is_string()), "{known}");
        assert!(known["values"].is_array() || known["range"].is_array() && known["unit"].is_string(), "{known}");
        count += 1;
    }
    assert!(count > 10, "{count}");
}

#[test]
fn what_is_no_parameter_is_refused_everywhere() {
    let place = Place::new();
    for (lock, said) in [
        ("cna:threshold=0", "threshold=0: give a number of hand-offs from 1 to 1000000000"),
        ("cna:shuffle=3", "cna has no parameter 'shuffle'; it has threshold"),
        ("cna:threshold", "'threshold' is not KEY=VALUE"),
        ("pthread:spin=3", "pthread has no parameter 'spin', nor any other"),
    ] {
        for args in [
            &["run", "--lock", lock, "--", "true"][..],
            &["compare", "--lock", lock],
            &["bench", "--lock", lock],
            &["bench", "direct", "--lock", lock],
            &["bench", "oversub", "--lock", lock],
            &["torture", "--lock", lock],
            &["sim", "--lock", lock],
            &["slo", "--epoch", "1", "--from", "1us", "--to", "2us", "--lock", lock, "--", "true"],
            &["list", lock],
        ] {
            let output = place.output(args);
            assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
            assert!(text(&output.stderr).contains(said), "{args:?}: {}", text(&output.stderr));
        }
    }
}
