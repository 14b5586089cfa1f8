//! The CPU and NUMA node of the calling thread, from the `rseq` area that glibc 2.35 and later registers with the
//! kernel for each thread: two loads (2 ns) instead of a call to `getcpu` (14 ns). ([`super::settling`] uses the area
//! for what it is named after.)
//!
//! glibc tells where the area is with `__rseq_offset` (from the thread pointer). The symbol is weak here, so that the
//! library also loads on glibc 2.34; its absence, or an unregistered thread, leads to `getcpu`.

use super::wait;
use core::arch::asm;
use core::sync::atomic::{AtomicU8, Ordering};

/// Key of the auxiliary vector: how many bytes of `struct rseq` the kernel maintains.
const AT_RSEQ_FEATURE_SIZE: libc::c_ulong = 27;
/// `cpu_id` (u32) inside `struct rseq`; negative while unregistered.
const CPU_ID: isize = 4;
/// `rseq_cs` (u64) inside `struct rseq`: the address of the descriptor of the sequence that the thread is in.
const SEQUENCE: isize = 8;
/// `node_id` (u32) inside `struct rseq`; maintained by Linux 6.3 and later.
const NODE_ID: isize = 20;
/// `node_id` and `mm_cid` arrived together; a kernel that maintains both says 28 or more.
const SIZE_WITH_NODE_ID: libc::c_ulong = 28;

core::arch::global_asm!(".weak __rseq_offset");

/// The address of glibc's `__rseq_offset`, null where glibc has none.
#[inline(always)]
fn offset_address() -> *const isize {
    let address: *const isize;
    // SAFETY: loads an entry of the global offset table, which the dynamic linker has filled.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, qword ptr [rip + __rseq_offset@GOTPCREL]", out(reg) address,
            options(nostack, preserves_flags, pure, readonly));
        #[cfg(target_arch = "aarch64")]
        asm!("adrp {0}, :got:__rseq_offset", "ldr {0}, [{0}, :got_lo12:__rseq_offset]", out(reg) address,
            options(nostack, preserves_flags, pure, readonly));
    }
    address
}

/// The thread pointer as a number: different for all living threads.
#[inline(always)]
pub fn thread_pointer() -> usize {
    thread_area().addr()
}

/// The address that the thread pointer holds.
#[inline(always)]
fn thread_area() -> *const u8 {
    let pointer: *const u8;
    // SAFETY: reads a register, or the word of the thread control block that holds its own address.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, preserves_flags, pure, readonly));
        #[cfg(target_arch = "aarch64")]
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, preserves_flags, pure, nomem));
    }
    pointer
}

/// Whether the kernel maintains `node_id` (looked up once).
fn has_node_id() -> bool {
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static ANSWER: AtomicU8 = AtomicU8::new(UNKNOWN);
    // Relaxed: threads that look it up at once find the same answer.
    match ANSWER.load(Ordering::Relaxed) {
        UNKNOWN => {
            // SAFETY: reads the auxiliary vector; the thread's errno is not part of any result here.
            let size = unsafe { without_errno(|| libc::getauxval(AT_RSEQ_FEATURE_SIZE)) };
            let answer = size >= SIZE_WITH_NODE_ID;
            ANSWER.store(if answer { YES } else { NO }, Ordering::Relaxed);
            answer
        }
        known => known == YES,
    }
}

/// Runs `f` and puts `errno` back.
///
/// # Safety
/// `f` does not end the thread.
unsafe fn without_errno<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: the location is valid for the thread's life.
    unsafe {
        let errno = libc::__errno_location();
        let saved = *errno;
        let result = f();
        *errno = saved;
        result
    }
}

/// The fields of this thread's `struct rseq`, if it has one: the CPU, and the address of the area.
#[inline(always)]
fn area() -> Option<(u32, *const u8)> {
    let offset = offset_address();
    if offset.is_null() {
        return None;
    }
    // SAFETY: glibc reserved the area for every thread at this offset. The kernel writes it when the thread moves,
    // hence volatile.
    let (cpu, area) = unsafe {
        let area = thread_area().offset(*offset);
        (area.offset(CPU_ID).cast::<i32>().read_volatile(), area)
    };
    (cpu >= 0).then_some((cpu as u32, area))
}

/// Where each thread says in which restartable sequence it is, in bytes from its thread pointer; `None` where the
/// kernel does not look there, and on machines for which there is no sequence here.
pub fn sequence() -> Option<isize> {
    area().filter(|_| cfg!(target_arch = "x86_64"))?;
    // SAFETY: glibc has the symbol, else there would be no area.
    Some(unsafe { *offset_address() } + SEQUENCE)
}

/// The CPU this thread runs on.
#[inline]
pub fn cpu() -> u32 {
    match area() {
        Some((cpu, _)) => cpu,
        None => getcpu().0,
    }
}

/// The NUMA node this thread runs on.
#[inline(never)]
pub fn node() -> u32 {
    match area() {
        // SAFETY: as above; the kernel maintains this field, too.
        Some((_, area)) if has_node_id() => unsafe { area.offset(NODE_ID).cast::<u32>().read_volatile() },
        _ => getcpu().1,
    }
}

#[cold]
fn getcpu() -> (u32, u32) {
    extern "C" {
        fn getcpu(cpu: *mut u32, node: *mut u32) -> i32;
    }
    let (mut cpu, mut node) = (0, 0);
    // On x86-64 no system call is needed to tell.
    if cfg!(target_arch = "aarch64") && !wait::yields_are_allowed() {
        return (cpu, node);
    }
    // SAFETY: both results are writable. Where it fails (a seccomp filter) both stay 0.
    unsafe { without_errno(|| getcpu(&mut cpu, &mut node)) };
    (cpu, node)
}

/// A counter that advances steadily and fast.
#[inline(always)]
pub fn cycles() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the time-stamp counter.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: Linux lets user space read the virtual counter.
        unsafe { asm!("mrs {}, cntvct_el0", out(reg) count, options(nostack, nomem, preserves_flags)) };
        count
    }
}
