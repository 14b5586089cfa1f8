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
    try_read_file(path, buffer).unwrap_or_default()
}

/// The same; the error of the system call where it cannot be opened or read at all.
pub fn try_read_file<'a>(path: &CStr, buffer: &'a mut [u8]) -> Result<&'a [u8], c_int> {
    let mut length = 0;
    let last;
    // SAFETY: the path is a C string, and the kernel writes into the rest of the buffer only.
    unsafe {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        let file = syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags).map_err(Errno::into_raw)?;
        loop {
            let rest = &mut buffer[length..];
            match syscall!(Sysno::read, file, rest.as_mut_ptr(), rest.len()) {
                Ok(read @ 1..) => length += read,
                other => {
                    last = other;
                    break;
                }
            }
        }
        let _ = syscall!(Sysno::close, file);
    }
    match last {
        Err(error) if length == 0 => Err(error.into_raw()),
        _ => Ok(&buffer[..length]),
    }
}

/// Reads where a symbolic link leads; a path that fits with the zero byte behind it, else nothing.
pub fn read_link(path: &CStr, buffer: &mut [u8]) {
    // SAFETY: the path is a C string, and the kernel writes into the buffer only.
    let length =
        unsafe { syscall!(Sysno::readlinkat, libc::AT_FDCWD, path.as_ptr(), buffer.as_mut_ptr(), buffer.len()) };
    let end = length.ok().filter(|length| *length < buffer.len()).unwrap_or(0);
    buffer[end] = 0;
}

/// A file that is mapped to be read, until this is dropped.
pub struct FileMapping {
    address: *mut c_void,
    bytes: usize,
}

impl FileMapping {
    /// The whole file at `path`.
    pub fn of(path: &CStr) -> Option<FileMapping> {
        // SAFETY: the path is a C string; the mapping is new.
        unsafe {
            let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
            let file = syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags).ok()?;
            let bytes = syscall!(Sysno::lseek, file, 0, libc::SEEK_END).unwrap_or(0);
            let mapping = syscall!(Sysno::mmap, 0, bytes, libc::PROT_READ, libc::MAP_PRIVATE, file, 0);
            let _ = syscall!(Sysno::close, file);
            Some(FileMapping { address: mapping.ok()? as *mut c_void, bytes })
        }
    }

    /// What is in it.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped until this is dropped. A program that shortens a file that it runs crashes by itself.
        unsafe { core::slice::from_raw_parts(self.address.cast(), self.bytes) }
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: mapped by `of`, and whoever read it is done.
        unsafe { unmap(self.address, self.bytes) };
    }
}

/// Data on pages of their own, which is written at start, and seldom after that.
#[cfg_attr(target_arch = "x86_64", repr(C, align(4096)))]
#[cfg_attr(target_arch = "aarch64", repr(C, align(65536)))]
pub struct Page<T>(pub T);

impl<T> Page<T> {
    /// Forbids writing to it. Where the kernel does not know how, it stays as it is.
    pub fn protect(&self) {
        let _ = self.allow(libc::PROT_READ);
    }

    /// Calls `f`, which may write to it although that was forbidden. Where the kernel does not permit it, `f` is not
    /// called.
    pub fn change(&self, f: impl FnOnce()) {
        if self.allow(libc::PROT_READ | libc::PROT_WRITE).is_ok() {
            f();
            self.protect();
        }
    }

    fn allow(&self, access: c_int) -> Result<usize, Errno> {
        // SAFETY: whole pages that hold nothing else; who writes to them makes sure that it is allowed.
        unsafe { syscall!(Sysno::mprotect, core::ptr::from_ref(self), size_of::<Self>(), access) }
    }
}

impl<T> core::ops::Deref for Page<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
