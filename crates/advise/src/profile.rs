//! A lock for each mutex, as the file that `lockswap run --profile` reads.

use lockswap_locks::registry::PTHREAD;
use lockswap_trace::report::{Identity, Site};
use serde::Serialize;

use crate::suspect::Suspect;

/// Version of the file's form.
const VERSION: u32 = 1;

/// Which mutexes a rule is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Condition {
    /// A static one, or all in one variable.
    Symbol {
        /// The variable.
        symbol: String,
        /// The program or library in which it lies.
        module: Option<String>,
    },
    /// The static one at a place, where no symbol is known.
    At {
        /// The program or library, and the address in its file.
        at: String,
    },
    /// Those that are initialised, or first locked, in a function or in one that it called.
    Function {
        /// The function.
        function: String,
        /// The program or library in which it lies.
        module: Option<String>,
    },
}

/// Mutexes get a lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Rule {
    /// Which.
    pub condition: Condition,
    /// The lock.
    pub lock: String,
    /// Why, in lines.
    pub about: Vec<String>,
}

/// Rules in order: the first that matches decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Profile {
    /// Where it comes from, in lines.
    pub about: Vec<String>,
    /// The rules.
    pub rules: Vec<Rule>,
}

/// What users call the condition.
impl std::fmt::Display for Condition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Condition::Symbol { symbol, .. } => f.write_str(symbol),
            Condition::At { at } => f.write_str(at),
            Condition::Function { function, .. } => write!(f, "mutexes of {function}"),
        }
    }
}

/// The condition that finds a mutex again in another run; nothing where nobody knows enough of it.
pub fn condition(suspect: &Suspect) -> Option<Condition> {
    match &suspect.identity {
        Identity::Nothing => None,
        Identity::Symbol => Some(of_variable(&suspect.name, suspect.module.as_deref())),
        Identity::Initialised { functions } | Identity::Seen { functions } => {
            let named = || functions.iter().filter(|site| site.is_named && is_known_to_rules(&site.function));
            // A function that only initialises or locks says nothing of what the mutex is for: its caller does.
            let site = named().find(|site| !is_wrapper(&site.function)).or_else(|| named().next_back())?;
            let Site { function, module, .. } = site.clone();
            Some(Condition::Function { function, module })
        }
    }
}

/// `queue+0x40` lies in the variable `queue`, `server+0x1234` in the file `server`, whose variables have no names.
fn of_variable(name: &str, module: Option<&str>) -> Condition {
    let offset = |(variable, offset): (&str, &str)| offset.starts_with("0x").then(|| variable.to_owned());
    match name.rsplit_once('+').and_then(offset) {
        Some(file) if Some(file.as_str()) == module => Condition::At { at: name.to_owned() },
        variable => {
            Condition::Symbol { symbol: variable.unwrap_or_else(|| name.to_owned()), module: module.map(str::to_owned) }
        }
    }
}

/// Whether a rule finds a function by this name: those of lambdas, operators, and Rust's generic functions say nothing
/// to it.
fn is_known_to_rules(function: &str) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let is_operator = |part: &str| part.strip_prefix("operator").is_some_and(|rest| !rest.starts_with(is_word));
    !function.contains(['{', '\'', '"', '\\'])
        && !function.starts_with('<')
        && !function.contains("::<")
        && !function.split("::").any(is_operator)
}

/// Whether a function is a part of some lock's class, such as `std::mutex::lock` or `Mutex::Mutex`, which all mutexes
/// of a program may have in common.
fn is_wrapper(function: &str) -> bool {
    let name = function.split('(').next().unwrap_or(function);
    let of_library =
        ["std::", "__gthread", "boost::", "absl::", "folly::"].iter().any(|prefix| name.starts_with(prefix));
    // The class and the function: namespaces can be called anything.
    let mut parts = name.rsplit("::");
    let last = parts.next().unwrap_or_default().to_lowercase();
    let class = parts.next().unwrap_or_default().to_lowercase();
    let is_lock = |word: &str| ["mutex", "lock", "mtx", "guard"].iter().any(|lock| word.ends_with(lock));
    of_library || is_lock(&class) || (class.is_empty() && starts_or_ends_in_mutex(&last))
}

/// `mutex_init`, `my_mutex_lock`: functions of C that wrap the pthread functions.
fn starts_or_ends_in_mutex(function: &str) -> bool {
    function.contains("mutex") || function.contains("rwlock")
}

impl Profile {
    /// The same with one more rule at the end.
    pub fn with(&self, rule: Rule) -> Self {
        let mut changed = self.clone();
        changed.rules.push(rule);
        changed
    }

    /// The file's text; `otherwise` is the lock of mutexes to which no rule applies.
    pub fn text_with(&self, otherwise: &str) -> String {
        let mut text: String = self.about.iter().map(|line| comment(line)).collect();
        text += &format!("version = {VERSION}\n");
        for Rule { condition, lock, about } in &self.rules {
            text.push('\n');
            text.extend(about.iter().map(|line| comment(line)));
            text += "[[mutex]]\n";
            let (key, value, module) = match condition {
                Condition::Symbol { symbol, module } => ("symbol", symbol, module),
                Condition::At { at } => ("at", at, &None),
                Condition::Function { function, module } => ("function", function, module),
            };
            text += &entry(key, value);
            text += &module.as_ref().map(|module| entry("module", module)).unwrap_or_default();
            text += &entry("lock", lock);
        }
        let what = if otherwise == PTHREAD { "Everything else stays as it is." } else { "Everything else." };
        text += &format!("\n{}[[mutex]]\n", comment(what));
        text + &entry("lock", otherwise)
    }
}

fn comment(line: &str) -> String {
    // What a name holds must not begin another line.
    let line: String = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    format!("# {line}\n")
}

/// A key with a text. In single quotes nothing in the text has a meaning of its own, and the preload library takes no
/// escapes.
fn entry(key: &str, value: &str) -> String {
    let is_plain = !value.contains(['"', '\\']) && !value.chars().any(char::is_control);
    match (is_plain, value.contains('\'')) {
        (true, _) => format!("{key} = \"{value}\"\n"),
        (false, false) => format!("{key} = '{value}'\n"),
        (false, true) => format!("{key} = {}\n", toml::Value::String(value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::suspect::suspects;
    use crate::tests::{lock, report};

    fn suspect(identity: Identity) -> Suspect {
        let suspect = suspects(&report(vec![lock("hot", "mutex", 5e9)], 10_000_000_000)).remove(0);
        Suspect { identity, ..suspect }
    }

    fn site(function: &str, is_named: bool) -> Site {
        Site { function: function.into(), module: Some("libkc.so.16".into()), is_named }
    }

    fn function(functions: &[&str]) -> Option<String> {
        let functions = functions.iter().map(|name| site(name, true)).collect();
        match condition(&suspect(Identity::Initialised { functions })) {
            Some(Condition::Function { function, module }) if module.as_deref() == Some("libkc.so.16") => {
                Some(function)
            }
            _ => None,
        }
    }

    #[test]
    fn static_mutexes_are_known_by_their_symbol() {
        let found = condition(&suspect(Identity::Symbol));
        assert_eq!(found, Some(Condition::Symbol { symbol: "hot".into(), module: Some("program".into()) }));
        assert_eq!(condition(&suspect(Identity::Nothing)), None);
        let symbol = |symbol: &str| Condition::Symbol { symbol: symbol.into(), module: Some("server".into()) };
        assert_eq!(of_variable("queue+0x40", Some("server")), symbol("queue"));
        assert_eq!(of_variable("operator+", Some("server")), symbol("operator+"));
        assert_eq!(of_variable("server+0x40", Some("server")), Condition::At { at: "server+0x40".into() });
    }

    #[test]
    fn others_are_known_by_the_function_that_they_are_for() {
        let cache = ["kyotocabinet::RWLock::RWLock()", "kyotocabinet::CacheDB::CacheDB()"];
        assert_eq!(function(&cache).as_deref(), Some("kyotocabinet::CacheDB::CacheDB()"));
        assert_eq!(function(&["std::mutex::lock()", "Queue::push(int)"]).as_deref(), Some("Queue::push(int)"));
        assert_eq!(function(&["my_mutex_init", "new_queue"]).as_deref(), Some("new_queue"));
        assert_eq!(function(&["new_queue", "main"]).as_deref(), Some("new_queue"));
        // Better than nothing: no caller is known.
        assert_eq!(function(&["Mutex::Mutex()"]).as_deref(), Some("Mutex::Mutex()"));
        // A thread that begins in a lambda: its caller is a part of the library, and better than nothing.
        let lambda = "main::{lambda()#1}::operator()() const";
        assert_eq!(function(&[lambda, "start"]).as_deref(), Some("start"));
        for unknown in [lambda, "operator new(unsigned long)", "app::work::<u32>", "<app::Pool as Drop>::drop"] {
            assert_eq!(function(&[unknown]), None);
        }
        assert_eq!(
            function(&["(anonymous namespace)::operators"]).as_deref(),
            Some("(anonymous namespace)::operators")
        );
        let unnamed = Identity::Seen { functions: vec![site("program+0x123", false)] };
        assert_eq!(condition(&suspect(unnamed)), None);
    }

    #[test]
    fn the_file_says_where_it_comes_from_and_is_read_back() {
        let condition = Condition::Function { function: "f \"<int>\"\\(x)".into(), module: None };
        let hot = Condition::Symbol { symbol: "hot".into(), module: Some("server".into()) };
        let rule =
            |condition, lock: &str| Rule { condition, lock: lock.into(), about: vec!["why\nversion = 7".into()] };
        let profile = Profile { about: vec!["made by lockswap advise".into()], rules: Vec::new() };
        let profile = profile.with(rule(condition, "mcs_stp")).with(rule(hot, "cna:threshold=9"));
        let text = profile.text_with(PTHREAD);
        assert!(text.starts_with("# made by lockswap advise\nversion = 1\n"), "{text}");
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["version"].as_integer(), Some(1));
        let of = |index: usize, key: &str| table["mutex"][index].get(key).and_then(|value| value.as_str());
        assert_eq!((of(0, "function"), of(0, "lock")), (Some("f \"<int>\"\\(x)"), Some("mcs_stp")));
        assert_eq!((of(1, "symbol"), of(1, "module")), (Some("hot"), Some("server")));
        assert_eq!((of(2, "lock"), of(2, "symbol"), of(2, "function")), (Some("pthread"), None, None));
        assert_eq!(table["mutex"].as_array().unwrap().len(), 3);
    }
}
