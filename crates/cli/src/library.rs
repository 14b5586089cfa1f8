//! The preload library that travels inside the command.

use std::borrow::Cow;
use std::io;
use std::process::Command;
use std::sync::OnceLock;

use lockswap_carry::{seccomp, Library, NoFolder, Unpacked};
use lockswap_experiment::hardware::child;

use crate::error::UserError;

pub use lockswap_carry::FILE_PREFIX;

/// The library, as `build/main.rs` built it.
pub static EMBEDDED: Library = Library {
    image: Cow::Borrowed(include_bytes!(env!("LOCKSWAP_EMBEDDED"))),
    changes: Vec::new(),
    file_name: Cow::Borrowed(concat!("liblockswap-", env!("LOCKSWAP_EMBEDDED_HASH"), ".so")),
};

/// What makes the library's symbols lead to the functions of one lock directly.
struct Direct {
    /// Where in the image the entries of the symbols are: for each function the places of what describes it.
    entries: [&'static [usize]; 3],
    /// The id of each lock, and what describes its functions: address and size.
    locks: &'static [(&'static str, [[u8; 16]; 3])],
}

static DIRECT: Direct = include!(concat!(env!("OUT_DIR"), "/direct.rs"));

/// Unpacks the library to the first folder that is fit for it.
pub fn unpack() -> Result<Unpacked, UserError> {
    EMBEDDED.unpack().map_err(UserError::from)
}

/// The same for a program whose mutexes run on the lock with this id: in this file calls of the mutex functions lead
/// to those of the lock, and save a jump. With any other lock it works as well.
pub fn unpack_for(lock: &str) -> Result<Unpacked, UserError> {
    match direct(lock) {
        Some(library) => library.unpack().map_err(UserError::from),
        None => unpack(),
    }
}

fn direct(lock: &str) -> Option<Library> {
    let (_, functions) = DIRECT.locks.iter().find(|(id, _)| *id == lock)?;
    let symbols = DIRECT.entries.iter().zip(functions);
    let changes = symbols.flat_map(|(entries, function)| entries.iter().map(|entry| (*entry, *function))).collect();
    let file_name = EMBEDDED.file_name.replace(".so", &format!("-{lock}.so")).into();
    Some(Library { image: Cow::Borrowed(&EMBEDDED.image), changes, file_name })
}

impl From<NoFolder> for UserError {
    fn from(error: NoFolder) -> Self {
        UserError::new(error.to_string(), error.remedy())
    }
}

/// The value of `LOCKSWAP_YIELD` for programs started from here, see [`seccomp::filters`].
pub fn yields() -> Option<Option<String>> {
    static FOUND: OnceLock<Option<Option<String>>> = OnceLock::new();
    FOUND.get_or_init(|| seccomp::filters(|| attempt(child::YIELD))).clone()
}

/// That of `LOCKSWAP_MEMBARRIER`.
pub fn settles() -> Option<Option<String>> {
    static FOUND: OnceLock<Option<Option<String>>> = OnceLock::new();
    FOUND.get_or_init(|| seccomp::filters(|| attempt(child::SETTLE))).clone()
}

/// This program, to make a system call.
fn attempt(subcommand: &str) -> io::Result<Command> {
    let mut attempt = Command::new(std::env::current_exe()?);
    attempt.arg(subcommand);
    Ok(attempt)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use lockswap_locks::registry::{ids, is_glibcs, Role};

    use super::{direct, DIRECT, EMBEDDED};

    #[test]
    fn each_lock_has_functions_that_symbols_lead_to() {
        assert!(DIRECT.entries.iter().all(|entries| !entries.is_empty()));
        let all: HashSet<String> = ids(Role::Mutex)
            .filter(|id| !is_glibcs(id))
            .map(|id| {
                let library = direct(id).unwrap_or_else(|| panic!("{id} has none"));
                assert!(library.image == EMBEDDED.image, "{id}");
                assert_eq!(library.changes.len(), DIRECT.entries.concat().len(), "{id}");
                for (place, bytes) in library.changes {
                    assert!(EMBEDDED.image[place..place + 16] != bytes, "{id}: nothing changes at {place}");
                }
                library.file_name.into()
            })
            .collect();
        assert_eq!(all.len(), DIRECT.locks.len());
        assert!(direct("interposed-pthread").is_none() && direct("pthread").is_none());
    }
}
