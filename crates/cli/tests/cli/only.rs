use std::fs;
use std::os::unix::fs::symlink;

use crate::{text, Place};

/// What the preload library is told when `--only` names `program`.
fn told(place: &Place, program: &str) -> String {
    let path = format!("{}:/usr/bin:/bin", place.path("bin").display());
    let args = ["run", "--only", program, "--", "/bin/sh", "-c", "echo \"$LOCKSWAP_ONLY\""];
    let output = place.lockswap(&args).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{program}: {}", text(&output.stderr));
    text(&output.stdout).trim_end().to_owned()
}

#[test]
fn the_executable_is_named_as_its_processes_see_it() {
    let place = Place::new();
    let real = place.path("real-1.2");
    fs::copy("/bin/true", &real).unwrap();
    fs::create_dir(place.path("bin")).unwrap();
    symlink(&real, place.path("bin/alias")).unwrap();
    let real = real.canonicalize().unwrap();
    assert_eq!(told(&place, "./real-1.2"), real.to_str().unwrap());
    assert_eq!(told(&place, "bin/alias"), real.to_str().unwrap(), "links are followed");
    assert_eq!(told(&place, "alias"), "real-1.2", "so they are for a name that is found in PATH");
    assert_eq!(told(&place, "not-installed-yet"), "not-installed-yet");
}

#[test]
fn a_script_is_refused_because_its_processes_run_the_interpreter() {
    let place = Place::new();
    let script = place.script("start", "echo ran");
    let output = place.output(&["run", "--only", &script, "--", &script]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output.stdout), "");
    let error = text(&output.stderr);
    assert!(error.contains("is a script") && error.contains("name the program that it runs"), "{error}");
}

#[test]
fn every_run_of_a_comparison_is_told() {
    let place = Place::new();
    let script = place.script("report", "echo \"$LOCKSWAP_LOCK|$LOCKSWAP_ONLY\" >> seen");
    let args = ["compare", "--lock", "ticket", "--only", "some-server", "--runs", "2", "--", &script];
    let output = place.lockswap(&args).env("LOCKSWAP_ONLY", "another").output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let seen = fs::read_to_string(place.path("seen")).unwrap();
    assert_eq!(seen.lines().filter(|line| *line == "ticket|some-server").count(), 3, "{seen}");
    assert!(!seen.contains("another"), "{seen}");
}
