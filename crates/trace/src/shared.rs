//! The file that traced processes write to, as this process maps it.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use lockswap_records::trace::{Header, FILE_BYTES, MAGIC, MOST_STACK, READY_BYTES, RING_BYTES, TABLES, TABLE_BYTES};
use lockswap_study::mapped;
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use tempfile::{NamedTempFile, TempPath};

const TABLE_WORDS: usize = TABLE_BYTES / size_of::<AtomicU64>();

/// The tables of a file that has some, by number.
#[derive(Clone, Copy)]
enum Table {
    InUse,
    Tracing,
    Plain,
}

const PREFIX: &str = "lockswap-trace-";

/// Where the file is made first: in memory, so that the kernel writes none of it to a disk.
pub(crate) const IN_MEMORY: &str = "/dev/shm";

/// What is to be noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How many bytes of a stack are copied at most; 0: no stacks.
    pub stack_bytes: u32,
    /// How far apart the samples of one thread should be, ns; 0: everything is noted.
    pub spacing_ns: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { stack_bytes: 8192, spacing_ns: 4_000_000 }
    }
}

/// The file; one that this process has made goes away when the value is dropped.
pub struct SharedFile {
    /// Where it lies; nothing where a process has made it.
    path: Option<TempPath>,
    /// What is mapped: so many bytes from here.
    begin: NonNull<u8>,
    bytes: usize,
    _file: File,
}

// SAFETY: what is mapped is used as atomics only, by any thread.
unsafe impl Sync for SharedFile {}

impl SharedFile {
    /// Makes the file, and takes the room for it now: a process that writes to a mapped file without is killed.
    pub fn create(settings: Settings) -> io::Result<Self> {
        let in_memory = mapped::create_in(Path::new(IN_MEMORY), PREFIX, FILE_BYTES);
        Self::from_file(in_memory.or_else(|_| mapped::create(PREFIX, FILE_BYTES))?, settings)
    }

    fn from_file(file: NamedTempFile, settings: Settings) -> io::Result<Self> {
        let (file, path) = file.into_parts();
        let shared = Self::map(file, Some(path), FILE_BYTES)?;
        // Relaxed: processes that read it are started later.
        shared.header().magic.store(MAGIC, Ordering::Relaxed);
        shared.settle(settings);
        Ok(shared)
    }

    /// A file that a process made when it became ready to be traced, which is [`READY_BYTES`] long.
    pub fn of_process(file: File) -> io::Result<Self> {
        Self::map(file, None, READY_BYTES)
    }

    fn map(file: File, path: Option<TempPath>, bytes: usize) -> io::Result<Self> {
        // SAFETY: the kernel chooses where, so nothing else is there. The file is as long as what is mapped, its user
        // alone may open it, and nobody of ours shortens it.
        let begin =
            unsafe { mmap(ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED, &file, 0)? };
        let begin = NonNull::new(begin.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { path, begin, bytes, _file: file })
    }

    /// Wants events, with these settings.
    fn settle(&self, settings: Settings) {
        let header = self.header();
        let stack_bytes = settings.stack_bytes.min(MOST_STACK as u32);
        // Relaxed: settings, which threads may see late, and numbers that go with them.
        header.stack_bytes.store(stack_bytes, Ordering::Relaxed);
        header.spacing.store(settings.spacing_ns, Ordering::Relaxed);
        header.lost.store(0, Ordering::Relaxed);
        header.unwatched.store(0, Ordering::Relaxed);
        let session = header.sessions.fetch_add(1, Ordering::Relaxed) + 1;
        header.on.store(session as u32, Ordering::Relaxed);
    }

    /// Whether the process that made the file has the same layout in mind.
    pub fn is_known(&self) -> bool {
        let header = self.header();
        // Relaxed: the process made the file before anybody could find it.
        let functions = header.functions.load(Ordering::Relaxed);
        header.magic.load(Ordering::Relaxed) == MAGIC && (1..=TABLE_WORDS as u64).contains(&functions)
    }

    /// Makes the process call the functions that trace.
    pub fn switch_on(&self, settings: Settings) {
        self.settle(settings);
        self.use_table(Table::Tracing);
    }

    /// Makes the process call the others.
    pub fn switch_off(&self) {
        // Relaxed: threads may see it late.
        self.header().on.store(0, Ordering::Relaxed);
        self.use_table(Table::Plain);
    }

    fn use_table(&self, table: Table) {
        // Relaxed: as in `is_known`; and an address is all that a call needs, whichever of both tables it is from.
        let functions = self.header().functions.load(Ordering::Relaxed) as usize;
        for (to, from) in self.table(Table::InUse).iter().zip(self.table(table)).take(functions) {
            to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }

    fn table(&self, table: Table) -> &[AtomicU64] {
        assert_eq!(self.bytes, READY_BYTES, "a file without tables");
        // SAFETY: as in `ring`.
        unsafe { std::slice::from_raw_parts(self.begin.add(TABLES[table as usize]).cast().as_ptr(), TABLE_WORDS) }
    }

    /// Its first page.
    pub fn header(&self) -> &Header {
        // SAFETY: the mapping is longer, page-aligned, lives as long as `self`, and what others write there is atomic.
        unsafe { self.begin.cast().as_ref() }
    }

    /// The ring behind it.
    pub fn ring(&self) -> &[AtomicU64] {
        // SAFETY: as above; the ring follows it, and its words are only used as atomics here.
        unsafe {
            let ring = self.begin.add(size_of::<Header>()).cast();
            std::slice::from_raw_parts(ring.as_ptr(), RING_BYTES / size_of::<AtomicU64>())
        }
    }

    /// What makes the preload library of a program note its locks here.
    pub fn variable(&self) -> (OsString, Option<OsString>) {
        ("LOCKSWAP_TRACE".into(), self.path.as_ref().map(|path| path.as_os_str().to_owned()))
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // SAFETY: mapped by `map`; what `header` and `ring` lend does not outlive `self`.
        let unmapped = unsafe { munmap(self.begin.as_ptr().cast(), self.bytes) };
        debug_assert!(unmapped.is_ok());
    }
}
