//! Files that the preload library of a running program maps and writes to.
//!
//! They have a path, not only a descriptor: programs close descriptors that they do not know, and `/proc/PID/fd` of
//! this process is closed to a program in a user namespace of its own.

use std::env;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{fallocate, FallocateFlags};
use rustix::io::Errno;
use tempfile::NamedTempFile;

/// A file of so many zero bytes in the folder for temporary files, or in memory where that one is full or read-only.
/// It goes away when the value is dropped.
pub fn create(prefix: &str, bytes: usize) -> io::Result<NamedTempFile> {
    let mut refused = Vec::new();
    for folder in [env::temp_dir(), PathBuf::from("/dev/shm")] {
        match create_in(&folder, prefix, bytes) {
            Ok(file) => return Ok(file),
            Err(error) => refused.push(format!("{}: {error}", folder.display())),
        }
    }
    Err(io::Error::other(format!("no file for it can be made in {}", refused.join(" or in "))))
}

/// The same in one folder.
pub fn create_in(folder: &Path, prefix: &str, bytes: usize) -> io::Result<NamedTempFile> {
    let file = tempfile::Builder::new().prefix(prefix).tempfile_in(folder)?;
    reserve(file.as_file(), bytes)?;
    Ok(file)
}

/// Makes the file that long and takes the room for it now: a program that writes to a mapped file for which the disk
/// has no room left is killed (SIGBUS).
fn reserve(mut file: &File, bytes: usize) -> io::Result<()> {
    match fallocate(file, FallocateFlags::empty(), 0, bytes as u64) {
        // Not every file system can do that.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => file.write_all(&vec![0; bytes]),
        done => Ok(done?),
    }
}
