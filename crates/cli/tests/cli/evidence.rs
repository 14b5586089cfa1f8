//! What shows how far `lockswap sim` can be trusted: claims of papers, what moves them, and this machine beside it.

use crate::{text, Place};
use std::fs;

#[test]
fn claims_are_reproduced() {
    let place = Place::new();
    let run = place.output(&[
        "sim",
        "reproduce",
        "--only",
        "cna-mcs-1,shfl-1",
        "--seeds",
        "2",
        "--export",
        "c.json",
        "--export",
        "c.csv",
    ]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains("2 of 2 claims agree"), "{}", text(&run.stdout));
    let json: serde_json::Value = serde_json::from_slice(&fs::read(place.path("c.json")).unwrap()).unwrap();
    assert_eq!(json["claims"].as_array().map(Vec::len), Some(2));
    assert_eq!(fs::read_to_string(place.path("c.csv")).unwrap().lines().count(), 3);
    let fitted = json["claims"].as_array().unwrap().iter().find(|claim| claim["claim"]["id"] == "cna-mcs-1").unwrap();
    let because = fitted["because"].as_str().unwrap();
    assert!(fitted["basis"] == "fitted" && because.starts_with("inside (422b097); "), "{fitted}");
    let args = ["sim", "reproduce", "--only", "shfl-1", "--seeds", "1", "--format", "md"];
    let shown = text(&place.output(&args).stdout);
    assert!(shown.contains("| shfl-1 | ") && shown.contains("| latency.remote "), "claims and changes: {shown}");
}

#[test]
fn a_claim_that_leaves_its_golden_value_is_an_error_until_it_is_accepted() {
    let place = Place::new();
    let only = ["sim", "reproduce", "--only", "cna-mcs-1,shfl-1", "--seeds", "1"];
    let run = |more: &[&str]| {
        let run = place.output(&[&only[..], more].concat());
        (run.status.code(), text(&run.stdout), text(&run.stderr))
    };
    let (status, _, error) = run(&["--write-golden", "my.csv"]);
    assert_eq!((status, &*error), (Some(0), ""));
    let written = fs::read_to_string(place.path("my.csv")).unwrap();
    assert_eq!(written.lines().count(), 3);
    assert_eq!(run(&["--golden", "my.csv"]).0, Some(0));
    let line = written.lines().find(|line| line.starts_with("cna-mcs-1,")).unwrap();
    fs::write(place.path("my.csv"), written.replace(line, "cna-mcs-1,5,4,3.9,4.1")).unwrap();
    let (status, shown, error) = run(&["--golden", "my.csv"]);
    assert_eq!(status, Some(1));
    assert!(shown.contains("2 of 2 claims agree"), "the tables come first: {shown}");
    assert!(error.contains("cna-mcs-1: the golden value is 4.0000 (3.8600 to 4.1400, 5 seeds), it is "), "{error}");
    assert!(error.contains("--write-golden ") && !error.contains("shfl-1"), "{error}");
    // Claims that are not simulated keep what the file says.
    let args = ["sim", "reproduce", "--only", "shfl-1", "--seeds", "1", "--write-golden", "my.csv"];
    assert!(place.output(&args).status.success());
    assert!(fs::read_to_string(place.path("my.csv")).unwrap().contains("\ncna-mcs-1,5,4.0,3.9,4.1\n"));
    fs::write(place.path("bad.csv"), "claim,seeds\ncna-1,5\n").unwrap();
    for (arguments, status, expected) in [
        (["--golden", "none.csv"], 1, "cannot read the golden file none.csv"),
        (["--golden", "bad.csv"], 2, "bad.csv: "),
        (["--write-golden", "bad.csv"], 2, "bad.csv: "),
        (["--write-golden", "no/such/folder.csv"], 1, "cannot write no/such/folder.csv"),
    ] {
        let (found, _, error) = run(&arguments);
        assert!(found == Some(status) && error.contains(expected), "{arguments:?}: {error}");
    }
}

#[test]
fn parameters_are_moved_and_claims_with_them() {
    let place = Place::new();
    let args = ["sim", "sensitivity", "--only", "cna-mcs-1", "--parameter", "core.hit,latency.remote"];
    let files = ["--duration", "1ms", "--export", "s.json", "--export", "s.csv", "--export", "s.md"];
    let run = place.output(&[&args[..], &files].concat());
    let shown = text(&run.stdout);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(shown.contains("core.hit -"), "more costly accesses, less throughput: {shown}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(place.path("s.json")).unwrap()).unwrap();
    let effects = json["claims"][0]["effects"].as_array().unwrap();
    assert_eq!(
        effects.iter().map(|effect| effect["parameter"].as_str().unwrap()).collect::<Vec<_>>(),
        ["core.hit", "latency.remote"]
    );
    assert_eq!(fs::read_to_string(place.path("s.csv")).unwrap().lines().count(), 3);
    assert!(fs::read_to_string(place.path("s.md")).unwrap().contains(": lockswap sim sensitivity --only cna-mcs-1"));
    for (arguments, expected) in [
        (&["--only", "nonsense"][..], "there is no claim whose name begins with 'nonsense'"),
        (&["--machine", "cray-1"], "there is no machine 'cray-1'"),
        (&["--machine", "hikey970"], "none of these claims is about hikey970"),
        (&["--parameter", "core.hot"], "did you mean 'core.hit'?"),
        (&["--by", "0"], "0 is not in 1 to 100"),
        (&["--by", "much"], "write a number, as in 20"),
        (&["--bases", "0"], "0 is not in 1..=100"),
        (&["--export", "a.svg"], "end it in .json, .csv, .md or .html"),
    ] {
        let run = place.output(&[&["sim", "sensitivity"], arguments].concat());
        assert!(run.status.code() == Some(2) && text(&run.stderr).contains(expected), "{}", text(&run.stderr));
    }
}

/// What `lockswap sim` writes to this file on the machine `host`, and what it says meanwhile.
fn on_host(place: &Place, file: &str) -> (Vec<u8>, String) {
    let arguments = ["sim", "--machine", "host", "--threads", "1,2", "--duration", "200us", "--export", file];
    let run = place.output(&arguments);
    assert!(run.status.success(), "{}", text(&run.stderr));
    (fs::read(place.path(file)).unwrap(), text(&run.stderr))
}

#[test]
fn this_machine_is_probed_once_and_again_when_the_file_is_damaged() {
    let place = Place::new();
    let (first, said) = on_host(&place, "a.json");
    assert!(said.contains("probing this machine") && said.contains("stored in "), "{said}");
    let (again, said) = on_host(&place, "b.json");
    assert_eq!(said, "");
    assert!(first == again, "the stored probe gives the same numbers");
    let folder = fs::read_dir(place.path("cache/lockswap")).unwrap();
    let file = folder.map(|entry| entry.unwrap().path()).find(|path| path.extension().is_some_and(|e| e == "toml"));
    let file = file.expect("a stored probe");
    let good = fs::read_to_string(&file).unwrap();
    // By its path it is a machine like any other.
    let copy = place.path("copy.toml");
    fs::write(&copy, &good).unwrap();
    let run = place.output(&["sim", "--machine", "./copy.toml", "--threads", "1", "--duration", "200us"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    fs::write(&file, good.replace("\nrmw = ", "\nrwm = ")).unwrap();
    let (_, said) = on_host(&place, "c.json");
    assert!(said.contains("is not used: damaged: ") && said.contains("stored in "), "{said}");
    assert_eq!(good.lines().count(), fs::read_to_string(&file).unwrap().lines().count());
}

#[test]
fn a_probe_without_a_folder_needs_a_file() {
    let place = Place::new();
    let run = place.lockswap(&["sim", "probe"]).env_remove("XDG_CACHE_HOME").output().unwrap();
    assert!(run.status.code() == Some(1) && text(&run.stderr).contains("--out FILE.toml"), "{}", text(&run.stderr));
}

#[test]
fn hardware_and_simulation_stand_side_by_side() {
    let place = Place::new();
    let what = ["--workloads", "counter,readers:reads=50", "--lock", "ttas,futex,rw-futex,bravo"];
    let short = ["--threads", "1,2", "--runs", "4", "--duration", "30ms", "--simulated", "100us"];
    let files = ["--export", "v.json", "--export", "v.csv", "--export", "v.md"];
    let machine = ["--machine", "amd-2990wx", "--set", "latency.memory=80"];
    let run = place.output(&[&["sim", "validate"], &what[..], &short, &files, &machine].concat());
    let shown = text(&run.stdout);
    assert!(run.status.success(), "{}{shown}", text(&run.stderr));
    for expected in
        ["counter, 2 threads: the simulation is ", "readers:reads=50, 1 thread", "futex", "latency.memory=80"]
    {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let json: serde_json::Value = serde_json::from_slice(&fs::read(place.path("v.json")).unwrap()).unwrap();
    let groups = json["groups"].as_array().unwrap();
    assert_eq!(groups.len(), 4);
    for group in groups {
        let locks = group["locks"].as_array().unwrap();
        assert_eq!(locks.len(), 2);
        let product: f64 = locks.iter().map(|lock| lock["simulated_relative"].as_f64().unwrap()).product();
        assert!((product - 1.0).abs() < 1e-9, "{group}");
        // On a busy machine rounds are left out in which the time for a cache line is not that of the others.
        assert!(locks.iter().all(|lock| lock["measured_rounds"].as_array().is_some_and(|rounds| !rounds.is_empty())));
    }
    assert_eq!(fs::read_to_string(place.path("v.csv")).unwrap().lines().count(), 1 + 8);
    assert!(fs::read_to_string(place.path("v.md")).unwrap().contains(": lockswap sim validate --workloads "));
}
