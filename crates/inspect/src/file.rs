//! Reading files that somebody else's file names: nothing but a program or a library of a sensible size is read.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

/// The largest file that is read.
const MOST_BYTES: u64 = 1 << 29;

/// The content of a program, a library or a script; of any other file its first bytes.
pub fn read_program(path: &Path) -> io::Result<Vec<u8>> {
    // To open a device can have an effect by itself, and to open a pipe can wait for ever.
    check(&fs::metadata(path)?)?;
    let without_waiting = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(without_waiting.bits() as i32).open(path)?;
    check(&file.metadata()?)?;
    read_bounded(file)
}

fn check(found: &fs::Metadata) -> io::Result<()> {
    if !found.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if found.len() > MOST_BYTES {
        return Err(io::Error::other(format!("it is larger than {} MiB", MOST_BYTES >> 20)));
    }
    Ok(())
}

fn read_bounded(file: File) -> io::Result<Vec<u8>> {
    const START: u64 = 4;
    let mut bytes = Vec::new();
    let mut file = file.take(START);
    file.read_to_end(&mut bytes)?;
    let limit = if bytes.starts_with(b"\x7fELF") {
        MOST_BYTES
    } else if bytes.starts_with(b"#!") {
        // The kernel looks no further for the interpreter, either.
        256
    } else {
        START
    };
    file.set_limit(limit - START);
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}
