//! Clocks and deadlines.

/// A time or a duration in nanoseconds.
pub type Ns = u64;

/// A clock of the system that a deadline refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// `CLOCK_MONOTONIC`
    Monotonic,
    /// `CLOCK_REALTIME`
    Realtime,
}

/// A point in time on one clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadline {
    /// The clock that `at` counts on.
    pub clock: Clock,
    /// Nanoseconds since the clock's origin.
    pub at: Ns,
}

impl Deadline {
    /// The deadline of a `timespec`: a negative `sec` has long passed, a `sec` beyond the range never comes.
    /// `nsec` is in `0..1_000_000_000`.
    pub fn new(clock: Clock, sec: i64, nsec: u32) -> Self {
        let at = match u64::try_from(sec) {
            Err(_) => 0,
            Ok(sec) => sec.saturating_mul(1_000_000_000).saturating_add(nsec as u64),
        };
        Deadline { clock, at }
    }
}
