//! Unpacking the library to a private folder; its content is verified before each use.

use std::borrow::Cow;
use std::env;
use std::fmt;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{statvfs, StatVfsMountFlags};

use crate::folder;

/// How the file name of every unpacked library begins.
pub const FILE_PREFIX: &str = "liblockswap-";

/// A preload library that lies in the memory of this process.
#[derive(Clone, Debug)]
pub struct Library {
    /// The content of its file, but for the changes.
    pub image: Cow<'static, [u8]>,
    /// What the file has in the place of some bytes of the image: from which one on, and what.
    pub changes: Vec<(usize, [u8; 16])>,
    /// The name of its file: [`FILE_PREFIX`], what tells it from libraries with other content, and `.so`.
    pub file_name: Cow<'static, str>,
}

/// Where the library was unpacked to.
#[derive(Clone, Debug)]
pub struct Unpacked {
    /// Its path.
    pub path: PathBuf,
    /// Folders that come before that one and could not be used, each with the reason.
    pub refused: Vec<String>,
}

/// No folder is fit for the library: each that was tried, with the reason.
#[derive(Clone, Debug)]
pub struct NoFolder {
    /// In the order in which they were tried.
    pub refused: Vec<String>,
}

impl NoFolder {
    /// What a user can do about it.
    pub fn remedy(&self) -> &'static str {
        "set XDG_CACHE_HOME to a folder of your own, where programs may be executed, without spaces or colons in its path"
    }
}

impl fmt::Display for NoFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot unpack the preload library ({})", self.refused.join("; "))
    }
}

impl std::error::Error for NoFolder {}

impl Library {
    /// Unpacks the library to the first folder that is fit for it. Its content was compared with the image, and
    /// rewritten where it differed.
    pub fn unpack(&self) -> Result<Unpacked, NoFolder> {
        let mut refused = Vec::new();
        for dir in candidates() {
            match self.unpack_to(&dir) {
                Ok(path) => return Ok(Unpacked { path, refused }),
                Err(error) => refused.push(format!("{}: {error}", dir.display())),
            }
        }
        Err(NoFolder { refused })
    }

    fn unpack_to(&self, dir: &Path) -> io::Result<PathBuf> {
        check_name(dir)?;
        let dir = folder::private(dir)?;
        check_name(&dir)?;
        if statvfs(&dir)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
            return Err(io::Error::other("no program code can be loaded from its file system (mounted noexec)"));
        }
        let path = dir.join(&*self.file_name);
        if !self.is_at(&path) {
            let mut temporary = tempfile::Builder::new().prefix(".unpacking-").tempfile_in(dir)?;
            temporary.write_all(&self.content())?;
            temporary.as_file().set_permissions(Permissions::from_mode(0o500))?;
            temporary.persist(&path)?;
            if !self.is_at(&path) {
                return Err(io::Error::other(format!("{} does not hold what was written to it", self.file_name)));
            }
        }
        Ok(path)
    }

    fn is_at(&self, path: &Path) -> bool {
        let ours = fs::symlink_metadata(path)
            .is_ok_and(|m| m.is_file() && m.uid() == rustix::process::geteuid().as_raw() && m.mode() & 0o022 == 0);
        ours && fs::read(path).is_ok_and(|content| self.is_content(content))
    }

    fn content(&self) -> Vec<u8> {
        let mut content = self.image.to_vec();
        for (place, bytes) in &self.changes {
            content[*place..place + bytes.len()].copy_from_slice(bytes);
        }
        content
    }

    /// Whether this is what [`Library::content`] gives; without a copy of the image, since each start of a program asks.
    fn is_content(&self, mut found: Vec<u8>) -> bool {
        found.len() == self.image.len()
            && self.changes.iter().all(|(place, bytes)| {
                let range = *place..place + bytes.len();
                let is_there = found[range.clone()] == *bytes;
                found[range.clone()].copy_from_slice(&self.image[range]);
                is_there
            })
            && found == *self.image
    }
}

/// Where it may lie: the user's cache folder, else the one for a login, else a folder of the user's where all users
/// may have one. A file without a name in any folder is no last resort: a program that closes descriptors that it does
/// not know would leave its children a path that leads nowhere, or to another file.
fn candidates() -> Vec<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")));
    let own = cache.into_iter().chain(absolute("XDG_RUNTIME_DIR")).map(|dir| dir.join("lockswap"));
    let uid = rustix::process::geteuid().as_raw();
    let shared = ["/tmp", "/dev/shm"].map(|dir| Path::new(dir).join(format!("lockswap-{uid}")));
    own.chain(shared).collect()
}

fn check_name(dir: &Path) -> io::Result<()> {
    if dir.as_os_str().as_bytes().iter().any(|b| b" :\t\n".contains(b)) {
        return Err(io::Error::other("LD_PRELOAD takes no path with spaces or colons"));
    }
    Ok(())
}
