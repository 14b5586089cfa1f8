//! Times as options take them, in every subcommand: `5s`, `500ms`, `50us`, `2m`, `1h`.

use std::ops::RangeInclusive;
use std::time::Duration;

use lockswap_platform::{parse_duration_up_to, Ns, LONGEST_DURATION};
pub use lockswap_study::numbers::as_option;

/// What an option whose times are all right if they can be waited for takes at most: thirty years.
const FOR_EVER: Ns = 1_000_000_000_000_000_000;

/// The parser of an option with times within `range`; a bare number is seconds.
pub fn within(range: RangeInclusive<Ns>) -> impl Fn(&str) -> Result<Ns, String> + Clone {
    move |text| {
        // Without a unit, whatever a number may look like: 5, .5, 1e3.
        let seconds =
            || -> Option<Ns> { Duration::try_from_secs_f64(text.parse().ok()?).ok()?.as_nanos().try_into().ok() };
        let found = parse_duration_up_to(text, Ns::MAX).or_else(seconds);
        let found = found.ok_or("write a time as in 5s, 500ms, 50us, 2m or 1h; a number without a unit is seconds")?;
        check(found, &range)
    }
}

/// The parser of an option with times so short that a bare number hardly means seconds: it needs a unit, but for 0.
pub fn with_unit(text: &str) -> Result<Ns, String> {
    let found = parse_duration_up_to(text, Ns::MAX).ok_or_else(|| match text.parse::<f64>() {
        Ok(_) if text.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit()) => {
            format!("a unit is missing: write {text}us, {text}ms or {text}s")
        }
        _ => "write a time with its unit, as in 50us, 1.5ms or 2s".to_owned(),
    })?;
    check(found, &(0..=LONGEST_DURATION))
}

/// How long one run of something may take: any time that is not 0.
pub fn run(text: &str) -> Result<Ns, String> {
    within(1..=LONGEST_DURATION)(text)
}

/// How long to wait for something: any time that is not 0.
pub fn patience(text: &str) -> Result<Duration, String> {
    within(1..=FOR_EVER)(text).map(Duration::from_nanos)
}

fn check(found: Ns, range: &RangeInclusive<Ns>) -> Result<Ns, String> {
    let (least, most) = (as_option(*range.start()), as_option(*range.end()));
    match range.contains(&found) {
        true => Ok(found),
        false if *range.end() == FOR_EVER => Err("write a time above 0".to_owned()),
        false if *range.start() <= 1 => Err(format!("write a time above 0, at most {most}")),
        false => Err(format!("write a time from {least} to {most}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_numbers_are_seconds_and_units_are_read() {
        let read = within(1_000..=LONGEST_DURATION);
        for (text, ns) in [
            ("5", 5_000_000_000),
            (".5", 500_000_000),
            ("1e-3", 1_000_000),
            ("5s", 5_000_000_000),
            ("500ms", 500_000_000),
            ("50us", 50_000),
            ("50µs", 50_000),
            ("2m", 120_000_000_000),
            ("1h", LONGEST_DURATION),
        ] {
            assert_eq!(read(text), Ok(ns), "{text}");
        }
        for (text, said) in [("", "500ms"), ("5 s", "500ms"), ("-1", "500ms"), ("inf", "500ms"), ("1ns", "1us to 1h")] {
            assert!(read(text).is_err_and(|error| error.contains(said)), "{text}: {:?}", read(text));
        }
        assert_eq!(patience("24h"), Ok(Duration::from_secs(86_400)));
        assert!(patience("0").is_err() && run("0s").is_err() && run("2h").is_err_and(|error| error.contains("1h")));
    }

    #[test]
    fn short_times_need_a_unit() {
        assert_eq!((with_unit("50us"), with_unit("0"), with_unit("1m")), (Ok(50_000), Ok(0), Ok(60_000_000_000)));
        assert!(with_unit("50").is_err_and(|error| error.contains("50us, 50ms or 50s")));
        for nonsense in ["", "x", "-1", "2h", "1.5"] {
            assert!(with_unit(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn times_as_options_come_back() {
        for ns in [0, 7, 1_000, 1_001, 50_000, 1_500_000, 100_000_000, 3_600_000_000_000] {
            assert_eq!(with_unit(&as_option(ns)), Ok(ns));
        }
        assert_eq!(as_option(50_000), "50us");
    }
}
