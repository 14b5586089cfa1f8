//! How a native thread waits. System calls are made directly, so that a wait is never a cancellation point and never
//! changes `errno`.
//!
//! A program may restrict its system calls (seccomp), and be killed for any other. The calls of a wait are therefore
//! those of glibc's own locks: `futex`, and `clock_gettime` where the kernel offers no way around it. `sched_yield` is
//! an exception that [`allow_yields`] takes back.

use super::crowd::{self, Stage};
use super::instant;
use crate::patience::{LONGEST_NAP, NAP_AFTER, NAP_AFTER_IN_REAL_TIME, SHORTEST_NAP, SPIN_ROUNDS};
use crate::{Clock, Deadline, Ns, Wake};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use syscalls::{syscall, Errno, Sysno};

/// The least that a yield has taken in this process, ns; before the first one, as much as it may take on a slow
/// machine.
static FASTEST_YIELD: AtomicU64 = AtomicU64::new(1_000);

/// No yield counts as faster, ns: clocks are coarse, or differ between CPUs.
const SHORTEST_YIELD: Ns = 300;

/// A yield found nobody else on the CPU if it took less than so many times the fastest. On an EPYC (Zen 4, a virtual
/// machine), by the clock around each of 20,000 yields, the fastest takes 0.48 us, 99 in 100 that find nobody less
/// than 1.25 us, and one that lets another thread run, which does nothing but yield, 2.5 us or more.
const ALONE: Ns = 3;
/// Most pauses between two yields that find nobody: about 2 us, so that little of a wait is spent in system calls,
/// where the end of the wait would be noticed late.
const MOST_PAUSES: u32 = 127;

/// Rounds of spinning between two looks at the clock.
const ROUNDS_PER_LOOK_AT_CLOCK: u32 = 16;

/// A nap where a yield is not allowed, ns. Linux lets an ordinary thread sleep for 50 us longer than it asks.
const INSTEAD_OF_YIELD: Ns = 10_000;

/// The stages of one wait, see [`crate::patience`].
pub struct Patience {
    rounds: u32,
    /// Pauses before the yield that comes next.
    pauses: u32,
    stage: Stage,
    /// Until when it yields.
    naps_at: Ns,
    nap: Ns,
}

impl Patience {
    #[inline]
    pub fn new() -> Self {
        Patience { rounds: 0, pauses: 0, stage: Stage::Spins, naps_at: 0, nap: SHORTEST_NAP }
    }

    /// Whether a wait with a deadline makes the next round without a look at the clock: one in
    /// [`ROUNDS_PER_LOOK_AT_CLOCK`] has one, and each of the first few, so that short waits end in time. Others may
    /// end late by half a microsecond or so.
    #[inline]
    pub fn may_skip_clock(&self) -> bool {
        (ROUNDS_PER_LOOK_AT_CLOCK..SPIN_ROUNDS).contains(&self.rounds)
            && !self.rounds.is_multiple_of(ROUNDS_PER_LOOK_AT_CLOCK)
    }

    /// Waits one round, for at most about `limit` ns.
    #[inline]
    pub fn pause(&mut self, limit: Option<Ns>) {
        if self.rounds < SPIN_ROUNDS {
            self.rounds += 1;
            core::hint::spin_loop();
        } else {
            self.leave_cpu(limit);
        }
    }

    #[cold]
    fn leave_cpu(&mut self, limit: Option<Ns>) {
        let begin = now(Clock::Monotonic);
        match self.stage {
            Stage::Spins => {
                self.stage = Stage::after_spinning();
                let is_real_time = real_time_priority() > 0;
                self.naps_at = begin + if is_real_time { NAP_AFTER_IN_REAL_TIME } else { NAP_AFTER };
            }
            Stage::Yields if begin >= self.naps_at => self.stage = Stage::napping(),
            _ => {}
        }
        if matches!(self.stage, Stage::Yields) {
            yield_cpu();
            let alone = found_nobody(now(Clock::Monotonic) - begin, &FASTEST_YIELD);
            self.pauses = if alone { (2 * self.pauses + 1).min(MOST_PAUSES) } else { 0 };
            self.rounds = SPIN_ROUNDS - self.pauses;
        } else {
            nap(self.nap.max(crowd::shortest_nap()).min(limit.unwrap_or(Ns::MAX)));
            self.nap = (self.nap * 2).min(LONGEST_NAP);
        }
    }
}

/// Whether `sched_yield` may be called. Relaxed everywhere: it protects nothing.
static YIELDS: AtomicBool = AtomicBool::new(true);

/// Says whether `sched_yield` may be called, and what else glibc's locks do not call.
pub fn allow_yields(allowed: bool) {
    // The last chance to ask.
    highest_cpu();
    YIELDS.store(allowed, Ordering::Relaxed);
}

/// Whether yields are allowed, and have not failed.
pub fn yields_are_allowed() -> bool {
    YIELDS.load(Ordering::Relaxed)
}

/// Whether `getpriority` may be called. Relaxed everywhere: it protects nothing.
static NICES: AtomicBool = AtomicBool::new(true);

/// Says whether [`nice`] may ask the kernel.
pub fn allow_weights(allowed: bool) {
    NICES.store(allowed, Ordering::Relaxed);
}

/// The nice value of the calling thread; 0 where the kernel may not be asked, or does not say.
#[cold]
pub fn nice() -> i32 {
    if !NICES.load(Ordering::Relaxed) {
        return 0;
    }
    // SAFETY: takes numbers only. The call itself returns 20 less the nice value, so that no value looks like an
    // error.
    let answer = unsafe { syscall!(Sysno::getpriority, libc::PRIO_PROCESS, 0) };
    answer.map_or(0, |turned| 20 - turned as i32)
}

/// Whether the process has real-time threads, or had. Relaxed everywhere: a thread that makes another one such passes
/// that on.
static HAS_REAL_TIME: AtomicBool = AtomicBool::new(false);

/// Says that the process has real-time threads; whether that was known.
pub fn expect_real_time() -> bool {
    HAS_REAL_TIME.swap(true, Ordering::Relaxed)
}

/// Whether the process is known to have real-time threads, or to have had some.
#[inline]
pub fn has_real_time() -> bool {
    HAS_REAL_TIME.load(Ordering::Relaxed)
}

/// The real-time priority of the calling thread, 1 to 99; 0 if it has none, or if the process is not known to have
/// real-time threads.
#[inline]
pub fn real_time_priority() -> u32 {
    if has_real_time() {
        ask_priority()
    } else {
        0
    }
}

#[cold]
#[inline(never)]
fn ask_priority() -> u32 {
    // A filter on system calls may kill for those that follow.
    if !yields_are_allowed() {
        return 0;
    }
    let mut param = libc::sched_param { sched_priority: 0 };
    // SAFETY: asks for the calling thread; the result is written to `param`. It is 0 for threads that are no real-time
    // ones.
    let result = unsafe { syscall!(Sysno::sched_getparam, 0, &raw mut param) };
    result.map_or(0, |_| u32::try_from(param.sched_priority).unwrap_or(0))
}

/// Lets another thread run on this CPU, if there is one. Where yields are not allowed, that takes 60 us at least.
pub fn yield_cpu() {
    if yields_are_allowed() {
        // SAFETY: takes no argument. It fails only where a filter makes it.
        if unsafe { syscall!(Sysno::sched_yield) }.is_ok() {
            return;
        }
        YIELDS.store(false, Ordering::Relaxed);
    }
    nap(INSTEAD_OF_YIELD.max(crowd::shortest_instead_of_yield()));
}

/// Whether a yield that took so many ns found nobody else on the CPU, given the fastest one, which this may become.
fn found_nobody(took: Ns, fastest: &AtomicU64) -> bool {
    // Relaxed, both: a figure, which only gets smaller. If two threads learn at once, the next yields make up for it.
    let least = fastest.load(Ordering::Relaxed);
    if took.max(SHORTEST_YIELD) < least {
        fastest.store(took.max(SHORTEST_YIELD), Ordering::Relaxed);
    }
    took < ALONE * least
}

/// See [`crate::Platform::give_way`].
pub fn give_way() -> Ns {
    if has_one_cpu() || !yields_are_allowed() {
        return Ns::MAX;
    }
    let begin = instant::now();
    yield_cpu();
    let took = instant::now().saturating_sub(begin);
    if found_nobody(took, &FASTEST_YIELD) {
        0
    } else {
        took
    }
}

/// Leaves the CPU for about `ns` ns.
pub fn nap(ns: Ns) {
    let nobody_wakes = AtomicU32::new(0);
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let time = timespec(ns);
    // SAFETY: the word and the time-out, which is relative, live through the call; being woken early, by a signal or
    // by a late wake-up for what lay there before, is fine.
    let _ = unsafe { syscall!(Sysno::futex, nobody_wakes.as_ptr(), operation, 0, &time as *const libc::timespec) };
}

fn timespec(ns: Ns) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// The time on `clock`, ns.
pub fn now(clock: Clock) -> Ns {
    let id = match clock {
        Clock::Monotonic => libc::CLOCK_MONOTONIC,
        Clock::Realtime => libc::CLOCK_REALTIME,
    };
    let mut time = timespec(0);
    // SAFETY: `time` is writable and the clock exists on every Linux; success leaves errno alone.
    unsafe { libc::clock_gettime(id, &mut time) };
    Deadline::new(clock, time.tv_sec, time.tv_nsec as u32).at
}

/// The CPU time that the calling thread has had.
pub fn cpu_time() -> Ns {
    let mut time = timespec(0);
    // SAFETY: `time` is writable and the clock exists on every Linux; success leaves errno alone.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Deadline::new(Clock::Monotonic, time.tv_sec, time.tv_nsec as u32).at
}

/// What the affinity of the thread that asked first says, plus one; 0 before.
static HIGHEST_CPU: AtomicU32 = AtomicU32::new(0);
/// How many CPUs it names; 0 where it could not be read.
static CPUS: AtomicU32 = AtomicU32::new(0);

/// Whether the process may use only one CPU: looked up once, from the affinity of the thread that asks first.
pub fn has_one_cpu() -> bool {
    highest_cpu();
    // Relaxed, here and below: threads that look it up at once find the same answer.
    CPUS.load(Ordering::Relaxed) == 1
}

/// How many CPUs the process may use, at least 1: looked up once, as above.
pub fn cpus() -> u32 {
    highest_cpu();
    CPUS.load(Ordering::Relaxed).max(1)
}

/// The highest number of a CPU that the process may use: looked up once, as above.
#[inline]
pub fn highest_cpu() -> u32 {
    match HIGHEST_CPU.load(Ordering::Relaxed) {
        0 => look_up_cpus(),
        found => found - 1,
    }
}

#[cold]
fn look_up_cpus() -> u32 {
    let mut mask = [0u64; 1024 / 64 * 8];
    let bytes = size_of_val(&mask);
    // SAFETY: the kernel writes at most `bytes` bytes to `mask`.
    let _ = unsafe { syscall!(Sysno::sched_getaffinity, 0, bytes, mask.as_mut_ptr()) };
    let cpus: u32 = mask.iter().map(|word| word.count_ones()).sum();
    let highest = mask.iter().rposition(|word| *word != 0).map_or(0, |word| word as u32 * 64 + mask[word].ilog2());
    CPUS.store(cpus, Ordering::Relaxed);
    HIGHEST_CPU.store(highest + 1, Ordering::Relaxed);
    highest
}

pub fn futex_wait(word: &AtomicU32, expected: u32, until: Option<Deadline>) -> Wake {
    let mut operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    if until.is_some_and(|deadline| deadline.clock == Clock::Realtime) {
        operation |= libc::FUTEX_CLOCK_REALTIME;
    }
    let time = until.map(|deadline| timespec(deadline.at));
    let time_ptr = time.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: `word` lives through the call; `time_ptr` is null (no time-out) or points at a valid absolute time.
    let result = unsafe {
        syscall!(Sysno::futex, word.as_ptr(), operation, expected, time_ptr, 0, libc::FUTEX_BITSET_MATCH_ANY)
    };
    match result {
        Err(Errno::ETIMEDOUT) => Wake::TimedOut,
        _ => Wake::Retry,
    }
}

#[cold]
#[inline(never)]
pub fn futex_wake(word: *const AtomicU32, n: u32) -> u32 {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel uses the address of a private futex as a number only; a count above i32::MAX is cut to it.
    let woken = unsafe { syscall!(Sysno::futex, word, operation, n.min(i32::MAX as u32)) };
    woken.unwrap_or(0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a yield takes differs by ten between machines; the first ones may take a time slice.
    #[test]
    fn yields_are_compared_with_the_fastest() {
        let fastest = AtomicU64::new(1_000);
        let yields = [4_000_000, 2_999, 480, 1_439, 1_440, 2_500, 0, 899, 900];
        let found_nobody = yields.map(|took| found_nobody(took, &fastest));
        assert_eq!(found_nobody, [false, true, true, true, false, false, true, true, false]);
    }
}
