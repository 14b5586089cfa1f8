//! The library under a newer glibc than the one it was built against: Debian trixie (2.41) in a directory of its own,
//! on a few locks. Making that takes root and the archive.

use lockswap_e2e::{
    cached, driver, driver_cpp, each_lock, lockswap, need, or_skip, run_with_timeout, Outcome, Variant, Which,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Making the system takes a minute.
const PATIENCE: Duration = Duration::from_secs(600);
const LIMIT: Duration = Duration::from_secs(240);

/// `unshare` gives a command mounts of its own, which end with its last process, however that ends.
fn with_own_mounts(script: &str, arguments: &[&Path]) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-ec", script, "sh"]).args(arguments);
    command
}

fn make(root: &Path) -> Result<(), String> {
    let debootstrap = need("debootstrap", "debootstrap").ok_or("debootstrap")?;
    let keys = Path::new("/usr/share/keyrings/debian-archive-keyring.gpg");
    if !keys.exists() {
        return Err(format!("no {}: apt-get install debian-archive-keyring", keys.display()));
    }
    let script = r#"exec "$1" --variant=minbase --include=python3 --keyring="$2" trixie "$3""#;
    let outcome = run_with_timeout(&mut with_own_mounts(script, &[&debootstrap, keys, root]), PATIENCE);
    if outcome.success() {
        return Ok(());
    }
    Err(format!("debootstrap {}:\n{}", outcome.ending(), outcome.tail()))
}

/// The system, made once and kept, or nothing if it cannot be had here.
fn trixie() -> Option<&'static Path> {
    static ROOT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let find = || {
        let root = rustix::process::geteuid().is_root();
        let made = if root { cached("trixie", make) } else { Err("only root can make and enter it".to_string()) };
        or_skip("Debian trixie", made)
    };
    ROOT.get_or_init(find).as_deref()
}

/// A directory inside the system with the programs and the library, removed when this is dropped.
struct Inside {
    root: &'static Path,
    directory: tempfile::TempDir,
}

impl Inside {
    fn new(root: &'static Path, programs: &[&Path]) -> Self {
        let directory = tempfile::tempdir_in(root.join("tmp")).expect("a directory in the system's /tmp");
        let outcome = run_with_timeout(Command::new(lockswap()).arg("preload-path"), LIMIT);
        assert!(outcome.success(), "lockswap preload-path {}: {}", outcome.ending(), outcome.tail());
        fs::copy(outcome.stdout.trim(), directory.path().join("liblockswap.so")).expect("copy the library");
        for program in programs {
            let name = program.file_name().expect("a file");
            fs::copy(program, directory.path().join(name)).expect("copy the program");
        }
        Inside { root, directory }
    }

    /// A path in the directory, as the system sees it.
    fn path(&self, name: &str) -> String {
        let outside = self.directory.path().join(name);
        format!("/{}", outside.strip_prefix(self.root).expect("below the root").display())
    }

    /// Runs a command inside, with the library if a lock is named.
    fn run(&self, variant: Option<&Variant>, command: &[&str]) -> Outcome {
        // What the programs need of the kernel: their own /proc/self, the null device, shared memory.
        let script = r#"
            mount -t proc proc "$1/proc"
            mount --rbind /dev "$1/dev"
            root=$1; shift
            exec chroot "$root" "$@""#;
        let mut all = with_own_mounts(script, &[self.root]);
        // Sub-tests of the drivers get 60 s instead of 20: on a busy machine locks that spin take that long.
        all.args(["/usr/bin/env", "-i", "PATH=/usr/bin", "TMPDIR=/tmp", "DRIVER_TIMEOUT=60"]);
        if let Some(Variant { lock, topology }) = variant {
            all.args([format!("LD_PRELOAD={}", self.path("liblockswap.so")), format!("LOCKSWAP_LOCK={lock}")]);
            all.args(topology.map(|topology| format!("LOCKSWAP_TOPOLOGY={topology}")));
        }
        run_with_timeout(all.args(command), LIMIT)
    }

    /// Compares a program's run without the library to that on each lock.
    fn compare(&self, name: &str, command: &[&str], result: fn(&Outcome) -> String) {
        let unknown = Variant { lock: "no-such-lock".to_string(), topology: None };
        let unknown = self.run(Some(&unknown), command);
        let status = unknown.status.and_then(|status| status.code());
        assert_eq!(status, Some(127), "{name}: the library was not loaded: {}", unknown.tail());
        let plain = self.run(None, command);
        assert!(plain.success(), "{name} without lockswap {}:\n{}", plain.ending(), plain.tail());
        each_lock(&format!("{name} on Debian trixie"), Which::Few, 2, |variant| {
            let outcome = self.run(Some(variant), command);
            if outcome.success() && result(&outcome) == result(&plain) {
                return Ok(());
            }
            Err(format!("{}\n{}\n{}", outcome.ending(), outcome.stdout, outcome.stderr))
        });
    }
}

/// How many sub-tests of a driver reported.
fn finished(outcome: &Outcome) -> String {
    let lines = outcome.stdout.lines();
    lines.filter(|line| line.starts_with("ok ") || line.starts_with("skip ")).count().to_string()
}

#[test]
fn it_is_newer() {
    let Some(root) = trixie() else { return };
    let outcome = Inside::new(root, &[]).run(None, &["ldd", "--version"]);
    let first = outcome.stdout.lines().next().unwrap_or_default();
    println!("{first}");
    assert!(first.ends_with(" 2.41"), "{}", outcome.tail());
}

#[test]
fn c_driver() {
    let Some(root) = trixie() else { return };
    let Some(driver) = driver() else { return };
    let inside = Inside::new(root, &[&driver, &driver.with_file_name("driver-plugin.so")]);
    inside.compare("C driver", &[&inside.path("driver"), "all"], finished);
}

#[test]
fn cpp_driver() {
    let Some(root) = trixie() else { return };
    let Some(driver) = driver_cpp() else { return };
    let inside = Inside::new(root, &[&driver]);
    inside.compare("C++ driver", &[&inside.path("driver-cpp"), "all"], finished);
}

#[test]
fn python() {
    let Some(root) = trixie() else { return };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/threads.py");
    let inside = Inside::new(root, &[&source]);
    let script = r#"d=$(mktemp -d); python3 "$0" "$d"; status=$?; rm -r "$d"; exit $status"#;
    inside.compare("python3", &["sh", "-c", script, &inside.path("threads.py")], |outcome| outcome.stdout.clone());
}
