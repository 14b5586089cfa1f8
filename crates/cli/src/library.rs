//! The preload library that travels inside the command.

use std::process::Command;

use lockswap_carry::{seccomp, Library, NoFolder, Unpacked};
use lockswap_experiment::hardware::child;

use crate::error::UserError;

pub use lockswap_carry::FILE_PREFIX;

/// The library, as `build.rs` built it.
pub const EMBEDDED: Library = Library {
    image: include_bytes!(env!("LOCKSWAP_EMBEDDED")),
    file_name: concat!("liblockswap-", env!("LOCKSWAP_EMBEDDED_HASH"), ".so"),
};

/// Unpacks the library to the first folder that is fit for it.
pub fn unpack() -> Result<Unpacked, UserError> {
    EMBEDDED.unpack().map_err(UserError::from)
}

impl From<NoFolder> for UserError {
    fn from(error: NoFolder) -> Self {
        UserError::new(error.to_string(), error.remedy())
    }
}

/// The value of `LOCKSWAP_YIELD` for programs started from here, see [`seccomp::yields`].
pub fn yields() -> Option<Option<String>> {
    seccomp::yields(|| {
        let mut attempt = Command::new(std::env::current_exe()?);
        attempt.arg(child::YIELD);
        Ok(attempt)
    })
}
