//! What parameters locks have at run time, and how locks ask for the values. [`crate::named`] reads values.

use core::fmt;
use lockswap_platform::{parse_duration, window, Ns, Platform};

/// The longest time that a parameter takes.
pub const LONGEST_TIME: Ns = lockswap_platform::LONGEST_DURATION;

/// What a lock lets its users choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub key: &'static str,
    /// What it takes.
    pub values: Values,
    /// The value where none is given.
    pub default: Default,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Where the default comes from: a paper with its section, or a measurement.
    pub source: &'static str,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these, each of which makes the lock another one of the catalogue: the value, and the id of that lock.
    Locks(&'static [(&'static str, &'static str)]),
    /// A time of at most an hour, with its unit.
    Time(Setting),
    /// A number from the first to the second one, in the unit that is named.
    Number(Setting, u32, u32, &'static str),
}

/// The value of a parameter that nobody chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Default {
    /// One of those of [`Values::Locks`].
    Lock(&'static str),
    /// A time, ns.
    Time(Ns),
    /// A number.
    Number(u32),
    /// What the platform has measured on the machine.
    Measured,
}

impl Default {
    /// Whether it is this value, a time in ns or a number.
    pub(crate) fn is(&self, value: u64) -> bool {
        match *self {
            Default::Time(ns) => ns == value,
            Default::Number(number) => u64::from(number) == value,
            Default::Lock(_) | Default::Measured => false,
        }
    }
}

impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Default::Lock(value) => f.write_str(value),
            Default::Time(ns) => write_duration(f, ns),
            Default::Number(number) => write!(f, "{number}"),
            Default::Measured => f.write_str("measured"),
        }
    }
}

/// Writes a time as `parse_duration` reads it: in the largest unit of which it is a whole number.
fn write_duration(f: &mut fmt::Formatter<'_>, ns: Ns) -> fmt::Result {
    const UNITS: [(Ns, &str); 6] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    match UNITS.iter().find(|(unit, _)| ns != 0 && ns.is_multiple_of(*unit)) {
        Some((unit, name)) => write!(f, "{}{name}", ns / unit),
        None => f.write_str("0"),
    }
}

/// The place of a parameter's value among the [`Platform::setting`]s of a process, which has one lock for its mutexes,
/// or several that agree, and one for its rwlocks. A parameter of the former shares its place with none of the latter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `max-window`
    MaxWindow,
    /// `spin`
    Spin,
    /// `batch`
    Batch,
    /// `threshold`
    Threshold,
    /// `outer-threshold`
    OuterThreshold,
    /// `shuffle`
    Shuffle,
    /// `fairness`
    Fairness,
    /// `patience`
    Patience,
    /// `sleeps`
    Sleeps,
    /// `shortest`
    Shortest,
    /// `longest`
    Longest,
    /// `pauses`
    Pauses,
    /// `steal`
    Steal,
    /// `slice`
    Slice,
    /// `active`
    Active,
    /// `near`
    Near,
    /// `again`
    Again,
    /// `resign`
    Resign,
    /// `defer`
    Defer,
    /// `ratio`
    Ratio,
    /// `base`
    Base,
    /// `grace`
    Grace,
    /// `window`
    Window,
    /// `update`
    Update,
    /// `remote-shortest`
    RemoteShortest,
    /// `remote-longest`
    RemoteLongest,
    /// `per-line`
    PerLine,
    /// `writers`, of an rwlock
    RwWriters,
    /// `inhibit`, of an rwlock
    RwInhibit,
    /// `patience`, of an rwlock
    RwPatience,
    /// `promote`
    Promote,
    /// `section`
    Section,
    /// `insist`
    Insist,
    /// `spin`, of an rwlock
    RwSpin,
    /// `spin`, as a time
    SpinTime,
    /// `route`
    Route,
    /// `nap`
    Nap,
}

impl Setting {
    /// The number that was chosen, else `default`.
    #[inline]
    pub fn number<P: Platform>(self, default: u32) -> u32 {
        // `read` lets no larger number through.
        P::setting(self as usize).map_or(default, |value| value as u32)
    }

    /// The looks of a waiter before it sleeps that were chosen, else as many as a round trip through a sleep takes.
    pub fn looks<P: Platform>(self) -> u32 {
        P::setting(self as usize).map_or_else(P::spins_before_park, |value| value as u32)
    }

    /// The time that was chosen, else `default`, ns.
    #[inline]
    pub fn time<P: Platform>(self, default: Ns) -> Ns {
        P::setting(self as usize).unwrap_or(default)
    }
}

/// The variable of the environment that says how many looks last as long as a round trip through a sleep, for
/// [`Platform::spins_before_park`].
pub const SPINS_BEFORE_PARK: &str = "LOCKSWAP_SPINS_BEFORE_PARK";

/// What that variable may say.
pub const MOST_SPINS_BEFORE_PARK: u32 = 1_000_000;

/// Reads the value of [`SPINS_BEFORE_PARK`]; nothing if it is no number from 1 to [`MOST_SPINS_BEFORE_PARK`].
pub fn read_spins_before_park(text: &str) -> Option<u32> {
    text.parse().ok().filter(|looks| (1..=MOST_SPINS_BEFORE_PARK).contains(looks))
}

/// How many rounds a waiter spins before it sleeps, where that is not learnt: [`spins`] reads it.
pub const SPIN: Parameter = Parameter {
    key: "spin",
    values: Values::Number(Setting::Spin, 0, 1_000_000, "looks"),
    default: Default::Measured,
    summary: "looks at the lock before a waiter sleeps",
    source: "as long as a round trip through a sleep takes: Guiroux, Lachaize, Quema: ATC 2016, sec. 3.2",
};

/// The same for the waiters of an rwlock.
pub const RW_SPIN: Parameter = Parameter { values: Values::Number(Setting::RwSpin, 0, 1_000_000, "looks"), ..SPIN };

/// The looks of a waiter before it sleeps: [`SPIN`].
pub fn spins<P: Platform>() -> u32 {
    Setting::Spin.looks::<P>()
}

/// The largest reorder window.
pub const MAX_WINDOW: Parameter = Parameter {
    key: "max-window",
    values: Values::Time(Setting::MaxWindow),
    default: Default::Time(window::LONGEST),
    summary: "longest time that a thread on a little core stands back, outside epochs with a target",
    source: "Liu et al.: PPoPP 2022, sec. 3.3",
};

/// The parameters of a lock: its own, and those of the locks that it is made of.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Its own.
    pub own: &'static [Parameter],
    /// Those of each lock inside.
    pub inside: &'static [Parameters],
}

impl Parameters {
    /// No parameters.
    pub const NONE: Self = Parameters { own: &[], inside: &[] };

    /// How many there are.
    pub fn len(&self) -> usize {
        self.own.len() + self.inside.iter().map(Parameters::len).sum::<usize>()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them, its own first.
    fn get(&self, index: usize) -> Option<&'static Parameter> {
        let Some(mut left) = index.checked_sub(self.own.len()) else { return self.own.get(index) };
        for inside in self.inside {
            match left.checked_sub(inside.len()) {
                None => return inside.get(left),
                Some(behind) => left = behind,
            }
        }
        None
    }

    /// All of them, its own first.
    pub fn iter(&self) -> impl Iterator<Item = &'static Parameter> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

impl Parameter {
    /// The place of its value; nothing where the value makes the lock another one.
    pub fn setting(&self) -> Option<Setting> {
        match self.values {
            Values::Locks(_) => None,
            Values::Time(setting) | Values::Number(setting, ..) => Some(setting),
        }
    }

    /// How `value` is written: each value in one way only.
    pub(crate) fn text(&self, value: u64) -> Default {
        match self.values {
            Values::Time(_) => Default::Time(value),
            // `read` lets no larger number through.
            Values::Number(..) | Values::Locks(_) => Default::Number(value as u32),
        }
    }

    /// The value that `text` stands for, nothing if it is none.
    pub(crate) fn read(&self, text: &str) -> Option<u64> {
        match self.values {
            Values::Locks(_) => None,
            Values::Time(_) => parse_duration(text),
            Values::Number(_, least, most, _) => {
                text.parse().ok().filter(|value| (u64::from(least)..=u64::from(most)).contains(value))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use crate::registry::{self, Role};
    use std::string::ToString;

    #[test]
    fn looks_before_a_sleep_are_read() {
        for (text, looks) in [("1", Some(1)), ("1000000", Some(1_000_000))] {
            assert_eq!(read_spins_before_park(text), looks);
        }
        for text in ["0", "1000001", "", "9x", "-3", "4294967297"] {
            assert_eq!(read_spins_before_park(text), None, "{text}");
        }
    }

    /// Every lock that a value stands for is in the catalogue, every default is allowed, and no two parameters of a
    /// lock, nor one of a mutex's and one of an rwlock's, have a place or a name in common.
    #[test]
    fn parameters_are_those_of_the_catalogue() {
        let mut places = [const { std::vec::Vec::new() }; 2];
        for entry in registry::ENTRIES {
            let all: std::vec::Vec<_> = entry.parameters.iter().collect();
            assert_eq!(all.len(), entry.parameters.len());
            assert!(
                all.len() <= crate::named::MOST && (entry.role != Role::Spin || all.is_empty()),
                "{}",
                entry.info.id
            );
            for (at, parameter) in all.iter().enumerate() {
                let same = |other: &&&Parameter| other.key == parameter.key || other.setting() == parameter.setting();
                assert_eq!(all[at + 1..].iter().find(same), None, "{}", entry.info.id);
                places[usize::from(entry.role == Role::RwLock)].extend(parameter.setting());
                match (parameter.values, parameter.default) {
                    (Values::Locks(values), Default::Lock(default)) => {
                        assert!(values.iter().any(|(value, id)| *value == default && *id == entry.info.id));
                        assert!(values.iter().all(|(_, id)| registry::find(Role::Mutex, id).is_some()));
                    }
                    (Values::Time(_) | Values::Number(..), Default::Time(_) | Default::Number(_)) => {
                        assert!(parameter.read(&parameter.default.to_string()).is_some(), "{}", entry.info.id);
                    }
                    (Values::Number(..), Default::Measured) => {}
                    _ => panic!("{}: {parameter:?}", entry.info.id),
                }
            }
        }
        let [mutexes, rwlocks] = places;
        assert!(mutexes.iter().all(|place| !rwlocks.contains(place)));
        assert!(mutexes.iter().chain(&rwlocks).all(|place| (*place as usize) < lockswap_platform::SETTINGS));
    }
}
