//! What the library says: single lines on stderr, written without an allocation.

use core::ffi::c_int;
use core::fmt::{self, Write};
use core::mem::MaybeUninit;
use syscalls::{syscall, Sysno};

/// Exit status when the environment asks for something that does not exist: as a shell's "command not found".
const CANNOT_START: c_int = 127;

/// Prints one line to stderr.
pub fn complain(message: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [MaybeUninit::uninit(); 1024], length: 0 };
    let _ = write!(line, "lockswap: {message}");
    line.end();
    // SAFETY: the bytes up to `length` are initialised.
    let _ = unsafe { syscall!(Sysno::write, libc::STDERR_FILENO, line.bytes.as_ptr(), line.length) };
}

/// Prints one line to stderr and ends the process.
pub fn die(message: fmt::Arguments<'_>) -> ! {
    complain(message);
    // SAFETY: does not return.
    unsafe {
        let _ = syscall!(Sysno::exit_group, CANNOT_START);
        core::hint::unreachable_unchecked()
    }
}

/// A line of text. Characters that do not fit are cut off, and control characters are left out, so that text from the
/// environment cannot steer a terminal.
struct Line {
    bytes: [MaybeUninit<u8>; 1024],
    length: usize,
}

impl Line {
    /// Ends the line, for which a byte is left.
    fn end(&mut self) {
        self.bytes[self.length].write(b'\n');
        self.length += 1;
    }
}

impl Write for Line {
    /// # Errors
    /// The line is full.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for kept in text.split(char::is_control).flat_map(str::chars) {
            let (mut utf8, end) = ([0; 4], self.bytes.len() - 1);
            let utf8 = kept.encode_utf8(&mut utf8).as_bytes();
            let room = self.bytes[self.length..end].get_mut(..utf8.len()).ok_or(fmt::Error)?;
            room.iter_mut().zip(utf8).for_each(|(to, from)| _ = to.write(*from));
            self.length += utf8.len();
        }
        Ok(())
    }
}

/// Text that may not be valid UTF-8: without the bytes that are not.
pub struct Lossy<'a>(pub &'a [u8]);

impl fmt::Display for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.utf8_chunks().try_for_each(|chunk| f.write_str(chunk.valid()))
    }
}
