//! Clocks and deadlines.

/// A time or a duration in nanoseconds.
pub type Ns = u64;

/// Reads a duration such as `50us`, `1.5ms`, `2s`, `1m` or `100ns`; 0 needs no unit. `None` where the text has another
/// form, or is no whole number of nanoseconds, or more than [`LONGEST_DURATION`].
pub fn parse_duration(text: &str) -> Option<Ns> {
    parse_duration_up_to(text, LONGEST_DURATION)
}

/// As [`parse_duration`], with another limit.
pub fn parse_duration_up_to(text: &str, longest: Ns) -> Option<Ns> {
    const UNITS: [(&str, Ns); 7] = [
        ("ns", 1),
        ("us", 1_000),
        ("µs", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
    ];
    if text == "0" {
        return Some(0);
    }
    let (number, unit) = UNITS.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit)))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |part: &str| !part.is_empty() && part.len() <= 13 && part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return None;
    }
    let scaled = fraction.parse::<Ns>().ok()?.checked_mul(unit)?;
    let divisor = 10u64.checked_pow(fraction.len() as u32)?;
    let ns = whole.parse::<Ns>().ok()?.checked_mul(unit)?.checked_add(scaled / divisor)?;
    (scaled % divisor == 0 && ns <= longest).then_some(ns)
}

/// The longest that [`parse_duration`] reads: an hour.
pub const LONGEST_DURATION: Ns = 3_600_000_000_000;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, ns) in [
            ("0", 0),
            ("0s", 0),
            ("100ns", 100),
            ("50us", 50_000),
            ("50µs", 50_000),
            ("1.5ms", 1_500_000),
            ("2s", 2_000_000_000),
            ("1.5m", 90_000_000_000),
            ("1h", LONGEST_DURATION),
        ] {
            assert_eq!(parse_duration(text), Some(ns), "{text}");
        }
        for nonsense in [
            "",
            "50",
            "us",
            "-1us",
            "1.us",
            ".5us",
            "1e3us",
            "50 us",
            "0.5ns",
            "2h",
            "61m",
            "2000000s",
            "99999999999999s",
        ] {
            assert_eq!(parse_duration(nonsense), None, "{nonsense}");
        }
        assert_eq!(parse_duration_up_to("2h", 2 * LONGEST_DURATION), Some(2 * LONGEST_DURATION));
    }
}
