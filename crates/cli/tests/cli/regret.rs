//! `lockswap bench regret` and `lockswap sim regret`, on small files of cells.

use crate::{send, text, wait_for, Place};
use serde_json::Value;
use std::fs;

const SIMULATED: &str = r#"
candidates = ["futex", "mcs_spin"]
fairness_factor = 0.8
rounds = 2
targets = { worst = 0.8, mean = 0.95 }
[[machine]]
id = "apple-m1"
threads = [1, 8]
[[body]]
name = "short"
workload = "counter"
set = ["inside=10"]
duration = "200us"
[[body]]
name = "phases"
workload = "phases"
set = ["phase=50us"]
duration = "200us"
[held_out]
seed = 1
cells = ["apple-m1/phases/8"]
"#;

const HARDWARE: &str = r#"
candidates = ["futex", "mcs_spin"]
fairness_factor = 1.0
rounds = 2
targets = { worst = 2000000.0, mean = 0.000001, cpu = 1000000.0 }
[[body]]
name = "short"
workload = "counter"
threads = [2]
# On a busy machine a holder may have no CPU for 40 ms, while the other thread spins.
duration = "300ms"
[[body]]
name = "queue"
condvar = "queue"
threads = [2]
duration = "40ms"
[[body]]
name = "program"
program = "sleep 0.0{threads}"
threads = [1]
duration = "100ms"
[[body]]
name = "fifo"
workload = "counter"
realtime = 1
threads = [2]
duration = "40ms"
[[body]]
name = "absent"
program = "no-such-program-anywhere"
threads = [1]
duration = "1s"
[[body]]
name = "hidden"
workload = "counter"
threads = [2]
duration = "40ms"
[held_out]
seed = 1
cells = ["hidden/2"]
"#;

fn with_cells(content: &str) -> Place {
    let place = Place::new();
    fs::write(place.path("cells.toml"), content).unwrap();
    place
}

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&fs::read(place.path(name)).unwrap()).unwrap()
}

fn ids(exported: &Value) -> Vec<&str> {
    exported["cells"].as_array().unwrap().iter().map(|cell| cell["cell"].as_str().unwrap()).collect()
}

#[test]
fn simulated_regret_is_a_table_files_and_a_heat_map() {
    let place = with_cells(SIMULATED);
    let args = ["sim", "regret", "--cells", "cells.toml", "--lock", "ttas", "--export", "r.json"];
    let output = place.output(&[&args[..], &["--export", "r.csv", "--export", "r.svg"]].concat());
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "missed targets are no error: {said}");
    assert!(said.contains("3 cells, 3 locks, 18 runs: about"), "{said}");
    assert!(shown.contains("ttas next to the best of 2 locks in each of 3 cells, 2 seeds"), "{shown}");
    assert!(shown.contains("target >= 0.80: m") && shown.contains("an interval takes 6 seeds"), "{shown}");
    assert!(!shown.contains("apple-m1/phases/8") && !shown.contains("uses them up"), "it is held out: {shown}");
    let exported = json(&place, "r.json");
    assert_eq!(ids(&exported), ["apple-m1/short/1", "apple-m1/short/8", "apple-m1/phases/1"]);
    for cell in exported["cells"].as_array().unwrap() {
        let of = |lock: &Value| -> Vec<f64> {
            lock["throughput"].as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
        };
        // Each seed picks what the other one measures. Eligible is who is fair in both.
        let is_fair =
            |lock: &&Value| lock["fairness_factor"].as_array().unwrap().iter().all(|of| of.as_f64().unwrap() <= 0.8);
        let eligible: Vec<&Value> = cell["candidates"].as_array().unwrap().iter().filter(is_fair).collect();
        let picked =
            [0, 1].map(|seed: usize| *eligible.iter().max_by(|a, b| of(a)[seed].total_cmp(&of(b)[seed])).unwrap());
        assert_eq!(picked[0]["lock"], cell["best"], "{cell}");
        let other = Some(&picked[1]["lock"]).filter(|lock| **lock != cell["best"]);
        assert_eq!(other.unwrap_or(&Value::Null), &cell["other_best"], "{cell}");
        let log = |seed: usize| (of(&cell["subject"])[seed] / of(picked[1 - seed])[seed]).ln();
        let ratio = cell["ratio"].as_f64().unwrap().ln();
        assert!((ratio - (log(0) + log(1)) / 2.0).abs() < 1e-9, "{cell}");
    }
    let csv = fs::read_to_string(place.path("r.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 18, "{csv}");
    assert!(csv.contains("apple-m1/short/8,apple-m1,short,8,ttas,subject,1,1,odd,"), "{csv}");
    let svg = fs::read_to_string(place.path("r.svg")).unwrap();
    for word in ["apple-m1, 8", "phases", "Regret of ttas"] {
        assert!(svg.contains(word), "{word}: {svg}");
    }
    // The same seed, the same numbers.
    assert!(place.output(&args).status.success());
    assert_eq!(json(&place, "r.json"), exported);
}

/// Too few rounds for an interval are not enough, as long as nobody says how many there are to be.
#[test]
fn cells_without_a_narrow_interval_get_more_rounds() {
    let more = |content: &str| with_cells(&content.replace("rounds = 2", "rounds = 2\nmost_rounds = 4"));
    let rounds = |found: &Value| -> Vec<usize> {
        let cells = found["cells"].as_array().unwrap();
        cells.iter().map(|cell| cell["subject"]["throughput"].as_array().unwrap().len()).collect()
    };
    let place = more(SIMULATED);
    let args = ["sim", "regret", "--cells", "cells.toml", "--lock", "ttas", "--export", "r.json"];
    let output = place.output(&args);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said.contains("and more rounds where an interval is wide"), "{said}");
    assert_eq!(rounds(&json(&place, "r.json")), [4; 3], "{shown}");
    let more_seeds = "more seeds where the interval reached farther than 5 % of the ratio: apple-m1/short/1 4,";
    assert!(shown.split_whitespace().collect::<Vec<_>>().join(" ").contains(more_seeds), "{shown}");
    let output = place.output(&[&args[..], &["--seeds", "3"]].concat());
    assert!(output.status.success() && !text(&output.stdout).contains("more seeds"));
    assert_eq!(rounds(&json(&place, "r.json")), [3; 3], "as many as one asks for");

    let place = more(HARDWARE);
    let args = ["bench", "regret", "--cells", "cells.toml", "--only", "short", "--export", "r.json"];
    let output = place.output(&args);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said.contains("2 rounds: about 0 min"), "{said}");
    assert_eq!(rounds(&json(&place, "r.json")), [4], "{shown}");
    assert!(shown.contains("rounds of all locks in random order: 4"), "{shown}");
}

#[test]
fn held_out_cells_are_looked_at_only_if_one_asks() {
    let place = with_cells(SIMULATED);
    let args = ["sim", "regret", "--cells", "cells.toml", "--export", "r.json", "--held-out"];
    let output = place.output(&args);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said.contains("uses them up") && shown.contains("uses them up"), "{said}");
    assert_eq!(
        (ids(&json(&place, "r.json")), &json(&place, "r.json")["held_out"]),
        (vec!["apple-m1/phases/8"], &true.into())
    );
    let output = place.output(&["sim", "regret", "--cells", "cells.toml", "--only", "apple-m1/phases/8"]);
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("1 held-out cell"), "{said}");
}

#[test]
fn regret_on_hardware_measures_workloads_conditions_and_programs() {
    let place = with_cells(HARDWARE);
    let output = place.output(&["bench", "regret", "--cells", "cells.toml", "--lock", "ttas", "--export", "r.json"]);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{said}");
    for line in ["skipped: absent/1: no-such-program-anywhere is not installed", "3 locks, 2 rounds: about 0 min"] {
        assert!(said.contains(line), "{line}: {said}");
    }
    assert!(shown.contains("skipped: absent/1") && shown.contains("not judged") && shown.contains(": met"), "{shown}");
    let exported = json(&place, "r.json");
    let mut expected = vec!["short/2", "queue/2", "program/1", "fifo/2"];
    if said.contains("skipped: fifo/2: SCHED_FIFO takes a privilege") {
        expected.pop();
    }
    assert_eq!(ids(&exported), expected);
    for cell in exported["cells"].as_array().unwrap() {
        assert!(cell["ratio"].as_f64().is_some_and(|ratio| ratio >= 0.0), "{cell}");
        // On a busy machine a thread of SCHED_FIFO may spin for the whole run while the holder has no CPU: then there
        // is no operation that takes CPU time.
        let measured = cell["ratio"].as_f64() != Some(0.0);
        assert!(measured || cell["body"] == "fifo", "{cell}");
        assert_eq!(cell["cpu_next_to"].as_str(), measured.then_some("futex"), "mcs_spin does not block: {cell}");
        assert_eq!(cell["subject"]["throughput"].as_array().map(Vec::len), Some(2), "{cell}");
    }
    assert_eq!(exported["reached"][2]["met"], true);
    assert_eq!(exported["skipped"].as_array().unwrap()[0]["cell"], "absent/1");
}

/// A subject that is a candidate, too, is measured twice.
#[test]
fn regret_of_the_best_lock_is_noise() {
    let place = with_cells(&HARDWARE.replace(r#"["futex", "mcs_spin"]"#, r#"["futex"]"#));
    let args = ["bench", "regret", "--cells", "cells.toml", "--lock", "futex", "--only", "short", "--format", "csv"];
    let output = place.output(&[&args[..], &["--export", "r.md"]].concat());
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success() && said.contains("2 locks, 2 rounds"), "{said}");
    for part in ["subject", "candidate"] {
        let lines = shown.lines().filter(|line| line.starts_with(&format!("short/2,here,short,2,futex,{part},")));
        assert_eq!(lines.count(), 2, "{shown}");
    }
    let page = fs::read_to_string(place.path("r.md")).unwrap();
    assert!(page.contains("noise: where futex is the best lock itself (1 cell), its ratio is "), "{page}");
}

#[test]
fn a_program_that_fails_is_named_and_the_others_go_on() {
    let place = with_cells(&HARDWARE.replace("sleep 0.0{threads}", "false"));
    let output = place.output(&["bench", "regret", "--cells", "cells.toml", "--only", "program,short"]);
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(shown.contains("cells without a ratio: 1") && shown.contains("futex failed after 0 rounds: "), "{shown}");
    assert!(shown.contains("program/1: no run has come to its end"), "{shown}");
}

#[test]
fn wrong_cells_and_options_are_refused() {
    let place = with_cells(SIMULATED);
    fs::write(place.path("bad.toml"), SIMULATED.replace("\"counter\"", "\"countr\"")).unwrap();
    fs::write(place.path("here.toml"), HARDWARE).unwrap();
    for (args, said) in [
        (&["sim", "regret", "--cells", "bad.toml"][..], "line 9: body 'short': there is no workload 'countr'"),
        (&["sim", "regret", "--cells", "bad.toml"], "did you mean 'counter'?"),
        (&["sim", "regret", "--cells", "none.toml"], "cannot read the cells none.toml"),
        (&["sim", "regret", "--cells", "here.toml"], "lockswap bench regret measures them"),
        (&["bench", "regret", "--cells", "cells.toml"], "lockswap sim regret simulates them"),
        (&["sim", "regret", "--only", "nonsense"], "there is no cell whose name begins with 'nonsense'"),
        (&["sim", "regret", "--lock", "mcs"], "did you mean 'mcs_spin'"),
        (&["sim", "regret", "--seeds", "1"], "2..=100"),
        (&["sim", "regret", "--export", "r.xml"], "end it in .json"),
        (&["bench", "regret", "--runs", "1"], "write --runs 2 or more"),
        (&["bench", "regret", "--lock", "futex,ttas"], "regret is that of one lock"),
        (&["bench", "regret", "--all"], "write --lock ID with one ID"),
    ] {
        let output = place.output(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(said), "{args:?}: {error}");
    }
}

#[test]
fn an_interrupted_regret_keeps_what_it_has() {
    let place = with_cells(SIMULATED);
    let args = ["sim", "regret", "--cells", "cells.toml", "--seeds", "100", "--duration", "50ms", "--export", "r.json"];
    let mut command = place.lockswap(&args);
    let child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    wait_for("the first results", || place.path("r.json").exists());
    send(child.id(), "-INT");
    let output = child.wait_with_output().unwrap();
    let (shown, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted: ") && shown.contains("apple-m1/short/1"), "{shown}{said}");
    assert_eq!(ids(&json(&place, "r.json")).len(), 3);
}
