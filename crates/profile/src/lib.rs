//! Profiles: which lock each mutex of a program gets (`docs/profile.md`).
//!
//! The command reads a profile to refuse a bad one before the program starts, the preload library to follow it. So
//! nothing here allocates: what was read refers to the text. [`read`] reads the rules, [`names`] compares names of
//! symbols with those in rules.
#![no_std]

pub mod names;
mod problem;
mod read;

pub use problem::{Problem, What};
pub use read::{read, tokens, Token};

use lockswap_locks::named::Named;
use lockswap_locks::parameters::Parameter;
use lockswap_locks::registry;

/// The version of the format that is known here.
pub const VERSION: u32 = 1;

/// Rules of a profile at most.
pub const MOST_RULES: usize = 256;

/// Different locks of a process at most, the one of mutexes to which no rule applies included; those of glibc do not
/// count.
pub const MOST_LOCKS: usize = 8;

/// The kind of a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `PTHREAD_MUTEX_NORMAL`, the default, and C++'s `std::mutex`.
    Normal,
    /// `PTHREAD_MUTEX_RECURSIVE`, `std::recursive_mutex`.
    Recursive,
    /// `PTHREAD_MUTEX_ERRORCHECK`.
    ErrorCheck,
    /// `PTHREAD_MUTEX_ADAPTIVE_NP`.
    Adaptive,
}

impl Kind {
    /// All of them, and how profiles name them.
    pub const ALL: [(&'static str, Kind); 4] = [
        ("normal", Kind::Normal),
        ("recursive", Kind::Recursive),
        ("errorcheck", Kind::ErrorCheck),
        ("adaptive", Kind::Adaptive),
    ];
}

/// What a mutex runs on.
#[derive(Clone, Copy, Debug)]
pub enum Lock {
    /// It stays glibc's; of the adaptive kind, if it is of the default one and this says so (`pthreadadapt`).
    Glibcs {
        /// Whether the kind is changed.
        adaptive: bool,
    },
    /// A lock of the catalogue.
    Ours(Named),
}

/// A place in a program: `MODULE+OFFSET`, or `MODULE+OFFSET-OFFSET`, the second of which is not part of the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    /// The module's file name, or its path.
    pub module: &'a str,
    /// The address in the module's file, as `nm` and `objdump` show it.
    pub begin: u64,
    /// The first address behind the place.
    pub end: u64,
}

/// A rule: a mutex to which all its conditions apply gets the lock.
#[derive(Clone, Copy, Debug)]
pub struct Rule<'a> {
    /// The line of the profile where it begins, from 1.
    pub line: usize,
    /// A static variable in which the mutex lies.
    pub symbol: Option<&'a str>,
    /// A function in which, or in what it called, the mutex was initialised or first locked.
    pub function: Option<&'a str>,
    /// The module in which the symbol or the function is, or which has made that call.
    pub module: Option<&'a str>,
    /// Where the mutex lies, or where it was initialised or first locked, or what has done that was called:
    /// [`places`].
    pub at: Option<&'a str>,
    /// The same as a line of the source, `FILE:LINE`. The command puts `at` in its place.
    pub source: Option<(&'a str, u32)>,
    /// The kind of the mutex.
    pub kind: Option<Kind>,
    /// What the mutex gets.
    pub lock: Lock,
    /// The lock as it was written.
    pub lock_text: &'a str,
    /// The program gives mutexes this lock itself (`lockswap_mutex_choose`): the rule applies to none.
    pub is_chosen: bool,
}

impl Rule<'_> {
    /// The lock, unless it is glibc's.
    pub fn named(&self) -> Option<Named> {
        match self.lock {
            Lock::Ours(named) => Some(named),
            Lock::Glibcs { .. } => None,
        }
    }

    /// Whether it takes every mutex.
    pub fn is_for_all(&self) -> bool {
        self.is_for_a_kind() && self.kind.is_none() && !self.is_chosen
    }

    /// Whether it asks nothing but the kind.
    fn is_for_a_kind(&self) -> bool {
        let Rule { symbol, function, module, at, source, .. } = self;
        [symbol, function, module, at].iter().all(|condition| condition.is_none()) && source.is_none()
    }

    /// Whether it asks who has initialised the mutex, or locked it first.
    pub fn asks_for_callers(&self) -> bool {
        self.function.is_some() || self.at.is_some() || self.module.is_some() && self.symbol.is_none()
    }
}

/// The places in the value of `at`: one, or several with blanks between them; nothing where a text is no place.
pub fn places(text: &str) -> impl Iterator<Item = Option<Place<'_>>> {
    text.split_ascii_whitespace().map(|text| {
        let (module, offset) = text.rsplit_once('+')?;
        let number = |text: &str| match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let (begin, end) = match offset.split_once('-') {
            Some((begin, end)) => (number(begin)?, number(end)?),
            None => (number(offset)?, number(offset)?.checked_add(1)?),
        };
        (!module.is_empty() && begin < end).then_some(Place { module, begin, end })
    })
}

/// The locks of a process with these rules, each once, glibc's own left out; first the one of mutexes to which no rule
/// applies.
pub fn locks<'a>(rules: &'a [Rule<'_>], otherwise: &'a Named) -> impl Iterator<Item = Named> + 'a {
    let otherwise = (!registry::is_glibcs(otherwise.entry.info.id)).then_some(*otherwise);
    let of_rules = rules.iter().filter_map(Rule::named);
    let all = move || otherwise.into_iter().chain(of_rules.clone());
    all().enumerate().filter_map(move |(index, lock)| {
        let is_new = !all().take(index).any(|earlier| core::ptr::eq(earlier.entry, lock.entry));
        is_new.then_some(lock)
    })
}

/// Two locks of a process that would have to agree on a parameter and do not, because it has one value in a process.
#[derive(Clone, Copy, Debug)]
pub struct Clash<'a> {
    /// The rule whose lock is one of them.
    pub rule: &'a Rule<'a>,
    /// The rule of the other one; nothing if that is the lock of mutexes to which no rule applies.
    pub other: Option<&'a Rule<'a>>,
    /// The parameter.
    pub parameter: &'static Parameter,
}

/// The first such two among the rules' locks and the one of everything else.
pub fn clash<'a>(rules: &'a [Rule<'a>], otherwise: &Named) -> Option<Clash<'a>> {
    let takes_all = rules.iter().any(Rule::is_for_all);
    rules.iter().enumerate().find_map(|(index, rule)| {
        let lock = rule.named()?;
        let earlier = rules[..index].iter();
        let with_earlier = || earlier.clone().find_map(|other| Some((Some(other), other.named()?.clash(&lock)?)));
        let with_default = || otherwise.clash(&lock).filter(|_| !takes_all).map(|parameter| (None, parameter));
        let (other, parameter) = with_earlier().or_else(with_default)?;
        Some(Clash { rule, other, parameter })
    })
}

impl core::fmt::Display for Clash<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let Clash { rule, other, parameter } = self;
        write!(f, "'{}' (line {}) and ", rule.lock_text, rule.line)?;
        match other {
            Some(other) => write!(f, "'{}' (line {})", other.lock_text, other.line)?,
            None => f.write_str("the lock of all other mutexes")?,
        }
        write!(f, " disagree on {0}, which has one value in a process: give both the same {0}", parameter.key)
    }
}
