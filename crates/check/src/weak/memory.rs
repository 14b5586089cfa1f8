//! When memory ends under loom: a lock that is destroyed, a node whose acquisition is over.
//!
//! Each word has a [`Token`], memory of loom's that every access to the word reads and the end of the word writes.
//! Loom finds a read of it that does not happen before the write, or the write before the read, whichever of them
//! comes first in this execution. An access that comes after the end, and does so in every execution, is found by its
//! address.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

/// The right to access a word, until its memory ends.
pub struct Token(loom::cell::UnsafeCell<()>);

// SAFETY: there is nothing in it.
unsafe impl Sync for Token {}

thread_local! {
    /// The tokens that have been used in this execution, by their addresses.
    static USED: RefCell<BTreeMap<usize, *const Token>> = RefCell::default();
    /// Memory that has ended in this execution.
    static ENDED: RefCell<Vec<Range<usize>>> = RefCell::default();
}

impl Token {
    /// The token of a word that begins to live.
    #[track_caller]
    pub fn new() -> Token {
        Token(loom::cell::UnsafeCell::new(()))
    }

    /// The word is about to be accessed.
    #[track_caller]
    pub fn access(&self) {
        let me = (&raw const *self).addr();
        let has_ended = ENDED.with_borrow(|ended| ended.iter().any(|range| range.contains(&me)));
        assert!(!has_ended, "an access to memory that is gone, at {}", std::panic::Location::caller());
        USED.with_borrow_mut(|used| used.insert(me, self));
        self.0.with(|_| ());
    }
}

/// An execution begins.
pub fn forget() {
    USED.take();
    ENDED.take();
}

/// The words in this memory must not be accessed any more. It stays where it is until the execution ends.
pub fn end(start: usize, bytes: usize) {
    let range = start..start + bytes;
    let tokens: Vec<_> = USED.with_borrow(|used| used.range(range.clone()).map(|(_, token)| *token).collect());
    for token in tokens {
        // SAFETY: the memory has not been freed, and its words do not move once they are accessed.
        unsafe { &*token }.0.with_mut(|_| ());
    }
    ENDED.with_borrow_mut(|ended| ended.push(range));
}
