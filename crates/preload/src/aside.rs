//! Programs that the library leaves alone: every call goes on to whoever would have got it without us.

use crate::environment::Environment;
use crate::message::complain;
use core::ffi::CStr;
use core::fmt;
use core::mem::MaybeUninit;
use syscalls::{syscall, Sysno};

/// Why nothing is replaced in this process.
pub enum Reason {
    /// `LOCKSWAP_ONLY` names another program.
    OtherProgram,
    /// The C library is not glibc, or too old: what lies inside its objects is not known.
    OtherLibrary,
    /// The program has functions of its own in the place of those that are replaced.
    OwnFunctions,
    /// A run-time library that must see the program's own locks, else it reports races that are none.
    Checker(&'static str),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::OtherProgram => f.write_str("nothing is replaced: LOCKSWAP_ONLY names another program"),
            Reason::OtherLibrary => f.write_str("nothing is replaced: the C library is not glibc 2.34 or later"),
            Reason::OwnFunctions => f.write_str(
                "nothing is replaced: the program has pthread functions of its own, as ThreadSanitizer's static runtime is",
            ),
            Reason::Checker(name) => {
                write!(f, "nothing is replaced: {name} must see the program's own locks; run it without lockswap")
            }
        }
    }
}

impl Reason {
    /// Says so, if the user should know: a program that LOCKSWAP_ONLY leaves out is what was asked for, and one with
    /// another C library runs as it does without us.
    pub fn say(&self, verbose: bool) {
        if verbose || matches!(self, Reason::Checker(_) | Reason::OwnFunctions) {
            complain(format_args!("{self}"));
        }
    }
}

/// The reason to stand aside, if there is one.
///
/// # Safety
/// The process has one thread and `environment` is its own.
pub unsafe fn reason(environment: &Environment) -> Option<Reason> {
    // SAFETY: as for this call.
    let only = unsafe { environment.get("LOCKSWAP_ONLY") };
    if !is_glibc() {
        Some(Reason::OtherLibrary)
    } else if only.is_some_and(|only| !is_this_program(only.to_bytes())) {
        Some(Reason::OtherProgram)
        // SAFETY: as for this call.
    } else if let Some(name) = unsafe { checker(environment) } {
        Some(Reason::Checker(name))
    } else {
        // SAFETY: a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"pthread_cond_wait".as_ptr()) };
        // SAFETY: reads the auxiliary vector.
        let entry = unsafe { libc::getauxval(libc::AT_ENTRY) } as usize;
        (base_of(found.addr())? == base_of(entry)?).then_some(Reason::OwnFunctions)
    }
}

/// Where the program or library that holds this address begins in memory.
fn base_of(address: usize) -> Option<usize> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address will do; the result is written where there is one.
    unsafe {
        (libc::dladdr(core::ptr::without_provenance(address), found.as_mut_ptr()) != 0)
            .then(|| found.assume_init().dli_fbase.addr())
    }
}

/// The address of a symbol that may be missing; 0 then. A reference that the dynamic linker resolves when it loads the
/// library: `dlsym` allocates memory to describe what it has not found, and the program's allocator may not be ready.
macro_rules! address_of {
    ($name:literal) => {{
        let address: usize;
        // SAFETY: reads an entry of the global offset table.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                concat!(".weak ", $name), concat!("mov {}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address, options(nostack, preserves_flags, pure, readonly));
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(
                concat!(".weak ", $name), concat!("adrp {0}, :got:", $name), concat!("ldr {0}, [{0}, :got_lo12:", $name, "]"),
                out(reg) address, options(nostack, preserves_flags, pure, readonly));
        }
        address
    }};
}

pub(crate) use address_of;

// Missing where the library must not be used; without them it can be loaded there all the same.
core::arch::global_asm!(".weak __register_atfork", ".weak getcpu", ".weak pthread_rwlockattr_setkind_np");

/// Whether the C library is glibc of a version with all that the library needs (`__libc_single_threaded` came with
/// 2.32, `twalk_r`, which other C libraries have not, with 2.30).
pub fn is_glibc() -> bool {
    [address_of!("gnu_get_libc_version"), address_of!("__libc_single_threaded"), address_of!("twalk_r")]
        .iter()
        .all(|address| *address != 0)
}

/// Whether `wanted` is this program: its whole path if it has a slash, else the name of its file.
fn is_this_program(wanted: &[u8]) -> bool {
    let mut buffer = [0; 4096];
    // SAFETY: the path is a C string, and the kernel writes into the buffer only.
    let length = unsafe {
        let path = c"/proc/self/exe".as_ptr();
        syscall!(Sysno::readlinkat, libc::AT_FDCWD, path, buffer.as_mut_ptr(), buffer.len())
    };
    // Without /proc: how the program was executed.
    let path = match length {
        Ok(length) => &buffer[..length],
        // SAFETY: the kernel's pointer to a C string, if it is not null.
        Err(_) => match unsafe { libc::getauxval(libc::AT_EXECFN) } {
            0 => return false,
            // SAFETY: as above.
            name => unsafe { CStr::from_ptr(core::ptr::with_exposed_provenance(name as usize)) }.to_bytes(),
        },
    };
    if wanted.contains(&b'/') {
        return path == wanted;
    }
    path.rsplit(|byte| *byte == b'/').next() == Some(wanted)
}

/// The checker that the process runs under, if there is one.
///
/// # Safety
/// As for [`reason`].
unsafe fn checker(environment: &Environment) -> Option<&'static str> {
    if address_of!("__tsan_init") != 0 {
        return Some("ThreadSanitizer");
    }
    if address_of!("__msan_init") != 0 {
        return Some("MemorySanitizer");
    }
    // Valgrind's tools put their own functions in the place of glibc's, by the name of its file.
    // SAFETY: as for this call.
    let preloads = unsafe { environment.get("LD_PRELOAD") }?.to_bytes();
    let has = |name: &[u8]| preloads.windows(name.len()).any(|part| part == name);
    [(&b"vgpreload_helgrind"[..], "Helgrind"), (b"vgpreload_drd", "DRD")]
        .iter()
        .find_map(|(file, name)| has(file).then_some(*name))
}
