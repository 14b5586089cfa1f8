//! What is wrong with a profile, in words.

use crate::{Kind, MOST_RULES, VERSION};
use core::fmt::{self, Write as _};
use lockswap_locks::named::Wrong;
use lockswap_locks::nearest::nearest;
use lockswap_locks::registry::{self, Role};
use toml_parser::ParseError;

/// Why a text is no profile. Shown with the line and with what to do.
#[derive(Clone, Debug)]
pub struct Problem<'a> {
    /// The line, from 1.
    pub line: usize,
    /// What it is.
    pub what: What<'a>,
}

/// What can be wrong with a profile.
#[derive(Clone, Debug)]
pub enum What<'a> {
    /// It is not TOML.
    Toml(ParseError),
    /// It does not say its version.
    NoVersion,
    /// It is of another version.
    Version(&'a str),
    /// A table that is not known.
    Table(&'a str),
    /// A key that is not known, in a rule or before the first one.
    Key(&'a str),
    /// A key that has two values.
    Twice(&'a str),
    /// A value that is not a text.
    NoText(&'a str),
    /// A text with escapes.
    Escapes(&'a str),
    /// A condition that no mutex can meet.
    Empty(&'a str),
    /// No place in a module.
    Place(&'a str),
    /// No line of a source.
    Line(&'a str),
    /// No kind of mutexes.
    Kind(&'a str),
    /// No lock.
    Lock(&'a str, Wrong<'a>),
    /// A rule without a lock.
    NoLock,
    /// A rule behind one that takes every mutex.
    Behind(usize),
    /// Too many rules.
    Rules,
}

/// The keys of a rule.
pub const KEYS: [&str; 7] = ["symbol", "function", "module", "at", "line", "kind", "lock"];

impl fmt::Display for Problem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Visible { f, room: MOST_SHOWN }, "line {}: {}", self.line, self.what)
    }
}

/// Characters of a problem that are shown: the parts of the profile that it quotes may be of any length.
const MOST_SHOWN: usize = 400;

/// Passes on so many characters, control characters left out, with which a profile could steer the terminal.
struct Visible<'f, 'a> {
    f: &'f mut fmt::Formatter<'a>,
    room: usize,
}

impl fmt::Write for Visible<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars().filter(|character| !character.is_control()) {
            let Some(room) = self.room.checked_sub(1) else { break };
            self.room = room;
            self.f.write_char(character)?;
        }
        Ok(())
    }
}

impl fmt::Display for What<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Toml(error) => {
                write!(f, "not TOML: {}", error.description())?;
                let expected = error.expected().unwrap_or_default().iter();
                expected.enumerate().try_for_each(|(index, expected)| {
                    f.write_str(if index == 0 { "; expected " } else { " or " })?;
                    match expected {
                        toml_parser::Expected::Literal(text) => write!(f, "'{}'", text.escape_default()),
                        toml_parser::Expected::Description(text) => f.write_str(text),
                        _ => f.write_str("something else"),
                    }
                })
            }
            What::NoVersion => write!(f, "the profile does not say its version: begin it with 'version = {VERSION}'"),
            What::Version(version) => match version.parse::<u32>() {
                Ok(number) if number > VERSION => write!(
                    f,
                    "the profile is of version {version}, and this lockswap knows version {VERSION}: use a newer lockswap"
                ),
                _ => write!(f, "'{version}' is no version: write 'version = {VERSION}'"),
            },
            What::Table(name) => write!(f, "'{name}' is not known here: rules begin with '[[mutex]]'"),
            What::Key(key) => {
                write!(f, "'{key}' is not known here")?;
                let meant = nearest(key, KEYS);
                if meant.is_empty() {
                    f.write_str("; a rule has")?;
                    KEYS.iter().try_for_each(|key| write!(f, " {key}"))
                } else {
                    write!(f, ": {meant}")
                }
            }
            What::Twice(key) => write!(f, "{key} has two values in this rule: write two rules"),
            What::NoText(key) => write!(f, "the value of {key} is no text: write {key} = \"...\""),
            What::Escapes(key) => write!(f, "the value of {key} has escapes, which are not read: write {key} = '...'"),
            What::Empty(key) => write!(f, "{key} is empty, and no mutex is that: leave it out, or name one"),
            What::Place(text) => write!(f, "at = '{text}' is not MODULE+OFFSET, for instance libfoo.so+0x1234"),
            What::Line(text) => write!(f, "line = '{text}' is not FILE:LINE, for instance cache.cc:210"),
            What::Kind(text) => {
                write!(f, "there is no kind '{text}'; there is")?;
                Kind::ALL.iter().try_for_each(|(name, _)| write!(f, " {name}"))
            }
            What::Lock(_, Wrong::NoLock(id)) => {
                let meant = nearest(id, registry::ids(Role::Mutex));
                let blank = if meant.is_empty() { "" } else { " " };
                write!(f, "there is no mutex lock '{id}'; {meant}{blank}'lockswap list' shows all")
            }
            What::Lock(text, wrong) => write!(f, "lock = '{text}': {wrong}"),
            What::NoLock => f.write_str("this rule gives no lock: add lock = \"...\""),
            What::Behind(line) => write!(
                f,
                "no mutex comes to this rule, because the one in line {line} takes all: put that last"
            ),
            What::Rules => write!(f, "there are more than {MOST_RULES} rules, which is the most that is read"),
        }
    }
}
