use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Stdio;

use crate::{make_executable, send, text, wait_for, Place};
use serde_json::Value;

/// The options that make lockswap stay: the program must not notice the difference.
const WAYS: [&[&str]; 2] = [&["run", "--lock", "ticket"], &["run", "--lock", "ticket", "--summary"]];

fn in_shell(way: &[&'static str], script: &'static str) -> Vec<&'static str> {
    [way, &["--", "/bin/sh", "-c", script]].concat()
}

#[test]
fn the_exit_status_passes_through() {
    let place = Place::new();
    for way in WAYS {
        for (script, status) in [("exit 0", 0), ("exit 7", 7), ("exit 255", 255)] {
            let output = place.output(&in_shell(way, script));
            assert_eq!(output.status.code(), Some(status), "{way:?} {script}: {}", text(&output.stderr));
        }
    }
}

#[test]
fn a_killing_signal_passes_through() {
    let place = Place::new();
    for way in WAYS {
        for (script, signal) in
            [("kill -TERM $$", 15), ("kill -KILL $$", 9), ("kill -SEGV $$", 11), ("kill -PIPE $$", 13)]
        {
            let output = place.output(&in_shell(way, script));
            assert_eq!(output.status.signal(), Some(signal), "{way:?} {script}");
        }
    }
}

#[test]
fn input_and_output_are_untouched() {
    let place = Place::new();
    for way in WAYS {
        let mut command = place.lockswap(&in_shell(way, "cat; echo to-stderr >&2"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"through\0\xff").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.stdout, b"through\0\xff");
        assert!(text(&output.stderr).starts_with("to-stderr\n"));
    }
    let quiet = place.output(&in_shell(WAYS[0], "echo to-stderr >&2"));
    assert_eq!(text(&quiet.stderr), "to-stderr\n");
}

#[test]
fn without_a_summary_the_program_takes_our_place() {
    let place = Place::new();
    let mut command = place.lockswap(&in_shell(WAYS[0], "echo $$"));
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    let pid = child.id();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout).trim(), pid.to_string());
}

#[test]
fn the_environment_selects_the_locks() {
    let place = Place::new();
    let script = "echo \"$LD_PRELOAD|$LOCKSWAP_LOCK|$LOCKSWAP_RWLOCK|$LOCKSWAP_SPIN\"";
    let of = |args: &[&str], preload: &str| {
        let args = [&["run"], args, &["--", "/bin/sh", "-c", script]].concat();
        text(&place.lockswap(&args).env("LD_PRELOAD", preload).output().unwrap().stdout).trim().to_owned()
    };
    let library = |lock: &[&str]| text(&place.output(&[&["preload-path"], lock].concat()).stdout).trim().to_owned();
    let (any, ticket, cna) = (library(&[]), library(&["--lock", "ticket"]), library(&["--lock", "cna"]));
    assert_eq!(of(&["--lock", "ticket"], ""), format!("{ticket}|ticket||"));
    let all = ["--lock", "cna", "--rwlock", "pthread", "--spin", "backoff"];
    assert_eq!(of(&all, ""), format!("{cna}|cna|pthread|backoff"));
    let libc = "libc.so.6";
    assert_eq!(of(&["--lock", "ticket"], libc), format!("{ticket}:{libc}|ticket||"), "what was preloaded stays");
    for ours in [&any, &ticket, &cna] {
        assert_eq!(of(&["--lock", "ticket"], ours), format!("{ticket}|ticket||"), "but not twice ours");
    }
    assert_eq!(of(&["--lock", "pthread"], libc), format!("{libc}|||"), "the baseline is without us");
    assert_eq!(of(&["--lock", "pthread", "--rwlock", "rw-futex"], ""), format!("{any}|pthread|rw-futex|"));
}

#[test]
fn what_cannot_be_started_ends_as_in_a_shell() {
    let place = Place::new();
    let plain = place.path("not-executable");
    std::fs::write(&plain, "x").unwrap();
    for way in WAYS {
        let missing = place.output(&[way, &["--", "no-such-program-anywhere"]].concat());
        assert_eq!(missing.status.code(), Some(127), "{way:?}");
        let error = text(&missing.stderr);
        assert!(error.contains("no-such-program-anywhere: not found") && error.contains("remedy:"), "{error}");
        let refused = place.output(&[way, &["--", plain.to_str().unwrap()]].concat());
        assert_eq!(refused.status.code(), Some(126), "{way:?}");
    }
}

#[test]
fn scripts_without_an_interpreter_line_run_either_way() {
    let place = Place::new();
    let path = place.path("bare");
    std::fs::write(&path, "exit 5\n").unwrap();
    make_executable(&path, 0o755);
    for way in WAYS {
        assert_eq!(place.output(&[way, &["--", path.to_str().unwrap()]].concat()).status.code(), Some(5), "{way:?}");
    }
}

#[test]
fn an_unknown_lock_is_refused_before_the_program_starts() {
    let place = Place::new();
    for option in ["--lock", "--rwlock", "--spin"] {
        let output = place.output(&["run", option, "nonsense", "--", "sh", "-c", "echo ran"]);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stdout), "", "the program must not start");
        let error = text(&output.stderr);
        assert!(error.contains("'nonsense'") && error.contains("'lockswap list' shows all"), "{error}");
    }
}

#[test]
fn a_machine_that_is_declared_wrongly_stops_the_program() {
    let place = Place::new();
    let run = |name: &str, value: &str| {
        place.lockswap(&["run", "--lock", "ticket", "--", "sh", "-c", "echo ran"]).env(name, value).output().unwrap()
    };
    for (name, good, example, bad) in [
        ("LOCKSWAP_TOPOLOGY", "2x1", "2x1", &["2x", "0x1", "nonsense"][..]),
        ("LOCKSWAP_ROUTE", "1,0", "0-3,8", &["0,x", "3-1", "4096"]),
        ("LOCKSWAP_BIG", "0", "0-3,8", &["all", "0-", ","]),
        ("LOCKSWAP_SLO", "5=50us,-7=0", "5=50us", &["5=50", "5", "5=50us,", "5=2h"]),
        ("LOCKSWAP_ASL_MAX_WINDOW", "1.5ms", "100ms", &["1.5", "ms", "-1ms"]),
        ("LOCKSWAP_LEVEL", "llc", "node llc core-kind", &["nodes", "LLC", "llc,node"]),
    ] {
        assert_eq!(text(&run(name, good).stdout), "ran\n", "{name}={good}");
        for value in bad {
            let output = run(name, value);
            assert_eq!(output.status.code(), Some(127), "{name}={value}");
            assert_eq!(text(&output.stdout), "", "the program must not start");
            let error = text(&output.stderr);
            assert!(error.contains(&format!("{name}={value}")) && error.contains(example), "{error}");
        }
    }
}

#[test]
fn windows_and_targets_reach_the_program_through_its_environment() {
    let place = Place::new();
    let of = |args: &[&str]| {
        let script = "echo \"$LOCKSWAP_LOCK|$LOCKSWAP_SLO|$LOCKSWAP_ASL_MAX_WINDOW\"";
        let args = [&["run"], args, &["--", "/bin/sh", "-c", script]].concat();
        text(&place.lockswap(&args).env("LOCKSWAP_SLO", "9=1s").output().unwrap().stdout).trim().to_owned()
    };
    assert_eq!(of(&["--lock", "asl"]), "asl|9=1s|");
    let all = ["--lock", "asl", "--asl-fifo", "futex", "--slo", "5=50us", "--slo=-6=0", "--asl-max-window", "1.5ms"];
    let both = "asl-blocking:max-window=1500us|9=1s,5=50us,-6=0ns|";
    assert_eq!(of(&all), both, "as it was written");
    let lock = "asl:max-window=1500us:fifo=futex";
    assert_eq!(of(&["--lock", lock, "--slo", "5=50us", "--slo=-6=0"]), both);
}

#[test]
fn statistics_have_the_promised_shape() {
    let place = Place::new();
    let args = ["run", "--lock", "mcs_spin", "--stats-json", "s.json", "--", "sh", "-c", "exit 3"];
    let output = place.output(&args);
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(text(&output.stderr), "", "--stats-json alone prints nothing");
    let stats: Value = serde_json::from_slice(&std::fs::read(place.path("s.json")).unwrap()).unwrap();
    assert_eq!((&stats["schema"], &stats["lock"]), (&1.into(), &"mcs_spin".into()));
    for (group, keys) in [
        ("replaced", &["mutex", "cond", "rwlock", "spin"][..]),
        ("passed_through", &["robust", "pi", "protect", "pshared"]),
    ] {
        let object = stats[group].as_object().unwrap();
        assert_eq!(object.len(), keys.len());
        assert!(keys.iter().all(|k| object[*k].is_u64()), "{object:?}");
    }
    assert!(stats["processes"].as_u64() >= Some(1), "the library did not count its process: {stats}");
    assert!(stats["threads_seen"].as_u64() >= Some(1), "{stats}");
}

#[test]
fn the_summary_tells_a_baseline_from_a_lock() {
    let place = Place::new();
    let swapped = text(&place.output(&["run", "--lock", "ticket", "--summary", "--", "true"]).stderr);
    assert!(swapped.contains("on ticket") && swapped.contains("passed through"), "{swapped}");
    let plain = text(&place.output(&["run", "--lock", "pthread", "--summary", "--", "true"]).stderr);
    assert!(plain.contains("not preloaded"), "{plain}");
    for id in ["interposed-pthread", "pthreadadapt"] {
        let text = text(&place.output(&["run", "--lock", id, "--summary", "--", "true"]).stderr);
        assert!(text.contains(&format!("on {id}")) && text.contains("rwlocks on pthread,"), "{text}");
    }
}

#[test]
fn a_statistics_file_that_cannot_be_written_stops_before_the_program_starts() {
    let place = Place::new();
    let output = place.output(&["run", "--stats-json", "no/such/folder/s.json", "--", "sh", "-c", "echo ran"]);
    assert_eq!(output.status.code(), Some(125));
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("no/such/folder"));
}

/// Places for the counters, each of which a shell can mount anything over.
const COUNTER_FOLDERS: &str = "for dir in tmp /dev/shm; do mount -t tmpfs -o OPTIONS tmpfs $dir; done";

#[test]
fn a_program_runs_where_nothing_can_be_counted() {
    let place = Place::new();
    std::fs::create_dir(place.path("tmp")).unwrap();
    assert!(place.output(&["preload-path"]).status.success());
    for (options, fill) in [("ro", ""), ("size=4k", "\nfor dir in tmp /dev/shm; do echo > $dir/x; done")] {
        let mounts = COUNTER_FOLDERS.replace("OPTIONS", options) + fill;
        let args =
            ["run", "--lock", "mcs_spin", "--summary", "--stats-json", "s.json", "--", "sh", "-c", "echo ran; exit 7"];
        let Some(mut command) = place.lockswap_with_mounts(&mounts, &args) else { return };
        let output = command.env("TMPDIR", place.path("tmp")).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(7), "ran\n"), "{options}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.starts_with("lockswap: the program runs, but what is replaced cannot be counted: "), "{error}");
        let stats: Value = serde_json::from_slice(&std::fs::read(place.path("s.json")).unwrap()).unwrap();
        assert!(stats["schema"] == 1 && stats["not_counted"].is_string(), "{stats}");
    }
}

#[test]
fn a_full_folder_for_temporary_files_does_not_keep_us_from_counting() {
    let place = Place::new();
    std::fs::create_dir(place.path("tmp")).unwrap();
    assert!(place.output(&["preload-path"]).status.success());
    let full = "mount -t tmpfs -o size=4k tmpfs tmp; echo > tmp/x";
    let little = COUNTER_FOLDERS.replace("OPTIONS", "size=64k");
    for (mounts, note) in [(full, false), (little.as_str(), true)] {
        let args = ["run", "--lock", "mcs_spin", "--summary", "--", "true"];
        let Some(mut command) = place.lockswap_with_mounts(mounts, &args) else { return };
        let output = command.env("TMPDIR", place.path("tmp")).output().unwrap();
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{error}");
        assert!(error.contains("on mcs_spin") && error.contains("in 1 process"), "{error}");
        assert_eq!(error.contains("latencies of epochs cannot be recorded"), note, "{error}");
    }
}

#[test]
fn signals_sent_to_us_reach_the_program_once() {
    let place = Place::new();
    let script = place.script(
        "trapping",
        "trap 'echo one >> got' TERM HUP INT USR1\n: > ready\nwhile ! [ -e stop ]; do sleep 0.02; done\nexit 9",
    );
    for signal in ["-TERM", "-HUP", "-INT", "-USR1"] {
        for name in ["got", "ready", "stop"] {
            let _ = std::fs::remove_file(place.path(name));
        }
        let mut child = place.lockswap(&["run", "--summary", "--", &script]).stderr(Stdio::null()).spawn().unwrap();
        wait_for("the start of the script", || place.path("ready").exists());
        send(child.id(), signal);
        wait_for("the trap", || place.path("got").exists());
        std::thread::sleep(std::time::Duration::from_millis(100));
        std::fs::write(place.path("stop"), "").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(9), "{signal}");
        assert_eq!(std::fs::read_to_string(place.path("got")).unwrap(), "one\n", "{signal}");
    }
}

#[test]
fn a_signal_that_kills_the_program_ends_us_alike() {
    let place = Place::new();
    let script = place.script("waiting", ": > ready\nexec sleep 60");
    let mut child = place.lockswap(&["run", "--summary", "--", &script]).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the start of the script", || place.path("ready").exists());
    send(child.id(), "-TERM");
    assert_eq!(child.wait().unwrap().signal(), Some(15));
}

#[test]
fn ignored_signals_stay_ignored_in_the_program() {
    let place = Place::new();
    for way in WAYS {
        let mut nohup = std::process::Command::new("sh");
        nohup.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_lockswap")]);
        nohup.args(in_shell(way, "kill -HUP $$; exit 4"));
        nohup.env("XDG_CACHE_HOME", place.path("cache")).process_group(0);
        assert_eq!(nohup.stderr(Stdio::null()).status().unwrap().code(), Some(4), "{way:?}");
    }
}
