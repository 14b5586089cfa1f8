//! `lockswap sim` from outside.

use crate::{text, Place};
use std::fs;

const SHORT: [&str; 9] =
    ["sim", "--machine", "amd-2990wx", "--workload", "ncs", "--threads", "1,16", "--duration", "500us"];

#[test]
fn two_processes_find_the_same_for_one_seed() {
    let place = Place::new();
    let export = |file: &str, seed: &str, ballast: &str| {
        let locks = ["--locks", "mcs_spin,cna,twa,ron", "--seed", seed, "--export-json", file];
        let run = place.lockswap(&[&SHORT[..], &locks[..]].concat()).env("BALLAST", ballast).output().unwrap();
        assert!(run.status.success(), "{}", text(&run.stderr));
        fs::read(place.path(file)).unwrap()
    };
    let first = export("first.json", "7", "");
    assert!(first == export("again.json", "7", &"x".repeat(5000)), "another environment must not matter");
    assert!(first != export("other.json", "8", ""), "another seed must");
    let json: serde_json::Value = serde_json::from_slice(&first).unwrap();
    let results = json["results"].as_array().unwrap();
    crate::check_schema(&json);
    assert_eq!(results.len(), 8);
    for result in results {
        for key in ["lock", "threads", "throughput", "fairness_factor"] {
            assert!(!result[key].is_null(), "{key}");
        }
        assert!(result["throughput"].as_f64().unwrap() > 1e4);
    }
}

/// The form of hardware's results, which the tests of `bench` check against the same schema.
#[test]
fn every_workload_has_results_of_the_published_form() {
    let place = Place::new();
    for workload in [
        "counter",
        "kv",
        "ncs",
        "epochs",
        "epochs-variable",
        "epochs-mixed",
        "epochs-scalability",
        "epochs-contention",
        "epochs-oversub",
        "oversub",
        "readers",
    ] {
        let lock = if workload == "readers" { "bravo" } else { "asl" };
        let run = place.output(
            &[
                &["sim", "--machine", "apple-m1", "--workload", workload, "--locks", lock, "--seeds", "2"][..],
                &["--threads", "6", "--duration", "5ms", "--export-json", "a.json"],
            ]
            .concat(),
        );
        assert!(run.status.success(), "{workload}: {}", text(&run.stderr));
        let json: serde_json::Value = serde_json::from_slice(&fs::read(place.path("a.json")).unwrap()).unwrap();
        crate::check_schema(&json);
        let result = &json["results"][0];
        let named = (&json["workload"]["name"], &result["workload"], &result["lock"], &json["machine"]["cpus"]);
        assert_eq!(named, (&workload.into(), &workload.into(), &lock.into(), &8.into()));
        let seeds: Vec<_> = result["rounds"].as_array().unwrap().iter().map(|round| round["seed"].as_u64()).collect();
        assert_eq!((seeds, &json["simulated"]), (vec![Some(1), Some(2)], &true.into()), "{workload}");
        let counts = |of: &serde_json::Value| -> u64 {
            of["latency"]["all"]["histogram"].as_array().unwrap().iter().map(|bin| bin[1].as_u64().unwrap()).sum()
        };
        assert_eq!(counts(result), counts(&result["rounds"][0]) + counts(&result["rounds"][1]), "{workload}");
        assert!(counts(result) > 0 && result["throughput"].as_f64().unwrap() > 0.0, "{workload}: {result}");
    }
}

#[test]
fn tables_csv_and_pictures_are_written() {
    let place = Place::new();
    let files = ["--locks", "ticket", "--export-csv", "a.csv", "--plot", "throughput=a.svg", "--plot", "latency=b.png"];
    let run = place.output(&[&SHORT[..], &files[..]].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains("Threadripper 2990WX, 64 CPUs, simulated"));
    assert_eq!(fs::read_to_string(place.path("a.csv")).unwrap().lines().count(), 3);
    assert!(fs::read_to_string(place.path("a.svg")).unwrap().contains("ticket"));
    assert!(fs::read(place.path("b.png")).unwrap().starts_with(b"\x89PNG"));
}

#[test]
fn wrong_arguments_are_refused_with_a_remedy() {
    let place = Place::new();
    fs::write(place.path("bad.toml"), "title = 3").unwrap();
    for (arguments, status, expected) in [
        (&["--machine", "cray-1"][..], 2, "there is no machine 'cray-1'"),
        (&["--machine", "./bad.toml"], 2, "./bad.toml"),
        (&["--machine", "./none.toml"], 1, "cannot read the machine file ./none.toml"),
        (&["--workload", "chess"], 2, "there is no workload 'chess'"),
        (&["--locks", "pthread"], 2, "there is no mutex lock 'pthread' to simulate"),
        (&["--threads", "0"], 2, "0 is not in 1..=4096"),
        (&["--set", "speed=1"], 2, "the workload has no key 'speed'"),
        (&["--set", "latency.remote=far"], 2, "latency.remote"),
        (&["--duration", "1h"], 2, "500us, 20ms or 1s"),
        (&["--plot", "beauty=a.svg"], 2, "'beauty' cannot be drawn"),
        (&["--export-json", "no/such/folder/a.json"], 1, "cannot write no/such/folder/a.json"),
        (&["reproduce", "--only", "nonsense"], 2, "there is no claim whose name begins with 'nonsense'"),
    ] {
        let run = place.output(&[&["sim"], arguments].concat());
        let error = text(&run.stderr);
        assert!(run.status.code() == Some(status) && error.contains(expected), "{arguments:?}: {error}");
        assert!(run.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn claims_are_reproduced() {
    let place = Place::new();
    let run =
        place.output(&["sim", "reproduce", "--only", "cna-mcs-1,shfl-1", "--seeds", "2", "--export-json", "c.json"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains("2 of 2 claims agree"), "{}", text(&run.stdout));
    let json: serde_json::Value = serde_json::from_slice(&fs::read(place.path("c.json")).unwrap()).unwrap();
    assert_eq!(json["claims"].as_array().map(Vec::len), Some(2));
}
