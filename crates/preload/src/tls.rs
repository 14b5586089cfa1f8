//! The words that each thread has, in initial-exec thread-local storage: the library is loaded at start, so its offset
//! from the thread pointer is a load-time constant (2.2 ns to reach; `thread_local!` takes 4 to 5 ns and may allocate).

use crate::epoch::Epochs;
use crate::pool::Slot;
use core::arch::{asm, global_asm};
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};

/// One thread's words; all zero at its start.
#[repr(C)]
pub struct Thread {
    /// Queue nodes that are this thread's until it ends, in use or not: enough for one that holds few locks at a time.
    pub own: [Cell<*mut Slot>; 4],
    /// Free queue nodes that this thread keeps besides: the number of the first.
    pub free: Cell<u32>,
    /// Length of that list.
    pub free_count: Cell<u32>,
    /// Whether this thread keeps free queue nodes, see [`crate::pool`].
    pub keeps: Cell<Keeps>,
    /// The arenas that this thread is inside, see [`crate::outside`].
    pub inside: Cell<u8>,
    /// How long it has paid off to spin for a condition (see [`lockswap_locks::adaptive`]).
    pub condition_spins: Cell<u32>,
    /// The epochs of this thread; null before the first.
    pub epochs: Cell<*mut Epochs>,
    /// The identity of this thread, see [`identity`].
    identity: Cell<u64>,
}

/// Whether a thread keeps what it has for later, or gives it back at once.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Keeps {
    /// Nothing: its end would go unseen, or has been seen.
    Nothing = 0,
    /// Some, which are given back at its end.
    Some = 1,
    /// Some, and it is taking or putting one right now: a signal handler must leave them alone.
    Busy = 2,
}

const _: () = assert!(size_of::<Thread>() <= 64);

global_asm!(
    ".section .tbss,\"awT\",%nobits",
    ".balign 64",
    ".globl lockswap_thread",
    ".hidden lockswap_thread",
    ".type lockswap_thread, %object",
    ".size lockswap_thread, 64",
    "lockswap_thread: .zero 64",
    ".text",
);

/// The words of the calling thread.
#[inline(always)]
pub fn thread() -> &'static Thread {
    let thread: *const Thread;
    // SAFETY: adds the offset of the symbol, which the dynamic linker has resolved, to the thread pointer. The memory is
    // zero, which is a valid `Thread`, and the reference is used by this thread only.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!(
            "mov {0}, qword ptr [rip + lockswap_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) thread, options(nostack, pure, readonly)
        );
        #[cfg(target_arch = "aarch64")]
        asm!(
            "adrp {1}, :gottprel:lockswap_thread",
            "ldr {1}, [{1}, :gottprel_lo12:lockswap_thread]",
            "mrs {0}, tpidr_el0",
            "add {0}, {0}, {1}",
            out(reg) thread, out(reg) _, options(nostack, pure, readonly)
        );
        &*thread
    }
}

/// A number that no other thread of this process has or had; never 0. The child of a fork keeps the forking thread's: it
/// owns what that thread owned. (A thread pointer would be handed to a later thread, a thread id changes in a fork.)
#[inline]
pub fn identity() -> u64 {
    match thread().identity.get() {
        0 => new_identity(),
        own => own,
    }
}

#[cold]
#[inline(never)]
fn new_identity() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only has to be unique.
    let identity = NEXT.fetch_add(1, Ordering::Relaxed);
    thread().identity.set(identity);
    identity
}
