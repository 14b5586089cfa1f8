//! Debian packages that the tests need.

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
    apt_get(&["update", "-q", "-o", wait])?;
    apt_get(&["install", "-y", "-q", "--no-install-recommends", "-o", wait, package])
}

fn find_or_install(what: &str, package: &str, find: impl Fn() -> Option<PathBuf>) -> PathBuf {
    if let Some(path) = find() {
        return path;
    }
    let reason = install(package).err();
    find().unwrap_or_else(|| {
        let reason = reason.unwrap_or_else(|| "the package does not contain it".to_string());
        panic!("{what} is missing, and with it this test: apt-get install {package} ({reason})")
    })
}

/// The program's path; installs the Debian package when it is missing, and fails the test naming it when that fails.
pub fn need(program: &str, package: &str) -> PathBuf {
    find_or_install(program, package, || search_path(program))
}

/// The path of a shared library from a Debian package.
pub fn library(name: &str, package: &str) -> PathBuf {
    find_or_install(name, package, || {
        let directories = std::fs::read_dir("/usr/lib").ok()?;
        let mut all: Vec<PathBuf> = directories.flatten().map(|entry| entry.path()).collect();
        all.push(Path::new("/usr/lib").to_path_buf());
        let native = format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
        all.sort_by_key(|directory| directory.as_os_str() != native.as_str());
        all.into_iter().map(|directory| directory.join(name)).find(|file| file.exists())
    })
}

/// A file from a Debian package that is no program, by its path.
pub fn file(path: &Path, package: &str) -> PathBuf {
    find_or_install(&path.to_string_lossy(), package, || path.is_file().then(|| path.to_owned()))
}
