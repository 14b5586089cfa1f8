//! Sanitizers of the compiler: programs that are linked with a runtime which watches them.

use crate::{Finding, Loaded};

/// A runtime that matters to a lock library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitizer {
    /// It must see every lock operation.
    Thread,
    /// It wants to be the first library of the program.
    Address,
}

impl Sanitizer {
    /// The runtime in one of the objects of a program, be it a library of its own or linked into them.
    pub fn of(objects: &[&Loaded]) -> Option<Self> {
        [Self::Thread, Self::Address].into_iter().find(|sanitizer| objects.iter().any(|o| sanitizer.is_in(o)))
    }

    fn is_in(self, object: &Loaded) -> bool {
        let (init, libraries) = match self {
            Self::Thread => ("__tsan_init", ["libtsan.so", "libclang_rt.tsan"]),
            Self::Address => ("__asan_init", ["libasan.so", "libclang_rt.asan"]),
        };
        let image = &object.image;
        let needs = |library: &str| image.needed.iter().any(|name| name.starts_with(library));
        image.markers.contains(init) || image.imports.contains(init) || libraries.into_iter().any(needs)
    }

    /// What it means for lockswap.
    pub fn check(self) -> Finding {
        const NAME: &str = "sanitizer";
        match self {
            Self::Thread => Finding::note(
                NAME,
                "ThreadSanitizer: lockswap stands aside, since ThreadSanitizer must see the locks",
                "build it without -fsanitize=thread to run it on other locks",
            ),
            Self::Address => Finding::ok(
                NAME,
                "AddressSanitizer: works; its shared runtime needs ASAN_OPTIONS=verify_asan_link_order=0, which \
                 'lockswap run' sets",
            ),
        }
    }
}
