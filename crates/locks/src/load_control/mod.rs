//! Locks that set some waiters aside, so that fewer compete.

pub mod gcr;
