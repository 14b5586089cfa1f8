use crate::{text, Place};
use serde_json::Value;

/// Gives the standard output and the exported file of one round.
fn bench(args: &[&str]) -> (String, Value) {
    let place = Place::new();
    let output = place.output(&[&["bench", "--runs", "1", "--export", "bench.json"], args].concat());
    assert!(output.status.success(), "{args:?}: {}{}", text(&output.stdout), text(&output.stderr));
    let exported = std::fs::read(place.path("bench.json")).unwrap();
    (text(&output.stdout), serde_json::from_slice(&exported).unwrap())
}

/// The results of a workload, each with what every result has.
fn results(exported: &Value) -> &[Value] {
    crate::check_schema(exported);
    assert_eq!((&exported["simulated"], &exported["machine"]["id"]), (&Value::from(false), &Value::from("here")));
    let results = exported["results"].as_array().unwrap();
    for result in results {
        assert_eq!(result["workload"], exported["workload"]["name"], "{result}");
        let threads = result["threads"].as_u64().unwrap() as usize;
        assert!(result["throughput"].as_f64().is_some_and(|rate| rate > 0.0), "{result}");
        assert!(result["fairness_factor"].as_f64().is_some_and(|share| (0.5..=1.0).contains(&share)), "{result}");
        assert!(["lock", "workload"].iter().all(|key| result[key].is_string()), "{result}");
        let rounds = result["rounds"].as_array().unwrap();
        assert_eq!((rounds.len(), rounds[0]["per_thread"].as_array().unwrap().len()), (1, threads), "{result}");
    }
    results
}

fn locks(results: &[Value]) -> Vec<&str> {
    results.iter().map(|result| result["lock"].as_str().unwrap()).collect()
}

#[test]
fn oversub_measures_the_longest_wait_of_each_lock() {
    let (shown, exported) = bench(&["oversub", "--lock", "futex", "--threads", "5", "--duration", "250ms"]);
    assert!(shown.contains("5 threads, each") && shown.contains("interposed-pthread"), "{shown}");
    let results = results(&exported);
    assert_eq!(locks(results), ["pthread", "interposed-pthread", "futex"]);
    for result in results {
        assert!(result["latency"]["all"]["max_ns"].as_u64().is_some_and(|ns| ns > 0), "{result}");
        assert_eq!(result["config"]["threads"], 5);
    }
}

#[test]
fn oversub_takes_rwlocks_too() {
    let (shown, exported) = bench(&["oversub", "--rwlock", "bravo", "--threads", "5", "--duration", "250ms"]);
    assert!(shown.contains("5 threads, 90 % of the operations read"), "{shown}");
    let results = results(&exported);
    assert_eq!(locks(results), ["pthread", "interposed-pthread", "bravo"]);
    assert!(results.iter().all(|result| result["config"]["reads"] == 90));
}

/// Glibc's own lock, one that a mutex holds, and one outside of it.
#[test]
fn profile_measures_each_lock_twice() {
    let (shown, exported) = bench(&["profile", "--lock", "futex,hmcs"]);
    assert!(
        shown.contains("of 3 locks within 3 %") && shown.contains("of 3 locks take at most 2.0 ns more"),
        "{shown}"
    );
    let locks = exported["locks"].as_array().unwrap();
    let forms: Vec<_> =
        locks.iter().map(|lock| (lock["id"].as_str().unwrap(), lock["variant"].as_str().unwrap())).collect();
    let expected = ["interposed-pthread", "futex", "hmcs"].map(|lock| [(lock, ""), (lock, "profile")]);
    assert_eq!(forms, expected.concat());
    let is_measured = |lock: &Value| ["kv", "uncontended"].iter().all(|id| lock["rounds"][0][id].as_f64() > Some(0.0));
    assert!(locks.iter().all(|lock| is_measured(lock) && lock["failure"].is_null()), "{exported:#}");
}

/// With and without a context that lives from acquisition to release.
#[test]
fn direct_measures_each_lock_twice() {
    let (shown, exported) = bench(&["direct", "--lock", "ttas,clh_spin"]);
    assert!(shown.contains("of 2 locks within 5 %"), "{shown}");
    let locks = exported["locks"].as_array().unwrap();
    let forms: Vec<_> = locks.iter().map(|lock| (lock["id"].as_str().unwrap(), lock["directly"] == true)).collect();
    assert_eq!(forms, [("ttas", true), ("ttas", false), ("clh_spin", true), ("clh_spin", false)]);
    for lock in locks {
        for id in ["kv", "uncontended"] {
            assert!(lock["rounds"][0][id].as_f64().is_some_and(|ns| ns > 0.0), "{lock}");
        }
    }
}

/// How fast it is depends on who else runs; what was run does not.
#[test]
fn the_simulator_is_measured_next_to_its_targets() {
    let (shown, exported) = bench(&["simulator", "--targets"]);
    assert!(shown.contains(">= 10 M") && shown.contains("of 8 targets reached"), "{shown}");
    let runs = exported["runs"].as_array().unwrap();
    let threads: Vec<_> = runs.iter().map(|run| run["threads"].as_u64().unwrap()).collect();
    assert_eq!(threads, [72, 72, 72, 72, 72, 192, 192, 4095]);
    for run in runs {
        // Every thread has the lock at least once: to take it, to count, to give it back.
        let least = 4 * run["threads"].as_u64().unwrap();
        assert!(run["memory_operations"].as_u64().is_some_and(|count| count > least), "{run}");
        assert!(run["cpu_seconds"][0].as_f64().is_some_and(|seconds| seconds > 0.0), "{run}");
    }
}

#[test]
fn a_part_without_a_name_is_both_micro_parts() {
    let (shown, exported) = bench(&["--lock", "futex"]);
    assert!(shown.contains("trylock") && shown.contains("cond 2 CPUs"), "{shown}");
    assert_eq!(exported["part"], Value::Null);
}

#[test]
fn ncs_reports_hand_over_and_contention_time() {
    let (shown, exported) = bench(&["ncs", "--lock", "futex", "--ncs", "0,2us", "--duration", "250ms"]);
    assert!(shown.contains("hand-over") && shown.contains("2.0 us"), "{shown}");
    let results = results(&exported);
    // Three locks, two lengths, with the shared array and without.
    assert_eq!(results.len(), 12);
    for result in results {
        assert!(result["handoffs"]["count"].is_u64() && result["round_ns"].is_f64(), "{result}");
        assert!(result["waiters"].as_f64().is_some_and(|waiters| (0.0..=2.0).contains(&waiters)), "{result}");
    }
    let settings: Vec<_> =
        results.iter().map(|r| (r["config"]["ncs"].as_u64(), r["config"]["lines"].as_u64())).collect();
    // The locks of a setting, then the same with an empty critical section.
    assert_eq!(
        (settings[2], settings[3], settings[6]),
        ((Some(0), Some(2)), (Some(0), Some(0)), (Some(2000), Some(2)))
    );
    for result in results {
        let is_compared = result["config"]["lines"] == 2;
        assert_eq!(result["compared"].is_object(), is_compared, "{result}");
    }
}

#[test]
fn epochs_show_targets_by_the_kind_of_cpu() {
    let slower = ["--little", "1:3", "--slo", "100us,1ms", "--duration", "250ms"];
    let place = Place::new();
    if !std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        let output = place.output(&[&["bench", "epochs"], &slower[..]].concat());
        assert!(text(&output.stderr).contains("no CPU 1"));
        return;
    }
    let (shown, exported) = bench(&[&["epochs", "--lock", "asl,futex"], &slower[..]].concat());
    assert!(shown.contains("P99/SLO") && shown.contains("1 lock, sections of 4, 10, 20, 30 lines"), "{shown}");
    let results = results(&exported);
    assert_eq!(locks(results), ["mcs_spin", "asl", "asl", "asl", "futex"]);
    let targets: Vec<_> = results.iter().map(|result| result["config"]["slo"].as_u64()).collect();
    assert_eq!(targets, [None, None, Some(100_000), Some(1_000_000), None]);
    for result in results {
        assert_eq!(result["little"], "1:3");
        assert_eq!(result["little_p99_to_slo"].is_f64(), result["config"]["slo"].is_u64(), "{result}");
        for kind in ["all", "big", "little"] {
            assert!(result["latency"][kind]["p99_ns"].is_u64(), "{kind}: {result}");
        }
        let kinds: Vec<_> = result["rounds"][0]["per_thread"].as_array().unwrap().iter().map(|t| &t["kind"]).collect();
        assert_eq!(kinds, ["big", "little"]);
    }
}

#[test]
fn the_papers_other_epochs_run() {
    let (shown, exported) = bench(&["epochs", "--bench", "3", "--long", "50", "--lock", "asl", "--duration", "250ms"]);
    assert!(shown.contains("50 % long") && shown.contains("no CPU is declared slower"), "{shown}");
    assert!(results(&exported).iter().all(|result| result["latency"]["short"]["count"].is_u64()));
    let (shown, exported) = bench(&["epochs-contention", "--between", "10", "--lock", "asl", "--duration", "250ms"]);
    assert!(shown.contains("10 steps between") && shown.contains("sections of 2 lines"), "{shown}");
    assert!(results(&exported).iter().all(|result| result["workload"] == "epochs-contention"));
    let (shown, exported) = bench(&["epochs-scalability", "--threads", "2", "--lock", "asl", "--set", "slo=12us"]);
    assert!(shown.contains("sections of 64 lines"), "{shown}");
    let targets: Vec<_> = results(&exported).iter().map(|result| result["config"]["slo"].as_u64()).collect();
    assert_eq!((targets, &exported["settings"][0]), (vec![Some(12_000); 2], &Value::from("slo=12us")));
}

#[test]
fn counter_and_kv_report_fairness_over_threads() {
    let (shown, exported) =
        bench(&["counter", "--threads", "1,2", "--handoffs", "--lock", "ttas", "--duration", "250ms", "--pin"]);
    assert!(shown.contains("Jain") && shown.contains("in LLC"), "{shown}");
    let counted = results(&exported);
    assert_eq!(counted.len(), 6);
    let share = |result: &Value, of: &str| result["handoffs"][of].as_f64().unwrap();
    assert!(counted.iter().all(|result| share(result, "within_core") <= share(result, "within_node")));
    let (_, exported) = bench(&["kv", "--lock", "ttas", "--updates", "100", "--duration", "250ms"]);
    assert!(results(&exported).iter().all(|result| result["config"]["updates"] == 100));
}

#[test]
fn shares_of_lock_time_add_up() {
    let lengths = ["shares", "--lock", "u-scl", "--set", "lengths=20us,2us", "--set", "nice=0,5"];
    let (shown, exported) = bench(&[&lengths[..], &["--duration", "250ms"]].concat());
    assert!(shown.contains("20us nice 0") && shown.contains("Jain"), "{shown}");
    for result in results(&exported) {
        let time = &result["lock_time"];
        let share = |class: &str| time["shares"][class].as_f64().unwrap();
        assert!((share("20us nice 0") + share("2us nice 5") - 1.0).abs() < 0.1, "medians of shares: {time}");
        assert!((0.5..=1.0).contains(&time["jain"].as_f64().unwrap()), "two threads: {time}");
        assert!((0.0..1.01).contains(&time["held"].as_f64().unwrap()), "{time}");
    }
    let (shown, _) = bench(&["shares-store", "--threads", "2,4", "--lock", "futex", "--duration", "250ms"]);
    assert!(shown.contains("6us") && shown.contains("1us"), "{shown}");
}

#[test]
fn readers_report_reads_and_writes_apart() {
    let (shown, exported) = bench(&["readers", "--rwlock", "rw-futex", "--reads", "50,100", "--duration", "250ms"]);
    assert!(shown.contains("read P50") && shown.contains("100 %"), "{shown}");
    let results = results(&exported);
    assert_eq!(results.len(), 6);
    let count = |result: &Value, class: &str| result["latency"][class]["count"].as_u64().unwrap();
    for result in results {
        let all = count(result, "read") + count(result, "write");
        assert_eq!(all, count(result, "all"));
        assert_eq!(result["config"]["reads"] == 100, count(result, "write") == 0, "{result}");
    }
}

/// One clear line, nothing measured, nothing written.
#[test]
fn bad_input_is_refused_in_one_line() {
    let place = Place::new();
    for (args, said) in [
        (&["epochs", "--little", "9999:3"][..], "CPU"),
        (&["epochs", "--little", "4000:3"], "no CPU 4000"),
        (&["epochs", "--little", "0-4095:3"], "no CPU"),
        (&["epochs", "--little", "1"], "CPUS:FACTOR"),
        (&["epochs", "--little", "1:0.5"], "above 1"),
        (&["epochs", "--slo", "50"], "unit"),
        (&["epochs", "--long", "20"], "epochs-mixed --long"),
        (&["epochs-mixed", "--bench", "5"], "--bench says epochs-contention, and the name epochs-mixed"),
        (&["kv", "--set", "keys=0"], "keys is 0, not in 1 to 100000000"),
        (&["kv", "--set", "kees=9"], "did you mean 'keys'?"),
        (&["kv", "--set", "keys"], "write KEY=VALUE"),
        (&["kv", "--set", "keys=64,x"], "keys"),
        (&["kv", "--export", "out.xml"], "end it in .json, .csv, .md, .html, .svg or .png"),
        (&["kv", "--lock", "mcs_spni"], "did you mean 'mcs_spin'?"),
        (&["counter", "--inside", "99999999999"], "inside is 99999999999, not in 0 to"),
        (&["epochs", "--bench", "7"], "7"),
        (&["ncs", "--ncs", "fast"], "unit"),
        (&["ncs", "--threads", "0"], "0"),
        (&["kv", "--updates", "101"], "percentage"),
        (&["kv", "--lock", "nonsense"], "no mutex lock 'nonsense'"),
        (&["readers", "--lock", "futex"], "--rwlock"),
        (&["simulator", "--lock", "futex"], "locks of its own"),
        (&["readers", "--rwlock", "futex"], "no rwlock lock 'futex'"),
        (&["oversub", "--rwlock", "bravo", "--lock", "futex"], "write one of them"),
        (&["counter", "--duration", "0"], "above 0"),
    ] {
        let output = place.output(&[&["bench", "--export", "out.json"], args].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(said) && output.stdout.is_empty(), "{args:?}: {error}");
        assert!(!place.path("out.json").exists(), "{args:?}");
    }
    let output = place.output(&["bench", "kv", "--export", "no/such/folder/x.json"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("nothing was measured"), "{}", text(&output.stderr));
}

/// The direction of every ratio: a lock that takes half the time is twice as fast, whatever is measured.
#[test]
fn ratios_are_judged_as_those_of_compare_and_above_one_is_better() {
    let place = Place::new();
    let args = ["bench", "oversub", "--lock", "futex", "--threads", "2", "--duration", "200ms", "--runs"];
    let run = |runs: &str| {
        let output = place.output(&[&args[..], &[runs, "--export", "a.json", "--seed", "5"]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let exported: Value = serde_json::from_slice(&std::fs::read(place.path("a.json")).unwrap()).unwrap();
        crate::check_schema(&exported);
        (text(&output.stdout), exported)
    };
    let (shown, few) = run("3");
    assert!(shown.contains("above 1 is better") && shown.contains("too few runs (at least 6)"), "{shown}");
    assert!(!shown.contains("below 1") && shown.contains("seed 5"), "{shown}");
    let futex = &few["results"][2]["compared"];
    assert_eq!((&futex["judgement"], &futex["low"]), (&Value::from("too_few"), &Value::Null));
    let (shown, enough) = run("6");
    let [base, _, futex] = enough["results"].as_array().unwrap().as_slice() else { panic!("{shown}") };
    assert_eq!((&base["compared"]["judgement"], &base["compared"]["ratio"]), (&Value::from("baseline"), &Value::Null));
    let number = |name: &str| futex["compared"][name].as_f64().unwrap_or_else(|| panic!("{name}: {futex}"));
    let [ratio, low, high] = ["ratio", "low", "high"].map(number);
    assert!(low <= ratio && ratio <= high && (0.0..=1.0).contains(&number("p")), "{futex}");
    let rates = |result: &Value| -> Vec<f64> {
        result["rounds"].as_array().unwrap().iter().map(|round| round["throughput"].as_f64().unwrap()).collect()
    };
    let of_rounds: Vec<f64> = rates(futex).iter().zip(rates(base)).map(|(own, base)| own / base).collect();
    let least = of_rounds.iter().copied().fold(f64::INFINITY, f64::min);
    let most = of_rounds.iter().copied().fold(0.0, f64::max);
    assert!((least * 0.999..=most * 1.001).contains(&ratio), "{ratio} of {of_rounds:?}");
}

#[test]
fn results_leave_in_every_form() {
    let place = Place::new();
    let kv = ["bench", "kv", "--lock", "ttas", "--runs", "2", "--duration", "60ms"];
    let names = ["a.json", "a.csv", "a.md", "a.html", "a.svg", "a.png"];
    let exports: Vec<&str> = names.iter().flat_map(|name| ["--export", name]).collect();
    let output = place.output(&[&kv[..], &exports].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let read = |name: &str| std::fs::read(place.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let csv = text(&read("a.csv"));
    assert!(csv.starts_with("lock,") && csv.lines().count() == 7, "{csv}");
    let markdown = text(&read("a.md"));
    assert!(markdown.contains("| threads | lock ") && markdown.contains("| ttas "), "{markdown}");
    assert!(text(&read("a.html")).contains("<td>ttas</td>"));
    let picture = text(&read("a.svg"));
    assert!(picture.contains("times as fast as pthread (above 1 is better)") && picture.contains("ttas"), "{picture}");
    assert!(read("a.png").starts_with(b"\x89PNG"));
    for (form, begin) in [("json", "{"), ("csv", "lock,"), ("md", "`lockswap bench kv`")] {
        let printed = text(&place.output(&[&kv[..], &["--format", form]].concat()).stdout);
        assert!(printed.starts_with(begin), "{form}: {printed}");
    }
    for part in [&["contended", "--lock", "ttas"][..], &["direct", "--lock", "ttas"], &["simulator"]] {
        let output = place.output(&[&["bench", "--runs", "1"], part, &exports].concat());
        assert!(output.status.success(), "{part:?}: {}", text(&output.stderr));
        assert!(read("a.png").starts_with(b"\x89PNG") && text(&read("a.csv")).starts_with("lock,"), "{part:?}");
    }
}

#[test]
fn the_old_spelling_of_an_export_works_and_tells_the_new_one() {
    let place = Place::new();
    let kv = ["bench", "kv", "--lock", "ttas", "--runs", "1", "--duration", "60ms", "--export-json", "old.json"];
    let output = place.output(&kv);
    assert_eq!(text(&output.stderr), "note: --export-json FILE is now written --export FILE.json\n");
    assert!(place.path("old.json").exists());
}

#[test]
fn lists_of_values_are_settings_of_their_own() {
    let (shown, exported) = bench(&[
        "kv",
        "--lock",
        "ttas",
        "--duration",
        "60ms",
        "--threads",
        "1,2",
        "--set",
        "keys=64,4096",
        "--set",
        "updates=50",
    ]);
    let results = results(&exported);
    let settings: Vec<_> =
        results.iter().map(|r| (r["config"]["threads"].as_u64(), r["config"]["keys"].as_u64())).collect();
    let expected = [(1, 64), (1, 4096), (2, 64), (2, 4096)].map(|(threads, keys)| (Some(threads), Some(keys)));
    assert_eq!(settings.iter().step_by(3).copied().collect::<Vec<_>>(), expected);
    assert_eq!((&exported["settings"][0], &exported["settings"][1]), (&"keys=64,4096".into(), &"updates=50".into()));
    let heading: Vec<&str> = shown.split_whitespace().take(4).collect();
    assert_eq!(heading, ["threads", "keys", "lock", "throughput"], "{shown}");
    let (_, exported) = bench(&["ncs", "--lock", "ttas", "--duration", "60ms", "--ncs", "0", "--set", "lines=1,2"]);
    assert_eq!(self::results(&exported).len(), 2 * 2 * 3);
}

#[test]
fn a_lock_with_parameters_is_measured() {
    let (_, exported) = bench(&["kv", "--lock", "asl:max-window=500us", "--duration", "250ms"]);
    assert_eq!(locks(results(&exported))[2], "asl:max-window=500us");
}
