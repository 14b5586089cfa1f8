//! Programs that restrict their own system calls (seccomp), and may be killed for any other.
//!
//! glibc's locks call `futex` only, so ours may not call more. Waits that spin call `sched_yield` besides, and locks
//! without an atomic instruction in their release `membarrier`, as long as no filter is in force: none at the start, and
//! none installed later, which takes `prctl` or `syscall`. Where there was one at the start, `LOCKSWAP_YIELD` and
//! `LOCKSWAP_MEMBARRIER` say under how many filters `lockswap run` was when it tried the call with success; if the
//! process is under as many, they are the same. Nice values, which `u-scl` asks for, are not asked for under any filter.

use crate::environment::Environment;
use crate::functions::{Functions, ACTIVE, REAL};
use crate::memory;
use core::ffi::{c_int, c_long, c_ulong, CStr};
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, Ordering};
use lockswap_platform::Native;

/// Whether no filter is in force. Relaxed: a thread that installs one, or is created under one, has stored it itself.
static IS_FREE: AtomicBool = AtomicBool::new(false);

/// Whether the process may make any system call.
pub fn is_free() -> bool {
    IS_FREE.load(Ordering::Relaxed)
}

/// Finds out whether a filter is in force, and sees when one is installed.
///
/// # Safety
/// The process has one thread and `environment` is its own.
pub unsafe fn install(environment: &Environment) {
    let mut buffer = [0; 4096];
    // Opening and reading a file is what the dynamic linker has just done, so no filter forbids that.
    let status = memory::read_file(c"/proc/self/status", &mut buffer);
    let is_free = field(status, b"\nSeccomp:\t") == Some(b"0");
    IS_FREE.store(is_free, Ordering::Relaxed);
    Native::allow_weights(is_free);
    let filters = field(status, b"\nSeccomp_filters:\t");
    let allows = |name: &str| {
        // SAFETY: as for this call.
        let tried_under = unsafe { environment.get(name) }.map(CStr::to_bytes);
        is_free || tried_under.is_some() && tried_under == filters
    };
    Native::allow_settling(allows("LOCKSWAP_MEMBARRIER"));
    Native::allow_yields(allows("LOCKSWAP_YIELD"));
    ACTIVE.prctl.set(prctl);
    ACTIVE.syscall.set(syscall);
}

/// A filter is about to be installed.
fn forbid_calls() {
    IS_FREE.store(false, Ordering::Relaxed);
    Native::allow_weights(false);
    Native::allow_settling(false);
    Native::allow_yields(false);
}

/// The value of a line of `/proc/self/status` that begins with `name`, a line break before it included.
fn field<'a>(status: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    let start = status.windows(name.len()).position(|part| part == name)? + name.len();
    status[start..].split(|byte| *byte == b'\n').next()
}

/// `prctl`: on to [`prctl_seccomp`] for PR_SET_SECCOMP, else a jump to the C library's.
#[unsafe(naked)]
unsafe extern "C-unwind" fn prctl(_: c_int, _: c_ulong, _: c_ulong, _: c_ulong, _: c_ulong) -> c_int {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "cmp edi, {option}",
        "je {noticed}",
        "jmp qword ptr [rip + {table} + {entry}]",
        option = const libc::PR_SET_SECCOMP,
        noticed = sym prctl_seccomp,
        table = sym REAL,
        entry = const offset_of!(Functions, prctl),
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "cmp w0, #{option}",
        "b.eq {noticed}",
        "adrp x16, {table} + {entry}",
        "ldr x16, [x16, :lo12:{table} + {entry}]",
        "br x16",
        option = const libc::PR_SET_SECCOMP,
        noticed = sym prctl_seccomp,
        table = sym REAL,
        entry = const offset_of!(Functions, prctl),
    );
}

unsafe extern "C-unwind" fn prctl_seccomp(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    forbid_calls();
    // SAFETY: the program's arguments.
    unsafe { REAL.prctl.get()(option, a, b, c, d) }
}

/// `syscall`: on to [`syscall_seccomp`] for `seccomp`, else a jump to the C library's, which finds all its arguments
/// where the caller left them.
#[unsafe(naked)]
unsafe extern "C-unwind" fn syscall(_: c_long, _: c_long, _: c_long, _: c_long, _: c_long) -> c_long {
    #[cfg(target_arch = "x86_64")]
    core::arch::naked_asm!(
        "cmp rdi, {number}",
        "je {noticed}",
        "jmp qword ptr [rip + {table} + {entry}]",
        number = const libc::SYS_seccomp,
        noticed = sym syscall_seccomp,
        table = sym REAL,
        entry = const offset_of!(Functions, syscall),
    );
    #[cfg(target_arch = "aarch64")]
    core::arch::naked_asm!(
        "cmp x0, #{number}",
        "b.eq {noticed}",
        "adrp x16, {table} + {entry}",
        "ldr x16, [x16, :lo12:{table} + {entry}]",
        "br x16",
        number = const libc::SYS_seccomp,
        noticed = sym syscall_seccomp,
        table = sym REAL,
        entry = const offset_of!(Functions, syscall),
    );
}

/// `seccomp` has three arguments, `prctl` as a system call five in all.
unsafe extern "C-unwind" fn syscall_seccomp(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long) -> c_long {
    forbid_calls();
    // SAFETY: the program's arguments.
    unsafe { REAL.syscall.get()(number, a, b, c, d) }
}
