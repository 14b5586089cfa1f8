//! `lockswap bench profile`: what it costs that mutexes get their locks by a profile.

use super::{locks, single, Common};
use crate::error::UserError;
use crate::profile::VARIABLE;
use crate::selection::{INTERPOSED, PLAIN};
use lockswap_experiment::hardware::single::{changed, Part};
use lockswap_locks::named::{self, Named};
use lockswap_locks::registry::Role;
use std::process::ExitCode;
use std::{fs, ptr};

/// Measures each lock for all mutexes, and by a profile of two locks.
pub fn run(common: &Common) -> anyhow::Result<ExitCode> {
    let mut locks =
        locks(Role::Mutex, &common.lock, &[INTERPOSED], &["auto", "futex", "mcs_stp", "cna", "shfllock-b"])?;
    // Without the library there are no profiles.
    locks.retain(|lock| lock != PLAIN);
    let folder = tempfile::tempdir()
        .map_err(|error| UserError::new(format!("no folder for profiles: {error}"), "set TMPDIR to one with room"))?;
    let file = |lock: &str| folder.path().join(format!("{lock}.toml"));
    for lock in &locks {
        fs::write(file(lock), text(lock)).map_err(|error| {
            UserError::new(
                format!("cannot write {}: {error}", file(lock).display()),
                "set TMPDIR to a folder with room",
            )
        })?;
    }
    let variable = |lock: &str| (VARIABLE.into(), Some(file(lock).into_os_string()));
    single::measure(common, Part::Profile, changed(&locks, "profile", variable))
}

/// A profile that gives the lock to the mutexes that are measured, and another one to mutexes that are not there.
fn text(lock: &str) -> String {
    let differs = |one: &Named, other: &Named| !ptr::eq(one.entry, other.entry) && one.clash(other).is_none();
    let own = named::read(Role::Mutex, lock).ok();
    let fits =
        |other: &str| own.zip(named::read(Role::Mutex, other).ok()).is_some_and(|(own, other)| differs(&own, &other));
    let other = ["futex", "mcs_stp", "k42"].into_iter().find(|other| fits(other)).unwrap_or(INTERPOSED);
    format!("version = 1\n[[mutex]]\nkind = \"recursive\"\nlock = \"{other}\"\n[[mutex]]\nlock = \"{lock}\"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_has_two_locks_that_agree_on_their_parameters() {
        let other = |lock: &str| {
            let text = text(lock);
            let profile: toml::Table = text.parse().unwrap();
            assert_eq!(profile["mutex"][1]["lock"].as_str(), Some(lock));
            profile["mutex"][0]["lock"].as_str().unwrap().to_owned()
        };
        assert_eq!(
            (other("auto").as_str(), other("futex").as_str(), other(INTERPOSED).as_str()),
            ("futex", "mcs_stp", "futex")
        );
        // Both have `longest`, and both have `spin`.
        assert_eq!((other("mutexee:longest=5").as_str(), other("clh_stp:spin=5").as_str()), ("mcs_stp", "futex"));
    }
}
