//! A cache line of its own.

use core::ops::Deref;

/// A value that shares its cache line with nothing else.
///
/// Of 64 bytes, although a prefetcher may fetch the other line of an aligned pair, too (adjacent-line prefetch): locks
/// that keep a line for each group would take twice the memory, and a program may have a million of them.
#[repr(C, align(64))]
pub struct Line<T>(pub T);

impl<T> Deref for Line<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
