//! Parameters of locks at run time. They are written behind a lock's name: `ID:KEY=VALUE[:KEY=VALUE]`, as in
//! `asl:fifo=ticket:max-window=500us`.

use crate::registry::{self, Entry, Role};
use core::fmt;
use lockswap_platform::{parse_duration, Ns};

/// What a lock lets its users choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub key: &'static str,
    /// What it takes.
    pub values: Values,
    /// The value where none is given.
    pub default: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
}

/// What a parameter takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these, each of which makes the lock another one of the catalogue: the value, and the id of that lock.
    Locks(&'static [(&'static str, &'static str)]),
    /// A time of at most an hour, with its unit.
    Time,
}

const MAX_WINDOW: Parameter = Parameter {
    key: "max-window",
    values: Values::Time,
    default: "100ms",
    summary: "longest time that a thread on a little core stands back, outside epochs with a target",
};

const FIFO: Parameter = Parameter {
    key: "fifo",
    values: Values::Locks(&[
        ("mcs_spin", "asl"),
        ("ticket", "asl-ticket"),
        ("cna", "asl-cna"),
        ("futex", "asl-blocking"),
    ]),
    default: "mcs_spin",
    summary: "lock below, which serves those who do not stand back",
};

/// The parameters of the mutex lock of this id.
pub fn of(id: &str) -> &'static [Parameter] {
    match id {
        "asl" => &[FIFO, MAX_WINDOW],
        "asl-ticket" | "asl-cna" | "asl-blocking" => &[MAX_WINDOW],
        _ => &[],
    }
}

/// No lock has more times among its parameters.
const MOST_TIMES: usize = 1;

/// A lock with values for some of its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Named<'a> {
    /// The lock.
    pub entry: &'static Entry,
    /// The key of each time that is given, its value, and how that was written.
    times: [Option<(&'static str, Ns, &'a str)>; MOST_TIMES],
}

impl Named<'_> {
    /// The time that is given for this parameter, ns.
    pub fn time(&self, key: &str) -> Option<Ns> {
        self.times.iter().flatten().find(|(given, ..)| *given == key).map(|(_, ns, _)| *ns)
    }

    /// Whether no parameter has a value that is not part of the lock's id.
    pub fn is_plain(&self) -> bool {
        self.times.iter().all(Option::is_none)
    }
}

impl fmt::Display for Named<'_> {
    /// As [`read`] reads it; a value that makes the lock another one of the catalogue is part of the id.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry.info.id)?;
        self.times.iter().flatten().try_for_each(|(key, _, text)| write!(f, ":{key}={text}"))
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
                match of(entry.info.id) {
                    [] => write!(f, ", nor any other"),
                    some => {
                        f.write_str("; it has")?;
                        some.iter().try_for_each(|parameter| write!(f, " {}", parameter.key))
                    }
                }
            }
            Wrong::NoValue(parameter, value) => {
                write!(f, "{}={value}: give ", parameter.key)?;
                match parameter.values {
                    Values::Time => write!(f, "a time with its unit, as in {}", parameter.default),
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

/// Reads `ID[:KEY=VALUE...]`; ids and keys may have other capitals, and `-` in the place of `_` or the other way round.
///
/// # Errors
/// What is wrong with the text.
pub fn read(role: Role, text: &str) -> Result<Named<'_>, Wrong<'_>> {
    let mut parts = text.split(':');
    let id = parts.next().unwrap_or_default();
    let found = registry::find(role, id).ok_or(Wrong::NoLock(id))?;
    let known = if role == Role::Mutex { of(found.info.id) } else { &[] };
    let mut named = Named { entry: found, times: [None; MOST_TIMES] };
    let mut lock = None;
    for part in parts {
        let (key, value) = part.split_once('=').ok_or(Wrong::Form(part))?;
        let parameter = known.iter().find(|known| registry::is_alike(known.key, key));
        let parameter = parameter.ok_or(Wrong::NoParameter(found, key))?;
        match parameter.values {
            Values::Locks(values) => {
                let meant = values.iter().find(|(known, _)| registry::is_alike(known, value));
                let entry = meant.and_then(|(_, id)| registry::find(role, id));
                let entry = entry.ok_or(Wrong::NoValue(parameter, value))?;
                if lock.replace(entry).is_some() {
                    return Err(Wrong::Twice(parameter));
                }
            }
            Values::Time => {
                if named.time(parameter.key).is_some() {
                    return Err(Wrong::Twice(parameter));
                }
                let ns = parse_duration(value).ok_or(Wrong::NoValue(parameter, value))?;
                if let Some(free) = named.times.iter_mut().find(|time| time.is_none()) {
                    *free = Some((parameter.key, ns, value));
                }
            }
        }
    }
    named.entry = lock.unwrap_or(found);
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
                (named.entry.info.id, named.time("max-window"), named.is_plain()),
                (id, window, window.is_none())
            );
            let again = named.to_string();
            assert_eq!(read(Role::Mutex, &again).expect(text).to_string(), again);
        }
        assert_eq!(read(Role::Mutex, "asl:fifo=cna:max-window=1ms").unwrap().to_string(), "asl-cna:max-window=1ms");
    }

    #[test]
    fn nonsense_is_refused_with_what_would_do() {
        assert!(matches!(read(Role::RwLock, "asl"), Err(Wrong::NoLock("asl"))));
        assert!(matches!(read(Role::Mutex, ":fifo=cna"), Err(Wrong::NoLock(""))));
        assert_eq!(wrong("cna:threshold=5"), "cna has no parameter 'threshold', nor any other");
        assert_eq!(wrong("asl:window=5ms"), "asl has no parameter 'window'; it has fifo max-window");
        assert_eq!(wrong("asl:fifo=hmcs"), "fifo=hmcs: give one of mcs_spin ticket cna futex");
        assert_eq!(wrong("asl:max-window=5"), "max-window=5: give a time with its unit, as in 100ms");
        assert_eq!(wrong("asl:fifo"), "'fifo' is not KEY=VALUE");
        assert_eq!(wrong("asl:"), "'' is not KEY=VALUE");
        assert_eq!(wrong("asl:fifo=cna:fifo=cna"), "fifo is given twice");
        assert_eq!(wrong("asl:max-window=1s:max-window=1s"), "max-window is given twice");
    }

    /// Every lock that a value stands for is in the catalogue, and so is every lock that has parameters.
    #[test]
    fn parameters_are_those_of_the_catalogue() {
        for entry in registry::ENTRIES.iter().filter(|entry| entry.role == Role::Mutex) {
            let parameters = of(entry.info.id);
            let times = parameters.iter().filter(|parameter| parameter.values == Values::Time);
            assert!(times.count() <= MOST_TIMES);
            for parameter in parameters {
                match parameter.values {
                    Values::Time => assert!(parse_duration(parameter.default).is_some()),
                    Values::Locks(values) => {
                        assert!(values.iter().any(|(value, id)| *value == parameter.default && *id == entry.info.id));
                        assert!(values.iter().all(|(_, id)| registry::find(Role::Mutex, id).is_some()));
                    }
                }
            }
        }
    }
}
