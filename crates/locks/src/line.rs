//! A cache line of its own.

use core::ops::Deref;

/// A value that shares its cache line with nothing else.
#[repr(C, align(64))]
pub struct Line<T>(pub T);

impl<T> Deref for Line<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}
