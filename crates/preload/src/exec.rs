//! Programs that this one starts and that cannot load the library run as they would without it: its path is taken out
//! of their `LD_PRELOAD`, else the dynamic linker of another C library would refuse to start them, or complain. They
//! are noted for `--summary`.
//!
//! A program is looked at in the process that is about to become it, which may be the child of a `vfork` and share the
//! memory of its parent: nothing here allocates, and nothing is changed but on the stack.
//!
//! `execl`, `execle`, `execlp`, `fexecve`, `system` and `popen` do not come here; what `system` and `popen` start is a
//! shell, which does.

use crate::counters::note_child;
use crate::environment::Environment as Variables;
use crate::functions::{Strings, ACTIVE, REAL};
use core::ffi::{c_char, c_int, c_void, CStr};
use core::mem::MaybeUninit;
use core::ptr::null;
use core::sync::atomic::{AtomicU64, Ordering};
use libc::pid_t;
use lockswap_records::counters::Plain;
use syscalls::{syscall, Sysno};

extern "C" {
    static environ: Strings;
}

/// How the file name of the library begins, whoever has put it where.
const LIBRARY: &[u8] = b"liblockswap";
/// Variables of an environment that is passed on without ours; of a larger one nothing is taken out.
const MOST_VARIABLES: usize = 1000;
/// Bytes of an `LD_PRELOAD` that is passed on without ours; of a longer one nothing is left.
const MOST_PRELOADS: usize = 1024;
/// Interpreters of scripts that are followed, as in the kernel.
const MOST_INTERPRETERS: usize = 4;

/// Device and file number of this program's dynamic linker; 0 if unknown. Relaxed: set while the process has one
/// thread.
static LINKER: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// An open file.
struct File(usize);

impl File {
    fn open(path: &CStr) -> Option<File> {
        let flags = libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NONBLOCK;
        // SAFETY: a C string.
        unsafe { syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags) }.ok().map(File)
    }

    /// Reads at `offset`; what was read.
    fn read<'a>(&self, buffer: &'a mut [u8], offset: usize) -> &'a [u8] {
        // SAFETY: the kernel writes into the buffer only.
        let read = unsafe { syscall!(Sysno::pread64, self.0, buffer.as_mut_ptr(), buffer.len(), offset) };
        &buffer[..read.unwrap_or(0)]
    }

    /// Device and number.
    fn identity(&self) -> Option<[u64; 2]> {
        /// What the dynamic linker calls as well.
        #[cfg(target_arch = "x86_64")]
        const STAT: Sysno = Sysno::newfstatat;
        #[cfg(target_arch = "aarch64")]
        const STAT: Sysno = Sysno::fstatat;
        let mut found = MaybeUninit::<libc::stat>::zeroed();
        // SAFETY: an empty path stands for the file itself; the kernel writes the result.
        let result = unsafe { syscall!(STAT, self.0, c"".as_ptr(), found.as_mut_ptr(), libc::AT_EMPTY_PATH) };
        // SAFETY: zero is a value, and the kernel may have written another.
        let found = unsafe { found.assume_init() };
        result.is_ok().then_some([found.st_dev, found.st_ino])
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: opened above.
        let _ = unsafe { syscall!(Sysno::close, self.0) };
    }
}

/// Why the program at `path` cannot load the library; nothing if it can, as far as can be seen.
#[inline(never)]
fn why_plain(path: &CStr) -> Option<Plain> {
    let mut script = [0; 256];
    let mut program = File::open(path)?;
    for _ in 0..MOST_INTERPRETERS {
        let line = match program.read(&mut script, 0).strip_prefix(b"#!") {
            None => break,
            Some(rest) => rest,
        };
        let start = line.iter().position(|byte| !b" \t".contains(byte))?;
        let length = line[start..].iter().position(|byte| b" \t\n\0".contains(byte))?;
        let mut name = [0; 256];
        name[..length].copy_from_slice(&line[start..][..length]);
        program = File::open(CStr::from_bytes_until_nul(&name).ok()?)?;
    }
    match linker_of(&program, &mut [0; 256]) {
        Linker::Named(linker) => why_linker_is_other(linker),
        Linker::None(plain) => Some(plain),
        Linker::Unknown => None,
    }
}

/// The name of a program's dynamic linker, if it has one.
enum Linker<'a> {
    Named(&'a CStr),
    None(Plain),
    /// Not a program that can be read.
    Unknown,
}

/// Looks for the dynamic linker of `program`, which is an ELF file.
fn linker_of<'a>(program: &File, name: &'a mut [u8; 256]) -> Linker<'a> {
    const CLASS_64: u8 = 2;
    #[cfg(target_arch = "x86_64")]
    const MACHINE: u16 = 62;
    #[cfg(target_arch = "aarch64")]
    const MACHINE: u16 = 183;
    fn half(bytes: &[u8], at: usize) -> u16 {
        u16::from_le_bytes([bytes[at], bytes[at + 1]])
    }
    fn word(bytes: &[u8], at: usize) -> usize {
        bytes[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | *byte as usize)
    }
    let mut head = [0; 64];
    if program.read(&mut head, 0).len() < 64 || !head.starts_with(b"\x7fELF") {
        return Linker::Unknown;
    }
    if head[4] != CLASS_64 || half(&head, 18) != MACHINE {
        return Linker::None(Plain::OtherMachine);
    }
    for index in 0..half(&head, 56).min(64) as usize {
        let mut header = [0; 56];
        let offset = word(&head, 32).wrapping_add(index * half(&head, 54) as usize);
        if program.read(&mut header, offset).len() < 56 {
            return Linker::Unknown;
        }
        if header[..4] == libc::PT_INTERP.to_le_bytes() {
            return CStr::from_bytes_until_nul(program.read(name, word(&header, 8)))
                .map_or(Linker::Unknown, Linker::Named);
        }
    }
    Linker::None(Plain::Static)
}

fn why_linker_is_other(path: &CStr) -> Option<Plain> {
    let name = path.to_bytes().rsplit(|byte| *byte == b'/').next()?;
    if !name.starts_with(b"ld-linux") {
        return Some(Plain::OtherLibrary);
    }
    let linker = File::open(path)?;
    let own = [0, 1].map(|word: usize| LINKER[word].load(Ordering::Relaxed));
    (linker.identity()? != own && !knows_version(&linker)).then_some(Plain::OldGlibc)
}

/// Whether the dynamic linker belongs to glibc 2.34 or later: it names that version in itself.
#[cold]
#[inline(never)]
fn knows_version(linker: &File) -> bool {
    const VERSION: &[u8] = b"GLIBC_2.34\0";
    let mut buffer = [0; 4096];
    let mut offset = 0;
    loop {
        let read = linker.read(&mut buffer, offset);
        if read.windows(VERSION.len()).any(|part| part == VERSION) {
            return true;
        }
        if read.len() < VERSION.len() {
            return false;
        }
        // The name may lie across the end.
        offset += read.len() - (VERSION.len() - 1);
    }
}

/// An environment without the library, on the stack.
struct Environment {
    preloads: [u8; MOST_PRELOADS],
    variables: [*const c_char; MOST_VARIABLES + 1],
}

impl Environment {
    /// Fills in `list` without the library. Returns the new list, or `list` if there is nothing to take out, or no
    /// room.
    ///
    /// # Safety
    /// `list` is null or an environment.
    unsafe fn without_library(&mut self, list: Strings) -> Strings {
        const NAME: &[u8] = b"LD_PRELOAD=";
        let mut has_library = false;
        for index in 0.. {
            // SAFETY: up to the null pointer.
            let variable = unsafe { *list.add(index) };
            if index == MOST_VARIABLES {
                return list;
            }
            self.variables[index] = variable;
            if variable.is_null() {
                break;
            }
            // SAFETY: a C string.
            if let Some(preloads) = unsafe { CStr::from_ptr(variable) }.to_bytes().strip_prefix(NAME) {
                let others = preloads.split(|byte| b": ".contains(byte)).filter(|path| !is_library(path));
                let mut length = NAME.len();
                self.preloads[..length].copy_from_slice(NAME);
                for other in others {
                    if length + other.len() + 1 < MOST_PRELOADS {
                        self.preloads[length..][..other.len()].copy_from_slice(other);
                        length += other.len() + 1;
                        self.preloads[length - 1] = b':';
                    }
                }
                self.preloads[length.min(MOST_PRELOADS - 1)] = 0;
                self.variables[index] = self.preloads.as_ptr().cast();
                has_library = true;
            }
        }
        if has_library {
            self.variables.as_ptr()
        } else {
            list
        }
    }
}

fn is_library(path: &[u8]) -> bool {
    path.rsplit(|byte| *byte == b'/').next().is_some_and(|name| name.starts_with(LIBRARY))
}

/// Whether this environment loads the library.
///
/// # Safety
/// `list` is null or an environment.
unsafe fn loads_library(list: Strings) -> bool {
    if list.is_null() {
        return false;
    }
    // SAFETY: up to the null pointer; C strings.
    unsafe {
        (0..).map(|index| *list.add(index)).take_while(|variable| !variable.is_null()).any(|variable| {
            let preloads = CStr::from_ptr(variable).to_bytes().strip_prefix(b"LD_PRELOAD=");
            preloads.is_some_and(|preloads| preloads.split(|byte| b": ".contains(byte)).any(is_library))
        })
    }
}

/// Runs `start` with the environment that suits the program at `path`.
///
/// # Safety
/// A path, and an environment or null.
unsafe fn with_environment(path: *const c_char, list: Strings, start: impl FnOnce(Strings) -> c_int) -> c_int {
    // SAFETY: as for this call.
    unsafe {
        if path.is_null() || !loads_library(list) {
            return start(list);
        }
        let path = CStr::from_ptr(path);
        match why_plain(path) {
            None => start(list),
            Some(plain) => {
                note_child(path, plain);
                match plain {
                    // It takes no notice of the variable, but what it starts does.
                    Plain::Static => start(list),
                    _ => without_library(list, start),
                }
            }
        }
    }
}

/// In a frame of its own: a program may start others on a small stack.
///
/// # Safety
/// As for [`with_environment`].
#[cold]
#[inline(never)]
unsafe fn without_library(list: Strings, start: impl FnOnce(Strings) -> c_int) -> c_int {
    let mut without = Environment { preloads: [0; MOST_PRELOADS], variables: [null(); MOST_VARIABLES + 1] };
    // SAFETY: as for this call.
    unsafe { start(without.without_library(list)) }
}

/// The same for a program that is looked for in `PATH`, as the C library does, unless its name has a slash.
///
/// # Safety
/// As for [`with_environment`].
unsafe fn with_found(file: *const c_char, list: Strings, start: impl FnOnce(Strings) -> c_int) -> c_int {
    // SAFETY: as for this call; an environment that nobody changes meanwhile.
    unsafe {
        let name = CStr::from_ptr(file).to_bytes();
        if name.contains(&b'/') {
            return with_environment(file, list, start);
        }
        let folders = Variables::List(environ).get("PATH").map_or(&b"/bin:/usr/bin"[..], CStr::to_bytes);
        let mut path = [0u8; 1024];
        for folder in folders.split(|byte| *byte == b':') {
            let length = folder.len() + 1 + name.len();
            if folder.is_empty() || length >= path.len() {
                continue;
            }
            path[..folder.len()].copy_from_slice(folder);
            path[folder.len()] = b'/';
            path[folder.len() + 1..length].copy_from_slice(name);
            path[length] = 0;
            if syscall!(Sysno::faccessat, libc::AT_FDCWD, path.as_ptr(), libc::X_OK).is_ok() {
                return with_environment(path.as_ptr().cast(), list, start);
            }
        }
        start(list)
    }
}

unsafe extern "C-unwind" fn execve(path: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { with_environment(path, environment, |list| REAL.execve.get()(path, arguments, list)) }
}

unsafe extern "C-unwind" fn execv(path: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { with_environment(path, environ, |list| REAL.execve.get()(path, arguments, list)) }
}

unsafe extern "C-unwind" fn execvp(file: *const c_char, arguments: Strings) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { with_found(file, environ, |list| REAL.execvpe.get()(file, arguments, list)) }
}

unsafe extern "C-unwind" fn execvpe(file: *const c_char, arguments: Strings, environment: Strings) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { with_found(file, environment, |list| REAL.execvpe.get()(file, arguments, list)) }
}

unsafe extern "C-unwind" fn posix_spawn(
    pid: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attr: *const c_void,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe {
        with_environment(path, environment, |list| REAL.posix_spawn.get()(pid, path, actions, attr, arguments, list))
    }
}

unsafe extern "C-unwind" fn posix_spawnp(
    pid: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attr: *const c_void,
    arguments: Strings,
    environment: Strings,
) -> c_int {
    // SAFETY: the program's arguments.
    unsafe { with_found(file, environment, |list| REAL.posix_spawnp.get()(pid, file, actions, attr, arguments, list)) }
}

/// Looks at programs that are started from now on.
pub fn install() {
    let mut name = [0; 256];
    let own = File::open(c"/proc/self/exe").and_then(|program| match linker_of(&program, &mut name) {
        Linker::Named(linker) => File::open(linker)?.identity(),
        _ => None,
    });
    for (word, number) in LINKER.iter().zip(own.unwrap_or_default()) {
        word.store(number, Ordering::Relaxed);
    }
    ACTIVE.execve.set(execve);
    ACTIVE.execv.set(execv);
    ACTIVE.execvp.set(execvp);
    ACTIVE.execvpe.set(execvpe);
    ACTIVE.posix_spawn.set(posix_spawn);
    ACTIVE.posix_spawnp.set(posix_spawnp);
}
