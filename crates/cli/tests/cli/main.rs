//! The built `lockswap` command, seen from outside.

mod bench;
mod compare;
mod doctor;
mod evidence;
mod library;
mod list;
mod only;
mod parameters;
mod plans;
mod regret;
mod routes;
mod run;
mod seccomp;
mod sim;
mod slo;
mod study;
mod terminal;
mod top;
mod topo;
mod torture;
mod trace;
mod vocabulary;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A folder that also is the cache of the commands started from it.
struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `lockswap` with these arguments, untouched by the environment of the test.
    fn lockswap(&self, args: &[&str]) -> Command {
        // `nohup` leaves SIGHUP ignored in all that it starts, and a shell's `&` may leave SIGINT so.
        let mut command = Command::new("env");
        command.args(["--default-signal", env!("CARGO_BIN_EXE_lockswap")]);
        command.args(args).current_dir(self.dir.path()).env("XDG_CACHE_HOME", self.path("cache")).stdin(Stdio::null());
        for name in ["LD_PRELOAD", "LOCKSWAP_LOCK", "LOCKSWAP_RWLOCK", "LOCKSWAP_SPIN", "LOCKSWAP_STATS", "HOME"]
            .into_iter()
            .chain(["LOCKSWAP_SLO", "LOCKSWAP_ASL_MAX_WINDOW", "LOCKSWAP_LATENCIES", "LOCKSWAP_BIG"])
            .chain(["LOCKSWAP_ONLY", "LOCKSWAP_YIELD", "LOCKSWAP_MEMBARRIER", "ASAN_OPTIONS", "XDG_RUNTIME_DIR"])
            .chain(["LOCKSWAP_SPINS_BEFORE_PARK", "LOCKSWAP_TRACE"])
        {
            command.env_remove(name);
        }
        command
    }

    /// The same after `mounts`, a piece of shell, as root of a mount namespace; `None` where no user may have one.
    fn lockswap_with_mounts(&self, mounts: &str, args: &[&str]) -> Option<Command> {
        let possible = Command::new("unshare").args(["-rm", "true"]).stderr(Stdio::null()).status();
        if !possible.is_ok_and(|status| status.success()) {
            eprintln!("skipped: unshare -rm (a mount namespace of one's own) does not work here");
            return None;
        }
        let own = self.lockswap(args);
        let mut command = Command::new("unshare");
        command.args(["-rm", "sh", "-ec", &format!("{mounts}\nexec \"$@\""), "sh"]);
        command.arg(own.get_program()).args(own.get_args()).current_dir(self.dir.path()).stdin(Stdio::null());
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        Some(command)
    }

    fn output(&self, args: &[&str]) -> Output {
        self.lockswap(args).output().unwrap()
    }

    /// A program that uses a mutex, so that there is a lock to compare, and then does what `body` says.
    fn locking_script(&self, name: &str, body: &str) -> String {
        let own = env!("CARGO_BIN_EXE_lockswap");
        self.script(name, &format!("'{own}' __kv --threads 1 --millis 20 > /dev/null || exit\n{body}"))
    }

    /// An executable shell script.
    fn script(&self, name: &str, body: &str) -> String {
        let path = self.path(name);
        std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        make_executable(&path, 0o755);
        path.to_str().unwrap().to_owned()
    }
}

/// Compiles a C program; linking Rust needs the same compiler.
fn compile(place: &Place, name: &str, source: &str, options: &[&str]) -> String {
    let (file, program) = (place.path(&format!("{name}.c")), place.path(name));
    std::fs::write(&file, source).unwrap();
    let output = Command::new("cc").arg(&file).arg("-o").arg(&program).args(options).output().unwrap();
    assert!(output.status.success(), "cc (Debian package gcc): {}", text(&output.stderr));
    program.to_str().unwrap().to_owned()
}

fn make_executable(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Checks a file that a workload's results went to against the published schema, and that nothing failed.
fn check_schema(exported: &serde_json::Value) {
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/results.schema.json");
    let schema = serde_json::from_slice(&std::fs::read(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(exported).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    assert_eq!(exported["failures"].as_array().map(Vec::len), Some(0), "{}", exported["failures"]);
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{what} did not happen in 20 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn send(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_reader_that_goes_away_makes_no_panic() {
    let place = Place::new();
    let mut child = place.lockswap(&["list", "--json"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(stderr, "");
}

#[test]
fn every_help_page_has_an_example() {
    let place = Place::new();
    for subcommand in [
        "run",
        "compare",
        "slo",
        "trace",
        "top",
        "advise",
        "list",
        "doctor",
        "preload-path",
        "bench",
        "sim",
        "study",
        "torture",
        "install-docs",
    ] {
        let help = text(&place.output(&[subcommand, "--help"]).stdout);
        assert!(help.contains("Example"), "{subcommand}: {help}");
    }
    let help = text(&place.output(&["--help"]).stdout);
    assert!(!help.contains("__"), "hidden subcommands show: {help}");
}

#[test]
fn wrong_usage_ends_with_status_two() {
    let place = Place::new();
    for args in [
        &["nonsense"][..],
        &["run"],
        &["run", "--lock", "nonsense", "--", "true"],
        &["run", "--lock", "asl", "--slo", "5=50", "--", "true"],
        &["run", "--lock", "asl", "--slo", "5", "--", "true"],
        &["run", "--lock", "asl", "--asl-max-window", "2h", "--", "true"],
        &["run", "--lock", "asl:max-window=2h", "--", "true"],
        &["run", "--lock", "asl:fifo=ttas", "--", "true"],
        &["run", "--lock", "ticket:fifo=mcs_spin", "--", "true"],
        &["run", "--lock", "asl:fifo", "--", "true"],
        &["slo", "--epoch", "5", "--from", "10us", "--to", "1ms", "--lock", "cna", "--", "true"],
        &["run", "--lock", "asl", "--asl-fifo", "ttas", "--", "true"],
        &["run", "--lock", "ticket", "--asl-fifo", "mcs", "--", "true"],
        &["run", "--lock", "ticket", "--slo", "5=50us", "--", "true"],
        &["run", "--asl-max-window", "1ms", "--", "true"],
        &["run", "--only", "", "--", "true"],
        &["run", "--only", "./no-such-file", "--", "true"],
        &["compare", "--only", "sh"],
        &["compare", "--only", "./no-such-file", "--", "true"],
        &["slo", "--from", "10us", "--to", "1ms", "--", "true"],
        &["slo", "--epoch", "5", "--from", "10us", "--to", "1ms", "--steps", "1", "--", "true"],
        &["slo", "--epoch", "5", "--from", "10us", "--to", "1ms", "--metric", "(", "--", "true"],
        &["compare", "--lock", "futex,nonsense", "--", "true"],
        &["compare", "--runs", "0", "--", "true"],
        &["compare", "--timeout", "-1", "--", "true"],
        &["compare", "--metric", "(", "--", "true"],
        &["compare", "--lower-is-better", "--", "true"],
        &["bench", "contended", "--threads", "3"],
        &["bench", "oversub", "--threads", "0"],
        &["bench", "direct", "--lock", "nonsense"],
        &["bench", "kernel", "nonsense"],
        &["bench", "kernel", "raytrace", "--lock", "ticket"],
        &["bench", "kernel", "raytrace", "--direct", "nonsense"],
        &["bench", "kernel", "cluster", "--direct", "ticket"],
    ] {
        assert_eq!(place.output(args).status.code(), Some(2), "{args:?}");
    }
}
