//! Tests that cannot run here say so in one line of standard error, or fail with `LOCKSWAP_TESTS_MUST_RUN=1`, as in
//! `.ci/run`.

use std::io::Write;

/// Whether a test that cannot run is a failure, and missing packages may be installed.
pub(crate) fn must_run() -> bool {
    std::env::var_os("LOCKSWAP_TESTS_MUST_RUN").is_some_and(|value| value == "1")
}

/// Writes a line to standard error, also if the test passes: what comes from `eprintln` is kept back then.
pub fn say(line: &str) {
    // Nobody to tell is no error.
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Says that the current test, or a part of it, is skipped and what it `needs`; fails where it must run.
pub fn skip(needs: &str) {
    let thread = std::thread::current();
    // The thread of a test has the test's name, unless all tests run in the main thread.
    let name = thread.name().filter(|name| *name != "main").unwrap_or("this test");
    assert!(!must_run(), "{name} must run, but needs {needs}");
    say(&format!("skipped: {name}: needs {needs}"));
}
