//! Folders that nobody else can write to.

use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Makes `dir` with access for nobody else, or checks that it is ours and nobody else can write to it; its path
/// without symbolic links.
///
/// The folders above it count, too: who can write to one of them can put another folder in the place of ours.
pub fn private(dir: &Path) -> io::Result<PathBuf> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(io::Error::other("it is not the name of a folder"));
    };
    let mut builder = DirBuilder::new();
    builder.mode(0o700).recursive(true).create(parent)?;
    let parent = parent.canonicalize()?;
    parent.ancestors().try_for_each(check_above)?;
    let dir = parent.join(name);
    match builder.recursive(false).create(&dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    // Not followed: a link in a folder for temporary files may be someone else's.
    let found = fs::symlink_metadata(&dir)?;
    if !found.is_dir() {
        return Err(io::Error::other("it is not a folder"));
    }
    if found.uid() != own_id() {
        return Err(io::Error::other(format!("it belongs to user {}", found.uid())));
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(&dir, Permissions::from_mode(0o700))?;
    }
    Ok(dir)
}

/// Refuses a folder above ours that another user owns, or can write to. In a sticky folder such as `/tmp` nobody can
/// rename or remove what is someone else's.
fn check_above(folder: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(folder)?;
    // Whoever owns the root folder is trusted as root is. In a user namespace that can be another id than 0.
    let root = fs::symlink_metadata("/")?.uid();
    let refused = |why: String| Err(io::Error::other(format!("{} above it {why}", folder.display())));
    if ![0, root, own_id()].contains(&found.uid()) {
        return refused(format!("belongs to user {}", found.uid()));
    }
    if others_may_change_entries(&found) {
        return refused(format!("can be written to by others (mode {:o})", found.mode() & 0o7777));
    }
    Ok(())
}

fn others_may_change_entries(folder: &Metadata) -> bool {
    const STICKY: u32 = 0o1000;
    folder.mode() & 0o022 != 0 && folder.mode() & STICKY == 0
}

fn own_id() -> u32 {
    rustix::process::geteuid().as_raw()
}
