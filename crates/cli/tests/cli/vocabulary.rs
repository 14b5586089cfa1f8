//! One word for one thing in all subcommands, and the words of earlier versions.

use crate::{text, Place};
use serde_json::Value;

fn json(place: &Place, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(place.path(name)).unwrap()).unwrap()
}

#[test]
fn every_option_with_a_time_takes_the_same_times() {
    let place = Place::new();
    for time in ["100ms", "0.1", "100000us"] {
        let output = place.output(&["compare", "--runs", "1", "--timeout", time, "--", "sleep", "30"]);
        let error = text(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains("0.1 s"), "{time}: {error}");
    }
    let kv = ["bench", "kv", "--lock", "ttas", "--export-json", "kv.json"];
    for (time, ns) in [("50ms", 50_000_000), ("0.05", 50_000_000), ("1", 1_000_000_000)] {
        let output = place.output(&[&kv[..], &["--rounds", "1", "--duration", time]].concat());
        assert!(output.status.success(), "{time}: {}", text(&output.stderr));
        assert_eq!(json(&place, "kv.json")["results"][0]["config"]["timing"]["duration"], ns, "{time}");
    }
    let torture = ["torture", "--lock", "futex", "--threads", "2", "--export-json", "torture.json"];
    for time in [["--time", "200ms"], ["--seconds", "0.2"]] {
        let output = place.output(&[&torture[..], &time].concat());
        assert!(output.status.success(), "{time:?}: {}", text(&output.stderr));
        assert_eq!(json(&place, "torture.json")["seconds"], 0.2, "{time:?}");
    }
}

#[test]
fn a_wrong_time_is_quoted_with_what_would_be_right() {
    let place = Place::new();
    for (args, said) in [
        (&["compare", "--timeout", "5x", "--", "true"][..], "5s, 500ms, 50us, 2m or 1h"),
        (&["compare", "--timeout", "0", "--", "true"], "above 0"),
        (&["bench", "kv", "--duration", "2h"], "at most 1h"),
        (&["sim", "--duration", "5x"], "5s, 500ms, 50us, 2m or 1h"),
        (&["sim", "--duration", "1ns"], "from 1us to 60s"),
        (&["sim", "validate", "--simulated", "1h"], "from 1us to 60s"),
        (&["torture", "--time", "1us"], "from 100ms to 24h"),
        (&["torture", "--patience", "x"], "5s, 500ms, 50us, 2m or 1h"),
        (&["slo", "--epoch", "5", "--from", "10", "--to", "1ms", "--", "true"], "10us, 10ms or 10s"),
        (&["run", "--lock", "asl", "--slo", "5=50", "--", "true"], "50us, 50ms or 50s"),
        (&["bench", "ncs", "--ncs", "1us,3"], "3us, 3ms or 3s"),
    ] {
        let output = place.output(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(said) && error.contains("invalid value '"), "{args:?}: {error}");
    }
}

/// What is given by its old name has the same effect, and the new name is told once.
#[test]
fn old_names_work_and_the_new_ones_are_told() {
    let place = Place::new();
    let sim = &["sim", "--threads", "2", "--duration", "100us"][..];
    let bench = &["bench", "--lock", "ttas", "--export-json", "bench.json"][..];
    let torture = &["torture", "--lock", "futex", "--threads", "2"][..];
    let run = &["run", "--lock", "asl"][..];
    for (command, old, new, told) in [
        (sim, &["--locks", "ttas"][..], &["--lock", "ttas"][..], "note: --locks is now called --lock\n"),
        (torture, &["--seconds", "0.1"], &["--time", "0.1"], "note: --seconds is now called --time\n"),
        (
            bench,
            &["kv", "--duration", "20ms", "--rounds=2"],
            &["kv", "--duration", "20ms", "--runs", "2"],
            "note: --rounds is now called --runs\n",
        ),
        (
            bench,
            &["kv", "--duration", "20ms", "--keys", "64", "--runs", "1"],
            &["kv", "--duration", "20ms", "--set", "keys=64", "--runs", "1"],
            "note: --keys is now called --set keys=64\n",
        ),
        (
            bench,
            &["epochs", "--duration", "20ms", "--locks", "2", "--runs", "1"],
            &["epochs", "--duration", "20ms", "--lock-count", "2", "--runs", "1"],
            "note: --locks is now called --lock-count\n",
        ),
        (
            run,
            &["--asl-fifo", "mcs", "--", "echo", "--locks", "--asl-fifo", "mcs"],
            &["--asl-fifo", "mcs_spin", "echo", "--locks", "--asl-fifo", "mcs"],
            "note: --asl-fifo mcs is now called --asl-fifo mcs_spin\n",
        ),
    ] {
        let results = [(old, told), (new, "")].map(|(option, told)| {
            let output = place.output(&[command, option].concat());
            assert!(output.status.success(), "{option:?}: {}", text(&output.stderr));
            assert_eq!(text(&output.stderr), told, "{option:?}");
            let help = text(&place.output(&[&command[..1], &["--help"]].concat()).stdout);
            assert!(!help.contains("--locks") && !help.contains("--rounds"), "{help}");
            (command == sim || command == run).then_some(output.stdout)
        });
        assert_eq!(results[0], results[1], "{old:?}");
    }
    let settings = |option: &[&str]| {
        assert!(place.output(&[bench, option].concat()).status.success());
        json(&place, "bench.json")["results"][0]["config"].clone()
    };
    assert_eq!(settings(&["kv", "--duration", "20ms", "--keys", "64", "--runs", "1"])["keys"], 64);
    assert_eq!(settings(&["epochs", "--duration", "20ms", "--lock-count", "3", "--runs", "1"])["locks"], 3);
}

#[test]
fn locks_are_found_in_any_spelling_and_shown_in_the_published_one() {
    let place = Place::new();
    let output = place.output(&["run", "--lock", "MCS-spin", "--rwlock", "rw_futex", "--summary", "--", "true"]);
    let summary = text(&output.stderr);
    assert!(output.status.success() && summary.contains("mcs_spin"), "{summary}");
    assert!(!summary.contains("MCS-spin") && !summary.contains("rw_futex"), "{summary}");
    let output = place.lockswap(&["run", "--summary", "--", "true"]).env("LOCKSWAP_LOCK", "mcs_ls").output().unwrap();
    let summary = text(&output.stderr);
    assert!(output.status.success() && summary.contains("mcs-ls") && !summary.contains("mcs_ls"), "{summary}");
    for args in [
        &["compare", "--lock", "MCS_SPIN,mcs-spin", "--runs", "1", "--", "true"][..],
        &["sim", "--lock", "mcs-spin", "--threads", "2", "--duration", "100us"],
        &["bench", "kv", "--lock", "Mcs-Spin", "--runs", "1", "--duration", "20ms"],
        &["torture", "--lock", "mcs-spin,MCS_SPIN", "--threads", "2", "--time", "100ms"],
    ] {
        let output = place.output(args);
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        let rows = shown.lines().filter(|line| line.split_whitespace().any(|word| word == "mcs_spin"));
        assert_eq!(rows.count(), 1, "{args:?}: {shown}");
    }
}

#[test]
fn an_unknown_lock_gets_the_nearest_names_and_not_all() {
    let place = Place::new();
    let mcs = "did you mean 'mcs_spin', 'mcs_stp' or 'mcs-ls'? 'lockswap list' shows all\n";
    for (args, said) in [
        (&["run", "--lock", "mcs", "--", "true"][..], mcs),
        (&["compare", "--lock", "mcs", "--", "true"], mcs),
        (&["bench", "kv", "--lock", "mcs"], mcs),
        (&["sim", "--lock", "mcs"], mcs),
        (&["sim", "validate", "--lock", "mcs"], mcs),
        (&["torture", "--lock", "mcs"], mcs),
        (&["run", "--lock", "TICKTE", "--", "true"], "did you mean 'ticket'? "),
        (&["run", "--lock", "xyzzy", "--", "true"], "remedy: 'lockswap list' shows all"),
        (&["run", "--lock", "bravo", "--", "true"], "write --rwlock bravo"),
        (&["run", "--rwlock", "futex", "--", "true"], "write --lock futex"),
        (&["run", "--rwlock", "futexes", "--", "true"], "'lockswap list' shows all"),
    ] {
        let output = place.output(args);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {error}");
        assert!(error.contains(said), "{args:?}: {error}");
        assert!(error.len() < 250 && !error.contains("cohort-rw"), "{args:?}: {error}");
    }
}
