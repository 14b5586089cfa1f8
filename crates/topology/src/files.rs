//! Reading small text files below a folder, without an allocator and without changing `errno`.

use core::ffi::{c_char, CStr};
use core::fmt::{self, Write};

use lockswap_platform::CpuList;
use syscalls::{syscall, Errno, Sysno};

/// A folder laid out like `/sys`, or the text of one.
pub trait Files {
    /// The content of the file at `path`, which is relative to the folder, in `buffer`. `None` if there is none, it
    /// cannot be read, or it is longer than the buffer.
    fn read<'b>(&self, path: fmt::Arguments<'_>, buffer: &'b mut [u8]) -> Option<&'b [u8]>;
}

/// A folder that may not be there.
impl<F: Files> Files for Option<F> {
    fn read<'b>(&self, path: fmt::Arguments<'_>, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        self.as_ref()?.read(path, buffer)
    }
}

/// Longest path below the folder, with the byte that ends it.
const PATH_BYTES: usize = 512;
/// Longest file: a list of 4096 CPUs, none of which has a neighbour with the next number, takes 10 KB, but no machine
/// is numbered like that.
const TEXT_BYTES: usize = 4096;

/// A folder on disk.
#[derive(Debug)]
pub struct Folder(usize);

impl Folder {
    /// Opens the folder at `path`.
    pub fn open(path: &CStr) -> Result<Self, Errno> {
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        // SAFETY: the path is a C string.
        unsafe { syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags) }.map(Folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // SAFETY: ours, and used no more.
        let _ = unsafe { syscall!(Sysno::close, self.0) };
    }
}

impl Files for Folder {
    fn read<'b>(&self, path: fmt::Arguments<'_>, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
        let name = Path::new(path)?;
        // Not blocking: what lies in a folder of the user's may be a pipe.
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: the path is ended by a zero byte, the file is open while it is read, the buffer is as long as said.
        unsafe {
            let file = syscall!(Sysno::openat, self.0, name.as_ptr(), flags).ok()?;
            let length = fill(file, buffer);
            let _ = syscall!(Sysno::close, file);
            Some(&buffer[..length?])
        }
    }
}

/// Reads a file to its end; `None` if that fails or the buffer is full.
///
/// # Safety
/// `file` is open.
unsafe fn fill(file: usize, buffer: &mut [u8]) -> Option<usize> {
    let mut length = 0;
    loop {
        let rest = &mut buffer[length..];
        // SAFETY: the kernel writes at most that many bytes.
        let read = unsafe { syscall!(Sysno::read, file, rest.as_mut_ptr(), rest.len()) }.ok()?;
        length += read;
        if length == buffer.len() {
            return None;
        }
        // A file of sysfs ends with a line break: no need to ask again.
        if read == 0 || buffer[length - 1] == b'\n' {
            return Some(length);
        }
    }
}

/// The first bytes of the file at `path`, as many as fit into the buffer.
pub fn beginning<'b>(path: &CStr, buffer: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    // Not blocking: the path may have come to name a pipe.
    let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
    let mut length = 0;
    // SAFETY: the path is a C string, the file is open while it is read, the rest of the buffer is as long as said.
    unsafe {
        let file = syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags)?;
        let ended = loop {
            let rest = &mut buffer[length..];
            match syscall!(Sysno::read, file, rest.as_mut_ptr(), rest.len()) {
                Ok(0) => break Ok(()),
                Ok(read) => length += read,
                Err(error) => break Err(error),
            }
        };
        let _ = syscall!(Sysno::close, file);
        ended.map(|()| &buffer[..length])
    }
}

/// A path, ended by a zero byte.
pub struct Path {
    bytes: [u8; PATH_BYTES],
    length: usize,
}

impl Path {
    /// The path, unless it is longer than fits.
    pub fn new(path: fmt::Arguments<'_>) -> Option<Self> {
        let mut name = Path { bytes: [0; PATH_BYTES], length: 0 };
        name.write_fmt(path).ok()?;
        Some(name)
    }

    /// For a system call.
    pub fn as_ptr(&self) -> *const c_char {
        self.bytes.as_ptr().cast()
    }
}

impl Write for Path {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        if end >= PATH_BYTES {
            return Err(fmt::Error);
        }
        self.bytes[self.length..end].copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// Reads numbers and lists of CPUs.
pub struct Reader<'a, F> {
    files: &'a F,
    text: [u8; TEXT_BYTES],
}

impl<'a, F: Files> Reader<'a, F> {
    /// Reads from `files`.
    pub fn new(files: &'a F) -> Self {
        Reader { files, text: [0; TEXT_BYTES] }
    }

    /// The text of the file at `path` without white space around it.
    pub fn text(&mut self, path: fmt::Arguments<'_>) -> Option<&str> {
        let bytes = self.files.read(path, &mut self.text)?;
        core::str::from_utf8(bytes).ok().map(str::trim)
    }

    /// The number in the file at `path`.
    pub fn number(&mut self, path: fmt::Arguments<'_>) -> Option<u32> {
        self.text(path)?.parse().ok()
    }

    /// The list of CPUs, or of NUMA nodes, in the file at `path`; `None` if it is empty.
    pub fn list(&mut self, path: fmt::Arguments<'_>) -> Option<CpuList<'_>> {
        CpuList::parse(self.text(path)?.as_bytes())
    }
}
