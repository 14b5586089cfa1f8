//! What is chosen for the locks of a program.

use lockswap_locks::registry::PTHREAD;
use serde::Serialize;

use crate::profile::{condition, Condition, Profile, Rule};
use crate::suspect::{Kind, Suspect};

/// What a lock is chosen for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Some mutexes.
    Mutex(Condition),
    /// All mutexes: one that nobody can tell from others is among them.
    AllMutexes,
    /// All read-write locks: a process has one lock for them.
    RwLocks,
}

impl Target {
    /// What to choose a lock for so that this lock gets it; nothing for spinlocks.
    pub fn of(suspect: &Suspect) -> Option<Self> {
        match suspect.kind {
            Kind::Mutex => Some(condition(suspect).map_or(Target::AllMutexes, Target::Mutex)),
            Kind::RwLock => Some(Target::RwLocks),
            Kind::Spinlock => None,
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Mutex(condition) => condition.fmt(f),
            Target::AllMutexes => f.write_str("all mutexes"),
            Target::RwLocks => f.write_str("all rwlocks"),
        }
    }
}

/// A lock for each mutex, and one for read-write locks; what is not chosen stays glibc's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Choices {
    profile: Profile,
    /// For all mutexes to which no rule applies.
    mutexes: Option<String>,
    /// For read-write locks.
    rwlocks: Option<String>,
}

impl Choices {
    /// One lock for all mutexes, and one for read-write locks; the default of `lockswap run` where there is none.
    pub fn single(mutexes: &str, rwlocks: Option<&str>) -> Self {
        let rwlocks = rwlocks.unwrap_or(lockswap_locks::registry::Role::RwLock.default_id());
        Self { mutexes: Some(mutexes.into()), rwlocks: Some(rwlocks.into()), ..Self::default() }
    }

    /// The same with a lock for a target.
    pub fn with(&self, target: &Target, lock: &str) -> Self {
        let lock = lock.to_owned();
        match target {
            Target::Mutex(condition) => {
                let rule = Rule { condition: condition.clone(), lock, about: Vec::new() };
                Self { profile: self.profile.with(rule), ..self.clone() }
            }
            Target::AllMutexes => Self { mutexes: Some(lock), ..self.clone() },
            Target::RwLocks => Self { rwlocks: Some(lock), ..self.clone() },
        }
    }

    /// Whether nothing is chosen.
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The rules of the profile.
    pub fn rules(&self) -> &[Rule] {
        &self.profile.rules
    }

    /// The profile, if some mutexes have a lock of their own.
    pub fn profile(&self) -> Option<&Profile> {
        Some(&self.profile).filter(|profile| !profile.rules.is_empty())
    }

    /// The lock of mutexes to which no rule applies.
    pub fn mutexes(&self) -> &str {
        self.mutexes.as_deref().unwrap_or(PTHREAD)
    }

    /// The lock of read-write locks.
    pub fn rwlocks(&self) -> &str {
        self.rwlocks.as_deref().unwrap_or(PTHREAD)
    }

    /// The file for the profile, with what is to be said of it and of each rule.
    pub fn text(&self, about: Vec<String>, of_rule: impl Fn(&Rule) -> Vec<String>) -> String {
        let rules = self.rules().iter().map(|rule| Rule { about: of_rule(rule), ..rule.clone() });
        Profile { about, rules: rules.collect() }.text_with(self.mutexes())
    }

    /// What a single choice is called in tables.
    pub fn words(&self) -> String {
        match (&self.mutexes, &self.rwlocks) {
            (Some(lock), Some(rwlock)) if rwlock != lockswap_locks::registry::Role::RwLock.default_id() => {
                format!("{lock}+{rwlock}")
            }
            (Some(lock), _) => lock.clone(),
            (None, _) => PTHREAD.into(),
        }
    }

    /// The options of `lockswap run` for them; `file`: where the profile lies.
    pub fn options(&self, file: &str) -> Vec<String> {
        // With glibc's mutexes besides the rules, rwlocks and spinlocks stay glibc's, too.
        let mut options = vec!["--lock".into(), self.mutexes().into()];
        if self.profile().is_some() {
            options.extend(["--profile".into(), file.into()]);
        }
        if self.rwlocks() != PTHREAD || self.mutexes() != PTHREAD {
            options.extend(["--rwlock".into(), self.rwlocks().into()]);
        }
        options
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str) -> Target {
        Target::Mutex(Condition::Symbol { symbol: name.into(), module: None })
    }

    #[test]
    fn choices_are_options_of_run() {
        let plain = Choices::default();
        assert!(plain.is_plain() && plain.profile().is_none());
        let one = plain.with(&symbol("hot"), "ticket");
        assert_eq!(one.options("p.toml"), ["--lock", "pthread", "--profile", "p.toml"]);
        let both = one.with(&Target::RwLocks, "bravo");
        assert_eq!(both.options("p.toml"), ["--lock", "pthread", "--profile", "p.toml", "--rwlock", "bravo"]);
        let rwlocks = plain.with(&Target::RwLocks, "rw-futex");
        assert_eq!(rwlocks.options("p.toml"), ["--lock", "pthread", "--rwlock", "rw-futex"]);
        assert!(rwlocks.profile().is_none() && !rwlocks.is_plain());
        assert_eq!(Choices::single("mcs_stp", None).options(""), ["--lock", "mcs_stp", "--rwlock", "rw-futex"]);
        assert_eq!(Choices::single("mcs_stp", Some("bravo")).words(), "mcs_stp+bravo");
    }

    #[test]
    fn everything_else_stays_glibcs_unless_something_is_chosen() {
        let last = |choices: &Choices| {
            let table: toml::Table = choices.text(Vec::new(), |_| Vec::new()).parse().unwrap();
            table["mutex"].as_array().unwrap().last().unwrap()["lock"].as_str().unwrap().to_owned()
        };
        let one = Choices::default().with(&symbol("hot"), "ticket");
        assert_eq!(last(&one), "pthread");
        assert_eq!(last(&one.with(&Target::AllMutexes, "futex")), "futex");
    }
}
