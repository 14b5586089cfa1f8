//! Debian packages that the tests need: where one is missing the test is skipped. With `LOCKSWAP_TESTS_MUST_RUN=1`
//! missing packages are installed, by root. `.ci/run` has then installed those that `tests/packages` names, all at
//! once, since each call of apt-get takes seconds.

use crate::skip::{must_run, say, skip};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

fn search_path(program: &str) -> Option<PathBuf> {
    // Debian's own directories first: what users put before them may be a wrapper script.
    let own = ["/usr/bin", "/usr/sbin", "/bin", "/usr/games"].map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = own.into_iter().chain(std::env::split_paths(&path));
    all.map(|directory| directory.join(program)).find(|file| file.is_file())
}

fn apt_get(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("apt-get")
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .map_err(|error| format!("apt-get: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_string())
}

fn install(package: &str) -> Result<(), String> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    if !rustix::process::geteuid().is_root() {
        return Err("only root can install it".to_string());
    }
    let wait = "DPkg::Lock::Timeout=300";
    let install = || apt_get(&["install", "-y", "-q", "--no-install-recommends", "-o", wait, package]);
    // The package lists may be missing, or name versions that the archive has no more.
    install().or_else(|_| apt_get(&["update", "-q", "-o", wait]).and_then(|()| install()))?;
    say(&format!("installed {package}; with those that tests/packages names it would have been quicker"));
    Ok(())
}

fn find_or_install(package: &str, find: impl Fn() -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(path) = find() {
        return Some(path);
    }
    let installed = if must_run() { install(package) } else { Ok(()) };
    let found = find();
    if found.is_none() {
        let why = installed.err().map_or(String::new(), |error| format!("; {error}"));
        skip(&format!("{package} (apt-get install {package}{why})"));
    }
    found
}

/// The program's path, or `None` where the test is skipped, which has been said then.
#[must_use = "without the program the test ends: `let Some(path) = need(..) else { return };`"]
pub fn need(program: &str, package: &str) -> Option<PathBuf> {
    find_or_install(package, || search_path(program))
}

/// The path of a shared library from a Debian package, as with [`need`].
#[must_use = "without the library the test ends: `let Some(path) = library(..) else { return };`"]
pub fn library(name: &str, package: &str) -> Option<PathBuf> {
    find_or_install(package, || {
        let directories = std::fs::read_dir("/usr/lib").ok()?;
        let mut all: Vec<PathBuf> = directories.flatten().map(|entry| entry.path()).collect();
        all.push(Path::new("/usr/lib").to_path_buf());
        let native = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        all.sort_by_key(|directory| directory.as_os_str() != native.as_str());
        all.into_iter().map(|directory| directory.join(name)).find(|file| file.exists())
    })
}

/// A file from a Debian package that is no program, by its path, as with [`need`].
#[must_use = "without the file the test ends: `let Some(path) = file(..) else { return };`"]
pub fn file(path: &Path, package: &str) -> Option<PathBuf> {
    find_or_install(package, || path.is_file().then(|| path.to_owned()))
}
