//! Numbers in words.

use lockswap_platform::{Ns, LONGEST_DURATION};

/// How many times, with two significant digits; more where it takes them to tell it from 1.
pub fn times(ratio: f64) -> String {
    match ratio {
        r if r < 1.1 => format!("{}x", ratio_digits(r)),
        r if r < 9.95 => format!("{r:.1}x"),
        r => format!("{r:.0}x"),
    }
}

/// A ratio with as many digits as it takes to tell it from 1.
pub fn ratio_digits(ratio: f64) -> String {
    match (ratio - 1.0).abs() {
        d if d < 0.0005 => format!("{ratio:.4}"),
        d if d < 0.01 => format!("{ratio:.3}"),
        _ => digits(ratio),
    }
}

/// A ratio with two digits after the point, and at least two significant ones.
pub fn digits(ratio: f64) -> String {
    match ratio {
        r if r >= 99.5 => format!("{r:.0}"),
        r if r >= 9.95 => format!("{r:.1}"),
        r if r >= 0.1 || r <= 0.0 => format!("{r:.2}"),
        r => {
            let places = (1.0 - r.log10().floor()).clamp(2.0, 9.0) as usize;
            format!("{r:.places$}")
        }
    }
}

/// A number with at most three digits after the point and no trailing zeros.
pub fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A value for people: four significant digits, with the unit scaled to fit (`ms`, `M ops/s`).
pub fn human(value: f64, unit: &str) -> String {
    let size = value.abs();
    let (scaled, prefix) = match unit {
        "s" if size == 0.0 || size >= 1.0 => (value, ""),
        "s" if size >= 1e-3 => (value * 1e3, "m"),
        "s" => (value * 1e6, "u"),
        _ if size >= 1e9 => (value / 1e9, "G"),
        _ if size >= 1e6 => (value / 1e6, "M"),
        _ if size >= 1e5 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let digits = match scaled.abs() {
        s if s >= 1000.0 => 0,
        s if s >= 100.0 => 1,
        s if s >= 10.0 => 2,
        _ => 3,
    };
    let gap = if unit.is_empty() && prefix.is_empty() { "" } else { " " };
    let join = if unit.contains('/') && !prefix.is_empty() { " " } else { "" };
    format!("{scaled:.digits$}{gap}{prefix}{join}{unit}")
}

/// A time for people, with three digits: `12.3 us`.
pub fn time_in_words(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => return format!("{ns:.0} ns"),
        ns if ns < 999_500.0 => (ns / 1e3, "us"),
        ns if ns < 999_500_000.0 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    let digits = match value {
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {unit}")
}

/// A time as options take it: `50us`.
pub fn as_option(ns: Ns) -> String {
    let units = [(LONGEST_DURATION, "h"), (1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let found = units.into_iter().find(|(unit, _)| ns > 0 && ns.is_multiple_of(*unit));
    found.map_or_else(|| format!("{ns}ns"), |(unit, name)| format!("{}{name}", ns / unit))
}

/// A share for people, with two digits: `4.2 %`.
pub fn percent(share: f64) -> String {
    match 100.0 * share {
        0.0 => "0 %".into(),
        small if small < 0.095 => "<0.1 %".into(),
        small if small < 9.95 => format!("{small:.1} %"),
        large => format!("{large:.0} %"),
    }
}

/// A count for people.
pub fn count(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.1} G", v / 1e9),
        v if v >= 1e6 => format!("{:.1} M", v / 1e6),
        v if v >= 1e4 => format!("{:.1} k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_people() {
        assert_eq!(human(0.31234, "s"), "312.3 ms");
        assert_eq!(human(12.3456, "s"), "12.35 s");
        assert_eq!(human(123_456.0, "ops/s"), "123.5 k ops/s");
        assert_eq!(human(12_345_678.0, ""), "12.35 M");
        assert_eq!(human(42.0, ""), "42.00");
        assert_eq!(short(60.0), "60");
        assert_eq!(short(0.25), "0.25");
        assert_eq!(
            (times(2.13), times(82.4), times(1.32), times(1.004)),
            ("2.1x".into(), "82x".into(), "1.3x".into(), "1.004x".into())
        );
        assert_eq!(
            (digits(0.0123), digits(0.82), digits(1.3211), digits(49.63)),
            ("0.012".into(), "0.82".into(), "1.32".into(), "49.6".into())
        );
        assert_eq!(count(1234567.0), "1.2 M");
        assert_eq!([0.0, 0.0005, 0.042, 0.42].map(percent), ["0 %", "<0.1 %", "4.2 %", "42 %"]);
    }

    #[test]
    fn times_have_three_digits() {
        let cases =
            [(7.0, "7 ns"), (999.4, "999 ns"), (1_234.0, "1.23 us"), (99_960.0, "100 us"), (12_340_000.0, "12.3 ms")];
        for (ns, words) in cases {
            assert_eq!(time_in_words(ns), words);
        }
        assert_eq!(time_in_words(2.5e9), "2.50 s");
    }
}
