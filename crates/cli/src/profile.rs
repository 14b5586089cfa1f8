//! `--profile`: a lock for each mutex.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

use lockswap_carry::Library;
use lockswap_locks::info::Asks;
use lockswap_locks::named::Named;
use lockswap_profile::{clash, locks, read, tokens, Kind, Rule, MOST_LOCKS, MOST_RULES, VERSION};
use lockswap_study::run_summary::RuleOf;
use lockswap_study::runner::find_in_path;
use lockswap_trace::lines::code_of_line;

use crate::error::{UserError, USAGE};

/// The variable that names the profile to the preload library.
pub const VARIABLE: &str = "LOCKSWAP_PROFILE";

/// The option.
#[derive(clap::Args)]
pub struct ProfileArgs {
    /// Gives each mutex a lock of its own, by the rules in this file (docs/profile.md); --lock is for all others
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
}

/// A profile that a program can follow.
pub struct Profile {
    path: PathBuf,
    /// What its rules say, for the summary.
    pub rules: Vec<RuleOf>,
    locks: Vec<Named>,
}

impl ProfileArgs {
    /// The profile that the command line names, else the environment, if one does. `otherwise` is the lock of mutexes
    /// to which no rule applies.
    pub fn read(&self, otherwise: &Named, program: &OsStr) -> Result<Option<Profile>, UserError> {
        let inherited = || std::env::var_os(VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
        self.profile.clone().or_else(inherited).map(|path| Profile::read(&path, otherwise, program)).transpose()
    }
}

impl Profile {
    fn read(path: &Path, otherwise: &Named, program: &OsStr) -> Result<Self, UserError> {
        let refused =
            |why: String, remedy: &str| UserError::new(format!("{}: {why}", path.display()), remedy).with_status(USAGE);
        let text = fs::read_to_string(path)
            .map_err(|error| refused(error.to_string(), "name a profile that you can read (docs/profile.md)"))?;
        let absolute = path.canonicalize().map_err(|error| refused(error.to_string(), "name a file"))?;
        let mut room = vec![MaybeUninit::uninit(); text.len() + 1];
        let mut places = vec![MaybeUninit::uninit(); MOST_RULES];
        let change = "change that line; docs/profile.md has the format";
        let tokens = tokens(&text, &mut room).ok_or_else(|| refused("too many parts".into(), change))?;
        let rules = read(&text, tokens, &mut places).map_err(|problem| refused(problem.to_string(), change))?;
        if let Some(clash) = clash(rules, otherwise) {
            return Err(refused(clash.to_string(), change));
        }
        let locks: Vec<Named> = locks(rules, otherwise).collect();
        if locks.len() > MOST_LOCKS {
            let what =
                format!("the rules and --lock name {} different locks, and a process has {MOST_LOCKS}", locks.len());
            return Err(refused(what, "give some mutexes the same lock, or pthread"));
        }
        let path = if rules.iter().any(|rule| rule.source.is_some()) {
            store(
                &with_places(rules, program)
                    .map_err(|why| refused(why, "name the function, or MODULE+OFFSET with at"))?,
            )?
        } else {
            absolute
        };
        Ok(Self { path, rules: rules.iter().map(in_words).collect(), locks })
    }

    /// What the environment of the program has that ours has not.
    pub fn variable(&self) -> (OsString, Option<OsString>) {
        (VARIABLE.into(), Some(self.path.clone().into()))
    }

    /// The locks of the program's mutexes, but for glibc's.
    pub fn locks(&self) -> &[Named] {
        &self.locks
    }

    /// What the locks ask about the CPUs that they run on.
    pub fn asks(&self) -> Asks {
        self.locks.iter().fold(Asks::default(), |asks, lock| asks.and(lock.entry.info.asks))
    }
}

/// The text of a profile with these rules, in which lines of the source have become places in modules.
fn with_places(rules: &[Rule<'_>], program: &OsStr) -> Result<String, String> {
    let mut text = format!("version = {VERSION}\n");
    let chosen: Vec<&str> = rules.iter().filter(|rule| rule.is_chosen).map(|rule| rule.lock_text).collect();
    text += &format!("locks = '{}'\n", chosen.join(" "));
    for rule in rules.iter().filter(|rule| !rule.is_chosen) {
        let Rule { line, symbol, function, module, mut at, source, kind, lock_text, .. } = *rule;
        let places = source.map(|(file, line)| places(module, program, file, line)).transpose();
        let places = places.map_err(|why| format!("line {line}: {why}"))?;
        if places.is_some() && at.is_some() {
            return Err(format!("line {line}: a rule has line or at, not both"));
        }
        at = places.as_deref().or(at);
        // The places have it.
        let module = module.filter(|_| source.is_none() || symbol.is_some() || function.is_some());
        let kind = kind.and_then(name_of);
        text += "[[mutex]]\n";
        let values = [
            ("symbol", symbol),
            ("function", function),
            ("module", module),
            ("at", at),
            ("kind", kind),
            ("lock", Some(lock_text)),
        ];
        for (key, value) in values.iter().filter_map(|(key, value)| Some((key, (*value)?))) {
            let quote = if value.contains('\'') { '"' } else { '\'' };
            text += &format!("{key} = {quote}{value}{quote}\n");
        }
    }
    Ok(text)
}

/// Where the code of a line lies, as `at` has it: in the module, which is a path, or else in the program.
fn places(module: Option<&str>, program: &OsStr, file: &str, line: u32) -> Result<String, String> {
    let program = find_in_path(program).and_then(|path| path.canonicalize().ok());
    let is_program = |path: &PathBuf| module.is_none_or(|module| path.file_name().is_some_and(|name| name == module));
    let path = match (program.filter(is_program), module) {
        (Some(program), _) => program,
        (None, Some(module)) if module.contains('/') => PathBuf::from(module),
        (None, Some(module)) => return Err(format!("{module} is not the program: give its path with module")),
        (None, None) => return Err("the program is not found".into()),
    };
    let name = path.file_name().and_then(OsStr::to_str).ok_or("the module's name is not UTF-8 text")?;
    let ranges = code_of_line(&path, file, line).map_err(|why| format!("{} {why}: {file}:{line}", path.display()))?;
    let places: Vec<String> =
        ranges.iter().map(|range| format!("{name}+{:#x}-{:#x}", range.start, range.end)).collect();
    Ok(places.join(" "))
}

/// Writes the text to a file that stays, since the program may start others; the same text to the same file.
fn store(text: &str) -> Result<PathBuf, UserError> {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    let file_name = format!("lockswap-profile-{:016x}.toml", hasher.finish()).into();
    Ok(Library { image: text.as_bytes().to_vec().into(), changes: Vec::new(), file_name }.unpack()?.path)
}

fn name_of(kind: Kind) -> Option<&'static str> {
    Kind::ALL.iter().find(|(_, known)| *known == kind).map(|(name, _)| *name)
}

/// A rule as the summary shows it.
fn in_words(rule: &Rule<'_>) -> RuleOf {
    let Rule { line, symbol, function, module, at, source, kind, lock_text, .. } = *rule;
    let source = source.map(|(file, line)| format!("{file}:{line}"));
    let kind = kind.and_then(name_of);
    let conditions = [
        ("symbol", symbol),
        ("function", function),
        ("module", module),
        ("at", at),
        ("line", source.as_deref()),
        ("kind", kind),
    ];
    let words: Vec<String> =
        conditions.iter().filter_map(|(key, value)| Some(format!("{key} {}", (*value)?))).collect();
    let conditions = if rule.is_chosen {
        "chosen by the program".into()
    } else if words.is_empty() {
        "everything else".into()
    } else {
        words.join(", ")
    };
    RuleOf { line, conditions, lock: lock_text.into() }
}
