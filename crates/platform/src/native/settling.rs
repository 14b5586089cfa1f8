//! A plain store that depends on another byte, without an atomic instruction: [`store_unless`], the light side of an
//! asymmetric fence, and [`settle`], the heavy one.
//!
//! [`store_unless`] is a restartable sequence (rseq, Linux 4.18): a look and a store that the kernel lets happen only
//! in one piece. A thread that loses its CPU between the two, or receives a signal there, goes on at the sequence's
//! abort handler instead, and has stored nothing. [`settle`] makes the same happen to each thread that is in a
//! sequence on a CPU at that moment: `membarrier` with MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ (Linux 5.10) interrupts
//! the CPUs that run threads of the process. So every sequence is over before the interrupt, and its store is visible
//! behind it, or it begins after it, and sees what was written before it. Nothing comes after the store, so that the
//! lock's memory may end with it.
//!
//! Where the kernel keeps the word that tells it about sequences, glibc says (2.35 and later register it for each
//! thread, or for none; see [`super::rseq`]). The child of a `fork` inherits that, and the registration for
//! `membarrier`. The child of a `vfork`, until it calls `exec`, has its parent's word but not its registration; it may
//! unlock nothing (POSIX).
//!
//! | [`AREA`] | [`GATE`]    | state                                                                                    |
//! |----------|-------------|------------------------------------------------------------------------------------------|
//! | 0        | 0           | off, as at first: neither function does anything                                         |
//! | 0        | OPEN + n    | opening: sequences refuse still                                                          |
//! | not 0    | OPEN + n    | on; n threads are in `settle`                                                            |
//! | 0        | OPEN + n    | closing: sequences refuse, and `settle` ends those that have begun                       |
//! | 0        | n           | closed: the n threads are about to leave `settle`, and no other one calls the kernel     |
//!
//! Where the call takes long, both are closed, until somebody opens them again: a host may hand interrupts late to a virtual CPU that runs, and
//! `membarrier`, which takes 1 us with another running thread elsewhere, then takes 3 ms, until the next tick
//! ([`is_dear`]).
//!
//! A sequence looks at [`AREA`] inside: else a thread that has looked before it lost its CPU could begin one when all
//! is off.
//!
//! Always off on aarch64: a sequence would need its own code there (a release store, no address of a byte in one
//! instruction), no machine here could test it, and an exchange takes no longer than a store release where LSE's
//! atomic instructions work on the near cache.

use super::{instant, rseq, wait};
use crate::{Clock, Deadline, Native, Ns, Platform};
use core::sync::atomic::{AtomicIsize, AtomicU32, AtomicU64, AtomicU8, Ordering};
use syscalls::{syscall, Sysno};

/// Where the word is that points at the sequence under way, in bytes from the thread pointer; 0 while sequences
/// refuse.
static AREA: AtomicIsize = AtomicIsize::new(0);
/// Whether `membarrier` may be called, and how many threads are about to.
static GATE: AtomicU32 = AtomicU32::new(0);
const OPEN: u32 = 1 << 31;

/// For so long a thread that closes waits for those in [`settle`], at most, ns: a signal handler may have interrupted
/// one.
const LONGEST_CLOSING: Ns = 100_000_000;
/// A sequence that runs takes a few ns, and one that does not run any more is aborted, ns.
const LONGER_THAN_SEQUENCES: Ns = 10_000_000;

/// What calls of [`settle`] have taken above what they may take, ns of CPU time, and when the last one ended.
static EXCESS: AtomicU64 = AtomicU64::new(0);
static LAST: AtomicU64 = AtomicU64::new(0);
/// A call may take so long, ns; one that takes less makes up for others.
const USUAL: Ns = 50_000;
/// And one of so many ns of the time that has passed.
const SHARE: Ns = 100;
/// What a call counts for at most, ns: the virtual machine may have been stopped meanwhile, which may count as CPU time.
const MOST: Ns = 2_500_000;
/// When calls have taken so much more, they end, ns: the fourth of the longest, if they follow each other at once.
const TOO_MUCH: Ns = 10_000_000;

/// What calls have taken in excess, after one that took so long and ended so long after the one before.
fn excess_after(excess: Ns, took: Ns, since: Ns) -> Ns {
    (excess.saturating_sub(since / SHARE) + took.min(MOST + USUAL)).saturating_sub(USUAL)
}

/// Notes a call, and whether they take too long here.
fn is_dear(took: Ns, ended: Ns) -> bool {
    // Relaxed, all: a sum that orders nothing, of which a simultaneous call may lose a part.
    let since = ended.saturating_sub(LAST.load(Ordering::Relaxed));
    let excess = excess_after(EXCESS.load(Ordering::Relaxed), took, since);
    LAST.store(ended, Ordering::Relaxed);
    EXCESS.store(excess, Ordering::Relaxed);
    excess >= TOO_MUCH
}

fn membarrier(command: libc::membarrier_cmd) -> bool {
    // SAFETY: takes numbers only.
    unsafe { syscall!(Sysno::membarrier, command, 0, 0) }.is_ok()
}

/// Turns [`store_unless`] and [`settle`] on where the kernel and glibc offer what they need, which takes two system
/// calls. Not called by two threads at once, nor while another one is in [`close`] or [`settle`].
pub fn open() {
    // Relaxed: whoever has opened it before is this thread, or has synchronised with it.
    if AREA.load(Ordering::Relaxed) != 0 {
        return;
    }
    let Some(area) = rseq::sequence() else { return };
    if !membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) {
        return;
    }
    EXCESS.store(0, Ordering::Relaxed);
    // The first call comes before the first sequence: a thread that has found the gate closed has set its flag before
    // it.
    GATE.fetch_or(OPEN, Ordering::Relaxed);
    if settle() {
        AREA.store(area, Ordering::Relaxed);
    }
}

/// Turns both off: on return no thread calls `membarrier` any more.
pub fn close() {
    // Relaxed: `settle` is a fence.
    AREA.store(0, Ordering::Relaxed);
    settle();
    // ORDER(closed): Release pairs with the Acquires in `settle`; what sequences have stored is visible since the call
    // above.
    GATE.fetch_and(!OPEN, Ordering::Release);
    let end = Deadline { clock: Clock::Monotonic, at: wait::now(Clock::Monotonic) + LONGEST_CLOSING };
    // Acquire pairs with the Release at the end of `settle`; the system call came before it.
    Native::spin_map_until(end, || (GATE.load(Ordering::Acquire) == 0).then_some(()));
}

/// Forgets the threads that are in [`settle`]: the child of a fork has none.
pub fn enter_child() {
    GATE.fetch_and(OPEN, Ordering::Relaxed);
}

/// See [`Platform::settle`].
pub fn settle() -> bool {
    // ORDER(closed): Acquire, here and below, pairs with the Release that closes the gate.
    if GATE.load(Ordering::Acquire) & OPEN == 0 {
        return false;
    }
    if GATE.fetch_add(1, Ordering::Acquire) & OPEN == 0 {
        GATE.fetch_sub(1, Ordering::Release);
        return false;
    }
    let before = wait::cpu_time();
    let settled = membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ);
    if settled && is_dear(wait::cpu_time().saturating_sub(before), instant::now()) {
        stop();
    }
    // Release pairs with the Acquire at the end of `close`.
    GATE.fetch_sub(1, Ordering::Release);
    if !settled {
        give_up();
    }
    settled
}

/// Closes both, as [`close`] does, in a thread that is in [`settle`].
#[cold]
fn stop() {
    // Relaxed: the call is a fence.
    AREA.store(0, Ordering::Relaxed);
    // Where it fails now, `settle` finds that out the next time: so the gate stays open.
    if membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ) {
        // ORDER(closed): Release as in `close`.
        GATE.fetch_and(!OPEN, Ordering::Release);
    }
}

/// The call has failed (a filter that was not seen to be installed, no memory in an old kernel): sequences are over by
/// themselves in a moment.
#[cold]
fn give_up() {
    AREA.store(0, Ordering::SeqCst);
    wait::nap(LONGER_THAN_SEQUENCES);
    // ORDER(closed): Release as in `close`.
    GATE.fetch_and(!OPEN, Ordering::Release);
}

/// See [`Platform::store_unless`].
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn store_unless(flag: &AtomicU8, word: &AtomicU8, value: u8) -> bool {
    // SAFETY: [`AREA`] says where the kernel looks for the sequence that this thread is in; the descriptor lasts as
    // long as the program, because the library is never unloaded. Flag and word are valid. Loads and stores of x86 are
    // Acquire and Release, and the compiler moves no access across the block.
    unsafe {
        core::arch::asm!(
            // struct rseq_cs: version and flags, where the sequence begins, how long it is, where it is aborted.
            ".pushsection .data.rel.ro.lockswap_rseq, \"aw\", @progbits",
            ".balign 32",
            "22: .long 0, 0",
            ".quad 33f, 44f - 33f, 55f",
            ".popsection",
            "lea {descriptor}, [rip + 22b]",
            "33:",
            "mov {area}, qword ptr [rip + {area_now}]",
            "test {area}, {area}",
            "jz {refused}",
            // The kernel leaves the word as it is unless it takes the CPU from the thread, so that it need not be
            // written each time: an atomic instruction that follows would wait for that store, too.
            "cmp qword ptr fs:[{area}], {descriptor}",
            "jne 66f",
            "cmp byte ptr [{flag}], 0",
            "jne {refused}",
            "mov byte ptr [{word}], {value}",
            "44:",
            // The kernel asks for the signature before the handler, which glibc has registered; as part of an
            // instruction that does not exist (ud1) it also stops whoever runs into it.
            ".pushsection .text.unlikely.lockswap_rseq, \"ax\", @progbits",
            ".byte 0x0f, 0xb9, 0x3d",
            ".long 0x53053053",
            "55: jmp {refused}",
            // Behind a signal the kernel clears the word, if the thread is here: under a debugger that goes on
            // instruction by instruction each time.
            "66: mov qword ptr fs:[{area}], {descriptor}",
            "dec {tries:e}",
            "jnz 33b",
            "jmp {refused}",
            ".popsection",
            descriptor = out(reg) _,
            tries = inout(reg) 2_u32 => _,
            area = out(reg) _,
            area_now = sym AREA,
            flag = in(reg) flag.as_ptr(),
            word = in(reg) word.as_ptr(),
            value = in(reg_byte) value,
            refused = label { return false },
            options(nostack),
        );
    }
    true
}

/// See [`Platform::store_unless`]; off here.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn store_unless(_: &AtomicU8, _: &AtomicU8, _: u8) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Mutex, PoisonError};
    use std::thread;
    use std::time::{Duration, Instant};

    /// The state is the process's.
    static ALONE: Mutex<()> = Mutex::new(());

    #[test]
    fn who_closes_waits_for_a_thread_that_is_about_to_settle_but_not_for_ever() {
        const LATE: Duration = Duration::from_millis(40);
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        GATE.store(OPEN + 1, Ordering::SeqCst);
        let other = thread::spawn(|| {
            thread::sleep(LATE);
            GATE.fetch_sub(1, Ordering::SeqCst);
        });
        close();
        assert!(began.elapsed() >= LATE && GATE.load(Ordering::SeqCst) == 0);
        other.join().unwrap();
        GATE.store(OPEN + 1, Ordering::SeqCst);
        close();
        assert_eq!(GATE.load(Ordering::SeqCst), 1, "a handler has interrupted it and does not come back");
        enter_child();
        assert_eq!(GATE.load(Ordering::SeqCst), 0);
    }

    const MS: Ns = 1_000_000;

    /// How many calls that take so long, and begin so long after each other, it takes until they end, if some thousand
    /// are enough.
    fn calls_until_dear(took: &[Ns], apart: Ns) -> Option<usize> {
        let mut excess = 0;
        took.iter().cycle().take(5_000).position(|took| {
            excess = excess_after(excess, *took, (*took).max(apart));
            excess >= TOO_MUCH
        })
    }

    #[test]
    fn calls_end_where_they_take_long_again_and_again() {
        assert_eq!(calls_until_dear(&[3 * MS], 20 * MS), Some(4), "where interrupts wait for the next tick");
        assert_eq!(calls_until_dear(&[1_000, 3 * MS], 5 * MS), Some(9), "and half of the calls find nobody else");
        assert!(calls_until_dear(&[2 * USUAL], MS).is_some_and(|calls| calls > 200));
    }

    #[test]
    fn calls_go_on_where_they_are_short_or_rare() {
        assert_eq!(calls_until_dear(&[40_000], 0), None, "many CPUs");
        assert_eq!(calls_until_dear(&[3 * MS], 400 * MS), None, "a hundredth of the time");
        let mut seldom = [1_000; 100];
        seldom[0] = 3_600_000 * MS;
        assert_eq!(calls_until_dear(&seldom, 0), None, "a machine that is stopped now and then");
    }

    /// The thread whose call is the last one has settled; from then on nothing is stored, and nobody settles.
    #[test]
    fn nothing_is_stored_any_more_once_calls_take_too_long() {
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        open();
        // Not offered here: there is nothing to close.
        if AREA.load(Ordering::SeqCst) == 0 {
            return;
        }
        let (flag, word) = (AtomicU8::new(0), AtomicU8::new(0));
        assert!((0..100).any(|_| store_unless(&flag, &word, 1)));
        LAST.store(instant::now(), Ordering::SeqCst);
        EXCESS.store(2 * TOO_MUCH, Ordering::SeqCst);
        assert!(settle());
        assert_eq!((AREA.load(Ordering::SeqCst), GATE.load(Ordering::SeqCst)), (0, 0));
        assert!(!settle() && !store_unless(&flag, &word, 2));
        assert_eq!(word.load(Ordering::SeqCst), 1);
        open();
        assert!(settle(), "it was not opened again");
    }
}
