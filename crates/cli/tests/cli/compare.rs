use std::os::unix::process::CommandExt;
use std::process::Stdio;

use crate::{send, text, wait_for, Place};
use serde_json::Value;

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(place.path(name)).unwrap()).unwrap()
}

fn row<'a>(table: &'a str, lock: &str) -> &'a str {
    let found = table.lines().find(|line| line.split_whitespace().next() == Some(lock));
    found.unwrap_or_else(|| panic!("no row {lock} in\n{table}"))
}

#[test]
fn misbehaving_locks_are_reported_and_stop_nothing() {
    let place = Place::new();
    let script = place.script(
        "moody",
        "case \"$LOCKSWAP_LOCK\" in\n\
         ticket) echo gone wrong >&2; kill -SEGV $$;;\n\
         ttas) sleep 60;;\n\
         cna) exit 3;;\n\
         mcs_spin) exit 0;;\n\
         esac\necho rate=5",
    );
    let locks = "ticket,ttas,cna,mcs_spin,futex";
    let output = place.output(&[
        "compare",
        "--lock",
        locks,
        "--runs",
        "5",
        "--warmup",
        "0",
        "--timeout",
        "1.5",
        "--metric",
        "rate=([0-9]+)",
        "--export-json",
        "c.json",
        "--export-csv",
        "c.csv",
        "--export-md",
        "c.md",
        "--",
        &script,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "no progress where stderr is no terminal");
    let table = text(&output.stdout);
    for (lock, words) in [
        ("pthread", "the baseline"),
        ("interposed-pthread", "no difference seen"),
        ("ticket", "crashed: SIGSEGV, in all 5 runs"),
        ("ttas", "timed out after 1.5 s, in all 2 runs; left out of the rest"),
        ("cna", "exit status 3 (plain: 0), in all 5 runs"),
        ("mcs_spin", "metric not found in the output, in all 5 runs"),
        ("futex", "no difference seen"),
    ] {
        assert!(row(&table, lock).contains(words), "{lock}: {words}\n{table}");
    }
    assert!(table.contains("ticket wrote to stderr:\n    gone wrong"), "{table}");
    let exported = json(&place, "c.json");
    assert_eq!((&exported["schema"], &exported["complete"]), (&1.into(), &true.into()));
    let names: Vec<&str> = exported["locks"].as_array().unwrap().iter().map(|l| l["lock"].as_str().unwrap()).collect();
    assert_eq!(names, ["pthread", "interposed-pthread", "ticket", "ttas", "cna", "mcs_spin", "futex"]);
    assert_eq!(exported["locks"][6]["samples"][4]["metric"], 5.0);
    assert_eq!(exported["locks"][2]["samples"][0]["exit"]["name"], "SIGSEGV");
    assert!(exported["machine"]["cpus_online"].as_u64() >= Some(1));
    let csv = std::fs::read_to_string(place.path("c.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 6 * 5 + 2);
    assert!(std::fs::read_to_string(place.path("c.md")).unwrap().contains("| ticket"));
}

#[test]
fn real_differences_are_found_in_wall_time_and_in_metrics() {
    let place = Place::new();
    // Far enough apart that a loaded machine does not blur them.
    let script = place.script(
        "graded",
        "case \"$LOCKSWAP_LOCK\" in ticket) t=0.05 m=300;; cna) t=1 m=50;; *) t=0.3 m=100;; esac\n\
         [ -n \"$1\" ] || sleep $t\necho m=$m",
    );
    let base = ["compare", "--lock", "ticket,cna", "--runs", "5", "--warmup", "0"];
    let run = |options: &[&str]| {
        let argument = if options.is_empty() { "" } else { "at-once" };
        text(&place.output(&[&base, options, &["--", &script, argument]].concat()).stdout)
    };
    let wall = run(&[]);
    assert!(row(&wall, "ticket").ends_with("x faster") && row(&wall, "cna").ends_with("x slower"), "{wall}");
    let higher = run(&["--metric", "m=([0-9]+)"]);
    assert!(
        row(&higher, "ticket").contains("3.00x faster") && row(&higher, "cna").contains("0.50x slower"),
        "{higher}"
    );
    let lower = run(&["--metric", "m=([0-9]+)", "--lower-is-better"]);
    assert!(row(&lower, "ticket").contains("0.33x slower") && row(&lower, "cna").contains("2.00x faster"), "{lower}");
}

#[test]
fn the_baseline_is_without_us_whatever_our_own_environment_says() {
    let place = Place::new();
    let script = place.script("report", "echo \"$LOCKSWAP_LOCK|$LOCKSWAP_SPIN|${LD_PRELOAD:+preloaded}\" >> seen");
    let mut command = place.lockswap(&["compare", "--lock", "ticket", "--runs", "1", "--warmup", "0", "--", &script]);
    assert!(command.env("LOCKSWAP_LOCK", "cna").env("LOCKSWAP_SPIN", "backoff").output().unwrap().status.success());
    let seen = std::fs::read_to_string(place.path("seen")).unwrap();
    assert_eq!(seen, "||\ninterposed-pthread|pthread|preloaded\nticket||preloaded\n");
}

#[test]
fn a_program_that_fails_by_itself_is_no_baseline() {
    let place = Place::new();
    let failing = place.script("failing", "echo usage: failing >&2; exit 4");
    let output = place.output(&["compare", "--", &failing]);
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("fails without lockswap (exit status 4)") && error.contains("usage: failing"), "{error}");
    assert!(error.contains("--ignore-failure"), "{error}");
    let wanted = place.output(&["compare", "--ignore-failure", "--lock", "futex", "--runs", "5", "--", &failing]);
    assert_eq!(wanted.status.code(), Some(0), "{}", text(&wanted.stderr));
    assert_eq!(place.output(&["compare", "--", "no-such-program-anywhere"]).status.code(), Some(127));
    let file = place.path("data");
    std::fs::write(&file, "").unwrap();
    assert_eq!(place.output(&["compare", "--", file.to_str().unwrap()]).status.code(), Some(126));
    let no_metric = place.output(&["compare", "--metric", "x=([0-9]+)", "--", "true"]);
    assert_eq!(no_metric.status.code(), Some(1));
    assert!(text(&no_metric.stderr).contains("metric not found"));
}

#[test]
fn an_export_that_cannot_be_written_stops_before_anything_runs() {
    let place = Place::new();
    let script = place.script("trace", ": > ran");
    for option in ["--export-json", "--export-csv", "--export-md"] {
        let output = place.output(&["compare", option, "no/such/folder/f", "--", &script]);
        assert_eq!(output.status.code(), Some(1));
        let error = text(&output.stderr);
        assert!(error.contains("no/such/folder/f") && error.contains("remedy:"), "{error}");
        assert!(!place.path("ran").exists(), "the program ran");
    }
}

#[test]
fn an_interrupted_comparison_keeps_what_it_measured() {
    let place = Place::new();
    let script = place.script("slow", "[ \"$LOCKSWAP_LOCK\" = ticket ] || exit 0\necho $$ > pid; exec sleep 60");
    let args = ["compare", "--lock", "ticket", "--warmup", "0", "--export-json", "c.json", "--", &script];
    let mut command = place.lockswap(&args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).spawn().unwrap();
    wait_for("the slow run", || std::fs::read_to_string(place.path("pid")).is_ok_and(|p| p.ends_with('\n')));
    send(child.id(), "-INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(row(&text(&output.stdout), "ticket").contains("no runs"), "{}", text(&output.stdout));
    let exported = json(&place, "c.json");
    assert_eq!(exported["complete"], false);
    assert_eq!(exported["locks"][1]["samples"].as_array().unwrap().len(), 1);
    let pid = std::fs::read_to_string(place.path("pid")).unwrap();
    let state = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    assert!(state.is_empty() || state.contains(") Z"), "the program still runs");
}

#[test]
fn the_built_in_workload_needs_no_program() {
    let place = Place::new();
    let output = place.output(&["compare", "--runs", "1", "--warmup", "0", "--export-json", "c.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let exported = json(&place, "c.json");
    let locks = exported["locks"].as_array().unwrap();
    assert!(locks.len() >= 2 + 6);
    for lock in locks {
        assert!(lock["samples"][0]["metric"].as_f64() > Some(0.0), "{lock}");
    }
    assert_eq!(exported["measure"]["unit"], "ops/s");
}

#[test]
fn all_compares_every_mutex_lock() {
    let place = Place::new();
    let args = ["compare", "--all", "--runs", "1", "--warmup", "0", "--export-json", "c.json", "--", "true"];
    assert!(place.output(&args).status.success());
    let compared = json(&place, "c.json")["locks"].as_array().unwrap().len();
    let listed: Value = serde_json::from_slice(&place.output(&["list", "--json"]).stdout).unwrap();
    assert_eq!(compared, listed.as_array().unwrap().iter().filter(|l| l["role"] == "mutex").count());
}

#[test]
fn the_built_in_workload_runs_on_slower_cpus_and_refuses_those_that_do_not_exist() {
    let place = Place::new();
    for (little, said) in [("4000:3", "no CPU 4000"), ("1", "CPUS:FACTOR"), ("0:0", "above 1")] {
        let output = place.output(&["compare", "--little", little]);
        assert_eq!(output.status.code(), Some(2), "{little}");
        assert!(text(&output.stderr).contains(said) && output.stdout.is_empty(), "{}", text(&output.stderr));
    }
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1) {
        let output = place.output(&["compare", "--little", "1:3", "--lock", "asl", "--runs", "1", "--warmup", "0"]);
        let shown = text(&output.stdout);
        assert!(output.status.success() && shown.contains("little CPUs 1:3") && shown.contains("asl"), "{shown}");
    }
}
