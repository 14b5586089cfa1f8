//! A lock with values for its parameters, as users name it: `ID:KEY=VALUE[:KEY=VALUE]`, as in
//! `asl:fifo=ticket:max-window=500us`.

use crate::info::WaitingPolicy;
use crate::parameters::{Default, Parameter, Setting, Values, SPIN};
use crate::registry::{self, Entry, Role};
use core::fmt;

/// No lock has more parameters.
pub(crate) const MOST: usize = 12;

/// A lock with values for some of its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Named {
    /// The lock.
    pub entry: &'static Entry,
    /// The value of each of its parameters that has been given one.
    values: [Option<u64>; MOST],
}

impl Named {
    /// The parameters that have been given a value.
    fn given(&self) -> impl Iterator<Item = (&'static Parameter, u64)> + '_ {
        let all = self.entry.parameters.iter().zip(self.values);
        all.filter_map(|(parameter, value)| Some((parameter, value?)))
    }

    /// The value that is given for a setting: a time in ns, or a number.
    pub fn value(&self, setting: Setting) -> Option<u64> {
        self.settings().find(|(place, _)| *place == setting as usize).map(|(_, value)| value)
    }

    /// What has to be known to the locks as [`Platform::setting`]: places and values.
    pub fn settings(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.given().filter_map(|(parameter, value)| Some((parameter.setting()? as usize, value)))
    }

    /// Whether a waiter spins for as long as a round trip through a sleep takes ([`Platform::spins_before_park`])
    /// before it sleeps: the time is measured, and the user has not chosen another one.
    pub fn asks_how_long_to_spin(&self) -> bool {
        match self.entry.parameters.iter().find(|parameter| parameter.key == SPIN.key) {
            Some(spin) => spin.default == Default::Measured && !self.given().any(|(given, _)| given.key == SPIN.key),
            None => self.entry.info.waiting == WaitingPolicy::SpinThenPark && !self.entry.path.is_empty(),
        }
    }

    /// A parameter on which both locks would have to agree in one process, where each [`Setting`] has one value, and
    /// do not.
    pub fn clash(&self, other: &Named) -> Option<&'static Parameter> {
        let mut values = self.entry.parameters.iter().zip(self.values).filter(|(known, _)| known.setting().is_some());
        values.find_map(|(parameter, value)| {
            let mut others = other.entry.parameters.iter().zip(other.values);
            let (same, its) = others.find(|(known, _)| known.setting() == parameter.setting())?;
            let agree = match (value, its) {
                (Some(value), None) => same.default.is(value),
                (None, Some(its)) => parameter.default.is(its),
                (value, its) => value == its,
            };
            (!agree).then_some(parameter)
        })
    }

    /// Whether no parameter has a value that is not part of the lock's id.
    pub fn is_plain(&self) -> bool {
        self.given().next().is_none()
    }

    /// Whether both are the same lock with the same values: one that is not given is the default.
    pub fn is_same_as(&self, other: &Named) -> bool {
        let chosen = |named: &Named| {
            let chosen =
                |(parameter, value): (&Parameter, Option<u64>)| value.filter(|value| !parameter.default.is(*value));
            named.entry.parameters.iter().zip(named.values).map(chosen)
        };
        core::ptr::eq(self.entry, other.entry) && chosen(self).eq(chosen(other))
    }
}

impl fmt::Display for Named {
    /// As [`read`] reads it, the same text for the same values, however they were written: in the order of the
    /// catalogue, and a value that makes the lock another one of the catalogue is part of the id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry.info.id)?;
        self.given().try_for_each(|(parameter, value)| write!(f, ":{}={}", parameter.key, parameter.text(value)))
    }
}

/// Why a text names no lock with parameters.
#[derive(Clone, Copy, Debug)]
pub enum Wrong<'a> {
    /// There is no such lock in the role.
    NoLock(&'a str),
    /// What follows the id is not `KEY=VALUE`.
    Form(&'a str),
    /// The lock has no such parameter.
    NoParameter(&'static Entry, &'a str),
    /// The parameter has no such value.
    NoValue(&'static Parameter, &'a str),
    /// The parameter has two values.
    Twice(&'static Parameter),
}

impl fmt::Display for Wrong<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::NoLock(id) => write!(f, "there is no lock '{id}'"),
            Wrong::Form(text) => write!(f, "'{text}' is not KEY=VALUE"),
            Wrong::NoParameter(entry, key) => {
                write!(f, "{} has no parameter '{key}'", entry.info.id)?;
                if entry.parameters.is_empty() {
                    return f.write_str(", nor any other");
                }
                f.write_str("; it has")?;
                entry.parameters.iter().try_for_each(|parameter| write!(f, " {}", parameter.key))
            }
            Wrong::NoValue(parameter, value) => {
                write!(f, "{}={value}: give ", parameter.key)?;
                match parameter.values {
                    Values::Time(_) => write!(f, "a time with its unit, as in {}", Default::Time(1_000_000)),
                    Values::Number(_, least, most, unit) => write!(f, "a number of {unit} from {least} to {most}"),
                    Values::Locks(known) => {
                        f.write_str("one of")?;
                        known.iter().try_for_each(|(value, _)| write!(f, " {value}"))
                    }
                }
            }
            Wrong::Twice(parameter) => write!(f, "{} is given twice", parameter.key),
        }
    }
}

/// Reads `ID[:KEY=VALUE...]`; ids and keys may have other capitals, and `-` in the place of `_` or the other way
/// round.
///
/// # Errors
/// What is wrong with the text.
pub fn read(role: Role, text: &str) -> Result<Named, Wrong<'_>> {
    read_among(|id| registry::find(role, id), text)
}

/// The same among the locks of one role that `find` knows by their ids.
///
/// # Errors
/// What is wrong with the text.
pub fn read_among(find: impl Fn(&str) -> Option<&'static Entry>, text: &str) -> Result<Named, Wrong<'_>> {
    let (id, rest) = text.split_once(':').map_or((text, None), |(id, rest)| (id, Some(rest)));
    let found = find(id).ok_or(Wrong::NoLock(id))?;
    let parts = || rest.into_iter().flat_map(|rest| rest.split(':'));
    let parameter_of =
        |entry: &'static Entry, key: &'_ str| entry.parameters.iter().find(|known| registry::is_alike(known.key, key));
    // First what makes the lock another one: the parameters are that one's.
    let mut entry = None;
    for (key, value) in parts().filter_map(|part| part.split_once('=')) {
        let Some((parameter, Values::Locks(values))) = parameter_of(found, key).map(|known| (known, known.values))
        else {
            continue;
        };
        let meant = values.iter().find(|(known, _)| registry::is_alike(known, value));
        let meant = meant.and_then(|(_, id)| find(id)).ok_or(Wrong::NoValue(parameter, value))?;
        if entry.replace(meant).is_some() {
            return Err(Wrong::Twice(parameter));
        }
    }
    let mut named = Named { entry: entry.unwrap_or(found), values: [None; MOST] };
    for part in parts() {
        let (key, value) = part.split_once('=').ok_or(Wrong::Form(part))?;
        if parameter_of(found, key).is_some_and(|known| known.setting().is_none()) {
            continue;
        }
        let mut all = named.entry.parameters.iter().zip(&mut named.values);
        let known = all.find(|(known, _)| registry::is_alike(known.key, key));
        let (parameter, place) = known.ok_or(Wrong::NoParameter(named.entry, key))?;
        let number = parameter.read(value).ok_or(Wrong::NoValue(parameter, value))?;
        if place.replace(number).is_some() {
            return Err(Wrong::Twice(parameter));
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::*;
    use std::string::ToString;

    fn wrong(text: &str) -> std::string::String {
        read(Role::Mutex, text).expect_err(text).to_string()
    }

    #[test]
    fn parameters_follow_the_id() {
        for (text, id, window) in [
            ("futex", "futex", None),
            ("MCS-spin", "mcs_spin", None),
            ("asl", "asl", None),
            ("asl:fifo=mcs-spin", "asl", None),
            ("ASL:Fifo=TICKET", "asl-ticket", None),
            ("asl:max_window=500us:fifo=futex", "asl-blocking", Some(500_000)),
            ("asl-cna:max-window=0", "asl-cna", Some(0)),
        ] {
            let named = read(Role::Mutex, text).expect(text);
            assert_eq!(
                (named.entry.info.id, named.value(Setting::MaxWindow), named.is_plain()),
                (id, window, window.is_none())
            );
            let again = named.to_string();
            assert_eq!(read(Role::Mutex, &again).expect(text).to_string(), again);
        }
        assert_eq!(read(Role::Mutex, "asl:fifo=cna:max-window=1ms").unwrap().to_string(), "asl-cna:max-window=1ms");
    }

    #[test]
    fn one_value_is_written_in_one_way() {
        for (given, shown) in [
            ("asl:max-window=1000us", "asl:max-window=1ms"),
            ("asl:max-window=0.001s", "asl:max-window=1ms"),
            ("asl:max-window=1001us", "asl:max-window=1001us"),
            ("asl:max-window=1500ns", "asl:max-window=1500ns"),
            ("asl:max-window=120s", "asl:max-window=2m"),
            ("asl:max-window=90s", "asl:max-window=90s"),
            ("asl:max-window=60m", "asl:max-window=1h"),
            ("asl:max-window=0ms", "asl:max-window=0"),
            ("cna:threshold=0255", "cna:threshold=255"),
            ("cna:threshold=+255", "cna:threshold=255"),
            ("cna:threshold=65535", "cna:threshold=65535"),
            ("cna-opt:shuffle=3:threshold=255", "cna-opt:threshold=255:shuffle=3"),
        ] {
            let named = read(Role::Mutex, given).expect(given);
            assert_eq!(named.to_string(), shown);
            let again = read(Role::Mutex, shown).expect(shown);
            assert_eq!(again.to_string(), shown);
            assert!(again.settings().eq(named.settings()), "{given}");
        }
    }

    #[test]
    fn a_value_that_is_the_default_makes_no_other_lock() {
        let same = |one, other| {
            let [one, other] = [one, other].map(|text| read(Role::Mutex, text).expect(text));
            assert_eq!(one.is_same_as(&other), other.is_same_as(&one));
            one.is_same_as(&other)
        };
        assert!(
            same("cna", "cna") && same("cna", "CNA:threshold=65535") && same("cna:threshold=9", "cna:threshold=09")
        );
        assert!(same("asl:max-window=100ms:fifo=cna", "asl-cna"));
        assert!(!same("cna", "cna:threshold=9") && !same("cna", "cna-opt") && !same("mcs_stp", "mcs_stp:spin=500"));
    }

    #[test]
    fn locks_of_one_process_agree_on_the_parameters_that_they_share() {
        let clash = |one, other| {
            let [one, other] = [one, other].map(|text| read(Role::Mutex, text).expect(text));
            let key = one.clash(&other).map(|parameter| parameter.key);
            assert_eq!(key, other.clash(&one).map(|parameter| parameter.key));
            key
        };
        assert_eq!(clash("cna:threshold=9", "cna:threshold=9"), None);
        assert_eq!(clash("cna:threshold=9", "cna:threshold=8"), Some("threshold"));
        assert_eq!(clash("cna:threshold=9", "cna"), Some("threshold"));
        assert_eq!(clash("cna:threshold=65535", "cna"), None);
        assert_eq!(clash("cna:threshold=9", "cna-opt"), Some("threshold"));
        assert_eq!(clash("cna:threshold=9", "futex"), None);
        assert_eq!(clash("mcs_stp:spin=5", "malth_stp"), Some("spin"));
        assert_eq!(clash("mcs_stp", "malth_stp"), None);
    }

    #[test]
    fn nonsense_is_refused_with_what_would_do() {
        assert!(matches!(read(Role::RwLock, "asl"), Err(Wrong::NoLock("asl"))));
        assert!(matches!(read(Role::Mutex, ":fifo=cna"), Err(Wrong::NoLock(""))));
        assert_eq!(wrong("ttas:batch=5"), "ttas has no parameter 'batch', nor any other");
        for wrong_number in ["0", "-1", "4294967296", "1.5", ""] {
            let text = std::format!("cna:threshold={wrong_number}");
            assert_eq!(
                wrong(&text),
                std::format!("threshold={wrong_number}: give a number of hand-offs from 1 to 1000000000")
            );
        }
        assert_eq!(wrong("asl:window=5ms"), "asl has no parameter 'window'; it has fifo max-window");
        assert_eq!(wrong("asl:fifo=hmcs"), "fifo=hmcs: give one of mcs_spin ticket cna futex");
        assert_eq!(wrong("asl:max-window=5"), "max-window=5: give a time with its unit, as in 1ms");
        assert_eq!(wrong("asl:fifo"), "'fifo' is not KEY=VALUE");
        assert_eq!(wrong("asl:"), "'' is not KEY=VALUE");
        assert_eq!(wrong("asl:fifo=cna:fifo=cna"), "fifo is given twice");
        assert_eq!(wrong("asl:max-window=1s:max-window=1s"), "max-window is given twice");
    }

    #[test]
    fn only_waiters_that_sleep_after_a_measured_time_ask_how_long_to_spin() {
        for (lock, asks) in
            [("mcs_stp", true), ("malth_stp", true), ("mcs_stp:spin=9", false), ("mcs_spin", false), ("gcr", false)]
        {
            assert_eq!(read(Role::Mutex, lock).unwrap().asks_how_long_to_spin(), asks, "{lock}");
        }
        for (lock, asks) in [
            ("shfllock-rw", true),
            ("cohort-rw", true),
            ("cohort-rw:patience=9", true),
            ("cohort-rw:spin=9", false),
            ("phase-fair", false),
            ("rw-futex", false),
            ("bravo", false),
            ("pthread", false),
        ] {
            assert_eq!(read(Role::RwLock, lock).unwrap().asks_how_long_to_spin(), asks, "{lock}");
        }
    }
}
