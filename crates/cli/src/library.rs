//! The preload library that travels inside the command: unpacked to a private folder and verified before each use.

use std::env;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{statvfs, StatVfsMountFlags};

use crate::error::UserError;
use crate::folder;

const IMAGE: &[u8] = include_bytes!(env!("LOCKSWAP_EMBEDDED"));

/// How the file name of every unpacked library begins.
pub const FILE_PREFIX: &str = "liblockswap-";

const FILE_NAME: &str = concat!("liblockswap-", env!("LOCKSWAP_EMBEDDED_HASH"), ".so");

/// The embedded library.
pub fn image() -> &'static [u8] {
    IMAGE
}

/// Where the library was unpacked to.
pub struct Unpacked {
    /// Its path.
    pub path: PathBuf,
    /// Folders that come before that one and could not be used, each with the reason.
    pub refused: Vec<String>,
}

/// Unpacks the library to the first folder that is fit for it. Its content was compared with the embedded one, and
/// rewritten where it differed.
pub fn unpack() -> Result<Unpacked, UserError> {
    let mut refused = Vec::new();
    for dir in candidates() {
        match unpack_to(&dir) {
            Ok(path) => return Ok(Unpacked { path, refused }),
            Err(error) => refused.push(format!("{}: {error}", dir.display())),
        }
    }
    Err(UserError::new(
        format!("cannot unpack the preload library ({})", refused.join("; ")),
        "set XDG_CACHE_HOME to a folder of your own, where programs may be executed, without spaces or colons in its path",
    ))
}

/// Where it may lie: the user's cache folder, else the one for a login, else a folder of the user's where all users may
/// have one. A file without a name in any folder is no last resort: a program that closes descriptors that it does not
/// know would leave its children a path that leads nowhere, or to another file.
fn candidates() -> Vec<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let own = cache.into_iter().chain(absolute("XDG_RUNTIME_DIR")).map(|dir| dir.join("lockswap"));
    let uid = rustix::process::geteuid().as_raw();
    let shared = ["/tmp", "/dev/shm"].map(|dir| Path::new(dir).join(format!("lockswap-{uid}")));
    own.chain(shared).collect()
}

fn unpack_to(dir: &Path) -> io::Result<PathBuf> {
    check_name(dir)?;
    let dir = folder::private(dir)?;
    check_name(&dir)?;
    if statvfs(&dir)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(io::Error::other("no program code can be loaded from its file system (mounted noexec)"));
    }
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

fn check_name(dir: &Path) -> io::Result<()> {
    if dir.as_os_str().as_bytes().iter().any(|b| b" :\t\n".contains(b)) {
        return Err(io::Error::other("LD_PRELOAD takes no path with spaces or colons"));
    }
    Ok(())
}

fn holds_image(path: &Path) -> bool {
    let ours = fs::symlink_metadata(path)
        .is_ok_and(|m| m.is_file() && m.uid() == rustix::process::geteuid().as_raw() && m.mode() & 0o022 == 0);
    ours && fs::read(path).is_ok_and(|content| content == IMAGE)
}
