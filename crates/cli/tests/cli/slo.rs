use crate::{text, Place};

const RANGE: [&str; 6] = ["slo", "--epoch=5", "--from=10us", "--to=1ms", "--runs=1", "--"];

#[test]
fn a_program_without_epochs_is_told_how_to_mark_them() {
    let place = Place::new();
    let output = place.output(&[&RANGE[..], &["true"]].concat());
    assert_eq!(output.status.code(), Some(1));
    let error = text(&output.stderr);
    assert!(error.contains("enters no epoch at all") && error.contains("remedy:"), "{error}");
    assert_eq!(text(&output.stdout), "");
}

#[test]
fn a_program_that_fails_without_lockswap_is_not_measured() {
    let place = Place::new();
    for (program, status, words) in
        [(&["false"][..], 1, "exit status 1"), (&["no-such-program-anywhere"], 127, "cannot start")]
    {
        let output = place.output(&[&RANGE[..], program].concat());
        assert_eq!(output.status.code(), Some(status), "{program:?}");
        assert!(text(&output.stderr).contains(words), "{}", text(&output.stderr));
    }
    let metric = ["slo", "--epoch=5", "--from=10us", "--to=1ms", "--metric", "rate=([0-9]+)", "--", "echo", "none"];
    let error = text(&place.output(&metric).stderr);
    assert!(error.contains("metric not found") && error.contains("remedy:"), "{error}");
}

#[test]
fn nothing_is_measured_for_a_file_that_cannot_be_written() {
    let place = Place::new();
    let marker = place.path("ran");
    let touch = ["--", "touch", marker.to_str().unwrap()];
    for (option, file, status) in [
        ("--export-json", "no/such/folder/f.json", 1),
        ("--export", "no/such/folder/f.svg", 1),
        ("--export", "picture.pdf", 2),
        ("--export-latency", "picture", 2),
    ] {
        let range = ["slo", "--epoch=5", "--from=10us", "--to=1ms", option, file];
        let output = place.output(&[&range[..], &touch].concat());
        assert_eq!(output.status.code(), Some(status), "{option} {file}");
        let error = text(&output.stderr);
        assert!(error.contains(file) && error.contains("remedy:"), "{error}");
    }
    assert!(!marker.exists());
}

#[test]
fn targets_that_make_no_range_are_wrong_usage() {
    let place = Place::new();
    for range in
        [["--from=1ms", "--to=10us"], ["--from=0", "--to=1ms"], ["--from=10", "--to=1ms"], ["--from=1us", "--to="]]
    {
        let output = place.output(&["slo", "--epoch=5", range[0], range[1], "--", "true"]);
        assert_eq!(output.status.code(), Some(2), "{range:?}");
    }
}
