//! Copies of stacks, which the command unwinds later: threads take no time for that, and need no frame pointers.

use super::ring::Ring;
use crate::sandbox;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};
use lockswap_records::trace::{record_bytes, Event, Kind};
use syscalls::{syscall, Sysno};

/// What makes the number of the first record other than 0.
pub const STACK_NUMBER: u64 = 1;

/// Whether the kernel has refused to copy. Relaxed: a thread that misses it asks once more.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Writes a record with the stack of this thread, for this event, and returns its number; 0 without one.
///
/// The kernel copies: it stops at the end of what is mapped, while nobody here knows where a stack ends, which may be
/// one that the program made itself.
#[inline(never)]
pub fn write(ring: &Ring, event: &Event) -> u64 {
    let bytes = ring.stack_bytes();
    if bytes == 0 || !sandbox::is_free() || IS_REFUSED.load(Ordering::Relaxed) {
        return 0;
    }
    let Some(record) = ring.reserve(record_bytes(bytes)) else { return 0 };
    let (pc, sp, fp, lr): (u64, u64, u64, u64);
    // SAFETY: reads registers.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        {
            asm!("lea {0}, [rip]", "mov {1}, rsp", "mov {2}, rbp", out(reg) pc, out(reg) sp, out(reg) fp,
                options(nomem, nostack, preserves_flags));
            lr = 0;
        }
        #[cfg(target_arch = "aarch64")]
        asm!("adr {0}, .", "mov {1}, sp", "mov {2}, x29", "mov {3}, x30", out(reg) pc, out(reg) sp, out(reg) fp,
            out(reg) lr, options(nomem, nostack, preserves_flags));
    }
    let to = libc::iovec { iov_base: record.stack().cast(), iov_len: bytes };
    let from = libc::iovec { iov_base: sp as *mut _, iov_len: bytes };
    // SAFETY: the kernel writes inside the record, which is this thread's.
    let copied = unsafe {
        let (to, from) = (core::ptr::from_ref(&to), core::ptr::from_ref(&from));
        syscall!(Sysno::process_vm_readv, event.process, to, 1, from, 1, 0)
    };
    let number = record.number;
    let length = copied.unwrap_or(0) as u64;
    if length == 0 {
        IS_REFUSED.store(true, Ordering::Relaxed);
        record.publish(Kind::Padding, &Event::default());
        return 0;
    }
    record.publish(Kind::Stack, &Event { stack: number, length, pc, sp, fp, lr, ..*event });
    number
}
