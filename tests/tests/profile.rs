//! Profiles: programs whose mutexes get locks by rules.

use lockswap_e2e::{driver, lockswap, preload, program, program_with, run_with_timeout, scratch_dir, Outcome};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// A profile with these rules, of which each is conditions and a lock; `;` separates the conditions.
fn profile(rules: &[(&str, &str)]) -> String {
    let rule = |(conditions, lock): &(&str, &str)| {
        let conditions: String = conditions.split(';').map(|condition| format!("{condition}\n")).collect();
        format!("[[mutex]]\n{conditions}lock = '{lock}'\n")
    };
    "version = 1\n".to_string() + &rules.iter().map(rule).collect::<String>()
}

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Place { directory: scratch_dir() }
    }

    fn file(&self, text: &str) -> PathBuf {
        let path = self.directory.path().join("locks.toml");
        fs::write(&path, text).expect("a temporary directory can be written to");
        path
    }

    /// Runs a program with a profile under `lockswap run` with these options.
    fn run(&self, options: &[&str], text: &str, program: &Path, arguments: &[&str]) -> Outcome {
        let mut command = Command::new(lockswap());
        command.args(["run", "--profile"]).arg(self.file(text)).args(options).arg("--").arg(program).args(arguments);
        run_with_timeout(&mut command, LIMIT)
    }

    /// The same, with its statistics.
    fn statistics(&self, options: &[&str], text: &str, program: &Path) -> (Outcome, Value) {
        let file = self.directory.path().join("stats.json");
        let options = [options, &["--stats-json", file.to_str().expect("plain name")]].concat();
        let outcome = self.run(&options, text, program, &[]);
        let text = fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}\n{}", outcome.tail()));
        (outcome, serde_json::from_str(&text).expect("JSON"))
    }
}

/// The lines of the output, which say what mutexes run on.
fn says(outcome: &Outcome, lines: &[&str]) {
    assert!(outcome.success(), "{}\n{}", outcome.ending(), outcome.tail());
    for line in lines {
        assert!(outcome.stdout.lines().any(|found| found == *line), "no '{line}' in:\n{}", outcome.stdout);
    }
    assert!(!outcome.stdout.contains("lost"), "{}", outcome.stdout);
}

/// Rules of every sort, a lock of every sort: waiting in line and not, with nodes and without, inside the mutex and
/// outside.
const RULES: [(&str, &str); 8] = [
    ("symbol = 'hot_lock'", "mcs_stp"),
    ("symbol = 'rows';module = 'profile'", "hmcs"),
    ("kind = 'recursive'", "cna"),
    ("kind = 'adaptive'", "pthread"),
    ("function = 'open_table'", "mcs_stp-barging"),
    ("function = 'use_first'", "auto"),
    ("symbol = 'waited_with'", "pthread"),
    ("function = 'not_there'", "ticket"),
];

/// What the program says then: the numbers of the locks in the order in which rules name them, behind the default.
const SAID: [&str; 10] = [
    "hot 1",
    "row 2",
    "recursive 3",
    "adaptive glibc",
    "table 4",
    "index 0",
    "elsewhere 0",
    "waited_with glibc",
    "first_locked 5",
    "child 0",
];

#[test]
fn each_mutex_gets_the_lock_of_the_first_rule_that_applies() {
    let Some(program) = program("profile") else { return };
    let place = Place::new();
    let (outcome, stats) = place.statistics(&["--lock", "futex"], &profile(&RULES), &program);
    says(&outcome, &SAID);
    let counts: Vec<u64> =
        stats["profile"].as_array().expect("rules").iter().map(|rule| rule["mutexes"].as_u64().unwrap()).collect();
    assert_eq!(counts[..5], [1, 2, 1, 1, 1], "{stats}");
    assert!(counts[5] == 2 && counts[6] == 1 && counts[7] == 0, "{stats}");
    let outcome = place.run(&["--lock", "futex", "--summary"], &profile(&RULES), &program, &[]);
    let summary = &outcome.stderr;
    assert!(summary.contains("  profile         1 mutex: symbol hot_lock -> mcs_stp (line 2)\n"), "{summary}");
    assert!(summary.contains("  profile         no mutex: function not_there -> ticket (line 24)\n"), "{summary}");
}

#[test]
fn the_library_alone_follows_a_profile() {
    let Some(program) = program("profile") else { return };
    let place = Place::new();
    let run = |lock: &str| {
        let mut command = Command::new(&program);
        command.env("LD_PRELOAD", preload()).env("LOCKSWAP_LOCK", lock);
        run_with_timeout(command.env("LOCKSWAP_PROFILE", place.file(&profile(&RULES))), LIMIT)
    };
    says(&run("futex"), &SAID);
    // Everything else stays glibc's: the locks of the rules have the numbers from 0 on.
    says(&run("interposed-pthread"), &["hot 0", "row 1", "recursive 2", "elsewhere glibc", "index glibc", "child 0"]);
}

#[test]
fn mutexes_of_cpp_are_named_as_in_the_source() {
    let Some(program) = program_with("cxx", &["-std=c++17"], "profile.cpp", "profile-cpp") else { return };
    let rules = [
        ("symbol = 'app::registry'", "mcs_stp"),
        ("symbol = 'app::nested'", "cna"),
        ("function = 'app::Cache::open()';module = 'profile-cpp'", "hmcs"),
    ];
    let outcome = Place::new().run(&[], &profile(&rules), &program, &[]);
    says(&outcome, &["registry 1", "nested 2", "opened 3", "got 0", "sum 6000"]);
}

#[test]
fn modules_and_places_are_conditions() {
    let Some(program) = program("profile") else { return };
    let output = Command::new("nm").arg(&program).output();
    let Some(symbols) = output.ok().filter(|output| output.status.success()) else { return };
    let symbols = String::from_utf8(symbols.stdout).expect("names of C");
    let line = symbols.lines().find(|line| line.ends_with(" hot_lock")).expect("the program has it");
    let at = format!("at = 'profile+0x{}'", line.split(' ').next().expect("an address"));
    let rules = [(at.as_str(), "ticket"), ("module = 'libc.so'", "hmcs"), ("module = 'profile'", "cna")];
    says(&Place::new().run(&[], &profile(&rules), &program, &[]), &["hot 1", "row 3", "table 3", "child 0"]);
}

#[test]
fn a_line_of_the_source_is_a_condition() {
    let Some(program) = program("profile") else { return };
    let source = include_str!("../programs/profile.c");
    let line = |text: &str| 1 + source.lines().position(|line| line.contains(text)).expect("it is there");
    let place = Place::new();
    let condition = format!("line = 'programs/profile.c:{}'", line("this is the call of the table"));
    let outcome = place.run(&["--lock", "futex"], &profile(&[(&condition, "mcs_stp")]), &program, &[]);
    says(&outcome, &["table 1", "index 0", "hot 0", "child 0"]);
    for (condition, said) in [
        ("line = 'profile.c:1'", "line 2: "),
        ("line = 'nonsense.c:12'", "has no code of that line"),
        ("line = 'profile.c:12';module = 'libc.so.6'", "is not the program: give its path"),
    ] {
        let outcome = place.run(&[], &profile(&[(condition, "mcs_stp")]), &program, &[]);
        assert!(outcome.stdout.is_empty() && outcome.stderr.contains(said), "{}", outcome.tail());
    }
}

/// Everything that the pthread functions promise holds for mutexes of different locks in one process.
#[test]
fn the_driver_passes_on_several_locks() {
    let Some(driver) = driver() else { return };
    let place = Place::new();
    for rules in [
        [("kind = 'recursive'", "hmcs"), ("kind = 'errorcheck'", "pthread"), ("kind = 'normal'", "mcs_stp")],
        [("kind = 'recursive'", "mcs_stp-barging"), ("kind = 'errorcheck'", "auto"), ("kind = 'normal'", "pthread")],
    ] {
        let mut command = Command::new(lockswap());
        command.args(["run", "--profile"]).arg(place.file(&profile(&rules))).arg("--").arg(&driver).arg("all");
        let outcome = run_with_timeout(&mut command, Duration::from_secs(300));
        assert!(outcome.success(), "{rules:?}: {}\n{}", outcome.ending(), outcome.tail());
    }
}

#[test]
fn a_bad_profile_is_refused_before_the_program_starts() {
    let place = Place::new();
    let echo = Path::new("/bin/echo");
    for (text, said) in [
        (
            "version = 2\n".to_string(),
            "locks.toml: line 1: the profile is of version 2, and this lockswap knows version 1",
        ),
        (profile(&[("symbol = 'x'", "tickt")]), "line 2: there is no mutex lock 'tickt'; did you mean 'ticket'?"),
        (profile(&[("symbl = 'x'", "cna")]), "line 3: 'symbl' is not known here: did you mean 'symbol'?"),
        (
            profile(&[("symbol = 'x'", "cna:threshold=9"), ("symbol = 'y'", "cna")]),
            "'cna' (line 5) and 'cna:threshold=9' (line 2) disagree on threshold",
        ),
        (
            profile(
                &["futex", "ttas", "ticket", "mcs_stp", "cna", "hmcs", "k42", "clh_stp"]
                    .map(|lock| ("symbol = 'x'", lock)),
            ),
            "name 9 different locks, and a process has 8",
        ),
    ] {
        let outcome = place.run(&[], &text, echo, &["started"]);
        assert!(
            outcome.status.and_then(|status| status.code()) == Some(2) && outcome.stdout.is_empty(),
            "{}",
            outcome.ending()
        );
        assert!(outcome.stderr.contains(said) && outcome.stderr.contains("remedy: "), "{}", outcome.stderr);
    }
    let mut missing = Command::new(lockswap());
    missing.args(["run", "--profile", "/nonexistent/locks.toml", "--", "/bin/echo", "started"]);
    let outcome = run_with_timeout(&mut missing, LIMIT);
    assert!(
        outcome.status.and_then(|status| status.code()) == Some(2)
            && outcome.stderr.contains("/nonexistent/locks.toml"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn a_bad_profile_costs_the_process_a_line_and_no_more() {
    let Some(program) = program("profile") else { return };
    let place = Place::new();
    for (path, said) in [
        (place.file("version = 3\n"), "is ignored: line 1: the profile is of version 3"),
        (
            PathBuf::from("/nonexistent/locks.toml"),
            "LOCKSWAP_PROFILE=/nonexistent/locks.toml is ignored: it cannot be read",
        ),
    ] {
        let mut command = Command::new(&program);
        let outcome = run_with_timeout(command.env("LD_PRELOAD", preload()).env("LOCKSWAP_PROFILE", path), LIMIT);
        says(&outcome, &["hot 0", "table 0", "adaptive 0", "child 0"]);
        let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains(said)).collect();
        assert!(lines.len() == 1 && outcome.stderr.lines().count() == 1, "{}", outcome.stderr);
    }
}

#[test]
fn a_program_chooses_itself_among_the_locks_that_its_profile_names() {
    let include = concat!(env!("CARGO_MANIFEST_DIR"), "/../include");
    let Some(program) = program_with("cc", &["-D_GNU_SOURCE", "-I", include], "choose.c", "choose") else { return };
    let place = Place::new();
    let text = "version = 1\nlocks = 'hmcs mcs_stp pthread'\n";
    let chosen = place.run(&[], text, &program, &[]);
    let refused = "robust EINVAL\nunknown EINVAL\nnot_named EINVAL\nother_parameter EINVAL\n";
    assert!(chosen.success() && chosen.stdout == format!("{refused}recursive 0\nchosen 0\n"), "{}", chosen.tail());
    // Not there, or not ready: nothing changes, and the program says so in its own way.
    for (command, said) in [
        (&mut Command::new(&program), "ENOSYS"),
        (Command::new(lockswap()).args(["run", "--"]).arg(&program), "EINVAL"),
    ] {
        let outcome = run_with_timeout(command, LIMIT);
        assert!(outcome.stdout.contains(&format!("chosen {said}\n")), "{}", outcome.tail());
    }
}

#[test]
fn signal_handlers_and_children_come_by_while_a_lock_is_chosen() {
    let Some(program) = program("profile_signals") else { return };
    let rules = [("function = 'handler'", "hmcs"), ("function = 'work'", "mcs_stp"), ("function = 'fresh'", "cna")];
    for _ in 0..3 {
        says(&Place::new().run(&[], &profile(&rules), &program, &[]), &["0 children failed"]);
    }
}
