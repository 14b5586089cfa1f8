//! Memory that comes from the kernel directly: the allocator of the program may call the functions that are replaced.

use core::ffi::{c_int, c_void, CStr};
use syscalls::{syscall, Errno, Sysno};

/// Maps `bytes` bytes of zero memory, if there are as many.
pub fn map(bytes: usize) -> Option<*mut c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping.
    let address = unsafe { syscall!(Sysno::mmap, 0, bytes, access, flags, usize::MAX, 0) };
    address.ok().map(|address| address as *mut c_void)
}

/// Unmaps memory from [`map`].
///
/// # Safety
/// Nothing refers to it any more.
pub unsafe fn unmap(address: *mut c_void, bytes: usize) {
    // SAFETY: as for this call. It cannot fail.
    let _ = unsafe { syscall!(Sysno::munmap, address, bytes) };
}

/// A `T` of all zero bytes for as long as `body` runs; nothing if there is no memory.
///
/// # Safety
/// All zero bytes are a `T` whose alignment is at most a page, and `body` keeps no reference to it.
pub unsafe fn with_zeroed<T, R>(body: impl FnOnce(&mut T) -> R) -> Option<R> {
    let memory = map(size_of::<T>())?;
    // SAFETY: large enough, aligned to a page, ours alone, and a `T` as the caller says; unmapped after its last use.
    unsafe {
        let result = body(&mut *memory.cast::<T>());
        unmap(memory, size_of::<T>());
        Some(result)
    }
}

/// Maps the first `bytes` bytes of a file, shared and writable; the error of the system call that failed.
pub fn map_file(path: &CStr, bytes: usize) -> Result<*mut c_void, c_int> {
    // SAFETY: the path is a C string; the mapping is new.
    let mapping = unsafe {
        let flags = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NONBLOCK;
        let file = syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags).map_err(Errno::into_raw)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let mapping = match syscall!(Sysno::lseek, file, 0, libc::SEEK_END) {
            Ok(size) if size >= bytes => syscall!(Sysno::mmap, 0, bytes, access, libc::MAP_SHARED, file, 0),
            Ok(_) => Err(Errno::EINVAL),
            Err(error) => Err(error),
        };
        let _ = syscall!(Sysno::close, file);
        mapping
    };
    mapping.map(|address| address as *mut c_void).map_err(Errno::into_raw)
}

/// Reads the file at `path` from its beginning into `buffer`; the part that was read, as far as it could be.
pub fn read_file<'a>(path: &CStr, buffer: &'a mut [u8]) -> &'a [u8] {
    let mut length = 0;
    // SAFETY: the path is a C string, and the kernel writes into the rest of the buffer only.
    unsafe {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        if let Ok(file) = syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags) {
            while let Ok(read @ 1..) = syscall!(Sysno::read, file, buffer[length..].as_mut_ptr(), buffer.len() - length)
            {
                length += read;
            }
            let _ = syscall!(Sysno::close, file);
        }
    }
    &buffer[..length]
}

/// Data on pages of their own, which is written at start only.
#[cfg_attr(target_arch = "x86_64", repr(C, align(4096)))]
#[cfg_attr(target_arch = "aarch64", repr(C, align(65536)))]
pub struct Page<T>(pub T);

impl<T> Page<T> {
    /// Forbids writing to it. Where the kernel does not know how, it stays as it is.
    pub fn protect(&self) {
        // SAFETY: whole pages that hold nothing else, and nobody writes to them from now on.
        let _ = unsafe { syscall!(Sysno::mprotect, core::ptr::from_ref(self), size_of::<Self>(), libc::PROT_READ) };
    }
}

impl<T> core::ops::Deref for Page<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
