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
