//! A process that is ready to be traced while it runs (`LOCKSWAP_TRACE=ready`).
//!
//! When it starts its first thread it makes a file for the trace itself, with the table of functions in use on a page
//! of that file: mapped over the page that it has used so far, read-only as before. `lockswap trace --pid` finds the
//! file, makes room for the ring and puts other addresses into that page. So nothing runs in this process for it, no
//! thread, no signal handler and no look at a flag, and as long as nobody traces, each call takes the same
//! instructions as without all this. The file is the user's own and nobody else may open it. It goes away when the
//! process exits.

use super::ring;
use crate::functions::{Functions, ACTIVE};
use crate::memory::Page;
use crate::sandbox;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use lockswap_records::trace::{Header, FOLDER, MAGIC, READY_BYTES, TABLES, TABLE_BYTES};
use lockswap_topology::files::Path;
use syscalls::{syscall, Errno, Sysno};

/// Whether the process makes the file when it starts its first thread. Relaxed: set while it has one.
static IS_WANTED: AtomicBool = AtomicBool::new(false);

/// The process that made the file; 0: none did. The child of a fork has the file of its parent.
static OWNER: AtomicU32 = AtomicU32::new(0);

/// Makes the file with the first thread.
pub fn want() {
    IS_WANTED.store(true, Ordering::Relaxed);
}

/// The first thread is about to be started. The table holds the functions that it will hold from now on.
pub fn threads_begin() {
    // Where the program forbids itself system calls it is not traced.
    if IS_WANTED.load(Ordering::Relaxed) && sandbox::is_free() && has_room() {
        let _ = make();
    }
}

const _: () =
    assert!(size_of::<Page<Functions>>() <= TABLE_BYTES && size_of::<Functions>().is_multiple_of(size_of::<u64>()));

/// Where the file lies: the folder, and the file in it.
fn paths() -> Option<(Path, Path)> {
    // SAFETY: no arguments.
    let user = unsafe { syscall!(Sysno::geteuid) }.ok()?;
    let process = ring::process_now();
    Some((Path::new(format_args!("{FOLDER}{user}"))?, Path::new(format_args!("{FOLDER}{user}/{process}"))?))
}

/// Whether the limits of the process let it make such a file, and map it without taking something from the program.
fn has_room() -> bool {
    let is_above = |resource: u32, least: u64| {
        let mut limit = libc::rlimit64 { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the kernel writes to `limit` only.
        let asked = unsafe { syscall!(Sysno::prlimit64, 0, resource, 0, &raw mut limit) };
        asked.is_ok() && limit.rlim_cur >= least
    };
    is_above(libc::RLIMIT_FSIZE, READY_BYTES as u64) && is_above(libc::RLIMIT_AS, libc::RLIM64_INFINITY)
}

/// Makes the file and puts its tables in force.
fn make() -> Result<(), Errno> {
    let (folder, path) = paths().ok_or(Errno::ENAMETOOLONG)?;
    // SAFETY: the paths end with zero bytes; what is mapped is new, or the page of the table, which nobody writes to
    // any more and whose new content is the same.
    unsafe {
        match syscall!(Sysno::mkdirat, libc::AT_FDCWD, folder.as_ptr(), 0o700) {
            Ok(_) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error),
        }
        is_ours(&folder)?;
        // Left behind by a process that was killed and had the same number, or by this one before it executed a
        // program.
        let _ = syscall!(Sysno::unlinkat, libc::AT_FDCWD, path.as_ptr(), 0);
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_NOFOLLOW;
        let file = syscall!(Sysno::openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o600)?;
        let made = put_in_force(file);
        let _ = syscall!(Sysno::close, file);
        if made.is_err() {
            let _ = syscall!(Sysno::unlinkat, libc::AT_FDCWD, path.as_ptr(), 0);
        } else {
            OWNER.store(ring::process(), Ordering::Relaxed);
        }
        made
    }
}

/// The call that tells about a file by its name, which has two names itself.
#[cfg(target_arch = "x86_64")]
const FSTATAT: Sysno = Sysno::newfstatat;
#[cfg(not(target_arch = "x86_64"))]
const FSTATAT: Sysno = Sysno::fstatat;

/// Whether a folder is this user's and nobody else may change it.
fn is_ours(folder: &Path) -> Result<(), Errno> {
    let mut status = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: the path ends with a zero byte; the kernel writes to `status` only, which zeros are a value of.
    let (status, user) = unsafe {
        let flags = libc::AT_SYMLINK_NOFOLLOW;
        syscall!(FSTATAT, libc::AT_FDCWD, folder.as_ptr(), status.as_mut_ptr(), flags)?;
        (status.assume_init(), syscall!(Sysno::geteuid)?)
    };
    let is_folder = status.st_mode & libc::S_IFMT == libc::S_IFDIR && status.st_mode & 0o077 == 0;
    if is_folder && status.st_uid as usize == user {
        Ok(())
    } else {
        Err(Errno::EPERM)
    }
}

/// # Safety
/// `file` is an empty file of this process.
unsafe fn put_in_force(file: usize) -> Result<(), Errno> {
    // SAFETY: as for this call; see the comments.
    unsafe {
        syscall!(Sysno::ftruncate, file, READY_BYTES)?;
        // What is used from now on is given room now: touching a mapped file without room would kill the process.
        syscall!(Sysno::fallocate, file, 0, 0, size_of::<Header>())?;
        for table in TABLES {
            syscall!(Sysno::fallocate, file, 0, table, size_of::<Page<Functions>>())?;
        }
        // Not accessible but for what is used: a program that locks all its memory does not get 32 MB more.
        let mapping = syscall!(Sysno::mmap, 0, READY_BYTES, libc::PROT_NONE, libc::MAP_SHARED, file, 0)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        syscall!(Sysno::mprotect, mapping, size_of::<Page<Header>>(), access)?;
        syscall!(Sysno::mprotect, mapping + TABLES[0], READY_BYTES - TABLES[0], access)?;
        let table = |number: usize| (mapping + TABLES[number]) as *const Functions;
        (*table(0)).copy_from(&ACTIVE);
        (*table(1)).copy_from(&ACTIVE);
        super::functions::put(&*table(1));
        (*table(2)).copy_from(&ACTIVE);
        let header = &*(mapping as *const Header);
        header.functions.store((size_of::<Functions>() / size_of::<u64>()) as u64, Ordering::Relaxed);
        // Relaxed: whoever traces opens the file later.
        header.magic.store(MAGIC, Ordering::Relaxed);
        ring::open(mapping as *mut Header);
        let page: *const Page<Functions> = &raw const ACTIVE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        syscall!(Sysno::mmap, page, size_of::<Page<Functions>>(), libc::PROT_READ, flags, file, TABLES[0])?;
    }
    Ok(())
}

/// The process exits: nobody can trace it any more.
extern "C" fn at_exit() {
    // Relaxed: set by a thread that is or was there; a child of a fork is another process.
    if OWNER.load(Ordering::Relaxed) == ring::process() && ring::process() != 0 && sandbox::is_free() {
        let Some((_, path)) = paths() else { return };
        // SAFETY: the path ends with a zero byte.
        let _ = unsafe { syscall!(Sysno::unlinkat, libc::AT_FDCWD, path.as_ptr(), 0) };
    }
}

#[used]
#[link_section = ".fini_array"]
static AT_EXIT: extern "C" fn() = at_exit;
