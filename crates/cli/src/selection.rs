//! Which locks a program runs on, and the environment that makes it so.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::OnceLock;

use lockswap_catalogue::option;
use lockswap_locks::info::Asks;
use lockswap_locks::named::{self, Named, Wrong};
use lockswap_locks::parameters::SPINS_BEFORE_PARK;
use lockswap_locks::registry::{self, Role};
use lockswap_machine::costs::sleep::Sleep;
use lockswap_sim::kernel;

use lockswap_workloads::invalid;

use crate::error::{UserError, USAGE};
use crate::library;

/// The baseline without the preload library.
pub const PLAIN: &str = "pthread";

/// The baseline with the preload library, which forwards every call to glibc.
pub const INTERPOSED: &str = "interposed-pthread";

/// The choice of locks for one program, each as [`named`] gives it. What is `None` is left to the preload library's
/// default.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Lock for mutexes.
    pub lock: Option<String>,
    /// Lock for rwlocks.
    pub rwlock: Option<String>,
    /// Lock for spinlocks.
    pub spin: Option<String>,
}

impl Selection {
    /// The locks that these ids name, however they are spelt.
    pub fn named(lock: Option<String>, rwlock: Option<String>, spin: Option<String>) -> Result<Self, UserError> {
        let find = |role, id: Option<String>| -> Result<Option<String>, UserError> {
            id.map(|id| named(role, &id)).transpose()
        };
        Ok(Self { lock: find(Role::Mutex, lock)?, rwlock: find(Role::RwLock, rwlock)?, spin: find(Role::Spin, spin)? })
    }

    /// Refuses ids that are not in the registry.
    pub fn check(&self) -> Result<(), UserError> {
        let roles = [(Role::Mutex, &self.lock), (Role::RwLock, &self.rwlock), (Role::Spin, &self.spin)];
        roles
            .into_iter()
            .filter_map(|(role, id)| Some((role, id.as_deref()?)))
            .try_for_each(|(r, id)| named(r, id).map(|_| ()))
    }

    /// Whether the program runs without the preload library: nothing but glibc's locks are asked for.
    pub fn is_plain(&self) -> bool {
        let glibc = |id: &Option<String>| id.as_deref().is_none_or(|id| id == PLAIN);
        self.lock.as_deref() == Some(PLAIN) && glibc(&self.rwlock) && glibc(&self.spin)
    }

    /// The locks that the program gets, for mutexes, rwlocks and spinlocks: those chosen here, else in the
    /// environment, else the library's defaults.
    pub fn ids(&self) -> [String; 3] {
        let plain = self.is_plain();
        let id = |role, chosen: &Option<String>, variable: &str, default: &str| {
            let given = match chosen {
                Some(id) => id.clone(),
                None if plain => PLAIN.into(),
                None => env::var(variable).ok().filter(|v| !v.is_empty()).unwrap_or_else(|| default.into()),
            };
            named::read(role, &given).map_or_else(|_| given.clone(), |named| named.to_string())
        };
        let [lock, rwlock, spin] = VARIABLES;
        let lock = id(Role::Mutex, &self.lock, lock, Role::Mutex.default_id());
        // As the library chooses when it is told nothing.
        let default = |role: Role| if registry::is_glibcs(&lock) { PLAIN } else { role.default_id() };
        let rwlock = id(Role::RwLock, &self.rwlock, rwlock, default(Role::RwLock));
        let spin = id(Role::Spin, &self.spin, spin, default(Role::Spin));
        [lock, rwlock, spin]
    }

    /// What the locks ask about the CPUs that they run on.
    pub fn asks(&self) -> Asks {
        let entries = [Role::Mutex, Role::RwLock, Role::Spin].into_iter().zip(self.ids());
        entries.fold(Asks::default(), |asks, (role, lock)| {
            named::read(role, &lock).map_or(asks, |named| asks.and(named.entry.info.asks))
        })
    }

    /// What the environment of the program has that ours has not; `None` removes a variable.
    pub fn environment(&self) -> Result<Vec<(OsString, Option<OsString>)>, UserError> {
        let inherited = without_ours(&env::var_os("LD_PRELOAD").unwrap_or_default());
        let value = |id: &Option<String>| id.as_ref().map(OsString::from);
        let mut envs: Vec<(OsString, Option<OsString>)> = Vec::new();
        if self.is_plain() {
            envs.push(("LD_PRELOAD".into(), Some(inherited).filter(|v| !v.is_empty())));
            envs.extend(VARIABLES.map(|name| (name.into(), None)));
            return Ok(envs);
        }
        let [lock, rwlock, _] = self.ids();
        let id = named::read(Role::Mutex, &lock).map_or("", |named| named.entry.info.id);
        let mut preload = library::unpack_for(id)?.path.into_os_string();
        if !inherited.is_empty() {
            preload.push(":");
            preload.push(inherited);
        }
        envs.push(("LD_PRELOAD".into(), Some(preload)));
        envs.push(("ASAN_OPTIONS".into(), Some(asan_options(env::var_os("ASAN_OPTIONS").unwrap_or_default()))));
        for (name, filters) in [("LOCKSWAP_YIELD", library::yields()), ("LOCKSWAP_MEMBARRIER", library::settles())] {
            envs.extend(filters.map(|filters| (name.into(), filters.map(Into::into))));
        }
        envs.extend(spins_before_park([(Role::Mutex, lock.as_str()), (Role::RwLock, rwlock.as_str())]));
        // An id that the command line does not name may come from the environment, as it would without the command.
        for (name, id) in VARIABLES.into_iter().zip([&self.lock, &self.rwlock, &self.spin]) {
            if id.is_some() {
                envs.push((name.into(), value(id)));
            }
        }
        Ok(envs)
    }
}

/// The variable that tells a process how many looks of a waiter last as long as a round trip through a sleep, if one
/// of these locks asks that and the environment does not say it yet. Measured once; nothing where that is not
/// possible.
pub fn spins_before_park<'a>(locks: impl IntoIterator<Item = (Role, &'a str)>) -> Option<(OsString, Option<OsString>)> {
    static MEASURED: OnceLock<Option<u32>> = OnceLock::new();
    let asks = |(role, lock)| named::read(role, lock).is_ok_and(|named| named.asks_how_long_to_spin());
    if env::var_os(SPINS_BEFORE_PARK).is_some_and(|given| !given.is_empty()) || !locks.into_iter().any(asks) {
        return None;
    }
    // A filter of system calls may kill for those of the measurement.
    let measure = || library::yields().is_none().then(Sleep::here)?.ok().flatten().map(|sleep| sleep.looks());
    let looks = (*MEASURED.get_or_init(measure))?;
    Some((SPINS_BEFORE_PARK.into(), Some(looks.to_string().into())))
}

/// The library's variables for the three kinds of locks.
pub const VARIABLES: [&str; 3] = ["LOCKSWAP_LOCK", "LOCKSWAP_RWLOCK", "LOCKSWAP_SPIN"];

/// The lock that `text` names in this role, with its parameters, as the preload library reads it.
pub fn named(role: Role, text: &str) -> Result<String, UserError> {
    read(role, text.trim()).map(|named| named.to_string())
}

/// The locks that these texts name in this role, each lock once: of several names for it the first stays.
pub fn all_named<T: AsRef<str>>(role: Role, texts: impl IntoIterator<Item = T>) -> Result<Vec<String>, UserError> {
    each_once(texts, |text| read(role, text))
}

/// The same of locks that can be simulated.
pub fn all_simulated<T: AsRef<str>>(role: Role, texts: impl IntoIterator<Item = T>) -> Result<Vec<String>, UserError> {
    each_once(texts, |text| read_simulated(role, text))
}

/// The lock that can be simulated and that `text` names in this role.
pub fn read_simulated(role: Role, text: &str) -> Result<Named, UserError> {
    lockswap_sim::read_lock(role, text).map_err(|wrong| {
        let Wrong::NoLock(id) = wrong else { return not_read(&wrong, text) };
        let of_kernel = kernel::ENTRIES.iter().filter(|entry| entry.role == role).map(|entry| entry.info.id);
        let what = format!("there is no {} lock '{id}' to simulate", role.name());
        no_such_lock(what, id, lockswap_sim::locks(role).chain(of_kernel))
    })
}

fn each_once<T: AsRef<str>>(
    texts: impl IntoIterator<Item = T>,
    read: impl Fn(&str) -> Result<Named, UserError>,
) -> Result<Vec<String>, UserError> {
    let mut locks: Vec<Named> = Vec::new();
    for text in texts {
        let lock = read(text.as_ref().trim())?;
        if !locks.iter().any(|known| known.is_same_as(&lock)) {
            locks.push(lock);
        }
    }
    Ok(locks.iter().map(Named::to_string).collect())
}

/// The same as [`named`], with what is known of the lock.
pub fn read(role: Role, text: &str) -> Result<Named, UserError> {
    named::read(role, text).map_err(|wrong| {
        let Wrong::NoLock(id) = wrong else { return not_read(&wrong, text) };
        let other =
            [Role::Mutex, Role::RwLock, Role::Spin].into_iter().find(|role| registry::find(*role, id).is_some());
        match other {
            Some(other) => {
                let what = format!("there is no {} lock '{id}', but a {} lock of that name", role.name(), other.name());
                UserError::new(what, format!("write {} {id}, or choose another one; {SHOWS_ALL}", option(other)))
                    .with_status(USAGE)
            }
            None => no_such_lock(format!("there is no {} lock '{id}'", role.name()), id, registry::ids(role)),
        }
    })
}

/// The error that the parameters in `text` cannot be used.
fn not_read(wrong: &Wrong<'_>, text: &str) -> UserError {
    let remedy = format!("'lockswap list {}' shows its parameters", text.split(':').next().unwrap_or_default());
    UserError::new(wrong.to_string(), remedy).with_status(USAGE)
}

const SHOWS_ALL: &str = "'lockswap list' shows all";

/// The error that `id` is none of those that are `known`.
pub fn no_such_lock<'a>(what: String, id: &str, known: impl IntoIterator<Item = &'a str>) -> UserError {
    let guess = invalid::did_you_mean(id, known).map_or(String::new(), |guess| format!("{guess} "));
    UserError::new(what, guess + SHOWS_ALL).with_status(USAGE)
}

/// The entries of an LD_PRELOAD value that are not an earlier lockswap's.
fn without_ours(value: &OsStr) -> OsString {
    let ours = |entry: &[u8]| {
        let name = Path::new(OsStr::from_bytes(entry)).file_name().unwrap_or_default();
        name == "liblockswap.so" || name.as_bytes().starts_with(library::FILE_PREFIX.as_bytes())
    };
    let entries = value.as_bytes().split(|b| b" :".contains(b)).filter(|e| !e.is_empty() && !ours(e));
    OsString::from_vec(entries.collect::<Vec<_>>().join(&b':'))
}

/// Lets AddressSanitizer's shared runtime start although a library is preloaded before it; no other program looks at
/// it.
///
/// Preloading that runtime itself would be the other way. But then it would be loaded into every child too, which it
/// would end with a status of its own for memory that it finds leaked there.
fn asan_options(mut options: OsString) -> OsString {
    const OPTION: &str = "verify_asan_link_order=0";
    if !options.as_bytes().ends_with(OPTION.as_bytes()) {
        if !options.is_empty() {
            options.push(":");
        }
        options.push(OPTION);
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn earlier_lockswaps_are_taken_out_of_ld_preload() {
        let of = |value: &str| without_ours(OsStr::new(value)).into_string().unwrap();
        assert_eq!(of("/x/liblockswap-0123.so:libjemalloc.so.2 /y/other.so"), "libjemalloc.so.2:/y/other.so");
        assert_eq!(of("/x/liblockswap.so"), "");
        assert_eq!(of("libmine.so"), "libmine.so");
    }

    #[test]
    fn options_of_address_sanitizer_stay() {
        let of = |value: &str| asan_options(value.into()).into_string().unwrap();
        assert_eq!(of(""), "verify_asan_link_order=0");
        assert_eq!(of("exitcode=5"), "exitcode=5:verify_asan_link_order=0");
        assert_eq!(of(&of("exitcode=5")), of("exitcode=5"));
    }

    #[test]
    fn only_glibc_everywhere_is_plain() {
        let select = |lock: Option<&str>, rwlock: Option<&str>| Selection {
            lock: lock.map(Into::into),
            rwlock: rwlock.map(Into::into),
            spin: None,
        };
        assert!(select(Some("pthread"), None).is_plain());
        assert!(select(Some("pthread"), Some("pthread")).is_plain());
        assert!(!select(Some("pthread"), Some("rw-futex")).is_plain());
        assert!(!select(None, None).is_plain());
        assert!(!select(Some(INTERPOSED), None).is_plain());
    }

    #[test]
    fn unknown_ids_are_refused_by_role() {
        assert_eq!(named(Role::Mutex, "FUTEX ").unwrap(), "futex");
        assert!(named(Role::RwLock, "futex").is_err());
        assert!(named(Role::Mutex, "nonsense").is_err());
    }

    #[test]
    fn parameters_belong_to_the_lock() {
        assert_eq!(named(Role::Mutex, "ASL:fifo=cna:max-window=1ms").unwrap(), "asl-cna:max-window=1ms");
        assert_eq!(named(Role::Mutex, "asl:fifo=cna").unwrap(), "asl-cna");
        assert!(named(Role::Mutex, "asl:max-window=1").unwrap_err().to_string().contains("max-window=1: give a time"));
        let all =
            all_named(Role::Mutex, ["cna", " CNA:threshold=9 ", "cna:threshold=09", "cna:threshold=65535"]).unwrap();
        assert_eq!(all, ["cna", "cna:threshold=9"]);
        let selection = Selection::named(Some("asl:max-window=1ms".into()), None, None).unwrap();
        assert!(selection.asks().kind && selection.ids()[0] == "asl:max-window=1ms");
    }
}
