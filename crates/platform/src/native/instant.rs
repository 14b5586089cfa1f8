//! A clock for short times that are measured often: the CPU's cycle counter, converted to ns (7 ns a read where the
//! system's clock takes 22).
//!
//! aarch64 says how fast its counter runs. x86-64 does not, so the counter is compared with the system's clock: until
//! [`CALIBRATION`] has passed since the first call, and for ever where the counter is not to be trusted, the system's
//! clock answers. The counter is trusted where the CPU says that it runs evenly in all power states, and the system
//! uses it itself: it then tells the time without a system call, in less than [`SYSTEM_CALL`].

use super::rseq;
#[cfg(target_arch = "x86_64")]
use super::wait;
#[cfg(target_arch = "x86_64")]
use crate::Clock;
use crate::Ns;
use core::sync::atomic::{AtomicU64, Ordering};

/// How long the counter is compared with the system's clock: a reading error of 50 ns is 1/20000 of it.
#[cfg(target_arch = "x86_64")]
const CALIBRATION: Ns = 1_000_000;

/// More than a read of the clock takes that makes no system call, and less than one that does.
#[cfg(target_arch = "x86_64")]
const SYSTEM_CALL: Ns = 150;

/// Nanoseconds per cycle times 2^32; 0 while the system's clock answers.
static RATE: AtomicU64 = AtomicU64::new(0);
/// A reading of both clocks at the same time.
static CYCLES: AtomicU64 = AtomicU64::new(0);
static NS: AtomicU64 = AtomicU64::new(0);

/// Nanoseconds since a point in the past. On x86-64 that is the system's, from which this clock may then drift away by
/// 1/10000; on aarch64 it is the counter's own. Either way it is the same for all processes.
#[inline(always)]
pub fn now() -> Ns {
    // ORDER(calibrated): Acquire pairs with the Release in `calibrate`; the reading of both clocks.
    let rate = RATE.load(Ordering::Acquire);
    if rate == 0 {
        return calibrate();
    }
    // A CPU whose counter lags behind may read less than the anchor: that counts as the anchor.
    let cycles = rseq::cycles().saturating_sub(CYCLES.load(Ordering::Relaxed));
    let passed = (u128::from(cycles) * u128::from(rate)) >> 32;
    NS.load(Ordering::Relaxed) + passed as Ns
}

#[cold]
#[inline(never)]
#[cfg(target_arch = "aarch64")]
fn calibrate() -> Ns {
    let frequency: u64;
    // SAFETY: Linux lets user space read the counter's frequency.
    unsafe { core::arch::asm!("mrs {}, cntfrq_el0", out(reg) frequency, options(nostack, nomem, preserves_flags)) };
    // A counter that runs at all ticks at least once in a second, so that the rate fits into 64 bits.
    let rate = (1_000_000_000u64 << 32) / frequency.max(1);
    // Relaxed: the counter of an aarch64 needs no anchor; all threads store the same rate.
    RATE.store(rate.max(1), Ordering::Release);
    now()
}

#[cold]
#[inline(never)]
#[cfg(target_arch = "x86_64")]
fn calibrate() -> Ns {
    use core::sync::atomic::AtomicU8;

    const NEW: u8 = 0;
    const BEGUN: u8 = 1;
    const BUSY: u8 = 2;
    const REFUSED: u8 = 3;
    static STATE: AtomicU8 = AtomicU8::new(NEW);
    /// The first reading of both clocks.
    static BEGIN: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

    let move_on = |from, to| STATE.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok();
    let now = wait::now(Clock::Monotonic);
    match STATE.load(Ordering::Relaxed) {
        NEW if move_on(NEW, BUSY) => {
            let next = match runs_evenly().then(read_both).flatten() {
                None => REFUSED,
                Some((cycles, ns)) => {
                    BEGIN[0].store(cycles, Ordering::Relaxed);
                    BEGIN[1].store(ns, Ordering::Relaxed);
                    BEGUN
                }
            };
            // ORDER(begun): Release pairs with the Acquire of `move_on`; the first reading.
            STATE.store(next, Ordering::Release);
        }
        BEGUN if now.saturating_sub(BEGIN[1].load(Ordering::Relaxed)) > CALIBRATION && move_on(BEGUN, BUSY) => {
            let begin = BEGIN.each_ref().map(|word| word.load(Ordering::Relaxed));
            // A reading that was disturbed is tried again by the next caller; BUSY otherwise lasts, as nobody is
            // needed.
            match read_both() {
                Some((cycles, ns)) if cycles > begin[0] && ns > begin[1] => {
                    let rate = (u128::from(ns - begin[1]) << 32) / u128::from(cycles - begin[0]);
                    CYCLES.store(cycles, Ordering::Relaxed);
                    NS.store(ns, Ordering::Relaxed);
                    // ORDER(calibrated): Release pairs with the Acquire in `now`.
                    RATE.store(rate as u64, Ordering::Release);
                }
                _ => STATE.store(BEGUN, Ordering::Release),
            }
        }
        _ => {}
    }
    now
}

/// The counter and the system's clock at the same time, to within a third of [`SYSTEM_CALL`]; `None` where reading the
/// clock takes longer than that each time.
#[cfg(target_arch = "x86_64")]
fn read_both() -> Option<(u64, Ns)> {
    let reading = || {
        let before = wait::now(Clock::Monotonic);
        let cycles = rseq::cycles();
        let after = wait::now(Clock::Monotonic);
        (after.saturating_sub(before), cycles, before + after.saturating_sub(before) / 2)
    };
    let (took, cycles, ns) = (0..8).map(|_| reading()).min_by_key(|(took, ..)| *took)?;
    (took < SYSTEM_CALL).then_some((cycles, ns))
}

/// Whether the CPU says that its time-stamp counter runs evenly.
#[cfg(target_arch = "x86_64")]
fn runs_evenly() -> bool {
    use core::arch::x86_64::__cpuid;
    const ADVANCED_POWER_MANAGEMENT: u32 = 0x8000_0007;
    const INVARIANT_TSC: u32 = 1 << 8;
    // SAFETY: every x86-64 has the instruction. (Newer compilers know, and then think this block needless.)
    #[allow(unused_unsafe)]
    let leaf = |number| unsafe { __cpuid(number) };
    // A leaf beyond the greatest one gives other leaves' values.
    leaf(0x8000_0000).eax >= ADVANCED_POWER_MANAGEMENT && leaf(ADVANCED_POWER_MANAGEMENT).edx & INVARIANT_TSC != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn it_keeps_pace_with_the_systems_clock() {
        now();
        std::thread::sleep(Duration::from_millis(2));
        now();
        let errors = (0..5).map(|_| {
            let (ours, theirs) = (now(), Instant::now());
            std::thread::sleep(Duration::from_millis(100));
            let (ours, theirs) = (now() - ours, theirs.elapsed().as_nanos() as u64);
            ours.abs_diff(theirs)
        });
        // 1/10000 of 100 ms, and time for being interrupted between the two readings.
        let error = errors.min().unwrap_or_default();
        assert!(error < 100_000, "off by {error} ns in 100 ms");
    }

    #[test]
    fn it_goes_on_where_the_systems_clock_left_off() {
        let mut last = now();
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_millis(20) {
            let next = now();
            // Some vCPUs' counters are a few ns apart.
            assert!(next + 1_000 >= last, "back by {} ns", last - next);
            last = next;
        }
        #[cfg(target_arch = "x86_64")]
        assert!(now().abs_diff(wait::now(Clock::Monotonic)) < 1_000_000, "far from CLOCK_MONOTONIC");
    }
}
