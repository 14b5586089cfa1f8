//! `lockswap topo` and routes: those of a matrix of round trips, and those that are measured and stored for the locks of
//! later programs.

use super::topo::{keys, topo};
use super::{text, Place};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// The machine that the tests run on, with a route that goes through its CPUs backwards.
fn backwards() -> Vec<usize> {
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu)).rev().collect()
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// What the preload library says about a program on the lock.
fn said(place: &Place, lock: &str, environment: &[(&str, &str)]) -> String {
    let mut command = place.lockswap(&["run", "--lock", lock, "--", "true"]);
    let output = command.env("LOCKSWAP_VERBOSE", "1").envs(environment.iter().copied()).output().unwrap();
    assert!(output.status.success() && output.stdout.is_empty(), "{}", text(&output.stderr));
    text(&output.stderr)
}

/// The one file that keeps a route.
fn stored(place: &Place) -> PathBuf {
    let files = fs::read_dir(place.path("cache/lockswap")).unwrap().map(|entry| entry.unwrap().path());
    let mut files = files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("machine-"));
    let file = files.next().expect("a stored route");
    assert_eq!(files.next(), None);
    file
}

#[test]
fn a_matrix_gives_the_shortest_round_trip() {
    let place = Place::new();
    fs::write(place.path("m.csv"), "# ring 0 2 1 3\n0,90,10,10\n90,0,10,10\n10,10,0,90\n10,10,90,0\n").unwrap();
    let data = |file: &str| -> Value {
        let mut data: Value = serde_json::from_str(&topo(&place, &["--latency", file, "--json"], &[])).unwrap();
        assert_eq!(data["latencies"]["source"].take(), file);
        data
    };
    let out = data("m.csv");
    assert_eq!((&out["route"], &out["round_trip_ns"]), (&serde_json::json!([0, 2, 1, 3]), &40.0.into()));
    assert_eq!(out["latencies"]["ns"][1], serde_json::json!([90.0, 0.0, 10.0, 10.0]));
    assert!(out["cpus"].is_null() && out["source"].is_null() && out["route_stored"].is_null(), "{out}");
    fs::write(place.path("triangle"), "90\n10,10\n10,10,90\n").unwrap();
    assert_eq!(data("triangle"), out);
    let args = ["--latency", "m.csv", "--export", "m.svg", "--export-csv", "n.csv"];
    let shown = topo(&place, &args, &[]);
    assert!(shown.contains("route 0,2,1,3\nround trip 40.0 ns through 4 CPUs"), "{shown}");
    let svg = fs::read_to_string(place.path("m.svg")).unwrap();
    for word in ["one-way latency (ns)", "on the route", "lockswap 0.", "topo --latency m.csv"] {
        assert!(svg.contains(word), "{word}: {svg}");
    }
    assert_eq!(data("n.csv"), out);
    assert!(!place.path("cache/lockswap").exists(), "a matrix of any machine is not stored");
}

#[test]
fn bad_matrices_get_one_line_and_a_remedy_and_leave_nothing_behind() {
    let place = Place::new();
    for (content, wanted) in [
        ("", "m.csv: it holds no latencies"),
        ("0,1\n1\n", "m.csv: line 2: 1 value"),
        ("0,-1\n1,0\n", "m.csv: line 1: column 2: the latency -1 is negative"),
        ("0,x\n1,0\n0,0", "m.csv: line 1: "),
        ("0,nan\n1,0\n", "m.csv: line 1: column 2: nan is not a latency"),
    ] {
        fs::write(place.path("m.csv"), content).unwrap();
        let output = place.output(&["topo", "--latency", "m.csv", "--export", "m.png", "--json"]);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(output.stdout.is_empty() && error.contains(wanted), "{wanted}: {error}");
        assert_eq!(error.lines().count(), 2, "{error}");
        assert!(error.lines().nth(1).unwrap().starts_with("  remedy: "), "{error}");
        assert!(!place.path("m.png").exists());
    }
    fs::write(place.path("m.csv"), b"\xff\xfe0,1").unwrap();
    for (args, wanted) in [
        (&["--latency", "m.csv"][..], "it is not text"),
        (&["--latency", "no.csv"], "no.csv: No such file"),
        (&["--latency", "m.csv", "--sysfs", "x"], "cannot be used with"),
        (&["--export", "m.png"], "pictures show latencies: add --measure or --latency FILE"),
        (&["--format", "md"], "choose table, json or csv"),
    ] {
        let output = place.output(&[&["topo"], args].concat());
        assert!(!output.status.success() && text(&output.stderr).contains(wanted), "{}", text(&output.stderr));
    }
    fs::write(place.path("m.csv"), "0 1\n1 0").unwrap();
    let output = place.output(&["topo", "--latency", "m.csv", "--export", "m.pdf"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("end it in .svg, .png, .csv or .json"));
}

#[test]
fn what_is_measured_is_stored_and_the_locks_of_later_programs_follow_it() {
    let place = Place::new();
    let cpus = backwards();
    if cpus.len() < 2 {
        lockswap_e2e::skip("two CPUs");
        return;
    }
    assert!(said(&place, "ron", &[]).contains(", along the topology\n"));
    let output = place.output(&["topo", "--measure", "--json", "--export", "m.png", "--export", "m.csv"]);
    let said_first = text(&output.stderr);
    assert!(output.status.success() && said_first.starts_with("measuring "), "{said_first}");
    let found: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let route: Vec<usize> =
        found["route"].as_array().unwrap().iter().map(|cpu| cpu.as_u64().unwrap() as usize).collect();
    let mut sorted = route.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(sorted, cpus);
    assert!(found["round_trip_ns"].as_f64().unwrap() > 1.0);
    assert_eq!(found["route_stored"].as_str().unwrap(), stored(&place).to_str().unwrap());
    assert!(place.path("m.png").exists());
    let again: Value = serde_json::from_str(&topo(&place, &["--latency", "m.csv", "--json"], &[])).unwrap();
    assert_eq!(again["route"], found["route"]);

    let line = format!("lockswap: route {}, as lockswap topo has stored it\n", list(&route));
    assert!(said(&place, "ron", &[]).contains(&line), "{line}");
    assert!(said(&place, "ron-shared", &[]).contains(&line), "{line}");
    assert!(!said(&place, "ticket", &[]).contains("route"), "only for a lock that follows it");
    let declared = said(&place, "ron", &[("LOCKSWAP_ROUTE", &list(&cpus))]);
    assert!(declared.contains(&format!("route {}, as LOCKSWAP_ROUTE says\n", list(&cpus))), "{declared}");
    let shown: Value = serde_json::from_str(&topo(&place, &["--json"], &[])).unwrap();
    assert_eq!((&shown["route"], &shown["route_stored"]), (&found["route"], &found["route_stored"]));
    assert_eq!(keys(&shown), keys(&found));
    assert_eq!(keys(&again), keys(&found));
    assert!(shown["latencies"].is_null() && shown["round_trip_ns"].is_null(), "{shown}");
    assert!(found["cpus"].is_array() && found["latencies"]["source"].is_null(), "{found}");
}

#[test]
fn a_route_from_a_matrix_can_be_stored_and_damaged_ones_are_ignored_with_a_line() {
    let place = Place::new();
    let cpus = backwards();
    let names = list(&cpus);
    let cell = |row: usize, column: usize| if row == column { "0" } else { "7" };
    let rows = cpus.iter().enumerate().map(|(row, cpu)| {
        let cells: Vec<&str> = (0..cpus.len()).map(|column| cell(row, column)).collect();
        format!("{cpu},{}\n", cells.join(","))
    });
    fs::write(place.path("m.csv"), format!("cpu,{names}\n{}", rows.collect::<String>())).unwrap();
    topo(&place, &["--latency", "m.csv", "--store"], &[]);
    let file = stored(&place);
    let whole = fs::read_to_string(&file).unwrap();
    // As if somebody had found that backwards is shorter.
    let route = whole.lines().find(|line| line.starts_with("route ")).unwrap().to_owned();
    let whole = whole.replace(&route, &format!("route {names}"));
    fs::write(&file, &whole).unwrap();
    assert!(said(&place, "ron", &[]).contains(&format!("route {names}, as lockswap topo")), "{whole}");

    let id = whole.lines().find(|line| line.starts_with("id ")).unwrap().to_owned();
    for (content, why) in [
        (whole.replace("lockswap-machine 1", "lockswap-machine 999"), "another version"),
        (whole.replace(&id, "id 0123456789abcdef"), "measured on another machine"),
        (whole.replace(&format!("route {names}"), "route 0,nonsense"), "its route is damaged"),
        (whole[..whole.find("route ").unwrap() + 7].to_owned(), "its route is damaged"),
        (String::new(), "no file of lockswap's"),
        ("\0".repeat(100_000), "no file of lockswap's"),
    ] {
        fs::write(&file, &content).unwrap();
        let said = said(&place, "ron", &[]);
        let lines = said.lines().filter(|line| line.contains("is ignored")).collect::<Vec<_>>();
        assert!(matches!(lines[..], [line] if line.contains(why)), "{why}: {said}");
        assert!(said.contains(", along the topology\n"), "{said}");
        let silent = place.output(&["run", "--lock", "ron", "--", "true"]);
        assert!(silent.status.success() && silent.stderr.is_empty(), "{}", text(&silent.stderr));
        let shown = place.output(&["topo"]);
        let ignored = text(&shown.stderr);
        assert!(shown.status.success() && ignored.lines().count() == 1 && ignored.contains(why), "{ignored}");
    }
    let elsewhere = place.path("elsewhere").to_str().unwrap().to_owned();
    fs::write(&elsewhere, &whole).unwrap();
    let said = said(&place, "ron", &[("LOCKSWAP_ROUTE_FILE", &elsewhere)]);
    assert!(said.contains(&format!("route {names}, as lockswap topo")), "{said}");

    fs::write(place.path("large.csv"), "cpu 0 4000\n0 0 9\n4000 9 0\n").unwrap();
    let output = place.output(&["topo", "--latency", "large.csv", "--store"]);
    assert!(text(&output.stderr).contains("describes another machine: there is no CPU 4000 here"));
}

#[test]
fn nothing_is_measured_where_it_could_not_be_written_or_there_is_one_cpu() {
    let place = Place::new();
    let output = place.output(&["topo", "--measure", "--export", "no/such/m.png"]);
    let error = text(&output.stderr);
    assert!(!output.status.success() && error.starts_with("error: cannot write no/such/m.png"), "{error}");
    assert!(!place.path("cache").exists());
    let mut command = std::process::Command::new("taskset");
    let cpu = backwards()[0].to_string();
    command.args(["-c", &cpu]).arg(env!("CARGO_BIN_EXE_lockswap")).args(["topo", "--measure"]);
    let output = command.env("XDG_CACHE_HOME", place.path("cache")).output().unwrap();
    let error = text(&output.stderr);
    assert!(error.contains(&format!("this process may use CPU {cpu} only")), "{error}");
    assert!(!place.path("cache").exists());
}
