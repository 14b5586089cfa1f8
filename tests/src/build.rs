//! Builds what the tests run: the `lockswap` command and the drivers. Each once per test process, and one test process
//! at a time.

use crate::skip::skip;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory of the profile that this test program was built with: TARGET/release.
fn profile_dir() -> PathBuf {
    let program = std::env::current_exe().expect("this program has a path");
    // TARGET/release/deps/PROGRAM
    program.ancestors().nth(2).expect("cargo puts test programs three levels deep").to_path_buf()
}

/// The target directory that this test program was built into.
fn target_dir() -> PathBuf {
    profile_dir().parent().expect("profiles lie in the target directory").to_path_buf()
}

fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ lies in the workspace")
}

/// Runs `body` while no other test process builds.
fn alone<T>(body: impl FnOnce() -> T) -> T {
    let path = target_dir().join("lockswap-e2e.lock");
    let file = File::create(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).expect("lock the build");
    body()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?} failed:\n{}", String::from_utf8_lossy(&output.stderr));
}

/// The `lockswap` command: the one that `LOCKSWAP_BIN` names, else built from this workspace with the profile of this
/// test program.
///
/// `cargo test` has built it already, for the test program `cli`. That is also how it is brought up to date here:
/// `cargo build -p lockswap-cli` would turn on other features of what it depends on, and so compile that once more.
pub fn lockswap() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(path) = std::env::var_os("LOCKSWAP_BIN") {
            return path.into();
        }
        alone(|| {
            let cargo = std::env::var_os("CARGO").unwrap_or_else(|| env!("CARGO").into());
            let directory = profile_dir();
            let profile = match directory.file_name().and_then(|name| name.to_str()) {
                Some("debug") | None => "dev",
                Some(name) => name,
            };
            run(Command::new(cargo)
                .args(["test", "--locked", "--no-run", "--test", "cli", "--profile", profile, "--target-dir"])
                .arg(target_dir())
                .current_dir(workspace()));
        });
        profile_dir().join("lockswap")
    })
}

/// Whether `output` is missing or older than one of the sources.
fn stale(output: &Path, sources: &[PathBuf]) -> bool {
    let modified = |path: &Path| fs::metadata(path).and_then(|data| data.modified());
    let Ok(built) = modified(output) else { return true };
    sources.iter().any(|source| modified(source).map_or(true, |time| time > built))
}

fn sources(extension: &str) -> Vec<PathBuf> {
    let directory = workspace().join("tests/drivers");
    let entries = fs::read_dir(&directory).expect("tests/drivers exists");
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    found.retain(|path| path.extension().is_some_and(|found| found == extension));
    found.sort();
    found
}

fn compile(compiler: &str, output: &str, flags: &[&str], sources: &[PathBuf], also: &[PathBuf]) -> Option<PathBuf> {
    let compiler = std::env::var(compiler.to_uppercase()).unwrap_or_else(|_| compiler.replace("cxx", "c++"));
    crate::need(&compiler, if compiler == "musl-gcc" { "musl-tools" } else { "g++" })?;
    let directory = target_dir().join("drivers");
    fs::create_dir_all(&directory).expect("make the drivers' directory");
    let path = directory.join(output);
    alone(|| {
        if stale(&path, sources) || stale(&path, also) {
            run(Command::new(&compiler)
                .args(["-O2", "-g", "-Wall", "-Wextra", "-pthread", "-o"])
                .arg(&path)
                .args(flags)
                .args(sources));
        }
    });
    Some(path)
}

/// The program in `tests/programs/NAME.c`; `None` without a compiler, as with [`need`](crate::need).
pub fn program(name: &str) -> Option<PathBuf> {
    program_with("cc", &[], &format!("{name}.c"), name)
}

/// A program called `output` from a file of `tests/programs`, by `compiler` (`cc`, `cxx`, `musl-gcc`) with `flags` of
/// its own; `None` as with [`program`].
pub fn program_with(compiler: &str, flags: &[&str], source: &str, output: &str) -> Option<PathBuf> {
    compile(compiler, output, flags, &[workspace().join("tests/programs").join(source)], &[])
}

/// The preload library, for use without the command.
pub fn preload() -> PathBuf {
    let output = Command::new(lockswap()).arg("preload-path").output().expect("run lockswap preload-path");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the path is UTF-8").trim().into()
}

/// The C driver, with the library that it loads beside it; `None` as with [`program`].
pub fn driver() -> Option<PathBuf> {
    let (plugin, own): (Vec<_>, Vec<_>) = sources("c").into_iter().partition(|path| path.ends_with("plugin.c"));
    compile("cc", "driver-plugin.so", &["-shared", "-fPIC"], &plugin, &[])?;
    compile("cc", "driver", &[], &own, &sources("h"))
}

/// The C++ driver; `None` as with [`program`].
pub fn driver_cpp() -> Option<PathBuf> {
    compile("cxx", "driver-cpp", &["-std=c++17"], &sources("cpp"), &[])
}

/// The directory `NAME` under the target directory, filled by `make` if an earlier run has not done so.
pub fn cached(name: &str, make: impl FnOnce(&Path) -> Result<(), String>) -> Result<PathBuf, String> {
    let path = target_dir().join(name);
    alone(|| {
        if path.exists() {
            return Ok(());
        }
        // Renamed when it is complete, so that what a broken run leaves is not taken for it.
        let unfinished = path.with_extension("unfinished");
        let describe = |error: std::io::Error| format!("{}: {error}", unfinished.display());
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(describe)?;
        }
        fs::create_dir_all(&unfinished).map_err(describe)?;
        make(&unfinished)?;
        fs::rename(&unfinished, &path).map_err(describe)
    })?;
    Ok(path)
}

/// What a test needs, or `None` where it is skipped, which has been said then.
pub fn or_skip<T>(what: &str, needed: Result<T, String>) -> Option<T> {
    needed.map_err(|error| skip(&format!("{what} ({})", error.replace('\n', " | ")))).ok()
}

/// A new directory for one run of a program, removed when the value is dropped.
pub fn scratch_dir() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("lockswap-e2e-").tempdir().expect("make a temporary directory")
}
