//! Why a mutant that survives is wrong nevertheless, where somebody has found out.

use lockswap_check::mutation::Change;

/// What is known about one survivor.
pub struct Explained {
    /// Path from the workspace's root.
    pub file: &'static str,
    /// The source line, without what is around it.
    pub source: &'static str,
    /// What the mutant does.
    pub change: Change,
    /// Why no check catches it.
    pub why: &'static str,
}

/// All that is known.
pub const EXPLAINED: &[Explained] = &[];

/// Why `change` survives in `source` in `file`.
pub fn why(file: &str, source: &str, change: Change) -> Option<&'static str> {
    let found =
        EXPLAINED.iter().find(|known| known.file == file && known.change == change && source.contains(known.source));
    found.map(|known| known.why)
}
