use crate::{text, Place};
use serde_json::Value;

#[test]
fn results_leave_in_every_form() {
    let place = Place::new();
    let torture = ["torture", "--lock", "futex", "--spin", "ttas", "--time", "0.2s", "--threads", "2", "--seed", "3"];
    let files = ["--export", "t.json", "--export", "t.csv", "--export", "t.md", "--export", "t.html"];
    let output = place.output(&[&torture[..], &files].concat());
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("2 locks passed") && shown.contains("seed 3, 200ms per lock"), "{shown}");
    let read = |name: &str| text(&std::fs::read(place.path(name)).unwrap_or_else(|error| panic!("{name}: {error}")));
    let json: Value = serde_json::from_str(&read("t.json")).unwrap();
    assert_eq!((&json["seed"], &json["locks"][1]["id"]), (&Value::from(3), &Value::from("ttas")));
    assert!(json["locks"][0]["operations"].as_u64().is_some_and(|count| count > 0), "{json}");
    let csv = read("t.csv");
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines.len() == 3 && lines[2].starts_with("spin,ttas,3,") && lines[2].ends_with(",ok,"), "{csv}");
    assert!(read("t.md").contains("| futex | mutex |") && read("t.html").contains(">futex</th>"));
    let printed = text(&place.output(&[&torture[..], &["--format", "csv"]].concat()).stdout);
    assert!(printed.starts_with("role,lock,seed,"), "{printed}");
}

#[test]
fn what_is_no_form_of_these_results_is_refused_before_anything_runs() {
    let place = Place::new();
    for name in ["t.svg", "t.xml", "t"] {
        let output = place.output(&["torture", "--lock", "futex", "--export", name]);
        assert_eq!(output.status.code(), Some(2), "{name}");
        assert!(text(&output.stderr).contains("end it in .json, .csv, .md or .html"), "{}", text(&output.stderr));
    }
    let output = place.output(&["torture", "--lock", "futex", "--export", "no/such/folder/t.json"]);
    assert_eq!(output.status.code(), Some(1));
}
