//! Processes that run already and are ready to be traced: started by `lockswap run`, or with `LOCKSWAP_TRACE=ready`.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use lockswap_records::trace::{FILE_BYTES, FOLDER, READY_BYTES};
use rustix::fs::{fallocate, flock, FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;

use crate::maps::{self, Mapping};
use crate::ring::Reader;
use crate::shared::{Settings, SharedFile};

/// Why a process cannot be traced.
#[derive(Debug)]
pub enum Refused {
    /// There is no such process.
    NoProcess,
    /// The process is another user's.
    NotYours,
    /// It was not started in a way that makes it ready.
    NotPrepared,
    /// It was, but made no file.
    NotReady,
    /// It is the child of a process that has ended, whose file it used.
    Orphaned,
    /// Another command traces it.
    Busy,
    /// The library in it is of another version.
    OtherVersion,
    /// There is no room for the ring.
    NoRoom(io::Error),
    /// Something else.
    Other(io::Error),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::NoProcess => "there is no such process",
            Refused::NotYours => "it is another user's",
            Refused::NotPrepared => "it was not started by lockswap run, or with LOCKSWAP_TRACE=ready",
            Refused::NotReady => "it has no second thread yet, or its limits or its sandbox keep it from being ready",
            Refused::Orphaned => "the process that forked it has ended, and with it what made it traceable",
            Refused::Busy => "another lockswap traces it",
            Refused::OtherVersion => "the library in it is of another version than this command",
            Refused::NoRoom(error) => return write!(f, "there is no room for the trace: {error}"),
            Refused::Other(error) => return error.fmt(f),
        })
    }
}

impl std::error::Error for Refused {}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Refused::Other(error)
    }
}

/// A process that is traced until this value is dropped.
pub struct Attached {
    shared: SharedFile,
    process: u32,
    inode: u64,
}

impl Attached {
    /// Starts to trace the process with this number.
    ///
    /// # Errors
    /// [`Refused`] says why not.
    pub fn new(process: u32, settings: Settings) -> Result<Self, Refused> {
        let file = open(process)?;
        let metadata = file.metadata()?;
        if metadata.len() != READY_BYTES as u64 {
            return Err(Refused::OtherVersion);
        }
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => return Err(Refused::Busy),
            locked => locked.map_err(io::Error::from)?,
        }
        // A process that writes to a mapped file without room is killed.
        fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES as u64)
            .map_err(|error| Refused::NoRoom(error.into()))?;
        let shared = SharedFile::of_process(file)?;
        if !shared.is_known() {
            return Err(Refused::OtherVersion);
        }
        // What a trace before this one has left unread.
        let mut reader = Reader::new(shared.header(), shared.ring());
        while reader.next(true, &mut Vec::new()).is_some() {}
        shared.switch_on(settings);
        Ok(Self { shared, process, inode: metadata.ino() })
    }

    /// Whether the process runs another program now (exec), which writes nothing to this file.
    pub fn is_replaced(&self) -> bool {
        let maps = maps::parse(&fs::read(format!("/proc/{}/maps", self.process)).unwrap_or_default());
        let is_it =
            |mapping: &Mapping| mapping.inode == self.inode && mapping.path.to_string_lossy().starts_with(FOLDER);
        // One that ends has nothing mapped.
        !maps.is_empty() && !maps.iter().any(is_it)
    }

    /// The file that the process writes to.
    pub fn shared(&self) -> &SharedFile {
        &self.shared
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.shared.switch_off();
    }
}

/// The processes of this user that are ready to be traced, and in the same file system as this one.
pub fn ready() -> Vec<u32> {
    let mut found: Vec<u32> = files().map(|(process, _)| process).filter(|process| open(*process).is_ok()).collect();
    found.sort_unstable();
    found
}

/// Removes the files that processes of this user left behind when they were killed: up to 32 MiB of memory each.
pub fn sweep() {
    for (process, file) in files() {
        if !Path::new("/proc").join(process.to_string()).exists() {
            // Somebody else may have removed it by now.
            let _ = fs::remove_file(file);
        }
    }
}

/// The files of this user's processes, with their numbers.
fn files() -> impl Iterator<Item = (u32, PathBuf)> {
    let user = rustix::process::geteuid().as_raw();
    let files = fs::read_dir(format!("{FOLDER}{user}")).into_iter().flatten().flatten();
    files.filter_map(|file| Some((file.file_name().to_str()?.parse().ok()?, file.path())))
}

/// The file of a process, as what it has mapped tells where it lies.
fn open(process: u32) -> Result<File, Refused> {
    let folder = PathBuf::from(format!("/proc/{process}"));
    let maps = fs::read_to_string(folder.join("maps")).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Refused::NoProcess,
        io::ErrorKind::PermissionDenied => Refused::NotYours,
        // Of a process that has just ended.
        _ if error.raw_os_error() == Some(Errno::SRCH.raw_os_error()) => Refused::NoProcess,
        _ => Refused::Other(error),
    })?;
    let Some(path) = maps.lines().find_map(|line| line.find(FOLDER).map(|at| &line[at..])) else {
        let is_loaded = maps.contains("liblockswap");
        return Err(if is_loaded { Refused::NotReady } else { Refused::NotPrepared });
    };
    if path.ends_with(" (deleted)") {
        return Err(Refused::Orphaned);
    }
    // As the process sees it, which may have other file systems than this one.
    let path = folder.join("root").join(Path::new(path).strip_prefix("/").unwrap_or(Path::new(path)));
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = OpenOptions::new().read(true).write(true).custom_flags(flags.bits() as i32).open(path);
    file.map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => Refused::NotYours,
        io::ErrorKind::NotFound => Refused::NoProcess,
        _ => Refused::Other(error),
    })
}
