//! Probes for SystemTap, bcc, bpftrace and perf: the ELF notes and names of those that glibc has where a distribution
//! builds it with them (`--enable-systemtap`; glibc's manual, "Internal Probes"). Debian's glibc has none.
//!
//! A probe is one `nop`, which a tool replaces by a breakpoint, and a note that says where it is and in which
//! registers its arguments are (<https://sourceware.org/systemtap/wiki/UserSpaceProbeImplementation>). They stand in
//! the functions that trace, and so cost nothing where nobody traces. `LOCKSWAP_TRACE=probes` puts those in force with
//! their probes alone.

use crate::functions::{Functions, UNTRACED};
use core::ffi::c_int;
use libc::{pthread_cond_t, pthread_condattr_t, pthread_mutex_t, pthread_rwlock_t};

/// A probe with this name and one or two words as its arguments.
macro_rules! probe {
    ($name:literal, $first:expr) => {
        probe!(@ $name, "8@{first}", first = in(reg) $first)
    };
    ($name:literal, $first:expr, $second:expr) => {
        probe!(@ $name, "8@{first} 8@{second}", first = in(reg) $first, second = in(reg) $second)
    };
    (@ $name:literal, $places:literal, $($argument:tt)*) => {
        #[cfg(target_arch = "x86_64")]
        probe!(@ options(att_syntax, readonly, nostack, preserves_flags), $name, $places, $($argument)*);
        #[cfg(not(target_arch = "x86_64"))]
        probe!(@ options(readonly, nostack, preserves_flags), $name, $places, $($argument)*);
    };
    (@ options($($option:ident),*), $name:literal, $places:literal, $($argument:tt)*) => {
        // SAFETY: an instruction that does nothing, and a note beside the program. A tool that stops here only reads.
        unsafe {
            core::arch::asm!(
                "990: nop",
                ".pushsection .note.stapsdt, \"\", %note",
                ".balign 4",
                ".4byte 992f-991f, 994f-993f, 3",
                "991: .asciz \"stapsdt\"",
                "992: .balign 4",
                "993: .8byte 990b, _.stapsdt.base, 0",
                concat!(".asciz \"libc\", \"", $name, "\""),
                concat!(".asciz \"", $places, "\""),
                "994: .balign 4",
                ".popsection",
                $($argument)*,
                options($($option),*),
            )
        }
    };
}

pub(super) use probe;

macro_rules! passed {
    ($(fn $name:ident($object:ident: $type:ty $(, $arg:ident: $arg_type:ty)*) = $probe:literal;)*) => {
        $(
            unsafe extern "C-unwind" fn $name($object: $type $(, $arg: $arg_type)*) -> c_int {
                probe!($probe, $object $(, $arg)*);
                // SAFETY: the program's arguments.
                unsafe { UNTRACED.$name.get()($object $(, $arg)*) }
            }
        )*

        /// Puts functions into a table that do nothing more than have a probe.
        pub fn put(table: &Functions) {
            $(table.$name.set($name);)*
        }
    };
}

passed! {
    fn pthread_mutex_destroy(mutex: *mut pthread_mutex_t) = "mutex_destroy";
    fn pthread_cond_init(cond: *mut pthread_cond_t, attr: *const pthread_condattr_t) = "cond_init";
    fn pthread_cond_destroy(cond: *mut pthread_cond_t) = "cond_destroy";
    fn pthread_cond_signal(cond: *mut pthread_cond_t) = "cond_signal";
    fn pthread_cond_broadcast(cond: *mut pthread_cond_t) = "cond_broadcast";
    fn pthread_rwlock_destroy(rwlock: *mut pthread_rwlock_t) = "rwlock_destroy";
}

// What notes refer to, so that tools notice that an address has moved since a note was written.
core::arch::global_asm!(
    ".pushsection .stapsdt.base, \"aG\", %progbits, .stapsdt.base, comdat",
    ".weak _.stapsdt.base",
    ".hidden _.stapsdt.base",
    "_.stapsdt.base: .space 1",
    ".size _.stapsdt.base, 1",
    ".popsection",
);
