//! Which value of a word is the newest: what C11 says and loom does not know.

use super::awaits;
use super::threads::virtual_cpu;
use lockswap_platform::Ordering;
use std::cell::RefCell;
use std::collections::BTreeMap;

thread_local! {
    /// Words that a SeqCst access has written to in this execution.
    static SEQUENTIAL: RefCell<Vec<usize>> = RefCell::default();
    /// Words that an exchange has written to last, with what it wrote and the threads that have seen that, as bits.
    static EXCHANGED: RefCell<BTreeMap<usize, (usize, u32)>> = RefCell::default();
}

/// An execution begins.
pub fn forget() {
    SEQUENTIAL.take();
    EXCHANGED.take();
}

/// Notes that an exchange has written `value` to `word`.
pub fn note_exchange<T>(word: &T, value: usize) {
    EXCHANGED.with_borrow_mut(|words| words.insert((&raw const *word).addr(), (value, 1 << virtual_cpu())));
}

/// Notes that the calling thread has read `value` in `word`.
pub fn note_read<T>(word: &T, value: usize) {
    EXCHANGED.with_borrow_mut(|words| {
        if let Some((_, seen)) = words.get_mut(&(&raw const *word).addr()).filter(|(written, _)| *written == value) {
            *seen |= 1 << virtual_cpu();
        }
    });
}

/// Notes that a store has written to `word`. An exchange follows directly what it has read, so that a store that comes
/// after the one comes after the other, too. Loom knows that only if this thread has seen the exchange.
pub fn note_store<T>(word: &T) {
    let exchanged = EXCHANGED.with_borrow_mut(|words| words.remove(&(&raw const *word).addr()));
    if exchanged.is_some_and(|(_, seen)| seen & 1 << virtual_cpu() == 0) {
        awaits::distrust();
    }
    awaits::note_change();
}

/// Notes that an access with this order has written to `word`.
pub fn note_write<T>(word: &T, order: Ordering) {
    if order == Ordering::SeqCst {
        SEQUENTIAL.with_borrow_mut(|words| words.push((&raw const *word).addr()));
    }
}

/// Whether a load with this order has to see the last write. Loom takes SeqCst for AcqRel. What C11 adds to that is
/// here the rule that a SeqCst load of a word to which SeqCst accesses have written sees the newest value: none older
/// than the last of these writes would be right, so that no correct lock fails, though an execution is missing if
/// there was a weaker write after that. A word that no SeqCst access has written to is loaded like any other.
pub fn reads_in_sequence<T>(word: &T, order: Ordering) -> bool {
    order == Ordering::SeqCst && SEQUENTIAL.with_borrow(|words| words.contains(&(&raw const *word).addr()))
}
