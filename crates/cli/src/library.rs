//! The preload library that travels inside the command: unpacked to a private folder and verified before each use.

use std::env;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::error::UserError;

const IMAGE: &[u8] = include_bytes!(env!("LOCKSWAP_EMBEDDED"));

/// How the file name of every unpacked library begins.
pub const FILE_PREFIX: &str = "liblockswap-";

const FILE_NAME: &str = concat!("liblockswap-", env!("LOCKSWAP_EMBEDDED_HASH"), ".so");

/// The embedded library.
pub fn image() -> &'static [u8] {
    IMAGE
}

/// Path of the unpacked library. Its content was compared with the embedded one, and rewritten where it differed.
pub fn unpack() -> Result<PathBuf, UserError> {
    let mut refused = Vec::new();
    for dir in candidates() {
        match unpack_to(&dir) {
            Ok(path) => return Ok(path),
            Err(error) => refused.push(format!("{}: {error}", dir.display())),
        }
    }
    Err(UserError::new(
        format!("cannot unpack the preload library ({})", refused.join("; ")),
        "set XDG_CACHE_HOME to a folder of your own, without spaces or colons in its path",
    ))
}

/// Where it may lie: the user's cache folder, else a folder of the user's below the one for temporary files.
fn candidates() -> Vec<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let own = cache.map(|dir| dir.join("lockswap"));
    let uid = rustix::process::geteuid().as_raw();
    let shared = Path::new("/tmp").join(format!("lockswap-{uid}"));
    own.into_iter().chain([shared]).collect()
}

fn unpack_to(dir: &Path) -> io::Result<PathBuf> {
    if dir.as_os_str().as_bytes().iter().any(|b| b" :\t\n".contains(b)) {
        return Err(io::Error::other("LD_PRELOAD takes no path with spaces or colons"));
    }
    own_directory(dir)?;
    let path = dir.join(FILE_NAME);
    if !holds_image(&path) {
        let mut temporary = tempfile::Builder::new().prefix(".unpacking-").tempfile_in(dir)?;
        temporary.write_all(IMAGE)?;
        temporary.as_file().set_permissions(Permissions::from_mode(0o500))?;
        temporary.persist(&path)?;
        if !holds_image(&path) {
            return Err(io::Error::other(format!("{FILE_NAME} does not hold what was written to it")));
        }
    }
    Ok(path)
}

/// Makes `dir` with access for nobody else, or checks that it is ours and nobody else can write to it.
fn own_directory(dir: &Path) -> io::Result<()> {
    if let Some(parent) = dir.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Not followed: a link in a folder for temporary files may be someone else's.
    let found = fs::symlink_metadata(dir)?;
    if !found.is_dir() {
        return Err(io::Error::other("it is not a folder"));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::Error::other(format!("it belongs to user {}", found.uid())));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(dir, Permissions::from_mode(0o700))?;
    }
    Ok(())
}

fn holds_image(path: &Path) -> bool {
    let ours = fs::symlink_metadata(path)
        .is_ok_and(|m| m.is_file() && m.uid() == rustix::process::geteuid().as_raw() && m.mode() & 0o022 == 0);
    ours && fs::read(path).is_ok_and(|content| content == IMAGE)
}
