//! `lockswap sim` from outside.

use crate::{send, text, wait_for, Place};
use std::collections::BTreeSet;
use std::fs;
use std::process::Stdio;

const SHORT: [&str; 9] =
    ["sim", "--machine", "amd-2990wx", "--workload", "ncs", "--threads", "1,16", "--duration", "500us"];

#[test]
fn two_processes_find_the_same_for_one_seed() {
    let place = Place::new();
    let export = |file: &str, seed: &str, ballast: &str| {
        let locks = ["--lock", "mcs_spin,cna,twa,ron", "--seed", seed, "--export", file];
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
        "shares",
        "shares-store",
        "bursts",
        "phases",
        "readers",
        "locktorture",
        "lock1",
        "lock2",
        "open1",
        "open2",
    ] {
        let lock = match workload {
            "readers" => "bravo",
            "locktorture" | "lock1" | "lock2" | "open1" | "open2" => "qspinlock-cna",
            _ => "asl",
        };
        let run = place.output(
            &[
                &["sim", "--machine", "apple-m1", "--workload", workload, "--lock", lock, "--seeds", "2"][..],
                &["--threads", "6", "--duration", "5ms", "--export", "a.json"],
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
    let files = ["--lock", "ticket", "--export", "a.csv", "--plot", "throughput=a.svg", "--plot", "latency=b.png"];
    let run = place.output(&[&SHORT[..], &files[..]].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains("Threadripper 2990WX, 64 CPUs, simulated"));
    assert_eq!(fs::read_to_string(place.path("a.csv")).unwrap().lines().count(), 3);
    let svg = fs::read_to_string(place.path("a.svg")).unwrap();
    for word in ["ticket", "lockswap 0.", "seed 1", "sim --machine amd-2990wx", "million operations per second"] {
        assert!(svg.contains(word), "{word}");
    }
    assert!(fs::read(place.path("b.png")).unwrap().starts_with(b"\x89PNG"));
}

/// The picture `WHAT` of a run with these arguments, as text, and what the run says on stderr.
fn picture(place: &Place, what: &str, args: &[&str]) -> (String, String) {
    let plot = format!("{what}=picture.svg");
    let run = place.output(&[&["sim", "--plot", &plot], args].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    (fs::read_to_string(place.path("picture.svg")).unwrap(), text(&run.stderr))
}

const OF_ALL: [&str; 5] = ["--machine", "xeon-e5-2699v3", "--workload", "kv", "--duration"];

#[test]
fn of_many_locks_the_best_five_and_the_baseline_have_names() {
    let place = Place::new();
    let (svg, _) = picture(&place, "throughput", &[&OF_ALL[..], &["100us", "--all", "--threads", "1,8"]].concat());
    assert!(svg.contains(" others") && svg.contains("\npthread\n"), "{svg}");
    let named = |lock: &str| svg.contains(&format!("\n{lock}\n"));
    let list = text(&place.output(&["list"]).stdout);
    let locks = list.lines().filter_map(|line| line.split_whitespace().next()).filter(|lock| named(lock));
    assert_eq!(locks.collect::<BTreeSet<_>>().len(), 6, "{svg}");
}

/// Six seeds are the fewest that give an interval.
#[test]
fn ratios_to_glibcs_mutex_have_an_interval_over_the_seeds() {
    let place = Place::new();
    let ratios = |locks: &str, seeds: &str| -> Vec<String> {
        let args = ["100us", "--threads", "8", "--lock", locks, "--seeds", seeds, "--format", "md"];
        let run = place.output(&[&["sim"], &OF_ALL[..], &args].concat());
        assert!(run.status.success(), "{}", text(&run.stderr));
        let shown = text(&run.stdout);
        let rows = shown
            .lines()
            .filter(|line| line.starts_with("| "))
            .map(|line| line.split(" | ").map(str::trim).collect::<Vec<_>>());
        let column = |cells: &[&str]| cells.iter().position(|cell| *cell == "to pthread");
        let rows: Vec<Vec<&str>> = rows.collect();
        let Some(column) = column(&rows[0]) else { return Vec::new() };
        rows[1..].iter().map(|row| row[column].to_owned()).collect()
    };
    let one = ratios("pthread,mcs_spin", "1");
    assert!(one[0] == "1" && one[1].parse::<f64>().is_ok_and(|ratio| ratio > 0.1), "{one:?}");
    assert!(!ratios("pthread,mcs_spin", "5")[1].contains('['));
    let six = ratios("PTHREAD,mcs-spin", "6");
    assert!(six[1].contains(" [") && six[1].ends_with(']'), "{six:?}");
    assert!(ratios("mcs_spin", "6").is_empty(), "without the baseline there is no ratio");
}

/// A window of 0 lets nobody stand back: first come, first served.
#[test]
fn a_lock_is_named_with_its_parameters() {
    let place = Place::new();
    let locks = "asl,ASL:max-window=0,asl:fifo=ticket";
    let args = ["--machine", "apple-m1", "--workload", "epochs", "--threads", "8", "--duration", "5ms"];
    let run = place.output(&[&["sim", "--lock", locks, "--format", "csv"], &args[..]].concat());
    assert!(run.status.success(), "{}", text(&run.stderr));
    let shown = text(&run.stdout);
    let fairness = |lock: &str| -> f64 {
        let row = shown.lines().map(|line| line.split(',').collect::<Vec<_>>()).find(|cells| cells[2] == lock);
        row.unwrap_or_else(|| panic!("{lock}: {shown}"))[7].parse().unwrap()
    };
    assert!(shown.starts_with("machine,workload,lock,threads,seed,ops,throughput,fairness_factor,"), "{shown}");
    assert!(fairness("asl") > fairness("asl:max-window=0") && fairness("asl-ticket") > 0.5, "{shown}");
    let wrong = place.output(&["sim", "--lock", "asl:speed=1"]);
    assert!(wrong.status.code() == Some(2) && text(&wrong.stderr).contains("no parameter 'speed'"), "{wrong:?}");
}

#[test]
fn results_go_where_they_are_wanted() {
    let place = Place::new();
    let lock = ["--lock", "pthread,ticket"];
    let files = ["a.json", "a.csv", "a.md", "a.html", "a.svg", "a.png"];
    let exports: Vec<&str> = files.iter().flat_map(|file| ["--export", file]).collect();
    let run = place.output(&[&SHORT[..], &lock, &exports].concat());
    assert!(run.status.success() && run.stderr.is_empty(), "{}", text(&run.stderr));
    let read = |file: &str| fs::read(place.path(file)).unwrap();
    for (format, file) in [("json", "a.json"), ("csv", "a.csv"), ("md", "a.md")] {
        let printed = place.output(&[&SHORT[..], &lock, &["--format", format]].concat());
        assert!(printed.stdout == read(file), "{format}: {}", text(&printed.stdout));
    }
    assert!(text(&read("a.html")).contains(">ticket</th>") && read("a.png").starts_with(b"\x89PNG"));
    assert!(text(&read("a.svg")).contains("million operations per second"));
    let old = place.output(&[&SHORT[..], &lock, &["--export-csv", "old.csv"]].concat());
    assert!(text(&old.stderr).contains("now written --export FILE.csv") && read("old.csv") == read("a.csv"));
    for (arguments, expected) in [
        (&["--export", "a.gif"][..], "end it in .json, .csv, .md, .html, .svg or .png"),
        (&["--export", "a.csv", "--export", "./a.csv"], "two exports go to ./a.csv"),
        (&["--export", "-"], "--format json"),
        (&["reproduce", "--export", "a.svg"], "end it in .json, .csv, .md or .html"),
        (&["validate", "--export", "a.svg"], "end it in .json, .csv, .md or .html"),
        (&["probe", "--format", "json"], "--out FILE.toml"),
    ] {
        let run = place.output(&[&["sim"], arguments].concat());
        assert!(run.status.code() == Some(2) && text(&run.stderr).contains(expected), "{}", text(&run.stderr));
    }
}

#[test]
fn one_number_of_threads_gives_bars_and_several_seeds_a_spread() {
    let place = Place::new();
    let args = [&OF_ALL[..], &["100us", "--threads", "8", "--seeds", "2", "--picture-width", "500"]].concat();
    let (svg, _) = picture(&place, "throughput", &args);
    assert!(svg.starts_with("<svg width=\"500\"") && svg.contains("lines from the least to the most"), "{svg}");
    assert!(svg.contains("seeds 1 to 2") && !svg.contains("<polygon"), "bars have no symbols: {svg}");
}

#[test]
fn unfairness_in_a_short_run_is_called_doubtful() {
    let place = Place::new();
    let run = |duration| {
        let args = [&OF_ALL[..], &[duration, "--locks", "cna,mcs_spin", "--threads", "16"]].concat();
        picture(&place, "fairness", &args)
    };
    let (svg, stderr) = run("1ms");
    assert!(stderr.contains("too short to judge fairness") && stderr.contains("cna (16 threads);"), "{stderr}");
    assert!(!stderr.contains("mcs_spin") && svg.contains("too short"), "{stderr}");
}

#[test]
fn times_are_drawn_with_units_and_percentiles_and_paper_can_be_dark() {
    let place = Place::new();
    let args = ["300us", "--threads", "16", "--set", "external=0,1000", "--picture-paper", "dark"];
    let (svg, _) = picture(&place, "latency", &[&OF_ALL[..], &args].concat());
    for word in ["P99", "P99.9", "10 us", "waits that are longer", "external=0", "external=1000", "#181A1E"] {
        assert!(svg.contains(word), "{word}: {svg}");
    }
}

#[test]
fn a_key_with_several_values_is_swept() {
    let place = Place::new();
    let run =
        place.output(
            &[
                &[
                    "sim",
                    "--machine",
                    "amd-2990wx",
                    "--workload",
                    "ncs",
                    "--lock",
                    "ticket,mcs_spin",
                    "--threads",
                    "16",
                ][..],
                &["--duration", "500us", "--set", "ncs=1us,10us,100us", "--export", "a.json", "--export", "a.csv"],
                &["--plot", "throughput=a.svg"],
            ]
            .concat(),
        );
    assert!(run.status.success(), "{}", text(&run.stderr));
    let shown = text(&run.stdout);
    assert!(shown.contains("ticket    ncs=10us        16"), "{shown}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(place.path("a.json")).unwrap()).unwrap();
    crate::check_schema(&json);
    let results = json["results"].as_array().unwrap();
    let pauses: Vec<_> = results.iter().map(|result| result["config"]["ncs"].as_u64().unwrap()).collect();
    assert_eq!(pauses, [1000, 10_000, 100_000, 1000, 10_000, 100_000]);
    assert!(results[0]["throughput"].as_f64() > results[2]["throughput"].as_f64());
    let csv = fs::read_to_string(place.path("a.csv")).unwrap();
    assert!(
        csv.starts_with("machine,workload,lock,threads,ncs,seed,") && csv.contains("ncs,mcs_spin,16,10000,1,"),
        "{csv}"
    );
    assert!(fs::read_to_string(place.path("a.svg")).unwrap().contains("100 us"), "values along the axis");
}

#[test]
fn wrong_arguments_are_refused_with_a_remedy() {
    let place = Place::new();
    fs::write(place.path("bad.toml"), "title = 3").unwrap();
    let m1 = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/machines/apple-m1.toml");
    let m1 = fs::read_to_string(m1).unwrap();
    fs::write(place.path("nine.toml"), m1.replace("cpus = 8", "cpus = 9")).unwrap();
    for (arguments, status, expected) in [
        (&["--machine", "cray-1"][..], 2, "there is no machine 'cray-1'"),
        (&["--machine", "./bad.toml"], 2, "./bad.toml"),
        (&["--machine", "xeon-e5-2699v4"], 2, "did you mean 'xeon-e5-2699v3'? use one of: xeon-e5-2699v3, "),
        (&["--machine", "./nine.toml"], 2, "topology.cpus is 9, but the other keys make 8 CPUs"),
        (&["--machine", "./none.toml"], 1, "cannot read the machine file ./none.toml"),
        (&["--workload", "chess"], 2, "there is no workload 'chess'"),
        (&["--workload", "epoch"], 2, "did you mean 'epochs'? use one of: counter, kv, "),
        (&["--lock", "mcs_spn"], 2, "did you mean 'mcs_spin'? 'lockswap list' shows all"),
        (&["--workload", "readers", "--lock", "mcs_spin"], 2, "there is no rwlock lock 'mcs_spin' to simulate"),
        (&["--all", "--lock", "cna"], 2, "cannot be used with"),
        (&["--lock", "pthread-adaptive"], 2, "there is no mutex lock 'pthread-adaptive' to simulate"),
        (&["--threads", "0"], 2, "0 is not in 1..=4096"),
        (&["--threads", "1,4097"], 2, "4097 is not in 1..=4096"),
        (&["--workload", "kv", "--set", "kees=1"], 2, "did you mean 'keys'? use one of: "),
        (&["--workload", "kv", "--set", "keys=0"], 2, "keys is 0, not in 1 to 100000000"),
        (&["--workload", "epochs", "--set", "slo=soon"], 2, "write a time with its unit"),
        (&["--set", "keys"], 2, "write KEY=VALUE"),
        (&["--set", "lattency.remote=9"], 2, "the machine has no key 'lattency.remote'"),
        (&["--set", "topology.cpus=5"], 2, "topology.cpus is 5, but the other keys make 72 CPUs"),
        (&["--plot", "throughput=a.gif"], 2, "ends in .svg or .png"),
        (&["--plot", "fairness=no/such/folder/a.svg"], 1, "cannot write no/such/folder/a.svg"),
        (&["--export-csv", "."], 1, "it is a directory"),
        (&["--set", "speed=1"], 2, "the workload has no key 'speed'"),
        (&["--set", "latency.remote=far"], 2, "latency.remote"),
        (&["--duration", "1h"], 2, "from 1us to 60s"),
        (&["--plot", "beauty=a.svg"], 2, "'beauty' cannot be drawn"),
        (&["--export-json", "no/such/folder/a.json"], 1, "cannot write no/such/folder/a.json"),
        (&["validate", "--lock", "ttas,nonsense"], 2, "there is no lock 'nonsense'"),
        (&["validate", "--lock", "ttas"], 2, "has fewer than two mutex locks"),
        (&["validate", "--workloads", "epochs"], 2, "there is no workload 'epochs' to validate"),
        (&["validate", "--workloads", "ncs:speed=1"], 2, "the workload has no key 'speed'"),
        (&["validate", "--machine", "cray-1"], 2, "there is no machine 'cray-1'"),
        (&["validate", "--export-md", "no/such/folder/a.md"], 1, "cannot write no/such/folder/a.md"),
        (&["probe", "--out", "no/such/folder/a.toml"], 1, "cannot write no/such/folder/a.toml"),
        (&["reproduce", "--only", "nonsense"], 2, "there is no claim whose name begins with 'nonsense'"),
    ] {
        let run = place.output(&[&["sim"], arguments].concat());
        let error = text(&run.stderr);
        assert!(run.status.code() == Some(status) && error.contains(expected), "{arguments:?}: {error}");
        assert!(run.stdout.is_empty(), "{arguments:?}");
    }
}

/// So short that nobody gets the lock: zeros and dashes, never a number that is none.
#[test]
fn no_operation_at_all_is_a_result() {
    let place = Place::new();
    let run = place.output(
        &[
            &["sim", "--workload", "epochs", "--lock", "mcs_spin", "--threads", "72", "--duration", "1us"][..],
            &["--export", "a.json", "--plot", "throughput=a.svg", "--plot", "latency=b.svg"],
        ]
        .concat(),
    );
    assert!(run.status.success(), "{}", text(&run.stderr));
    let shown = text(&run.stdout);
    assert!(shown.contains("0.000     0.500") && !shown.contains("NaN") && !shown.contains("inf"), "{shown}");
    let json: serde_json::Value = serde_json::from_slice(&fs::read(place.path("a.json")).unwrap()).unwrap();
    crate::check_schema(&json);
    assert_eq!((&json["results"][0]["ops"], &json["results"][0]["throughput"]), (&0.into(), &0.0.into()));
}

#[test]
fn four_thousand_threads_run() {
    let place = Place::new();
    let run = place.output(&[
        "sim",
        "--machine",
        "epyc-7742-2s",
        "--lock",
        "futex",
        "--threads",
        "4096",
        "--duration",
        "5ms",
    ]);
    assert!(run.status.success() && text(&run.stdout).contains(" 4096 "), "{}{}", text(&run.stdout), text(&run.stderr));
}

/// Ctrl-C: the table and the files show what was finished.
#[test]
fn an_interrupted_run_keeps_what_it_has() {
    let place = Place::new();
    // Minutes, after a beginning of milliseconds.
    let threads = (0..1000).map(|n| (1 + n % 70).to_string()).collect::<Vec<_>>().join(",");
    let arguments = ["sim", "--lock", "mcs_spin,ticket", "--threads", &threads, "--seeds", "100", "--export", "a.json"];
    let child = place.lockswap(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_for("the first result", || place.path("a.json").exists());
    send(child.id(), "-INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("interrupted"), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("mcs_spin"), "{}", text(&output.stdout));
    let json: serde_json::Value = serde_json::from_slice(&fs::read(place.path("a.json")).unwrap()).unwrap();
    crate::check_schema(&json);
    assert!(!json["results"].as_array().unwrap().is_empty());
}
