//! The words that each thread has, in initial-exec thread-local storage: the library is loaded at start, so its offset
//! from the thread pointer is a load-time constant (2.2 ns to reach; `thread_local!` takes 4 to 5 ns and may
//! allocate).

use crate::epoch::Epochs;
use crate::pool::{Own, LOCKS};
use crate::trace;
use core::arch::{asm, global_asm};
use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering};
use lockswap_locks::conditions::Experience;

/// One thread's words; all zero at its start.
#[repr(C)]
pub struct Thread {
    /// The epochs of this thread; null before the first.
    pub epochs: Cell<*mut Epochs>,
    /// The identity of this thread, see [`identity`].
    identity: Cell<u64>,
    /// What this thread is inside, a bit each: see [`inside`].
    pub inside: Cell<u16>,
    /// Whether this thread keeps free queue nodes, see [`crate::pool`].
    pub keeps: Cell<Keeps>,
    /// The lock of the process through whose queue nodes this thread has acquired last, see [`crate::pool`].
    pub recent: Cell<u8>,
    /// The queue nodes that this thread keeps for each lock of the process.
    pub own: [Own; LOCKS],
    /// How long it has paid off to spin for a condition.
    pub conditions: Experience,
    /// What this thread notes while the program is traced.
    pub trace: trace::Thread,
    /// What it needs for an experiment on the program.
    pub whatif: trace::whatif::Thread,
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

// What the locks of a process with one lock use lies in one cache line.
const _: () = assert!(core::mem::offset_of!(Thread, own) + size_of::<Own>() <= 64 && align_of::<Thread>() <= 64);

/// The bits of [`Thread::inside`]: what a signal handler must not enter while its thread is there.
pub mod inside {
    /// The arena of mutexes of the first lock; those of the others follow.
    pub const MUTEXES: u16 = 1;
    /// The arena of rwlocks.
    pub const RWLOCKS: u16 = 1 << super::LOCKS;
    /// The list of real-time waiters.
    pub const REALTIME: u16 = RWLOCKS << 1;
    /// What is known of the modules of the program.
    pub const MODULES: u16 = RWLOCKS << 2;
    /// The same, by the fork that this thread is doing.
    pub const FORKS: u16 = RWLOCKS << 3;
}

global_asm!(
    ".section .tbss,\"awT\",%nobits",
    ".balign 64",
    ".globl lockswap_thread",
    ".hidden lockswap_thread",
    ".type lockswap_thread, %object",
    ".size lockswap_thread, {bytes}",
    "lockswap_thread: .zero {bytes}",
    ".text",
    bytes = const size_of::<Thread>(),
);

/// The words of the calling thread.
#[inline(always)]
pub fn thread() -> &'static Thread {
    let thread: *const Thread;
    // SAFETY: adds the offset of the symbol, which the dynamic linker has resolved, to the thread pointer. The memory
    // is zero, which is a valid `Thread`, and the reference is used by this thread only.
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

/// A number that no other thread of this process has or had; never 0. The child of a fork keeps the forking thread's:
/// it owns what that thread owned. (A thread pointer would be handed to a later thread, a thread id changes in a
/// fork.)
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
