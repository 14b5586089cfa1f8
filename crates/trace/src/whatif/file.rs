//! The file between the command and the program of an experiment, as this process maps it.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use lockswap_records::whatif::{Shared, FILE_BYTES, MAGIC};
use lockswap_study::mapped;
use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};
use tempfile::NamedTempFile;

use crate::shared::IN_MEMORY;

const PREFIX: &str = "lockswap-whatif-";

/// The file, which goes away when the value is dropped.
pub struct SharedFile {
    file: NamedTempFile,
    begin: NonNull<Shared>,
}

impl SharedFile {
    /// Makes the file.
    pub fn create() -> io::Result<Self> {
        let in_memory = mapped::create_in(Path::new(IN_MEMORY), PREFIX, FILE_BYTES);
        let file = in_memory.or_else(|_| mapped::create(PREFIX, FILE_BYTES))?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses where, so nothing else is there. The file is as long as what is mapped, its user
        // alone may open it, and nobody of ours shortens it.
        let begin = unsafe { mmap(ptr::null_mut(), FILE_BYTES, access, MapFlags::SHARED, &file, 0)? };
        let begin = NonNull::new(begin.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        let shared = Self { file, begin };
        // Relaxed: programs that read it are started later.
        shared.get().magic.store(MAGIC, Ordering::Relaxed);
        Ok(shared)
    }

    /// What is in it.
    pub fn get(&self) -> &Shared {
        // SAFETY: the mapping is as long, page-aligned, lives as long as `self`, and is made of atomics.
        unsafe { self.begin.as_ref() }
    }

    /// What makes the preload library of a program take part.
    pub fn variable(&self) -> (OsString, Option<OsString>) {
        ("LOCKSWAP_WHATIF".into(), Some(self.file.path().as_os_str().to_owned()))
    }
}

impl Drop for SharedFile {
    fn drop(&mut self) {
        // SAFETY: mapped by `create`; what `get` lends does not outlive `self`.
        let unmapped = unsafe { munmap(self.begin.as_ptr().cast(), FILE_BYTES) };
        debug_assert!(unmapped.is_ok());
    }
}
