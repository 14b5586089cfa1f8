//! Absolute times as C programs pass them.

use core::ffi::c_int;
use libc::{clockid_t, timespec};
use lockswap_platform::{Clock, Deadline};

/// The clock that `id` means; `EINVAL` for one that a lock cannot wait on.
pub fn clock(id: clockid_t) -> Result<Clock, c_int> {
    match id {
        libc::CLOCK_REALTIME => Ok(Clock::Realtime),
        libc::CLOCK_MONOTONIC => Ok(Clock::Monotonic),
        _ => Err(libc::EINVAL),
    }
}

/// The deadline that `time` means on `clock`; `EINVAL` if its nanoseconds are out of range.
///
/// # Safety
/// `time` points at a timespec.
pub unsafe fn deadline(clock: Clock, time: *const timespec) -> Result<Deadline, c_int> {
    // SAFETY: as for this call.
    let time = unsafe { &*time };
    match u32::try_from(time.tv_nsec) {
        Ok(nsec) if nsec < 1_000_000_000 => Ok(Deadline::new(clock, time.tv_sec, nsec)),
        _ => Err(libc::EINVAL),
    }
}
