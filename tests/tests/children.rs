//! Programs that a preloaded program starts: those that cannot load the library run as they do without lockswap, and
//! the user is told.

use lockswap_e2e::{lockswap, program, program_with, run_with_timeout, scratch_dir, Outcome};
use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

/// Children that cannot load the library, with the reason that is told. `script` has `static` for its interpreter.
const PLAIN: [(&str, &str); 3] =
    [("static", "statically linked"), ("musl", "its C library is not glibc"), ("script", "statically linked")];

/// Fills `directory` with the children, the program that starts them, and another library to preload. `None` without a
/// compiler.
fn fill(directory: &Path) -> Option<()> {
    let kind = |kind: &str| format!("-DKIND=\"{kind}\"");
    let children = [
        ("normal", program_with("cc", &[&kind("normal")], "child.c", "child-normal")?),
        ("static", program_with("cc", &["-static", &kind("static")], "child.c", "child-static")?),
        ("musl", program_with("musl-gcc", &[&kind("musl")], "child.c", "child-musl")?),
        ("starter", program("starter")?),
        ("other.so", program_with("cc", &["-shared", "-nostdlib"], "other.c", "other.so")?),
    ];
    for (name, path) in children {
        symlink(path, directory.join(name)).expect("symlink");
    }
    let script = directory.join("script");
    fs::write(&script, format!("#! {}\n", directory.join("static").display())).expect("write");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("chmod");
    Some(())
}

/// Runs `command` in `directory`, which is in its `PATH`, too. The other library is preloaded as well.
fn run_in(directory: &Path, command: &mut Command) -> Outcome {
    command.env("LD_PRELOAD", directory.join("other.so")).current_dir(directory);
    command.env("PATH", format!("/nowhere:{}:/usr/bin:/bin", directory.display()));
    run_with_timeout(command, LIMIT)
}

fn run_lockswap(directory: &Path, program: &[&str]) -> (Outcome, serde_json::Value) {
    let mut command = Command::new(lockswap());
    let options = ["run", "--lock", "mcs_spin", "--summary", "--stats-json", "stats.json", "--"];
    let outcome = run_in(directory, command.args(options).args(program));
    let statistics = fs::read_to_string(directory.join("stats.json")).expect("statistics");
    (outcome, serde_json::from_str(&statistics).expect("JSON"))
}

/// What the child that `command` starts does with lockswap must be what it does without, but for the library in the
/// environment of all that do not stumble over it: a static program may start others that can load it.
fn starts(command: impl Fn(&str) -> Vec<String>) {
    let directory = scratch_dir();
    let directory = directory.path();
    let Some(()) = fill(directory) else { return };
    for (child, why) in PLAIN.into_iter().chain([("normal", "")]) {
        let command = command(child);
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let plain = run_in(directory, Command::new(command[0]).args(&command[1..]));
        assert!(plain.stdout.contains("lock 0, lockswap no, other yes\n"), "{command:?}: {}", plain.tail());
        let (outcome, statistics) = run_lockswap(directory, &command);
        assert_eq!(outcome.status, plain.status, "{command:?}: {}", outcome.tail());
        let mut expected = plain.stdout;
        if child != "musl" {
            expected = expected.replace("lockswap no", "lockswap yes");
        }
        assert_eq!(outcome.stdout, expected, "{command:?}: {}", outcome.stderr);
        // Nothing of a dynamic linker's.
        let others: Vec<&str> = outcome.stderr.lines().filter(|line| !line.starts_with("  ")).collect();
        assert_eq!(others, ["lockswap: exit status 3"], "{command:?}: {}", outcome.stderr);

        let named: Vec<&str> =
            outcome.stderr.lines().filter_map(|line| line.strip_prefix("  ran plainly     ")).collect();
        let noted = statistics["plain_children"].as_array().expect("a list");
        if why.is_empty() {
            assert!(named.is_empty() && noted.is_empty(), "{command:?}: {}", outcome.stderr);
            continue;
        }
        assert_eq!((named.len(), noted.len()), (1, 1), "{command:?}: {}{statistics}", outcome.stderr);
        let path = noted[0]["path"].as_str().expect("a path");
        assert!(path.ends_with(child), "{command:?}: {statistics}");
        assert_eq!(noted[0]["why"], why, "{command:?}: {statistics}");
        assert_eq!(named[0], format!("{path} ({why})"), "{command:?}");
    }
}

#[test]
fn of_a_shell() {
    starts(|child| ["sh", "-c", &format!("./{child} one two; exit $?")].map(String::from).to_vec());
}

#[test]
fn by_path() {
    for way in ["posix_spawn", "posix_spawnp", "execv", "execvp", "execvpe", "vfork"] {
        starts(|child| ["./starter", way, &format!("./{child}"), "one"].map(String::from).to_vec());
    }
}

#[test]
fn by_name() {
    for way in ["posix_spawnp", "execvp", "execvpe"] {
        starts(|child| ["./starter", way, child, "one"].map(String::from).to_vec());
    }
}

/// Several children of one process are all named, each once.
#[test]
fn all_are_named() {
    let directory = scratch_dir();
    let Some(()) = fill(directory.path()) else { return };
    let script = "./static; ./musl; ./normal; ./script; ./static; ./musl; true";
    let (outcome, statistics) = run_lockswap(directory.path(), &["sh", "-c", script]);
    assert!(outcome.success(), "{}", outcome.tail());
    let noted = statistics["plain_children"].as_array().expect("a list");
    let paths: Vec<&str> = noted.iter().filter_map(|child| child["path"].as_str()).collect();
    assert_eq!(paths, ["./static", "./musl", "./script"], "{statistics}");
    // That of `normal`.
    assert_eq!(statistics["replaced"]["mutex"], 1, "{statistics}");
}

/// `lockswap run` itself starts a program that cannot use the library.
#[test]
fn of_the_command_itself() {
    let directory = scratch_dir();
    let Some(()) = fill(directory.path()) else { return };
    for (child, _) in PLAIN {
        let (outcome, statistics) = run_lockswap(directory.path(), &[&format!("./{child}")]);
        let code = outcome.status.and_then(|status| status.code());
        assert_eq!(code, Some(3), "{child}: {}:\n{}", outcome.ending(), outcome.tail());
        assert!(outcome.stdout.contains(" lock 0, "), "{child}: {}", outcome.tail());
        assert_eq!(statistics["replaced"]["mutex"], 0, "{child}: {statistics}");
    }
}
