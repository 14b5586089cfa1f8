//! From values to positions, and the round numbers that an axis is labelled with.

use crate::chart::Axis;

/// One axis with its ends known.
#[derive(Clone, Debug)]
pub struct Scale {
    /// The value at the beginning.
    pub from: f64,
    /// The value at the end; above `from`.
    pub to: f64,
    log: bool,
    is_time: bool,
    wanted: Vec<f64>,
}

impl Scale {
    /// A scale that shows `values`, all of which the axis can show.
    pub fn new(axis: &Axis, values: &mut dyn Iterator<Item = f64>) -> Self {
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, m), v| (l.min(v), m.max(v)));
        let given = |end: Option<f64>| end.filter(|value| axis.shows(*value));
        let (low, high) = (given(axis.from), given(axis.to));
        let mut from = low.unwrap_or(if least.is_finite() { least } else { high.unwrap_or(1.0).min(1.0) });
        let mut to = high.unwrap_or(if most.is_finite() { most } else { from });
        if from >= to {
            // One value alone: it gets the middle.
            let middle = from;
            (from, to) = match (axis.log, middle == 0.0) {
                (true, _) => (middle / 2.0, middle * 2.0),
                (false, true) => (-1.0, 1.0),
                (false, false) => (middle - middle.abs() / 2.0, middle + middle.abs() / 2.0),
            };
            (from, to) = (low.filter(|l| *l < to).unwrap_or(from), high.filter(|h| *h > from).unwrap_or(to));
        }
        let mut scale = Self { from, to, log: axis.log, is_time: axis.is_time, wanted: axis.ticks.clone() };
        // A little room, so that no symbol lies on the frame.
        let room = 0.03;
        let before = if low.is_none() { scale.value(-room) } else { scale.from };
        let after = if high.is_none() { scale.value(1.0 + room) } else { scale.to };
        // Values that are all at or above 0 need none below it.
        scale.from = if !scale.log && from >= 0.0 { before.max(0.0) } else { before };
        scale.to = after;
        scale
    }

    /// Where `value` lies: 0 is the beginning, 1 the end.
    pub fn position(&self, value: f64) -> f64 {
        if self.log {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        }
    }

    /// The value at a position.
    pub fn value(&self, position: f64) -> f64 {
        if self.log {
            self.from * (self.to / self.from).powf(position)
        } else {
            self.from + (self.to - self.from) * position
        }
    }

    /// About `count` round values at most, ascending, with their labels.
    pub fn ticks(&self, count: usize) -> Vec<(f64, String)> {
        let inside = |value: &f64| (-1e-9..=1.0 + 1e-9).contains(&self.position(*value));
        let wanted = || self.wanted.iter().copied().filter(|value| !self.log || *value > 0.0).filter(inside).collect();
        let powers = || self.powers(count).into_iter().filter(inside).collect();
        let steps = || round_steps(self.from, self.to, count).into_iter().filter(inside).collect();
        let values: Vec<f64> = match self.to / self.from {
            _ if !self.wanted.is_empty() => wanted(),
            ratio if self.log && ratio >= 10.0 => powers(),
            // Between powers of ten equal steps are round, too, but too far apart at the lower end of a wide range.
            ratio if self.log && ratio >= 3.0 => {
                Some(powers()).filter(|v: &Vec<f64>| v.len() >= 3).unwrap_or_else(steps)
            }
            _ => steps(),
        };
        let step = values.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        let most = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
        let name = |value: f64| {
            if self.is_time {
                time(value)
            } else if self.log {
                label(value, value, value)
            } else {
                label(value, step, most)
            }
        };
        values.into_iter().map(|value| (value, name(value))).collect()
    }

    /// Powers of ten, with the values between them where there is room.
    fn powers(&self, count: usize) -> Vec<f64> {
        let (first, last) = (self.from.log10().floor() as i32, self.to.log10().ceil() as i32);
        let decades = (self.to / self.from).log10();
        let among = |factors: &[f64], every: i32| -> Vec<f64> {
            let powers = (first..=last).filter(|power| power.rem_euclid(every) == 0);
            powers.flat_map(|power| factors.iter().map(move |factor| factor * 10f64.powi(power))).collect()
        };
        let count = count.max(2) as f64;
        match () {
            () if decades * 9.0 <= count => among(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], 1),
            () if decades * 3.0 <= count => among(&[1.0, 2.0, 5.0], 1),
            () if decades * 2.0 <= count => among(&[1.0, 3.0], 1),
            () => among(&[1.0], (decades / count).ceil().max(1.0) as i32),
        }
    }
}

/// Multiples of 1, 2, 2.5 or 5 times a power of ten, `count` at most.
fn round_steps(from: f64, to: f64, count: usize) -> Vec<f64> {
    let rough = (to - from) / count.max(2) as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|f| f * power).find(|s| *s >= rough * (1.0 - 1e-9));
    let step = step.unwrap_or(10.0 * power);
    let first = (from / step).ceil() as i64;
    let last = (to / step + 1e-9).floor() as i64;
    (first..=last).map(|n| n as f64 * step).collect()
}

/// A value with the digits that tell it from others `step` away, in the unit that fits values up to `most`: 0.25, 30,
/// 1500, 20k, 3M, 1e-6.
pub fn label(value: f64, step: f64, most: f64) -> String {
    let most = most.max(value.abs());
    if value == 0.0 {
        return "0".into();
    }
    if !(1e-4..1e13).contains(&most) {
        return format!("{value:.0e}");
    }
    let (unit, suffix) = match most {
        s if s >= 1e9 => (1e9, "G"),
        s if s >= 1e6 => (1e6, "M"),
        s if s >= 1e4 => (1e3, "k"),
        _ => (1.0, ""),
    };
    let step = if step.is_finite() && step > 0.0 { step } else { value.abs() / 10.0 };
    let whole = |digits: &usize| {
        let grains = 10f64.powi(*digits as i32) * step / unit;
        (grains - grains.round()).abs() < 1e-6 && grains.round() >= 1.0
    };
    let digits = (0..6).find(whole).unwrap_or(3);
    format!("{:.digits$}{suffix}", value / unit)
}

/// A time of so many ns, with three digits at most: 500 ns, 2.5 us, 10 ms.
pub fn time(ns: f64) -> String {
    let units = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")];
    // What rounds to 1000 of a unit is 1 of the next.
    let (unit, name) = units.into_iter().find(|(unit, _)| ns.abs() >= 0.9995 * unit).unwrap_or((1.0, "ns"));
    let number = ns / unit;
    let digits = if number.abs() < 9.995 { 2 } else { usize::from(number.abs() < 99.95) };
    let text = format!("{number:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} {name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: Axis, values: &[f64], count: usize) -> Vec<String> {
        let scale = Scale::new(&axis, &mut values.iter().copied());
        scale.ticks(count).into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn linear_axes_have_round_labels() {
        assert_eq!(labels(Axis::linear(""), &[0.0, 1.0], 5), ["0", "0.25", "0.50", "0.75", "1.00"]);
        assert_eq!(labels(Axis::linear(""), &[12.0, 97.0], 5), ["20", "40", "60", "80"]);
        assert_eq!(labels(Axis::linear("").from_zero(), &[2e6, 5e6], 6), ["0", "1M", "2M", "3M", "4M", "5M"]);
        assert_eq!(labels(Axis::linear(""), &[-3.0, 3.0], 4), ["-2", "0", "2"]);
    }

    #[test]
    fn logarithmic_axes_have_powers_of_ten_and_more_where_there_is_room() {
        assert_eq!(labels(Axis::log(""), &[1.0, 1e6], 8), ["1", "10", "100", "1000", "10k", "100k", "1M"]);
        assert_eq!(labels(Axis::log(""), &[10.0, 1000.0], 7), ["10", "20", "50", "100", "200", "500", "1000"]);
        assert_eq!(labels(Axis::log(""), &[2.0, 5.0], 4), ["2", "3", "4", "5"]);
        assert_eq!(labels(Axis::log(""), &[0.4, 2.5], 5), ["0.5", "1", "2"]);
        assert_eq!(labels(Axis::log("").ticks([1.0, 2.0, 64.0]), &[1.0, 8.0], 4), ["1", "2"]);
    }

    #[test]
    fn times_have_units() {
        assert_eq!(labels(Axis::log("").time(), &[100.0, 1e6], 5), ["100 ns", "1 us", "10 us", "100 us", "1 ms"]);
        assert_eq!(labels(Axis::linear("").time(), &[0.0, 2e6], 5), ["0 ns", "500 us", "1 ms", "1.5 ms", "2 ms"]);
        assert_eq!([999_800.0, 104_300.0, 40.0, 3e9].map(time), ["1 ms", "104 us", "40 ns", "3 s"]);
    }

    #[test]
    fn one_value_or_none_still_makes_a_scale() {
        for axis in [Axis::linear(""), Axis::log("")] {
            for values in [&[][..], &[5.0]] {
                let scale = Scale::new(&axis, &mut values.iter().copied());
                assert!(scale.from < scale.to && scale.position(scale.value(0.3)) - 0.3 < 1e-9, "{scale:?}");
                assert!(!scale.ticks(5).is_empty(), "{scale:?}");
            }
        }
        let scale = Scale::new(&Axis::linear(""), &mut [0.0].into_iter());
        assert!(scale.from < scale.to);
    }

    #[test]
    fn positions_and_values_are_inverse() {
        let scale = Scale::new(&Axis::log("").range(1.0, 100.0), &mut std::iter::empty());
        assert!((scale.position(10.0) - 0.5).abs() < 1e-12 && (scale.value(0.5) - 10.0).abs() < 1e-9);
    }
}
