//! The lock functions that the preload library replaces, as its own table of symbols tells.

use std::collections::BTreeSet;

use crate::Image;

/// How the functions of each kind of object begin. Some have a second name in glibc, with two underscores before it.
const OBJECTS: [&str; 6] = ["pthread_mutex_", "pthread_cond_", "pthread_rwlock_", "pthread_spin_", "mtx_", "cnd_"];

/// The functions.
pub struct Replaced {
    names: BTreeSet<String>,
}

impl Replaced {
    /// The lock functions that `library` exports.
    pub fn by(library: &Image) -> Self {
        Self { names: library.exports.iter().filter(|name| prefix(name).is_some()).cloned().collect() }
    }

    /// Whether the function of this name is one of them.
    pub fn holds(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Those that `image` imports.
    pub fn imported(&self, image: &Image) -> Vec<String> {
        self.names.intersection(&image.imports).cloned().collect()
    }
}

/// `pthread_mutex_{lock,unlock}` for people.
pub fn grouped(symbols: &[String]) -> String {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for symbol in symbols {
        let prefix = prefix(symbol).unwrap_or_default();
        let name = &symbol[prefix.len()..];
        match groups.last_mut() {
            Some((last, names)) if *last == prefix => names.push(name),
            _ => groups.push((prefix, vec![name])),
        }
    }
    let words = groups.into_iter().map(|(prefix, names)| match names[..] {
        [one] => format!("{prefix}{one}"),
        _ => format!("{prefix}{{{}}}", names.join(",")),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The part of a lock function's name that says what it works on.
fn prefix(name: &str) -> Option<&str> {
    let underscores = name.len() - name.strip_prefix("__").unwrap_or(name).len();
    let object = OBJECTS.into_iter().find(|object| name[underscores..].starts_with(object))?;
    Some(&name[..underscores + object.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_grouped_by_what_they_work_on() {
        let of = |names: &[&str]| grouped(&names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(
            of(&["cnd_wait", "pthread_mutex_lock", "pthread_mutex_unlock"]),
            "cnd_wait, pthread_mutex_{lock,unlock}"
        );
        assert_eq!(of(&["__pthread_mutex_lock"]), "__pthread_mutex_lock");
    }
}
