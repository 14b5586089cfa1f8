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
    let script = place.locking_script(
        "moody",
        "case \"$LOCKSWAP_LOCK\" in\n\
         ticket) echo gone wrong >&2; kill -SEGV $$;;\n\
         ttas) sleep 60;;\n\
         cna) exit 3;;\n\
         mcs_spin) exit 0;;\n\
         mcs_stp) echo rate=high; exit 0;;\n\
         esac\necho rate=5",
    );
    let locks = "ticket,ttas,cna,mcs_spin,mcs_stp,futex";
    let options = ["--lock", locks, "--runs", "8", "--timeout", "1.5s", "--metric", "rate=([0-9a-z]+)"];
    let exports = ["--export", "c.json", "--export", "c.csv", "--export", "c.md", "--export", "c.html"];
    let pictures = ["--export", "c.svg", "--export", "c.png"];
    let output = place.output(&[&["compare"][..], &options, &exports, &pictures, &["--", &script]].concat());
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "no progress where stderr is no terminal");
    let table = text(&output.stdout);
    for (lock, words) in [
        ("pthread", "the baseline"),
        ("interposed-pthread", "no difference seen"),
        ("ticket", "crashed: SIGSEGV, in all 9 runs"),
        ("ttas", "timed out after 1.5 s, in all 2 runs; left out of the rest"),
        ("cna", "exit status 3 (plain: 0), in all 9 runs"),
        ("mcs_spin", "metric not found in the output, in all 9 runs"),
        ("mcs_stp", "the metric matched 'high', which is not a number, in all 9 runs"),
        ("futex", "no difference seen"),
    ] {
        assert!(row(&table, lock).contains(words), "{lock}: {words}\n{table}");
    }
    assert!(table.contains("ticket wrote to stderr:\n    gone wrong"), "{table}");
    assert!(table.ends_with("\nNone of 6 locks is proven better than pthread.\n"), "{table}");
    let exported = json(&place, "c.json");
    assert_eq!((&exported["schema"], &exported["complete"]), (&2.into(), &true.into()));
    let names: Vec<&str> = exported["locks"].as_array().unwrap().iter().map(|l| l["lock"].as_str().unwrap()).collect();
    assert_eq!(names.join(","), format!("pthread,interposed-pthread,{locks}"));
    assert_eq!(exported["locks"][7]["samples"][4]["metrics"][0], 5.0);
    assert_eq!(exported["locks"][2]["samples"][0]["exit"]["name"], "SIGSEGV");
    assert!(exported["locks"][7]["counted"]["calls"]["mutex"]["ours"].as_u64() > Some(0));
    assert!(exported["locks"][1]["counted"]["calls"]["mutex"]["chosen"].as_u64() > Some(0));
    assert!(exported["machine"]["cpus_online"].as_u64() >= Some(1));
    let csv = std::fs::read_to_string(place.path("c.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 7 * 9 + 2);
    let read = |name: &str| String::from_utf8_lossy(&std::fs::read(place.path(name)).unwrap()).into_owned();
    assert!(read("c.md").contains("| ticket") && read("c.html").contains("crashed: SIGSEGV"));
    assert!(read("c.svg").contains("crashed: SIGSEGV") && read("c.png").contains("PNG"));
}

/// Differences far enough apart that a loaded machine does not blur them: among twelve rounds, two that were disturbed
/// by a factor of ten do not bring the interval to 1.
#[test]
fn real_differences_are_found_in_wall_time_and_in_metrics() {
    let place = Place::new();
    let script = place.locking_script(
        "graded",
        "case \"$LOCKSWAP_LOCK\" in ticket) t=0.02 m=300;; cna) t=0.3 m=50;; *) t=0.1 m=100;; esac\n\
         [ -n \"$1\" ] || sleep $t\necho m=$m; echo us=$m",
    );
    let base = ["compare", "--lock", "cna,ticket", "--runs", "12"];
    let run = |options: &[&str]| {
        let argument = if options.is_empty() { "" } else { "at-once" };
        text(&place.output(&[&base, options, &["--", &script, argument]].concat()).stdout)
    };
    let wall = run(&[]);
    assert!(row(&wall, "ticket").ends_with("x faster") && row(&wall, "cna").ends_with("x slower"), "{wall}");
    let place_of = |lock: &str| wall.lines().position(|line| line.split_whitespace().next() == Some(lock));
    assert!(place_of("ticket") < place_of("cna"), "the best comes first\n{wall}");
    assert!(wall.contains("\nticket is the best of 2 locks: ") && wall.ends_with(" in 12 fresh runs.\n"), "{wall}");
    let higher = run(&["--metric", "m=([0-9]+)", "--no-confirm"]);
    assert!(row(&higher, "ticket").contains("3.0x better") && row(&higher, "cna").contains("2.0x worse"), "{higher}");
    assert!(higher.contains("fresh runs did not confirm it"), "{higher}");
    for old in [&["--metric", "m=([0-9]+)", "--lower-is-better"][..], &["--metric", "lower:m=([0-9]+)"]] {
        let lower = run(old);
        assert!(row(&lower, "ticket").contains("3.0x worse") && row(&lower, "cna").contains("2.0x better"), "{lower}");
    }
    let both = run(&["--metric", "m=([0-9]+)", "--metric", "lower:us=(?<p99_us>[0-9]+)"]);
    let (first, second) = both.split_once("\np99_us\n").unwrap_or_else(|| panic!("no second table\n{both}"));
    assert!(row(first, "ticket").contains("3.0x better") && row(second, "ticket").contains("3.0x worse"), "{both}");
}

#[test]
fn there_is_no_verdict_where_nothing_was_replaced() {
    let place = Place::new();
    let output = place.output(&["compare", "--lock", "futex,cna", "--runs", "7", "--", "sleep", "0.01"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(
        shown.contains("No lock was replaced") && shown.contains("called none of the pthread lock functions"),
        "{shown}"
    );
    for wrong in ["ratio", "faster", "slower", "no difference"] {
        assert!(!shown.contains(wrong), "{wrong}\n{shown}");
    }
    assert!(row(&shown, "cna").ends_with("nothing was replaced"), "{shown}");
}

#[test]
fn the_baseline_is_without_us_whatever_our_own_environment_says() {
    let place = Place::new();
    let script = place.script("report", "echo \"$LOCKSWAP_LOCK|$LOCKSWAP_SPIN|${LD_PRELOAD:+preloaded}\" >> seen");
    let mut command = place.lockswap(&["compare", "--lock", "ticket", "--runs", "1", "--", &script]);
    assert!(command.env("LOCKSWAP_LOCK", "cna").env("LOCKSWAP_SPIN", "backoff").output().unwrap().status.success());
    let seen = std::fs::read_to_string(place.path("seen")).unwrap();
    let mut rounds: Vec<&str> = seen.lines().collect();
    assert_eq!(rounds.len(), 6, "one round that counts calls, and one more\n{seen}");
    rounds.sort_unstable();
    rounds.dedup();
    assert_eq!(rounds, ["interposed-pthread|pthread|preloaded", "ticket||preloaded", "||"]);
}

#[test]
fn a_parameter_is_swept() {
    let place = Place::new();
    let script = place.locking_script("scaled", "echo rate=$(($1 * ${2:-1})) with $*");
    let args = ["compare", "--lock", "futex", "--runs", "6", "--sweep", "threads=1-2", "--sweep", "size=5,7"];
    let rest = ["--metric", "rate=([0-9]+)", "--export", "c.csv", "--", &script, "{threads}", "{size}"];
    let output = place.output(&[&args[..], &rest].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    for (setting, rate) in
        [("1, size=5", "5.000"), ("1, size=7", "7.000"), ("2, size=5", "10.00"), ("2, size=7", "14.00")]
    {
        let (_, table) =
            shown.split_once(&format!("\nthreads={setting}\n")).unwrap_or_else(|| panic!("{setting}\n{shown}"));
        assert!(row(table, "futex").contains(rate), "{setting}\n{shown}");
    }
    let csv = std::fs::read_to_string(place.path("c.csv")).unwrap();
    assert!(csv.starts_with("lock,threads,size,preloaded,"), "{csv}");
    let unused = place.output(&["compare", "--sweep", "threads=1-8", "--", "true"]);
    assert_eq!(unused.status.code(), Some(2));
    assert!(text(&unused.stderr).contains("no argument of the program holds {threads}"), "{}", text(&unused.stderr));
}

#[test]
fn rwlocks_are_compared() {
    let place = Place::new();
    let script = place.locking_script("rw", "echo \"$LOCKSWAP_LOCK $LOCKSWAP_RWLOCK\" >> seen");
    let args = ["compare", "--rwlock", "rw-futex,bravo", "--runs", "1", "--", &script];
    let shown = text(&place.output(&args).stdout);
    assert!(
        row(&shown, "rw-futex").contains("too few") || row(&shown, "rw-futex").contains("nothing was replaced"),
        "{shown}"
    );
    let seen = std::fs::read_to_string(place.path("seen")).unwrap();
    let mut kinds: Vec<&str> = seen.lines().collect();
    kinds.sort_unstable();
    kinds.dedup();
    let expected = [" ", "interposed-pthread bravo", "interposed-pthread pthread", "interposed-pthread rw-futex"];
    assert_eq!(kinds, expected);
    let both = ["compare", "--lock", "futex", "--rwlock", "rw-futex,bravo", "--runs", "1", "--", &script];
    let shown = text(&place.output(&both).stdout);
    assert!(!row(&shown, "futex+bravo").is_empty() && !row(&shown, "futex+rw-futex").is_empty());
}

#[test]
fn commands_around_the_runs_input_and_output() {
    let place = Place::new();
    std::fs::write(place.path("input"), "from the file\n").unwrap();
    let script = place.locking_script("noted", "echo run >> log; cat");
    let mut args = vec!["compare", "--lock", "futex", "--runs", "1", "--input", "input", "--show-output"];
    args.extend(["--setup", "echo setup $LD_PRELOAD >> log", "--prepare", "echo prepare >> log"]);
    args.extend(["--cleanup", "echo cleanup >> log", "--name", "my server", "--", &script]);
    let output = place.output(&args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).matches("from the file\n").count(), 6);
    assert!(text(&output.stdout).contains("\nmy server\n"));
    let log = std::fs::read_to_string(place.path("log")).unwrap();
    assert_eq!(log, format!("setup\n{}cleanup\n", "prepare\nrun\n".repeat(6)));
    let missing = place.output(&["compare", "--input", "nowhere", "--", &script]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(text(&missing.stderr).contains("--input nowhere: No such file"), "{}", text(&missing.stderr));
    let failing = place.output(&["compare", "--prepare", "echo no disk; exit 9", "--", &script]);
    assert_eq!(failing.status.code(), Some(1));
    let error = text(&failing.stderr);
    assert!(error.contains("--prepare failed: exit status 9") && error.contains("no disk"), "{error}");
    assert_eq!(text(&failing.stdout), "", "nothing was measured");
}

#[test]
fn a_server_is_measured_by_its_load() {
    let place = Place::new();
    let own = env!("CARGO_BIN_EXE_lockswap");
    let server = place.script(
        "server",
        &format!("rm -f up\n'{own}' __kv --threads 1 --millis 1 > /dev/null || exit\n: > up; exec sleep 100"),
    );
    let load = "echo \"${LD_PRELOAD:-plain}\" >> seen; echo 500 req/s";
    let args = ["compare", "--lock", "futex", "--runs", "6", "--prepare", "rm -f up", "--load", load];
    let rest = ["--ready", "file:up", "--metric", "([0-9]+) req/s", "--", &server];
    let output = place.output(&[&args[..], &rest].concat());
    assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(row(&shown, "futex").contains("500.0") && row(&shown, "futex").contains("no difference seen"), "{shown}");
    let seen = std::fs::read_to_string(place.path("seen")).unwrap();
    assert_eq!(seen, "plain\n".repeat(3 * 7));
    let wrong = place.output(&["compare", "--load", ":", "--ready", "8080", "--", &server]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("port:N"), "{}", text(&wrong.stderr));
}

#[test]
fn files_are_checked_and_forms_printed() {
    let place = Place::new();
    for (exports, said) in [
        (&["x.txt"][..], ".json, .csv, .md, .html, .svg or .png"),
        (&["-"], "--format json"),
        (&["x.json", "./x.json"], "two exports go to"),
    ] {
        let options: Vec<&str> = exports.iter().flat_map(|file| ["--export", file]).collect();
        let output = place.output(&[&["compare"][..], &options, &["--", "true"]].concat());
        assert_eq!(output.status.code(), Some(2), "{exports:?}");
        assert!(text(&output.stderr).contains(said), "{}", text(&output.stderr));
    }
    let old = place.output(&["compare", "--export-json", "x.json", "--runs", "1", "--lock", "futex", "--", "true"]);
    assert!(old.status.success() && text(&old.stderr).contains("--export FILE.json"), "{}", text(&old.stderr));
    let printed = place.output(&["compare", "--format", "json", "--runs", "1", "--lock", "futex", "--", "true"]);
    let value: Value = serde_json::from_slice(&printed.stdout).unwrap();
    assert_eq!(value["command"][0], "true");
    let printed = place.output(&["compare", "--format", "csv", "--runs", "1", "--lock", "futex", "--", "true"]);
    assert!(text(&printed.stdout).starts_with("lock,preloaded,round,phase,wall_s,user_s,"));
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
    let wanted = place.output(&["compare", "--ignore-failure", "--lock", "futex", "--runs", "6", "--", &failing]);
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
    for file in ["no/such/folder/f.json", "no/such/folder/f.csv", "no/such/folder/f.svg"] {
        let output = place.output(&["compare", "--export", file, "--", &script]);
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
    let args = ["compare", "--lock", "ticket", "--export", "c.json", "--", &script];
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
    let output = place.output(&["compare", "--runs", "1", "--export", "c.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let exported = json(&place, "c.json");
    let locks = exported["locks"].as_array().unwrap();
    assert!(locks.len() >= 2 + 6);
    for lock in locks {
        assert!(lock["samples"][0]["metrics"][0].as_f64() > Some(0.0), "{lock}");
    }
    assert_eq!(exported["measures"][0]["unit"], "ops/s");
}

#[test]
fn all_compares_every_mutex_lock() {
    let place = Place::new();
    let args = ["compare", "--all", "--runs", "1", "--export", "c.json", "--", "true"];
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
        let output = place.output(&["compare", "--little", "1:3", "--lock", "asl", "--runs", "1"]);
        let shown = text(&output.stdout);
        assert!(output.status.success() && shown.contains("little CPUs 1:3") && shown.contains("asl"), "{shown}");
    }
}
